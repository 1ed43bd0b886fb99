"""A file that a student handed in, read as a notebook of any program, or the reason why it is none.

Not read by nbformat: older formats and other programs put ids elsewhere or nowhere, and the reasons are for
an instructor, who has to ask the student for something.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST = 10 * 2**20  # bytes: a chapter has at most 1 MB, with its outputs
OTHERS = {  # what a file begins with
    b"PK\x03\x04": "it is a zip archive: unpack it",
    b"\x1f\x8b": "it is a gzip archive: unpack it",
    b"7z\xbc\xaf": "it is a 7z archive: unpack it",
    b"Rar!": "it is a rar archive: unpack it",
    b"%PDF": "it is a PDF: ask for the .ipynb file",
    b"<": "it is a web page: ask for the .ipynb file itself",
}


class Unreadable(ValueError):
    """There is nothing to grade in this file; the message says why."""


@dataclass(frozen=True)
class Cell:
    """A code cell. ``ids`` are those that it has: its own, and the one that Colab keeps in the metadata."""

    ids: frozenset[str]
    source: str


def read(path: Path) -> tuple[str, list[Cell]]:
    """The notebook's title ("" where it has none) and its code cells, in order.

    Raises Unreadable where it is too large or no notebook, OSError where it can't be read at all.
    """
    content = _json(path)
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        if isinstance(content, dict) and "worksheets" in content:
            raise Unreadable("it is in an old format (3): open it in JupyterLab and save it again")
        raise Unreadable("not a notebook: it is JSON, but has no cells")
    metadata = content.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else ""
    try:
        cells = [_cell(cell) for cell in content["cells"] if cell["cell_type"] == "code"]
    except (TypeError, LookupError, AttributeError):
        raise Unreadable("not a notebook: it has cells without a type or a source") from None
    return title if isinstance(title, str) else "", cells


def _cell(cell: dict[str, Any]) -> Cell:
    source, ids = cell["source"], (cell.get("id"), cell.get("metadata", {}).get("id"))
    text = source if isinstance(source, str) else "".join(source)
    return Cell(frozenset(name for name in ids if isinstance(name, str)), text)


def _json(path: Path) -> Any:
    """What the file holds. Raises Unreadable with what it is instead of JSON."""
    size = path.stat().st_size
    if size > LARGEST:
        raise Unreadable(f"{size / 2**20:.0f} MB: a submission has at most {LARGEST // 2**20} MB")
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf").strip()
    if not data:
        raise Unreadable("the file is empty: ask for it again")
    for beginning, what in OTHERS.items():
        if data.startswith(beginning):
            raise Unreadable(what)
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Unreadable("not a notebook: it is no text in UTF-8") from None
    except RecursionError:
        raise Unreadable("not a notebook: its JSON is nested too deeply") from None
    except ValueError as error:
        if data.startswith(b"{") and not data.endswith(b"}"):
            raise Unreadable(
                "it ends in the middle: it was not saved or sent whole, ask for it again"
            ) from None
        line = getattr(error, "lineno", 1)
        raise Unreadable(f"not a notebook: line {line} is no JSON, ask for the file again") from None
