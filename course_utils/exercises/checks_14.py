"""Checks of chapter 14: exposed seconds, ranks that waste half, an all-reduce that spares the slow link."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils import timeline
from course_utils.exercises.judging import Exercise, at_most, compare, reject
from course_utils.exercises.messages import logged_calls, logged_messages
from course_utils.measure import count_operations

# 14.1 · exposed seconds

Intervals = Sequence[tuple[float, float]]

_INTERVALS: tuple[tuple[Intervals, Intervals], ...] = (
    ([(0.0, 2.0), (3.0, 5.0)], [(1.5, 4.75)]),
    ([(0.0, 4.0)], [(1.0, 2.0), (3.0, 6.0)]),
    ([(6.0, 7.0), (0.0, 1.0)], [(2.0, 3.0), (2.75, 4.0), (0.5, 1.5)]),  # overlapping messages
    ([(0.0, 3.0), (1.0, 2.0), (2.5, 4.0)], [(0.5, 5.0)]),  # overlapping and nested computation
    ([(0.0, 1.0), (1.0, 2.0)], [(0.0, 6.0), (1.0, 2.0), (5.5, 7.25)]),
    ([], [(4.0, 5.0), (1.0, 3.0)]),
    ([(0.0, 9.0)], [(1.0, 2.0), (3.0, 4.0)]),
    ([(0.0, 9.0)], []),
    ([(0.0, 5e-4)], [(2.5e-4, 7.5e-4)]),  # as short as those of a profiler
)


def _cover(intervals: Intervals, *, ordered: bool = True, later: bool = True) -> list[tuple[float, float]]:
    """The union as disjoint intervals; or with a mistake: not sorted, or not the later of two ends."""
    covered: list[tuple[float, float]] = []
    for start, end in sorted(intervals) if ordered else intervals:
        if covered and start <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(covered[-1][1], end) if later else end
        else:
            covered.append((start, end))
    return covered


def _seconds(intervals: Intervals) -> float:
    return sum(end - start for start, end in intervals)


def _common(one: Intervals, other: Intervals) -> float:
    return sum(max(0.0, min(e, f) - max(s, t)) for s, e in one for t, f in other)


def _exposed(computing: Intervals, communicating: Intervals) -> float:
    return _seconds(_cover([*computing, *communicating])) - _seconds(_cover(computing))


def _not_here(*_arguments: Any) -> None:
    raise RuntimeError("course_utils.timeline does what this exercise asks you to write")


def see_exposed(exposed_seconds: Callable[..., Any]) -> list[Any]:
    timeline._union = _not_here  # everything in timeline that adds up intervals goes through it
    return [exposed_seconds(list(computing), list(waiting)) for computing, waiting in _INTERVALS]


def _exposed_hint(came: Any, computing: Intervals, communicating: Intervals) -> str:
    """What to think of, by the mistake that gives this value."""
    if not isinstance(came, (int, float)):
        return "one number of seconds"
    cover, work = _cover(communicating), _cover(computing)
    if min(start for start, _ in communicating or [(1.0, 1.0)]) < 1e-3:
        return "no grid of milliseconds: calculate with the starts and ends themselves"

    def careless(**mistake: bool) -> float:
        messages = _cover(communicating, **mistake)
        return _seconds(messages) - _common(messages, _cover(computing, **mistake))

    hull = [(min(s for s, _ in cover), max(e for _, e in cover))] if cover else []
    by_pairs = _seconds(communicating) - sum(
        _common([one], [other]) for one, other in zip(communicating, computing, strict=False)
    )
    both = _seconds(communicating) - _common(communicating, computing)
    messages = _seconds(communicating) - _common(communicating, work)
    computation = _seconds(cover) - _common(cover, computing)
    known = {  # where two mistakes give the same value, the later hint is the simpler one
        careless(ordered=False): "the intervals come in any order: sort them",
        careless(later=False): (
            "an interval can lie inside another: what covers both ends at the later of the two ends"
        ),
        _seconds(hull) - _common(hull, work): "in the gaps between the messages nothing is communicated",
        by_pairs: "a message can meet several intervals of computation",
        _seconds(communicating): "that is the sum of all messages; some of them run during computation",
        _seconds(cover): "that is all communication; some of it runs during computation",
        max(0.0, _seconds(cover) - _seconds(work)): "lengths alone don't tell: where do the intervals meet?",
        _common(cover, work): "that is the communication that computing hides; the rest was asked for",
        both: "intervals of one kind overlap: merge them first",
        computation: "computing intervals overlap: what two of them hide counts once",
        messages: "two messages at the same time are one exposed second, not two",
    }
    for value, hint in known.items():
        if abs(came - value) < 1e-9:
            return hint
    return "draw the intervals on a line, and mark what is in a message and in no computation"


def decide_exposed(seen: list[list[Any]]) -> str:
    for came, (computing, communicating) in zip(seen[0], _INTERVALS, strict=True):
        what = f"exposed seconds for computing {computing}, communicating {communicating}"
        hint = _exposed_hint(came, computing, communicating)
        compare(what, came, _exposed(computing, communicating), hint=hint, tolerance=1e-9)
    return f"{len(_INTERVALS)} sets of intervals, overlapping, nested and empty ones among them."


# 14.2 · half is lost

_STEPS = (  # compute (s), size (B), alpha (s), bandwidth (B/s)
    (2.0, 1.4e9, 1e-4, 50e9),
    (0.3, 1.4e9, 20e-6, 10e9),
    (0.46875, 2.0**20, 2.0**-6, 2.0**26),  # exactly half at 4 ranks, in whichever order it is calculated
    (0.0495, 1e6, 0.0, 1e9),
    (0.001, 1e9, 10e-6, 1e9),
    (30.0, 1e6, 5e-6, 25e9),
)


def _first(wasted: Callable[[int], bool]) -> int:
    return next((ranks for ranks in range(2, 100_000) if wasted(ranks)), 0)


def _half_lost(compute: float, size: float, alpha: float, bandwidth: float, share: float = 0.5) -> int:
    def wasted(ranks: int) -> bool:
        communication = 2 * (ranks - 1) * (alpha + size / ranks / bandwidth)
        return compute <= share * (compute + ranks * communication)

    return _first(wasted)


def see_half_lost(half_lost: Callable[..., Any]) -> list[Any]:
    return [half_lost(*step) for step in _STEPS]


def _half_hint(came: Any, step: tuple[float, float, float, float]) -> str:
    compute, size, alpha, bandwidth = step
    wanted = _half_lost(*step)
    if isinstance(came, float):
        return "a number of ranks is an int: the first whole number that wastes half"
    if step == _STEPS[-1]:
        return "here it takes more than a thousand ranks: go on until half is lost"
    known = {
        _half_lost(compute, size, 0.0, bandwidth): "large messages are not all: what do small ones cost?",
        _half_lost(compute, 0.0, alpha, bandwidth): "how long do the bytes take?",
        _first(lambda W: compute <= compute / 2 + (W - 1) * (alpha + size / W / bandwidth)): (
            "that is weak scaling: here each rank computes for 1/W of the time"
        ),
        _half_lost(compute, size / 2, alpha / 2, bandwidth): "a ring has two halves: how many steps in all?",
        _first(lambda W: compute <= W * 2 * (W - 1) * (alpha + size / bandwidth)): (
            "how many bytes does one step of the ring carry?"
        ),
        _first(lambda W: compute <= W * (2 * (W - 1) * alpha + size / bandwidth)): (
            "a rank sends 2(W-1)/W times the size, not the size"
        ),
        1 << (wanted - 1).bit_length(): "any number of ranks, not powers of two only",
    }
    known[wanted + 1] = "one rank fewer wastes half already"
    known[wanted - 1] = (
        "that many ranks still use more than half; does each send 2(W-1)/W times the size, and not twice?"
    )
    if wanted > 8:
        known[2] = "how long does the ring take on two ranks? The bandwidth is in bytes a second"
    known.pop(wanted, None)
    return known.get(came, "write T1 / (W * TW) with TW = compute / W + the ring's time, and try W = 2, 3, 4")


def decide_half_lost(seen: list[list[Any]]) -> str:
    for came, step in zip(seen[0], _STEPS, strict=True):
        compute, size, alpha, bandwidth = step
        what = f"ranks for compute={compute:g}, size={size:g}, alpha={alpha:g}, bandwidth={bandwidth:g}"
        compare(what, came, _half_lost(*step), hint=_half_hint(came, step))
    ranks = sorted(_half_lost(*step) for step in _STEPS)
    return f"half is lost from {ranks[0]} ranks on or from {ranks[-1]:,}, by bytes or by latency."


# 14.3 · hierarchical all-reduce


# the collectives among the methods of a group take what a rank brings first, these, or after the output
_INPUT_FIRST = ("broadcast", "allreduce", "allreduce_coalesced", "reduce")
_PREFIXES = ("all", "broadcast", "gather", "reduce", "scatter")
_COLLECTIVES = tuple(name for name in dir(dist.ProcessGroup) if name.startswith(_PREFIXES))


def _elements(tensors: Any) -> int:
    return tensors.numel() if isinstance(tensors, torch.Tensor) else sum(map(_elements, tensors))


def _collective(name: str, group: Any, *arguments: Any) -> dict[str, Any]:
    """A group's collective: name, the group's ranks, and how many elements this rank brought."""
    brought = _elements(arguments[0 if name in _INPUT_FIRST else 1])
    return {"name": name, "ranks": dist.get_process_group_ranks(group), "elements": brought}


_ELEMENTS = (16, 10, 3)
_LARGE = 3  # this many elements are too large for float32
_LOCAL = {4: 2, 6: 2, 8: 4}  # world size: ranks a node


def _given(rank: int, n: int) -> torch.Tensor:
    """Whole numbers in float64: their sums are exact in any order."""
    low, high = (10**8, 10**9) if n == _LARGE else (1, 1000)
    return torch.randint(low, high, (n,), generator=torch.Generator().manual_seed(100 * n + rank)).double()


def see_hierarchical(hierarchical_all_reduce: Callable[..., Any]) -> list[dict[str, Any]]:
    rank, runs = dist.get_rank(), []
    for n in _ELEMENTS:
        x = _given(rank, n)
        dist.barrier()
        with (
            logged_messages() as messages,
            logged_calls(_COLLECTIVES, _collective) as collectives,
            count_operations() as operations,
        ):
            hierarchical_all_reduce(x, _LOCAL[dist.get_world_size()])
        asked = len(messages) + len(collectives)
        unseen = sum(operations.values()) - asked - operations.get("gloo:barrier", 0)
        runs.append({"x": x, "messages": messages, "collectives": collectives, "unseen": unseen})
    return runs


def _hierarchical_hint(came: Any, rank: int, n: int, world_size: int) -> str:
    local = _LOCAL[world_size]
    node = range(rank // local * local, rank // local * local + local)
    row = range(rank % local, world_size, local)
    total = sum(_given(other, n) for other in range(world_size)).tolist()
    known = {
        "x is as it was: write the sum into x itself": [rank],
        "that is the sum over this rank's node alone: who has the other nodes' parts?": node,
        "that is the sum over the ranks with this place in their nodes: the node itself is missing": row,
    }
    for hint, ranks in known.items():
        if came == sum(_given(other, n) for other in ranks).tolist():
            return hint
    if came == [value / world_size for value in total]:
        return "that is the average: the sum is asked for"
    if isinstance(came, list) and all(abs(c / t - 1) < 1e-6 for c, t in zip(came, total, strict=True)):
        return "that is the sum, but rounded: does a copy have another dtype than x?"
    if isinstance(came, list) and sorted(map(str, came)) == sorted(map(str, total)):
        return "all is there, in another order: which rank of a node holds which chunk?"
    right = [i for i, (c, t) in enumerate(zip(came, total, strict=True)) if c == t]
    if right:
        return f"elements {right} are the sum, the others are not: are all chunks gathered, the last one too?"
    return "follow one chunk: summed inside the node, summed across, then given to the whole node"


def decide_hierarchical(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    local = _LOCAL[world_size]
    nodes = world_size // local
    for i, n in enumerate(_ELEMENTS):
        total = sum(_given(rank, n) for rank in range(world_size))
        for rank, runs in enumerate(seen):
            hint = _hierarchical_hint(runs[i]["x"], rank, n, world_size)
            what = f"x of {n} elements after the call, {nodes} nodes of {local}"
            compare(what, runs[i]["x"], total, rank=rank, hint=hint, tolerance=1e-12)
        for rank, runs in enumerate(seen):
            _check_crossing(runs[i], rank, n, world_size)
    return f"{nodes} nodes of {local}: the sum everywhere, and a rank took 1/{local} of it across."


def _check_crossing(run: dict[str, Any], rank: int, n: int, world_size: int) -> None:
    """Reject where a rank took more than its chunk to other nodes."""
    local = _LOCAL[world_size]
    part = -(-n // local)
    if run["unseen"] > 0:
        hint = "use the functions of torch.distributed, such as all_reduce(x, group=...)"
        reject("the backend ran operations that this check can't attribute to a group", rank=rank, hint=hint)
    if run["messages"]:
        hint = "section 3 has it from messages; here collectives on subgroups do all of it"
        reject("messages were sent or received", expected="collectives alone", rank=rank, hint=hint)
    crossing = [c for c in run["collectives"] if len({r // local for r in c["ranks"]}) > 1]
    for c in crossing:
        if len(c["ranks"]) == world_size and c["elements"] > 0:
            hint = "that group has all ranks of all nodes: across nodes only ranks with the same place meet"
            what = f"{c['name']} over all {world_size} ranks"
            reject(what, expected="subgroups", came=c["ranks"], rank=rank, hint=hint)
    brought = sum(c["elements"] for c in crossing)
    hint = "between nodes a rank brings only the chunk that its node has summed for it, once"
    at_most(f"elements brought to other nodes, of {n}", brought, part, rank=rank, hint=hint)


EXERCISES = {
    "14.1": Exercise(see_exposed, decide_exposed, world_sizes=(1,), timeout=8),
    "14.2": Exercise(
        see_half_lost,
        decide_half_lost,
        world_sizes=(1,),
        timeout=8,
        timeout_hint="does your loop come to an end? With alpha = 0 the bytes alone lower the efficiency",
    ),
    "14.3": Exercise(
        see_hierarchical,
        decide_hierarchical,
        world_sizes=(8, 6),
        timeout=10,
        timeout_hint="every rank calls new_group for all groups, in one order; a collective needs all ranks",
    ),
}
