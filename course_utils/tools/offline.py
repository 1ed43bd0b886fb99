"""A wheelhouse, seen by the machine that installs from it: for whom it was made, and whether it is whole.

Standard library only.
"""

import hashlib
import json
import os
import platform
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from course_utils.tools.install import SetupError

DEFAULT = "wheelhouse"  # the folder's name, in the repository
SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
MACHINES = {"AMD64": "x86_64", "ARM64": "arm64"}  # as Windows names them


class Target(NamedTuple):
    """For whom a wheelhouse is made: "3.12", and a platform such as "linux-x86_64"."""

    python: str
    platform: str

    def __str__(self) -> str:
        return f"Python {self.python} on {self.platform}"


def here() -> Target:
    """This Python, and the platform that it was built for."""
    system, machine = platform.system(), platform.machine()
    name = f"{SYSTEMS.get(system, system.lower())}-{MACHINES.get(machine, machine)}"
    return Target(f"{sys.version_info[0]}.{sys.version_info[1]}", name)


def wanted(root: Path) -> list[str]:
    """What the repository needs from an index: its requirements, what building it takes, and pip."""
    lines = (
        line.partition("#")[0].strip() for line in (root / "requirements.txt").read_text("utf-8").split("\n")
    )
    direct = [line for line in lines if line and not line.startswith("-e")]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return [*direct, *project.get("build-system", {}).get("requires", []), "pip"]


def manifest(folder: Path, target: Target) -> Path:
    """Written last, so that a wheelhouse without it was not finished."""
    return folder / f"{target.platform}-{target.python}.json"


def targets(folder: Path) -> list[Target]:
    """For whom the folder holds a finished set of wheels; one folder may serve several."""
    found = (path.stem.rpartition("-") for path in sorted(folder.glob("*-3.*.json")))
    return [Target(python, name) for name, _, python in found]


def read(folder: Path, target: Target) -> tuple[list[str], dict[str, str]]:
    """The requirements that the set was made for, and each file's SHA-256; both empty if unreadable."""
    try:
        content = json.loads(manifest(folder, target).read_text("utf-8"))
        return list(content["requirements"]), dict(content["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return [], {}


def digest(path: Path) -> str:
    """A file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pip_options(folder: Path, root: Path) -> list[str]:
    """The options with which pip installs from ``folder`` alone. Raises SetupError where that must fail."""
    target, made = here(), targets(folder)
    again = f"python3 -m course_utils wheelhouse --python {target.python} --platform {target.platform}"
    bring = (
        f"On a machine with a network, in a copy of this repository:\n{again}\n"
        f"Then bring the folder wheelhouse here, as {folder}."
    )
    if not folder.is_dir():
        raise SetupError(f"There is no folder {folder}: --offline installs from a wheelhouse.\n{bring}")
    if not made:
        raise SetupError(f"{folder} is not a finished wheelhouse.\n{bring}")
    if target not in made:
        words = f"{folder} was made for {' and '.join(map(str, made))}, and this is {target}."
        fits = [other.python for other in made if other.platform == target.platform]
        if fits:
            raise SetupError(
                f"{words}\nStart with that Python: python{fits[0]} -m course_utils lab --offline"
            )
        raise SetupError(f"{words}\n{bring}")
    requirements, files = read(folder, target)
    lacks = [line for line in wanted(root) if line not in requirements]
    if lacks:
        raise SetupError(f"{folder} lacks {', '.join(lacks)}, which this copy of the course needs.\n{bring}")
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise SetupError(f"{folder} lacks a file that it once had: {', '.join(missing)}.\n{bring}")
    broken = [name for name, wanted_digest in files.items() if digest(folder / name) != wanted_digest]
    if broken:
        raise SetupError(f"{folder} was not copied whole; this differs: {', '.join(broken)}.\nCopy it again.")
    return ["--no-index", "--find-links", str(folder)]


def environ(env: dict[str, str]) -> dict[str, str]:
    """``env`` without settings of pip's, which could name an index or another folder."""
    kept = {name: value for name, value in env.items() if not name.startswith("PIP_")}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}


def with_pip(folder: Path, env: dict[str, str]) -> dict[str, str]:
    """``env`` for a Python without pip, in which ``-m pip`` is the folder's own."""
    wheels = sorted(folder.glob("pip-*.whl"))
    return {**env, "PYTHONPATH": str(wheels[-1])}
