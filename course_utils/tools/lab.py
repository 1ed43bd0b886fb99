"""``python3 -m course_utils lab``: the student's own copy of the notebooks, and JupyterLab in front of it."""

import argparse
import errno
import hashlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from course_utils.tools.environment import SetupError, become, locked
from course_utils.tools.install import say

ROOT = Path(__file__).resolve().parents[2]
FIRST = "00_start_here.ipynb"
MANIFEST = ".manifest.json"  # in my_course/: for each file, the SHA-256 of what was handed out last
WORKSPACES = ".workspaces"  # in the folder that is open: which tabs were, in this copy and in no other
SETTINGS = Path(__file__).with_name("lab_settings")  # JupyterLab would ask whether to fetch its news
QUIET = (  # nothing in JupyterLab asks the network, and nothing is written to the user's own settings
    f"--LabApp.app_settings_dir={SETTINGS}",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--ServerApp.answer_yes=True",  # Ctrl-C ends it without a question
    "--Application.log_level=WARN",
)


def without_outputs(text: str) -> str:
    """A notebook's JSON without outputs, counts and widget state: no answer stands under its question."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["metadata"].pop("widgets", None)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def handouts(source: Path) -> Iterator[tuple[str, bytes]]:
    """What a student gets of the folder ``source``: each file's path in it, with / between, and its bytes."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in name.parts):
            data = path.read_bytes()
            if path.suffix == ".ipynb":
                data = without_outputs(data.decode()).encode()
            yield name.as_posix(), data


def hand_out(source: Path, copy: Path) -> list[str]:
    """Bring the student's ``copy`` up to date with ``source``, losing nothing; returns a line for each news.

    A file that the student has not touched is replaced by its new version. One that the student has changed
    is kept, and the new version is put beside it, once. A file that the student has removed comes back.
    """
    begun = copy.exists()
    copy.mkdir(exist_ok=True)
    given = _read_manifest(copy / MANIFEST)
    told = []
    for name, data in handouts(source):
        new, here = _digest(data), copy / name
        has = _digest(here.read_bytes()) if here.is_file() else None
        if has is None or (has == given.get(name) != new):
            _write(here, data)
            if begun:
                told.append(f"{name} is new" if has is None else f"{name} has been brought up to date")
        elif has != new and given.get(name) != new:
            beside = _beside(copy, name, new, given)
            _write(copy / beside, data)
            given[beside] = new
            told.append(f"{name} has changed in the course: yours is kept, the new one is {beside}")
        given[name] = new
    _write(copy / MANIFEST, json.dumps(given, indent=1, sort_keys=True).encode())
    return told


def own_copy(folder: Path) -> None:
    """Make the student's copy in ``folder``, or bring it up to date. Raises SetupError where it can't."""
    lock = folder.with_name(f".{folder.name}.lock")  # in somebody else's repository nothing can be written
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(ROOT / "build" / "setup.lock" if folder.parent == ROOT else lock, say):
            for line in hand_out(ROOT / "notebooks", folder):
                print(line)
    except OSError as error:
        raise SetupError(
            f"Your copy of the course could not be written: {error}\n"
            "In a repository of somebody else's, have it in a folder of your own: lab --home FOLDER"
        ) from error


def page_of(chapter: str, folder: Path) -> str:
    """The name in ``folder`` of the notebook meant by a number, name or path. Raises ValueError for none."""
    from course_utils.tools.run import chapters  # takes a second, which not everybody has to wait

    found = chapters([chapter])[0]
    if found.parent not in (ROOT / "notebooks", folder):
        raise ValueError(f"{chapter}: this notebook is not of the course; jupyter lab opens it")
    return found.name


def _beside(copy: Path, name: str, new: str, given: dict[str, str]) -> str:
    """A name beside the student's file: 05_ddp.new.ipynb, or new2 where the student has written in that."""
    path, number = Path(name), 1
    while True:
        beside = path.with_name(f"{path.stem}.new{number if number > 1 else ''}{path.suffix}").as_posix()
        there = copy / beside
        if not there.exists() or _digest(there.read_bytes()) in (given.get(beside), new):
            return beside
        number += 1


def _read_manifest(path: Path) -> dict[str, str]:
    """Unreadable, it counts as empty: then every file counts as changed by the student, and is kept."""
    try:
        given = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return given if isinstance(given, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing, also if this is killed in the middle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    half.write_bytes(data)
    os.replace(half, path)


def jupyter(
    folder: Path, port: int | None, browser: bool, more: list[str], notebook: str = FIRST
) -> list[str]:
    """The command line that opens ``folder`` in JupyterLab, at that notebook where there is one."""
    page = f"/lab/tree/{notebook}" if (folder / notebook).exists() else "/lab"
    command = [sys.executable, "-m", "jupyterlab", *QUIET]
    command += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url={page}"]
    command.append(f"--LabApp.workspaces_dir={folder / WORKSPACES}")
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return [*command, *more]


def is_busy(port: int) -> bool:
    """Whether another program listens on this port of this machine."""
    with socket.socket() as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def main(argv: list[str]) -> int:
    """The command. Exit status: JupyterLab's, or 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils lab",
        usage="%(prog)s [CHAPTER] [OPTIONS] [-- OPTIONS of jupyter lab]",
        description="Open the course in JupyterLab; Ctrl-C ends it.",
    )
    parser.add_argument("chapter", nargs="?", help="its number, such as 05; without it, 00")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--instructor",
        action="store_true",
        help="the originals with their outputs, not your own copy in my_course/",
    )
    whose.add_argument("--home", metavar="FOLDER", type=Path, help="your own copy there, as FOLDER/my_course")
    parser.add_argument("--port", type=int, help="this port, and no other")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(  # __main__ has taken it by now; it stands here to be told by --help
        "--offline", metavar="FOLDER", help="if .venv is to be made: from this folder, without a network"
    )
    end = argv.index("--") if "--" in argv else len(argv)
    args, more = parser.parse_args(argv[:end]), argv[end + 1 :]
    if args.port is not None and not 0 < args.port < 65536:
        parser.error(f"--port {args.port}: a port is a number from 1 to 65535")
    if args.port and is_busy(args.port):
        parser.error(
            f"--port {args.port}: another program uses it; without --port, the next free one is taken"
        )
    home = args.home.expanduser().resolve() if args.home else ROOT
    folder = ROOT / "notebooks" if args.instructor else home / "my_course"
    try:
        notebook = page_of(args.chapter, folder) if args.chapter else FIRST
    except ValueError as error:
        parser.error(str(error))
    if not args.instructor:
        own_copy(folder)
    print(f"JupyterLab opens {folder}; end it with Ctrl-C.")
    become(jupyter(folder, args.port, not args.no_browser, more, notebook), dict(os.environ))
    raise AssertionError("become() does not return")
