"""Checks of chapter 13: the halves of a ring, and halving and doubling, by result and by messages."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, forbid, reject
from course_utils.exercises.messages import Message, logged_messages
from course_utils.measure import count_operations

_COLLECTIVES = ("reduce_scatter", "all_gather", "all_reduce", "reduce", "gather", "scatter", "broadcast")
_SIZES = (10, 2)  # neither divides by three or four; two elements leave ranks without a chunk
_HANG = "in each step every rank sends and receives at once: isend, then recv, then wait for the isend"


def _given(rank: int, n: int) -> torch.Tensor:
    """Whole numbers in float64: their sums are exact in any order."""
    return torch.randint(1, 1000, (n,), generator=torch.Generator().manual_seed(100 * n + rank)).double()


def _watch(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    dist.barrier()
    with logged_messages() as log, count_operations() as operations:
        result = function(*arguments)
    return {"result": result, "log": log, "operations": operations}


def _only_messages(seen: Sequence[dict[str, Any]]) -> None:
    for rank, s in enumerate(seen):
        forbid(s["operations"], *_COLLECTIVES, "alltoall", "all_to_all", rank=rank)


def _sends(s: dict[str, Any]) -> list[Message]:
    return [message for message in (Message(*m) for m in s["log"]) if message.kind == "send"]


def _in_a_ring(s: dict[str, Any], rank: int, world_size: int) -> list[Message]:
    """This rank's messages; rejects one to another rank than the next, and more than W - 1 of them."""
    sends, right = _sends(s), (rank + 1) % world_size
    if others := [message.peer for message in sends if message.peer != right]:
        hint = "in a ring each rank sends to the next one only, and the last to rank 0"
        reject("a message went elsewhere", expected=f"rank {right}", came=others[0], rank=rank, hint=hint)
    hint = "after W - 1 steps each chunk has been everywhere"
    at_most("messages to the next rank", len(sends), world_size - 1, rank=rank, hint=hint)
    return sends


def see_reduce_scatter(reduce_scatter: Callable[..., Any]) -> list[dict[str, Any]]:
    runs = []
    for n in _SIZES:
        x = _given(dist.get_rank(), n)
        runs.append(_watch(reduce_scatter, x) | {"x": x})
    return runs


def _reduce_scatter_hint(result: Any, rank: int, n: int, world_size: int) -> str:
    """What came instead of the sum of this rank's chunk."""
    total = sum(_given(other, n) for other in range(world_size))
    if result == total.tolist():
        return "that is the whole sum; each rank is to return its own chunk of it"
    if isinstance(result, list) and len(result) == n:
        return "that has the length of x; each rank is to return its own chunk alone"
    for other in range(world_size):
        if result == _given(other, n).tensor_split(world_size)[rank].tolist():
            whose = "this rank's own" if other == rank else f"rank {other}'s"
            return f"that is {whose} part alone: in each step add what came to your own, and send the sum on"
    if result == (total / world_size).tensor_split(world_size)[rank].tolist():
        return "that is the average: the sum is asked for"
    for other, chunk in enumerate(total.tensor_split(world_size)):
        if result == chunk.tolist() and other != rank:
            return f"that is the sum of chunk {other}: which one must a rank send first, to end with its own?"
    if isinstance(result, list) and len(result) == len(total.tensor_split(world_size)[rank]):
        return "some ranks' parts are missing or were added twice: follow one chunk around the ring"
    return "the chunks are those of x.tensor_split(world_size): the first ones have one element more"


def decide_reduce_scatter(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for i, n in enumerate(_SIZES):
        runs = [runs[i] for runs in seen]
        _only_messages(runs)
        total = sum(_given(rank, n) for rank in range(world_size))
        for rank, s in enumerate(runs):
            hint = _reduce_scatter_hint(s["result"], rank, n, world_size)
            wanted = total.tensor_split(world_size)[rank]
            what = f"the chunk of x of {n} elements, {world_size} ranks"
            compare(what, s["result"], wanted, rank=rank, hint=hint)
            own = "work on a copy: a chunk of x is a view, and adding to it changes x"
            compare("x after the call", s["x"], _given(rank, n), rank=rank, hint=own)
            sends = _in_a_ring(s, rank, world_size)
            hint = "send one chunk a step; what you don't send on need not travel"
            elements = sum(message.elements for message in sends)
            limit = n - len(total.tensor_split(world_size)[rank])
            at_most("elements sent", elements, limit, rank=rank, hint=hint)
    return f"{world_size} ranks hold a chunk of the sum each, and sent every other chunk once."


def _chunk(rank: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return _given(rank, 10)[: sizes[rank]].to(dtype)


def _all_gather_cases(world_size: int) -> list[tuple[list[int], torch.dtype]]:
    uneven = [3, 0, 2, 5][:world_size]
    return [([2] * world_size, torch.float64), (uneven, torch.int64)]


def see_all_gather(all_gather: Callable[..., Any]) -> list[dict[str, Any]]:
    runs = []
    for sizes, dtype in _all_gather_cases(dist.get_world_size()):
        chunk = _chunk(dist.get_rank(), sizes, dtype)
        run = _watch(all_gather, chunk, list(sizes))
        runs.append(run | {"chunk": chunk, "dtype": str(getattr(run["result"], "dtype", None))})
    return runs


def _all_gather_hint(result: Any, rank: int, chunks: list[torch.Tensor]) -> str:
    everything = torch.cat(chunks).tolist()
    if isinstance(result, list) and len(result) == len(everything):
        if sorted(map(str, result)) == sorted(map(str, everything)):
            return "all is there, in another order than rank 0's chunk, rank 1's, and so on"
        parts = torch.tensor(result).split([len(chunk) for chunk in chunks])
        wrong = [other for other, part in enumerate(parts) if part.tolist() != chunks[other].tolist()]
        if wrong == [rank]:
            return "this rank's own chunk belongs into the whole too"
        return f"the chunks of ranks {wrong} did not arrive: in each step send on what came last"
    if result == chunks[rank].tolist():
        return "that is this rank's own chunk alone"
    return "the chunks of all ranks, one after the other, in one tensor"


def decide_all_gather(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for i, (sizes, dtype) in enumerate(_all_gather_cases(world_size)):
        runs = [runs[i] for runs in seen]
        _only_messages(runs)
        chunks = [_chunk(rank, sizes, dtype) for rank in range(world_size)]
        for rank, s in enumerate(runs):
            hint = _all_gather_hint(s["result"], rank, chunks)
            compare(f"the whole of sizes {sizes}", s["result"], torch.cat(chunks), rank=rank, hint=hint)
            compare(
                "the dtype", s["dtype"], str(dtype), rank=rank, hint="chunk.new_empty(n) has chunk's dtype"
            )
            compare(
                "chunk after the call", s["chunk"], chunks[rank], rank=rank, hint="work on a copy of chunk"
            )
            elements = sum(message.elements for message in _in_a_ring(s, rank, world_size))
            hint = "send one chunk a step, with exactly its elements, and no rank its own chunk back"
            limit = sum(sizes) - sizes[(rank + 1) % world_size]
            at_most("elements sent", elements, limit, rank=rank, hint=hint)
    return f"{world_size} ranks hold all chunks, and each chunk went once over each link but one."


def see_halving_doubling(halving_doubling: Callable[..., Any]) -> dict[str, Any]:
    x = _given(dist.get_rank(), 16)
    return _watch(halving_doubling, x) | {"x": x}


def _halving_hint(came: list[float], rank: int, world_size: int) -> str:
    total = sum(_given(other, 16) for other in range(world_size)).tolist()
    right = sum(c == t for c, t in zip(came, total, strict=True))
    if came == _given(rank, 16).tolist():
        return "x is as it was: sum in place"
    if right == 16 // world_size:
        return (
            "one part is complete, as after the first half: go back and take the partner's complete part over"
        )
    if right:
        return "some parts are complete and some are not: which part does the partner hold in each step back?"
    return "no element is complete: in each step keep one half, give the other, and add what the partner gave"


def decide_halving_doubling(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    _only_messages(seen)
    total = sum(_given(rank, 16) for rank in range(world_size))
    steps = world_size.bit_length() - 1
    for rank, s in enumerate(seen):
        hint = _halving_hint(s["x"], rank, world_size)
        compare(f"x after the call, {world_size} ranks", s["x"], total, rank=rank, hint=hint)
    for rank, s in enumerate(seen):
        sends = _sends(s)
        hint = "partners half as far in each step, and the same ones back: 2 * log2(world_size) messages"
        at_most("messages", len(sends), 2 * steps, rank=rank, hint=hint)
        hint = "a half first, then a quarter, and so on: never all of x"
        elements = sum(message.elements for message in sends)
        at_most("elements sent", elements, 2 * (world_size - 1) * 16 // world_size, rank=rank, hint=hint)
    return f"{world_size} ranks have the sum after {2 * steps} messages each, with the ring's bytes."


_TWO = "both partners send and receive in each step: isend, then recv, then wait for the isend"

EXERCISES = {
    "13.1": Exercise(
        see_reduce_scatter, decide_reduce_scatter, world_sizes=(4, 3), timeout=8, timeout_hint=_HANG
    ),
    "13.2": Exercise(
        see_all_gather,
        decide_all_gather,
        world_sizes=(4, 3),
        timeout=8,
        timeout_hint=f"{_HANG}; a rank without elements passes on the others' chunks too",
    ),
    "13.3": Exercise(
        see_halving_doubling, decide_halving_doubling, world_sizes=(4, 8), timeout=8, timeout_hint=_TWO
    ),
}
