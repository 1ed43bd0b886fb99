"""Checks of chapter 02: averages over ranks with unequal shares."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, reject
from course_utils.measure import count_operations

# By world_size: samples of each rank, real tokens of each sequence of each rank, rows of each rank.
_COUNTS = {4: (40, 8, 16, 0), 3: (5, 1, 2)}
_LENGTHS = {2: ((1, 0), (3, 6)), 4: ((6, 2), (1, 5), (0, 0), (3, 4))}
_ROWS = {3: (4, 4, 3), 4: (5, 1, 8, 0)}
_T, _D = 6, 5
_SUMS = "no rank needs what the others have one by one: sums are enough"


def _random(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank + 1), dtype=torch.float64)


def _check_traffic(seen: Sequence[dict[str, Any]], collectives: int, numbers: int, hint: str) -> None:
    for rank, s in enumerate(seen):
        sizes = [size for _, size in s["operations"]]
        at_most("collectives", len(sizes), collectives, rank=rank, hint=hint)
        at_most("bytes given to collectives", sum(sizes), numbers * 8, rank=rank, hint=hint)


def _gradient(rank: int, count: int) -> torch.Tensor:
    return _random(rank, _D) if count else torch.zeros(_D, dtype=torch.float64)


def see_weighted_average(weighted_average: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    count = _COUNTS[world_size][rank]
    gradient = _gradient(rank, count)
    with count_operations() as operations:
        average = weighted_average(gradient, count)
    return {"average": average, "given": gradient, "operations": operations.sequence}


def decide_weighted_average(seen: list[dict[str, Any]]) -> str:
    counts = _COUNTS[len(seen)]
    given = [_gradient(rank, count) for rank, count in enumerate(counts)]
    wanted = sum(n * g for n, g in zip(counts, given, strict=True)) / sum(counts)
    hint = f"the ranks had {', '.join(map(str, counts))} samples: what does one sample weigh in the end?"
    compare("the average", seen[0]["average"], wanted, rank=0, hint=hint)
    others = "rank 0 has the right average: how do the others get it?"
    compare_ranks("the average", [s["average"] for s in seen], [wanted] * len(seen), hint=others)
    for rank, s in enumerate(seen):
        left = "work on a copy: the caller still needs its own gradient"
        compare("gradient after the call", s["given"], given[rank], rank=rank, hint=left)
        for name, size in s["operations"]:
            if "gather" in name and size >= _D * 8:
                came = f"{size} bytes from each rank"
                reject(f"the backend ran {name}", expected="sums only", came=came, rank=rank, hint=_SUMS)
    _check_traffic(seen, collectives=2, numbers=2 * (_D + 1), hint=_SUMS)
    return "every sample weighs the same, whatever rank it is on, even next to a rank without any."


def _tokens(rank: int, world_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor(_LENGTHS[world_size][rank])[:, None]
    mask = (torch.arange(_T) < lengths).double()  # (B, T)
    return _random(rank, len(lengths), _T, _D), mask  # (B, T, D), (B, T)


def _token_losses(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x @ weight - 1) ** 2  # (B, T)


def see_token_loss(token_loss: Callable[..., Any]) -> dict[str, Any]:
    x, mask = _tokens(dist.get_rank(), dist.get_world_size())
    weight = torch.ones(_D, dtype=torch.float64, requires_grad=True)
    losses = _token_losses(x, weight)
    with count_operations() as operations:
        loss = token_loss(losses, mask)
    seen = {"kind": type(loss).__name__, "operations": operations.sequence}
    if isinstance(loss, torch.Tensor):
        if loss.numel() == 1 and loss.requires_grad:
            loss.backward()
        seen |= {"elements": loss.numel(), "gradient": weight.grad}
    return seen


def decide_token_loss(seen: list[dict[str, Any]]) -> str:
    parts = [_tokens(rank, len(seen)) for rank in range(len(seen))]
    for rank, s in enumerate(seen):
        cut = "item(), float(), detach() and torch.no_grad() cut the graph"
        if s["kind"] not in ("Tensor", "Parameter"):
            wanted = "a tensor with one element"
            reject("not a tensor", expected=wanted, came=s["kind"], rank=rank, hint=cut)
        one = "backward() starts from a tensor with one element"
        compare("number of elements of the loss", s["elements"], 1, rank=rank, hint=one)
        if s["gradient"] is None:
            reject("the loss does not lead back to the losses", rank=rank, hint=cut)
        if any(math.isnan(number) for number in s["gradient"]):
            hint = "where a rank has no real token, what is divided by what?"
            reject("the gradient is nan", rank=rank, hint=hint)
    weight = torch.ones(_D, dtype=torch.float64, requires_grad=True)
    count = sum(mask.sum() for _, mask in parts)
    (sum((_token_losses(x, weight) * mask).sum() for x, mask in parts) / count).backward()
    average = torch.tensor([s["gradient"] for s in seen], dtype=torch.float64).mean(0)
    hint = (
        f"{count.item():.0f} real tokens on all ranks together, each with the same weight, and the average "
        "over ranks comes after yours"
    )
    compare("the gradient, averaged over ranks", average.tolist(), weight.grad, hint=hint)
    _check_traffic(seen, collectives=1, numbers=1, hint="one number is enough: the count of real tokens")
    return "each real token weighs the same, and it cost one number on the wire."


def _rows(rank: int, world_size: int) -> torch.Tensor:
    rows = 3 + _random(rank, _ROWS[world_size][rank], 3)
    rows[:, 0] = 2.0  # a constant column: eps keeps it finite
    return rows


def see_sync_batch_norm(sync_batch_norm: Callable[..., Any]) -> dict[str, Any]:
    x = _rows(dist.get_rank(), dist.get_world_size())
    wide = sync_batch_norm(x.clone(), 0.5)
    with count_operations() as operations:
        y = sync_batch_norm(x)
    return {"y": y, "wide": wide, "operations": operations.sequence}


def decide_sync_batch_norm(seen: list[dict[str, Any]]) -> str:
    rows = [_rows(rank, len(seen)) for rank in range(len(seen))]
    x, sizes = torch.cat(rows), [len(part) for part in rows]
    for name, eps, hint in (
        ("y", 1e-5, "mean and variance are sums over all rows, divided by the number of all rows"),
        ("wide", 0.5, "eps is added to the variance, under the root"),
    ):
        wanted = torch.nn.functional.batch_norm(x, None, None, training=True, eps=eps).split(sizes)
        what = f"the normalized rows, eps={eps:g}"
        for rank, s in enumerate(seen):
            if s[name] and any(math.isnan(row[0]) for row in s[name] if isinstance(row, list)):
                constant = "a column of equal values has variance 0: what is eps for?"
                reject(f"{what}: nan", rank=rank, hint=constant)
            near = {"rank": rank, "hint": hint, "tolerance": 1e-3 if name == "y" else 1e-8}
            compare(what, s[name], wanted[rank] if sizes[rank] else [], **near)
    for rank, s in enumerate(seen):
        exact = torch.nn.functional.batch_norm(x, None, None, training=True).split(sizes)[rank]
        hint = "the mean and the variance have to be exact: mind the order of the operations"
        compare("the normalized rows", s["y"], exact if sizes[rank] else [], rank=rank, hint=hint)
    _check_traffic(seen, collectives=2, numbers=2 * x.shape[1] + 2, hint=_SUMS)
    return "two small sums make the local batches one."


EXERCISES = {
    "02.1": Exercise(see_weighted_average, decide_weighted_average, world_sizes=(4, 3), timeout=8.0),
    "02.2": Exercise(see_token_loss, decide_token_loss, world_sizes=(2, 4), timeout=8.0),
    "02.3": Exercise(see_sync_batch_norm, decide_sync_batch_norm, world_sizes=(3, 4), timeout=8.0),
}
