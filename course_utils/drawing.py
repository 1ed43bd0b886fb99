"""Pictures and tables: tensors on ranks as SVG, plots with alternative text, one color a rank everywhere."""

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil
from typing import Any
from urllib.parse import quote

# The eight colors of Okabe and Ito (Color Universal Design, 2008), safe for color-blind readers, by rank
RANK_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
RANK_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo", "---")  # the second cue, for bars
_DARK_TEXT_ON = {"#E69F00", "#CC79A7", "#56B4E9", "#F0E442"}

Values = Sequence[Any]  # what a rank holds: a 1-D tensor, a list of numbers, strings or chunks
Origin = int | Iterable[int] | None  # the rank, or ranks, that a cell's value came from


def rank_color(rank: int) -> str:
    """The color of a rank in every figure, as #RRGGBB; rank 8 has rank 0's again."""
    return RANK_COLORS[rank % len(RANK_COLORS)]


def rank_hatch(rank: int) -> str:
    """The hatch of a rank, for bars and areas, as a second cue beside its color."""
    return RANK_HATCHES[rank % len(RANK_HATCHES)]


class Picture:
    """HTML for a notebook, and the same as plain text for everything else."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def show(fig: Any, alt: str) -> None:
    """Display a matplotlib figure as PNG at 100 dpi, and under it `alt`, a sentence that says what is to see.

    The output's metadata has `alt` too, for the image's alternative text. The figure is closed. Outside a
    notebook the sentence is printed. Raises ValueError if it is empty.
    """
    from IPython import get_ipython
    from IPython.display import display
    from matplotlib import pyplot as plt

    if not alt.strip():
        raise ValueError('a figure needs a sentence for those who can\'t see it: show(fig, alt="...")')
    if get_ipython() is None:
        print(alt)
    else:
        png = io.BytesIO()
        fig.savefig(png, format="png", dpi=100, bbox_inches=None, metadata={"Software": None})
        image = {"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": alt}
        display(image, raw=True, metadata={"image/png": {"alt": alt}})
        caption = f'<p style="margin:0 0 .5em;max-width:50em;font-size:.9em"><em>{escape(alt)}</em></p>'
        display({"text/html": caption, "text/plain": alt}, raw=True)
    plt.close(fig)


def table(
    rows: Iterable[Sequence[Any] | Mapping[str, Any]], header: Sequence[str] | None = None, caption: str = ""
) -> Picture:
    """A table as HTML and as aligned text; columns of numbers and of measured values are aligned right.

    `rows`: sequences with a `header`, or dictionaries, whose keys are the header by default. Floats get four
    significant digits, None a dash. In the text a measured value (measure.measured) is padded between its
    brackets, so that whatever was measured the rest stays where it is. Raises ValueError if a row and the
    header differ in length.
    """
    rows = list(rows)
    if header is None:
        if not rows or not isinstance(rows[0], Mapping):
            raise ValueError("a table of sequences needs a header: table(rows, [...])")
        header = list(rows[0])
    cells = [[row[name] for name in header] if isinstance(row, Mapping) else list(row) for row in rows]
    for i, row in enumerate(cells):
        if len(row) != len(header):
            raise ValueError(f"row {i} of the table has {len(row)} cells and the header {len(header)}: {row}")
    columns = [[_format(cell) for cell in column] for column in zip(*cells, strict=True)] or [
        [] for _ in header
    ]
    right = [all(re.match(r"[-−+≈]?[⟨\d.]|–$", text) for text in column) for column in columns]
    return Picture(_table_html(header, columns, right, caption), _table_text(header, columns, right, caption))


def _format(value: Any) -> str:
    """A number, string or chunk as it stands in a cell."""
    if hasattr(value, "tolist"):  # a tensor or an array
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return " ".join(map(_format, value))
    if type(value) is float:
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    return "–" if value is None else f"{value:,}" if type(value) is int else str(value)


def _table_html(header: Sequence[str], columns: list[list[str]], right: list[bool], caption: str) -> str:
    style = [f'style="text-align:{"right" if is_right else "left"}"' for is_right in right]
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    lines.append(
        "<tr>" + "".join(f'<th scope="col" {s}>{escape(h)}</th>' for h, s in zip(header, style, strict=True))
    )
    for row in zip(*columns, strict=True):
        first, *rest = (f"{s}>{escape(text)}" for text, s in zip(row, style, strict=True))
        lines.append(f'<tr><th scope="row" {first}</th>' + "".join(f"<td {cell}</td>" for cell in rest))
    return "<table>\n" + "\n".join(line + "</tr>" * line.startswith("<tr>") for line in lines) + "\n</table>"


def _table_text(header: Sequence[str], columns: list[list[str]], right: list[bool], caption: str) -> str:
    padded = []
    for name, column, is_right in zip(header, columns, right, strict=True):
        texts = [name, *(re.sub("⟨(.*?)⟩", lambda match: f"⟨{match[1]:>10}⟩", text) for text in column)]
        width = max(map(len, texts))
        texts.insert(1, "─" * width)
        padded.append([text.rjust(width) if is_right else text.ljust(width) for text in texts])
    return "\n".join(
        [caption] * bool(caption) + ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]
    )


def draw_ranks(
    before: Sequence[Values | None],
    after: Sequence[Values | None] | None = None,
    *,
    title: str = "",
    operation: str = "",
    before_from: Sequence[Sequence[Origin]] | None = None,
    after_from: Sequence[Sequence[Origin]] | None = None,
    transfers: Iterable[tuple[int, int]] = (),
    columns: Sequence[str] = (),
    alt: str = "",
) -> Picture:
    """What each rank holds, one row a rank, and what it holds after an operation; changed cells stand out.

    Args:
        before, after: for each rank a 1-D tensor or a list of numbers, strings or chunks; None: nothing.
        operation: written over the arrow between the two.
        before_from, after_from: for each rank and cell the rank that the value came from, several for a sum,
            or None; shown by the strip under the value. Default: before, the rank itself; after, the same
            where nothing changed.
        transfers: pairs (from, to): an arrow each between the two panels, in the sender's color.
        columns: headings of the cells.
        alt: the sentence for those who can't see the picture. Default: the title and all values.

    Raises ValueError where values and origins differ in shape, or before and after in the number of ranks.
    """
    if after is not None and len(after) != len(before):
        raise ValueError(f"before has {len(before)} ranks and after {len(after)}")
    old, new = _cells(before), _cells(after or ())
    old_from = _origins(old, before_from, [[rank] * len(row) for rank, row in enumerate(old)])
    changed = [[old[r][i : i + 1] != [cell] for i, cell in enumerate(row)] for r, row in enumerate(new)]
    kept = [[None if c else old_from[r][i] for i, c in enumerate(row)] for r, row in enumerate(changed)]
    new_from = _origins(new, after_from, kept)
    widths = [8.6 * len(text) + 16 for row in old + new for text in row] + [
        7.2 * len(name) + 8 for name in columns
    ]
    n_origins = max([len(origins) for row in old_from + new_from for origins in row], default=0)
    width = max([36.0, min(10.0 * n_origins, 60.0), *widths])
    top = 8 + 34 * bool(title) + 20 * bool(new) + 18 * bool(columns)
    parts, right = _panel(top, _LEFT, old, old_from, width, columns, "before" if new else "")
    parts += [_rank_label(8, top + rank * _ROW + 8, rank) for rank in range(len(old))]
    if new:
        left, right = right, right + max(84.0, 7.6 * len(operation) + 40)
        parts += _arrows(top, left + 6, right - 10, list(transfers), operation, len(old))
        panel, right = _panel(top, right, new, new_from, width, columns, "after", changed)
        parts += panel
    parts.append(_text(8, 26, title, 16, "style='text-anchor:start' font-weight='bold'"))
    text, words = _ranks_text(old, new, title, operation)
    right = ceil(max(right + 8, 10 * len(title) + 16))
    return Picture(image(parts, right, top + len(old) * _ROW - 4, alt or words), text)


def _cells(state: Sequence[Values | None]) -> list[list[str]]:
    return [[] if values is None else [_format(value) for value in values] for values in state]


def _origins(cells: list[list[str]], given: Any, default: list[list[Origin]]) -> list[list[list[int]]]:
    origins = default if given is None else [list(row) for row in given]
    lengths, expected = [len(row) for row in origins], [len(row) for row in cells]
    if lengths != expected:
        raise ValueError(f"the ranks hold {expected} values, but origins were given for {lengths}")
    return [[[] if o is None else [o] if isinstance(o, int) else sorted(o) for o in row] for row in origins]


def _ranks_text(old: list[list[str]], new: list[list[str]], title: str, operation: str) -> tuple[str, str]:
    """The picture in words: as aligned lines, and as one sentence for a screen reader."""
    held = [[", ".join(row) or "nothing" for row in state] for state in (old, new) if state]
    widths = [max(map(len, column)) for column in held]
    arrow, then = (f"  ──{operation}─→  ", f", after {operation} ") if operation else ("  ──→  ", ", then ")
    lines, words = [title] * bool(title), [title] * bool(title)
    for rank, values in enumerate(zip(*held, strict=True)):
        lines.append(f"rank {rank}:  " + arrow.join(map(str.ljust, values, widths)).rstrip())
        words.append(f"rank {rank}: {then.join(values)}")
    return "\n".join(lines), ". ".join(words)


_LEFT, _ROW, _CELL = 82.0, 54.0, 42.0  # pixels: left of the cells, a row, a cell's height


def _text(x: float, y: float, text: str, size: float, more: str = "", fill: str = "#222") -> str:
    return f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' fill='{fill}' {more}>{escape(text)}</text>"


def _box(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{fill}' {more}/>"


def _on_color(x: float, y: float, rank: int, text: str, size: float) -> str:
    fill = "#000" if rank_color(rank) in _DARK_TEXT_ON else "#fff"
    return _text(x, y, text, size, "font-weight='bold'", fill)


def _rank_label(x: float, y: float, rank: int) -> str:
    return _box(x, y, 64, 26, rank_color(rank), "rx='6'") + _on_color(
        x + 32, y + 18, rank, f"rank {rank}", 13
    )


def _panel(
    top: float,
    left: float,
    cells: list[list[str]],
    origins: list[list[list[int]]],
    width: float,
    columns: Sequence[str],
    heading: str,
    changed: list[list[bool]] | None = None,
) -> tuple[list[str], float]:
    """The cells of all ranks as SVG elements, and where they end on the right."""
    right = left + max([1, *map(len, cells)]) * width
    parts = [_text((left + right) / 2, top - (26 if columns else 8), heading, 13, fill="#555")]
    parts += [
        _text(left + (i + 0.5) * width, top - 8, name, 12, fill="#555") for i, name in enumerate(columns)
    ]
    for rank, row in enumerate(cells):
        y, frames = top + rank * _ROW, []
        if not row:
            frames.append(_box(left, y, width, _CELL, "none", "stroke='#999' stroke-dasharray='4 3'"))
        for i, value in enumerate(row):
            x, new = left + i * width, bool(changed and changed[rank][i])
            parts.append(_box(x, y, width, _CELL, "#fff6cc" if new else "#f7f7f7", "stroke='#555'"))
            baseline = y + (20 if origins[rank][i] else 26)
            parts.append(_text(x + width / 2, baseline, value, 14, "class='v'" + " font-weight='bold'" * new))
            stripe = (width - 1) / max(len(origins[rank][i]), 1)
            for k, origin in enumerate(origins[rank][i]):
                start = x + 0.5 + k * stripe
                parts.append(_box(start, y + _CELL - 13, stripe, 12.5, rank_color(origin)))
                parts.append(
                    _on_color(start + stripe / 2, y + _CELL - 3, origin, str(origin), min(10, stripe))
                )
            if new:
                frames.append(_box(x, y, width, _CELL, "none", "stroke='#222' stroke-width='2.5'"))
        parts += frames  # above all cells of the row
    return parts, right


def _arrows(
    top: float, left: float, right: float, transfers: list[tuple[int, int]], operation: str, n_ranks: int
) -> list[str]:
    """One arrow for the whole operation, or one for each transfer in its sender's color."""
    middle = [top + rank * _ROW + _CELL / 2 for rank in range(n_ranks)]
    center = (middle[0] + middle[-1]) / 2
    parts = [
        _text((left + right) / 2, top - 8 if transfers else center - 12, operation, 13, "font-weight='bold'")
    ]
    rows = [(middle[start], middle[end], rank_color(start)) for start, end in transfers]
    for start, end, color in rows or [(center, center, "#222")]:
        x0, x1, x2, x3 = left, left * 0.55 + right * 0.45, left * 0.45 + right * 0.55 - 10, right - 10
        path = f"M{x0:g} {start:g}C{x1:g} {start:g} {x2:g} {end:g} {x3:g} {end:g}"
        parts.append(f"<path d='{path}' fill='none' stroke='{color}' stroke-width='2.5'/>")
        parts.append(f"<path d='M{right:g} {end:g}l-12 -6v12z' fill='{color}'/>")
    return parts


def image(parts: Iterable[str], width: float, height: float, alt: str) -> str:
    """SVG elements in a frame of that many pixels, as an <img>: JupyterLab drops an untrusted bare <svg>."""
    size = f"width='{width:g}' height='{height:g}'"
    svg = "".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} viewBox='0 0 {width:g} {height:g}'>",
            "<style>text{text-anchor:middle;font-family:'DejaVu Sans',Verdana,sans-serif}",
            ".v{font-family:'DejaVu Sans Mono',Menlo,monospace}</style>",
            _box(0, 0, width, height, "#fff", "rx='6'"),  # readable in a dark theme too
            *parts,
            "</svg>",
        ]
    )
    source = "data:image/svg+xml," + quote(svg, safe=" <>='():/,;.-{}")
    label = f'role="img" aria-label="{escape(alt)}" alt="{escape(alt)}"'
    return f'<img {label} {size} style="max-width:100%;height:auto" src="{source}">'
