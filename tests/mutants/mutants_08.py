"""Wrong solutions of chapter 08: an exact accuracy, and a checkpoint that a resume can trust."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# 08.1: exact_accuracy(correct, n)


def counts_the_padding(correct: torch.Tensor, n: int) -> float:
    right_and_all = torch.tensor([correct.sum().item(), len(correct)])
    dist.all_reduce(right_and_all)
    return (right_and_all[0] / right_and_all[1]).item()


def divides_by_n_and_counts_the_padding(correct: torch.Tensor, n: int) -> float:
    right = correct.sum()
    dist.all_reduce(right)
    return right.item() / n


def looks_at_its_own_share(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    real = torch.arange(len(correct)) * world + rank < n
    return correct[real].double().mean().item()


def averages_the_ranks(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    real = torch.arange(len(correct)) * world + rank < n
    mean = correct[real].double().mean()
    dist.all_reduce(mean)
    return mean.item() / world


def drops_the_last_of_every_rank(correct: torch.Tensor, n: int) -> float:
    right = correct[:-1].sum()
    dist.all_reduce(right)
    return right.item() / n


def drops_too_little(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    right = correct[torch.arange(len(correct)) * world + rank <= n].sum()
    dist.all_reduce(right)
    return right.item() / n


def assumes_one_block_a_rank(correct: torch.Tensor, n: int) -> float:
    right = correct[dist.get_rank() * len(correct) + torch.arange(len(correct)) < n].sum()
    dist.all_reduce(right)
    return right.item() / n


def cuts_on_the_last_rank_alone(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    too_many = world * len(correct) - n
    right = (correct[: len(correct) - too_many] if rank == world - 1 else correct).sum()
    dist.all_reduce(right)
    return right.item() / n


def gathers_all_answers(correct: torch.Tensor, n: int) -> float:
    everybody = [torch.empty_like(correct) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, correct)
    return torch.stack(everybody, dim=1).flatten()[:n].double().mean().item()


def tells_rank_0_alone(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    right = correct[torch.arange(len(correct)) * world + rank < n].sum()
    dist.reduce(right, dst=0)
    return right.item() / n


def calls_two_collectives(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    real = torch.arange(len(correct)) * world + rank < n
    right, count = correct[real].sum(), real.sum()
    dist.all_reduce(right)
    dist.all_reduce(count)
    return right.item() / count.item()


def returns_the_number_of_right_answers(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    right = correct[torch.arange(len(correct)) * world + rank < n].sum()
    dist.all_reduce(right)
    return float(right)


def cuts_on_the_first_ranks(correct: torch.Tensor, n: int) -> float:
    too_many = -n % dist.get_world_size()
    right = (correct[:-1] if dist.get_rank() < too_many else correct).sum()
    dist.all_reduce(right)
    return right.item() / n


def cuts_where_nothing_was_padded(correct: torch.Tensor, n: int) -> float:
    right = (correct[:-1] if dist.get_rank() >= n % dist.get_world_size() else correct).sum()
    dist.all_reduce(right)
    return right.item() / n


def takes_the_padding_for_right(correct: torch.Tensor, n: int) -> float:
    right = correct.sum()
    dist.all_reduce(right)
    return (right.item() - (len(correct) * dist.get_world_size() - n)) / n


def leaves_when_it_has_no_sample(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    real = correct[torch.arange(len(correct)) * world + rank < n]
    if len(real) == 0:
        return 0.0
    right = real.sum()
    dist.all_reduce(right)
    return right.item() / n


def counts_in_bytes(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    right = correct[torch.arange(len(correct)) * world + rank < n].sum(dtype=torch.uint8)
    dist.all_reduce(right)
    return right.item() / n


def adds_in_half_precision(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    real = correct[torch.arange(len(correct)) * world + rank < n]
    right_and_all = torch.tensor([real.sum(), len(real)], dtype=torch.float16)
    dist.all_reduce(right_and_all)
    return (right_and_all[0] / right_and_all[1]).item()


def gathers_objects(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    rights: list[Any] = [None] * world
    real = torch.arange(len(correct)) * world + rank < n
    dist.all_gather_object(rights, int(correct[real].sum()))
    return sum(rights) / n


def sends_a_number_a_sample(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    places = torch.arange(len(correct)) * world + rank
    everybody = torch.zeros(n)
    everybody[places[places < n]] = correct[places < n].float()
    dist.all_reduce(everybody)
    return everybody.double().mean().item()


def overwrites_its_answers(correct: torch.Tensor, n: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    correct[torch.arange(len(correct)) * world + rank >= n] = False
    right = correct.sum()
    dist.all_reduce(right)
    return right.item() / n


# 08.2: Resumable


class _Complete:
    """A right answer, of which each wrong one changes a part."""

    parts = ("model", "optimizer", "scheduler")

    def __init__(self, run: Any, path: Path) -> None:
        self.run, self.path = run, path

    def content(self) -> dict[str, Any]:
        mine = {"global": torch.get_rng_state(), "own": self.run.generator.get_state()}
        rng: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(rng, mine)
        state = {name: getattr(self.run, name).state_dict() for name in self.parts}
        return {**state, "seen": self.run.seen, "rng": rng}

    def save(self) -> None:
        state = self.content()
        if dist.get_rank() == 0:
            self.write(state)
        dist.barrier()

    def write(self, state: dict[str, Any]) -> None:
        aside = self.path.with_name(f"{self.path.name}.tmp")
        torch.save(state, aside)
        os.replace(aside, self.path)

    def restore(self) -> None:
        state = torch.load(self.path)
        for name in self.parts:
            getattr(self.run, name).load_state_dict(state[name])
        self.run.seen = state["seen"]
        self.restore_rng(state["rng"])

    def restore_rng(self, rng: list[Any]) -> None:
        torch.set_rng_state(rng[dist.get_rank()]["global"])
        self.run.generator.set_state(rng[dist.get_rank()]["own"])


class ForgotTheOptimizer(_Complete):
    parts = ("model", "scheduler")


class ForgotTheScheduler(_Complete):
    parts = ("model", "optimizer")


class ForgotTheModel(_Complete):
    parts = ("optimizer", "scheduler")


class ForgotThePlaceInTheData(_Complete):
    def restore(self) -> None:
        super().restore()
        self.run.seen = 0


class ForgotTheGlobalGenerator(_Complete):
    def restore_rng(self, rng: list[Any]) -> None:
        self.run.generator.set_state(rng[dist.get_rank()]["own"])


class ForgotTheRunsGenerator(_Complete):
    def restore_rng(self, rng: list[Any]) -> None:
        torch.set_rng_state(rng[dist.get_rank()]["global"])


class RestoresRank0sNumbersEverywhere(_Complete):
    def restore_rng(self, rng: list[Any]) -> None:
        torch.set_rng_state(rng[0]["global"])
        self.run.generator.set_state(rng[0]["own"])


class SeedsAnewInBoth(_Complete):
    """Saves no state of the generators: seeds them when it saves, and when it restores."""

    def content(self) -> dict[str, Any]:
        state = super().content() | {"rng": []}
        self.restore_rng([])
        return state

    def restore_rng(self, rng: list[Any]) -> None:
        torch.manual_seed(self.run.seen + dist.get_rank())
        self.run.generator.manual_seed(self.run.seen + dist.get_rank())


class DrawsANumberWhileSaving(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        aside = self.path.with_name(f"{torch.randint(10**6, ()).item()}.tmp")
        torch.save(state, aside)
        os.replace(aside, self.path)


class WritesOverTheLastGoodOne(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        torch.save(state, self.path)


class RemovesTheLastGoodOneFirst(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        self.path.unlink(missing_ok=True)
        super().write(state)


class WritesOnAllRanks(_Complete):
    def save(self) -> None:
        self.write(self.content())
        dist.barrier()


class OneFileARank(_Complete):
    def __init__(self, run: Any, path: Path) -> None:
        super().__init__(run, path.with_suffix(f".{dist.get_rank()}"))

    def save(self) -> None:
        self.write(self.content())
        dist.barrier()


class DoesNotWaitForTheFile(_Complete):
    def save(self) -> None:
        state = self.content()
        if dist.get_rank() == 0:
            self.write(state)


class BarrierOnRank0Alone(_Complete):
    def save(self) -> None:
        state = self.content()
        if dist.get_rank() == 0:
            self.write(state)
            dist.barrier()


class RestoresOnRank0Alone(_Complete):
    def restore(self) -> None:
        if dist.get_rank() == 0:
            super().restore()


class SavesObjectsInsteadOfTheirStates(_Complete):
    def content(self) -> dict[str, Any]:
        return super().content() | {"optimizer": self.run.optimizer, "scheduler": self.run.scheduler}

    def restore(self) -> None:
        state = torch.load(self.path, weights_only=False)
        self.run.model.load_state_dict(state["model"])
        for name in ("optimizer", "scheduler"):
            getattr(self.run, name).load_state_dict(state[name].state_dict())
        self.run.seen = state["seen"]
        self.restore_rng(state["rng"])


class KeepsItInMemory(_Complete):
    kept: dict[str, Any] = {}  # noqa: RUF012  # the mistake: a new job has it no more

    def write(self, state: dict[str, Any]) -> None:
        self.kept.update(state)

    def restore(self) -> None:
        self.run.seen = self.kept.get("seen", 0)


class BarrierBeforeTheWrite(_Complete):
    def save(self) -> None:
        state = self.content()
        dist.barrier()
        if dist.get_rank() == 0:
            self.write(state)


class MovesTheLastGoodOneAway(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        if self.path.exists():
            os.replace(self.path, self.path.with_suffix(".bak"))
        torch.save(state, self.path)


class CopiesInsteadOfRenaming(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        aside = self.path.with_suffix(".tmp")
        torch.save(state, aside)
        shutil.copy(aside, self.path)
        aside.unlink()


class WritesToTheSystemsTemporaryFolder(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            torch.save(state, file)
        shutil.move(file.name, self.path)


class NeverReplacesAFile(_Complete):
    def write(self, state: dict[str, Any]) -> None:
        if not self.path.exists():
            super().write(state)


class TakesTheGeneratorsStatesAtTheStart(_Complete):
    def __init__(self, run: Any, path: Path) -> None:
        super().__init__(run, path)
        self.at_the_start = super().content()["rng"]

    def content(self) -> dict[str, Any]:
        return super().content() | {"rng": self.at_the_start}


class BuildsAnOptimizerThatTheSchedulerDoesNotStep(_Complete):
    def restore(self) -> None:
        self.run.optimizer = torch.optim.AdamW(self.run.model.parameters())
        super().restore()


class HalvesTheWeights(_Complete):
    """In float32 the file is smaller."""

    def content(self) -> dict[str, Any]:
        weights = {name: w.float() for name, w in self.run.model.state_dict().items()}
        return super().content() | {"model": weights}


class SavesArrays(_Complete):
    def content(self) -> dict[str, Any]:
        state = super().content()
        return state | {"rng": [{name: s.numpy() for name, s in both.items()} for both in state["rng"]]}

    def restore(self) -> None:
        state = torch.load(self.path, weights_only=False)
        for name in self.parts:
            getattr(self.run, name).load_state_dict(state[name])
        self.run.seen = state["seen"]
        self.restore_rng([{name: torch.from_numpy(s) for name, s in b.items()} for b in state["rng"]])


MUTANTS = {
    "08.1": [
        counts_the_padding,
        divides_by_n_and_counts_the_padding,
        looks_at_its_own_share,
        averages_the_ranks,
        drops_the_last_of_every_rank,
        drops_too_little,
        assumes_one_block_a_rank,
        cuts_on_the_last_rank_alone,
        gathers_all_answers,
        tells_rank_0_alone,
        calls_two_collectives,
        returns_the_number_of_right_answers,
        cuts_on_the_first_ranks,
        cuts_where_nothing_was_padded,
        takes_the_padding_for_right,
        leaves_when_it_has_no_sample,
        counts_in_bytes,
        adds_in_half_precision,
        gathers_objects,
        sends_a_number_a_sample,
        overwrites_its_answers,
    ],
    "08.2": [
        ForgotTheOptimizer,
        ForgotTheScheduler,
        ForgotTheModel,
        ForgotThePlaceInTheData,
        ForgotTheGlobalGenerator,
        ForgotTheRunsGenerator,
        RestoresRank0sNumbersEverywhere,
        SeedsAnewInBoth,
        DrawsANumberWhileSaving,
        WritesOverTheLastGoodOne,
        RemovesTheLastGoodOneFirst,
        WritesOnAllRanks,
        OneFileARank,
        DoesNotWaitForTheFile,
        BarrierOnRank0Alone,
        RestoresOnRank0Alone,
        SavesObjectsInsteadOfTheirStates,
        KeepsItInMemory,
        BarrierBeforeTheWrite,
        MovesTheLastGoodOneAway,
        CopiesInsteadOfRenaming,
        WritesToTheSystemsTemporaryFolder,
        NeverReplacesAFile,
        TakesTheGeneratorsStatesAtTheStart,
        BuildsAnOptimizerThatTheSchedulerDoesNotStep,
        HalvesTheWeights,
        SavesArrays,
    ],
}

FITS = {
    "counts_the_padding": "604 answers",
    "takes_the_padding_for_right": "padding was taken for right",
    "divides_by_n_and_counts_the_padding": "padding",
    "looks_at_its_own_share": "own share",
    "averages_the_ranks": "mean of means",
    "gathers_all_answers": "too many bytes",
    "tells_rank_0_alone": "how do the others",
    "calls_two_collectives": "too many collectives",
    "drops_the_last_of_every_rank": "which place of the padded list",
    "drops_too_little": "which place of the padded list",
    "assumes_one_block_a_rank": "which place of the padded list",
    "cuts_on_the_last_rank_alone": "which place of the padded list",
    "cuts_on_the_first_ranks": "which place of the padded list",
    "returns_the_number_of_right_answers": "between 0 and 1",
    "cuts_where_nothing_was_padded": "n=12",
    "leaves_when_it_has_no_sample": "rank 3",
    "counts_in_bytes": "multiple of 256",
    "adds_in_half_precision": "type too short",
    "gathers_objects": "sends the lengths first",
    "sends_a_number_a_sample": "too many bytes",
    "overwrites_its_answers": "were changed",
    "ForgotTheOptimizer": "optimizer's state",
    "ForgotTheScheduler": "scheduler",
    "ForgotTheModel": "weights",
    "ForgotThePlaceInTheData": "samples seen",
    "ForgotTheGlobalGenerator": "global generator",
    "ForgotTheRunsGenerator": r"run\.generator",
    "RestoresRank0sNumbersEverywhere": "rank 0 has its own back",
    "SeedsAnewInBoth": "must not draw random numbers, nor set a seed",
    "DrawsANumberWhileSaving": "must not draw random numbers",
    "WritesOverTheLastGoodOne": "path itself was written",
    "RemovesTheLastGoodOneFirst": "the last good one was gone",
    "DoesNotWaitForTheFile": "before the new file was there",
    "BarrierOnRank0Alone": "which calls what the others",
    "RestoresOnRank0Alone": "rank 0 has its own back",
    "SavesObjectsInsteadOfTheirStates": "UnpicklingError",
    "KeepsItInMemory": "no file at path",
    "WritesOnAllRanks": "who has to write them|FileNotFoundError",
    "OneFileARank": "no file at path",
    "BarrierBeforeTheWrite": "before the new file was there",
    "MovesTheLastGoodOneAway": "path itself was written",
    "CopiesInsteadOfRenaming": "path itself was written",
    "WritesToTheSystemsTemporaryFolder": "in another folder",
    "NeverReplacesAFile": "still holds the save before",
    "TakesTheGeneratorsStatesAtTheStart": "the global generator's state",
    "BuildsAnOptimizerThatTheSchedulerDoesNotStep": "what changes in the first step",
    "HalvesTheWeights": "fewer digits",
    "SavesArrays": "UnpicklingError",
}
