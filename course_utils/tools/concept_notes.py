"""The files progress.json that students hand in: whose each one is, and why one can't be read."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_utils.concepts.question import PARTS, SECTION, SITTINGS, key, sitting
from course_utils.tools.run import NOTEBOOKS

LARGEST = 10 * 2**20  # bytes; a whole course's notes are some 50 KB
NOTES = (".json", ".json.txt")  # the second is what a mail program or an editor makes of the first
_OWN = re.compile(r"(?i)progress(\.broken|[ -]*\(?\d+\)?| - copy.*| copy.*)?")  # also as downloaded again
_AGAIN = re.compile(r"(?i)( ?\(\d+\)| - copy.*| copy( \d+)?)$")
_AS_IT_IS = "hand in my_course/progress.json as it is"


class Unreadable(ValueError):
    """The file has no notes of concept tests; the message says why, or what to do."""


@dataclass(frozen=True)
class File:
    """A file of a student: its path as it is shown, what it holds, and its sittings that count, by key."""

    shown: str
    path: Path
    holds: dict[str, Any]
    said: dict[str, dict[str, Any]]

    @property
    def names(self) -> set[tuple[str, str]]:
        """The names of everything noted in it."""
        parts = {section: notes for section, notes in self.holds.items() if isinstance(notes, dict)}
        return {(section, name) for section, notes in parts.items() for name in notes}


def students(paths: list[Path]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """By student, the sittings handed in and their answers; and a line for all that needs a look.

    A folder below a named one that holds a progress.json is one student's, also one of several named folders
    that holds nothing else; elsewhere each file is. Raises ValueError for a path that does not exist.
    """
    remarks: list[str] = []
    groups: dict[Path, list[File]] = {}
    named, others, found = {path.resolve() for path in paths}, [], list(_files(paths))
    noted: dict[Path, list[bool]] = {}  # of each folder's files, whether their names are their owner's
    for path, _, _ in found:
        if path.name.lower().endswith(NOTES):
            noted.setdefault(path.parent, []).append(bool(_OWN.fullmatch(_stem(path))))
    loose = {path.parent for path, _, is_loose in found if is_loose}
    own = {folder for folder, says in noted.items() if any(says) and folder not in loose}
    own |= {folder for folder, says in noted.items() if all(says) and len(paths) > 1}
    for path, shown, _ in found:
        instead = path.name.startswith("concepts_part_") and path.parent not in noted
        if not (path.name.lower().endswith(NOTES) or path in named or instead):
            others.append((path, shown))
            continue
        try:
            file = _read(path, shown, remarks)
        except Unreadable as error:
            remarks.append(f"{shown}: {error}")
        else:
            groups.setdefault(path.parent if path.parent in own else _without_number(path), []).append(file)
    used: dict[str, File] = {}
    for place, files in groups.items():
        name = _name(files[0], place in own)
        name = str(place) if name in used else name
        used[name] = _last(name, files, remarks)
    alike = [f.shown for f in used.values() if f.path.parent not in own and _OWN.fullmatch(_stem(f.path))]
    if len(alike) > 1:
        remarks.append(f"{' and '.join(alike)} count as {len(alike)} students: give each one a folder")
    remarks += [*_equal(used), *_passed_over(others)]
    return {name: file.said for name, file in used.items()}, remarks


def _files(paths: list[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Each file once, its path as shown, and whether it was named, or its folder."""
    seen = set()
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: there is no such file or folder")
        base = path.resolve()
        for file in sorted(base.rglob("*")) if base.is_dir() else [base]:
            inside = file.relative_to(base)
            if file in seen or not file.is_file() or any(part.startswith(".") for part in inside.parts):
                continue
            seen.add(file)
            shown = inside if base.is_dir() else Path(file.name)
            above = base.name if base.is_dir() else file.parent.name
            shown = Path(above, shown) if len(paths) > 1 else shown
            yield file, shown.as_posix(), base in (file, file.parent)


def _stem(path: Path) -> str:
    """The name without .json or .json.txt."""
    return re.sub(r"(?i)\.json(\.txt)?$", "", path.name)


def _without_number(path: Path) -> Path:
    """The path without what a second download adds; of progress.json it tells students apart."""
    return path.with_name(_stem(path) if _OWN.fullmatch(_stem(path)) else _AGAIN.sub("", _stem(path)))


def _name(file: File, own_folder: bool) -> str:
    shown = Path(file.shown)
    if own_folder:
        folder = shown.parent.as_posix()
        return (file.path.parent.name if folder == "." else folder).removesuffix("/my_course")
    return shown.with_name(_without_number(file.path).name).as_posix()


def _read(path: Path, shown: str, remarks: list[str]) -> File:
    holds = _parsed(path)
    if "cells" in holds and "nbformat" in holds:
        raise Unreadable("this is the notebook: hand in my_course/progress.json")
    noted = holds.get(SECTION)
    if not isinstance(noted, dict):
        ours = SECTION not in holds and ("predictions" in holds or "exercises" in holds)
        raise Unreadable("no concept test was handed in" if ours else f"not the course's notes: {_AS_IT_IS}")
    sat = [(part, when) for part in PARTS for when in SITTINGS if key(part, when) in noted]
    if not sat:
        raise Unreadable("no concept test was handed in")
    said = {}
    for part, when in sat:
        name = key(part, when)
        if _has_known(noted[name], part, when):
            said[name] = noted[name]
        else:
            remarks.append(f"{shown}: {name}: no answer is a choice of that test, so it does not count")
    return File(shown, path, holds, said)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise Unreadable("too large for notes of the course")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"can't be read ({error.strerror})") from error
    if not data.strip(b"\0\t\r\n \xef\xbb\xbf\xfe\xff"):
        raise Unreadable(f"empty file: {_AS_IT_IS}")
    try:
        holds = json.loads(data)  # of bytes: UTF-8, with a mark or without, and UTF-16
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {_AS_IT_IS}") from error
    if not isinstance(holds, dict):
        raise Unreadable(f"not the course's notes: {_AS_IT_IS}")
    return holds


def _has_known(answers: Any, part: int, when: str) -> bool:
    return isinstance(answers, dict) and any(
        answers.get(item.question.name) in item.choices for item in sitting(part, when)
    )


def _last(student: str, files: list[File], remarks: list[str]) -> File:
    """The file that has all that the others have, and more; where none has, the newest."""
    if len(files) == 1:
        return files[0]
    whole = [f for f in files if all(f is other or f.names > other.names for other in files)]
    last = whole[0] if whole else max(files, key=lambda file: file.path.stat().st_mtime)
    why = "which has more in it" if whole else "the newest"
    if all(file.holds == last.holds for file in files):
        why = "and they are equal"
    names = " and ".join(file.path.name for file in files)
    remarks.append(f"{student}: {len(files)} files of one student, {names}; used is {last.path.name}, {why}")
    return last


def _equal(used: dict[str, File]) -> list[str]:
    """A line for students whose files hold the same: one may be a copy."""
    alike: dict[str, list[str]] = {}
    for name, file in used.items():
        alike.setdefault(json.dumps(file.holds, sort_keys=True), []).append(name)
    return [
        f"{' and '.join(names)}: their files are equal, and all of them count; is one a copy?"
        for names in alike.values()
        if len(names) > 1
    ]


def _passed_over(others: list[tuple[Path, str]]) -> list[str]:
    ours = {path.name for path in NOTEBOOKS.rglob("*")}
    names = [shown for path, shown in others if path.suffix != ".ipynb" and path.name not in ours]
    count = len(others) - len(names)
    if count:
        names.append(f"{count} notebook{'s' * (count > 1)} or other files of the course")
    return [f"passed over, since only .json and .json.txt are read: {', '.join(names)}"] if names else []
