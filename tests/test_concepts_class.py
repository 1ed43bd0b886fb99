"""`concepts`: a class's table, whatever names and forms the students' files come in."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from course_utils.concepts.question import sitting
from course_utils.tools import concept_notes, csv_file
from course_utils.tools import concepts as command

Told = Callable[..., str]


def notes(part: int = 2, **right: int) -> str:
    """What progress.json holds after the sittings named, with so many right answers in each."""
    said = {}
    for when, number in right.items():
        items = sitting(part, when)
        wrong = [next(choice for choice in item.choices if choice != item.right) for item in items]
        pairs = [(item.right if n < number else wrong[n]) for n, item in enumerate(items)]
        names = [item.question.name for item in items]
        said[f"part {part}, {when}"] = dict(zip(names, pairs, strict=True))
    return json.dumps({"concepts": said, "predictions": {"How many?": {"said": "3"}}})


def hand_in(file: Path, **right: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(notes(**right), "utf-8")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a class handed in; one student has sat both tests of part 2."""
    hand_in(tmp_path / "handed in" / "ann" / "progress.json", before=3, after=9)
    return tmp_path / "handed in"


@pytest.fixture
def told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What the command prints about the class."""

    def run(*paths: Path) -> str:
        command.main([*map(str, paths or [folder]), "--csv", str(tmp_path / "table.csv")])
        return capsys.readouterr().out

    return run


def test_the_table_of_a_class(folder: Path, tmp_path: Path, told: Told) -> None:
    hand_in(folder / "bob" / "progress.json", before=5, after=7)
    printed = told()
    assert "Part 2, 2 students" in printed
    assert re.search(r"all +40% +80% +\+40%", printed)
    last = sitting(2, "after")[-1]  # wrong in both
    line = next(line for line in printed.splitlines() if line.strip().startswith(last.question.name))
    assert "   0%" in line
    assert any(line.endswith(choice) for choice in last.choices if choice != last.right)
    chapter, section, _ = last.question.read
    assert f"{chapter[:2]}, {section} " in line
    assert "  06, section 3" in next(line for line in printed.splitlines() if "no-set-epoch" in line)
    data = (tmp_path / "table.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")  # without it, Excel reads "·" as two other letters
    rows = list(csv.DictReader(data.decode("utf-8-sig").splitlines()))
    assert len(rows) == 10
    row = next(row for row in rows if row["question"] == last.question.name)
    assert (row["asked after"], row["chapter"], row["section"]) == (last.ask, chapter, section)


def test_a_class_of_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path)]) == 1
    assert "nobody has handed in both tests of a part" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "missing")])
    assert "there is no such file or folder" in capsys.readouterr().err


def test_who_sat_one_test_only_is_named(folder: Path, told: Told) -> None:
    hand_in(folder / "fred" / "progress.json", before=10)
    hand_in(folder / "gina.json", after=10)
    printed = told()
    assert "left out of part 2: fred (only before), gina (only after)" in printed
    assert "Part 2, 1 student " in printed


@pytest.mark.parametrize("second", ["progress (1).json", "progress-1.json", "progress - Copy.json"])
def test_a_second_download_is_no_second_student(folder: Path, told: Told, second: str) -> None:
    old = hand_in(folder / "eve" / "progress.json", before=5)
    new = hand_in(folder / "eve" / second, before=5, after=5)
    os.utime(new, (1, 1))  # what is in it says more than its date
    printed = told()
    assert "Part 2, 2 students" in printed
    assert re.search(rf"eve: 2 files .*; used is {re.escape(second)}, which has more in it", printed)
    assert "left out" not in printed

    old.write_text(notes(before=1, after=1))  # as much in each: begun again on another machine
    assert "used is progress.json, the newest" in told()
    assert re.search(r"all +20% +50%", told(folder)), "the mean of 3 and 1, of 9 and 1"
    old.write_text(new.read_text())
    assert re.search(r"eve: 2 files .*, and they are equal", told())


def test_files_side_by_side_are_students(folder: Path, told: Told) -> None:
    for n, name in enumerate(["bob.json", "cem.json", "cem (1).json", "progress.json", "progress (1).json"]):
        hand_in(folder / name, before=n, after=5)
    printed = told()
    assert "Part 2, 5 students" in printed
    assert "cem: 2 files of one student" in printed
    assert "progress (1).json and progress.json count as 2 students" in printed


def test_folders_and_files_as_a_shell_names_them(folder: Path, told: Told) -> None:
    hand_in(folder / "bob.json", before=2)
    hand_in(folder / "cem" / "progress.json", before=2, after=2)
    hand_in(folder / "cem" / "progress (1).json", before=2, after=3)
    for paths in (folder.iterdir(), folder.rglob("*.json")):
        printed = told(*paths)
        assert "Part 2, 2 students" in printed
        assert "cem: 2 files of one student" in printed
        assert re.search(r"left out of part 2: .*bob \(only before\)", printed)


def test_equal_files_of_two_students(folder: Path, told: Told) -> None:
    hand_in(folder / "bob" / "progress.json", before=3, after=9)
    printed = told()
    assert "ann and bob: their files are equal" in printed
    assert "Part 2, 2 students" in printed


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_an_editor_may_have_stored_it(folder: Path, told: Told, encoding: str) -> None:
    (folder / "dan").mkdir()
    (folder / "dan" / "progress.json.txt").write_text(notes(before=1, after=2), encoding)
    assert "Part 2, 2 students" in told()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty file"),
        ("\ufeff\n", "empty file"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not the course's notes"),
        ('{"concepts": 3}', "not the course's notes"),
        ('{"predictions": {}}', "no concept test was handed in"),
        ('{"concepts": {}}', "no concept test was handed in"),
        ('{"cells": [], "nbformat": 4}', "this is the notebook: hand in my_course/progress.json"),
        ('{"concepts": {"part 2, after": 3}}', "part 2, after: no answer is a choice of that test"),
    ],
)
def test_what_can_not_be_read_has_a_reason_in_words(
    folder: Path, told: Told, content: str, reason: str
) -> None:
    (folder / "hal.json").write_text(content, "utf-8")
    printed = told()
    assert f"hal.json: {reason}" in printed
    assert "Error" not in printed
    assert "Part 2, 1 student " in printed


def test_a_file_that_is_too_large(folder: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concept_notes, "LARGEST", 10)
    assert "ann/progress.json: too large" in told()


@pytest.mark.parametrize("answer", [None, "a text of another course", ["once"]])
def test_a_sitting_without_a_known_answer_does_not_count(folder: Path, told: Told, answer: object) -> None:
    holds = json.loads(notes(before=4, after=4))
    holds["concepts"]["part 2, before"] = dict.fromkeys(holds["concepts"]["part 2, before"], answer)
    (folder / "ida.json").write_text(json.dumps(holds))
    printed = told()
    assert "Part 2, 1 student " in printed
    assert "ida.json: part 2, before: no answer is a choice of that test, so it does not count" in printed
    assert "left out of part 2: ida (only after)" in printed


def test_what_is_passed_over_is_named(folder: Path, told: Told) -> None:
    for name in ("report.pdf", "01_one_process.ipynb", "concepts_part_2.ipynb", ".manifest.json"):
        (folder / "ann" / name).write_text("{}")
    notebook = folder / "joe" / "concepts_part_2.ipynb"
    notebook.parent.mkdir()
    notebook.write_text('{"cells": [], "nbformat": 4}')
    printed = told()
    assert "passed over, since only .json and .json.txt are read: ann/report.pdf, 2 notebooks" in printed
    assert "joe/concepts_part_2.ipynb: this is the notebook" in printed
    assert ".manifest" not in printed


def test_a_table_that_stood_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "build" / "concepts.csv"
    assert csv_file.save(path, [["a"], ["ü"]]) == str(path)
    assert csv_file.save(path, [["a"], ["ü"]]) == str(path)  # the same again
    assert "before is kept as concepts.1.csv" in csv_file.save(path, [["b"]])
    assert "before is kept as concepts.2.csv" in csv_file.save(path, [["c"]])
    found = {file.name: file.read_text("utf-8-sig") for file in path.parent.iterdir()}
    assert found == {"concepts.csv": "c\n", "concepts.1.csv": "a\nü\n", "concepts.2.csv": "b\n"}


def test_where_the_table_can_not_be_written_it_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "ann" / "progress.json" / "table.csv"  # below a file
    with pytest.raises(SystemExit, match="2"):
        command.main([str(folder), "--csv", str(path)])
    said = capsys.readouterr()
    assert "Part 2, 1 student " in said.out
    assert re.search(r"table\.csv can't be written \(.+\): name another file with --csv FILE", said.err)
    for place in (path, tmp_path):
        with pytest.raises((FileExistsError, NotADirectoryError, IsADirectoryError)):
            csv_file.check(place)
    csv_file.check(tmp_path / "build" / "grades.csv")
    assert list((tmp_path / "build").iterdir()) == []
