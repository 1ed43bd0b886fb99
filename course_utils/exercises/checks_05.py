"""Checks of chapter 05: buckets, accumulation with one all-reduce a step, a DDP that overlaps."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, reject
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


def see_bucket_bytes(bucket_bytes: Callable[..., Any]) -> list[Any]:
    return [bucket_bytes(list(gradients), cap, first) for gradients, cap, first in _BUCKETS]


def decide_bucket_bytes(seen: list[Any]) -> str:
    for came, (gradients, cap, first) in zip(seen[0], _BUCKETS, strict=True):
        buckets: list[int] = []
        for size in gradients:
            if not buckets or buckets[-1] >= (first if len(buckets) == 1 else cap):
                buckets.append(0)
            buckets[-1] += size
        shown = gradients if len(gradients) < 9 else f"{len(gradients)} times {gradients[0]}"
        hint = "when is a bucket closed: before the gradient that makes it too large, or after?"
        compare(f"gradients {shown}, cap {cap}, first {first}", came, buckets, hint=hint)
    return "you can now say from a list of layers what DDP sends, in which order."


_K, _D = 3, 4
_MICRO_BATCHES = {4: 8, 2: 3}  # by world_size: a short last group, and none
_LEARNING_RATE = 0.1


def _random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _micro_batches(rank: int, world_size: int) -> list[tuple[Tensor, Tensor]]:
    n = _MICRO_BATCHES[world_size]
    x, y = _random(rank + 1, n, 5, _D), 2 + _random(rank + 101, n, 5, 1)
    return list(zip(x, y, strict=True))


def _linear() -> nn.Linear:
    layer = nn.Linear(_D, 1).double()
    with torch.no_grad():
        layer.weight.copy_(_random(7, 1, _D))
        layer.bias.zero_()
    return layer


def see_accumulate(accumulate_epoch: Callable[..., Any]) -> dict[str, Any]:
    ddp = DistributedDataParallel(_linear())
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
    }


def decide_accumulate(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    layer, n = _linear(), _MICRO_BATCHES[world_size]
    optimizer = torch.optim.SGD(layer.parameters(), lr=_LEARNING_RATE)
    batches = [_micro_batches(rank, world_size) for rank in range(world_size)]
    groups = [range(i, min(i + _K, n)) for i in range(0, n, _K)]
    for group in groups:
        x, y = (torch.cat([batch[i][part] for batch in batches for i in group]) for part in (0, 1))
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x), y).backward()
        optimizer.step()
    wanted = torch.cat([p.detach().flatten() for p in layer.parameters()])
    steps = f"{n} micro-batches with k={_K}: which of them end a group?"
    compare_ranks("the number of steps", [s["steps"] for s in seen], [len(groups)] * world_size, hint=steps)
    hint = (
        f"the groups have {', '.join(str(len(g)) for g in groups)} micro-batches: what does a sample weigh?"
    )
    came = [s["weights"] for s in seen]
    compare_ranks("the weights after the epoch", came, [wanted] * world_size, hint=hint, tolerance=1e-9)
    for rank, s in enumerate(seen):
        once = "the forward decides whether a backward communicates"
        at_most("all-reduces", s["all_reduces"], len(groups), rank=rank, hint=once)
        compare(
            "what is left in the gradients", s["left"], 0.0, rank=rank, hint="who clears after the last step?"
        )
    return "one all-reduce a step, whole groups and the short one weighed rightly, nothing left over."


_LAYERS, _WIDTH, _FROZEN = 6, 32, 2
_CAP = 2 * _WIDTH * _WIDTH * 8  # two layers, in float64
_FAST, _SLOW = 0.005, 0.080  # seconds that a layer's backward waits: on rank 0, on the others
_QUIET = "backward 3, with sync=False"
_BACKWARDS = ("backward 1", "backward 2", _QUIET, "backward 4, which adds to it")


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradient, None


class _Layer(nn.Linear):
    seconds = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return _Wait.apply(torch.tanh(super().forward(x)), self.seconds)


def _stack(seed: int, seconds: float = 0.0) -> nn.Sequential:
    stack = nn.Sequential(*(_Layer(_WIDTH, _WIDTH, bias=False).double() for _ in range(_LAYERS)))
    for i, layer in enumerate(stack):
        layer.weight.data = _random(100 * seed + i, _WIDTH, _WIDTH) / _WIDTH**0.5
        layer.seconds = seconds
    stack[_FROZEN].requires_grad_(False)
    stack.register_buffer("scale", _random(seed, 3))
    return stack


def _loss(model: nn.Module, rank: int, i: int) -> Tensor:
    return model(_random(10 * rank + i, 8, _WIDTH)).square().mean()


def _row_sums(stack: nn.Module) -> list[Any]:
    return ["no gradient" if p.grad is None else p.grad.sum(1) for p in stack.parameters()]


def see_module(wrap: Callable[..., Any]) -> dict[str, Any]:
    rank = dist.get_rank()
    stack = _stack(rank, _SLOW if rank else _FAST)
    ddp = wrap(stack, _CAP)
    start = torch.cat([t.flatten() for t in stack.state_dict().values()]).sum()
    gradients, calls = [], []
    for i, which in enumerate(_BACKWARDS):
        ddp.sync = which != _QUIET
        if i != 3:
            ddp.zero_grad()
        with torch.autograd.profiler.profile(record_shapes=True) as profiler:
            loss = _loss(ddp, rank, i)
            dist.barrier()
            begun = time.perf_counter()
            with torch.profiler.record_function("check:backward"):
                loss.backward()
            seconds = time.perf_counter() - begun
            ddp.finish()
        gradients.append(_row_sums(stack))
        calls.append({**_calls(profiler), "seconds": seconds})
    wrapped = any(isinstance(m, DistributedDataParallel) for m in [ddp, *getattr(ddp, "modules", list)()])
    return {"start": start, "gradients": gradients, "calls": calls, "wrapped": wrapped}


def _calls(profiler: Any) -> dict[str, Any]:
    """Elements that each all-reduce got, how many of them began before backward ended, and whose they are."""
    events = sorted(profiler.function_events, key=lambda e: e.time_range.start)
    end = next(e.time_range.end for e in events if e.name == "check:backward")
    sent = [e for e in events if e.name.endswith(":all_reduce")]
    return {
        "elements": [sum(torch.Size(shape).numel() for shape in e.input_shapes if shape) for e in sent],
        "early": sum(e.time_range.start < end for e in sent),
        "reducer": any("reducer::" in e.name or "DistributedDataParallel" in e.name for e in events),
    }


def decide_module(seen: list[dict[str, Any]]) -> str:
    for rank, s in enumerate(seen):
        if s["wrapped"] or any(calls["reducer"] for calls in s["calls"]):
            own = "use hooks of your own"
            reject("PyTorch's own DistributedDataParallel does the work here", rank=rank, hint=own)
    _decide_values(seen)
    numbers = (_LAYERS - 1) * _WIDTH**2  # one layer is frozen
    buckets = -(-numbers * 8 // _CAP)
    shape = f"{_LAYERS - 1} gradients of {_WIDTH**2 * 8} bytes, cap {_CAP}, one layer frozen"
    once = "each gradient travels once, in its bucket; frozen parameters have none"
    at_once = "a bucket starts in the hook of its last gradient, whatever the other buckets do"
    for rank, s in enumerate(seen):
        for calls, which in zip(s["calls"], _BACKWARDS, strict=True):
            n = 0 if which == _QUIET else buckets
            hint = shape if n else "with sync=False a backward adds to the gradients and sends nothing"
            compare(f"all-reduces of {which}", len(calls["elements"]), n, rank=rank, hint=hint)
            sent = 0 if which == _QUIET else numbers
            compare(f"numbers sent in {which}", sum(calls["elements"]), sent, rank=rank, hint=once)
            if calls["early"] < n - 1:
                late = f"too few all-reduces began before the end of {which}"
                wanted = f"{n - 1} of {n}"
                reject(late, expected=wanted, came=calls["early"], rank=rank, hint=at_once)
    _decide_waiting(seen)
    return "the right gradients, in buckets that travel while backward runs: this is DDP."


def _decide_values(seen: Sequence[dict[str, Any]]) -> None:
    world_size = len(seen)
    start = torch.cat([t.flatten() for t in _stack(0).state_dict().values()]).sum()
    hint = "rank 0's parameters and buffers, for everybody, when the module is wrapped"
    came = [s["start"] for s in seen]
    compare_ranks("the sum of all parameters and buffers", came, [start] * world_size, hint=hint)
    for i, batches in ((0, (0,)), (1, (1,)), (3, (2, 3))):  # the quiet one shows in what follows it
        stack = _stack(0)
        for rank in range(world_size):
            for batch in batches:
                (_loss(stack, rank, batch) / world_size).backward()
        wanted = _row_sums(stack)
        hint = "what was added up with sync=False is averaged too" if i == 3 else "the mean over all ranks"
        for layer, right in enumerate(wanted):
            what = f"the gradient of layer {layer} after {_BACKWARDS[i]}"
            came = [s["gradients"][i][layer] for s in seen]
            compare_ranks(what, came, [right] * world_size, hint=hint, tolerance=1e-8)


def _decide_waiting(seen: Sequence[dict[str, Any]]) -> None:
    """Rank 0 computes faster than the others: its backward is short unless it waits for them."""
    seconds, slow = min(seen[0]["calls"][i]["seconds"] for i in (1, 3)), _LAYERS * _SLOW
    if seconds > slow / 2:
        reject(
            f"backward waits for the other ranks, whose layers take {slow:.2f} s",
            expected=f"less than {slow / 2:.2f} s: rank 0's own layers take {_LAYERS * _FAST:.2f} s",
            came=f"{seconds:.2f} s",
            rank=0,
            hint="what was started is awaited in finish()",
        )


EXERCISES = {
    "05.1": Exercise(see_bucket_bytes, decide_bucket_bytes, world_sizes=(1,)),
    "05.2": Exercise(see_accumulate, decide_accumulate, world_sizes=(4, 2)),
    "05.3": Exercise(see_module, decide_module, world_sizes=(4, 2)),
}
