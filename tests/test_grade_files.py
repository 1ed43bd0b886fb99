"""`grade`: what is taken of the files handed in, what is said of the others, and what is kept of the grades.

The notebooks here have no cells, so that nothing has to be run for them.
"""

import csv
import gzip
import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from course_utils.tools import grade as command
from course_utils.tools import handed_in
from course_utils.tools.grade_table import Grade

NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def put(path: Path, content: str | bytes = NOTEBOOK) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def names(*paths: Path) -> list[str]:
    return [name for name, _ in handed_in.find(list(paths)).notebooks]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def refused(arguments: list[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said where the arguments are wrong; nothing may have been graded then."""
    with pytest.raises(SystemExit) as caught:
        command.main([str(argument) for argument in arguments])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert " of " not in said.out
    return said.err


def test_what_is_passed_over_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "class"
    for name in ("ann/02.ipynb", "jane/02.ipynb.txt", "kurt/02.IPYNB", "lena/02.ipynb.json"):
        put(folder / name)
    for name in ("gina/homework.ZIP", "hugo/answers.py", "ann/.DS_Store", "__MACOSX/gina/._02.ipynb"):
        put(folder / name, "")
    for name in ("ann", "bob", "jane"):
        put(folder / name / "progress.json", "{}")
    put(folder / "ann" / "concepts_part_1.ipynb")
    put(folder / "quinn" / ".ipynb_checkpoints" / "02-checkpoint.ipynb")
    (folder / "rosa" / "week 2").mkdir(parents=True)
    (folder / "sam").mkdir()
    assert names(folder) == ["ann/02", "jane/02", "kurt/02", "lena/02"]
    assert command.main([str(folder), "--csv", str(tmp_path / "grades.csv")]) == 0
    printed = capsys.readouterr().out
    nothing = "no notebook in it, at most hidden files and files of the course: ask for the .ipynb file"
    expected = {
        "gina/homework.ZIP": "an archive: unpack it and grade what was in it",
        "hugo/answers.py": "not a notebook (*.ipynb): ask for the .ipynb file",
        "bob": nothing,
        "quinn": nothing,
        "rosa": nothing,
        "sam": "empty: ask for the .ipynb file",
    }
    for name, reason in expected.items():
        assert f"\n{name}: {reason}\n" in printed
    assert "files of the course without exercises: 1 concepts_part_1.ipynb, 3 progress.json" in printed
    assert not re.search("DS_Store|MACOSX|rosa/", printed)
    rows = read(tmp_path / "grades.csv")
    assert {row["submission"]: row["remarks"] for row in rows if row["status"] == "passed over"} == expected


@pytest.mark.skipif("__import__('os').name == 'nt'", reason="links need a right of their own on Windows")
def test_a_link_to_a_folder_is_named(tmp_path: Path) -> None:
    put(tmp_path / "ann" / "02.ipynb")
    (tmp_path / "tom").symlink_to(tmp_path / "ann", target_is_directory=True)
    assert handed_in.find([tmp_path]).remarks() == ["tom: a link to a folder: name the folder itself"]


def test_the_folder_of_one_student_names_the_row(tmp_path: Path) -> None:
    ann, bob = put(tmp_path / "ann" / "02.ipynb"), put(tmp_path / "bob" / "02.ipynb")
    assert names(tmp_path) == ["ann/02", "bob/02"]
    assert names(ann.parent, bob.parent) == ["ann/02", "bob/02"]
    assert names(ann, bob) == ["ann/02", "bob/02"]
    assert names(ann.parent) == ["ann/02"]
    assert names(ann) == ["02"]


def test_a_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xa3ukasz.ipynb"
    try:
        Path(os.fsdecode(path)).write_text(NOTEBOOK)
    except OSError:
        pytest.skip("this file system takes no such name")
    assert names(tmp_path) == [f"{tmp_path.name}/?ukasz"]


def test_two_notebooks_of_one_student(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("02.ipynb", "02 (1).ipynb", "03.ipynb"):
        put(tmp_path / "class" / "ann" / name)
    put(tmp_path / "class" / "bob" / "02.ipynb")
    assert command.main([str(tmp_path / "class"), "--csv", str(tmp_path / "grades.csv")]) == 0
    said = "2 notebooks of chapter 02 in its folder, all are graded: ann/02 (1), ann/02"
    assert capsys.readouterr().out.count("notebooks of chapter") == 1
    assert {row["submission"] for row in read(tmp_path / "grades.csv") if said in row["remarks"]} == {
        "ann/02"
    }


def zipped(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("02.ipynb", NOTEBOOK)
    return path.read_bytes()


def test_reasons_for_damaged_files(tmp_path: Path) -> None:
    for content, reason in (
        (zipped(tmp_path / "one.zip"), "it is a zip archive: unpack it"),
        (gzip.compress(b"{}"), "it is a gzip archive: unpack it"),
        (b"\n", "the file is empty: ask for it again"),
        (b"%PDF-1.7", "it is a PDF: ask for the .ipynb file"),
        (b"<!DOCTYPE html>", "it is a web page: ask for the .ipynb file itself"),
        (b"\xff\xfe{\0}\0", "not a notebook: it is no text in UTF-8"),
        (NOTEBOOK[:30].encode(), "it ends in the middle: it was not saved or sent whole, ask for it again"),
        (b'{\n"cells": [}', "not a notebook: line 2 is no JSON, ask for the file again"),
        (b"[" * 200_000, "not a notebook: its JSON is nested too deeply"),
        (b"{}", "not a notebook: it is JSON, but has no cells"),
        (b'{"worksheets": []}', "it is in an old format (3): open it in JupyterLab and save it again"),
    ):
        assert command.grade("02", put(tmp_path / "02.ipynb", content)).remarks == [reason]
    graded = command.grade("02", put(tmp_path / "02.ipynb", b"\xef\xbb\xbf" + NOTEBOOK.encode()))
    assert len(graded.verdicts) == 3, "a byte order mark does no harm"


def test_a_file_that_is_no_notebook_is_a_wrong_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = put(tmp_path / "README.md", "# Mine\n")
    csv_file = tmp_path / "grades.csv"
    assert "README.md: not a notebook" in refused([readme, "--csv", csv_file], capsys)
    put(tmp_path / "class" / "gina" / "homework.zip")
    assert "class/gina/homework.zip: an archive" in refused([tmp_path / "class", "--csv", csv_file], capsys)
    other = put(tmp_path / "02.ipynb")
    assert command.main([str(readme), str(other), "--csv", str(csv_file)]) == 0
    assert "README.md: not a notebook" in capsys.readouterr().out


def test_a_file_of_grades_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "Łukasz" / "02.ipynb")
    put(tmp_path / "ann" / "02.ipynb")
    target = tmp_path / "build" / "grades.csv"
    assert command.main([str(tmp_path), "--csv", str(target)]) == 0
    assert f"the reasons are in {target}\n" in capsys.readouterr().out
    assert target.read_bytes().startswith(b"\xef\xbb\xbfsubmission,")
    assert [row["submission"] for row in read(target)] == ["ann/02"] * 3 + ["Łukasz/02"] * 3
    everything = target.read_bytes()
    for number, name in enumerate(("Łukasz", "ann"), 1):  # smaller runs
        assert command.main([str(tmp_path / name), "--csv", str(target)]) == 0
        assert f"what was grades.csv before is kept as grades.{number}.csv" in capsys.readouterr().out
    assert [row["submission"] for row in read(target)] == ["ann/02"] * 3
    assert (tmp_path / "build" / "grades.1.csv").read_bytes() == everything


def test_an_interrupted_run_has_a_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ann", "bob"):
        put(tmp_path / name / "02.ipynb")
    target = put(tmp_path / "build" / "grades.csv", "a full run\n")

    def interrupt(name: str, *_: object) -> Grade:
        if name.startswith("bob"):
            raise KeyboardInterrupt
        return Grade(name)

    monkeypatch.setattr(command, "grade", interrupt)
    assert command.main([str(tmp_path / "ann"), str(tmp_path / "bob"), "--csv", str(target)]) == 130
    said = capsys.readouterr()
    assert "1 of 2 are graded" in said.err
    partial = tmp_path / "build" / "grades.interrupted.csv"
    assert f"the reasons are in {partial}" in said.out
    assert target.read_text() == "a full run\n"
    assert [row["submission"] for row in read(partial)] == ["ann/02"]


def test_a_place_that_cannot_be_written_is_named_before_grading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "02.ipynb")
    for target in (tmp_path, path / "grades.csv"):
        said = refused([path, "--csv", target], capsys)
        assert f"{target} can't be written (" in said
        assert "name another file with --csv FILE" in said


def test_a_place_that_is_gone_after_grading_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = put(tmp_path / "02.ipynb"), tmp_path / "build" / "grades.csv"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def grade(name: str, *_: object) -> Grade:
        shutil.rmtree(target.parent)
        return Grade(name, remarks=["is here"])

    monkeypatch.setattr(command, "grade", grade)
    assert command.main([str(path), "--csv", str(target)]) == 0
    written = Path(re.search("the reasons are in (.*)", capsys.readouterr().out)[1])
    assert read(written)[0]["remarks"] == "is here"
