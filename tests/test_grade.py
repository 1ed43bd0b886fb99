"""`grade`: submissions of every kind get their row; one that misbehaves does not keep others from theirs."""

import csv
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from course_utils.exercises.judging import find
from course_utils.exercises.solution import solution_source
from course_utils.exercises.verdict import NOT_RIGHT
from course_utils.processes import start_method
from course_utils.tools import grade as command
from course_utils.tools import grading_run, student_file
from course_utils.tools.grade import grade
from course_utils.tools.grade_table import NO_VERDICT, NOT_FOUND
from course_utils.tools.lab import without_outputs
from course_utils.tools.run import chapters
from course_utils.tools.submission import load

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = ROOT / "notebooks" / "02_gradient_equivalence.ipynb"
HEAD = "def weighted_average(gradient, count):\n"
HANGS = HEAD + "    if dist.get_rank() == 0:\n        dist.barrier()\n    return gradient\n"
LOOPS = HEAD + "    while True:\n        pass\n"
KILLS = HEAD + "    import os, signal, time\n    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(60)\n"
FORGETS = HEAD + "    dist.all_reduce(gradient)\n    return gradient / dist.get_world_size()\n"
HOARDS = HEAD + "    return torch.ones(2**31).sum() * gradient\n"
RENAMED = "def my_average(gradient, count):\n    return gradient\n"
BROKEN = "def weighted_average(gradient, count)\n    return gradient\n"


def hand_in(path: Path, **cells: str) -> Path:
    """A student's copy of chapter 02 with these sources in its cells; ids with _ for -."""
    notebook = json.loads(without_outputs(CHAPTER.read_text("utf-8")))
    for cell in notebook["cells"]:
        cell["source"] = cells.pop(cell["id"].replace("-", "_"), cell["source"])
    assert not cells, "no such cell"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), "utf-8")
    return path


def change(path: Path, **fields: Any) -> list[dict[str, Any]]:
    """Write the notebook again with these fields, and return its cells."""
    notebook = json.loads(path.read_text("utf-8")) | fields
    path.write_text(json.dumps(notebook), "utf-8")
    return notebook["cells"]


def taken(path: Path, name: str = "weighted_average") -> str:
    """The source that is run for an exercise of the notebook at ``path``; empty where there is none."""
    return next("".join(text for _, text in task.cells) for task in load(path).tasks if task.name == name)


def first(path: Path, source: str, **options: Any) -> Any:
    """The verdict on exercise 02.1 where ``source`` stands in its cell, and nothing in the others."""
    return grade("one", hand_in(path / "one.ipynb", ex_1_stub=source), **options).verdicts["02.1"]


def test_a_class_hands_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "class"
    all_right = {f"ex_{number}_stub": solution_source(f"02.{number}") for number in (1, 2, 3)}
    hand_in(folder / "ann" / "02.ipynb", **all_right)
    hand_in(folder / "bob" / "02.ipynb", ex_1_stub=FORGETS, ex_2_stub=all_right["ex_2_stub"])
    hand_in(folder / "cem" / "02.ipynb")
    hand_in(folder / "dot" / "02.ipynb", ex_1_stub=HANGS)
    hand_in(folder / "eve" / "02.ipynb", ex_1_stub=FORGETS, ex_1_check="print('02.1 right')")
    cells = change(hand_in(folder / "hal" / "02.ipynb", ex_1_stub=all_right["ex_1_stub"]))
    cells = [{key: cell[key] for key in cell if key != "id"} for cell in cells if cell["id"] != "ex-2-stub"]
    change(folder / "hal" / "02.ipynb", cells=cells, nbformat_minor=4)
    (folder / "ann" / "concepts_part_1.ipynb").write_text("{}")  # a concept test: nothing to grade, no row
    (folder / "fay").mkdir()
    (folder / "fay" / "02.ipynb").write_text("# my solution\n")
    (folder / "gus").mkdir()
    (folder / "gus" / "02.ipynb").write_text(" " * (student_file.LARGEST + 1))
    assert command.main([str(folder), "--csv", str(tmp_path / "grades.csv")]) == 0
    printed = capsys.readouterr().out
    rows = {row[0]: row[1:] for row in map(str.split, printed.split("submission", 1)[1].splitlines()) if row}
    assert rows["ann/02"] == ["✓", "✓", "✓"]
    assert rows["bob/02"] == ["✗", "✓", "○"]
    assert rows["cem/02"] == ["○", "○", "○"]
    assert rows["dot/02"] == rows["eve/02"] == ["✗", "○", "○"]
    assert rows["hal/02"] == ["✓", "?", "○"]
    assert rows["fay/02"] == rows["gus/02"] == ["-", "-", "-"]
    assert "eve/02: check cell 'ex-1-check' was changed: the chapter's own is used" in printed
    assert "fay/02: not a notebook" in printed
    assert "hal/02: cell 'ex-2-stub' is missing, and no other cell defines token_loss" in printed
    assert "hal/02: not in ex-1-stub, ex-3-stub, taken from the cells that define them: weighted" in printed
    assert "hal/02: check cell" not in printed
    assert "gus/02: 10 MB: a submission has at most 10 MB" in printed
    with (tmp_path / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6 * 3 + 2
    reasons = {line["submission"]: line for line in lines if line["exercise"] in ("02.1", "")}
    assert "not finished after" in reasons["dot/02"]["message"]
    assert "waits in barrier" in reasons["dot/02"]["came"]
    assert reasons["gus/02"]["status"] == "could not be graded"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (KILLS, "its process died|SIGKILL|exit code 3"),
        (RENAMED, "does not define weighted_average"),
        (BROKEN, "SyntaxError.*expected ':'"),
        (HEAD + "    return launch(print)\n", "launch was called inside a rank"),
        ("weighted_average = 3\n", "is to be a function, not int"),
    ],
    ids=["kills its parent", "renamed", "syntax error", "launches", "no function"],
)
def test_what_cannot_be_run_is_not_right_and_says_why(tmp_path: Path, source: str, words: str) -> None:
    verdict = first(tmp_path, source)
    assert verdict.attempted
    assert not verdict.passed
    assert re.search(words, repr(verdict).replace("\n", " ")), verdict


def test_one_that_never_ends_is_ended_and_leaves_no_process(tmp_path: Path) -> None:
    before = {process.pid for process in psutil.process_iter()}
    verdict = first(tmp_path, LOOPS, timeout=5)
    assert verdict.status == NO_VERDICT
    assert verdict.message == "it had not finished after 5 s, the limit --timeout"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [p for p in psutil.process_iter(["cmdline"]) if p.pid not in before and _is_ours(p)]
        if not left:
            break
        time.sleep(0.1)
    assert not left


def _is_ours(process: psutil.Process) -> bool:
    return any("grading_run" in part or "forkserver" in part for part in process.info["cmdline"] or [])


def test_a_slow_import_of_the_setup_takes_no_time_from_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(5)\n")
    monkeypatch.syspath_prepend(tmp_path)
    quick = replace(find("02.1"), timeout=4.0, world_sizes=(4,))
    monkeypatch.setattr(grading_run, "find", lambda _: quick)
    setup = "import torch\nimport torch.distributed as dist\nimport slow\n"
    cells = [("setup", setup), ("ex-1-stub", solution_source("02.1"))]
    (found,) = grading_run.seen("02.1", "weighted_average", cells)
    assert command.verdict("02.1", [found], memory=4.0).passed, found


def test_a_process_that_does_not_start_is_no_mistake_of_the_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "START", 0.01)
    verdict = first(tmp_path, solution_source("02.1"))
    assert verdict.status == NO_VERDICT
    assert "its process had not started after 0.01 s" in verdict.message


@pytest.mark.skipif(start_method() == "spawn", reason="each rank imports for itself")
def test_no_answer_waits_for_slow_modules_of_torch() -> None:
    program = (
        "import sys\nfrom course_utils import launch\nfrom course_utils.tools.grading_run import prepare\n"
        "prepare()\nprint(launch(lambda: 'torch._dynamo' in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[True, True, True, True]\n"


@pytest.mark.skipif("not hasattr(__import__('os'), 'killpg')", reason="this system has no such limit")
def test_one_that_takes_all_memory_is_stopped(tmp_path: Path) -> None:
    verdict = first(tmp_path, HOARDS, memory=4.0)
    assert verdict.status == NO_VERDICT
    assert "--memory 4 (GiB)" in verdict.message
    assert "can't allocate memory" in verdict.came


@pytest.mark.skipif("not hasattr(__import__('os'), 'killpg')", reason="this system has no such limit")
def test_a_right_answer_under_too_small_a_limit_is_not_called_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hand_in(tmp_path / "02.ipynb", ex_2_stub=solution_source("02.2"))
    arguments = [str(path), "--memory", "0.01", "--csv", str(tmp_path / "grades.csv")]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^02 +! +! +!$", printed, re.MULTILINE), printed
    assert "--memory 0.01 (GiB)" in printed
    assert "every rank calls" not in (tmp_path / "grades.csv").read_text("utf-8")


@pytest.mark.parametrize(
    ("report", "status"),
    [
        ("rank 1 failed first: MemoryError", NO_VERDICT),
        ("all 4 ranks: RuntimeError: Resource temporarily unavailable", NO_VERDICT),
        ("after 8 s 4 of 4 ranks had not finished\n    rank 0  runs  cell 'setup', line 13", NO_VERDICT),
        ("after 60 s 1 of 4 ranks had not started", NO_VERDICT),
        ("after 8 s 4 of 4 ranks had not finished\n    rank 0  runs  cell 'ex-1-stub', line 3", NOT_RIGHT),
        ("rank 1 failed first: ValueError", NOT_RIGHT),
    ],
)
def test_what_need_not_be_the_students_fault_has_no_verdict(report: str, status: str) -> None:
    ranks = {"report": report, "rank": None, "failures": {}, "timeout": "had not" in report}
    assert command.verdict("02.1", [ranks], memory=4.0).status == status


def test_cells_that_are_missing_are_named(tmp_path: Path) -> None:
    path = hand_in(tmp_path / "02.ipynb")
    cells = change(path)
    change(path, cells=[cell for cell in cells if cell["id"] not in ("ex-1-stub", "ex-2-check")])
    assert load(path).remarks == [
        "cell 'ex-1-stub' is missing, and no other cell defines weighted_average",
        "check cells are missing, the chapter's own are used: ex-2-check",
    ]
    graded = grade("one", path)
    assert graded.verdicts["02.1"].status == NOT_FOUND
    assert not graded.verdicts["02.2"].attempted


def test_ids_that_colab_keeps_in_the_metadata(tmp_path: Path) -> None:
    path = hand_in(tmp_path / "02.ipynb", ex_1_stub=FORGETS)
    cells = change(path)
    for cell in cells:
        cell["metadata"] = {"id": cell.pop("id")}
    change(path, cells=cells, nbformat_minor=0)
    assert FORGETS.strip() in taken(path)
    assert load(path).remarks == []


@pytest.mark.parametrize("left", ["nothing", "as it was given", "no code", "other names"])
@pytest.mark.parametrize("answer", [FORGETS, BROKEN], ids=["Python", "no Python"])
def test_an_answer_in_a_cell_of_the_student_is_found(tmp_path: Path, left: str, answer: str) -> None:
    path = hand_in(tmp_path / "02.ipynb")
    cells = change(path)
    place = next(number for number, cell in enumerate(cells) if cell["id"] == "ex-1-stub")
    cells.insert(place + 1, cells[place] | {"id": "5f1c", "source": answer})
    if left == "nothing":
        del cells[place]
    elif left != "as it was given":
        cells[place]["source"] = "" if left == "no code" else "half = 0.5\n"
    change(path, cells=cells)
    assert answer.strip() in taken(path)
    assert load(path).remarks == ["not in ex-1-stub, taken from the cells that define them: weighted_average"]


def test_an_answer_in_its_own_cell_goes_before_others(tmp_path: Path) -> None:
    path = hand_in(tmp_path / "02.ipynb", ex_1_stub=FORGETS)
    cells = change(path)
    change(path, cells=[*cells, cells[-1] | {"cell_type": "code", "id": "5f1c", "source": LOOPS}])
    assert FORGETS.strip() in taken(path)
    assert load(path).remarks == []


def test_a_notebook_of_no_chapter(tmp_path: Path) -> None:
    (tmp_path / "mine.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert "none of the chapters" in grade("mine", tmp_path / "mine.ipynb").remarks[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": []},
        {"metadata": {"title": ["02"]}},
        {"cells": {}},
        {"cells": [1]},
        {"cells": [{"cell_type": "code"}]},
        {"cells": [{"cell_type": "code", "id": "ex-1-stub", "source": 7}]},
        {"cells": [{"cell_type": "code", "id": ["ex-1-stub"], "source": ""}]},
        {"nbformat": "four"},
        {"nbformat": 99},
    ],
    ids=repr,
)
def test_json_that_is_no_notebook_gets_its_row(tmp_path: Path, fields: dict[str, Any]) -> None:
    content = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | fields
    (tmp_path / "02.ipynb").write_text(json.dumps(content), "utf-8")
    graded = grade("02", tmp_path / "02.ipynb", timeout=20)
    assert re.search("not a (readable )?notebook|is missing", graded.remarks[0])
    assert not any(verdict.passed for verdict in graded.verdicts.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the chapters import
@pytest.mark.parametrize("chapter", chapters([]), ids=lambda path: path.stem)
def test_an_exercise_takes_along_what_it_needs_and_runs_nothing_else(chapter: Path) -> None:
    handed_in = load(chapter)
    assert not handed_in.remarks
    assert handed_in.tasks
    for task in handed_in.tasks:
        text = "\n".join(source for _, source in task.cells)
        assert "launch(" not in text.split("def ", 1)[0]
        namespace: dict[str, Any] = {"__name__": "handed_in"}
        for cell, source in task.cells:
            exec(compile(source, cell, "exec"), namespace)
        assert callable(namespace[task.name]) or namespace[task.name] is ...


@pytest.mark.all
@pytest.mark.parametrize("exercise", ["04.2", "08.2", "11.2", "15.3", "17.1", "18.3", "19.2", "20.3"])
def test_solutions_are_graded_right(tmp_path: Path, exercise: str) -> None:
    number, place = exercise.split(".")
    notebook = json.loads(chapters([number])[0].read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["id"] == f"ex-{place}-stub":
            cell["source"] = solution_source(exercise)
    path = tmp_path / "handed_in.ipynb"
    path.write_text(json.dumps(notebook), "utf-8")
    verdict = grade("one", path).verdicts[exercise]
    assert verdict.passed, verdict
