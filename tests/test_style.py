"""ruff over the whole repository, so that a bare `pytest` says the same as `python3 -m course_utils test`."""

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
