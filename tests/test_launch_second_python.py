"""The contract on another Python: the newest supported one here that has the course's packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernels import ROOT

NAMES = ("python3.13", "python3.12", "python3.11")
PACKAGES = "torch, pytest, cloudpickle, psutil, ipykernel, jupyter_client"
PROBE = f"import sys, {PACKAGES}; print(*sys.version_info[:2], torch.__version__)"
FILES = ("test_launch_contract.py", "test_launch_group.py", "test_launch_errors.py")


def interpreters() -> list[str]:
    given = os.environ.get("COURSE_SECOND_PYTHON")
    return [given] if given else [path for name in NAMES if (path := shutil.which(name))]


def version(interpreter: str) -> tuple[str, ...]:
    """(major, minor, torch's version) of an interpreter that has the course's packages, else nothing."""
    probe = subprocess.run([interpreter, "-c", PROBE], capture_output=True, text=True, timeout=120)
    return tuple(probe.stdout.split()) if probe.returncode == 0 else ()


@pytest.mark.all
def test_the_contract_holds_on_the_newest_python():
    own = tuple(map(str, sys.version_info[:2]))
    wanted = torch.__version__.split("+")[0]
    found = next(
        (
            interpreter
            for interpreter in interpreters()
            if (of := version(interpreter)) and of[:2] != own and of[2].split("+")[0] == wanted
        ),
        None,
    )
    if found is None:
        pytest.skip(
            f"no other Python with torch {wanted}: set COURSE_SECOND_PYTHON to the python of an environment "
            "that has requirements.txt"
        )
    tests = [str(Path(__file__).with_name(name)) for name in FILES]
    command = [
        found,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *tests,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
