"""Rules of form for what is written in a notebook: code lines, prose, spelling, links.

A rule takes a notebook and returns its findings, each a sentence that begins with the cell's id.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

# a chapter's last parts, in this order
ENDING = ("When it goes wrong", "Explore", "Exercises", "What we measured", "In practice", "Sources", "Next")
# what may leave Python, and only where a chapter's subject does
ALLOWED_MAGICS = ("%%writefile ", "!torchrun ", "!sbatch ", "!srun ", "!nvidia-smi")
FORBIDDEN = {
    r"\binteract(ive)?\(": "interact fails strict nbval; use panel(...)",
    r"\bOutput\(": "an Output widget fails strict nbval; print in the cell",
    r"\bclear_output\(": "clear_output fails strict nbval",
    r"\brcParams\b|\bplt\.style\b|set_theme\(": "style code belongs into notebooks/matplotlibrc",
    r"\bget_ipython\b": "no calls into IPython; a chapter is plain Python",
    r"\bsys\.path\b": "course_utils is installed; no code about paths",
    r"#\s*(NBVAL_|PYTEST_VALIDATE)": "say it with a tag, not with a comment that nbval reads",
}
_ISE = (
    "apolog author capital categor character critic custom diagonal discret emphas equal factor "
    "final general initial linear local material maxim memor minim modern normal optim organ "
    "orthogonal parallel penal priorit quant random real recogn regular serial special stabil "
    "standard summar symbol synchron token util vector visual "
)
BRITISH = re.compile(
    r"\b(?:\w*(?:"
    r"(?:col|behavi|fav|neighb|hon|lab|flav|hum)our\w*|"
    rf"(?:{'|'.join(_ISE.split())})is(?:e|es|ed|er|ers|ing|ation|ations)|"
    r"(?:label|model|travel|cancel|signal|channel|level|tunnel)l(?:ed|ing)|"
    r"analys(?:e|es|ed|ing)"
    r")|(?:centre|metre|fibre|litre)[sd]?|licences?|defence|offence|grey|catalogues?|programmes?|whilst|amongst|"
    r"artefacts?|judgement|fulfil|cheque)\b",
    re.IGNORECASE,
)
EMOJI = re.compile(
    "[\U0001f000-\U0001faff\ufe0f\u2600-\u26ff\u2705\u270a-\u270d\u2714\u2716\u2728\u274c\u274e\u2753-\u2757"
    "\u2763\u2764\u2795-\u2797\u2b50\u2b55]"
)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))+)>?[^)]*\)")


def tags(cell: NotebookNode) -> list[str]:
    """The cell's tags."""
    return cell.metadata.get("tags", [])


def code_cells(nb: NotebookNode, tag: str = "") -> list[NotebookNode]:
    """Code cells, of one tag if it is given."""
    return [cell for cell in nb.cells if cell.cell_type == "code" and (not tag or tag in tags(cell))]


def markdown_cells(nb: NotebookNode) -> list[NotebookNode]:
    """Markdown cells."""
    return [cell for cell in nb.cells if cell.cell_type == "markdown"]


def prose(source: str) -> str:
    """Markdown without code, formulas, tables, comments, and the addresses of its links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", source, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|\$\$.*?\$\$|\$[^$\n]+\$|`[^`]*`", " x ", text, flags=re.DOTALL)
    text = LINK.sub(r"\2", text)
    text = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


def headings(nb: NotebookNode) -> Iterator[tuple[int, int, str]]:
    """The index of its cell, its level and its text, for each heading."""
    for index, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            source = re.sub(r"^(```|~~~).*?^\1", "", cell.source, flags=re.DOTALL | re.MULTILINE)
            for mark, text in re.findall(r"^(#{1,6})\s+(.*?)\s*#*$", source, flags=re.MULTILINE):
                yield index, len(mark), text


def parsed(cell: NotebookNode) -> ast.Module | None:
    """The cell's syntax tree, magics left aside; None where it is not Python."""
    try:
        return ast.parse(TransformerManager().transform_cell(cell.source))
    except (SyntaxError, ValueError):
        return None


def python(nb: NotebookNode) -> list[str]:
    """Code is Python, no magic but the few allowed, no trailing semicolon, nothing that fails under nbval."""
    found = []
    for cell in code_cells(nb):
        tree = parsed(cell)
        if tree is None:
            found.append(f"{cell.id}: this is not Python")
            continue
        found += [
            f"{cell.id}: the magic '{line}' (allowed: {', '.join(map(str.strip, ALLOWED_MAGICS))})"
            for line in _magics(tree)
            if not line.startswith(ALLOWED_MAGICS)
        ]
        if _semicolon(cell.source):
            found.append(f"{cell.id}: a trailing ';' (it silences nothing under nbval; assign the result)")
        for pattern, why in FORBIDDEN.items():
            if re.search(pattern, cell.source):
                found.append(f"{cell.id}: {why}")
    return found


def _magics(tree: ast.Module) -> Iterator[str]:
    """What IPython's own transformer turned into calls of get_ipython(), written as in the cell."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Call) and ast.unparse(node.func.value) == "get_ipython()"):
            continue
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        sign = {"run_line_magic": "%", "run_cell_magic": "%%", "system": "!", "getoutput": "!"}.get(
            node.func.attr
        )
        yield (sign or f"{node.func.attr} ") + " ".join(map(str, words[:2])) if words else node.func.attr


def _semicolon(source: str) -> bool:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source + "\n").readline))
    except (tokenize.TokenError, SyntaxError):  # a magic: its line is not ours to judge
        return False
    ends = (tokenize.NEWLINE, tokenize.COMMENT)
    return any(a.string == ";" and b.type in ends for a, b in pairwise(tokens))


def words(nb: NotebookNode) -> list[str]:
    """At most 120 words of prose a markdown cell; 200 in the title and from the exercises on."""
    found, roomy = [], True
    for cell in markdown_cells(nb):
        for _, _, text in (h for h in headings(NotebookNode(cells=[cell])) if h[1] == 2):
            roomy = text.lower().startswith(tuple(name.lower() for name in ENDING[2:]))
        count, limit = len(re.findall(r"[^\W_][\w'’-]*", prose(cell.source))), 200 if roomy else 120
        if count > limit:
            found.append(f"{cell.id}: {count} words, more than {limit}; split the idea")
    return found


def language(nb: NotebookNode) -> list[str]:
    """American spelling, no emojis, no exclamation marks, no Mermaid."""
    found = []
    for cell in nb.cells:
        british = sorted({match[0] for match in BRITISH.finditer(LINK.sub(r"\2", cell.source))})
        found += [f"{cell.id}: British spelling '{word}'" for word in british]
        if EMOJI.search(cell.source):
            found.append(f"{cell.id}: an emoji ({EMOJI.search(cell.source)[0]})")
        if cell.cell_type == "markdown" and "!" in prose(cell.source):
            found.append(f"{cell.id}: an exclamation mark in the prose")
        if re.search(r"^\s*```\s*mermaid", cell.source, re.MULTILINE):
            found.append(f"{cell.id}: Mermaid is broken offline and on slides; draw SVG")
    return found


def links(nb: NotebookNode, folder: Path) -> list[str]:
    """Links to files, chapters and headings resolve; pictures are local and have alternative text."""
    found, anchors = [], {_anchor(text) for _, _, text in headings(nb)}
    for cell in markdown_cells(nb):
        source = re.sub(r"^(```|~~~).*?^\1|`[^`\n]*`", "", cell.source, flags=re.DOTALL | re.MULTILINE)
        targets = [(bool(mark), text, target) for mark, text, target in LINK.findall(source)]
        targets += [(False, "", target) for target in re.findall(r"<a\s[^>]*href=[\"']([^\"']+)", source)]
        for image in re.findall(r"<img\b[^>]*>", source):
            alt, target = (re.search(rf"{name}=[\"']([^\"']+)", image) for name in ("alt", "src"))
            targets.append((True, alt[1] if alt else "", target[1] if target else ""))
        for picture, text, target in targets:
            if picture and not text.strip():
                found.append(f"{cell.id}: the picture {target} has no alternative text")
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                if picture and not target.startswith(("data:", "attachment:")):
                    found.append(f"{cell.id}: the picture {target} is not in the repository")
                continue
            name, _, anchor = target.partition("#")
            if name.startswith("/") or (name and not (folder / unquote(name)).exists()):
                found.append(f"{cell.id}: the link to {target} leads nowhere")
            elif not name and unquote(anchor) not in anchors:
                found.append(f"{cell.id}: no heading for the link to #{anchor}")
    return found


def _anchor(heading: str) -> str:
    """The anchor that JupyterLab gives a heading: its text, spaces turned into hyphens."""
    return re.sub(r"[*`]", "", heading).strip().replace(" ", "-")
