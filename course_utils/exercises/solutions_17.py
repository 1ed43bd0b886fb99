"""Solutions of chapter 17: exposed seconds of each message, two blind cases, the rank that comes last."""

from statistics import median

from course_utils.timeline import Span


def covered_seconds(intervals: list[tuple[float, float]]) -> float:
    """How long at least one of the intervals lasts."""
    seconds, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return seconds


def exposed_by_message(
    computing: list[tuple[float, float]], messages: list[tuple[float, float]]
) -> list[float]:
    covered, exposed = list(computing), [0.0] * len(messages)
    for i in sorted(range(len(messages)), key=lambda i: messages[i][0]):  # stable: ties as in the list
        before = covered_seconds(covered)
        covered.append(messages[i])
        exposed[i] = covered_seconds(covered) - before
    return exposed


def culprits() -> dict[str, tuple[int, str]]:
    # On one clock: the rank with the least exposed communication, and the part in which it exceeds the
    # others. In A all inputs are long; the rank with the longest one still comes before the slow one. In B
    # another rank computes longer, by less than the late input costs.
    return {"A": (1, "computation"), "B": (2, "input")}


KINDS = {
    "computation": ("forward", "backward", "optimizer"),
    "exposed": ("communication",),
    "input": ("input",),
}


def four_parts(spans: list[Span], start: float, end: float) -> dict[str, float]:
    """Seconds of a window in each part; a moment goes to the first part that covers it."""
    covered: list[tuple[float, float]] = []
    parts = {}
    for part, kinds in KINDS.items():
        before = covered_seconds(covered)
        covered += [(max(s.start, start), min(s.end, end)) for s in spans if s.kind in kinds]
        parts[part] = covered_seconds(covered) - before
    return parts | {"idle": end - start - covered_seconds(covered)}


def find_culprit(spans_per_rank: list[list[Span]], windows: list[tuple[float, float]]) -> tuple[int, str]:
    parts = [four_parts(spans, *window) for spans, window in zip(spans_per_rank, windows, strict=True)]
    last = min(range(len(parts)), key=lambda rank: parts[rank]["exposed"])

    def excess(part: str) -> float:
        return parts[last][part] - median(p[part] for rank, p in enumerate(parts) if rank != last)

    return last, max(("computation", "input", "idle"), key=excess)


SOLUTIONS = {"17.1": exposed_by_message, "17.2": culprits, "17.3": find_culprit}
