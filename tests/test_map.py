"""The map of the course, the last page of chapter 20: up to date, and fit for half-run copies of chapters."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from course_utils import datasets, drawing
from course_utils.tools.run import chapters

CHAPTERS = chapters([])[1:]  # 00 measures nothing
LAST = CHAPTERS[-1]


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf-8"))["cells"]


MAP = next(cell for cell in cells(LAST) if cell["id"] == "map-page")


def said(path: Path) -> list[str]:
    """The lines of a chapter's claims that hold, from its stored outputs; chapter 20's up to the map."""
    found = []
    for cell in cells(path):
        if cell["id"] == "map-page":
            break
        if "claim" in cell["metadata"].get("tags", ()):
            texts = [
                "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
                for output in cell["outputs"]
            ]
            found += [line.strip() for text in texts for line in text.splitlines() if ": True" in line]
    return found


def alike(line: str) -> str:
    """A pattern for a line of the map, which has no brackets, whatever was measured between them."""
    return ".*".join(map(re.escape, re.split(r"⟨[^⟩]*⟩", line)))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_stored_map_has_all_that_the_chapter_claims(chapter: Path) -> None:
    page = "".join(MAP["outputs"][0]["data"]["text/plain"])
    parts = {text[:2]: text for text in re.split(r"(?m)^(?=\d\d · )", page)}
    listed = [line for line in parts.get(chapter.name[:2], "").splitlines() if ": True" in line]
    claimed = said(chapter)
    lacking = [line for line in claimed if not any(re.fullmatch(alike(line), other) for other in listed)]
    assert lacking == [], "run: python3 -m course_utils refresh 20 --force"
    assert len(listed) == len(claimed) > 0, "the map has claims that the chapter no longer makes: refresh it"


def half_run(whole: list[dict]) -> None:
    for cell in whole[len(whole) // 2 :]:
        if "outputs" in cell:
            cell["outputs"] = []


def without_its_heading(whole: list[dict]) -> None:
    whole[:] = [cell for cell in whole if not "".join(cell["source"]).startswith("## What we measured")]


def without_claims(whole: list[dict]) -> None:
    for cell in whole:
        if "claim" in cell["metadata"].get("tags", ()):
            cell["outputs"] = []


def run_whole_with_a_false_claim(whole: list[dict]) -> None:
    cell = next(cell for cell in whole if "claim" in cell["metadata"].get("tags", ()))
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["mine is right: False\n"]}]


@pytest.mark.parametrize(
    "change", [half_run, without_its_heading, without_claims, run_whole_with_a_false_claim]
)
def test_of_a_students_copy_the_map_takes_what_is_whole(
    change: Callable[[list[dict]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chapter in (CHAPTERS[4], LAST):
        notebook = json.loads(chapter.read_text("utf-8"))
        changed = copy.deepcopy(notebook)
        change(changed["cells"])
        (tmp_path / chapter.name).write_text(json.dumps(changed), "utf-8")
    monkeypatch.chdir(tmp_path)
    names = {"datasets": datasets, "drawing": drawing}
    exec("".join(MAP["source"]), names)
    page = names["page"]
    assert [title[:2] for title, _, _ in page] == [path.name[:2] for path in CHAPTERS]
    assert all(names["shown_by"](table, "text/html") and lines for _, table, lines in page)
    own = [title[:2] for title, _, lines in page if "mine is right: False" in lines]
    assert own == (["05", "20"] if change is run_whole_with_a_false_claim else [])
