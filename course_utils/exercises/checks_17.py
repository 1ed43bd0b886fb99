"""Checks of chapter 17: exposed seconds of each message, and the rank that the others wait for."""

from collections.abc import Callable, Sequence
from typing import Any

from course_utils.exercises import hidden_17
from course_utils.exercises.judging import Exercise, compare, reject
from course_utils.timeline import Span

Intervals = Sequence[tuple[float, float]]

# 17.1 · exposed seconds of each message: computing, messages

_INTERVALS: tuple[tuple[Intervals, Intervals], ...] = (
    ([(0.0, 4.0)], [(1.0, 2.0), (3.0, 6.0)]),  # the first inside computation
    ([(0.0, 2.0), (3.0, 5.0)], [(1.5, 4.75)]),  # a gap of computation
    ([], [(1.0, 3.0), (5.0, 6.0)]),
    ([(0.0, 9.0)], []),
    ([], []),
    ([(0.0, 1.0)], [(2.0, 5.0), (4.0, 7.0)]),  # overlapping messages
    ([(0.0, 1.0)], [(4.0, 7.0), (2.0, 5.0)]),  # the same, the later one first in the list
    ([(3.0, 4.0)], [(0.0, 10.0), (2.0, 5.0), (9.0, 12.0)]),  # one inside another
    ([(0.0, 3.0), (1.0, 2.0), (2.5, 4.0)], [(0.5, 5.0), (3.0, 6.0)]),  # overlapping and nested computation
    ([(0.0, 1.0), (1.0, 2.0)], [(2.0, 3.0), (3.0, 4.0)]),  # all touch
    ([(6.0, 7.0), (0.0, 1.0)], [(5.0, 8.0), (0.5, 2.0)]),  # in no order
    ([(1.0, 2.0)], [(0.0, 3.0), (0.0, 4.0)]),  # two begin together
    ([(1.0, 2.0)], [(0.0, 4.0), (0.0, 3.0)]),
    ([(0.0, 1.0)], [(2.0, 4.0), (2.0, 4.0)]),  # two that are equal
    ([(0.0, 1.0)], [(2.0, 2.0), (2.0, 3.0), (2.5, 2.5)]),  # of length 0
    ([(0.0, 2.0)], [(1.0, 3.0), (4.0, 6.0), (2.5, 5.0), (5.5, 8.0)]),  # a chain
    ([(0.0, 5e-4)], [(2.5e-4, 7.5e-4), (6e-4, 9e-4)]),  # as short as those of a profiler
)


def _cover(intervals: Intervals) -> list[tuple[float, float]]:
    covered: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if covered and start <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(covered[-1][1], end)
        else:
            covered.append((start, end))
    return covered


def _seconds(intervals: Intervals) -> float:
    return sum(end - start for start, end in _cover(intervals))


def _by_message(computing: Intervals, messages: Intervals, order: Sequence[int]) -> list[float]:
    """What each message adds to the cover of computation and the messages before it in ``order``."""
    covered, exposed = list(computing), [0.0] * len(messages)
    for i in order:
        before = _seconds(covered)
        covered.append(messages[i])
        exposed[i] = _seconds(covered) - before
    return exposed


def _by_start(messages: Intervals) -> list[int]:
    return sorted(range(len(messages)), key=lambda i: messages[i][0])  # stable: the first in the list wins


def see_exposed(exposed_by_message: Callable[..., Any]) -> list[Any]:
    return [exposed_by_message(list(computing), list(messages)) for computing, messages in _INTERVALS]


def _same(came: Any, expected: Sequence[float]) -> bool:
    return len(came) == len(expected) and all(abs(a - b) < 1e-9 for a, b in zip(came, expected, strict=True))


def _exposed_hint(came: Any, computing: Intervals, messages: Intervals) -> str:
    """What to think of, by the mistake that gives this value."""
    if not isinstance(came, list) or len(came) != len(messages):
        return "a list with one number for each message"
    if not all(isinstance(number, (int, float)) for number in came):
        return "each item is a number of seconds"
    order = _by_start(messages)
    right = _by_message(computing, messages, order)
    alone = [_seconds([*computing, m]) - _seconds(computing) for m in messages]
    common = [sum(max(0.0, min(m[1], e) - max(m[0], s)) for s, e in computing) for m in messages]
    ties = sorted(range(len(messages)), key=lambda i: messages[i])
    ends = sorted(range(len(messages)), key=lambda i: messages[i][1])
    backwards = sorted(range(len(messages) - 1, -1, -1), key=lambda i: messages[i][0])
    by_interval = dict(zip(messages, right, strict=True))
    known = {  # where two mistakes give the same value, the first hint is the one that helps both
        "where two messages are under way at once, the moment belongs to one of them only": alone,
        "these are the durations; some of the messages run during computation": [e - s for s, e in messages],
        "of two that began together the one that stands first in the list comes first": _by_message(
            computing, messages, ties
        ),
        "of two that began together the moment is the first one's in the list, not the last one's": (
            _by_message(computing, messages, backwards)
        ),
        "the list is in no order: find out which message began first, and answer in the order given": (
            _by_message(computing, messages, range(len(messages)))
        ),
        "right, but in the order of their starts: answer in the order given": [right[i] for i in order],
        "of two messages that overlap the moment belongs to the one that began first": _by_message(
            computing, messages, order[::-1]
        ),
        "which message began first, not which ended first": _by_message(computing, messages, ends),
        "computing intervals overlap: what two of them hide counts once": [
            e - s - hidden for (s, e), hidden in zip(messages, common, strict=True)
        ],
        "this is what is hidden of each message; asked is what shows": [
            e - s - shown for (s, e), shown in zip(messages, right, strict=True)
        ],
        "two messages may have the same start and end: keep results by their places in the list": [
            by_interval[m] for m in messages
        ],
    }
    if messages and max(end for _, end in messages) < 1e-2:
        return "no grid of milliseconds: calculate with the starts and ends themselves"
    for hint, value in known.items():
        if _same(came, value):
            return hint
    if any(number < 0 for number in came):
        return "no time is negative: what is subtracted twice?"
    if abs(sum(came) - sum(right)) < 1e-9:
        return "the sum is right: which message does each moment belong to?"
    return "go through the messages by their starts: what does each add to what is covered already?"


def decide_exposed(seen: list[list[Any]]) -> str:
    for came, (computing, messages) in zip(seen[0], _INTERVALS, strict=True):
        what = f"exposed seconds for computing {list(computing)}, messages {list(messages)}"
        expected = _by_message(computing, messages, _by_start(messages))
        hint = _exposed_hint(came, computing, messages)
        compare(what, came, expected, hint=hint, tolerance=1e-9)
    return f"{len(_INTERVALS)} sets of intervals; in each the messages share the exposed time among them."


# 17.2 · blind cases

_FORM = '{"A": (rank, cause), "B": (rank, cause)}, the rank a number'


def see_blind(culprits: Callable[[], Any]) -> Any:
    return culprits()


def decide_blind(answers: list[Any]) -> str:
    seen = answers[0]
    if not isinstance(seen, dict) or set(seen) != {"A", "B"}:
        reject("not an answer for both cases", expected=_FORM, came=seen)
    for name in ("A", "B"):
        own, answer = hidden_17.case(name), seen[name]
        if not isinstance(answer, list) or len(answer) != 2:
            reject(f"case {name}: not a pair", expected=_FORM, came=answer)
        rank, cause = answer
        if type(rank) is not int or rank not in range(hidden_17.RANKS):
            reject(f"case {name}: no such rank", expected="0, 1, 2 or 3", came=rank)
        if cause not in hidden_17.CAUSES:
            reject(f"case {name}: no such cause", expected=" or ".join(hidden_17.CAUSES), came=cause)
        if rank != own.culprit[0]:
            hint = _rank_hint(rank, own)
            reject(f"case {name}: the others do not wait for this rank", came=f"rank {rank}", hint=hint)
        if cause != own.culprit[1]:
            hint = "compare each part of this rank with the same part of the other ranks"
            reject(f"case {name}: the rank is right, the cause is not", came=cause, hint=hint)
    return "two causes found in traces alone, through clocks that disagree."


def _rank_hint(rank: int, own: hidden_17.Case) -> str:
    if own.ahead[rank] > 0:
        return "whose clock is ahead seems to come last: are the traces on one clock?"
    if own.ahead[rank] < 0:
        return "whose clock is behind seems to come first: are the traces on one clock?"
    return "it differs from the others, but do they wait for it? Look at the exposed time of all four"


# 17.3 · find the culprit

_COMPUTATION = ("forward", "backward", "optimizer")


_Traces = tuple[list[list[Span]], list[tuple[float, float]], tuple[int, str]]


def _cases() -> dict[str, _Traces]:
    """The simulated cases; one of them with five ranks, and one with input that computation hides."""
    cases = {name: hidden_17.simulate(name) for name in hidden_17.simulated_cases()}
    spans, windows, (culprit, cause) = cases["a late input"]
    order = [rank for rank in range(len(spans)) if rank != culprit]
    order = [*order, order[0], culprit]
    cases["a late input on the last of five ranks"] = (
        [spans[rank] for rank in order],
        [windows[rank] for rank in order],
        (len(order) - 1, cause),
    )
    spans, windows, (culprit, cause) = cases["a straggler"]
    ahead = [Span("prefetch", "input", s.start, s.end) for s in spans[culprit] if s.kind == "backward"]
    fetching = list(spans)
    fetching[culprit] = sorted(spans[culprit] + ahead, key=lambda s: (s.start, s.end))
    cases["a straggler that loads ahead while it computes"] = fetching, windows, (culprit, cause)
    return cases


def see_culprit(find_culprit: Callable[..., Any]) -> list[Any]:
    return [find_culprit(spans, windows) for spans, windows, _ in _cases().values()]


def _parts(spans: Sequence[Span], window: tuple[float, float]) -> dict[str, float]:
    covered: list[tuple[float, float]] = []
    parts = {}
    for part, kinds in (
        ("computation", _COMPUTATION),
        ("exposed", ("communication",)),
        ("input", ("input",)),
    ):
        before = _seconds(covered)
        covered += [(s.start, s.end) for s in spans if s.kind in kinds]
        parts[part] = _seconds(covered) - before
    return parts | {"idle": window[1] - window[0] - _seconds(covered)}


def _culprit_hint(
    came: list[Any], spans: list[list[Span]], parts: list[dict[str, float]], culprit: tuple[int, str]
) -> str:
    rank, cause = came
    if rank == culprit[0]:
        lasts = sum(s.end - s.start for s in spans[rank] if s.kind == "input")
        if cause == "input" and lasts > parts[rank]["input"] + 1e-3:
            return "what computation hides is no input time: merge intervals, do not add durations"
        largest = max(hidden_17.CAUSES, key=lambda part: parts[rank][part])
        if cause == largest:
            return "that part is this rank's longest, but is it longer than on the other ranks?"
        return "in which part does this rank exceed the others, in seconds?"
    if rank == max(range(len(parts)), key=lambda r: parts[r]["exposed"]):
        return "this rank communicates longest: it waits. Who is waited for?"
    for part in hidden_17.CAUSES:
        if rank == max(range(len(parts)), key=lambda r: parts[r][part]):
            return f"this rank has the longest {part}, and yet the others do not wait for it"
    return "the rank that comes last waits for nobody: what is small in its trace?"


def decide_culprit(seen: list[list[Any]]) -> str:
    cases = _cases()
    for (name, (spans, windows, culprit)), came in zip(cases.items(), seen[0], strict=True):
        parts = [_parts(own, window) for own, window in zip(spans, windows, strict=True)]
        form = isinstance(came, list) and len(came) == 2
        if not form or type(came[0]) is not int or came[0] not in range(len(parts)):
            expected = f"(rank, cause), the rank a number from 0 to {len(parts) - 1}"
            reject(f"{name}: not a pair", expected=expected, came=came)
        if came[1] not in hidden_17.CAUSES:
            reject(f"{name}: no such cause", expected=" or ".join(hidden_17.CAUSES), came=came[1])
        compare(name, came, list(culprit), hint=_culprit_hint(came, spans, parts, culprit))
    return f"{len(cases)} sets of traces, with decoys; you could watch a thousand ranks with it."


EXERCISES = {
    "17.1": Exercise(see_exposed, decide_exposed, world_sizes=(1,), timeout=8.0),
    "17.2": Exercise(see_blind, decide_blind, world_sizes=(1,), timeout=8.0),
    "17.3": Exercise(see_culprit, decide_culprit, world_sizes=(1,), timeout=8.0),
}
