"""Checks of chapter 06: a sampler without repeats, a stream read once, a sampler that resumes."""

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, get_worker_info

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, reject
from course_utils.measure import count_operations

_SEED = 5
_ALONE = "each rank can compute its share alone, from numbers that all ranks know"
_END = "does every loop come to its end, also where nothing is left to deal? No rank waits for another here"
_OWN_NUMBERS = "draw from a generator of the sampler's own: the model draws from the global one"


def _order(n: int, epoch: int) -> list[int]:
    return torch.randperm(n, generator=torch.Generator().manual_seed(_SEED + epoch)).tolist()


def _drawn(samples: Iterable[Any], n: int) -> list[Any]:
    """All of ``samples``, but at most ``n`` + 1: an iterator that never ends would fill the memory."""
    return list(islice(samples, n + 1))


def _check_end(what: str, drawn: Sequence[Any], n: int, rank: int) -> None:
    if len(drawn) > n:
        hint = "a rank never needs more than all: where does the iterator end?"
        reject(
            f"{what}: drawn by one rank",
            expected=f"at most {n}",
            came=f"{n + 1} and more",
            rank=rank,
            hint=hint,
        )


@contextmanager
def _watched() -> Iterator[dict[str, Any]]:
    """What a sampler must leave alone: the library's sampler, the global generator, the other ranks."""
    seen: dict[str, Any] = {"library": False}
    iterate, before = DistributedSampler.__iter__, torch.get_rng_state()

    def watched(self: DistributedSampler) -> Iterator[int]:
        seen["library"] = True
        return iterate(self)

    DistributedSampler.__iter__ = watched
    try:
        with count_operations() as operations:
            yield seen
    finally:
        DistributedSampler.__iter__ = iterate
    seen |= {"moved": not torch.equal(before, torch.get_rng_state()), "operations": len(operations.sequence)}


def _check_library(seen: Sequence[dict[str, Any]]) -> None:
    for rank, s in enumerate(seen):
        if s["library"]:
            own = "draw the order yourself"
            reject("DistributedSampler does the work here", rank=rank, hint=own)


def _check_left_alone(seen: Sequence[dict[str, Any]]) -> None:
    for rank, s in enumerate(seen):
        if s["moved"]:
            reject("torch's global random numbers have moved on", rank=rank, hint=_OWN_NUMBERS)
        at_most("collectives", s["operations"], 0, rank=rank, hint=_ALONE)


def _check_indices(what: str, lists: Sequence[Any], n: int) -> None:
    for rank, samples in enumerate(lists):
        strange = [s for s in samples if type(s) is not int or not 0 <= s < n]
        if strange:
            wanted = f"integers from 0 to {n - 1}"
            reject(f"{what}: not an index", expected=wanted, came=strange[0], rank=rank)


_ONCE_SIZES = (10, 12, 3)
_ONCE_EPOCHS = (0, 2)


def see_once(once_sampler: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    runs = {}
    with _watched() as seen:
        samplers = {n: once_sampler(n, world_size, rank, seed=_SEED) for n in _ONCE_SIZES}
        for n, sampler in samplers.items():
            run = {"length": len(sampler), "untold": _drawn(sampler, n), "twice": _drawn(sampler, n)}
            for epoch in _ONCE_EPOCHS:
                sampler.set_epoch(epoch)
                run[str(epoch)] = _drawn(sampler, n)
            runs[str(n)] = run
    for n, sampler in samplers.items():  # the loader draws a global number: not to be watched
        batches = _drawn(DataLoader(range(n), batch_size=2, sampler=sampler), n)
        runs[str(n)]["loaded"] = [int(sample) for batch in batches for sample in batch]
    return {"runs": runs, **seen}


def decide_once(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    _check_library(seen)
    for n in _ONCE_SIZES:
        runs = [s["runs"][str(n)] for s in seen]
        _check_once(n, [run["untold"] for run in runs])
        again = "what is used up, or has moved on, when the second pass begins?"
        for rank, run in enumerate(runs):
            compare(f"the second pass, n={n}", run["twice"], run["untold"], rank=rank, hint=again)
        for epoch in _ONCE_EPOCHS:
            right = [_order(n, epoch)[rank::world_size] for rank in range(world_size)]
            hint = "set_epoch changes the order, as DistributedSampler's does, and can go back too"
            came = [run[str(epoch)] for run in runs]
            compare_ranks(f"n={n}, after set_epoch({epoch})", came, right, hint=hint)
        lengths = [len(_order(n, 0)[rank::world_size]) for rank in range(world_size)]
        hint = "the ranks have not all equally many"
        compare_ranks(f"len(), n={n}", [run["length"] for run in runs], lengths, hint=hint)
        loaded = [_order(n, _ONCE_EPOCHS[-1])[rank::world_size] for rank in range(world_size)]
        compare_ranks(f"what a DataLoader gives, n={n}", [run["loaded"] for run in runs], loaded)
    _check_left_alone(seen)
    return "every sample once, in every epoch in another order, and nothing was sent."


def _check_once(n: int, lists: list[list[int]]) -> None:
    world_size = len(lists)
    for rank, samples in enumerate(lists):
        _check_end(f"n={n}", samples, n, rank)
    _check_indices(f"n={n}", lists, n)
    drawn = [sample for samples in lists for sample in samples]
    count = f"samples drawn by {world_size} ranks together, n={n}"
    if len(drawn) > n:
        more = "no padding: what is left over where world_size does not divide n?"
        reject(count, expected=n, came=len(drawn), hint=more)
    if len(drawn) < n:
        reject(count, expected=n, came=len(drawn), hint="nothing is dropped: the tail has an owner too")
    if len(set(drawn)) < n:
        twice = sorted(sample for sample, times in Counter(drawn).items() if times > 1)
        same = "do all ranks deal from one and the same order?"
        reject(f"n={n}: samples drawn more than once", expected="none", came=twice, hint=same)
    hint = "each sample comes once, but not in its place: which order, and which rank for place i?"
    right = [_order(n, 0)[rank::world_size] for rank in range(world_size)]
    compare_ranks(f"n={n}, before any set_epoch", lists, right, hint=hint)


_STREAMS = ((11, 0), (11, 2), (5, 2))  # items, workers of each rank


def see_stream(sharded_items: Callable[..., Any]) -> list[dict[str, Any]]:
    """Every call of read leaves a line in a file, whichever process it comes from."""
    fork = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for n, wanted in _STREAMS:
            num_workers = wanted if fork else 0  # a class of a notebook reaches no spawned worker
            log = os.path.join(folder, f"{n}-{num_workers}")

            def read(i: int, log: str = log) -> str:
                worker = get_worker_info()
                with open(log, "a") as file:
                    file.write(f"{i} {worker.id if worker else -1}\n")
                return f"item {i}"

            dataset = sharded_items(read, n, dist.get_rank(), dist.get_world_size())
            context = fork if num_workers else None
            loader = DataLoader(
                dataset, batch_size=None, num_workers=num_workers, multiprocessing_context=context
            )
            first, lines = _drawn(loader, n * max(num_workers, 1)), _lines(log)
            seen.append(
                {
                    "items": first,
                    "again": _drawn(loader, n * max(num_workers, 1)),
                    "reads": lines,
                    "workers": num_workers,
                }
            )
    return seen


def _lines(path: str) -> list[list[int]]:
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [[int(word) for word in line.split()] for line in file]


def decide_stream(seen: list[list[dict[str, Any]]]) -> str:
    for i, (n, _) in enumerate(_STREAMS):
        _check_stream([s[i] for s in seen], n, seen[0][i]["workers"])
    return "each item was read by one process and no other, and no process had much more to do than another."


def _check_stream(seen: list[dict[str, Any]], n: int, num_workers: int) -> None:
    where = f"{n} items, {len(seen)} ranks, {num_workers or 'no'} workers on each"
    for rank, s in enumerate(seen):
        _check_end(where, s["items"], n * max(num_workers, 1), rank)
        strange = [item for item in s["items"] if item not in {f"item {i}" for i in range(n)}]
        if strange:
            reject(
                f"{where}: something else than an item",
                expected="what read(i) returns, for i below n",
                came=strange[0],
                rank=rank,
            )
    items = [item for s in seen for item in s["items"]]
    if len(items) > len(set(items)):
        reads_all = all(len(s["items"]) == n for s in seen)
        hint = (
            "the workers of one rank have copies of the same dataset: what tells them apart?"
            if num_workers and all(len(s["items"]) == len(set(s["items"])) * num_workers for s in seen)
            else "every pair of rank and worker takes other items: what numbers the pairs?"
            if num_workers
            else "without workers the ranks alone divide the items"
            if reads_all
            else "no item comes twice, not to make the shares equal either"
        )
        reject(f"{where}: items yielded", expected=n, came=len(items), hint=hint)
    missing = sorted(int(item[5:]) for item in {f"item {i}" for i in range(n)} - set(items))
    if missing:
        hint = (
            "who takes the items that are left over when the shares are not equal?"
            if num_workers or len(missing) < len(seen)
            else "without workers the ranks alone divide the items"
        )
        reject(f"{where}: items that nobody yields", expected="none", came=missing, hint=hint)
    reads = Counter((rank, worker) for rank, s in enumerate(seen) for _, worker in s["reads"])
    skip = "skip by index: what is read and thrown away has cost its time"
    at_most(f"calls of read with {where}", sum(reads.values()), n, hint=skip)
    processes = [
        (rank, worker)
        for rank in range(len(seen))
        for worker in (range(num_workers) if num_workers else [-1])
    ]
    loads = [reads[process] for process in processes]
    if sum(loads) < n:
        came = f"{sum(loads)} by the loaders' processes, {sum(reads.values())} in all"
        late = "read where the items are yielded, by the process that yields them"
        reject(f"{where}: calls of read", expected=n, came=came, hint=late)
    if max(loads) - min(loads) > 1:
        rank = processes[loads.index(max(loads))][0]
        sizes = [len(range(part, n, len(loads))) for part in range(len(loads))]
        even = "deal the items out so that no process gets two more than another"
        reject(f"{where}: items read by each process", expected=sizes, came=loads, rank=rank, hint=even)
    for rank, s in enumerate(seen):
        hint = "a dataset is read once an epoch: each __iter__ begins anew"
        compare(f"{where}: the second pass", s["again"], s["items"], rank=rank, hint=hint)


_RESUMES = ((24, 0, 0), (24, 12, 1), (22, 8, 1), (22, 21, 2), (10, 10, 0), (10, 12, 3))  # n, start, epoch


def see_resume(resumable_sampler: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    runs = []
    with _watched() as seen:
        for n, start, epoch in _RESUMES:
            sampler = resumable_sampler(n, world_size, rank, seed=_SEED)
            run = {"untold": _drawn(sampler, n)}
            sampler.set_epoch(epoch, start)
            run |= {"rest": _drawn(sampler, n), "length": len(sampler), "twice": _drawn(sampler, n)}
            sampler.set_epoch(epoch + 1)
            run |= {"next": _drawn(sampler, n), "next length": len(sampler)}
            runs.append(run)
    return {"runs": runs, **seen}


def _padded(order: list[int], world_size: int) -> list[list[int]]:
    size = -(-len(order) // world_size)
    padded = (order * world_size)[: size * world_size]
    return [padded[rank::world_size] for rank in range(world_size)]


def decide_resume(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    _check_library(seen)
    for i, (n, start, epoch) in enumerate(_RESUMES):
        runs = [s["runs"][i] for s in seen]
        whole = "without a start it is DistributedSampler: padded, and dealt in turn"
        for rank, run in enumerate(runs):
            _check_end(f"n={n}, before any set_epoch", run["untold"], n, rank)
        right = _padded(_order(n, 0), world_size)
        compare_ranks(f"n={n}, before any set_epoch", [run["untold"] for run in runs], right, hint=whole)
        what = f"n={n}, after set_epoch({epoch}, {start})"
        _check_rest(what, n, start, _order(n, epoch), [run["rest"] for run in runs])
        rest = _padded(_order(n, epoch)[start:], world_size)
        hint = "the start holds for the whole epoch, also when it is iterated twice"
        compare_ranks(f"{what}, the second pass", [run["twice"] for run in runs], rest, hint=hint)
        hint = "how many samples of the epoch are left for this rank?"
        came = [run["length"] for run in runs]
        compare_ranks(f"len(), {what}", came, [len(samples) for samples in rest], hint=hint)
        after = _padded(_order(n, epoch + 1), world_size)
        hint = "the start belonged to the epoch before; this one begins at 0, in an order of its own"
        came = [run["next"] for run in runs]
        compare_ranks(f"n={n}, after the next set_epoch({epoch + 1})", came, after, hint=hint)
        came = [run["next length"] for run in runs]
        wanted = [len(samples) for samples in after]
        compare_ranks(f"len(), n={n}, after the next set_epoch({epoch + 1})", came, wanted, hint=hint)
    _check_left_alone(seen)
    return "stopped on any number of ranks, resumed on any other, and each sample was seen."


def _check_rest(what: str, n: int, start: int, order: list[int], lists: list[list[int]]) -> None:
    """The rest's samples, first as a set, so that the hint fits; then place by place."""
    for rank, samples in enumerate(lists):
        _check_end(what, samples, n, rank)
    _check_indices(what, lists, n)
    lengths = [len(samples) for samples in lists]
    if len(set(lengths)) > 1:
        hint = "one rank has a batch less than another: what happens in the last step?"
        reject(f"{what}: samples by rank", expected="equally many", came=lengths, hint=hint)
    drawn = [sample for samples in lists for sample in samples]
    done, rest = set(order[:start]), set(order[start:])
    old = sorted(set(drawn) & done)
    if old:
        few = rest <= set(drawn) and len(drawn) - len(rest) < len(lists)
        hint = (
            "the padding, too, comes from the rest"
            if few and rest
            else "which places of the order are behind, over all ranks together?"
        )
        reject(f"{what}: samples that were trained on already", expected="none", came=old, hint=hint)
    missing = sorted(rest - set(drawn))
    if missing:
        hint = "start counts samples of all ranks together, and world_size need not divide it"
        reject(f"{what}: samples that nobody gets", expected="none", came=missing, hint=hint)
    if len(drawn) - len(rest) >= len(lists):
        fewest = -(-len(rest) // len(lists)) * len(lists)
        hint = "as little padding as makes the ranks equal"
        reject(f"{what}: samples drawn", expected=fewest, came=len(drawn), hint=hint)
    hint = "the right samples in another order: the rest of the epoch's order is dealt in turn"
    compare_ranks(what, lists, _padded(order[start:], len(lists)), hint=hint)


EXERCISES = {
    "06.1": Exercise(see_once, decide_once, world_sizes=(4, 3), timeout_hint=_END),
    "06.2": Exercise(see_stream, decide_stream, world_sizes=(2, 3), timeout=30.0, timeout_hint=_END),
    "06.3": Exercise(see_resume, decide_resume, world_sizes=(4, 3), timeout_hint=_END),
}
