"""``python3 -m course_utils refresh``: execute notebooks, store them in one normal form, check their form.

A notebook whose sources are unchanged, and whose new outputs nbval would accept, stays byte for byte.
"""

import argparse
import base64
import copy
import hashlib
import io
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import textwrap
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import nbformat
from nbformat import NotebookNode
from nbval.plugin import IPyNbCell, coalesce_streams, get_sanitize_patterns, nocolors

from course_utils.tools import form
from course_utils.tools.run import CELL_TIMEOUT, ROOT, CellFailure, chapters, execute, read

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SEEN = ROOT / "build" / "refreshed.json"  # which sources the stored outputs were last made from
UNTOLD = (b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf")  # PNG chunks that say who drew a picture and when
# what nbval leaves out of its comparison (IPyNbFile.skip_compare)
NOT_COMPARED = (
    "metadata",
    "traceback",
    "prompt_number",
    "output_type",
    "name",
    "execution_count",
    WIDGET_VIEW,
)
NOT_COMPARED += ("image/png", "image/jpeg")
UNSTORABLE = (
    "nbval would reject this cell's own outputs: it sees the first state of a display that is updated later, "
    "and nothing of clear_output; keep the text of a display the same, or put what changes between ⟨ and ⟩"
)
INSTALLED = re.compile(r"[~/][^\s:\"'\x1b]*/(site-packages|python3\.\d+)/")


def same_text(text: str) -> str:
    """``text`` as nbval compares streams: what a carriage return overwrote is gone."""
    return coalesce_streams([nbformat.v4.new_output("stream", name="stdout", text=text)])[0].text


def plain_png(encoded: str) -> str:
    """A base64 PNG without the chunks that hold no picture; anything else is returned as it came."""
    try:
        data = base64.b64decode(encoded)
    except ValueError:
        return encoded
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return encoded
    kept, at = [data[:8]], 8
    while at + 12 <= len(data):  # a chunk is 4 bytes of length, 4 of kind, the content, 4 of checksum
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] not in UNTOLD:
            kept.append(data[at : at + 12 + length])
        at += 12 + length
    return base64.b64encode(b"".join(kept)).decode()


def normal_outputs(outputs: list[NotebookNode], count: int) -> list[NotebookNode]:
    """Outputs in the one form: neighboring streams merged, no widget views, no paths of this machine."""
    normal: list[NotebookNode] = []
    for output in copy.deepcopy(outputs):
        if output.output_type == "stream":
            last = normal[-1] if normal else None
            if last and last.output_type == "stream" and last.name == output.name:
                last.text += output.text
            else:
                normal.append(output)
            continue
        if output.output_type == "error":
            output.traceback = [INSTALLED.sub("", line) for line in output.traceback]
        else:
            output.data.pop(WIDGET_VIEW, None)
            if not output.data:
                continue
            if "image/png" in output.data:
                output.data["image/png"] = plain_png(output.data["image/png"])
        if output.output_type == "execute_result":
            output.execution_count = count
        normal.append(output)
    for output in normal:
        if output.output_type == "stream":
            output.text = same_text(output.text)
    return normal


def normalize(nb: NotebookNode) -> NotebookNode:
    """A copy of ``nb`` in the form that is stored: format 4.5, counts 1 to n, only the metadata we use."""
    nb = nbformat.v4.upgrade(copy.deepcopy(nb)) if nb.nbformat == 4 else nbformat.convert(nb, 4)
    title = {"title": nb.metadata["title"]} if "title" in nb.metadata else {}
    nb.metadata = nbformat.from_dict({"kernelspec": KERNEL, **title})
    nb.nbformat, nb.nbformat_minor, count = 4, 5, 0
    for cell in nb.cells:
        meta = {key: cell.metadata[key] for key in ("tags", "slideshow") if cell.metadata.get(key)}
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            meta["jupyter"] = {"source_hidden": True}
        cell.metadata = nbformat.from_dict(meta)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = normal_outputs(cell.outputs, count)
    return nb


def text_of(nb: NotebookNode) -> str:
    """The file's text: the one style of JSON that nbformat writes, newline at the end."""
    stream = io.StringIO()
    nbformat.write(nb, stream, version=nbformat.NO_CONVERT)
    return stream.getvalue()


def sanitizers(root: Path = ROOT) -> dict[str, str]:
    """Pattern to replacement, from the file that pyproject's pytest options give to nbval.

    Raises ValueError where the options name no such file.
    """
    options = tomllib.loads((root / "pyproject.toml").read_text("utf-8")).get("tool", {}).get("pytest", {})
    given = options.get("ini_options", options).get("addopts", "")
    words = shlex.split(given) if isinstance(given, str) else list(given)
    name = re.search(r"--nbval-sanitize-with[= ](\S+)", " ".join(words))
    if not name:
        raise ValueError("pyproject.toml: addopts of pytest holds no --nbval-sanitize-with=FILE")
    return dict(get_sanitize_patterns((root / name[1]).read_text("utf-8")))


def accepts(stored: list[NotebookNode], new: list[NotebookNode], patterns: dict[str, str]) -> bool:
    """Whether nbval, comparing strictly, accepts ``new`` outputs where ``stored`` ones are in the file.

    The comparison is nbval's own method, with a stand-in for the pytest item that it belongs to.
    """
    page = SimpleNamespace(skip_compare=NOT_COMPARED, sanitize_patterns=patterns)
    item = SimpleNamespace(parent=page, colors=nocolors, format_output_compare=lambda *_: None)
    item.sanitize = lambda text: IPyNbCell.sanitize(item, text)
    new, stored = coalesce_streams(copy.deepcopy(new)), coalesce_streams(copy.deepcopy(stored))
    return IPyNbCell.compare_outputs(item, new, stored)


def compared(cell: NotebookNode) -> bool:
    """Whether nbval compares this cell's outputs."""
    return cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", [])


def digest(nb: NotebookNode) -> str:
    """A digest of what is executed."""
    code = [[cell.source, cell.metadata.get("tags", [])] for cell in nb.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def outputs_belong(path: Path, sources: str) -> bool:
    """Whether the outputs stored at ``path`` were made from sources with this digest.

    nbval compares no pictures, so outputs that nbval accepts may still show what an earlier source drew.
    Known are the sources of the last refresh here, and those that were committed.
    """
    if _record().get(str(path)) == sources:
        return True
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        committed = subprocess.run(
            command, cwd=path.parent, capture_output=True, check=True, timeout=60
        ).stdout
        return digest(nbformat.reads(committed.decode(), as_version=4)) == sources
    except (OSError, subprocess.SubprocessError, ValueError, nbformat.reader.NotJSONError):
        return False


def _record() -> dict[str, str]:
    try:
        return json.loads(SEEN.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def remember(path: Path, sources: str) -> None:
    """Note that the outputs stored at ``path`` were made from sources with this digest."""
    SEEN.parent.mkdir(exist_ok=True)
    _replace(SEEN, json.dumps({**_record(), str(path): sources}, indent=1))


def _replace(path: Path, text: str) -> None:
    """Write whole or not at all."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text, "utf-8", newline="\n")
    os.replace(partial, path)


def refreshed(path: Path, patterns: dict[str, str], timeout: int = CELL_TIMEOUT, force: bool = False) -> str:
    """The text that belongs into the file at ``path`` after a fresh execution; writes nothing.

    ``force`` takes all new outputs, also where nbval would accept the stored ones. Raises CellFailure where a
    cell fails, or where its outputs could not pass nbval even right after they were stored.
    """
    stored = read(path)
    executed = normalize(stored)
    seen = execute(executed, path.parent, timeout)
    executed = normalize(executed)
    for cell, outputs in zip(executed.cells, seen, strict=True):
        if compared(cell) and not accepts(cell.outputs, outputs, patterns):
            raise CellFailure(cell.id, UNSTORABLE)
    same = (
        not force
        and outputs_belong(path, digest(stored))
        and all(
            cell.get("execution_count") is not None and accepts(cell.outputs, outputs, patterns)
            for cell, outputs in zip(stored.cells, seen, strict=True)
            if compared(cell)
        )
    )
    return text_of(normalize(stored) if same else executed)


def refresh(path: Path, patterns: dict[str, str], args: argparse.Namespace) -> tuple[str, list[str]]:
    """Refresh one notebook. Returns the verdict (unchanged, updated, outdated, failed) and what is wrong."""
    try:
        text = refreshed(path, patterns, args.timeout, args.force)
    except CellFailure as error:
        return "failed", [str(error), "the file is left as it was"]
    verdict = "unchanged"
    if text.encode() != path.read_bytes():
        verdict = "outdated" if args.check else "updated"
        if not args.check:
            _replace(path, text)
    if not args.check:
        remember(path, digest(read(path)))
    return verdict, form.findings(path)


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 all is well, 1 something isn't, 2 wrong arguments, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils refresh", description="Execute, normalize and check notebooks."
    )
    parser.add_argument(
        "chapter", nargs="*", help="numbers or paths of notebooks; all chapters if none is given"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a notebook would change"
    )
    parser.add_argument(
        "--force", action="store_true", help="take all new outputs, figures and measured values too"
    )
    parser.add_argument(
        "--timeout", type=int, default=CELL_TIMEOUT, help="seconds for one cell (%(default)s)"
    )
    args = parser.parse_args(argv)
    try:
        paths, patterns = chapters(args.chapter), sanitizers()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    bad = 0
    for path in paths:
        print(f"{path.name}: ", end="", flush=True)
        start = time.perf_counter()
        try:
            verdict, wrong = refresh(path, patterns, args)
        except ValueError as error:
            verdict, wrong = "failed", [str(error)]
        except KeyboardInterrupt:
            print("interrupted; the file is left as it was")
            return 130
        print(f"{verdict}, {time.perf_counter() - start:.1f} s")
        for line in wrong:
            print(textwrap.indent(line, "    "))
        bad += bool(wrong) or verdict == "outdated"
    return int(bad > 0)
