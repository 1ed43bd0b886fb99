"""`lab`: the student's own copy loses nothing, and JupyterLab opens it without asking the network."""

import json
import os
import re
import shutil
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from lab_server import serving

from course_utils.tools import lab
from course_utils.tools.lab import hand_out


def notebook(source: str, answer: str = "42") -> str:
    output = {"output_type": "stream", "name": "stdout", "text": answer}
    code = {"cell_type": "code", "id": "a", "metadata": {"tags": ["claim"]}, "source": source}
    cells = [{"cell_type": "markdown", "id": "t", "metadata": {}, "source": "# Über"}]
    cells.append({**code, "execution_count": 1, "outputs": [output]})
    return json.dumps({"cells": cells, "metadata": {"widgets": {}}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of the originals and of the copy; the copy has been made."""
    source = tmp_path / "notebooks"
    (source / "scripts").mkdir(parents=True)
    (source / ".ipynb_checkpoints").mkdir()
    (source / ".ipynb_checkpoints" / "05_ddp.ipynb").write_text("{}")
    (source / "05_ddp.ipynb").write_text(notebook("print(6 * 7)"), "utf-8")
    (source / "matplotlibrc").write_text("figure.dpi: 100\n")
    (source / "scripts" / "train.py").write_text("print(1)\n")
    assert hand_out(source, tmp_path / "my_course") == []
    return source, tmp_path / "my_course"


def files(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != lab.MANIFEST)
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}


def test_the_copy_holds_all_but_the_answers(course: tuple[Path, Path]) -> None:
    copy = files(course[1])
    assert set(copy) == {"05_ddp.ipynb", "matplotlibrc", "scripts/train.py"}
    cell = json.loads(copy["05_ddp.ipynb"])["cells"][1]
    assert cell["outputs"] == []
    assert cell["execution_count"] is None
    assert cell["source"] == "print(6 * 7)"
    assert cell["metadata"] == {"tags": ["claim"]}
    assert "# Über" in copy["05_ddp.ipynb"]


def test_a_second_time_changes_nothing(course: tuple[Path, Path]) -> None:
    source, copy = course
    (source / "05_ddp.ipynb").write_text(notebook("print(6 * 7)", answer="other outputs"), "utf-8")
    (copy / "05_ddp.ipynb").write_text("the student's")
    (copy / "notes.txt").write_text("the student's")
    before = files(copy)
    assert hand_out(source, copy) == []
    assert files(copy) == before


def test_an_untouched_file_is_brought_up_to_date(course: tuple[Path, Path]) -> None:
    source, copy = course
    (source / "scripts" / "train.py").write_text("print(2)\n")
    assert hand_out(source, copy) == ["scripts/train.py has been brought up to date"]
    assert files(copy)["scripts/train.py"] == "print(2)\n"
    (source / "06_new.ipynb").write_text(notebook("1"))
    assert hand_out(source, copy) == ["06_new.ipynb is new"]


def test_a_changed_file_is_kept_and_the_new_one_put_beside_it_once(course: tuple[Path, Path]) -> None:
    source, copy = course
    (copy / "05_ddp.ipynb").write_text("the student's")
    (source / "05_ddp.ipynb").write_text(notebook("second"))
    assert hand_out(source, copy) == [
        "05_ddp.ipynb has changed in the course: yours is kept, the new one is 05_ddp.new.ipynb"
    ]
    assert files(copy)["05_ddp.ipynb"] == "the student's"
    assert "second" in files(copy)["05_ddp.new.ipynb"]
    assert hand_out(source, copy) == []

    (source / "05_ddp.ipynb").write_text(notebook("third"))  # the .new one was not touched
    assert "the new one is 05_ddp.new.ipynb" in hand_out(source, copy)[0]
    assert "third" in files(copy)["05_ddp.new.ipynb"]

    (copy / "05_ddp.new.ipynb").write_text("the student's too")
    (source / "05_ddp.ipynb").write_text(notebook("fourth"))
    assert "the new one is 05_ddp.new2.ipynb" in hand_out(source, copy)[0]
    assert files(copy)["05_ddp.ipynb"] == "the student's"
    assert files(copy)["05_ddp.new.ipynb"] == "the student's too"


def test_a_removed_file_comes_back(course: tuple[Path, Path]) -> None:
    source, copy = course
    (copy / "05_ddp.ipynb").unlink()
    assert hand_out(source, copy) == ["05_ddp.ipynb is new"]


@pytest.mark.parametrize("manifest", [None, "{", "[]"])
def test_without_a_manifest_the_students_files_are_kept(
    course: tuple[Path, Path], manifest: str | None
) -> None:
    source, copy = course
    (copy / "05_ddp.ipynb").write_text("the student's")
    (copy / lab.MANIFEST).unlink()
    if manifest:
        (copy / lab.MANIFEST).write_text(manifest)
    assert len(hand_out(source, copy)) == 1
    assert files(copy)["05_ddp.ipynb"] == "the student's"
    assert "print(6 * 7)" in files(copy)["05_ddp.new.ipynb"]
    assert "scripts/train.new.py" not in files(copy)


def test_a_busy_port_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SystemExit, match="2"):
            lab.main(["--port", str(port)])
    assert f"--port {port}: another program uses it" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert not lab.is_busy(port)


def test_options_of_jupyter_pass_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = []

    def become(command: list[str], env: dict[str, str]) -> None:
        commands.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(lab, "become", become)
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / lab.FIRST).write_text(notebook("1"))
    for options in (["--no-browser", "--", "--ServerApp.token=abc"], ["--instructor"]):
        with pytest.raises(SystemExit):
            lab.main(options)
    student, instructor = commands
    assert student[-1] == "--ServerApp.token=abc"
    assert "--no-browser" in student
    assert f"--ServerApp.root_dir={tmp_path / 'my_course'}" in student
    assert f"--ServerApp.root_dir={tmp_path / 'notebooks'}" in instructor
    assert "--no-browser" not in instructor
    assert json.loads((tmp_path / "my_course" / lab.FIRST).read_text())["cells"][1]["outputs"] == []


@pytest.mark.skipif(os.name == "nt" or not shutil.which("sh"), reason="an interrupt as POSIX sends it")
def test_jupyterlab_opens_the_first_chapter_and_ends_at_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / lab.FIRST).write_text(notebook("1"))
    with serving(tmp_path, settings=tmp_path) as (process, address):
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
        assert "/lab/tree/00_start_here.ipynb" in address
        config = re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)
        assert config, page
        settings = json.loads(config[1])
        assert settings["news"] == {"disabled": True}
        assert settings["extensionManager"]["name"] == "read-only"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
