"""The course's own Python environment, .venv: made on first use, mended when it is not whole, then entered.

Standard library only. A note inside .venv says for what it was made and whether that was finished, so a later
run knows in milliseconds whether it may start. Everything that changes .venv holds a lock.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from course_utils.tools import install, offline
from course_utils.tools.install import Say, SetupError

ENTERED = "COURSE_UTILS_ENTERED"  # set for the moment of the change into .venv, against going round for ever
ROOM = 2e9  # bytes: what .venv takes with torch's CPU build; the CUDA build takes several times that


class Place:
    """The paths of one repository's environment."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        self.venv = self.root / ".venv"
        windows = os.name == "nt"
        self.scripts = self.venv / ("Scripts" if windows else "bin")
        self.python = self.scripts / ("python.exe" if windows else "python")
        self.note = self.venv / "course_utils.json"
        self.lock = self.root / "build" / "setup.lock"
        self.log = self.root / "build" / "install.log"


def wanted(place: Place) -> dict[str, str]:
    """What a finished .venv has to be made for: this Python, this folder, these requirements."""
    project = tomllib.loads((place.root / "pyproject.toml").read_text("utf-8"))
    parts = {
        "build-system": project.get("build-system"),
        "project": project.get("project"),
        "setuptools": project.get("tool", {}).get("setuptools"),
        "requirements": (place.root / "requirements.txt").read_text("utf-8"),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    python = ".".join(str(number) for number in sys.version_info[:2])
    return {"python": python, "folder": str(place.venv), "requirements": digest}


def look(place: Place) -> tuple[str, str]:
    """What .venv needs ("nothing", "make", "make again", "install", "adopt" if made by hand), and why."""
    try:
        return _look(place)
    except PermissionError as error:
        raise _not_for_this_user(place, error) from error


def _look(place: Place) -> tuple[str, str]:
    if not place.venv.exists():
        return "make", ""
    try:
        note = json.loads(place.note.read_text("utf-8"))
    except FileNotFoundError:
        return ("adopt", "it was made by hand") if any(place.venv.iterdir()) else ("make", "")
    except ValueError:
        note = None
    note = note if isinstance(note, dict) else {}
    now = wanted(place)
    if not note.get("finished"):
        return "make again", "its set-up was not finished"
    if note.get("folder") != now["folder"]:
        return "make again", f"it was made for another folder, {note.get('folder')}"
    if note.get("python") != now["python"]:
        return "make again", f"it has Python {note.get('python')}, and this is Python {now['python']}"
    try:
        place.python.stat()  # exists() would be silent on one that this user can't reach
    except (FileNotFoundError, NotADirectoryError):
        return "make again", "the Python that it was made with is gone"
    if note.get("requirements") != now["requirements"]:
        return "install", "requirements.txt or pyproject.toml has changed"
    return "nothing", ""


def _not_for_this_user(place: Place, error: OSError) -> SetupError:
    return SetupError(
        f"This user can't start .venv's Python, {os.path.realpath(place.python)} ({error.strerror}).\n"
        "Have .venv removed by whoever made it, then make it with a Python that all users can run, such as\n"
        "/usr/bin/python3 -m course_utils lab"
    )


def is_ready(place: Place) -> bool:
    """Whether a command may start in .venv as it is."""
    return look(place)[0] == "nothing"


def write_note(place: Place, finished: bool) -> None:
    """Say inside .venv what it is for. Unfinished, it will be made again whatever happens now."""
    beside = place.note.with_suffix(".new")
    beside.write_text(json.dumps({**wanted(place), "finished": finished}), "utf-8")
    os.replace(beside, place.note)


def distrust(place: Place) -> None:
    """Have the next run make .venv again."""
    write_note(place, finished=False)


def prepare(place: Place, say: Say = install.say, wheelhouse: Path | None = None) -> None:
    """Make .venv whole, telling ``say`` what happens; with a ``wheelhouse`` from that alone.

    Raises SetupError, which says what to do.
    """
    if is_ready(place):
        return
    try:
        with locked(place.lock, say) as held:
            what, why = look(place)
            if what == "nothing":
                return
            start = time.monotonic()
            options = offline.pip_options(wheelhouse, place.root) if wheelhouse else []
            env = offline.environ(clean()) if wheelhouse else clean()
            if what == "adopt":
                _try_handmade(place)
            if why:
                say(f".venv: {why}.")
            place.venv.mkdir(exist_ok=True)
            if what.startswith("make"):
                _make(place, say, held, wheelhouse)
            write_note(place, finished=False)
            command = [str(place.python), "-m", "pip", "install", "--no-user", *options]
            if wheelhouse and what.startswith("make"):
                bare = offline.with_pip(wheelhouse, env)
                install.pip([*command, "pip"], place.root, bare, place.log, say, held, head="2 of 2: pip")
            install.pip([*command, "-r", "requirements.txt"], place.root, env, place.log, say, held)
            write_note(place, finished=True)
            say(f".venv is complete ({time.monotonic() - start:.0f} s). Later runs start at once.\n")
    except KeyboardInterrupt:
        say("\nThe same command begins the set-up again; what pip has downloaded whole is kept.")
        raise
    except OSError as error:
        raise SetupError(f"The set-up could not write .venv: {error}\n{install.ADVICE['disk']}") from error


def _make(place: Place, say: Say, held: int, wheelhouse: Path | None) -> None:
    needs = ["venv"] if wheelhouse else ["venv", "ensurepip"]  # a wheelhouse has pip itself
    if not all(importlib.util.find_spec(name) for name in needs):
        raise SetupError(install.ADVICE["ensurepip"])
    room = shutil.disk_usage(place.root).free
    if room < ROOM:
        raise SetupError(
            f"Only {room / 1e9:.1f} GB are free in {place.root}; .venv needs {ROOM / 1e9:.0f} GB or more.\n"
            "Make room, then start the same command again."
        )
    first = not place.note.exists()
    say(f"{'First use: the' if first else 'The'} course gets a Python environment of its own, in .venv.")
    if wheelhouse:
        say(f"This takes one or two minutes; all of it comes from {wheelhouse}.")
    else:
        say("This takes one to five minutes, most of it to download PyTorch.")
    chosen = wheelhouse or os.environ.get("PIP_EXTRA_INDEX_URL")
    if not chosen and sys.platform == "linux" and not shutil.which("nvidia-smi"):
        say("(There is no NVIDIA GPU here: 'A smaller PyTorch' in README.md can save gigabytes.)")
    _empty(place)
    say(f"1 of 2: Python {platform.python_version()} into .venv")
    command = [sys.executable, "-m", "venv", "--prompt", "course", str(place.venv)]
    command += ["--without-pip"] if wheelhouse else []
    made = subprocess.run(
        command,
        cwd=place.root,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
        **install.keep(held),
    )
    if made.returncode:
        raise SetupError(install.advice(made.stdout + made.stderr, "Python could not make .venv."))


def _empty(place: Place) -> None:
    """Remove what .venv holds, the note last: a removal that is interrupted is still an unfinished .venv."""
    write_note(place, finished=False)
    for child in place.venv.iterdir():
        if child == place.note:
            continue
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()


def _try_handmade(place: Place) -> None:
    """Raise SetupError if a .venv made here by hand does not fit: it is not ours to remove."""
    question = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.prefix)"
    version, prefix = "", ""
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(
            [str(place.python), "-c", question],
            env=clean(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        version, prefix = answer.stdout.splitlines()
    now = wanted(place)["python"]
    if version != now or Path(prefix).resolve() != place.venv:
        state = f"it has Python {version}, this is {now}" if version else "its Python does not start"
        raise SetupError(
            f"The folder .venv was not made by this command, and {state}.\n"
            "Rename or remove that folder, then start the same command again."
        )


def enter(place: Place, argv: list[str], wheelhouse: Path | None = None) -> None:
    """Go on with the command ``argv`` inside .venv, made whole before. Returns only if already inside."""
    arrived = os.environ.pop(ENTERED, None)
    inside = place.venv.exists() and Path(sys.prefix).resolve() == place.venv.resolve()
    if inside and (arrived or is_ready(place)):
        return
    if arrived:
        raise SetupError(
            f"{place.python} does not start inside .venv (its prefix is {sys.prefix}).\n"
            "Remove the folder .venv, then start the same command again."
        )
    if inside:  # an activated .venv that needs mending, which can't be done from within
        become([getattr(sys, "_base_executable", ""), "-m", "course_utils", *argv], clean())
    prepare(place, wheelhouse=wheelhouse)
    try:
        become([str(place.python), "-m", "course_utils", *argv], {**clean(), **_names(place), ENTERED: "1"})
    except PermissionError as error:
        raise _not_for_this_user(place, error) from error


def clean() -> dict[str, str]:
    """The environment variables without those that lead Python or pip past .venv."""
    astray = ["PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__"]
    astray += ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"]
    return {name: value for name, value in os.environ.items() if name not in astray}


def _names(place: Place) -> dict[str, str]:
    """What an activated .venv sets, and that its kernel comes before a user's of the same name."""
    path = os.pathsep.join([str(place.scripts), os.environ.get("PATH", os.defpath)])
    return {"VIRTUAL_ENV": str(place.venv), "PATH": path, "JUPYTER_PREFER_ENV_PATH": "1"}


def become(command: list[str], env: dict[str, str]) -> None:
    """Replace this process by ``command``; on Windows, which can't, wait for it and end as it ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name != "nt":
        os.execve(command[0], command, env)
    with subprocess.Popen(command, env=env) as process:
        while True:
            try:
                sys.exit(process.wait())
            except KeyboardInterrupt:  # it has had the interrupt too, and decides what that means
                continue


@contextlib.contextmanager
def locked(path: Path, say: Say) -> Iterator[int]:
    """Hold the lock file ``path``; gives its descriptor. It is free when its holders end, even killed."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a+") as file:
        told = False
        while not _take(file.fileno()):
            if not told:
                say("Another run is setting the course up; waiting for it to finish.")
            told = True
            time.sleep(0.5)
        yield file.fileno()


def _take(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True  # no locks on this file system: rather two runs at once than a course that never starts
    return True
