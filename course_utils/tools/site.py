"""``python3 -m course_utils site``: the whole course as static pages that ask nothing of the network.

Sphinx makes them of a copy of the notebooks, with their stored outputs (``site_sphinx``); then every link and
every picture in them is looked at (``site_check``). Nothing but build/ is written.
"""

import argparse
import base64
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from docutils.nodes import make_id
from nbformat import NotebookNode

from course_utils.tools.environment import locked
from course_utils.tools.run import ROOT, read
from course_utils.tools.site_check import check
from course_utils.tools.site_sphinx import write_html

_LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[#)\s])")  # the path in a Markdown link that is no address
_IMAGE = re.compile(r"!\[([^]]*)\]\(https?://[^)]*\)")  # a badge, say: its words do
_ROW = re.compile(
    r"(?m)^\| \*\*(?P<part>[^|*]+)\*\* \| \*\*(?P<name>[^|*]+)\*\*"
    r"|^\| \d+ \| \[[^]]*\]\((?P<page>[^)]+)\.ipynb\)"
)
_SCRIPTS = "notebooks/scripts"


class SiteError(RuntimeError):
    """The site can't be built so that everything in it works; ``problems`` has a line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def pages(root: Path) -> list[Path]:
    """What becomes a page, relative to ``root``: notebooks, and the texts beside the course."""
    patterns = ("*.md", "data/README.md", "notebooks/*.md", "notebooks/*.ipynb")
    return [path.relative_to(root) for pattern in patterns for path in sorted(root.glob(pattern))]


def contents(readme: str, found: list[str]) -> list[tuple[str, list[str]]]:
    """The navigation: captions with their pages, which are paths without a suffix.

    The parts and chapters are those of the README's table; all other pages in ``found`` follow.
    """
    parts: list[tuple[str, list[str]]] = []
    for row in _ROW.finditer(readme):
        if row["part"]:
            parts.append((f"{row['part']} · {row['name']}", []))
        elif parts:
            parts[-1][1].append(row["page"])
    listed = {page for _, chapters in parts for page in chapters}
    rest = [page for page in found if page not in listed and page != "index"]
    teaching = [page for page in rest if page in ("INSTRUCTORS", "CONTRIBUTING")]
    look_up = [page for page in rest if page not in teaching]
    look_up.sort(
        key=lambda page: (not page.endswith("GLOSSARY"), not page.startswith("notebooks/"), page == _SCRIPTS)
    )
    return [*parts, ("To look up", look_up), ("To teach", sorted(teaching, reverse=True))]


def prepare(root: Path, folder: Path) -> dict[str, str]:
    """Copy the pages, and the files that they link to, into ``folder``; returns alternative texts by picture.

    A picture's key is the sha256 of its content.
    """
    found, alts = pages(root), {}
    for page in found:
        target = folder / ("index.md" if page == Path("README.md") else page)
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".ipynb":
            nb = read(root / page)
            alts |= _adapt(nb)
            for cell in nb.cells:
                if cell.cell_type == "markdown":
                    cell.source = _relink(cell.source, page, root, folder)
            nbformat.write(nb, target)
        else:
            target.write_text(_relink((root / page).read_text("utf-8"), page, root, folder), "utf-8")
    names = [page.with_suffix("").as_posix() for page in found]
    if scripts := sorted(path for path in (root / _SCRIPTS).glob("*") if path.is_file()):
        (folder / f"{_SCRIPTS}.md").write_text(_scripts_page(scripts), "utf-8")
        shutil.copytree(root / _SCRIPTS, folder / _SCRIPTS, dirs_exist_ok=True)
        names.append(_SCRIPTS)
    readme = folder / "index.md"
    names.remove("README")
    text = readme.read_text("utf-8")
    for caption, below in contents(text, names):
        if below:
            text += "\n\n```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, "", *below, "```"])
    readme.write_text(text, "utf-8")
    return alts


def _adapt(nb: NotebookNode) -> dict[str, str]:
    """Fold hidden code by the tag that myst-nb knows; returns the pictures' alternative texts."""
    alts = {}
    nb.metadata.pop("title", None)
    nb.metadata.pop("widgets", None)
    for cell in nb.cells:
        tags = cell.metadata.get("tags", [])
        if cell.metadata.get("jupyter", {}).get("source_hidden") and "hide-input" not in tags:
            cell.metadata.tags = [*tags, "hide-input"]
        for output in cell.get("outputs", []):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if alt:
                content = base64.b64decode(output.data["image/png"])
                alts[hashlib.sha256(content).hexdigest()] = alt
    return alts


def _relink(text: str, page: Path, root: Path, folder: Path) -> str:
    """``text`` of a page with links that fit the site, no picture from elsewhere, and linked files copied."""

    def fitting(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(root / page.parent / found[0]))
        if not path.is_file() or not path.is_relative_to(root):
            return found[0]
        target = path.relative_to(root)
        up = os.path.relpath(root, root / page.parent)
        if target == Path("README.md"):
            return (Path(up) / "index.md").as_posix()
        if target.parent.as_posix() == _SCRIPTS:
            return f"{(Path(up) / _SCRIPTS).as_posix()}.md#{make_id(target.name)}"
        if target.suffix not in (".md", ".ipynb"):
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / target)
        return found[0]

    return _LINK.sub(fitting, _IMAGE.sub(r"\1", text))


def _scripts_page(scripts: list[Path]) -> str:
    lines = ["# Programs", "", "What chapters start outside of a notebook, as torchrun and sbatch take it."]
    for path in scripts:
        language = "python" if path.suffix == ".py" else "bash"
        code = path.read_text("utf-8").rstrip()
        lines += ["", f"## {path.name}", "", f"[Download](scripts/{path.name})", ""]
        lines += [f"````{language}", code, "````"]
    return "\n".join(lines) + "\n"


def build(root: Path, folder: Path) -> Path:
    """Write the site of the course at ``root`` into ``folder``, which is replaced; returns its first page.

    Raises SiteError, and leaves ``folder`` as it was, where Sphinx warns or a link leads nowhere.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=folder.parent) as name:
        scratch = Path(name).resolve()
        source, html = scratch / "source", scratch / "html"
        alts = prepare(root, source)
        warnings, broken = write_html(source, html, alts), []
        if html.is_dir():
            # of no use to readers: for debuggers, for Sphinx, a template of the theme
            for file in (*html.rglob("*.map"), *html.glob(".buildinfo*"), *html.glob("_static/*.html")):
                file.unlink()
            (html / ".nojekyll").write_text("")  # or GitHub's pages would leave out _static
            broken = check(html)
        # myst-parser misses anchors in plain HTML, which work: its word counts for pages with a broken link
        bad = {line.split(".html:")[0] for line in broken}
        warnings = [
            line
            for line in warnings
            if "[myst.xref_missing]" not in line or re.split(r"\.(?:ipynb|md)\b", line)[0] in bad
        ]
        if warnings or broken:
            raise SiteError(warnings + broken)
        if folder.exists():
            folder.rename(scratch / "before")
        html.rename(folder)
    return folder / "index.html"


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 the site is written, 1 something in it would not work."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils site",
        description="Write the whole course as static pages, to build/site/.",
    )
    parser.parse_args(argv)
    print("Making the pages; it takes half a minute or so.", flush=True)
    start = time.monotonic()
    folder = ROOT / "build" / "site"
    try:
        with locked(folder.with_suffix(".lock"), lambda _: print("Another run builds it; waiting for that.")):
            page = build(ROOT, folder)
    except SiteError as error:
        print(f"The site was not built. What is wrong in it:\n{error}", file=sys.stderr)
        return 1
    print(f"{page}  ({time.monotonic() - start:.0f} s)")
    print("Open it in a browser, put the folder on any web server, or serve it here:")
    print("python3 -m http.server --bind 127.0.0.1 -d build/site")
    return 0
