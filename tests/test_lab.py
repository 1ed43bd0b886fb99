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


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that become JupyterLab, in a course of two chapters."""
    commands: list[list[str]] = []

    def become(command: list[str], env: dict[str, str]) -> None:
        commands.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(lab, "become", become)
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    monkeypatch.setattr("course_utils.tools.run.NOTEBOOKS", tmp_path / "notebooks")
    (tmp_path / "notebooks").mkdir()
    for name in (lab.FIRST, "05_ddp.ipynb", "concepts_part_2.ipynb"):
        (tmp_path / "notebooks" / name).write_text(notebook("1"))
    return commands


def test_options_of_jupyter_pass_through(opened: list[list[str]], tmp_path: Path) -> None:
    for options in (["--no-browser", "--", "--ServerApp.token=abc"], ["--instructor"]):
        with pytest.raises(SystemExit):
            lab.main(options)
    student, instructor = opened
    assert student[-1] == "--ServerApp.token=abc"
    assert "--no-browser" in student
    assert f"--ServerApp.root_dir={tmp_path / 'my_course'}" in student
    assert f"--ServerApp.root_dir={tmp_path / 'notebooks'}" in instructor
    assert "--no-browser" not in instructor
    assert json.loads((tmp_path / "my_course" / lab.FIRST).read_text())["cells"][1]["outputs"] == []


@pytest.mark.parametrize("whose", [[], ["--instructor"]])
@pytest.mark.parametrize(
    ("chapter", "name"),
    [
        ("05", "05_ddp.ipynb"),
        ("5", "05_ddp.ipynb"),
        ("05_ddp", "05_ddp.ipynb"),
        ("notebooks/concepts_part_2.ipynb", "concepts_part_2.ipynb"),
    ],
)
def test_a_chapter_of_its_own(
    opened: list[list[str]], monkeypatch: pytest.MonkeyPatch, chapter: str, name: str, whose: list[str]
) -> None:
    monkeypatch.chdir(lab.ROOT)
    with pytest.raises(SystemExit, match="0"):
        lab.main([chapter, *whose, "--", "--ServerApp.token=abc", "more"])
    assert f"--LabApp.default_url=/lab/tree/{name}" in opened[0]
    assert opened[0][-2:] == ["--ServerApp.token=abc", "more"]
    assert chapter not in opened[0]


@pytest.mark.parametrize("chapter", ["77", "nonsense", "elsewhere.ipynb"])
def test_a_chapter_that_there_is_not(
    opened: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, chapter: str
) -> None:
    monkeypatch.chdir(lab.ROOT)
    (lab.ROOT / "elsewhere.ipynb").write_text(notebook("1"))
    with pytest.raises(SystemExit, match="2"):
        lab.main([chapter])
    told = capsys.readouterr().err
    assert "give a number (00, 05)" in told or "this notebook is not of the course" in told
    assert opened == []
    assert not (lab.ROOT / "my_course").exists()


def test_a_copy_in_a_folder_of_ones_own(
    opened: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home" / "ann"
    (tmp_path / "build").write_text("")  # in somebody else's repository nothing can be written
    for _ in range(2):
        with pytest.raises(SystemExit, match="0"):
            lab.main(["--home", str(home), "05"])
    assert f"--ServerApp.root_dir={home / 'my_course'}" in opened[1]
    assert (home / "my_course" / lab.MANIFEST).is_file()
    with pytest.raises(lab.SetupError, match=r"lab --home FOLDER"):
        lab.main([])


def ask(address: str, path: str, body: dict | None = None) -> dict:
    """What the server at that printed address answers to a GET, or to a PUT of ``body``."""
    server, token = re.match(r"(.*?)/lab.*token=(\w+)", address).groups()
    data, method = (json.dumps(body).encode(), "PUT") if body else (None, "GET")
    head = {"Authorization": f"token {token}"}
    request = urllib.request.Request(f"{server}/{path}", data, head, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or "{}")


def test_each_copy_has_its_own_tabs(tmp_path: Path) -> None:
    saved = {"data": {"layout-restorer:data": {"main": "05"}}, "metadata": {"id": "default"}}
    found = []
    for name, said in (("one", saved), ("one", None), ("two", None)):
        folder = tmp_path / name / "my_course"
        folder.mkdir(parents=True, exist_ok=True)
        with serving(folder, settings=tmp_path) as (_, address):
            if said:
                ask(address, "lab/api/workspaces/default", said)
            else:
                found.append(ask(address, "lab/api/workspaces/default")["data"])
            assert ask(address, "api/contents")["content"] == []  # a student's list of files does not show it
    assert found == [saved["data"], {}]
    assert not list(tmp_path.glob("CONFIG/**/*workspace*"))


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
