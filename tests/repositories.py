"""A repository as small as the commands allow, with a requirement that installs in a moment."""

import os
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD_BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name, about = "course_utils-0.1.0-py3-none-any.whl", "course_utils-0.1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as file:
        file.writestr("course_utils.pth", os.getcwd())
        file.writestr(about + "/METADATA", "Metadata-Version: 2.1\\nName: course-utils\\nVersion: 0.1.0\\n")
        file.writestr(about + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        file.writestr(about + "/RECORD", "")
    return name
"""


def write_wheel(folder: Path, name: str, needs: Iterable[str] = ()) -> Path:
    """An installable package that holds nothing but ``NAME.py``; ``needs`` are its requirements."""
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{name}.py", "VALUE = 1\n")
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        metadata += [f"Requires-Dist: {need}" for need in needs]
        file.writestr(f"{about}/METADATA", "\n".join(metadata) + "\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return wheel


def write_setuptools(folder: Path) -> None:
    """A stand-in for setuptools that can do one thing, which "-e ." asks of it: an editable course_utils."""
    about = "setuptools-77.0.dist-info"
    with zipfile.ZipFile(folder / "setuptools-77.0-py3-none-any.whl", "w") as file:
        file.writestr("setuptools/__init__.py", "")
        file.writestr("setuptools/build_meta.py", BUILD_BACKEND)
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: setuptools\nVersion: 77.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")


@pytest.fixture
def small_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of course_utils whose requirements.txt asks for one small wheel; pip reaches no index."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    root = tmp_path / "the course ä"
    root.mkdir()
    shutil.copytree(
        ROOT / "course_utils", root / "course_utils", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", root)
    write_wheel(root / "wheels", "tiny")
    (root / "requirements.txt").write_text("./wheels/tiny-1.0-py3-none-any.whl\n")
    return root
