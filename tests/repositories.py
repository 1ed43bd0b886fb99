"""A repository as small as the commands allow, with a requirement that installs in a moment."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def write_wheel(folder: Path, name: str) -> Path:
    """An installable package that holds nothing but ``NAME.py``."""
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{name}.py", "VALUE = 1\n")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return wheel


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
