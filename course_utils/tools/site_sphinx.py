"""How Sphinx makes the pages of the site: its settings, and the extension of it that this module is."""

import os
import re
from html import escape
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util import logging
from sphinx.util.docutils import docutils_namespace

from course_utils.tools.run import read

GUIDE = "INSTRUCTORS"  # the page that names cells by their ids
TEMPLATE = Path(__file__).with_name("site_template")
SETTINGS: dict[str, Any] = {  # of Sphinx
    "extensions": ["myst_nb", __name__],
    "language": "en",
    "nitpicky": True,
    "myst_enable_extensions": ["dollarmath"],
    "myst_dmath_allow_space": False,  # as notebooks and GitHub take a dollar sign
    "myst_dmath_allow_digits": False,
    "myst_dmath_double_inline": True,
    "myst_heading_anchors": 6,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "nb_ipywidgets_js": {},
    "nb_code_prompt_show": "Show the code",
    "nb_code_prompt_hide": "Hide the code",
    "highlight_language": "text",
    "templates_path": [str(TEMPLATE)],
    "html_theme": "pydata_sphinx_theme",
    "html_context": {"default_mode": "auto"},
    "html_theme_options": {
        "search_bar_text": "Search the course",
        "show_toc_level": 1,
        "shorten_urls": False,
        "navbar_center": [],
        "navbar_end": ["theme-switcher"],
        "article_header_start": [],
        "primary_sidebar_end": [],
        "secondary_sidebar_items": ["page-toc"],
        "footer_start": [],
        "footer_end": [],
    },
    "html_sidebars": {"**": ["sidebar-course.html"]},
    "html_static_path": [str(TEMPLATE / "static")],
    "html_css_files": ["site.css"],
    "html_js_files": ["site.js"],
    "html_favicon": str(TEMPLATE / "icon.svg"),
    "html_math_renderer": "mathml",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_use_index": False,
    "html_domain_indices": False,
}


def mathml(tex: str, block: bool = False) -> str:
    """A formula as MathML. Raises ValueError where latex2mathml would leave part of it as TeX."""
    try:
        text = convert(tex, display="block" if block else "inline")
        left = [part.text for part in ElementTree.fromstring(text).iter() if "\\" in (part.text or "")]
    except Exception as error:  # it raises whatever its parser happened to stumble over
        raise ValueError(f"no MathML for {tex!r}: {error}") from error
    if left:
        raise ValueError(f"no MathML for {left[0]} in {tex!r}")
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    """The extension of Sphinx that this module is."""
    app.add_config_value("course_alts", {}, "env", dict)
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math, None))
    app.connect("doctree-read", _complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _visit_math(translator: Any, node: nodes.Element) -> None:
    block = isinstance(node, nodes.math_block)
    try:
        text = mathml(node.astext(), block)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        text = ""
    tag = "div" if block else "span"
    translator.body.append(f"{translator.starttag(node, tag, '', CLASS='math')}{text}</{tag}>")
    raise nodes.SkipNode


def _complete(app: Sphinx, doctree: nodes.document) -> None:
    """Give a picture its alternative text and a box, and code the names by which other pages know it."""
    for picture in list(doctree.findall(nodes.image)):
        content = PurePosixPath(picture["uri"]).stem  # myst-nb names a file by the sha256 of what is in it
        if content in app.config.course_alts:
            picture["alt"] = app.config.course_alts[content]
            picture.replace_self(nodes.container("", picture.copy(), classes=["output"]))
    page = Path(app.env.doc2path(app.env.docname))
    if page.suffix == ".ipynb":
        _name_cells(doctree, read(page).cells)
    if app.env.docname == GUIDE:
        for section in doctree.findall(nodes.section):
            _link_cells(app, section)


def _name_cells(doctree: nodes.document, cells: list[NotebookNode]) -> None:
    """Show each cell's number, which reports of launch name, and its id, which the guide names."""
    for code in doctree.findall(nodes.container):
        if code.get("nb_element") == "cell_code_source":
            cell = code.parent
            name = cells[cell["cell_index"]].id
            cell["ids"].append(f"cell-{name}")
            number = f"In [{cell['exec_count']}] · " if cell["exec_count"] else ""
            label = f'<div class="cell-name">{number}{escape(name)}</div>'
            code.insert(0, nodes.raw("", label, format="html"))


def _link_cells(app: Sphinx, section: nodes.section) -> None:
    """Make a link of each id of a cell of the chapter that the guide's section is about."""
    number = re.match(r"\d\d(?= · )", section.next_node(nodes.title).astext())
    for page in Path(app.srcdir, "notebooks").glob(f"{number[0]}_*.ipynb") if number else ():
        ids = {cell.id for cell in read(page).cells if cell.cell_type == "code"}
        uri = app.builder.get_relative_uri(app.env.docname, f"notebooks/{page.stem}")
        for literal in list(section.findall(nodes.literal)):
            if (name := literal.astext()) in ids:
                link = nodes.reference("", "", literal.deepcopy(), refuri=f"{uri}#cell-{name}", internal=True)
                literal.replace_self(link)


def write_html(source: Path, html: Path, alts: dict[str, str]) -> list[str]:
    """Write the pages in ``source`` to ``html``; returns Sphinx's warnings.

    ``alts``: the alternative texts of the notebooks' pictures, by the sha256 of a picture.
    """
    title = re.search(r"(?m)^# (.+)", (source / "index.md").read_text("utf-8"))
    name = title[1] if title else "The course"
    settings = SETTINGS | {"project": name, "html_title": name, "course_alts": alts}
    folders = (source, None, html, source.parent / "doctrees")
    jobs, warnings = os.cpu_count() or 1, StringIO()
    try:
        with docutils_namespace():
            Sphinx(*folders, "html", settings, status=None, warning=warnings, parallel=jobs).build()
    except SphinxError as error:
        warnings.write(f"{error}\n")
    text = re.sub(r"\x1b\[[\d;]*m", "", warnings.getvalue()).replace(f"{source}{os.sep}", "")
    # myst-nb counts the lines of a notebook in ten thousands a cell
    text = re.sub(r"(\.ipynb):(\d+):", lambda at: f"{at[1]}, cell {int(at[2]) // 10000}:", text)
    return [line.replace(" WARNING:", "") for line in text.splitlines() if line.strip()]
