"""Reference solutions of chapter 10."""

import torch
import torch.distributed as dist


def shard_pieces(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    """For each rank its pieces (parameter, start, stop), in the order of the flat vector.

    start and stop count elements within that parameter, stop excluded. Padding is nobody's piece, and
    there are no empty pieces; a rank may have none at all.
    """
    shard = -(-sum(sizes) // world_size)  # rounded up: what is missing at the end is padding
    pieces: list[list[tuple[int, int, int]]] = []
    for rank in range(world_size):
        first, last, owned, begin = rank * shard, (rank + 1) * shard, [], 0
        for parameter, size in enumerate(sizes):
            start, stop = max(first - begin, 0), min(last - begin, size)
            if start < stop:
                owned.append((parameter, start, stop))
            begin += size
        pieces.append(owned)
    return pieces


def clip_sharded(shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float) -> float:
    """Scale all gradients in place so that the whole gradient's norm is at most max_norm; return what it was.

    shards: gradients (n,) of this rank's shards, of any number, maybe none; no two ranks have the same
    elements. replicated: gradients (n,) that are the same on every rank.
    """
    squares = torch.zeros(1, dtype=torch.float64)
    for gradient in shards:
        squares += gradient.square().sum()
    dist.all_reduce(squares)  # a rank without shards brings its zero
    for gradient in replicated:  # after the sum over ranks: everybody has them, they count once
        squares += gradient.square().sum()
    norm = squares.sqrt().item()
    for gradient in [*shards, *replicated]:
        gradient *= min(1.0, max_norm / (norm + 1e-6))
    return norm


def sharded_adam_step(flat: torch.Tensor, gradient: torch.Tensor, state: dict, lr: float = 0.01) -> None:
    """One step on the mean over ranks of gradient; changes flat in place, on all ranks alike.

    flat: (n,). gradient: (n,), of this rank's own batch, to be left as it is. state: empty at the first call.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    padding = flat.new_zeros(-len(flat) % world_size)
    parts = torch.cat([gradient, padding])  # (W * shard,)
    received = torch.empty_like(parts)
    dist.all_to_all_single(received, parts)  # a reduce-scatter: part r goes to rank r, which averages
    average = received.view(world_size, -1).mean(0)  # (shard,)
    if not state:
        state |= {"step": 0, "mean": torch.zeros_like(average), "square": torch.zeros_like(average)}
    state["step"] += 1
    state["mean"].lerp_(average, 1 - 0.9)
    state["square"].lerp_(average.square(), 1 - 0.999)
    mean = state["mean"] / (1 - 0.9 ** state["step"])
    square = state["square"] / (1 - 0.999 ** state["step"])
    whole = torch.cat([flat, padding])
    shard = whole.chunk(world_size)[rank]
    shard -= lr * mean / (square.sqrt() + 1e-8)
    dist.all_gather_single(whole, shard.clone())
    flat.copy_(whole[: len(flat)])


SOLUTIONS = {"10.1": shard_pieces, "10.2": clip_sharded, "10.3": sharded_adam_step}
