"""Reference solution of chapter 00."""

import torch
import torch.distributed as dist


def largest(mine: torch.Tensor) -> torch.Tensor:
    """The largest of all ranks' numbers, on every rank.

    mine: (1,), this rank's number, which stays as it is. Returns (1,).
    """
    result = mine.clone()  # all_reduce works in place
    dist.all_reduce(result, op=dist.ReduceOp.MAX)
    return result


SOLUTIONS = {"00.1": largest}
