"""Wrong solutions of chapter 00, each named after its mistake."""

import torch
import torch.distributed as dist


def adds_instead(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    dist.all_reduce(result)
    return result


def keeps_its_own(mine: torch.Tensor) -> torch.Tensor:
    return mine.clone()


def takes_the_smallest(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    dist.all_reduce(result, op=dist.ReduceOp.MIN)
    return result


def tells_rank_0_only(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    dist.reduce(result, dst=0, op=dist.ReduceOp.MAX)
    return result


def believes_the_last_rank(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    dist.broadcast(result, src=dist.get_world_size() - 1)
    return result


def starts_from_zero(mine: torch.Tensor) -> torch.Tensor:
    result = torch.zeros_like(mine)
    parts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    for part in parts:
        result = torch.maximum(result, part)
    return result


def knows_the_world_size(mine: torch.Tensor) -> torch.Tensor:
    parts = [torch.zeros_like(mine) for _ in range(4)]
    dist.all_gather(parts, mine)
    return torch.stack(parts).amax(dim=0)


def changes_its_argument(mine: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    return mine


def returns_a_float(mine: torch.Tensor) -> float:
    result = mine.clone()
    dist.all_reduce(result, op=dist.ReduceOp.MAX)
    return result.item()


def one_broadcast_a_rank(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    for rank in range(dist.get_world_size()):
        other = mine.clone()
        dist.broadcast(other, src=rank)
        result = torch.maximum(result, other)
    return result


def calls_it_on_rank_0_only(mine: torch.Tensor) -> torch.Tensor:
    result = mine.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(result, op=dist.ReduceOp.MAX)
    return result


MUTANTS = {
    "00.1": [
        adds_instead,
        keeps_its_own,
        takes_the_smallest,
        tells_rank_0_only,
        believes_the_last_rank,
        starts_from_zero,
        knows_the_world_size,
        changes_its_argument,
        returns_a_float,
        one_broadcast_a_rank,
        calls_it_on_rank_0_only,
    ]
}
FITS = {
    "adds_instead": r"-20\b[\s\S]*the ranks had",
    "keeps_its_own": r"rank\s+0\s+expected\s+\[-0\.5\]\s+came\s+\[-3\.5\]",
    "takes_the_smallest": r"came\s+\[-9\]",
    "tells_rank_0_only": r"rank\s+3\b",
    "believes_the_last_rank": r"came\s+\[-9\]",
    "starts_from_zero": r"came\s+\[0\]",
    "knows_the_world_size": r"allgather[\s\S]*expected length 3, got 4",
    "changes_its_argument": r"mine after the call[\s\S]*copy",
    "returns_a_float": r"shape \[\], not \[1\]",
    "one_broadcast_a_rank": r"too many collectives",
    "calls_it_on_rank_0_only": r"waits in all_reduce",
}
