"""What the check of 05.3 looks at in a student's own DDP: gradients, all-reduces, and when they start."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_utils.exercises.judging import compare, compare_ranks, reject

_LAYERS, _WIDTH, _FROZEN = 6, 32, 2
_BYTES = _WIDTH * _WIDTH * 8  # of a layer, in float64
_CAP = 3 * _BYTES // 2  # reached by two layers, and no multiple of one
_BUCKETED = [2 * _WIDTH**2, 2 * _WIDTH**2, _WIDTH**2]  # numbers in each all-reduce: 5 and 4, 3 and 1, 0
_FAST, _SLOW = 0.005, 0.080  # seconds that a layer's backward waits: on rank 0, on the others
_QUIET = "backward 3, with sync=False"
_BACKWARDS = ("backward 1", "backward 2", _QUIET, "backward 4, which adds to it")


def random_tensor(seed: int, *shape: int) -> Tensor:
    """Normal random numbers in float64, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class _Layer(nn.Linear):
    seconds = 0.0

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(super().forward(x))
        y.register_hook(lambda _: time.sleep(self.seconds))
        return y


def _stack(seed: int, seconds: float = 0.0) -> nn.Sequential:
    stack = nn.Sequential(*(_Layer(_WIDTH, _WIDTH, bias=False).double() for _ in range(_LAYERS)))
    for i, layer in enumerate(stack):
        layer.weight.data = random_tensor(100 * seed + i, _WIDTH, _WIDTH) / _WIDTH**0.5
        layer.seconds = seconds
    stack[_FROZEN].requires_grad_(False)
    stack.register_buffer("scale", random_tensor(seed, 3))
    return stack


def _loss(model: nn.Module, rank: int, i: int) -> Tensor:
    y = model(random_tensor(10 * rank + i, 8, _WIDTH))
    if not isinstance(y, Tensor):
        raise TypeError(f"forward returned {y}: it must return the module's output")
    return y.square().mean()


def _row_sums(stack: nn.Module) -> list[Any]:
    return ["no gradient" if p.grad is None else p.grad.sum(1) for p in stack.parameters()]


@contextmanager
def _explained() -> Iterator[None]:
    """An error that a frozen parameter causes says so. It isn't replaced: its traceback leads to the line."""
    try:
        yield
    except (AttributeError, RuntimeError, TypeError) as error:
        if "NoneType" in str(error) or "require grad" in str(error):
            error.args = (
                f"{error}. Layer {_FROZEN} is frozen (requires_grad=False): its grad stays None, it takes no "
                "hook, and no bucket may hold it",
            )
        raise


def see_module(wrap: Callable[..., Any]) -> dict[str, Any]:
    with _explained():
        return _see_module(wrap)


def _see_module(wrap: Callable[..., Any]) -> dict[str, Any]:
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
            if ddp.sync:
                ddp.finish()
        gradients.append(_row_sums(stack))
        calls.append({**_calls(profiler), "seconds": seconds})
    ddp.zero_grad(set_to_none=False)
    ddp.finish()  # nothing was started since the last time
    again = max((p.grad.abs().max().item() for p in stack.parameters() if p.grad is not None), default=0.0)
    wrapped = any(isinstance(m, DistributedDataParallel) for m in [ddp, *getattr(ddp, "modules", list)()])
    return {"start": start, "gradients": gradients, "calls": calls, "again": again, "wrapped": wrapped}


def _calls(profiler: Any) -> dict[str, Any]:
    """Elements that each all-reduce got, how many of them began before backward ended, what else ran, and
    whether PyTorch's own DDP did it."""
    events = sorted(profiler.function_events, key=lambda e: e.time_range.start)
    end = next(e.time_range.end for e in events if e.name == "check:backward")
    sent = [e for e in events if e.name.endswith(":all_reduce")]
    ran = [e.name.split(":")[-1] for e in events if e.name.startswith(("gloo:", "nccl:"))]
    ran.remove("barrier")  # the check's own
    return {
        "elements": [sum(torch.Size(shape).numel() for shape in e.input_shapes if shape) for e in sent],
        "early": sum(e.time_range.start < end for e in sent),
        "others": [name for name in ran if name != "all_reduce"],
        "reducer": any("reducer::" in e.name or "DistributedDataParallel" in e.name for e in events),
    }


def decide_module(seen: list[dict[str, Any]]) -> str:
    for rank, s in enumerate(seen):
        if s["wrapped"] or any(calls["reducer"] for calls in s["calls"]):
            own = "use hooks of your own"
            reject("PyTorch's own DistributedDataParallel does the work here", rank=rank, hint=own)
    for rank, s in enumerate(seen):
        quiet = len(s["calls"][_BACKWARDS.index(_QUIET)]["elements"])
        hint = "with sync=False a backward adds to the gradients and sends nothing"
        compare(f"all-reduces of {_QUIET}", quiet, 0, rank=rank, hint=hint)
    _decide_values(seen)
    for rank, s in enumerate(seen):
        for calls, which in zip(s["calls"], _BACKWARDS, strict=True):
            _decide_calls(calls, which, rank)
        hint = "what was awaited and copied back once is done"
        compare("gradients after zero_grad() and one more finish()", s["again"], 0.0, rank=rank, hint=hint)
    _decide_waiting(seen)
    return "the right gradients, in buckets that travel while backward runs: this is DDP."


def _decide_calls(calls: dict[str, Any], which: str, rank: int) -> None:
    wanted, came = [] if which == _QUIET else _BUCKETED, calls["elements"]
    hint = f"5 gradients of {_BYTES} bytes, cap {_CAP}: a bucket is closed when it holds that, not before"
    if came == wanted[::-1]:
        hint = "which gradients are there first? Buckets are filled in that order"
    compare(f"all-reduces of {which}", len(came), len(wanted), rank=rank, hint=hint)
    compare(f"numbers in the all-reduces of {which}", came, wanted, rank=rank, hint=hint)
    if calls["others"]:
        more, others = f"more than all-reduces in {which}", ", ".join(calls["others"])
        hint = "one all-reduce a bucket is enough for the average and for waiting"
        reject(more, expected="nothing else", came=others, rank=rank, hint=hint)
    if calls["early"] < len(wanted) - 1:
        late = f"too few all-reduces began before the end of {which}"
        enough = f"{len(wanted) - 1} of {len(wanted)}"
        hint = "a bucket starts in the hook of its last gradient, whatever the other buckets do"
        reject(late, expected=enough, came=calls["early"], rank=rank, hint=hint)


def _gradient_hint(came: Any, right: Any, own: Any, i: int) -> str:
    """What a wrong gradient tells about the mistake."""
    if right == "no gradient":
        return "a frozen parameter gets no gradient, not even one of zeros"
    if not isinstance(came, list) or len(came) != len(own):
        return "every parameter that is not frozen has a gradient after backward"
    if torch.allclose(torch.tensor(came, dtype=own.dtype), own):
        never = "this is the rank's own gradient, as if its bucket was never"
        if i == 3:
            return f"{never} full: what does a backward with sync=False leave in the counts?"
        return f"{never} full, or sent, or copied back"
    if not any(came):
        return "its bucket was packed before this gradient was there"
    if i == 3:
        return "what was added up with sync=False is averaged, too"
    return "the mean over all ranks"


def _decide_values(seen: Sequence[dict[str, Any]]) -> None:
    world_size = len(seen)
    start = torch.cat([t.flatten() for t in _stack(0).state_dict().values()]).sum()
    hint = "rank 0's parameters and buffers, for everybody, when the module is wrapped"
    came = [s["start"] for s in seen]
    compare_ranks("the sum of all parameters and buffers", came, [start] * world_size, hint=hint)
    for i, batches in ((0, (0,)), (1, (1,)), (3, (2, 3))):  # the quiet one shows in what follows it
        own = [_gradients((rank,), batches) for rank in range(world_size)]
        for layer, right in enumerate(_gradients(range(world_size), batches)):
            what = f"the gradient of layer {layer} after {_BACKWARDS[i]}"
            for rank, s in enumerate(seen):
                hint = _gradient_hint(s["gradients"][i][layer], right, own[rank][layer], i)
                compare(what, s["gradients"][i][layer], right, rank=rank, hint=hint, tolerance=1e-8)


def _gradients(ranks: Sequence[int], batches: Sequence[int]) -> list[Any]:
    """Row sums of the gradients, averaged over ``ranks`` and added up over ``batches``."""
    stack = _stack(0)
    for rank in ranks:
        for batch in batches:
            (_loss(stack, rank, batch) / len(ranks)).backward()
    return _row_sums(stack)


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
