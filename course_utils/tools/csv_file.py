"""A table as a CSV file that a spreadsheet opens rightly and that takes nobody's earlier table away."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from course_utils.tools.install import SetupError


def check(path: Path) -> None:
    """Raise SetupError where the file can't be written, before an hour's work is done for it."""
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise _failed(path, error) from error


def save(path: Path, rows: Iterable[Sequence[object]]) -> str:
    """Write the rows; returns what to tell of it. Raises SetupError where that can't be.

    Another table that stands there is kept beside it: of concepts.csv as concepts.1.csv, concepts.2.csv, ...
    """
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode("utf-8-sig")  # the mark by which Excel knows UTF-8
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = _keep(path, data)
        path.write_bytes(data)
    except OSError as error:
        raise _failed(path, error) from error
    return f"{path} (what stood there is now {kept})" if kept else str(path)


def _keep(path: Path, data: bytes) -> str:
    """Put aside what differs; returns its new name, or an empty text."""
    if path.is_symlink() or not path.is_file() or path.read_bytes() in (b"", data):  # such as /dev/stdout
        return ""
    number = 1
    while (beside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return path.rename(beside).name


def _failed(path: Path, error: OSError) -> SetupError:
    return SetupError(f"{path} can't be written ({error.strerror}). Name another place: --csv FILE")
