"""Spans of time recorded in ranks, added up, and drawn one row a rank.

Times are `time.perf_counter`: on Linux (CLOCK_MONOTONIC), macOS and Windows one clock for all processes of a
machine, so that spans of different ranks compare directly. Spans of different machines don't.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from course_utils.drawing import rank_color

if TYPE_CHECKING:  # ranks record and don't draw: they need not wait for matplotlib's import
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

# kind: (color, hatch); light, so that labels can be read on them, and apart from the ranks' colors
KINDS = {
    "compute": ("#a6cee3", ""),
    "forward": ("#c7e0f4", ""),
    "backward": ("#7fb2dd", ""),
    "optimizer": ("#b9dfb0", ""),
    "communication": ("#fdc086", "///"),
    "input": ("#d5c4e8", "..."),
    "idle": ("#f2f2f2", "xxx"),
}
_EDGE: dict[str, Any] = {"edgecolor": "#555555", "hatchcolor": "#9a9a9a", "linewidth": 0.6}
_COMPUTE = ("compute", "forward", "backward", "optimizer")


class Span(NamedTuple):
    """What a rank did from `start` to `end`, in seconds of time.perf_counter. `kind` is one of KINDS."""

    name: str
    kind: str
    start: float
    end: float


_spans: list[Span] = []


def record(name: str, kind: str, start: float, end: float | None = None) -> None:
    """Add a span from `start` to `end` (default: now), both by time.perf_counter."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is unknown; pass one of {', '.join(KINDS)}")
    _spans.append(Span(name, kind, start, time.perf_counter() if end is None else end))


@contextmanager
def span(name: str, kind: str = "compute") -> Iterator[None]:
    """Record what a block takes: `with span("forward"): ...`, or with `@span("forward")` each call."""
    start = time.perf_counter()
    try:
        yield
    finally:
        record(name, kind, start)


def span_until_done(work: Any, name: str, kind: str = "communication") -> Any:
    """Record an asynchronous operation from now until it is done, and return it.

    `work = span_until_done(dist.all_reduce(x, async_op=True), "bucket 0")`. Takes a torch Future too, as a
    DDP communication hook returns it.
    """
    start = time.perf_counter()
    future = work if hasattr(work, "add_done_callback") else work.get_future()
    future.add_done_callback(lambda _: record(name, kind, start))
    return work


def recorded_spans() -> list[Span]:
    """This rank's spans in order of their start, for the rank function to return; they are forgotten here."""
    spans = sorted(_spans, key=lambda s: (s.start, s.end))
    _spans.clear()
    return spans


def simulated_compute(seconds: float) -> None:
    """Wait, as a CPU waits for its GPU: it stands for computation of a known length.

    More ranks than cores can't compute in parallel, but they can wait in parallel. So a lab about time lets
    each rank wait while real tensors travel between the ranks; it says nothing about what a core can compute.
    """
    time.sleep(seconds)


def _union(spans: Iterable[Span], kinds: Sequence[str]) -> list[tuple[float, float]]:
    """The times covered by spans of these kinds, as disjoint intervals in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted((s.start, s.end) for s in spans if s.kind in kinds):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in intervals)


def total(spans: Iterable[Span], *kinds: str) -> float:
    """Seconds during which a rank was in a span of these kinds (default: any); overlaps count once."""
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"kind {unknown[0]!r} is unknown; pass one of {', '.join(KINDS)}")
    return _length(_union(spans, kinds or tuple(KINDS)))


def exposed(spans: Sequence[Span]) -> float:
    """Seconds of one rank's communication that no computation of its own covers, by interval arithmetic:
    |communication ∪ computation| − |computation|. Computation: compute, forward, backward, optimizer."""
    return total(spans, "communication", *_COMPUTE) - total(spans, *_COMPUTE)


def extent(spans_per_rank: Iterable[Iterable[Span]]) -> float:
    """Seconds from the first start to the last end on any rank."""
    spans = [s for spans in spans_per_rank for s in spans]
    return max((s.end for s in spans), default=0.0) - min((s.start for s in spans), default=0.0)


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of a rank in lanes without overlaps; a kind that overlaps those before it gets its own lane."""
    lanes: list[list[Span]] = []
    for kinds in (_COMPUTE, ("communication",), ("input",), ("idle",)):
        own: list[list[Span]] = []
        for s in sorted((s for s in spans if s.kind in kinds), key=lambda s: (s.start, -s.end)):
            lane = next((lane for lane in own if lane[-1].end <= s.start), None)
            if lane is None:
                own.append(lane := [])
            lane.append(s)
        if (
            len(own) == 1
            and (lane := next((lane for lane in lanes if _fits(own[0], lane)), None)) is not None
        ):
            lane.extend(own[0])
        else:
            lanes += own
    return lanes


def _fits(spans: Sequence[Span], lane: Sequence[Span]) -> bool:
    return all(a.end <= b.start + 1e-9 or b.end <= a.start + 1e-9 for a in spans for b in lane)


def draw(spans_per_rank: Sequence[Sequence[Span]], title: str = "", width: float = 9.0) -> "Figure":
    """One row a rank, rank 0 on top, in milliseconds from the earliest span; `width` in inches.

    Color and hatch tell the kind. Spans of one rank that overlap (communication under way while it computes)
    stand in lanes, one above the other. A name is written where it fits. Raises ValueError if no rank has a
    span.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    if not any(spans_per_rank):
        raise ValueError(
            "no spans to draw: return recorded_spans() from the rank function and pass launch's result"
        )
    rows = [_lanes(spans) for spans in spans_per_rank]
    begin = min(s.start for spans in spans_per_rank for s in spans)
    row_inches = max(0.55, 0.26 * max(map(len, rows)))
    figure = Figure(figsize=(width, 1.5 + row_inches * len(rows)), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    right = extent(spans_per_rank) * 1e3 * 1.005  # so that the last box shows its right edge
    axes.set(xlim=(0, right), ylim=(len(rows) - 0.45, -0.55), xlabel="time (ms)")
    boxes = []
    for rank, lanes in enumerate(rows):
        height = 0.8 / max(len(lanes), 1)
        for i, lane in enumerate(lanes):
            for s in lane:
                color, hatch = KINDS[s.kind]
                x, y, length = (s.start - begin) * 1e3, rank - 0.4 + i * height, (s.end - s.start) * 1e3
                box = Rectangle((x, y), length, height, facecolor=color, hatch=hatch, **_EDGE)
                label = axes.text(
                    x + length / 2, y + height / 2, s.name, ha="center", va="center", clip_on=True
                )
                boxes.append((axes.add_patch(box), label))
    _style(axes, title, len(rows), {s.kind for spans in spans_per_rank for s in spans})
    _fit_labels(figure, boxes)
    return figure


def _style(axes: "Axes", title: str, n_ranks: int, kinds: set[str]) -> None:
    from matplotlib.patches import Patch, Rectangle

    axes.set_title(title, loc="left", pad=30)
    axes.set_yticks(range(n_ranks), [f"rank {rank}" for rank in range(n_ranks)], fontweight="bold")
    axes.tick_params(axis="y", length=0, pad=8)
    axes.grid(False, axis="y")
    axes.spines[["top", "right", "left"]].set_visible(False)
    for rank in range(n_ranks):  # a strip in the rank's color left of its row
        place = {"transform": axes.get_yaxis_transform(), "clip_on": False}
        axes.add_patch(Rectangle((-0.009, rank - 0.4), 0.007, 0.8, facecolor=rank_color(rank), **place))
    legend = [
        Patch(facecolor=color, hatch=hatch, label=kind, **_EDGE)
        for kind, (color, hatch) in KINDS.items()
        if kind in kinds
    ]
    axes.legend(
        handles=legend,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=7,
        frameon=False,
        borderpad=0,
        borderaxespad=0.6,
    )


def _fit_labels(figure: "Figure", boxes: "Sequence[tuple[Rectangle, Text]]") -> None:
    """Write a name smaller, or not at all, where its box is too small for it."""
    from matplotlib.patheffects import withStroke

    figure.draw_without_rendering()  # lays the figure out, so that boxes and texts have their sizes in pixels
    for box, label in boxes:
        space, needed = box.get_window_extent(), label.get_window_extent()
        scale = min(1.0, (space.width - 6) / max(needed.width, 1), (space.height - 2) / max(needed.height, 1))
        label.set_fontsize(label.get_fontsize() * scale)
        label.set_visible(label.get_fontsize() >= 7.5)
        label.set_path_effects([withStroke(linewidth=3, foreground=box.get_facecolor())])  # over the hatch
