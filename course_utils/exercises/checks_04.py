"""Checks of chapter 04: collectives built from others and from messages."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, forbid, reject
from course_utils.exercises.messages import Message, logged_messages
from course_utils.measure import count_operations

_SHAPE = (3, 2)
_N = 5
_COLLECTIVES = ("broadcast", "scatter", "gather", "reduce", "all_reduce", "all_gather", "all_to_all")
_ITEM = 8  # bytes of a float64


def _random(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank + 1), dtype=torch.float64)


def _same_type(came: str, rank: int) -> None:
    """Reject where the result of a float64 x is of another type."""
    kept = "torch.empty and torch.zeros make float32 unless they are told x's type: see empty_like, new_empty"
    compare("the type of the result", came, "torch.float64", rank=rank, hint=kept)


def see_sum_everywhere(sum_everywhere: Callable[..., Any]) -> dict[str, Any]:
    x = _random(dist.get_rank(), *_SHAPE)
    with count_operations() as operations:
        total = sum_everywhere(x)
    return {"total": total, "type": str(getattr(total, "dtype", None)), "x": x, "operations": operations}


def decide_sum_everywhere(seen: list[dict[str, Any]]) -> str:
    given = [_random(rank, *_SHAPE) for rank in range(len(seen))]
    for rank, s in enumerate(seen):
        forbid(s["operations"], "all_reduce", rank=rank)
    totals = [s["total"] for s in seen]
    if totals == [x.tolist() for x in given]:
        hint = "every rank came back with its own x: was there a reduce, and had it ended?"
    elif all(total == totals[0] for total in totals):
        hint = "all ranks have the same, but is it what reduce left on its dst, from there, and as it was?"
    else:
        hint = "reduce leaves the sum on one rank only: which rank must then broadcast, and which tensor?"
    compare_ranks("the sum", totals, [sum(given)] * len(seen), hint=hint)
    for rank, s in enumerate(seen):
        own = "reduce and broadcast write into the tensor they get: give them a copy"
        compare("x after the call", s["x"], given[rank], rank=rank, hint=own)
        _same_type(s["type"], rank)
        ran = {name.split(":")[-1]: count for name, count in s["operations"].items()}
        if ran != {"reduce": 1, "broadcast": 1}:
            wanted = "reduce × 1, broadcast × 1"
            came = ", ".join(f"{name} × {count}" for name, count in ran.items()) or "nothing"
            whole = "each once, for the whole tensor, and nothing else"
            reject("other calls than asked for", expected=wanted, came=came, rank=rank, hint=whole)
    return "reduce and broadcast make an all-reduce, though one rank carries the traffic of all."


def _only_messages(operations: dict[str, int], itself: str, rank: int) -> None:
    """Reject where the backend ran a collective: the one that the exercise asks to write, or any other."""
    forbid(operations, itself, rank=rank)
    for operation, count in operations.items():
        if count and (name := operation.split(":")[-1]) in _COLLECTIVES:
            came, hint = (
                f"{name} {count} times",
                "this one is to be written with send, recv and their relatives",
            )
            reject("a collective was called", expected="messages alone", came=came, rank=rank, hint=hint)


def _rounds(logs: Sequence[Sequence[Message]]) -> int:
    """Rounds until the last message has arrived, where a rank sends one message a round and passes on what it
    got in the round after; 0 if the logs can't be put in an order."""
    clock, arrivals, left = [0] * len(logs), [[] for _ in logs], [list(log) for log in logs]
    moved = True
    while moved:
        moved = False
        for rank, events in enumerate(left):
            while events and (events[0].kind == "send" or arrivals[rank]):
                message = events.pop(0)
                moved = True
                if message.kind == "recv":
                    clock[rank] = max(clock[rank], arrivals[rank].pop(0))
                else:
                    clock[rank] += 1
                    arrivals[message.peer].append(clock[rank])
    return 0 if any(left) else max(clock)


def see_tree_broadcast(tree_broadcast: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    runs = {}
    for src in (0, world_size - 3):
        x = _random(rank, *_SHAPE)
        dist.barrier()
        with logged_messages() as log, count_operations() as operations:
            tree_broadcast(x, src)
        runs[src] = {"x": x, "log": log, "operations": operations}
    return runs


def _tree_hint(rank: int, src: int, world_size: int, run: dict[str, Any]) -> str:
    """What a rank's x and its messages tell about the mistake."""
    unchanged = run["x"] == _random(rank, *_SHAPE).tolist()
    if unchanged and any(kind == "recv" for kind, *_ in run["log"]):
        return "a message came, and x is as it was: receive into x itself"
    if unchanged and src == 0:
        return f"no message came to this rank: how many rounds do {world_size} ranks need?"
    return f"{world_size} ranks, root {src}: count places from the root, (rank - src) % world_size"


def decide_tree_broadcast(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    for src in seen[0]:
        runs = [s[src] for s in seen]
        for rank, run in enumerate(runs):
            _only_messages(run["operations"], "broadcast", rank)
        for rank, run in enumerate(runs):
            hint = _tree_hint(rank, int(src), world_size, run)
            what = f"x with {world_size} ranks and src={src}"
            compare(what, run["x"], _random(int(src), *_SHAPE), rank=rank, hint=hint)
        logs = [[Message(*message) for message in run["log"]] for run in runs]
        once = "a rank that has the tensor needs it no second time"
        messages = sum(message.kind == "send" for log in logs for message in log)
        at_most(f"messages with src={src}", messages, world_size - 1, hint=once)
        rounds = _rounds(logs)
        at_most(
            f"rounds with {world_size} ranks and src={src}",
            rounds,
            (world_size - 1).bit_length(),
            hint="in every round all ranks that have the tensor send it, and first to one that helps longest",
        )
    rounds, messages = (world_size - 1).bit_length(), world_size - 1
    return f"{world_size} ranks had it after {rounds} rounds and {messages} messages, from any root."


def see_gather_everywhere(gather_everywhere: Callable[..., Any]) -> dict[str, Any]:
    x = _random(dist.get_rank(), _N)
    with count_operations() as operations:
        everything = gather_everywhere(x)
    sent = {"count": operations.get("gloo:send", 0), "bytes": operations.bytes.get("gloo:send", 0)}
    kind = str(getattr(everything, "dtype", None))
    return {"everything": everything, "type": kind, "x": x, "operations": operations, "sent": sent}


def _gather_hint(everything: Any, given: list[list[float]], rank: int) -> str:
    """What the parts that stand in a rank's result tell about the mistake."""
    if not isinstance(everything, list) or len(everything) != len(given) * _N:
        return "one tensor with one dimension: the parts one after the other"
    parts = [everything[at : at + _N] for at in range(0, len(everything), _N)]
    if given[rank] not in parts:
        return "nobody sends a rank its own part: it has to put it in its place itself"
    if any(part not in given for part in parts):
        return "there are parts that came from no rank: did a message come for each, and was it waited for?"
    if any(parts.count(part) > 1 for part in parts):
        return "a part stands there twice: is a buffer used twice, or a rank's own part passed on again?"
    return "the part of rank r stands at place r, on all ranks"


def decide_gather_everywhere(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    given = [_random(rank, _N) for rank in range(world_size)]
    for rank, s in enumerate(seen):
        _only_messages(s["operations"], "all_gather", rank)
    for rank, s in enumerate(seen):
        hint = _gather_hint(s["everything"], [part.tolist() for part in given], rank)
        compare("the gathered tensor", s["everything"], torch.cat(given), rank=rank, hint=hint)
    alike = len({s["sent"]["bytes"] for s in seen}) == 1
    fair = (
        "all ranks send the same, but more than they need: a message is one rank's part, sent once"
        if alike
        else "no rank is special: one that collects and deals out sends most of the bytes"
    )
    for rank, s in enumerate(seen):
        own = "the caller still needs its own tensor"
        compare("x after the call", s["x"], given[rank], rank=rank, hint=own)
        _same_type(s["type"], rank)
        at_most("messages sent", s["sent"]["count"], world_size - 1, rank=rank, hint=fair)
        at_most("bytes sent", s["sent"]["bytes"], (world_size - 1) * _N * _ITEM, rank=rank, hint=fair)
    return "every rank sent (W-1)/W of the result, as the library's all_gather does."


EXERCISES = {
    "04.1": Exercise(
        see_sum_everywhere,
        decide_sum_everywhere,
        world_sizes=(4, 3),
        timeout=5,
        timeout_hint="all ranks call reduce, all ranks call broadcast, and all name the same root",
    ),
    "04.2": Exercise(
        see_tree_broadcast,
        decide_tree_broadcast,
        world_sizes=(4, 8, 5),
        timeout=5,
        timeout_hint="write down who sends to whom in each round, for 4, 8 and 5 ranks, root not 0: "
        "every send needs its recv, and both places must exist",
    ),
    "04.3": Exercise(
        see_gather_everywhere,
        decide_gather_everywhere,
        world_sizes=(4, 3),
        timeout=5,
        timeout_hint="where everybody waits in send, or everybody in recv, who is to do the other first? "
        "A started message needs its request kept until it was waited for",
    ),
}
