"""Checks of chapter 15: linear layers and an attention that are spread over ranks.

Each is run forward and backward, takes one SGD step, and runs forward again: the output after the step shows
every parameter's gradient, however the parameters are called and cut.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.exercises.judging import Exercise, at_most, compare, reject
from course_utils.measure import count_operations, storage_bytes

_LINEARS = (
    (6, 10, True),
    (7, 8, False),
    (6, 3, True),
)  # n_in, n_out, bias; 3 outputs leave a rank of 4 without any
_ATTENTIONS = ((24, 6), (20, 5))  # C, n_head
_STEP = 0.05
_AFTER = "it was right before the step: which gradient is wrong, or counts once for each rank?"
_HEADS = (
    "a head has rows in three places of qkv.weight and qkv.bias, and columns of out.weight; then comes a sum"
)
_SLACK = 1.2  # of the numbers that a rank has to hold: room for an index, not for a whole layer


def _random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _linear(seed: int, n_in: int, n_out: int, bias: bool = True) -> nn.Linear:
    linear = nn.Linear(n_in, n_out, bias=bias).double()
    for i, p in enumerate(linear.parameters()):
        p.data = _random(100 * seed + i, *p.shape) / 2
    return linear


def _part(tensor: Tensor, dim: int, rank: int, world_size: int) -> Tensor:
    return tensor.tensor_split(world_size, dim)[rank]


def _agreed(good: bool) -> bool:
    """Whether it is good on all ranks: if one left, the others would wait for it in backward."""
    flag = torch.tensor(int(good))
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag)


def _see(module: Any, x: Tensor, weights: Tensor) -> dict[str, Any]:
    """weights: of the outputs in the loss, whose shape is the output's."""
    numbers = storage_bytes([list(vars(part).values()) for part in module.modules()]) / 8
    x = x.clone().requires_grad_()
    with count_operations() as forward:
        y = module(x)
    shape = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
    seen = {"numbers": numbers, "shape": shape, "wanted": list(weights.shape), "forward": forward.sequence}
    differentiable = isinstance(y, Tensor) and y.requires_grad
    if not _agreed(shape == seen["wanted"] and differentiable):
        return seen | {"differentiable": differentiable}
    with count_operations() as backward:
        (y * weights).sum().backward()
    before = y.detach().clone()
    with torch.no_grad():
        for p in module.parameters():
            if p.grad is not None:
                p -= _STEP * p.grad
        after = module(x.detach())
    grads = {"before": before, "gradient": x.grad, "after": after}
    return seen | grads | {"differentiable": True, "backward": backward.sequence}


def _serial(module: nn.Module, x: Tensor, weights: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    before = module(x)
    (before * weights).sum().backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= _STEP * p.grad
        return {"before": before.detach(), "gradient": x.grad, "after": module(x)}


def _decide_form(what: str, s: dict[str, Any], rank: int) -> None:
    shape = "every rank has its part of the features, and all of everything else"
    compare(f"{what}: shape of the output", s["shape"], s["wanted"], rank=rank, hint=shape)
    if not s["differentiable"]:
        hint = "no_grad, detach() and .data cut the graph: parameters are nn.Parameter, set in __init__"
        reject(f"{what}: the output does not lead back to parameters and input", rank=rank, hint=hint)


def _same(came: Any, wanted: Tensor) -> bool:
    try:
        return torch.allclose(torch.tensor(came, dtype=torch.float64), wanted, rtol=0, atol=1e-8)
    except (RuntimeError, TypeError, ValueError):  # not the form of a tensor, or of this one
        return False


def _decide(what: str, key: str, s: dict[str, Any], wanted: Tensor, rank: int, hint: str) -> None:
    compare(f"{what}: {key}", s[_KEYS[key]], wanted, rank=rank, hint=hint, tolerance=1e-8)


_KEYS = {
    "the output": "before",
    "the gradient of the input": "gradient",
    "the output after one SGD step": "after",
}


def _decide_held(what: str, s: dict[str, Any], numbers: int, rank: int) -> None:
    hint = "this rank's part only, as a copy: a view, or an attribute that keeps the layer, holds all of it"
    at_most(f"numbers held ({what})", s["numbers"], int(_SLACK * numbers) + 2, rank=rank, hint=hint)


def _decide_traffic(
    what: str, s: dict[str, Any], sizes: tuple[int, int], rank: int, hints: tuple[str, str]
) -> None:
    """sizes: numbers that the one collective of forward and of backward takes; 0: there is none."""
    for direction, size, hint in zip(("forward", "backward"), sizes, hints, strict=True):
        ran = s[direction]
        at_most(f"collectives in {direction} ({what})", len(ran), int(size > 0), rank=rank, hint=hint)
        came = sum(given for _, given in ran)
        at_most(f"bytes given to collectives in {direction} ({what})", came, 8 * size, rank=rank, hint=hint)


def _column_case(case: int) -> tuple[nn.Linear, Tensor, Tensor, str]:
    n_in, n_out, bias = _LINEARS[case]
    what = f"{n_in} inputs, {n_out} outputs" + ("" if bias else ", no bias")
    return (
        _linear(case, n_in, n_out, bias),
        _random(10 + case, 2, 3, n_in),
        _random(20 + case, 2, 3, n_out),
        what,
    )


def see_column(make: Callable[..., Any]) -> list[dict[str, Any]]:
    rank, world_size, seen = dist.get_rank(), dist.get_world_size(), []
    for case in range(len(_LINEARS)):
        linear, x, weights, _ = _column_case(case)
        seen.append(_see(make(linear), x, _part(weights, -1, rank, world_size)))
    return seen


def decide_column(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case in range(len(_LINEARS)):
        linear, x, weights, what = _column_case(case)
        partial = [_own_gradient(linear, weights, rank, world_size) for rank in range(world_size)]
        numbers = sum(_part(p, 0, 0, world_size).numel() for p in linear.parameters())
        wanted = _serial(linear, x, weights)
        for rank, s in enumerate(s[case] for s in seen):
            _decide_form(what, s, rank)
            output = "this rank's rows of nn.Linear's weight, and its part of the bias, once"
            if _same(s["before"], _part(wanted["before"] - _bias(case), -1, rank, world_size)):
                output = "where is the bias?"
            _decide(what, "the output", s, _part(wanted["before"], -1, rank, world_size), rank, output)
            gradient = "every rank needs the whole gradient of x: what have the ranks to do with their own?"
            if _same(s["gradient"], partial[rank]):
                gradient = (
                    "that is the gradient through this rank's outputs only; the others' outputs saw x, too"
                )
            _decide(what, "the gradient of the input", s, wanted["gradient"], rank, gradient)
            after = "weights and biases have to be parameters, and get the gradient of their own outputs"
            _decide(
                what,
                "the output after one SGD step",
                s,
                _part(wanted["after"], -1, rank, world_size),
                rank,
                after,
            )
            forward = "the outputs stay where they are"
            backward = "one sum, of tensors of x's shape"
            _decide_held(what, s, numbers, rank)
            _decide_traffic(what, s, (0, x.numel()), rank, (forward, backward))
    return "parts forward, one sum backward, nobody holds more than its part; one without outputs sums, too."


def _bias(case: int) -> Tensor:
    bias = _column_case(case)[0].bias
    return torch.zeros(()) if bias is None else bias.detach()


def _own_gradient(linear: nn.Linear, weights: Tensor, rank: int, world_size: int) -> Tensor:
    own, rows = _part(weights, -1, rank, world_size), _part(linear.weight.detach(), 0, rank, world_size)
    return own @ rows


def see_row(make: Callable[..., Any]) -> list[dict[str, Any]]:
    rank, world_size, seen = dist.get_rank(), dist.get_world_size(), []
    for case in range(len(_LINEARS)):
        linear, x, weights, _ = _row_case(case)
        seen.append(_see(make(linear), _part(x, -1, rank, world_size), weights))
    return seen


def _row_case(case: int) -> tuple[nn.Linear, Tensor, Tensor, str]:
    n_out, n_in, bias = _LINEARS[case]  # here it is the inputs that don't divide
    what = f"{n_in} inputs, {n_out} outputs" + ("" if bias else ", no bias")
    return (
        _linear(case, n_in, n_out, bias),
        _random(10 + case, 2, 3, n_in),
        _random(20 + case, 2, 3, n_out),
        what,
    )


def decide_row(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case in range(len(_LINEARS)):
        linear, x, weights, what = _row_case(case)
        bias = torch.zeros(()) if linear.bias is None else linear.bias.detach().clone()
        numbers = _part(linear.weight, 1, 0, world_size).numel() + bias.numel()
        products = [_row_product(linear, x, rank, world_size) for rank in range(world_size)]
        wanted = _serial(linear, x, weights)
        for rank, s in enumerate(s[case] for s in seen):
            _decide_form(what, s, rank)
            output = _row_hint(s["before"], wanted["before"], bias, products[rank], world_size)
            _decide(what, "the output", s, wanted["before"], rank, output)
            gradient = "the gradient of the output is whole on every rank: what is left to communicate?"
            _decide(
                what,
                "the gradient of the input",
                s,
                _part(wanted["gradient"], -1, rank, world_size),
                rank,
                gradient,
            )
            after = _AFTER
            _decide(what, "the output after one SGD step", s, wanted["after"], rank, after)
            _decide_held(what, s, numbers, rank)
            forward = "one sum, of tensors of the output's shape; the bias needs no messages"
            backward = "the gradient of the output is whole on every rank: nothing is left to communicate"
            _decide_traffic(what, s, (wanted["before"].numel(), 0), rank, (forward, backward))
    return "one sum forward, nothing backward, and the bias is in it once, before and after a step."


def _row_product(linear: nn.Linear, x: Tensor, rank: int, world_size: int) -> Tensor:
    return _part(x, -1, rank, world_size) @ _part(linear.weight.detach(), 1, rank, world_size).T


def _row_hint(came: Any, wanted: Tensor, bias: Tensor, product: Tensor, world_size: int) -> str:
    """What an output that is wrong was computed from."""
    if _same(came, wanted + (world_size - 1) * bias):
        return "the bias is in it once for each rank"
    if _same(came, wanted - bias):
        return "where is the bias?"
    if _same(came, product + bias) or _same(came, product):
        return "that is this rank's partial sum"
    return "this rank's columns of nn.Linear's weight meet its inputs; the sum over ranks is the output"


class _Attention(nn.Module):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int, causal: bool = True) -> None:
        super().__init__()
        self.qkv, self.out, self.n_head, self.causal = qkv, out, n_head, causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


def _attention_case(case: int) -> tuple[tuple[nn.Linear, nn.Linear, int], Tensor, Tensor, str]:
    C, n_head = _ATTENTIONS[case]
    layers = _linear(50 + case, C, 3 * C), _linear(60 + case, C, C), n_head
    return (
        layers,
        _random(30 + case, 2, 5, C),
        _random(40 + case, 2, 5, C),
        f"{n_head} heads of {C // n_head}",
    )


def see_attention(make: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for case in range(len(_ATTENTIONS)):
        layers, x, weights, _ = _attention_case(case)
        seen.append(_see(make(*layers), x, weights))
    return seen


def decide_attention(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case, (C, n_head) in enumerate(_ATTENTIONS):
        (qkv, out, _), x, weights, what = _attention_case(case)
        bias, parts = out.bias.detach().clone(), _part(torch.arange(n_head), 0, 0, world_size)
        with torch.no_grad():
            everywhere = _Attention(qkv, out, n_head, causal=False)(x)
        wanted = _serial(_Attention(qkv, out, n_head), x, weights)
        for rank, s in enumerate(s[case] for s in seen):
            _decide_form(what, s, rank)
            output = _attention_hint(s["before"], wanted["before"], bias, everywhere, world_size)
            _decide(what, "the output", s, wanted["before"], rank, output)
            gradient = "x goes into all heads, also those of other ranks"
            _decide(what, "the gradient of the input", s, wanted["gradient"], rank, gradient)
            after = _AFTER
            _decide(what, "the output after one SGD step", s, wanted["after"], rank, after)
            own = len(parts) * (C // n_head)  # rank 0 has most heads
            _decide_held(what, s, 3 * own * (C + 1) + own * C + C, rank)
            once = "one all-reduce each way, of tensors of x's shape: what stands between the pair needs none"
            _decide_traffic(what, s, (x.numel(), x.numel()), rank, (once, once))
    return "whole heads on each rank, also where their number does not divide, and one sum each way."


def _attention_hint(came: Any, wanted: Tensor, bias: Tensor, everywhere: Tensor, world_size: int) -> str:
    if _same(came, wanted + (world_size - 1) * bias):
        return "the bias of out is in it once for each rank"
    if _same(came, wanted - bias):
        return "where is the bias of out?"
    if _same(came, everywhere):
        return "causal: a position does not see later ones"
    return _HEADS


EXERCISES = {
    "15.1": Exercise(see_column, decide_column, world_sizes=(4, 3), timeout=10.0),
    "15.2": Exercise(see_row, decide_row, world_sizes=(4, 3), timeout=10.0),
    "15.3": Exercise(see_attention, decide_attention, world_sizes=(4, 3), timeout=10.0),
}
