"""Reference solutions of the miniature chapter."""

import torch
import torch.distributed as dist

WORDS_A_PARAMETER = 3
UNUSED = "no solution needs this"


def _divide(total: torch.Tensor) -> torch.Tensor:
    return total / dist.get_world_size()  # the same on every rank


def unused() -> str:
    return UNUSED


@torch.no_grad()
def mean_over_ranks(mine: torch.Tensor) -> torch.Tensor:
    """The mean of every rank's tensor."""
    total = mine.clone()
    dist.all_reduce(total)
    return _divide(total)


def adam_bytes() -> int:
    """Bytes of 1,000 parameters with Adam's states, in float32."""
    return 1000 * 4 * WORDS_A_PARAMETER


def broadcast(tensor: torch.Tensor) -> None:
    """Rank 0's tensor on all ranks, in place."""
    if dist.get_rank() == 0:
        for rank in range(1, dist.get_world_size()):
            dist.send(tensor, rank)
    else:
        dist.recv(tensor, 0)


def owner(index: int, world_size: int) -> int:
    """The rank that gets sample ``index``."""
    return index % world_size


SOLUTIONS = {"99.1": mean_over_ranks, "99.2": adam_bytes, "99.3": broadcast, "99.4": owner}
