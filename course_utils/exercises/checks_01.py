"""Checks of chapter 01: bytes held, gradient accumulation, a step of loss scaling."""

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import measure
from course_utils.exercises.judging import Exercise, at_most, compare, plain, reject
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


@contextmanager
def _case(name: str) -> Iterator[None]:
    """An error of the student's function says in which case it came up."""
    try:
        yield
    except Exception as error:
        if error.args:  # the stub's has none
            error.args = (f"{error} ({name})",)
        raise


# 01.1 · a case: what is special in it, and what to think of where the answer differs

_WEIGHED = {
    "after a step of AdamW": "add up the storages that are there: optimizer.state holds more than m and v",
    "before the first step": "nothing has run: what is in model, in p.grad, and in optimizer.state?",
    "after a step of SGD with momentum": "the state differs from optimizer to optimizer: look what is in it",
    "where head and token table share one matrix": "two parameters, one storage",
    "where the token table is frozen": "a parameter that needs no gradient has None in .grad",
    "where all gradients are views of one padded buffer": "one storage: it counts once, and all of it",
    "with parameters in bf16": "not every number takes 4 bytes",
    "with a buffer in the model": "a buffer is in model.state_dict(), but it is not a parameter",
}


def _weighed() -> Iterator[tuple[str, nn.Module, torch.optim.Optimizer]]:
    """The cases, one after the other."""
    for name in _WEIGHED:
        model = _model(torch.bfloat16 if "bf16" in name else torch.float32)
        if "one matrix" in name:
            model.head.weight = nn.Parameter(model.embedding.token.weight.data)
        model.embedding.token.weight.requires_grad_("frozen" not in name)
        if "with a buffer" in name:
            model.register_buffer("average", torch.zeros(64))
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
    seen = {}
    for name, model, optimizer in _weighed():
        with _case(name):
            seen[name] = training_bytes(model, optimizer)
    return seen


def decide_training_bytes(seen: list[dict[str, Any]]) -> str:
    for name, model, optimizer in _weighed():
        parts = (measure.parameter_bytes(model), measure.gradient_bytes(model))
        wanted = (*parts, measure.optimizer_bytes(optimizer))
        came, three = seen[0][name], "parameters, gradients, state"
        if came is not None and not (isinstance(came, list) and len(came) == 3):
            reject("not three numbers", expected=f"a tuple: bytes of {three}", came=came)
        pairs = zip(three.split(", "), came or (), wanted, strict=False)
        wrong = ", ".join(part for part, c, w in pairs if c != w)
        compare(f"{wrong or three} {name}", came, wanted, hint=_WEIGHED[name], tolerance=0)
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
        calls: list[bool] = []
        model.register_forward_pre_hook(lambda *_: calls.append(True))  # noqa: B023 called at once
        with _case(f"B = {size}, k = {k}"):
            peak = _peak(lambda: accumulate(model, x, y, k))  # noqa: B023 called at once
        moved = any(not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        gradient = _gradient(model)[::97]  # some of its numbers stand for all
        seen.append({"gradient": gradient, "peak": peak, "calls": len(calls), "moved": moved})
    return seen


def _gradient_hint(came: Tensor, wanted: Tensor, hint: str) -> str:
    """What to think of first, where the case's own hint would lead astray."""
    if not came.any():
        return "p.grad is empty: what fills it?"
    if torch.allclose(came, came.norm() / wanted.norm() * wanted):
        return hint
    return f"{hint} Is each micro-batch's share still in p.grad at the end?" if hint.endswith("?") else hint


def decide_accumulate(seen: list[list[dict[str, Any]]]) -> str:
    for (size, k, _, hint), s in zip(_ACCUMULATED, seen[0], strict=True):
        model, (x, y) = _model(torch.float64), _batch(size)
        _loss(model, x, y).backward()
        case = f"B = {size}, k = {k}"
        if s["moved"]:
            reject(f"the parameters changed for {case}", hint="update nothing: that is left to the caller")
        wanted = _gradient(model)[::97]
        hint = _gradient_hint(torch.tensor(s["gradient"], dtype=wanted.dtype), wanted, hint)
        compare(f"the gradient for {case}", s["gradient"], wanted, hint=hint, tolerance=1e-9)
        few = math.ceil(size / k)
        limit = _peak(lambda: _loss(model, x[:few], y[:few]))  # noqa: B023 called at once
        one = f"{few} sequences are one micro-batch, and backward frees what it has used"
        at_most(f"bytes of activations at one time for {case}", s["peak"], 1.05 * limit, hint=one)
        small = f"micro-batches may have {few} sequences: smaller ones leave the hardware idle"
        at_most(f"calls of the model for {case}", s["calls"], k, hint=small)
    return "the batch's gradient, for the activations of one micro-batch."


# 01.3 · an optimizer with momentum; a step: scale, the gradients of two parameters, what to think of

_USUAL = (0.5, -1.0)
_SCALED = (
    (65536.0, _USUAL, (2.0, 1.0), "the gradients are those of loss · scale"),
    (65536.0, _USUAL, (2.0, 1.0), "what else than lr · gradient is in a step of this optimizer?"),
    (65536.0, _USUAL, (2.0, math.inf), "one gradient held an inf"),
    (32768.0, _USUAL, (2.0, 1.0), "after an overflow: had the skipped step left something behind?"),
    (32768.0, (math.nan, -1.0), (2.0, 1.0), "one gradient held a nan"),
    (16384.0, _USUAL, (-math.inf, 1.0), "one gradient held a -inf"),
    (8192.0, _USUAL, (2.0, -2.0), "after a skipped step all goes on as before"),
    (8192.0, _USUAL, (2.0**114, 2.0**114), "large gradients are gradients"),  # scaled, 2¹²⁷
)


def _start() -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
    first, second, unused = parameters = [nn.Parameter(torch.full((2,), start)) for start in (1.0, 2.0, 3.0)]
    groups = [
        {"params": [first]},
        {"params": [second], "lr": 0.25},
        {"params": [unused], "weight_decay": 0.5},
    ]
    return parameters, torch.optim.SGD(groups, lr=0.5, momentum=0.5)


def _now(parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    state = [optimizer.state.get(p, {}).get("momentum_buffer") for p in parameters]
    return {"parameters": [p.tolist() for p in parameters], "state": plain(state)}  # a copy


def see_scaled_step(scaled_step: Callable[..., Any]) -> list[dict[str, Any]]:
    parameters, optimizer = _start()
    given: list[list[Any]] = []  # the gradients of two parameters that optimizer.step() met, step by step
    optimizer.register_step_pre_hook(lambda *_: given.append(plain([p.grad for p in parameters[:2]])))
    seen = []
    for number, (scale, *gradients, _) in enumerate(_SCALED, 1):
        given.clear()
        for p, gradient in zip(parameters, gradients, strict=False):  # the third has none
            p.grad = scale * torch.tensor(gradient)
        with _case(f"step {number} of {len(_SCALED)}"):
            returned = scaled_step(optimizer, scale)
        seen.append({"returned": returned, "steps": list(given), **_now(parameters, optimizer)})
    return seen


def _step_hint(steps: list[Any], gradients: list[Any], good: bool, hint: str) -> str:
    """What to think of where a step ended elsewhere: had optimizer.step() to run, and what did it meet?"""
    if not good:
        return f"{hint}: nothing may change" + (", but optimizer.step() ran" if steps else "")
    if not steps:
        return "optimizer.step() did not run, though no gradient held an inf or a nan"
    if steps[-1] != gradients:
        return "optimizer.step() met other gradients than the loss has without scale: look into all p.grad"
    return hint


def decide_scaled_step(seen: list[list[dict[str, Any]]]) -> str:
    parameters, optimizer = _start()  # does the good steps only, unscaled
    half = "the same scale after a good step, half of it after a skipped one"
    without = "a parameter whose .grad is None takes no part in the step"
    for number, ((scale, *gradients, hint), s) in enumerate(zip(_SCALED, seen[0], strict=True), 1):
        values = torch.tensor(gradients)
        if good := bool(values.isfinite().all()):
            for p, gradient in zip(parameters, values, strict=False):
                p.grad = gradient.clone()
            optimizer.step()
        wanted = _now(parameters, optimizer)
        hint = _step_hint(s["steps"], values.tolist(), good, hint)
        after = f"after step {number} of {len(_SCALED)}, with scale {scale:.0f}"
        for what, name in (("the parameters", "parameters"), ("the optimizer's momentum", "state")):
            compare(f"{what} {after}", s[name][:2], wanted[name][:2], hint=hint)
            compare(f"{what} without a gradient {after}", s[name][2], wanted[name][2], hint=without)
        compare(f"the scale returned {after}", s["returned"], scale if good else scale / 2, hint=half)
    return "good steps are the unscaled ones; an inf or a nan skips one and halves the scale."


EXERCISES = {
    "01.1": Exercise(see_training_bytes, decide_training_bytes, world_sizes=(1,)),
    "01.2": Exercise(see_accumulate, decide_accumulate, world_sizes=(1,)),
    "01.3": Exercise(see_scaled_step, decide_scaled_step, world_sizes=(1,)),
}
