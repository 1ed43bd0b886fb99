"""Reference solutions of chapter 06."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, Sampler, get_worker_info


def epoch_order(n: int, seed: int) -> list[int]:
    """The permutation of range(n) that DistributedSampler draws for seed + epoch."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()


class OnceSampler(Sampler[int]):
    """Place i of the epoch's order goes to rank i % world_size."""

    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        self.n, self.world_size, self.rank, self.seed = n, world_size, rank, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(epoch_order(self.n, self.seed + self.epoch)[self.rank :: self.world_size])

    def __len__(self) -> int:
        """The number of samples of this rank."""
        return len(range(self.rank, self.n, self.world_size))


class ShardedItems(IterableDataset[Any]):
    """Yields read(i) for i in 0 ... n - 1, each once over all ranks and their loader workers."""

    def __init__(self, read: Callable[[int], Any], n: int, rank: int, world_size: int) -> None:
        self.read, self.n, self.rank, self.world_size = read, n, rank, world_size

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()  # None without workers
        n_workers, worker_id = (worker.num_workers, worker.id) if worker else (1, 0)
        part = self.rank * n_workers + worker_id
        yield from map(self.read, range(part, self.n, self.world_size * n_workers))


class ResumableSampler(Sampler[int]):
    """Like DistributedSampler, but an epoch can begin in its middle."""

    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        self.n, self.world_size, self.rank, self.seed = n, world_size, rank, seed
        self.epoch = self.start = 0

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Begin at place start of the order: so many samples all ranks together have trained on."""
        self.epoch, self.start = epoch, start

    def __iter__(self) -> Iterator[int]:
        rest = epoch_order(self.n, self.seed + self.epoch)[self.start :]
        padded = (rest * self.world_size)[: len(self) * self.world_size]
        return iter(padded[self.rank :: self.world_size])

    def __len__(self) -> int:
        """The number of samples of this rank that are left in this epoch."""
        return -(-max(0, self.n - self.start) // self.world_size)  # rounded up


SOLUTIONS = {"06.1": OnceSampler, "06.2": ShardedItems, "06.3": ResumableSampler}
