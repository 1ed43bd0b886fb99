"""Checks of chapter 08: an exact accuracy from two numbers, and a resume that is bit-exact."""

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DistributedSampler

from course_utils import rank as rank_process
from course_utils.exercises.judging import Exercise, at_most, compare, reject
from course_utils.measure import count_operations

_SIZES = (601, 10, 12, 3, 1)  # padded for 3 and 4 ranks, for both, never; fewer samples than ranks; one


def _answers(n: int) -> Tensor:
    answers = torch.rand(n, generator=torch.Generator().manual_seed(n)) < 0.6
    answers[:3] = torch.tensor([True, True, False])[:n]  # the samples that are repeated
    return answers


def _share(n: int, rank: int, world_size: int) -> Tensor:
    sampler = DistributedSampler(range(n), world_size, rank, shuffle=False)
    return _answers(n)[list(sampler)]


def see_accuracy(exact_accuracy: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for n in _SIZES:
        correct = _share(n, dist.get_rank(), dist.get_world_size())
        with count_operations() as operations:
            accuracy = exact_accuracy(correct, n)
        same = torch.equal(correct, _share(n, dist.get_rank(), dist.get_world_size()))
        seen.append({"accuracy": accuracy, "operations": operations.sequence, "same": same})
    return seen


def decide_accuracy(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case, n in enumerate(_SIZES):
        shares = [_share(n, rank, world_size).double() for rank in range(world_size)]
        wanted = _answers(n).double().mean().item()
        for rank, results in enumerate(seen):
            came = results[case]["accuracy"]
            hint = "rank 0 has the right accuracy: how do the others get it?"
            if rank == 0:  # the others are looked at only when rank 0 is right
                hint = _accuracy_hint(came, n, shares, rank)
            compare(f"the accuracy over n={n} samples", came, wanted, rank=rank, hint=hint)
    for rank, results in enumerate(seen):
        for n, result in zip(_SIZES, results, strict=True):
            sizes = [size for _, size in result["operations"]]
            hint = f"n={n}: a rank knows by itself how many of its samples count, and which of them are right"
            at_most("bytes given to collectives", sum(sizes), 16, rank=rank, hint=hint)
            if [name for name, _ in result["operations"]] == ["gloo:all_gather"] * 2:
                hint = "all_gather_object runs two, since it sends the lengths first: send numbers"
            at_most("collectives", len(sizes), 1, rank=rank, hint=hint)
            if not result["same"]:
                reject("the answers in correct were changed", rank=rank, hint="work on a copy, or on a part")
    return "padded or not, fewer samples than ranks: each sample counted once, in one small collective."


def _accuracy_hint(came: Any, n: int, shares: Sequence[Tensor], rank: int) -> str:
    """What the mistake was, where the number that came gives it away."""
    world_size, padded = len(shares), torch.cat(list(shares))
    kept = [share[torch.arange(len(share)) * world_size + r < n] for r, share in enumerate(shares)]
    means = torch.stack([k.mean() for k in kept if len(k)])
    causes = [
        (padded.mean(), f"{len(padded)} answers were counted, and there are {n} samples"),
        (padded.sum() / n, "the padding's right answers are still among those added up"),
        (torch.cat(kept).sum() / len(padded), "the padding is still in the number you divide by"),
        (
            (padded.sum() - len(padded) + n) / n,
            "the padding was taken for right: it repeats the first samples, and not all of them are",
        ),
        (means.mean(), "a mean of means: what does a sample weigh?"),
        (shares[rank].mean(), "that is this rank's own share, padding included"),
        (kept[rank].sum() / n, "these are this rank's right answers alone"),
    ]
    if not isinstance(came, float | int):
        return "one number, the same on every rank"
    if came > 1:
        return "an accuracy lies between 0 and 1"
    for value, cause in causes:
        if abs(came - value.item()) < 1e-6:
            return cause
    off = came * n - torch.cat(kept).sum().item()  # in samples
    if abs(off) < 0.5:
        return "less than one sample off: was the result rounded, or do the sums travel in a type too short?"
    if abs(off % 256) < 1e-3 or abs(off % 256 - 256) < 1e-3:
        return "a multiple of 256 samples off: how far does the type count in which the sums travel?"
    return "which place of the padded list has this rank's k-th answer, and which places are padding?"


_D, _BATCH = 6, 8
_SAVES, _END = (2, 5), 9  # steps after which it is saved, and the last one


class _Run:
    """Dropout from the global generator, noise from its own, data by the number of samples seen."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Dropout(0.3), nn.Linear(_D, 1)).double()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=12)
        self.seen = 0
        torch.manual_seed(seed + 100 + dist.get_rank())
        self.generator = torch.Generator().manual_seed(seed + 200 + dist.get_rank())

    def train(self, n_steps: int) -> list[float]:
        losses = []
        for _ in range(n_steps):
            data = torch.Generator().manual_seed(1000 + self.seen + dist.get_rank())
            x = torch.randn(_BATCH, _D, dtype=torch.float64, generator=data)
            noisy = x + 0.1 * torch.randn(x.shape, dtype=x.dtype, generator=self.generator)
            self.optimizer.zero_grad()
            loss = (self.model(noisy).squeeze(1) - x.sum(1)).square().mean()
            loss.backward()
            for p in self.model.parameters():
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
            self.optimizer.step()
            self.scheduler.step()
            self.seen += _BATCH * dist.get_world_size()
            losses.append(loss.item())
        return losses

    def parts(self) -> dict[str, Any]:
        """All that a resume needs, by the name that a message gives it."""
        adam = [value for state in self.optimizer.state.values() for value in state.values()]
        return {
            "the samples seen": self.seen,
            "the weights": torch.cat([p.detach().flatten() for p in self.model.parameters()]),
            "the optimizer's state": torch.cat(
                [value.flatten().double() for value in adam] or [torch.zeros(0)]
            ),
            "the learning rate": self.optimizer.param_groups[0]["lr"],
            "the scheduler's step": self.scheduler.last_epoch,
            "the global generator's state": _digest(torch.get_rng_state().numpy().tobytes()),
            "the state of run.generator": _digest(self.generator.get_state().numpy().tobytes()),
        }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _file(path: Path) -> str:
    return _digest(path.read_bytes()) if path.exists() else "no file"


class _Renames:
    """What is renamed to `path` in this process, seen by an audit hook, which a slow disk holds up."""

    def __init__(self, path: Path) -> None:
        self.path, self.found = path, []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "os.rename" or Path(os.fsdecode(arguments[1])).name != self.path.name:
            return
        source = Path(os.fsdecode(arguments[0]))
        beside = source.parent.resolve() == self.path.parent.resolve()
        self.found.append({"before": _file(self.path), "source": _file(source), "beside": beside})
        time.sleep(0.3)


def _loads(path: Path) -> str:
    """Empty, or why `torch.load` does not take the file."""
    try:
        torch.load(path)
    except Exception as error:
        return type(error).__name__
    return ""


def see_resumable(resumable: Callable[..., Any]) -> dict[str, Any]:
    folder = Path(rank_process.current.folder) / "exercise"  # removed with the launch, whatever happens
    if dist.get_rank() == 0:
        folder.mkdir()
    path = folder / "run.pt"
    straight = _Run(0)
    whole = straight.train(_END)
    run, renames = _Run(0), _Renames(path)
    saver, done, losses, saves = resumable(run, path), 0, [], []
    for step in _SAVES:
        losses += run.train(step - done)
        done = step
        before = run.parts()
        dist.barrier()
        saver.save()
        there = _file(path)  # at once: the others may still be writing
        dist.barrier()
        saves.append(
            {"there": there, "renames": renames.found[:], "left": _file(path), "loads": _loads(path)}
        )
        renames.found.clear()
    if saves[-1]["left"] == "no file" or saves[-1]["loads"]:
        return {"saves": saves}  # nothing to resume from, and decide says why
    files = sorted(p.name for p in folder.iterdir())
    losses += run.train(_END - done)
    again = _Run(7)
    restorer = resumable(again, path)
    restorer.restore()
    restored = again.parts()
    resumed = again.train(_END - done)
    return {
        "saves": saves,
        "files": files,
        "whole": whole,
        "losses": losses,
        "before": before,
        "restored": restored,
        "resumed": resumed,
        "same": torch.equal(again.parts()["the weights"], straight.parts()["the weights"]),
    }


def decide_resumable(seen: list[dict[str, Any]]) -> str:
    last_good = "no file"
    for which, step in enumerate(_SAVES):
        saves = [s["saves"][which] for s in seen]
        _decide_save(f"the save after step {step}", saves, last_good)
        last_good = saves[0]["left"]
    left = "a temporary file is renamed, not copied; one file holds the state of all ranks"
    if seen[0]["files"] != ["run.pt"]:
        reject("other files in the folder", expected=["run.pt"], came=seen[0]["files"], rank=0, hint=left)
    hint = "save() must not draw random numbers, nor set a seed, nor change the run"
    for rank, s in enumerate(seen):
        compare(
            "the losses of the run that was saved", s["losses"], s["whole"], rank=rank, hint=hint, tolerance=0
        )
    for name in seen[0]["before"]:
        same = [s["before"][name] == s["restored"][name] for s in seen]
        if not all(same):
            rank = same.index(False)
            mine = f"what do save() and restore() do about {name}?"
            mine = "rank 0 has its own back, and the others?" if same[0] else mine
            wanted, came = seen[rank]["before"][name], seen[rank]["restored"][name]
            if isinstance(wanted, list) and len(wanted) == len(came) and math.dist(wanted, came) < 1e-5:
                mine = "nearly: which type has fewer digits than these numbers?"
            reject(f"{name}: not what was saved", expected=wanted, came=came, rank=rank, hint=mine)
    for rank, s in enumerate(seen):
        late = "all parts looked right after restore(): what changes in the first step?"
        wanted = s["whole"][_SAVES[-1] :]
        compare("the resumed losses", s["resumed"], wanted, rank=rank, hint=late, tolerance=0)
        if not s["same"]:
            reject("the weights at the end are not those of the uninterrupted run", rank=rank, hint=late)
    return "bit for bit the run that was never interrupted, from one file that a kill can't destroy."


def _decide_save(what: str, saves: Sequence[dict[str, Any]], last_good: str) -> None:
    if saves[0]["left"] == "no file":
        reject(f"{what}: there is no file at path", rank=0, hint="path is where restore() will look")
    for rank, save in enumerate(saves):
        renames = len(save["renames"])
        if rank and renames:
            one = "all ranks hold the same parameters: who has to write them?"
            reject(
                f"{what}: renamed a file to path, too", expected="rank 0 only", came=f"rank {rank}", hint=one
            )
        if not rank and renames != 1:
            whole = "path must go from one whole file to the next in one step, whenever a kill comes"
            came = f"{renames} renames" if renames else "path itself was written"
            if not renames and save["left"] == last_good:
                came = "nothing: path still holds the save before"
            reject(f"{what}: how path got its content", expected="one rename", came=came, rank=0, hint=whole)
    rename, left = saves[0]["renames"][0], saves[0]["left"]
    if rename["before"] != last_good:
        hint = "what would a kill leave, just before the rename?"
        reject(f"{what}: the last good one was gone before the new one had its name", rank=0, hint=hint)
    if not rename["beside"]:
        hint = "from one file system to another a file is not renamed but copied: write it beside path"
        reject(f"{what}: the temporary file stood in another folder", rank=0, hint=hint)
    if rename["source"] != left:
        hint = "it was not complete when it got its name, or path was written again"
        reject(f"{what}: what was renamed is not what is there", rank=0, hint=hint)
    if saves[0]["loads"]:
        plain = "torch.load takes tensors, numbers, strings, lists, tuples and dictionaries"
        reject(f"{what}: torch.load(path) raises {saves[0]['loads']}", rank=0, hint=plain)
    for rank, save in enumerate(saves):
        early = "save() came back on this rank before the new file was there"
        compare(f"{what}: the file on return", save["there"], left, rank=rank, hint=early)


EXERCISES = {
    "08.1": Exercise(see_accuracy, decide_accuracy, world_sizes=(4, 3), timeout=10.0),
    "08.2": Exercise(
        see_resumable,
        decide_resumable,
        world_sizes=(2, 4),  # two first: the first optimizer of a process imports for seconds, on each rank
        timeout=30.0,
        timeout_hint="all ranks call save() and restore(): which calls what the others don't?",
    ),
}
