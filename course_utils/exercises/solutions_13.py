"""Solutions of chapter 13: the two halves of a ring, and halving and doubling."""

import torch
import torch.distributed as dist


def exchange(out: torch.Tensor, dst: int, into: torch.Tensor, src: int) -> None:
    sending = dist.isend(out, dst)
    dist.irecv(into, src).wait()
    sending.wait()


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(world_size)
    for step in range(world_size - 1):
        out, into = chunks[(rank - 1 - step) % world_size], chunks[(rank - 2 - step) % world_size]
        received = torch.empty_like(into)
        exchange(out, (rank + 1) % world_size, received, (rank - 1) % world_size)
        into += received
    return chunks[rank]


def all_gather(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    whole = chunk.new_empty(sum(sizes))
    chunks = whole.split(sizes)
    chunks[rank].copy_(chunk)
    for step in range(world_size - 1):
        out, into = chunks[(rank - step) % world_size], chunks[(rank - 1 - step) % world_size]
        exchange(out, (rank + 1) % world_size, into, (rank - 1) % world_size)
    return whole


def halving_doubling(x: torch.Tensor) -> None:
    rank, distance, mine = dist.get_rank(), dist.get_world_size() // 2, x
    swapped = []  # partner, the part that I kept, the part that I gave away
    while distance:
        partner, halves = rank ^ distance, mine.chunk(2)
        kept, given = halves if rank < partner else halves[::-1]
        received = torch.empty_like(kept)
        exchange(given, partner, received, partner)
        kept += received
        swapped.append((partner, kept, given))
        mine, distance = kept, distance // 2
    for partner, kept, given in reversed(swapped):
        exchange(kept, partner, given, partner)  # it has completed what I gave it


SOLUTIONS = {"13.1": reduce_scatter, "13.2": all_gather, "13.3": halving_doubling}
