"""Checks of chapter 01: bytes held, gradient accumulation, a step of loss scaling."""

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import measure
from course_utils.exercises.judging import Exercise, at_most, compare
from course_utils.models import Transformer, TransformerConfig

_CONFIG = TransformerConfig(vocab_size=11, block_size=16, n_layer=2, n_head=2, n_embd=32)


def _model(dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(1)
    return Transformer(_CONFIG).to(dtype)


def _batch(size: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(11, (size, 17), generator=torch.Generator().manual_seed(2))
    return tokens[:, :-1], tokens[:, 1:]  # (B, T), (B, T)


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


# 01.1 · a case: what is special in it, and what to think of where the answer differs

_WEIGHED = {
    "after a step of AdamW": "add up the storages that are there: optimizer.state holds more than m and v",
    "before the first step": "nothing has run: what is in p.grad, and what is in optimizer.state?",
    "after a step of SGD with momentum": "the state differs from optimizer to optimizer: look what is in it",
    "where head and token table share one matrix": "two parameters, one storage",
    "where the token table is frozen": "a parameter that needs no gradient has None in .grad",
    "where all gradients are views of one padded buffer": "one storage: it counts once, and all of it",
    "with parameters in bf16": "not every number takes 4 bytes",
}


def _weighed() -> Iterator[tuple[str, nn.Module, torch.optim.Optimizer]]:
    """The cases, one after the other."""
    for name in _WEIGHED:
        model = _model(torch.bfloat16 if "bf16" in name else torch.float32)
        if "one matrix" in name:
            model.head.weight = nn.Parameter(model.embedding.token.weight.data)
        model.embedding.token.weight.requires_grad_("frozen" not in name)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = sgd if "SGD" in name else torch.optim.AdamW(model.parameters())
        if "before" not in name:
            _loss(model, *_batch(2)).backward()
            optimizer.step()
        if "padded" in name:
            sizes = [p.numel() for p in model.parameters()]
            *parts, _padding = torch.zeros(sum(sizes) + 64).split([*sizes, 64])
            for p, part in zip(model.parameters(), parts, strict=True):
                p.grad = part.view_as(p)
        yield name, model, optimizer


def _not_here(*_things: Any) -> NoReturn:
    raise RuntimeError("course_utils.measure is what this exercise asks you to write")


def see_training_bytes(training_bytes: Callable[..., Any]) -> dict[str, Any]:
    measure._tensors = _not_here  # every function of measure that weighs tensors walks through it
    return {name: training_bytes(model, optimizer) for name, model, optimizer in _weighed()}


def decide_training_bytes(seen: list[dict[str, Any]]) -> str:
    for name, model, optimizer in _weighed():
        parts = (measure.parameter_bytes(model), measure.gradient_bytes(model))
        wanted = (*parts, measure.optimizer_bytes(optimizer))
        what = f"parameters, gradients, state {name}"
        compare(what, seen[0][name], wanted, hint=_WEIGHED[name], tolerance=0)
    return "each storage counted once, whatever shares it and whatever is missing."


# 01.2 · a case: sequences, k, whether old gradients are left in p.grad, and what to think of

_ACCUMULATED = (
    (8, 4, False, "the batch's loss is a mean over all its tokens: what does one token weigh?"),
    (8, 4, True, "p.grad held gradients of an earlier step"),
    (10, 4, False, "k does not divide B: the micro-batches differ in size, the weight of a token may not"),
    (7, 3, False, "k does not divide B: the micro-batches differ in size, the weight of a token may not"),
    (2, 4, False, "there are fewer sequences than micro-batches were asked for"),
)


class _Holder(list[Tensor]):
    """A list that can be watched: autograd drops it when backward is done with the tensor in it."""


class _Alive:
    """Bytes that autograd keeps for backward at one time, each storage once, parameters left out."""

    def __init__(self) -> None:
        self.users: Counter[int] = Counter()  # storage → saved tensors that need it
        self.bytes = self.peak = 0

    def pack(self, tensor: Tensor) -> _Holder:
        holder, root = _Holder([tensor]), tensor if tensor._base is None else tensor._base
        if root.is_leaf and root.requires_grad:
            return holder
        storage = tensor.untyped_storage()
        self.users[storage._cdata] += 1
        if self.users[storage._cdata] == 1:
            self.bytes += storage.nbytes()
            self.peak = max(self.peak, self.bytes)
        weakref.finalize(holder, self._free, storage._cdata, storage.nbytes())
        return holder

    def _free(self, storage: int, size: int) -> None:
        self.users[storage] -= 1
        if not self.users[storage]:
            self.bytes -= size


def _peak(fn: Callable[[], Any]) -> int:
    alive = _Alive()
    with torch.autograd.graph.saved_tensors_hooks(alive.pack, lambda holder: holder[0]):
        fn()
    return alive.peak


def _gradient(model: nn.Module) -> Tensor:
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([g.flatten() for g in gradients])


def see_accumulate(accumulate: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for size, k, left_over, _ in _ACCUMULATED:
        model, (x, y) = _model(torch.float64), _batch(size)
        if left_over:
            _loss(model, *_batch(3)).backward()
        before = [p.detach().clone() for p in model.parameters()]
        peak = _peak(lambda: accumulate(model, x, y, k))  # noqa: B023 called at once
        moved = any(not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        seen.append({"gradient": _gradient(model)[::97], "peak": peak, "moved": moved})
    return seen


def decide_accumulate(seen: list[list[dict[str, Any]]]) -> str:
    for (size, k, _, hint), s in zip(_ACCUMULATED, seen[0], strict=True):
        model, (x, y) = _model(torch.float64), _batch(size)
        _loss(model, x, y).backward()
        case = f"B = {size}, k = {k}"
        wanted = _gradient(model)[::97]  # some of its numbers stand for all
        compare(f"the gradient for {case}", s["gradient"], wanted, hint=hint, tolerance=1e-9)
        compare(f"parameters changed for {case}", s["moved"], False, hint="the update is the caller's")
        few = math.ceil(size / k)
        limit = _peak(lambda: _loss(model, x[:few], y[:few]))  # noqa: B023 called at once
        one = f"{few} sequences are one micro-batch, and backward frees what it has used"
        at_most(f"bytes of activations at one time for {case}", s["peak"], 1.05 * limit, hint=one)
    return "the batch's gradient, for the activations of one micro-batch."


# 01.3 · one optimizer with momentum, five steps; what is in the gradients, and what to think of

_SCALED = (
    (65536.0, 1.0, "the gradients are those of loss · scale"),
    (65536.0, math.inf, "one gradient held an inf: nothing may change"),
    (32768.0, 1.0, "after an overflow: had the skipped step left something in the optimizer?"),
    (32768.0, math.nan, "one gradient held a nan: nothing may change"),
    (16384.0, -2.0, "after a skipped step all goes on as before"),
)


def _start() -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
    first, second, unused = parameters = [nn.Parameter(torch.full((2,), start)) for start in (1.0, 2.0, 3.0)]
    groups = [{"params": [first, unused]}, {"params": [second], "lr": 0.25}]
    return parameters, torch.optim.SGD(groups, lr=0.5, momentum=0.5)


def _gradients(last: float) -> tuple[Tensor, Tensor]:
    return torch.tensor([0.5, -1.0]), torch.tensor([2.0, last])


def see_scaled_step(scaled_step: Callable[..., Any]) -> list[dict[str, Any]]:
    parameters, optimizer = _start()
    seen = []
    for scale, last, _ in _SCALED:
        for p, gradient in zip(parameters, _gradients(last), strict=False):  # the third has none
            p.grad = scale * gradient
        returned = scaled_step(optimizer, scale)
        seen.append({"returned": returned, "parameters": [p.tolist() for p in parameters]})
    return seen


def decide_scaled_step(seen: list[list[dict[str, Any]]]) -> str:
    parameters, optimizer = _start()  # does the good steps only, unscaled
    half = "the same scale after a good step, half of it after a skipped one"
    for number, ((scale, last, hint), s) in enumerate(zip(_SCALED, seen[0], strict=True), 1):
        if good := math.isfinite(last):
            for p, gradient in zip(parameters, _gradients(last), strict=False):
                p.grad = gradient
            optimizer.step()
        after = f"after step {number} of {len(_SCALED)}, with scale {scale:.0f}"
        compare(f"the parameters {after}", s["parameters"], [p.tolist() for p in parameters], hint=hint)
        compare(f"the scale returned {after}", s["returned"], scale if good else scale / 2, hint=half)
    return "good steps are the unscaled ones; an inf or a nan skips one and halves the scale."


EXERCISES = {
    "01.1": Exercise(see_training_bytes, decide_training_bytes, world_sizes=(1,)),
    "01.2": Exercise(see_accumulate, decide_accumulate, world_sizes=(1,)),
    "01.3": Exercise(see_scaled_step, decide_scaled_step, world_sizes=(1,)),
}
