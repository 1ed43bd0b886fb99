"""The form of the chapters, and of each rule: a notebook that breaks exactly it."""

import copy
import json
from pathlib import Path

import pytest
from form_breaches import BREACHES
from form_example import cell, chapter, prints, source, tagged, without
from nbformat import NotebookNode, from_dict, v4

from course_utils.tools import form, refresh
from course_utils.tools.refresh import text_of
from course_utils.tools.run import NOTEBOOKS


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the example chapter stands: notebooks/13_..., its faults in tests/."""
    for name in ("notebooks", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "notebooks" / "picture.svg").touch()
    (tmp_path / "tests" / "faults_13.py").touch()
    return tmp_path / "notebooks" / "13_ring_all_reduce.ipynb"


def judged(nb: NotebookNode, path: Path) -> list[str]:
    path.write_text(text_of(nb), "utf-8")
    return form.findings(path)


def test_the_example_keeps_to_all_rules(place: Path) -> None:
    assert judged(chapter(), place) == []


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_form_of_a_chapter(path: Path) -> None:
    assert form.findings(path) == []


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found_and_nothing_else(breach: str, place: Path) -> None:
    change, message = BREACHES[breach]
    nb = chapter()
    change(nb)
    found = judged(nb, place)
    assert len(found) == 1, found
    assert message in found[0]


def test_notebooks_without_ids_or_cells(place: Path) -> None:
    nb = chapter()
    nb.cells[0]["id"] = "no id: spaces"
    place.write_text(json.dumps(nb), "utf-8")
    assert "not valid" in form.findings(place)[0]
    del nb.cells[0]["id"]
    nb.nbformat_minor = 4
    place.write_text(json.dumps(nb), "utf-8")
    assert form.findings(place) == ["notebook: format 4.4, not 4.5; run refresh"]
    assert judged(from_dict({**nb, "cells": [], "nbformat_minor": 5}), place) == ["notebook: no cells"]


def test_a_notebook_that_was_never_executed() -> None:
    nb = chapter()
    for kept in nb.cells:
        if kept.cell_type == "code":
            kept.execution_count = None
    assert form.counts(nb) == ["notebook: never executed; run refresh"]


def test_ids_are_unique() -> None:
    nb = chapter()
    cell(nb, "wrong-run")["id"] = "wrong"
    assert form.ids(nb) == ["wrong: this id is used twice"]


def test_an_error_may_not_hold_a_cells_number() -> None:
    nb = chapter()
    tagged("wrong-run", "raises-exception")(nb)
    report = v4.new_output("error", ename="RankError", evalue="see In [4]", traceback=[])
    cell(nb, "wrong-run").outputs = [report]
    assert form.form_outputs.stable(nb) == [
        "wrong-run: the output holds a cell's number, which differs under nbval"
    ]


def test_the_number_in_a_report_of_launch_is_sanitized() -> None:
    nb = chapter()
    prints("wrong-run", "    rank 0  runs  In [4], line 3, in step:  pass\n")(nb)
    assert form.form_outputs.stable(nb) == []
    patterns = refresh.sanitizers()
    stored, new = (v4.new_output("stream", text=f"In [{n}], line 3") for n in (45, 1))
    assert refresh.accepts([stored], [new], patterns)
    assert not refresh.accepts([stored], [v4.new_output("stream", text="In [1], line 4")], patterns)


def test_first_cell_is_the_title() -> None:
    nb = chapter()
    cell(nb, "title").source = "Ring all-reduce"
    assert form.title(nb) == form.title(from_dict({"cells": []}))
    assert form.title(nb) == ["notebook: the first cell is markdown and begins with '# NN · Title'"]


def test_setup_stands_before_the_sections() -> None:
    nb = chapter()
    source("title", "Builds", "## Early\n\nBuilds")(nb)
    assert form.setup(nb) == ["setup: the setup stands before the first section"]


def test_a_section_may_be_marked_below_its_heading(place: Path) -> None:
    nb = chapter()
    source("second-idea", "Second (core)\n", "Second\n\n*Optional, 5 minutes*\n")(nb)
    assert judged(nb, place) == []


def test_file_name_and_number(place: Path) -> None:
    other = place.with_name("14_cost.ipynb")
    assert judged(chapter(), other) == [
        "notebook: 14_cost is not a chapter's name",
        "title: the title does not bear the file's number 14",
        "notebook: no planted faults (tests/faults_14.py)",
    ]


def test_a_chapter_without_planted_faults_is_found(place: Path) -> None:
    (place.parent.parent / "tests" / "faults_13.py").unlink()
    assert judged(chapter(), place) == ["notebook: no planted faults (tests/faults_13.py)"]


def test_few_chapters_are_excused_and_only_from_rules_that_exist() -> None:
    names = {rule.__name__ for rule in form.RULES} | {"faults", "place", "links"}
    assert list(form.EXCUSED) == ["00", "18"]
    assert set(form.EXCUSED["00"]) <= names
    assert set(form.EXCUSED["18"]) == {"exercise_count"}
    assert all(reason for excused in form.EXCUSED.values() for reason in excused.values())


def test_chapter_00_may_have_no_claims_and_no_faults(place: Path) -> None:
    nb = chapter()
    for name, old, new in (
        ("title", "13 ·", "00 ·"),
        ("title", "Builds on", "See"),
        ("ex-1-check", "13.1", "00.1"),
        ("ex-2-check", "13.2", "00.2"),
    ):
        source(name, old, new)(nb)
    tagged("measured-claim")(nb)
    without("measured", "practice", "sources", "fifth-idea", "fifth-predict", "fifth-run", "fifth-happened")(
        nb
    )
    assert judged(nb, place.with_name("00_start_here.ipynb")) == []


@pytest.mark.parametrize(
    "text",
    [
        "The optimizer's behavior was analyzed; a promise, an exercise, precise and otherwise wise.",
        "License, center, gray, labeled, modeling, parameter, materials, centimeter",
    ],
)
def test_american_words_pass(text: str) -> None:
    assert form.form_text.BRITISH.findall(text) == []


@pytest.mark.parametrize(
    "text",
    ["/proc/net/tcp and a/b/tmp/x", "W/2 ranks", "took ⟨at 0x7f12ab34cd56⟩", "Warnings are shown", "1/2 ~ 3"],
)
def test_harmless_outputs_pass(text: str, place: Path) -> None:
    nb = chapter()
    prints("wrong-run", text + "\n")(nb)
    assert judged(nb, place) == []


@pytest.mark.parametrize("magic", ["%%writefile x.py\na = 1", "!torchrun --version", "!nvidia-smi"])
def test_allowed_magics_pass(magic: str, place: Path) -> None:
    nb = chapter()
    cell(nb, "wrong-run").source = magic
    assert judged(nb, place) == []


def test_a_semicolon_inside_a_string_passes(place: Path) -> None:
    nb = chapter()
    cell(nb, "wrong-run").source = "style = 'color: red;'\nprint(style)  # a; b;"
    assert judged(nb, place) == []


def test_findings_leave_the_notebook_alone(place: Path) -> None:
    nb = chapter()
    kept = copy.deepcopy(nb)
    for rule in form.RULES:
        rule(nb)
    assert nb == kept
