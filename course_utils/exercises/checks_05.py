"""Checks of chapter 05: buckets, accumulation with one all-reduce a step. That of 05.3 is in own_ddp_05."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.exercises.judging import Exercise, at_most, brief, compare, compare_ranks, reject
from course_utils.exercises.own_ddp_05 import decide_module, random_tensor, see_module
from course_utils.measure import count_operations

_MIB = 2**20
_BUCKETS = (  # gradients, cap, first
    ([_MIB] * 60, 25 * _MIB, _MIB),
    ([_MIB] * 60, 25 * _MIB, 25 * _MIB),
    ([400, 400, 400, 5000, 100, 900, 1000, 1], 1000, 500),
    ([3000, 10, 10], 1000, 1000),
    ([700], 1000, 1000),
    ([], 1000, 1000),
)


def _fill(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets: list[int] = []
    for size in gradients:
        if not buckets or buckets[-1] >= (first if len(buckets) == 1 else cap):
            buckets.append(0)
        buckets[-1] += size
    return buckets


def see_bucket_bytes(bucket_bytes: Callable[..., Any]) -> list[Any]:
    return [bucket_bytes(list(gradients), cap, first) for gradients, cap, first in _BUCKETS]


def _bucket_hint(came: Any, gradients: list[int], cap: int, first: int) -> str:
    """What wrong buckets tell about the mistake."""
    if not isinstance(came, list) or any(type(size) is not int for size in came):
        return "a list with one number for each bucket: the bytes that it holds"
    if 0 in came:
        return "an empty bucket would be sent, too: when does a bucket begin?"
    if sum(came) < sum(gradients):
        return "bytes are missing: what becomes of the last bucket if it is not full?"
    if sum(came) > sum(gradients):
        return "each gradient is in one bucket: what does a new bucket hold when it begins?"
    known = (
        (_fill(gradients, cap + 1, first + 1), "a bucket that holds exactly its limit is closed, too"),
        (_fill(gradients, cap, cap), "the first bucket has a limit of its own"),
        (_fill(gradients, first, first), "the limit `first` is for the first bucket only"),
        (_fill(gradients, cap, first)[::-1], "which bucket is sent first?"),
    )
    whole = "gradients come in the order given, each whole: a bucket is closed after the one that fills it"
    return next((hint for wrong, hint in known if came == wrong), whole)


def decide_bucket_bytes(seen: list[Any]) -> str:
    for came, (gradients, cap, first) in zip(seen[0], _BUCKETS, strict=True):
        shown = gradients if len(gradients) < 9 else f"{len(gradients)} times {gradients[0]}"
        hint = _bucket_hint(came, gradients, cap, first)
        what = f"gradients {shown}, cap {cap}, first {first}"
        compare(what, came, _fill(gradients, cap, first), hint=hint)
    return "you can now say from a list of layers what DDP sends, in which order."


_K, _D, _B = 3, 4, 5
_MICRO_BATCHES = {4: 8, 2: 3}  # by world_size: a short last group, and none
_LEARNING_RATE = 0.1


def _micro_batches(rank: int, world_size: int) -> list[tuple[Tensor, Tensor]]:
    n = _MICRO_BATCHES[world_size]
    x, y = random_tensor(rank + 1, n, _B, _D), 2 + random_tensor(rank + 101, n, _B, 1)
    return list(zip(x, y, strict=True))


def _linear() -> nn.Linear:
    layer = nn.Linear(_D, 1).double()
    with torch.no_grad():
        layer.weight.copy_(random_tensor(7, 1, _D))
        layer.bias.zero_()
    return layer


def _log_passes(layer: nn.Module, log: list[str]) -> None:
    """Write down each forward, with its samples, and each backward, in order."""

    def after_forward(_module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        log.append(f"forward of {len(inputs[0])}")
        output.register_hook(lambda _: log.append("backward"))

    layer.register_forward_hook(after_forward)


def see_accumulate(accumulate_epoch: Callable[..., Any]) -> dict[str, Any]:
    layer, passes = _linear(), []
    _log_passes(layer, passes)
    ddp = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=_LEARNING_RATE)
    micro_batches = _micro_batches(dist.get_rank(), dist.get_world_size())
    with count_operations() as operations:
        steps = accumulate_epoch(ddp, optimizer, micro_batches, _K)
    left = [p.grad for p in ddp.parameters() if p.grad is not None]
    return {
        "steps": steps,
        "weights": torch.cat([p.detach().flatten() for p in ddp.parameters()]),
        "left": max((g.abs().max().item() for g in left), default=0.0),
        "all_reduces": operations.get("gloo:all_reduce", 0),
        "passes": passes,
    }


def _groups(world_size: int) -> list[range]:
    n = _MICRO_BATCHES[world_size]
    return [range(i, min(i + _K, n)) for i in range(0, n, _K)]


def _epoch(world_size: int, weigh: Callable[[int], float], mistake: str = "") -> list[float]:
    """The weights after an epoch with weigh(n) for a micro-batch's loss in a step of n micro-batches."""
    layer = _linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=_LEARNING_RATE)
    batches = [_micro_batches(rank, world_size) for rank in range(world_size)]
    for group in _groups(world_size):
        if mistake != "never cleared":
            optimizer.zero_grad()
        for i in group[-1:] if mistake == "cleared too often" else group:
            for x, y in (batch[i] for batch in batches):
                (nn.functional.mse_loss(layer(x), y) * weigh(len(group)) / world_size).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in layer.parameters()]).tolist()


def _same(a: Any, b: Sequence[float]) -> bool:
    return isinstance(a, list) and len(a) == len(b) and torch.allclose(torch.tensor(a), torch.tensor(b))


def _weights_hint(came: Any, world_size: int) -> str:
    """What wrong weights tell about the mistake."""
    sizes = f"the steps have {', '.join(str(len(group)) for group in _groups(world_size))} micro-batches"
    sum_of_means = "gradients add up: is their sum that of the mean loss over all samples of the step?"
    known = (
        (lambda _: 1 / _K, "", f"{sizes}: what does a sample of the last one weigh?"),
        (lambda _: 1, "", sum_of_means),
        (lambda n: 1 / n / world_size, "", "DDP has divided by the number of ranks"),
        (lambda n: 1 / n, "never cleared", "the gradients of the step before are still in this one"),
        (lambda n: 1 / n, "cleared too often", "a step's last micro-batch alone counts: who cleared before?"),
    )
    found = (hint for weigh, mistake, hint in known if _same(came, _epoch(world_size, weigh, mistake)))
    return next(found, f"{sizes}: what does a sample weigh?")


def _decide_alike(seen: list[dict[str, Any]], steps: int) -> None:
    for rank, s in enumerate(seen):
        if not _same(s["weights"], seen[0]["weights"]):
            calls = f"{s['all_reduces']} all-reduces ran" if s["all_reduces"] else "no all-reduce ran at all"
            came = f"rank 0 {brief(seen[0]['weights'], 3)}, rank {rank} {brief(s['weights'], 3)}"
            reject(
                "the ranks' weights differ after the epoch",
                expected="the same on all ranks",
                came=came,
                hint=f"{calls}; each of the {steps} steps needs one, after the last gradient was added",
            )


def decide_accumulate(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    n, steps = _MICRO_BATCHES[world_size], len(_groups(world_size))
    hint = f"{n} micro-batches with k={_K}: which of them end a group?"
    compare_ranks("the number of steps", [s["steps"] for s in seen], [steps] * world_size, hint=hint)
    _decide_alike(seen, steps)
    wanted, came = _epoch(world_size, lambda n: 1 / n), [s["weights"] for s in seen]
    hint = _weights_hint(came[0], world_size)
    compare_ranks("the weights after the epoch", came, [wanted] * world_size, hint=hint, tolerance=1e-9)
    every = "every backward communicated: at which moment does DDP look whether it is in no_sync?"
    other = "DDP sends all gradients of this model in one all-reduce: what else is sent?"
    for rank, s in enumerate(seen):
        hint = every if s["all_reduces"] == n else other
        at_most("all-reduces", s["all_reduces"], steps, rank=rank, hint=hint)
        hint = "who clears after the last step?"
        compare("what is left in the gradients", s["left"], 0.0, rank=rank, hint=hint)
        if s["passes"] != [f"forward of {_B}", "backward"] * n:
            kept = "the activations of several micro-batches were kept at once"
            wanted, passes = f"forward of {_B}, backward, and so on", ", ".join([*s["passes"][:4], "…"])
            hint = "one micro-batch after the other, each with its own backward"
            reject(kept, expected=wanted, came=passes, rank=rank, hint=hint)
    return "one all-reduce a step, whole groups and the short one weighed rightly, nothing left over."


_LAST = (
    "all ranks have as many micro-batches: which of their backward passes communicate, and on which ranks?"
)
_STARTED = "every rank starts the same all-reduces, whatever rank it is; finish() waits for started ones only"
_TIMEOUT = 45.0  # the first DDP of a process imports torch._dynamo: on a loaded machine that alone takes 20 s
EXERCISES = {
    "05.1": Exercise(see_bucket_bytes, decide_bucket_bytes, world_sizes=(1,)),
    "05.2": Exercise(see_accumulate, decide_accumulate, (4, 2), timeout=_TIMEOUT, timeout_hint=_LAST),
    "05.3": Exercise(see_module, decide_module, (4, 2), timeout=_TIMEOUT, timeout_hint=_STARTED),
}
