"""An installation without a network: what one machine puts into a folder, another installs from it alone."""

import ensurepip
import importlib.util
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pip._vendor.packaging.markers as packaging
import pytest
from repositories import write_setuptools, write_wheel

from course_utils import __main__ as commands
from course_utils.tools import offline, wheelhouse
from course_utils.tools.environment import Place, SetupError, prepare
from course_utils.tools.offline import Target, here


@pytest.fixture
def index(small_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the package index: tiny, which needs more on Windows only, pip, and a setuptools."""
    folder = small_repository.with_name("index")
    write_wheel(folder, "tiny", needs=["more; sys_platform == 'win32'", "never; python_version < '3.9'"])
    more = write_wheel(folder, "more")
    more.rename(folder / "more-1.0-cp312-cp312-win_amd64.whl")
    write_setuptools(folder)
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    shutil.copy(next(bundled.glob("pip-*.whl")), folder)
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    (small_repository / "requirements.txt").write_text("tiny==1.0  # small\n-e .\n")
    return folder


@pytest.fixture
def cut_the_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """To be called: from then on pip would ask an index that refuses to answer."""

    def cut() -> None:
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        monkeypatch.delenv("PIP_NO_INDEX", raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}/simple")

    with socket.socket() as nobody:  # bound and not listening: a connection is refused
        nobody.bind(("127.0.0.1", 0))
        yield cut


def names(folder: Path) -> set[str]:
    return {path.name.split("-")[0] for path in folder.glob("*.whl")}


def packages(place: Place) -> set[str]:
    command = [str(place.python), "-m", "pip", "list", "--format=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {row["name"] for row in json.loads(done.stdout)}


def refusal(place: Place, folder: Path) -> str:
    with pytest.raises(SetupError) as refused:
        prepare(place, [].append, folder)
    return str(refused.value)


def test_made_here_and_installed_there_without_a_network(
    small_repository: Path,
    index: Path,
    cut_the_network: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, folder, said = Place(small_repository), small_repository / "wheelhouse", []
    wheelhouse.make(place, folder, here(), said.append)
    assert names(folder) == {"tiny", "setuptools", "pip"}
    assert f"is complete for {here()}: 3 files" in said[-2]
    assert not (folder / ".half").exists()

    cut_the_network()
    said.clear()
    wheelhouse.make(place, folder, here(), said.append)  # nothing to do, and nothing asked
    assert len(said) == 2

    found = importlib.util.find_spec  # as Debian's python3 without python3-venv, where nothing can be mended
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name)
    )
    prepare(place, said.append, folder)
    assert packages(place) == {"tiny", "pip", "course-utils"}
    assert any(f"all of it comes from {folder}" in line for line in said)
    shutil.rmtree(folder)
    prepare(place, said.append, folder)  # a whole .venv needs no folder


def test_for_another_system_it_follows_that_systems_markers(small_repository: Path, index: Path) -> None:
    place, folder = Place(small_repository), small_repository / "stick"
    windows = Target("3.12", "windows-x86_64")
    wheelhouse.make(place, folder, windows, [].append)
    assert names(folder) == {"tiny", "more", "setuptools", "pip"}
    assert f"was made for {windows}, and this is {here()}." in refusal(place, folder)
    assert not place.venv.exists()

    wheelhouse.make(place, folder, here(), [].append)  # both on one stick, what they share once
    assert offline.targets(folder) == sorted([windows, here()], key=lambda target: target[::-1])
    assert names(folder) == {"tiny", "more", "setuptools", "pip"}
    with pytest.raises(SetupError, match="no release of a requirement"):  # there is no such wheel of more
        wheelhouse.make(place, folder, Target("3.13", "windows-x86_64"), [].append)
    assert offline.pip_options(folder, small_repository)[-1] == str(folder)


def test_what_is_missing_is_named_and_nothing_is_replaced(small_repository: Path, index: Path) -> None:
    place, folder = Place(small_repository), small_repository / "wheelhouse"
    assert "There is no folder" in refusal(place, folder)
    folder.mkdir()
    assert "is not a finished wheelhouse" in refusal(place, folder)
    wheelhouse.make(place, folder, here(), [].append)

    tiny = folder / "tiny-1.0-py3-none-any.whl"
    whole = tiny.read_bytes()
    tiny.write_bytes(whole[:-10])
    assert f"was not copied whole; this differs: {tiny.name}." in refusal(place, folder)
    tiny.unlink()
    assert f"lacks a file that it once had: {tiny.name}." in refusal(place, folder)
    other = offline.manifest(folder, here()).rename(folder / f"{here().platform}-3.9.json")
    assert "Start with that Python: python3.9 -m course_utils" in refusal(place, folder)
    other.rename(offline.manifest(folder, here()))
    tiny.write_bytes(whole)
    (small_repository / "requirements.txt").write_text("tiny==1.0\nmore==1.0\n")
    text = refusal(place, folder)
    assert "lacks more==1.0, which this copy of the course needs." in text
    assert f"wheelhouse --python {here().python} --platform {here().platform}" in text
    assert not place.venv.exists()


def test_a_download_that_breaks_off_replaces_nothing_and_the_next_goes_on(
    small_repository: Path, index: Path
) -> None:
    place, folder = Place(small_repository), small_repository / "wheelhouse"
    wheelhouse.make(place, folder, here(), [].append)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (small_repository / "requirements.txt").write_text("tiny==1.0\nextra==1.0\n-e .\n")
    with pytest.raises(SetupError, match=r"what stood there still does\.(.|\n)*extra==1\.0"):
        wheelhouse.make(place, folder, here(), [].append)
    (folder / ".half" / "left-1.0-py3-none-any.whl").touch()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before

    write_wheel(index, "extra")
    wheelhouse.make(place, folder, here(), [].append)
    assert names(folder) == {"tiny", "extra", "setuptools", "pip"}
    (small_repository / "requirements.txt").write_text("extra==1.0\n-e .\n")
    wheelhouse.make(place, folder, here(), [].append)
    assert names(folder) == {"extra", "setuptools", "pip"}  # what nobody needs any more is gone


def test_no_setting_of_pip_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"PIP_INDEX_URL": "x", "PIP_FIND_LINKS": "y", "PIP_CONSTRAINT": "z", "HOME": "h"}
    assert set(offline.environ(given)) == {"HOME", "PIP_CONFIG_FILE"}


@pytest.mark.parametrize(
    ("command", "given", "left", "folder"),
    [
        ("lab", ["--no-browser"], ["--no-browser"], None),
        ("lab", ["--offline"], [], "wheelhouse"),
        ("lab", ["--offline", "stick", "--port", "1"], ["--port", "1"], "stick"),
        ("lab", ["--offline", "--port", "1"], ["--port", "1"], "wheelhouse"),
        ("lab", ["--offline", "05"], ["05"], "wheelhouse"),
        ("lab", ["--", "--offline"], ["--", "--offline"], None),
        ("test", ["--offline", "tests"], ["tests"], "wheelhouse"),
        ("test", ["--offline=stick", "tests"], ["tests"], "stick"),
        ("wheelhouse", ["--offline"], ["--offline"], None),
    ],
)
def test_the_option(
    command: str, given: list[str], left: list[str], folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(commands.ROOT)
    monkeypatch.chdir(root)
    assert commands.offline(command, given) == (left, folder and str(root / folder))


def test_the_command_hands_the_folder_on(small_repository: Path) -> None:
    command = [sys.executable, "-m", "course_utils", "run", "--offline=nowhere"]
    done = subprocess.run(
        command, cwd=small_repository, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"There is no folder {small_repository / 'nowhere'}" in done.stderr
    assert not (small_repository / ".venv").exists()


def test_the_names_of_systems_and_their_markers() -> None:
    assert here().platform in wheelhouse.PLATFORMS
    for python in wheelhouse.PYTHONS:
        for name in wheelhouse.PLATFORMS:
            assert wheelhouse.markers(Target(python, name)).keys() == packaging.default_environment().keys()
    ours = wheelhouse.markers(here())
    for name in ("os_name", "sys_platform", "platform_machine", "platform_system", "python_version"):
        assert ours[name] == packaging.default_environment()[name]
