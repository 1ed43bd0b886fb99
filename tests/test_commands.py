"""`python3 -m course_utils`: what starts on a bare Python, how it enters .venv, and what `test` runs."""

import ast
import errno
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from course_utils import __main__ as commands
from course_utils.tools import environment
from course_utils.tools.environment import Place, look

ROOT = Path(__file__).resolve().parents[1]
BARE = [ROOT / "course_utils" / "__init__.py", ROOT / "course_utils" / "__main__.py"]
PYENV = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
OLD = [path for path in PYENV if 6 <= int(path.parts[-3].split(".")[1]) < commands.OLDEST[1]]
SAYS_WHERE = """
import json, os, sys
def main(argv):
    names = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "COURSE_UTILS_ENTERED")
    print(json.dumps([sys.prefix, argv, {name: os.environ.get(name) for name in names}]))
    return 7
"""


def start(
    root: Path, *argv: str, python: str | Path = sys.executable, **env: str
) -> "subprocess.CompletedProcess[str]":
    """``python -m course_utils ARGV`` as a person types it in the folder ``root``."""
    return subprocess.run(
        [str(python), "-m", "course_utils", *argv],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("path", BARE, ids=lambda path: path.name)
def test_an_old_python_can_read_what_starts_first(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 6))


@pytest.mark.skipif(not OLD, reason="there is no Python here that is too old")
def test_an_old_python_is_told_so() -> None:
    for python in OLD:
        done = start(ROOT, "lab", python=python)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("The course runs on Python 3.11 to 3.13, and this is Python 3.")
        assert "Traceback" not in done.stderr


def test_the_versions_are_those_of_pyproject() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == f">=3.{commands.OLDEST[1]},<3.{commands.NEWEST[1] + 1}"
    for version, fits in (
        ((3, 10), False),
        ((3, 11), True),
        ((3, 13), True),
        ((3, 14), False),
        ((4, 0), False),
    ):
        assert bool(commands.wrong_python(version)) is not fits


def test_nothing_needs_to_be_installed_to_start() -> None:
    code = "import course_utils.__main__, course_utils.tools.environment, course_utils.tools.install"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, timeout=60, check=True)


def test_help_names_the_commands() -> None:
    done = start(ROOT, "--help")
    assert done.returncode == 0
    for name, module in commands.MODULES.items():
        assert f"\n  {name}  " in done.stdout
        assert (ROOT / "course_utils" / "tools" / f"{module}.py").is_file()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["slide", "13"], "There is no command 'slide'; did you mean slides?\n"),
        (["xyz"], "There is no command 'xyz'.\n"),
    ],
)
def test_what_is_no_command(argv: list[str], says: str) -> None:
    done = start(ROOT, *argv)
    assert done.returncode == 2
    assert done.stderr == says + "python3 -m course_utils --help names them all.\n"


def test_no_command_at_all() -> None:
    done = start(ROOT)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Which command?")


def test_what_can_not_be_written_in_the_repository_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from course_utils.tools import site

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "ROOT", str(tmp_path))
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "enter", lambda *_: None)
    (tmp_path / "build").write_text("")  # root may write everywhere, but not in a file's folder
    assert commands.main(["site"]) == 1
    assert f"'{tmp_path / 'build'}'\nThis command writes in the repository" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (PermissionError(errno.EACCES, "Permission denied", f"{ROOT}/build/site.lock"), True),
        (OSError(errno.EROFS, "Read-only file system", f"{ROOT}/build"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (PermissionError(errno.EACCES, "Permission denied", "/elsewhere"), False),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", f"{ROOT}/build/x"), False),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), False),
    ],
)
def test_which_errors_are_told_so(error: OSError, is_told: bool) -> None:
    assert bool(commands.not_written(error)) is is_told


def test_started_elsewhere_it_says_where_to_go(tmp_path: Path) -> None:
    done = start(tmp_path, "lab", PYTHONPATH=str(ROOT))
    assert done.returncode == 2
    assert f'cd "{ROOT}"' in done.stderr
    done = subprocess.run(
        [sys.executable, ROOT / "course_utils", "lab"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert f'cd "{ROOT}"' in done.stderr


def test_the_way_into_the_environment(small_repository: Path) -> None:
    place = Place(small_repository)
    (small_repository / "course_utils" / "tools" / "run.py").write_text(SAYS_WHERE)
    asked = start(small_repository, "run", "--help").stdout
    assert "usage" in asked
    assert asked.endswith("\nOnce lab has made .venv, run --help says what run takes.\n")
    assert not place.venv.exists()  # asking how costs nothing

    first = start(small_repository, "run", "02", "--fast", PYTHONPATH="/elsewhere")
    assert first.returncode == 7, first.stderr
    prefix, argv, names = json.loads(first.stdout)
    assert Path(prefix) == place.venv
    assert argv == ["02", "--fast"]
    assert names["PATH"].split(os.pathsep)[0] == str(place.scripts)
    assert names["VIRTUAL_ENV"] == str(place.venv)
    assert names["PYTHONPATH"] is None
    assert names["COURSE_UTILS_ENTERED"] is None
    assert "First use" in first.stderr

    for python in (sys.executable, place.python):  # not activated, and activated
        again = start(small_repository, "run", python=python)
        assert again.returncode == 7
        assert again.stderr == ""
        assert Path(json.loads(again.stdout)[0]) == place.venv

    needless = start(small_repository, "run", "--offline=nowhere")
    assert needless.returncode == 7
    assert needless.stderr == ".venv is there already: --offline is not needed, and was passed over.\n"

    environment.distrust(place)  # as a set-up leaves it that was killed, and the person has it activated
    mended = start(small_repository, "run", python=place.python)
    assert mended.returncode == 7, mended.stderr
    assert "its set-up was not finished" in mended.stderr
    assert look(place)[0] == "nothing"

    (small_repository / "course_utils" / "tools" / "run.py").write_text("import a_package_that_was_removed")
    lacking = start(small_repository, "run")
    assert lacking.returncode == 1
    assert ".venv lacks a_package_that_was_removed. The same command again makes it whole." in lacking.stderr
    assert look(place)[0] == "make again"


def test_a_program_that_is_not_in_the_environment_does_not_go_round_for_ever(small_repository: Path) -> None:
    done = start(small_repository, "run", COURSE_UTILS_ENTERED="1")
    assert done.returncode == 1
    assert "does not start inside .venv" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="rights of POSIX")
def test_a_python_that_this_user_can_not_start(small_repository: Path) -> None:
    place = Place(small_repository)
    place.scripts.mkdir(parents=True)
    place.python.write_text("#!/bin/sh\n")  # without the right to execute it, which root lacks then, too
    environment.write_note(place, finished=True)
    done = start(small_repository, "run")
    assert done.returncode == 1
    assert done.stderr.startswith(f"\nThis user can't start .venv's Python, {place.python}")
    assert "Python that all users can run, such as\n/usr/bin/python3 -m course_utils lab" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The repository's settings of pytest, over a test of each kind and a notebook with a measured value."""
    for name in ("pyproject.toml", "conftest.py", "tests/sanitize.cfg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "test_both.py").write_text(
        "import pytest\ndef test_quick(): pass\n@pytest.mark.all\ndef test_slow(): pass\n"
    )
    write_notebook(tmp_path, "took ⟨3 ms⟩, sum 10\n")
    return tmp_path


def write_notebook(root: Path, stored: str) -> None:
    source = "import os, sys, time\nprint(f'took ⟨{time.time()} s⟩, sum 10')"
    source += "\nassert sys.prefix == os.environ['EXPECTED_PREFIX']"
    output = {"output_type": "stream", "name": "stdout", "text": stored}
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "execution_count": 1,
        "source": source,
        "outputs": [output],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (root / "notebooks").mkdir(exist_ok=True)
    (root / "notebooks" / "00_one.ipynb").write_text(json.dumps(whole), "utf-8")


def pytest_in(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *argv],
        cwd=folder,
        env={**env, "EXPECTED_PREFIX": sys.prefix},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_bare_pytest_runs_the_tests_and_compares_the_notebooks(scratch: Path) -> None:
    done = pytest_in(scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 1 deselected" in done.stdout
    assert "left out: 1, which --all runs too" in done.stdout
    assert "3 passed in" in pytest_in(scratch, "--all").stdout


def test_what_is_not_measured_is_compared(scratch: Path) -> None:
    write_notebook(scratch, "took ⟨3 ms⟩, sum 11\n")
    done = pytest_in(scratch)
    assert done.returncode == 1
    assert "1 failed, 1 passed, 1 deselected" in done.stdout


def test_a_notebook_that_takes_too_long_fails_the_run(scratch: Path) -> None:
    done = pytest_in(scratch, "notebooks", "--seconds=0.001")
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "FAILED 00_one: took more than 0.001 seconds" in done.stdout


def test_one_notebook_from_another_folder(scratch: Path) -> None:
    done = pytest_in(scratch / "tests", "../notebooks/00_one.ipynb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed in" in done.stdout


def test_the_kernel_is_that_of_the_environment(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = scratch / "data" / "kernels" / "python3"  # a user's kernel of the same name
    other.mkdir(parents=True)
    argv = ["/bin/false", "{connection_file}"]
    (other / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(scratch / "data"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(scratch / "data"))
    assert pytest_in(scratch, "notebooks").returncode == 0


def test_the_test_command_is_that_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    from course_utils.tools import verify

    seen = []

    def become(command: list[str], env: dict[str, str]) -> None:
        seen.append(command)
        raise SystemExit(5)

    monkeypatch.setattr(verify, "become", become)
    with pytest.raises(SystemExit, match="5"):
        verify.main(["--all", "-x"])
    assert seen == [[sys.executable, "-m", "pytest", "--all", "-x"]]
