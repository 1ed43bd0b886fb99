"""``python3 -m course_utils slides``: a chapter as a reveal deck that asks nothing of the network.

nbconvert makes the slides from the cells' slide types; reveal.js comes from the package sphinx-revealjs,
formulas become MathML, which browsers draw themselves, and ``deck.js`` divides slides that would overflow.
"""

import argparse
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from nbconvert.exporters import SlidesExporter
from nbformat import NotebookNode
from traitlets.config import Config

from course_utils.tools.run import ROOT, chapters, read

GUIDE = ROOT / "INSTRUCTORS.md"
TEMPLATE = Path(__file__).with_name("slides_template")
REVEAL = (
    Path(find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
)  # imported, it wants Sphinx
_CODE_OR_MATH = re.compile(
    r"(?s)(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?!\d)"
)
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\.(?:ipynb|md)\)")


def with_mathml(markdown: str) -> str:
    """``markdown`` with $...$ and $$...$$ outside of code as MathML."""

    def element(found: re.Match[str]) -> str:
        code, block, inline = found.groups()
        if code is not None:
            return code
        return convert(block or inline, display="block" if block else "inline")

    return _CODE_OR_MATH.sub(element, markdown)


def guide_notes(number: str, guide: str) -> dict[str, str]:
    """What the instructor's guide says of a chapter's sections and exercises, by heading, in Markdown."""
    pages = re.split(r"(?m)^## (?=\d\d · )", guide)
    page = next((page for page in pages if page.startswith(f"{number} · ")), "")
    notes = {}
    rows = re.findall(r"(?m)^\| (.+?) \| (\d+|–) \| (.+?) \| (.+?) \| (.+?) \|$", page)
    for section, minutes, show, ask, wrong in rows:
        time = "" if minutes == "–" else f"**{minutes} minutes.** "
        lines = [f"{time}Show: {show}", f"Ask: {ask}", f"They will say: {wrong}"]
        notes[section.removesuffix(" (optional)")] = "\n\n".join(lines)
    exercises = re.findall(r"(?ms)^- (\**(\d\d\.\d) .+?)(?=^- |\n\n|\Z)", page)
    return notes | {exercise: text for text, exercise in exercises}


def numbered(note: str, nb: NotebookNode) -> str:
    """``note`` with each cell's number, which JupyterLab shows, behind its id, which JupyterLab hides."""
    numbers = {cell.id: cell.execution_count for cell in nb.cells if cell.get("execution_count")}
    return re.sub(
        r"`([\w-]+)`", lambda at: at[0] + (f" (In [{numbers[at[1]]}])" if at[1] in numbers else ""), note
    )


def slides_of(nb: NotebookNode, notes: dict[str, str]) -> NotebookNode:
    """A copy of the notebook as a deck shows it: formulas as MathML, no widgets, no links to notebooks.

    ``notes`` are put behind the headings that they begin with, for the speaker alone.
    """
    deck = nbformat.from_dict(nb)
    deck.metadata.pop("widgets", None)
    cells = []
    for cell in deck.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            for heading in re.findall(r"(?m)^##+ (.+)", cell.source):
                if note := notes.get(heading) or notes.get(heading.split(" · ")[0]):
                    kind = {"slideshow": {"slide_type": "notes"}}
                    cells.append(nbformat.v4.new_markdown_cell(numbered(note, nb), metadata=kind))
            cell.source = with_mathml(_LINK.sub(r"\1", cell.source))
    deck.cells = cells
    return deck


def write(path: Path, folder: Path) -> Path:
    """Write the deck of the notebook at ``path`` into ``folder``, which is replaced; returns its page."""
    notes = guide_notes(path.name[:2], GUIDE.read_text("utf-8")) if GUIDE.exists() else {}
    config = Config()
    config.SlidesExporter.reveal_url_prefix, config.SlidesExporter.reveal_theme = "reveal", "white"
    config.TemplateExporter.extra_template_basedirs = [str(TEMPLATE.parent)]
    exporter = SlidesExporter(template_name=TEMPLATE.name, config=config)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = exporter.exclude_anchor_links = True
    page, _ = exporter.from_notebook_node(slides_of(read(path), notes))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part in (
        "dist/reveal.js",
        "dist/reveal.css",
        "dist/theme/white.css",
        "plugin/notes/notes.js",
        "LICENSE",
    ):
        target = folder / "reveal" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REVEAL / part, target)
    theme = folder / "reveal" / "dist" / "theme" / "white.css"
    theme.write_text(
        re.sub(r"@import url\([^)]*\);", "", theme.read_text("utf-8")), "utf-8"
    )  # fonts of its own
    for part in ("deck.css", "deck.js"):
        shutil.copy(TEMPLATE / part, folder)
    (folder / "index.html").write_text(page, "utf-8")
    return folder / "index.html"


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 the decks are written, 2 wrong arguments, or no notebook."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils slides", description="Write chapters as reveal decks, to build/slides/."
    )
    parser.add_argument("chapter", nargs="*", help="numbers or paths; all chapters if none is given")
    args = parser.parse_args(argv)
    try:
        paths = chapters(args.chapter)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for path in paths:
        name = path.name[:2] if path.name[:2].isdigit() else path.stem
        try:
            print(write(path, ROOT / "build" / "slides" / name))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
    print("Open a page in a browser; S shows the speaker's notes, ? the keys.")
    return 0
