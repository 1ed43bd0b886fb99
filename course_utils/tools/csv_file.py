"""A table as a CSV file that a spreadsheet opens rightly and that takes nobody's earlier table away."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path


def check(path: Path) -> None:
    """Raise OSError where the file can't be written, before an hour's work is done for it."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab"):
        pass
    if new:
        path.unlink()


def save(path: Path, rows: Iterable[Sequence[object]]) -> str:
    """Write the rows; returns what to tell of it. Raises OSError where that can't be.

    Another table that stands there is kept beside it: of grades.csv as grades.1.csv, grades.2.csv and so on.
    """
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode("utf-8-sig", "replace")  # the mark by which Excel knows UTF-8
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = _keep(path, data)
    path.write_bytes(data)
    return f"{path}\nwhat was {path.name} before is kept as {kept}" if kept else str(path)


def refusal(path: Path, error: OSError) -> str:
    """What to say where it can't be written."""
    return f"{path} can't be written ({error.strerror}): name another file with --csv FILE"


def _keep(path: Path, data: bytes) -> str:
    """Put aside what differs; returns its new name, or an empty text."""
    if path.is_symlink() or not path.is_file() or path.read_bytes() in (b"", data):  # such as /dev/stdout
        return ""
    number = 1
    while (beside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return path.rename(beside).name
