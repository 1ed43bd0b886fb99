"""Wrong solutions of chapter 17: exposed time by message, two blind cases, the culprit by arithmetic."""

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

from course_utils.timeline import Span

Intervals = list[tuple[float, float]]
Ranks = list[list[Span]]
PARTS = {"computation": ("forward", "backward", "optimizer"), "exposed": ("communication",)}
PARTS |= {"input": ("input",)}
CAUSES = ("computation", "input", "idle")

# What a student has from section 2


def _length(intervals: Intervals) -> float:
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _split(spans: list[Span], start: float, end: float) -> dict[str, float]:
    covered: Intervals = []
    parts: dict[str, float] = {}
    for part, kinds in PARTS.items():
        here = [s for s in spans if s.kind in kinds and s.start < end and s.end > start]
        more = covered + [(max(s.start, start), min(s.end, end)) for s in here]
        parts[part], covered = _length(more) - _length(covered), more
    return parts | {"idle": end - start - _length(covered)}


# 17.1: exposed_by_message(computing, messages)


def _in_turn(computing: Intervals, messages: Intervals, order: list[int]) -> list[float]:
    shown, covered = [0.0] * len(messages), list(computing)
    for i in order:
        shown[i] = _length([*covered, messages[i]]) - _length(covered)
        covered.append(messages[i])
    return shown


def takes_them_as_listed(computing: Intervals, messages: Intervals) -> list[float]:
    return _in_turn(computing, messages, list(range(len(messages))))


def forgets_the_other_messages(computing: Intervals, messages: Intervals) -> list[float]:
    return [_length([*computing, m]) - _length(computing) for m in messages]


def returns_them_in_order_of_start(computing: Intervals, messages: Intervals) -> list[float]:
    order = sorted(range(len(messages)), key=lambda i: messages[i][0])
    shown = _in_turn(computing, messages, order)
    return [shown[i] for i in order]


def gives_a_moment_to_what_ends_first(computing: Intervals, messages: Intervals) -> list[float]:
    return _in_turn(computing, messages, sorted(range(len(messages)), key=lambda i: messages[i][1]))


def gives_a_moment_to_what_began_last(computing: Intervals, messages: Intervals) -> list[float]:
    return _in_turn(computing, messages, sorted(range(len(messages)), key=lambda i: -messages[i][0]))


def breaks_ties_by_the_end(computing: Intervals, messages: Intervals) -> list[float]:
    return _in_turn(computing, messages, sorted(range(len(messages)), key=messages.__getitem__))


def breaks_ties_from_the_back(computing: Intervals, messages: Intervals) -> list[float]:
    backwards = range(len(messages) - 1, -1, -1)
    return _in_turn(computing, messages, sorted(backwards, key=lambda i: messages[i][0]))


def keeps_results_by_interval(computing: Intervals, messages: Intervals) -> list[float]:
    shown, covered = {}, list(computing)
    for m in sorted(messages, key=lambda m: m[0]):
        shown[m] = _length([*covered, m]) - _length(covered)
        covered.append(m)
    return [shown[m] for m in messages]


def subtracts_every_overlap(computing: Intervals, messages: Intervals) -> list[float]:
    def overlap(m: tuple[float, float]) -> float:
        return sum(max(0.0, min(m[1], end) - max(m[0], start)) for start, end in computing)

    return [end - start - overlap((start, end)) for start, end in messages]


def returns_durations(computing: Intervals, messages: Intervals) -> list[float]:
    return [end - start for start, end in messages]


def returns_what_is_hidden(computing: Intervals, messages: Intervals) -> list[float]:
    shown = _in_turn(computing, messages, sorted(range(len(messages)), key=lambda i: messages[i][0]))
    return [end - start - s for (start, end), s in zip(messages, shown, strict=True)]


def returns_the_sum(computing: Intervals, messages: Intervals) -> float:
    return _length(computing + messages) - _length(computing)


def counts_what_comes_after_the_last_computation(computing: Intervals, messages: Intervals) -> list[float]:
    last = max((end for _, end in computing), default=0.0)
    return [max(0.0, end - max(start, last)) for start, end in messages]


def needs_a_computation(computing: Intervals, messages: Intervals) -> list[float]:
    max(end for _, end in computing)
    return _in_turn(computing, messages, sorted(range(len(messages)), key=lambda i: messages[i][0]))


def shares_a_moment_equally(computing: Intervals, messages: Intervals) -> list[float]:
    edges, shown = sorted({t for both in computing + messages for t in both}), [0.0] * len(messages)
    for a, b in pairwise(edges):
        under_way = [i for i, (start, end) in enumerate(messages) if start <= a and b <= end]
        if not any(start <= a and b <= end for start, end in computing):
            for i in under_way:
                shown[i] += (b - a) / len(under_way)
    return shown


def shows_what_no_other_message_covers(computing: Intervals, messages: Intervals) -> list[float]:
    everything = _length(computing + messages)
    return [everything - _length(computing + messages[:i] + messages[i + 1 :]) for i in range(len(messages))]


# 17.2: culprits(); rank 1 computes longer in A, rank 2's input is late in B

Pairs = dict[str, tuple[int, str]]


def swaps_the_cases() -> Pairs:
    return {"A": (2, "input"), "B": (1, "computation")}


def takes_the_longest_part_of_a() -> Pairs:
    return {"A": (1, "input"), "B": (2, "input")}


def follows_the_longest_input_in_a() -> Pairs:
    return {"A": (2, "input"), "B": (2, "input")}


def follows_the_longer_computation_in_b() -> Pairs:
    return {"A": (1, "computation"), "B": (0, "computation")}


def trusts_the_clocks() -> Pairs:
    return {"A": (3, "computation"), "B": (2, "input")}


def blames_the_clock_behind() -> Pairs:
    return {"A": (1, "computation"), "B": (3, "idle")}


def calls_b_idle() -> Pairs:
    return {"A": (1, "computation"), "B": (2, "idle")}


def counts_ranks_from_one() -> Pairs:
    return {"A": (2, "computation"), "B": (3, "input")}


def blames_the_network() -> Pairs:
    return {"A": (1, "exposed"), "B": (2, "exposed")}


def names_ranks_only() -> dict[str, int]:
    return {"A": 1, "B": 2}


def answers_one_case() -> Pairs:
    return {"A": (1, "computation")}


def writes_ranks_as_text() -> dict[str, tuple[str, str]]:
    return {"A": ("rank 1", "computation"), "B": ("rank 2", "input")}


# 17.3: find_culprit(spans_per_rank, windows)


def _parts(spans: Ranks, windows: Intervals) -> list[dict[str, float]]:
    return [_split(own, *window) for own, window in zip(spans, windows, strict=True)]


def _least_exposed(parts: list[dict[str, float]]) -> int:
    return min(range(len(parts)), key=lambda rank: parts[rank]["exposed"])


def _excess(parts: list[dict[str, float]], rank: int, part: str) -> float:
    return parts[rank][part] - median(p[part] for r, p in enumerate(parts) if r != rank)


def _cause(parts: list[dict[str, float]], rank: int) -> str:
    return max(CAUSES, key=lambda part: _excess(parts, rank, part))


def blames_who_computes_longest(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    return max(range(len(parts)), key=lambda rank: parts[rank]["computation"]), "computation"


def blames_the_most_exposed(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = max(range(len(parts)), key=lambda rank: parts[rank]["exposed"])
    return rank, _cause(parts, rank)


def takes_its_longest_part(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = _least_exposed(parts)
    return rank, max(CAUSES, key=lambda part: parts[rank][part])


def blames_who_computes_and_loads_longest(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = max(range(len(parts)), key=lambda rank: parts[rank]["computation"] + parts[rank]["input"])
    return rank, _cause(parts, rank)


def always_says_computation(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    return _least_exposed(_parts(spans, windows)), "computation"


def never_says_idle(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = _least_exposed(parts)
    return rank, max(CAUSES[:2], key=lambda part: _excess(parts, rank, part))


def takes_the_largest_excess_of_all(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    both = [(rank, part) for rank in range(len(parts)) for part in CAUSES]
    return max(both, key=lambda pair: _excess(parts, *pair))


def compares_with_rank_0(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = _least_exposed(parts)
    return rank, max(CAUSES, key=lambda part: parts[rank][part] - parts[0][part])


def takes_the_largest_difference(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = _least_exposed(parts)
    return rank, max(parts[0], key=lambda part: abs(_excess(parts, rank, part)))


def adds_durations(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = []
    for own, (start, end) in zip(spans, windows, strict=True):
        sums = {part: sum(s.end - s.start for s in own if s.kind in kinds) for part, kinds in PARTS.items()}
        parts.append(sums | {"idle": end - start - sum(sums.values())})
    rank = _least_exposed(parts)
    return rank, _cause(parts, rank)


def blames_who_has_the_longest_window(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = max(range(len(windows)), key=lambda rank: windows[rank][1] - windows[rank][0])
    return rank, _cause(parts, rank)


def looks_at_the_first_message_alone(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    firsts = [min(s.start for s in own if s.kind == "communication") for own in spans]
    rank = firsts.index(max(firsts))
    return rank, _cause(_parts(spans, windows), rank)


def knows_four_ranks_only(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    parts = _parts(spans, windows)
    rank = min(range(4), key=lambda rank: parts[rank]["exposed"])
    return rank, _cause(parts, rank)


def calls_it_communication(spans: Ranks, windows: Intervals) -> tuple[int, str]:
    return _least_exposed(_parts(spans, windows)), "communication"


def names_the_cause_first(spans: Ranks, windows: Intervals) -> tuple[str, int]:
    parts = _parts(spans, windows)
    rank = _least_exposed(parts)
    return _cause(parts, rank), rank


MUTANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "17.1": (
        takes_them_as_listed,
        forgets_the_other_messages,
        returns_them_in_order_of_start,
        gives_a_moment_to_what_ends_first,
        gives_a_moment_to_what_began_last,
        breaks_ties_by_the_end,
        breaks_ties_from_the_back,
        keeps_results_by_interval,
        subtracts_every_overlap,
        returns_durations,
        returns_what_is_hidden,
        returns_the_sum,
        counts_what_comes_after_the_last_computation,
        needs_a_computation,
        shares_a_moment_equally,
        shows_what_no_other_message_covers,
    ),
    "17.2": (
        swaps_the_cases,
        takes_the_longest_part_of_a,
        follows_the_longest_input_in_a,
        follows_the_longer_computation_in_b,
        trusts_the_clocks,
        blames_the_clock_behind,
        calls_b_idle,
        counts_ranks_from_one,
        blames_the_network,
        names_ranks_only,
        answers_one_case,
        writes_ranks_as_text,
    ),
    "17.3": (
        blames_who_computes_longest,
        blames_the_most_exposed,
        takes_its_longest_part,
        blames_who_computes_and_loads_longest,
        always_says_computation,
        never_says_idle,
        takes_the_largest_excess_of_all,
        compares_with_rank_0,
        takes_the_largest_difference,
        adds_durations,
        blames_who_has_the_longest_window,
        looks_at_the_first_message_alone,
        knows_four_ranks_only,
        calls_it_communication,
        names_the_cause_first,
    ),
}

FITS = {
    "takes_them_as_listed": "in no order",
    "forgets_the_other_messages": "belongs to one of them only",
    "returns_them_in_order_of_start": "in the order given",
    "gives_a_moment_to_what_ends_first": "not which ended first",
    "gives_a_moment_to_what_began_last": "the one that began first",
    "breaks_ties_by_the_end": "stands first in the list",
    "breaks_ties_from_the_back": "the first one's in the list",
    "keeps_results_by_interval": "same start and end",
    "subtracts_every_overlap": "belongs to one of them only",
    "returns_durations": "these are the durations",
    "returns_what_is_hidden": "asked is what shows",
    "returns_the_sum": "one number for each message",
    "counts_what_comes_after_the_last_computation": "add to what is covered already",
    "needs_a_computation": "empty sequence",
    "shares_a_moment_equally": "the sum is right",
    "shows_what_no_other_message_covers": "add to what is covered already",
    "swaps_the_cases": "case A: the others do not wait for this rank",
    "takes_the_longest_part_of_a": "same part of the other ranks",
    "follows_the_longest_input_in_a": "Look at the exposed time of all four",
    "follows_the_longer_computation_in_b": "case B: the others do not wait",
    "trusts_the_clocks": "on one clock",
    "blames_the_clock_behind": "on one clock",
    "calls_b_idle": "case B: the rank is right, the cause is not",
    "counts_ranks_from_one": "case A: the others do not wait",
    "blames_the_network": "no such cause",
    "names_ranks_only": "not a pair",
    "answers_one_case": "both cases",
    "writes_ranks_as_text": "no such rank",
    "blames_who_computes_longest": "the others do not wait for it",
    "blames_the_most_exposed": "communicates longest: it waits",
    "takes_its_longest_part": "longer than on the other ranks",
    "blames_who_computes_and_loads_longest": "the others do not wait for it",
    "always_says_computation": "longer than on the other ranks",
    "never_says_idle": "exceed the others",
    "takes_the_largest_excess_of_all": "Who is waited for",
    "compares_with_rank_0": "longer than on the other ranks",
    "takes_the_largest_difference": "no such cause",
    "adds_durations": "do not add durations",
    "blames_who_has_the_longest_window": "the others do not wait for it",
    "looks_at_the_first_message_alone": "the others do not wait for it",
    "knows_four_ranks_only": "five ranks",
    "calls_it_communication": "no such cause",
    "names_the_cause_first": "not a pair",
}
