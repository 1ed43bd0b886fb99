"""Checks of chapter 02: averages over ranks with unequal shares."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, forbid, reject
from course_utils.measure import count_operations

_COUNTS = {4: (40, 8, 16, 0), 3: (5, 1, 2)}  # by world_size
_LENGTHS = {4: ((6, 2), (1, 5), (0, 0), (3, 4)), 2: ((1, 0), (3, 6))}  # real tokens of each sequence
_ROWS = {4: (5, 1, 8, 2), 3: (4, 4, 3)}
_T, _D = 6, 5


def _random(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank + 1), dtype=torch.float64)


def _check_traffic(seen: Sequence[dict[str, Any]], collectives: int, numbers: int) -> None:
    for rank, s in enumerate(seen):
        forbid(s["operations"], "all_gather", "allgather", "gather", "all_to_all", rank=rank)
        sent = "the sums are all that the others need"
        at_most("collectives", sum(s["operations"].values()), collectives, rank=rank, hint=sent)
        at_most("bytes given to collectives", sum(s["bytes"].values()), numbers * 8, rank=rank, hint=sent)


def _gradient(rank: int, count: int) -> torch.Tensor:
    return _random(rank, _D) if count else torch.zeros(_D, dtype=torch.float64)


def see_weighted_average(weighted_average: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    count = _COUNTS[world_size][rank]
    gradient = _gradient(rank, count)
    with count_operations() as operations:
        average = weighted_average(gradient, count)
    return {"average": average, "given": gradient, "operations": operations, "bytes": operations.bytes}


def decide_weighted_average(seen: list[dict[str, Any]]) -> str:
    counts = _COUNTS[len(seen)]
    given = [_gradient(rank, count) for rank, count in enumerate(counts)]
    wanted = sum(n * g for n, g in zip(counts, given, strict=True)) / sum(counts)
    hint = f"the ranks had {', '.join(map(str, counts))} samples: what does one sample weigh in the end?"
    compare_ranks("the average", [s["average"] for s in seen], [wanted] * len(seen), hint=hint)
    for rank, s in enumerate(seen):
        left = "work on a copy: the caller still needs its own gradient"
        compare("gradient after the call", s["given"], given[rank], rank=rank, hint=left)
    _check_traffic(seen, collectives=2, numbers=2 * (_D + 1))
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
    elements = loss.numel() if isinstance(loss, torch.Tensor) else None
    if elements == 1 and loss.requires_grad:
        loss.backward()
    gradient = torch.zeros(_D, dtype=torch.float64) if weight.grad is None else weight.grad
    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
    seen = {"gradient": gradient, "attached": weight.grad is not None, "elements": elements}
    return {**seen, "operations": operations, "bytes": operations.bytes}


def decide_token_loss(seen: list[dict[str, Any]]) -> str:
    for rank, s in enumerate(seen):
        one = "backward() starts from a tensor with one element"
        compare("number of elements of the loss", s["elements"], 1, rank=rank, hint=one)
        if not s["attached"]:
            reject(
                "the loss does not lead back to the losses",
                expected="a gradient from loss.backward()",
                came="none",
                rank=rank,
                hint="item(), detach() and torch.no_grad() cut the graph",
            )
    weight = torch.ones(_D, dtype=torch.float64, requires_grad=True)
    parts = [_tokens(rank, len(seen)) for rank in range(len(seen))]
    count = sum(mask.sum() for _, mask in parts)
    (sum((_token_losses(x, weight) * mask).sum() for x, mask in parts) / count).backward()
    hint = (
        f"{count.item():.0f} real tokens on all ranks together, and the average over ranks comes after yours"
    )
    gradients = [s["gradient"] for s in seen]
    compare_ranks("the averaged gradient", gradients, [weight.grad] * len(seen), hint=hint)
    _check_traffic(seen, collectives=1, numbers=1)
    return "each real token weighs the same, and it cost one number on the wire."


def _rows(rank: int, world_size: int) -> torch.Tensor:
    rows = 3 + _random(rank, _ROWS[world_size][rank], _D)
    rows[:, 0] = 2.0  # a constant column: eps keeps it finite
    return rows


def see_sync_batch_norm(sync_batch_norm: Callable[..., Any]) -> dict[str, Any]:
    x = _rows(dist.get_rank(), dist.get_world_size())
    with count_operations() as operations:
        y = sync_batch_norm(x)
    return {"y": y, "wide": sync_batch_norm(x, 0.5), "operations": operations, "bytes": operations.bytes}


def decide_sync_batch_norm(seen: list[dict[str, Any]]) -> str:
    rows = [_rows(rank, len(seen)) for rank in range(len(seen))]
    sizes = [len(part) for part in rows]
    x = torch.cat(rows)
    for name, eps in (("y", 1e-5), ("wide", 0.5)):
        wanted = torch.nn.functional.batch_norm(x, None, None, training=True, eps=eps).split(sizes)
        what = "the normalized rows" if name == "y" else "the normalized rows with eps=0.5"
        hint = "mean and variance are sums over all rows, divided by the number of all rows"
        compare_ranks(what, [s[name] for s in seen], wanted, hint=hint, tolerance=1e-8)
    _check_traffic(seen, collectives=2, numbers=2 * _D + 2)
    return "two small sums make the local batches one."


EXERCISES = {
    "02.1": Exercise(see_weighted_average, decide_weighted_average, world_sizes=(4, 3)),
    "02.2": Exercise(see_token_loss, decide_token_loss, world_sizes=(4, 2)),
    "02.3": Exercise(see_sync_batch_norm, decide_sync_batch_norm, world_sizes=(4, 3)),
}
