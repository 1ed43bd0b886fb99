"""The course's own .venv: made once, and mended after whatever went wrong."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest
from repositories import write_wheel

from course_utils.tools import environment, install
from course_utils.tools.environment import Place, SetupError, look, prepare, write_note

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
PREPARE = "from course_utils.tools.environment import *; prepare(Place({!r}))"


def packages(place: Place) -> set[str]:
    code = "import importlib.util as u; print([n for n in ('tiny', 'more') if u.find_spec(n)])"
    done = subprocess.run([place.python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(eval(done.stdout))


def prepare_elsewhere(root: Path) -> "subprocess.Popen[str]":
    """``prepare`` in a process of its own, in which an interrupt is not ignored, wherever the tests run."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + PREPARE.format(
        str(root)
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=root, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, limit: float = 60) -> None:
    end = time.monotonic() + limit
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def test_made_once_then_mended_after_each_change(small_repository: Path) -> None:
    place, said = Place(small_repository), []
    assert look(place) == ("make", "")
    prepare(place, said.append)
    assert packages(place) == {"tiny"}
    assert any("First use" in line for line in said)
    assert "Later runs start at once" in said[-1]

    said.clear()
    prepare(place, said.append)
    assert said == []

    write_wheel(small_repository / "wheels", "more")
    with (small_repository / "requirements.txt").open("a") as file:
        file.write("./wheels/more-1.0-py3-none-any.whl\n")
    assert look(place)[0] == "install"
    prepare(place, said.append)
    assert packages(place) == {"tiny", "more"}
    assert said[0] == ".venv: requirements.txt or pyproject.toml has changed."

    moved = small_repository.rename(small_repository.with_name("moved"))
    place = Place(moved)
    assert look(place) == ("make again", f"it was made for another folder, {small_repository / '.venv'}")
    prepare(place, said.append)
    assert look(place)[0] == "nothing"
    assert packages(place) == {"tiny", "more"}


def test_what_makes_a_whole_environment_useless(small_repository: Path) -> None:
    place = Place(small_repository)
    place.scripts.mkdir(parents=True)
    place.python.touch()
    write_note(place, finished=True)
    assert look(place)[0] == "nothing"
    place.note.write_text(place.note.read_text().replace(environment.wanted(place)["python"], "3.7"))
    assert look(place) == (
        "make again",
        f"it has Python 3.7, and this is Python {sys.version_info[0]}.{sys.version_info[1]}",
    )
    write_note(place, finished=True)
    place.python.unlink()
    assert "is gone" in look(place)[1]
    for damaged in ("", "[]", '{"finished": tr'):
        place.note.write_text(damaged)
        assert look(place) == ("make again", "its set-up was not finished")


def test_settings_of_pytest_and_ruff_are_no_reason_to_install(small_repository: Path) -> None:
    place = Place(small_repository)
    before = environment.wanted(place)
    settings = small_repository / "pyproject.toml"
    settings.write_text(settings.read_text().replace("line-length = 110", "line-length = 100"))
    assert environment.wanted(place) == before
    settings.write_text(settings.read_text().replace('version = "0.1.0"', 'version = "0.2.0"'))
    assert environment.wanted(place) != before


@pytest.mark.all
@POSIX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_in_the_middle_the_next_run_makes_it_anew(small_repository: Path, number: int) -> None:
    place = Place(small_repository)
    with prepare_elsewhere(small_repository) as process:
        wait_for(place.python)
        process.send_signal(number)
        told = process.communicate(timeout=60)[1]
        assert process.returncode != 0
    if number == signal.SIGINT:
        assert "begins the set-up again" in told
    assert look(place)[0] == "make again"
    (place.venv / "left behind").touch()
    prepare(place, [].append)
    assert not (place.venv / "left behind").exists()
    assert packages(place) == {"tiny"}


@POSIX
def test_two_runs_at_once_make_one_environment(small_repository: Path) -> None:
    place, said = Place(small_repository), []
    with prepare_elsewhere(small_repository) as process:
        wait_for(place.python)
        prepare(place, said.append)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert said == ["Another run is setting the course up; waiting for it to finish."]
    assert packages(place) == {"tiny"}


@pytest.mark.all
def test_a_handmade_environment_is_taken_over(small_repository: Path) -> None:
    place, said = Place(small_repository), []
    subprocess.run([sys.executable, "-m", "venv", place.venv], timeout=120, check=True)
    (place.venv / "mine").touch()
    assert look(place) == ("adopt", "it was made by hand")
    prepare(place, said.append)
    assert packages(place) == {"tiny"}
    assert (place.venv / "mine").exists()


def test_somebody_elses_folder_is_not_removed(small_repository: Path) -> None:
    place = Place(small_repository)
    place.venv.mkdir()
    (place.venv / "mine").touch()
    with pytest.raises(
        SetupError, match=r"was not made by this command, and its Python does not start\.\nRename"
    ):
        prepare(place, [].append)
    assert [path.name for path in place.venv.iterdir()] == ["mine"]


def test_a_python_in_a_home_that_is_closed_to_others(
    small_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, stat = Place(small_repository), Path.stat
    place.venv.mkdir()
    write_note(place, finished=True)

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path == place.python:  # a link to a Python below a folder that this user may not enter
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(SetupError, match=r"This user can't start .*\nHave \.venv removed"):
        prepare(place, [].append)


def test_no_network(small_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(small_repository)
    with socket.socket() as nobody:  # bound and not listening: a connection is refused
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
        whole = (small_repository / "requirements.txt").read_text()
        (small_repository / "requirements.txt").write_text(whole + "a-package-from-afar==1\n")
        with pytest.raises(SetupError, match=r"(?s)could not be reached.*build/install\.log") as failure:
            prepare(place, [].append)
    assert "Traceback" not in str(failure.value)
    assert "a-package-from-afar" in place.log.read_text()
    (small_repository / "requirements.txt").write_text(whole)
    prepare(place, [].append)
    assert packages(place) == {"tiny"}


def test_no_room_on_the_disk(small_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")(1_200_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(SetupError, match=r"Only 1\.2 GB are free"):
        prepare(Place(small_repository), [].append)


def test_python_without_ensurepip(small_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name)
    )
    with pytest.raises(SetupError, match="apt install python3-venv"):
        prepare(Place(small_repository), [].append)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_repository_that_can_not_be_written(small_repository: Path) -> None:
    small_repository.chmod(0o500)
    try:
        with pytest.raises(SetupError, match="could not write"):
            prepare(Place(small_repository), [].append)
    finally:
        small_repository.chmod(0o700)


@pytest.mark.parametrize(
    ("output", "fits"),
    [
        (
            "WARNING: Retrying after NewConnectionError\nERROR: No matching distribution found for torch",
            "not be reached",
        ),
        ("Caused by SSLError(SSLCertVerificationError(1, '... CERTIFICATE_VERIFY_FAILED'))", "PIP_CERT"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "No room",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "found for torch==2.13.0"),
        ("The virtual environment was not created ... ensurepip is not available.", "python3-venv"),
        ("/x/.venv/bin/python: No module named pip", "Remove the folder .venv"),
        ("Collecting a\nERROR: a thing that nobody foresaw", "ERROR: a thing that nobody foresaw"),
    ],
)
def test_what_pip_says_becomes_what_to_do(output: str, fits: str) -> None:
    assert fits in install.advice(output, "It failed.")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Collecting torch==2.13.0 (from -r requirements.txt (line 1))", "looking for torch"),
        ("  Downloading https://x/torch-2.13.0-cp311-linux.whl (179.9 MB)", "downloading torch (179.9 MB)"),
        ("  Downloading numpy-2.4.6-cp311-linux.whl.metadata (6.2 kB)", ""),
        ("  Using cached numpy-2.4.6-cp311-linux.whl (16.1 MB)", "downloading numpy (16.1 MB)"),
        ("Installing collected packages: a, b, c", "installing 3 packages (about a minute)"),
        ("Requirement already satisfied: a", ""),
    ],
)
def test_progress_in_words(line: str, words: str) -> None:
    assert install.stage(line) == words
