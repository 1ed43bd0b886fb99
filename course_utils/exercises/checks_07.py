"""Checks of chapter 07: a run moved to more ranks, warm-up in samples, the gradient noise scale."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.exercises.judging import Exercise, at_most, compare, reject
from course_utils.measure import count_operations

# samples, epochs, local_batch, accumulate, rate, warmup_updates; and world_size
_NAMES = ("samples", "epochs", "local_batch", "accumulate", "rate", "warmup_updates")
_RUNS = (
    ((50_000, 90, 32, 1, 0.1, 1000), 32),
    ((50_000, 90, 32, 8, 0.1, 1000), 4),
    ((1_000, 3, 8, 4, 0.25, 101), 16),
    ((1_000, 3, 8, 4, 0.25, 101), 4),
    ((777, 2, 10, 3, 0.5, 7), 1),
    ((100, 1, 8, 1, 0.1, 10), 4),  # a warm-up that keeps its share of the updates would be longer here
)


def _run(values: tuple[float, ...]) -> dict[str, Any]:
    return dict(zip(_NAMES, values, strict=True))


def see_move(move: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for values, world_size in _RUNS:
        run = _run(values)
        seen.append({"moved": move(run, world_size), "run": run})
    return seen


def decide_move(seen: list[list[dict[str, Any]]]) -> str:
    for (values, world_size), s in zip(_RUNS, seen[0], strict=True):
        run, moved = _run(values), s["moved"]
        where = f"{run['samples']} samples, local_batch {run['local_batch']}, accumulate {run['accumulate']}"
        where += f", on {world_size} ranks"
        accumulate = max(1, run["accumulate"] // world_size)
        batch = run["local_batch"] * world_size * accumulate
        growth = batch / (run["local_batch"] * run["accumulate"])
        if not isinstance(moved, dict):
            reject("not a dictionary", expected="a dictionary of five settings", came=moved)
        wanted = {
            "accumulate": (accumulate, "ranks first take the place of accumulation, and one is the least"),
            "global_batch": (batch, "samples that one update sees: local batch, ranks and accumulation"),
            "rate": (run["rate"] * growth, _rate_hint(run, moved.get("rate"), world_size, growth)),
            "warmup_updates": (
                math.ceil(run["warmup_updates"] / growth),
                f"the batch is {growth:g} times as large: how many updates see as many samples, rounded up?",
            ),
            "updates": (
                run["epochs"] * math.ceil(run["samples"] / batch),
                _updates_hint(run, moved.get("updates"), batch),
            ),
        }
        missing = [name for name in wanted if name not in moved]
        if missing:
            reject(f"missing: {', '.join(missing)}", expected=list(wanted), came=list(moved))
        for name, (value, hint) in wanted.items():
            compare(f"{name} ({where})", moved[name], value, hint=hint)
        compare("the run that was passed in", s["run"], run, hint="return a new dictionary")
    return "what the optimizer sees stays as long as it can, and grows by one factor when it can't."


def _rate_hint(run: dict[str, Any], came: Any, world_size: int, growth: float) -> str:
    number = came if isinstance(came, (int, float)) else math.nan
    if growth == 1:
        return "did the batch grow at all?"
    if math.isclose(number, run["rate"] * math.sqrt(growth)):
        return "that is the square-root rule"
    if math.isclose(number, run["rate"] * world_size):
        return "by which factor did the batch grow? Not all ranks made it larger"
    return "the rate is multiplied by what the batch grew by"


def _updates_hint(run: dict[str, Any], came: Any, batch: int) -> str:
    if came == math.ceil(run["samples"] / batch):
        return "that is one epoch"
    return "each epoch ends with its own batch, which may be smaller than the others"


_SCHEDULES = ((50, 1000), (200, 1000), (128, 1000), (2000, 1000))  # global_batch, warmup_samples
_RATES, _UPDATES = (0.1, 0.4), 25
_RANKS = 2


def _shares(batch: int, warmup: int) -> list[float]:
    """Of the rate, one an update."""
    return [min(1, (i + 1) * batch / warmup) for i in range(_UPDATES)]


def _in_proportion(came: list[float], expected: list[float]) -> bool:
    pairs = zip(came, expected, strict=True)
    return all(math.isclose(c * expected[0], e * came[0], rel_tol=1e-6) for c, e in pairs)


def see_schedule(warmup_schedule: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for global_batch, warmup_samples in _SCHEDULES:
        params = [torch.zeros(1, requires_grad=True) for _ in _RATES]
        groups = [{"params": [p], "lr": lr} for p, lr in zip(params, _RATES, strict=True)]
        optimizer = torch.optim.SGD(groups)
        schedule = warmup_schedule(optimizer, global_batch, warmup_samples)
        used = []
        if hasattr(schedule, "step"):
            for _ in range(_UPDATES):
                used.append([group["lr"] for group in optimizer.param_groups])
                optimizer.step()
                schedule.step()
        seen.append({"kind": type(schedule).__name__, "used": used})
    return seen


def decide_schedule(seen: list[list[dict[str, Any]]]) -> str:
    for (batch, warmup), s in zip(_SCHEDULES, seen[0], strict=True):
        if not s["used"]:
            reject("no schedule came back", expected="an object with step()", came=s["kind"])
        wanted = [[lr * share for lr in _RATES] for share in _shares(batch, warmup)]
        factors = [used[0] / _RATES[0] for used in s["used"]]
        for i, (used, right) in enumerate(zip(s["used"], wanted, strict=True)):
            what = f"rates of update {i}, batch {batch}, {warmup} samples of warm-up"
            compare(what, used, right, hint=_schedule_hint(factors, used, i, batch, warmup), tolerance=1e-9)
    return "the same rate after the same samples, whatever the batch and the number of ranks."


def _schedule_hint(factors: list[float], used: list[float], i: int, batch: int, warmup: int) -> str:
    if not math.isclose(used[1], used[0] * _RATES[1] / _RATES[0], rel_tol=1e-6, abs_tol=1e-9):
        return "each group of parameters has a rate of its own: multiply it"
    if factors[0] == 0:
        return "the first update sees samples too: should it be wasted?"
    if math.isclose(factors[i], min(1, (i + 1) / warmup), rel_tol=1e-6):
        return "that counts updates: how many samples does one see?"
    if _in_proportion(factors, _shares(batch, warmup)):
        return "the share is right, but a share of what? A schedule starts from each group's own lr"
    if _in_proportion(factors, _shares(batch * _RANKS, warmup)):
        return "global_batch has the samples of all ranks already"
    if max(factors) > 1 + 1e-9:
        return "after the warm-up the rate is the group's own lr"
    return f"this update ends at sample {(i + 1) * batch}"


_B, _UPDATES_SEEN, _D = 4, 3, 6
_ONCE = "a gradient is averaged once; what else a rank has to say about an update is one number"


def _gradients(rank: int) -> Tensor:
    own = torch.randn(
        _UPDATES_SEEN, _D, generator=torch.Generator().manual_seed(rank + 11), dtype=torch.float64
    )
    scale = torch.tensor([[0.5], [1.0], [1.5]], dtype=torch.float64)
    return 0.8 * scale + own  # (updates, D)


def see_noise_scale(noise_scale: Callable[..., Any]) -> dict[str, Any]:
    gradients = _gradients(dist.get_rank())
    with count_operations() as operations:
        value = noise_scale(gradients, _B)
    return {"value": value, "given": gradients, "operations": operations.sequence}


def decide_noise_scale(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    stacked = torch.stack([_gradients(rank) for rank in range(world_size)])  # (W, updates, D)
    small = stacked.square().sum(2).mean(0)  # (updates,)
    large = stacked.mean(0).square().sum(1)  # (updates,)
    right = _estimate(small, large, world_size)
    mistakes = _mistakes(stacked)
    values = [_number(s["value"]) for s in seen]
    alike = all(math.isclose(value, values[0], rel_tol=1e-6) for value in values)
    for rank, s in enumerate(seen):
        fits = (text for wrong, text in mistakes if math.isclose(values[rank], wrong, rel_tol=1e-6))
        hint = next(fits, "what are the averages of |G_b|² and |G_B|², each over all updates and ranks?")
        if not alike:
            hint = "rank 0 has another value than others: what does each rank know of them?"
        value = s["value"] if math.isnan(values[rank]) else values[rank]
        compare("the noise scale", value, right, rank=rank, hint=hint)
    for rank, s in enumerate(seen):
        left = "work on a copy: the optimizer still needs it"
        compare("gradients after the call", s["given"], _gradients(rank), rank=rank, hint=left)
        sizes = [size for _, size in s["operations"]]
        at_most("collectives", len(sizes), 2, rank=rank, hint=_ONCE)
        numbers = _UPDATES_SEEN * (_D + 1)
        at_most("bytes given to collectives", sum(sizes), numbers * 8, rank=rank, hint=_ONCE)
        for name, size in s["operations"]:
            if "gather" in name and size > _UPDATES_SEEN * 8:
                came = f"{size} bytes from each rank"
                reject(f"the backend ran {name}", expected="averages only", came=came, rank=rank, hint=_ONCE)
    return "the noise of single samples, from gradients that were there anyway and one number more."


def _number(value: Any) -> float:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _estimate(small: Tensor, large: Tensor, world_size: int, b: float = _B) -> float:
    """S / |G|² from |G_b|² and |G_B|², each averaged over the updates first."""
    noise, signal = _parts(small, large, world_size, b)
    return (noise.mean() / signal.mean()).item()


def _parts(small: Tensor, large: Tensor, world_size: int, b: float = _B) -> tuple[Tensor, Tensor]:
    B = b * world_size
    return (small - large) / (1 / b - 1 / B), (B * large - b * small) / (B - b)


def _mistakes(stacked: Tensor) -> list[tuple[float, str]]:
    """Values that wrong ways lead to, and a hint for each; stacked: (W, updates, D)."""
    world_size = len(stacked)
    small, large = stacked.square().sum(2).mean(0), stacked.mean(0).square().sum(1)  # (updates,)
    noise, signal = _parts(small, large, world_size)
    right = (noise.mean() / signal.mean()).item()
    summed = _estimate(small * world_size, large * world_size**2, world_size)
    over_updates = stacked.mean((0, 1)).square().sum()
    lengths, root = stacked.norm(dim=2).mean(0), large.sqrt()
    squares_first = "an update has a gradient of its own: square it before you average over the updates"
    no_square = "the equation is of squared lengths: where are the squares taken?"
    four = "how many ranks are there?"
    return [
        ((noise / signal).mean().item(), "average over the updates first, and divide once"),
        (1 / right, "which of the two is divided by which?"),
        (right / _B, "how many samples does one rank's gradient average?"),
        (right / (_B * world_size), "the noise of one sample, and not that of the whole batch"),
        ((noise.mean() / large.mean()).item(), "the averaged gradient still has noise, in its square too"),
        ((noise.mean() / small.mean()).item(), "a rank's own gradient is noise for the most part"),
        (right * (world_size - 1) / world_size, "a spread around the mean of few is too small: by how much?"),
        (_estimate(small, large * world_size**2, world_size), "|G_B|² is of an average, not of a sum"),
        (summed, "all_reduce adds: what should be averages?"),
        (_estimate(small, over_updates, world_size), squares_first),
        (_estimate(stacked.mean(1).square().sum(1), over_updates, world_size), squares_first),
        (_estimate(small.sqrt(), root, world_size), no_square),
        (_estimate(lengths, root, world_size), no_square),
        (_estimate(lengths.square(), large, world_size), no_square),
        (_estimate(small, large, 4), four),
        (_estimate(small * world_size / 4, large * (world_size / 4) ** 2, 4), four),
    ]


EXERCISES = {
    "07.1": Exercise(see_move, decide_move, world_sizes=(1,)),
    "07.2": Exercise(see_schedule, decide_schedule, world_sizes=(_RANKS,)),
    "07.3": Exercise(see_noise_scale, decide_noise_scale, world_sizes=(4, 2), timeout=8.0),
}
