"""Wrong solutions of chapter 06: a sampler without padding, a stream over workers, a sampler that resumes."""

from collections.abc import Callable, Iterator
from itertools import cycle, islice

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler, IterableDataset, Sampler, get_worker_info

# 06.1: OnceSampler(n, world_size, rank, seed)


def permutation(n: int, seed: int) -> list[int]:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()


class Once(Sampler[int]):
    """The parts that students get right; each class below replaces one of them by its mistake."""

    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        self.n, self.world_size, self.rank, self.seed, self.epoch = n, world_size, rank, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def order(self) -> list[int]:
        return permutation(self.n, self.seed + self.epoch)

    def share(self) -> list[int]:
        return self.order()[self.rank :: self.world_size]

    def __iter__(self) -> Iterator[int]:
        return iter(self.share())

    def __len__(self) -> int:
        return len(range(self.rank, self.n, self.world_size))


class CallsDistributedSampler(Once):
    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        self.sampler = DistributedSampler(range(n), world_size, rank, seed=seed)

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


class DropsTheTail(Once):
    def share(self) -> list[int]:
        return super().share()[: self.n // self.world_size]

    def __len__(self) -> int:
        return self.n // self.world_size


class GivesTheRemainderToTheLastRank(Once):
    def share(self) -> list[int]:
        size = self.n // self.world_size
        end = self.n if self.rank == self.world_size - 1 else (self.rank + 1) * size
        return self.order()[self.rank * size : end]

    def __len__(self) -> int:
        return len(self.share())


class DoesNotShuffle(Once):
    def order(self) -> list[int]:
        return list(range(self.n))


class ForgotTheEpoch(Once):
    def order(self) -> list[int]:
        return permutation(self.n, self.seed)


class ForgotTheSeed(Once):
    def order(self) -> list[int]:
        return permutation(self.n, self.epoch)


class SeedsByRank(Once):
    def order(self) -> list[int]:
        return permutation(self.n, self.seed + self.epoch + self.rank)


class SeedsTheModelsGenerator(Once):
    def order(self) -> list[int]:
        torch.manual_seed(self.seed + self.epoch)
        return torch.randperm(self.n).tolist()


class DrawsOnInEachPass(Once):
    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        super().__init__(n, world_size, rank, seed)
        self.generator = torch.Generator().manual_seed(seed)

    def set_epoch(self, epoch: int) -> None:
        self.generator.manual_seed(self.seed + epoch)

    def order(self) -> list[int]:
        return torch.randperm(self.n, generator=self.generator).tolist()


class IsEmptyInTheSecondPass(Once):
    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        super().__init__(n, world_size, rank, seed)
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.left = iter(self.share())

    def __iter__(self) -> Iterator[int]:
        return self.left


class RoundsItsLengthUp(Once):
    def __len__(self) -> int:
        return -(-self.n // self.world_size)


class HasTheLengthOfTheDataset(Once):
    def __len__(self) -> int:
        return self.n


class NeedsASampleOnEachRank(Once):
    def share(self) -> list[int]:
        order = self.order()
        return [order[self.rank], *order[self.rank + self.world_size :: self.world_size]]


class SendsTheOrderFromRank0(Once):
    def order(self) -> list[int]:
        order = torch.tensor(super().order())
        dist.broadcast(order, src=0)
        return order.tolist()


# 06.2: ShardedItems(read, n, rank, world_size)


class Items(IterableDataset):
    """The parts that students get right; each class below replaces one of them by its mistake."""

    def __init__(self, read: Callable[[int], object], n: int, rank: int, world_size: int) -> None:
        self.read, self.n, self.rank, self.world_size = read, n, rank, world_size

    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        if worker is None:
            return self.rank, self.world_size
        return self.rank * worker.num_workers + worker.id, self.world_size * worker.num_workers

    def mine(self) -> range:
        part, parts = self.part()
        return range(part, self.n, parts)

    def __iter__(self) -> Iterator[object]:
        for i in self.mine():
            yield self.read(i)


class ForgotTheWorkers(Items):
    def part(self) -> tuple[int, int]:
        return self.rank, self.world_size


class ForgotTheRanks(Items):
    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        return (worker.id, worker.num_workers) if worker else (0, 1)


class FailsWithoutWorkers(Items):
    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        return self.rank * worker.num_workers + worker.id, self.world_size * worker.num_workers


class AssumesTwoWorkers(Items):
    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        return self.rank * 2 + (worker.id if worker else 0), self.world_size * 2


class NumbersTwoProcessesAlike(Items):
    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        if worker is None:
            return self.rank, self.world_size
        return self.rank + worker.id, self.world_size * worker.num_workers


class MultipliesRankByWorldSize(Items):
    def part(self) -> tuple[int, int]:
        worker = get_worker_info()
        if worker is None:
            return self.rank, self.world_size
        return self.rank * self.world_size + worker.id, self.world_size * worker.num_workers


class AsksForTheWorkerTooEarly(Items):
    def __init__(self, read: Callable[[int], object], n: int, rank: int, world_size: int) -> None:
        super().__init__(read, n, rank, world_size)
        self.place = super().part()  # in the rank's own process, where there is no worker

    def part(self) -> tuple[int, int]:
        return self.place


class ReadsWhatItDoesNotYield(Items):
    def __iter__(self) -> Iterator[object]:
        part, parts = self.part()
        for i in range(self.n):
            item = self.read(i)
            if i % parts == part:
                yield item


class ReadsAllBeforeItDeals(Items):
    def __init__(self, read: Callable[[int], object], n: int, rank: int, world_size: int) -> None:
        super().__init__(read, n, rank, world_size)
        self.items = [read(i) for i in range(n)]

    def __iter__(self) -> Iterator[object]:
        for i in self.mine():
            yield self.items[i]


class YieldsTheNumbers(Items):
    def __iter__(self) -> Iterator[object]:
        yield from self.mine()


class DropsTheRemainder(Items):
    def mine(self) -> range:
        part, parts = self.part()
        size = self.n // parts
        return range(part * size, (part + 1) * size)


class GivesTheRemainderToTheLast(Items):
    def mine(self) -> range:
        part, parts = self.part()
        size = self.n // parts
        return range(part * size, self.n if part == parts - 1 else (part + 1) * size)


class LeavesTheLastOneShort(Items):
    def mine(self) -> range:
        part, parts = self.part()
        size = -(-self.n // parts)
        return range(min(part * size, self.n), min((part + 1) * size, self.n))


class PadsTheStream(Items):
    def __iter__(self) -> Iterator[object]:
        part, parts = self.part()
        for i in range(part, -(-self.n // parts) * parts, parts):
            yield self.read(i % self.n)


# 06.3: ResumableSampler(n, world_size, rank, seed)


class Resumes(Sampler[int]):
    """The parts that students get right; each class below replaces one of them by its mistake."""

    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        self.n, self.world_size, self.rank, self.seed, self.epoch, self.start = (
            n,
            world_size,
            rank,
            seed,
            0,
            0,
        )

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        self.epoch, self.start = epoch, start

    def order(self) -> list[int]:
        return permutation(self.n, self.seed + self.epoch)

    def rest(self) -> list[int]:
        return self.order()[self.start :]

    def padded(self) -> list[int]:
        rest = self.rest()
        size = -(-len(rest) // self.world_size)
        return (rest * self.world_size)[: size * self.world_size]

    def share(self) -> list[int]:
        return self.padded()[self.rank :: self.world_size]

    def __iter__(self) -> Iterator[int]:
        return iter(self.share())

    def __len__(self) -> int:
        return len(self.share())


class WrapsDistributedSampler(DistributedSampler):
    def __init__(self, n: int, world_size: int, rank: int, seed: int = 0) -> None:
        super().__init__(range(n), world_size, rank, seed=seed)
        self.done = 0

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        super().set_epoch(epoch)
        self.done = start // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        return islice(super().__iter__(), self.done, None)

    def __len__(self) -> int:
        return max(self.num_samples - self.done, 0)


class IgnoresTheStart(Resumes):
    def rest(self) -> list[int]:
        return self.order()


class SkipsTheStartOnEachRank(Resumes):
    def share(self) -> list[int]:
        order = self.order()
        size = -(-self.n // self.world_size)
        return (order * self.world_size)[: size * self.world_size][self.rank :: self.world_size][self.start :]


class PadsWithTheFrontOfTheEpoch(Resumes):
    def padded(self) -> list[int]:
        rest = self.rest()
        return rest + (self.order() * self.world_size)[: -len(rest) % self.world_size]


class PadsWithTheLastSample(Resumes):
    def padded(self) -> list[int]:
        rest = self.rest()
        return rest + rest[-1:] * (-len(rest) % self.world_size)


class PadsOnlyOnce(Resumes):
    def padded(self) -> list[int]:
        rest = self.rest()
        return rest + rest[: -len(rest) % self.world_size]


class ForgotToPad(Resumes):
    def padded(self) -> list[int]:
        return self.rest()


class DropsTheTailOfTheRest(Resumes):
    def padded(self) -> list[int]:
        rest = self.rest()
        return rest[: len(rest) // self.world_size * self.world_size]


class ShufflesTheRestAnew(Resumes):
    def rest(self) -> list[int]:
        rest = self.order()[self.start :]
        return [rest[i] for i in permutation(len(rest), self.seed + self.epoch)]


class BeginsAgainWhenNothingIsLeft(Resumes):
    def rest(self) -> list[int]:
        left = max(self.n - self.start, 0)
        return self.order()[-left:]  # [-0:] is everything


class CountsRoundTheEnd(Resumes):
    def rest(self) -> list[int]:
        return self.order()[self.start % self.n :]


class KeepsTheStartInTheNextEpoch(Resumes):
    def set_epoch(self, epoch: int, start: int = 0) -> None:
        self.epoch, self.start = epoch, start or self.start


class ForgetsTheStartAfterOnePass(Resumes):
    def __iter__(self) -> Iterator[int]:
        share, self.start = self.share(), 0
        return iter(share)


class HasTheLengthOfAWholeEpoch(Resumes):
    def __len__(self) -> int:
        return -(-self.n // self.world_size)


class NeverEndsWithoutARest(Resumes):
    def padded(self) -> list[int]:
        rest = self.rest()
        padded = list(rest)
        while len(padded) % self.world_size or not padded:
            padded += rest[:1]
        return padded


class GoesRoundForEver(Resumes):
    def __iter__(self) -> Iterator[int]:
        return islice(cycle(self.rest()), self.rank, None, self.world_size)


class SeedsTheModelsGeneratorToResume(Resumes):
    def order(self) -> list[int]:
        torch.manual_seed(self.seed + self.epoch)
        return torch.randperm(self.n).tolist()


class ShufflesByWorldSize(Resumes):
    def order(self) -> list[int]:
        return permutation(self.n, self.seed + self.epoch + self.world_size)


MUTANTS = {
    "06.1": [
        CallsDistributedSampler,
        DropsTheTail,
        GivesTheRemainderToTheLastRank,
        DoesNotShuffle,
        ForgotTheEpoch,
        ForgotTheSeed,
        SeedsByRank,
        SeedsTheModelsGenerator,
        DrawsOnInEachPass,
        IsEmptyInTheSecondPass,
        RoundsItsLengthUp,
        HasTheLengthOfTheDataset,
        NeedsASampleOnEachRank,
        SendsTheOrderFromRank0,
    ],
    "06.2": [
        ForgotTheWorkers,
        ForgotTheRanks,
        FailsWithoutWorkers,
        AssumesTwoWorkers,
        NumbersTwoProcessesAlike,
        MultipliesRankByWorldSize,
        AsksForTheWorkerTooEarly,
        ReadsWhatItDoesNotYield,
        ReadsAllBeforeItDeals,
        YieldsTheNumbers,
        DropsTheRemainder,
        GivesTheRemainderToTheLast,
        LeavesTheLastOneShort,
        PadsTheStream,
    ],
    "06.3": [
        WrapsDistributedSampler,
        IgnoresTheStart,
        SkipsTheStartOnEachRank,
        PadsWithTheFrontOfTheEpoch,
        PadsWithTheLastSample,
        PadsOnlyOnce,
        ForgotToPad,
        DropsTheTailOfTheRest,
        ShufflesTheRestAnew,
        BeginsAgainWhenNothingIsLeft,
        CountsRoundTheEnd,
        KeepsTheStartInTheNextEpoch,
        ForgetsTheStartAfterOnePass,
        HasTheLengthOfAWholeEpoch,
        NeverEndsWithoutARest,
        GoesRoundForEver,
        SeedsTheModelsGeneratorToResume,
        ShufflesByWorldSize,
    ],
}
FITS = {
    "CallsDistributedSampler": "draw the order yourself",
    "DropsTheTail": "nothing is dropped",
    "GivesTheRemainderToTheLastRank": "which rank for place i",
    "DoesNotShuffle": "which order",
    "ForgotTheEpoch": "set_epoch changes the order",
    "ForgotTheSeed": "which order",
    "SeedsByRank": "one and the same order",
    "SeedsTheModelsGenerator": "the model draws from the global one",
    "DrawsOnInEachPass": "has moved on, when the second pass begins",
    "IsEmptyInTheSecondPass": "used up",
    "RoundsItsLengthUp": "not all equally many",
    "HasTheLengthOfTheDataset": "not all equally many",
    "NeedsASampleOnEachRank": "rank 3 failed first: IndexError",
    "SendsTheOrderFromRank0": "each rank can compute its share alone",
    "ForgotTheWorkers": "copies of the same dataset",
    "ForgotTheRanks": "the ranks alone divide the items",
    "FailsWithoutWorkers": "'NoneType' object has no attribute 'num_workers'",
    "AssumesTwoWorkers": "without workers the ranks alone",
    "NumbersTwoProcessesAlike": "what numbers the pairs",
    "MultipliesRankByWorldSize": "what numbers the pairs",
    "AsksForTheWorkerTooEarly": "copies of the same dataset",
    "ReadsWhatItDoesNotYield": "skip by index",
    "ReadsAllBeforeItDeals": "too many calls of read",
    "YieldsTheNumbers": "what read\\(i\\) returns",
    "DropsTheRemainder": "items that are left over",
    "GivesTheRemainderToTheLast": "no process gets two more",
    "LeavesTheLastOneShort": "no process gets two more",
    "PadsTheStream": "no item comes twice",
    "WrapsDistributedSampler": "draw the order yourself",
    "IgnoresTheStart": "trained on already(.|\\n)*which places of the order are behind",
    "SkipsTheStartOnEachRank": "start counts samples of all ranks together",
    "PadsWithTheFrontOfTheEpoch": "the padding, too, comes from the rest",
    "PadsWithTheLastSample": "DistributedSampler: padded",
    "PadsOnlyOnce": "equally many",
    "ForgotToPad": "DistributedSampler: padded",
    "DropsTheTailOfTheRest": "DistributedSampler: padded",
    "ShufflesTheRestAnew": "dealt in turn",
    "BeginsAgainWhenNothingIsLeft": "trained on already(.|\\n)*which places of the order are behind",
    "CountsRoundTheEnd": "trained on already(.|\\n)*which places of the order are behind",
    "KeepsTheStartInTheNextEpoch": "the start belonged to the epoch before",
    "ForgetsTheStartAfterOnePass": "the second pass(.|\\n)*the start holds for the whole epoch",
    "HasTheLengthOfAWholeEpoch": "how many samples of the epoch are left",
    "NeverEndsWithoutARest": "does every loop come to its end",
    "GoesRoundForEver": "where does the iterator end",
    "SeedsTheModelsGeneratorToResume": "the model draws from the global one",
    "ShufflesByWorldSize": "before any set_epoch",
}
