"""Rules of form for the stored outputs: the same on every machine, readable by everybody, true.

A rule takes a notebook and returns its findings, each a sentence that begins with the cell's id.
"""

import ast
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from course_utils.tools.form_text import EMOJI, code_cells, parsed, tags

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_FOLDERS = "home|root|tmp|Users|usr|opt|var|work|mnt|private"
UNSTABLE = {
    r"\b[A-Z]\w*Warning\b|\[W\d{3}": "a warning",
    rf"(?<![\w.~-])(?:~|/(?:{_FOLDERS}))/[\w.-]+|\b[A-Z]:\\\w|site-packages/": "a path of a machine",
    r"ipykernel_\d+": "the file of a running kernel",
    r"\b0x[0-9a-fA-F]{7,}": "a memory address",
}
MEASURED = re.compile(r"⟨[^⟩]*⟩")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def output_texts(cell: NotebookNode) -> Iterator[str]:
    """All text that the cell's outputs hold, colors removed."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield ANSI.sub("", output.text)
        elif output.output_type == "error":
            yield ANSI.sub("", "\n".join(output.traceback))
        else:
            yield from (
                text for mime, text in output.data.items() if isinstance(text, str) and _is_text(mime)
            )


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime == "image/svg+xml"


def stable(nb: NotebookNode) -> list[str]:
    """Nothing that another machine or another day would write differently; no warnings, no emojis."""
    found = []
    for cell in code_cells(nb):
        text = "\n".join(output_texts(cell))
        found += [
            f"{cell.id}: the output holds an emoji ({sign})" for sign in sorted(set(EMOJI.findall(text)))
        ]
        fixed = re.sub(r"src=\"data:[^\"]*\"", "", MEASURED.sub("", text))
        for pattern, what in UNSTABLE.items():
            if match := re.search(pattern, fixed):
                found.append(f"{cell.id}: the output holds {what}: {match[0]}")
        if "⟨" in fixed or "⟩" in fixed:
            found.append(f"{cell.id}: the output opens a ⟨ that no ⟩ closes, or the reverse")
        printed = "\n".join(output.get("text", output.get("evalue", "")) for output in cell.outputs)
        if re.search(r"\bIn\s?\[\d+\](?!, line)", printed):
            found.append(f"{cell.id}: the output holds a cell's number, which differs under nbval")
    return found


def errors(nb: NotebookNode) -> list[str]:
    """An error is stored where the cell says that it raises, and only there."""
    found = []
    for cell in code_cells(nb):
        names = [output.ename for output in cell.outputs if output.output_type == "error"]
        if names and "raises-exception" not in tags(cell):
            found.append(f"{cell.id}: the output is an error ({names[0]}) without the tag raises-exception")
        if not names and "raises-exception" in tags(cell):
            found.append(f"{cell.id}: tagged raises-exception, but it raised nothing")
    return found


def claims(nb: NotebookNode) -> list[str]:
    """A chapter has claims; each is computed, and the stored outputs say True and not False."""
    cells = code_cells(nb, "claim")
    found = [] if cells else ["notebook: no cell is tagged claim"]
    for cell in cells:
        text = "\n".join(output_texts(cell))
        if not re.search(r"\bTrue\b", text):
            found.append(f"{cell.id}: a claim has to print True")
        if re.search(r"\bFalse\b", text):
            found.append(f"{cell.id}: this claim is false")
        constants = [
            node.value for node in ast.walk(parsed(cell) or ast.Module([])) if isinstance(node, ast.Constant)
        ]
        if any(
            value is True or (isinstance(value, str) and re.search(r"\bTrue\b", value)) for value in constants
        ):
            found.append(f"{cell.id}: True stands in the source; a claim has to be able to be false")
    return found


def pictures(nb: NotebookNode) -> list[str]:
    """Pictures have alternative text; no output needs a kernel to be seen."""
    found = []
    for cell in code_cells(nb):
        for output in cell.outputs:
            data, meta = output.get("data", {}), output.get("metadata", {})
            images = [mime for mime in data if mime.startswith("image/")]
            if any(not (meta.get(mime, {}).get("alt") or meta.get("alt")) for mime in images):
                found.append(f"{cell.id}: a picture without alternative text; use show(fig, alt=...)")
            if WIDGET_VIEW in data:
                found.append(f"{cell.id}: a widget view is stored; run refresh")
            html = data.get("text/html", "")
            if "<svg" in html and not ('role="img"' in html and re.search(r"aria-label=\"[^\"]", html)):
                found.append(f'{cell.id}: an SVG without role="img" and aria-label')
            if any(not re.search(r"alt=[\"'][^\"']", image) for image in re.findall(r"<img\b[^>]*>", html)):
                found.append(f"{cell.id}: an <img> without alternative text")
    return found


def ignored(nb: NotebookNode) -> list[str]:
    """At most two cells keep their outputs from nbval, each with the reason in a comment."""
    cells = code_cells(nb, "nbval-ignore-output")
    found = (
        [f"notebook: {len(cells)} cells are tagged nbval-ignore-output, at most 2 may be"]
        if len(cells) > 2
        else []
    )
    return found + [
        f"{c.id}: nbval-ignore-output without a comment that says why" for c in cells if "#" not in c.source
    ]
