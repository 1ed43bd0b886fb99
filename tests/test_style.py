"""ruff over the whole repository, so that a bare `pytest` says the same as `python3 -m course_utils test`.

And what ruff has no rule for: a module stays short.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("command", ["check", "format --check --diff"])
def test_ruff(command: str) -> None:
    ruff = [sys.executable, "-m", "ruff", *command.split(), "."]
    done = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_has_less_than_300_lines() -> None:
    """But for the checks of a chapter's exercises, which share their yardsticks and stay in one file."""
    modules = [p for p in (ROOT / "course_utils").rglob("*.py") if not p.stem.startswith("checks_")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length >= 300} == {}
