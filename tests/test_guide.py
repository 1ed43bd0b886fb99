"""The instructor's guide and the glossary say what the notebooks say: sections, minutes, cell ids, links."""

import json
import re
from pathlib import Path

import pytest

from course_utils.tools.run import chapters

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "INSTRUCTORS.md"
GLOSSARY = ROOT / "notebooks" / "GLOSSARY.md"  # beside the chapters, which link it
CHAPTERS = pytest.mark.parametrize("chapter", chapters([]), ids=lambda path: path.stem)


def cells(chapter: Path) -> list[dict]:
    found = json.loads(chapter.read_text("utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found]


def page(chapter: Path) -> str:
    """The guide's text on a chapter, from its heading to the next one."""
    pages = re.split(r"(?m)^## (?=\d\d · )", GUIDE.read_text("utf-8"))
    return next(text for text in pages if text.startswith(chapter.name[:2]))


@CHAPTERS
def test_sections_and_minutes_are_the_notebooks(chapter: Path) -> None:
    head = re.compile(r"## (\d+ · .*)\n+\*(Core|Optional), (\d+) minutes?")
    heads = [found for cell in cells(chapter) if (found := head.match(cell["source"]))]
    wanted = [(found[1] + " (optional)" * (found[2] == "Optional"), int(found[3])) for found in heads]
    rows = re.findall(r"(?m)^\| (\d+ · [^|]*?) \| (\d+) \|", page(chapter))
    assert [(name, int(minutes)) for name, minutes in rows] == wanted


@CHAPTERS
def test_a_chapters_core_takes_75_minutes_at_most(chapter: Path) -> None:
    text = "\n".join(cell["source"] for cell in cells(chapter) if cell["cell_type"] == "markdown")
    core = re.findall(r"(?m)^## .*\n+\*Core, (\d+) minutes?", text)
    assert 0 < sum(map(int, core)) <= 75


@CHAPTERS
def test_cells_that_the_guide_names_exist(chapter: Path) -> None:
    ids = {cell["id"] for cell in cells(chapter)}
    stems = {name.split("-")[0] for name in ids}
    named = re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", page(chapter))
    assert [name for name in named if name not in ids and name.split("-")[0] in stems] == []


@CHAPTERS
def test_every_exercise_has_a_line(chapter: Path) -> None:
    asked = re.findall(r'check\("(\d\d\.\d)"', "\n".join(cell["source"] for cell in cells(chapter)))
    exercises = page(chapter).split("**Exercises", 1)[1]
    assert [exercise for exercise in asked if exercise not in exercises] == []


def test_the_glossary_is_sorted_says_each_term_once_and_leads_to_chapters() -> None:
    text = GLOSSARY.read_text("utf-8")
    terms = re.findall(r"(?m)^### (.+)$", text)
    assert len(terms) > 100
    assert len({term.casefold() for term in terms}) == len(terms)
    entries = re.split(r"(?m)^### ", text)[1:]
    assert [entry[:40] for entry in entries if not re.search(r"\]\(\d\d_\w+\.ipynb", entry)] == []
    missing = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not (GLOSSARY.parent / link).is_file()]
    assert missing == []


def test_a_term_is_bold_in_one_place() -> None:
    """Where it is defined; there a reader who scans the chapters finds it."""
    terms = {term.casefold() for term in re.findall(r"(?m)^### (.+)$", GLOSSARY.read_text("utf-8"))}
    places: dict[str, list[str]] = {}
    for chapter in chapters([]):
        for cell in cells(chapter):
            if cell["cell_type"] == "markdown":
                for bold in re.findall(r"\*\*([^*\n]+)\*\*", cell["source"]):
                    places.setdefault(bold.casefold(), []).append(f"{chapter.stem[:2]} {cell['id']}")
    assert {term: places[term] for term in terms & set(places) if len(places[term]) > 1} == {}


@CHAPTERS
def test_every_chapter_links_the_glossary_where_it_begins(chapter: Path) -> None:
    assert "](GLOSSARY.md)" in cells(chapter)[0]["source"]
