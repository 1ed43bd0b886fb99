"""What lies in the folders that ``grade`` is given: notebooks, and what is passed over, each with its reason.

No file is opened here: a notebook is known by its name, as a browser may have changed it.
"""

import functools
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.tools.run import NEIGHBORS, NOTEBOOKS, chapters

NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers add .txt or .json
ARCHIVES = {".zip", ".7z", ".rar", ".tar", ".tgz", ".gz", ".bz2", ".xz"}
SYSTEM = {"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"}  # made by systems, not by students


@dataclass
class HandedIn:
    """What was found.

    Attributes:
        notebooks: to be graded, sorted; each with the name of its row.
        passed_over: name of a file or folder, and why it is not graded and what to do.
        of_course: names of files that every student has and that hold no exercises, with their number.
    """

    notebooks: list[tuple[str, Path]] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    of_course: Counter[str] = field(default_factory=Counter)

    def remarks(self) -> list[str]:
        """A line for each thing passed over, and one for all files of the course."""
        lines = [f"{name}: {reason}" for name, reason in self.passed_over]
        if self.of_course:
            names = ", ".join(f"{count} {name}" for name, count in sorted(self.of_course.items()))
            lines.append(f"passed over as well, files of the course without exercises: {names}")
        return lines


def find(paths: list[Path]) -> HandedIn:
    """The notebooks in files and folders; a file that is named itself is taken whatever it is called.

    A row's name is the notebook's path in the folder, without ".ipynb". The folder's own name stands before
    where there are several, and where a notebook lies directly in it, as it may be one student's; a file's
    folder where names are alike. Raises ValueError for a path that does not exist, or where there is no
    notebook at all.
    """
    found = HandedIn()
    alike = Counter(row_name(path.name) for path in paths if path.is_file())
    for path in paths:
        here = Path(os.path.abspath(path))  # "." has a name then, and a link keeps its own
        if path.is_dir():
            _look_into(here, len(paths) > 1, found)
        elif not path.is_file():
            raise ValueError(f"{path}: there is no such file or folder")
        elif _is_of_course(path.name):
            found.of_course[path.name] += 1
        else:
            name = row_name(path.name)
            name = f"{row_name(here.parent.name)}/{name}" if alike[name] > 1 else name
            found.notebooks.append((name, path))
    if not found.notebooks:
        raise ValueError(
            "\n".join([f"no notebooks (*.ipynb) in {', '.join(map(str, paths))}", *found.remarks()])
        )
    return found


def row_name(path: str) -> str:
    """The name without ".ipynb", as it can be printed (an old archive's may hold what is no character)."""
    return NOTEBOOK.sub("", path).encode("utf-8", "replace").decode("utf-8")


def _look_into(folder: Path, several: bool, found: HandedIn) -> None:
    """Add what is in the folder, however deep. Hidden files and those of the system are not even named."""
    notebooks, others, closed = [], {}, []
    folders = {}  # with the number of their entries
    for here, inside, files in os.walk(folder, onerror=closed.append):
        folders[Path(here)] = len(inside) + len(files)
        inside[:] = [name for name in inside if not _is_hidden(name)]
        linked = [path for path in (Path(here, name) for name in inside) if path.is_symlink()]
        others |= dict.fromkeys(linked, "a link to a folder: name the folder itself")
        for path in (Path(here, name) for name in files if not _is_hidden(name)):
            if _is_of_course(path.name):
                found.of_course[path.name] += 1
            elif NOTEBOOK.search(path.name):
                notebooks.append(path)
            else:
                others[path] = _reason(path)
    others |= {Path(error.filename): f"can't be read ({error.strerror})" for error in closed}
    spoken_of = {parent for path in [*notebooks, *others] for parent in (path, *path.parents)}
    empty = {path for path in folders if path not in spoken_of and path.name not in NEIGHBORS}
    for path in (path for path in empty if path.parent not in empty):
        what = "no notebook in it, at most hidden files and files of the course" if folders[path] else "empty"
        others[path] = f"{what}: ask for the .ipynb file"

    own_name = several or not notebooks or any(file.parent == folder for file in notebooks)
    base = folder.parent if own_name else folder

    def name(path: Path) -> str:
        return row_name(path.relative_to(base).as_posix())

    found.notebooks += [(name(path), path) for path in sorted(notebooks)]
    found.passed_over += [(name(path), reason) for path, reason in sorted(others.items())]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in SYSTEM


def _is_of_course(name: str) -> bool:
    """Whether students have it from the course and it has no exercises: a concept test, their notes."""
    known = name.startswith("concepts_part_") or re.fullmatch(r"progress.*\.json", name)
    return bool(known) or name in _given()


@functools.cache
def _given() -> set[str]:
    """The names of what lies beside the chapters."""
    return {path.name for path in NOTEBOOKS.rglob("*") if path.is_file()} - {p.name for p in chapters([])}


def _reason(file: Path) -> str:
    if file.suffix.lower() in ARCHIVES:
        return "an archive: unpack it and grade what was in it"
    return "not a notebook (*.ipynb): ask for the .ipynb file"
