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

_SHAPES = (
    (6, 10, True),
    (7, 8, False),
    (6, 3, True),
)  # whole features, cut ones, bias; 3: none for rank 3 of 4
_ATTENTIONS = ((24, 6), (20, 5))  # C, n_head
_STEP = 0.05
_SLACK = 1.2  # of the numbers that a rank has to hold: room for an index, not for a whole layer
_KEYS = {
    "before": "the output",
    "gradient": "the gradient of the input",
    "after": "the output after one SGD step",
}
_AFTER = "it was right before the step: which gradient is wrong, or counts once for each rank?"
_AGAIN = "it is summed up once too often"
_CUT = "no_grad, detach() and .data cut the graph: parameters are nn.Parameter, set in __init__"
_LOST = "backward has to reach the input: detach(), .data and what was sent as data cut the graph"
_HELD = "this rank's part only, as a copy: a view, or an attribute that keeps the layer, holds all of it"


def _random(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _linear(seed: int, n_in: int, n_out: int, bias: bool = True) -> nn.Linear:
    linear = nn.Linear(n_in, n_out, bias=bias).double()
    for i, p in enumerate(linear.parameters()):
        p.data = _random(100 * seed + i, *p.shape) / 2
    return linear


def _part(tensor: Tensor, dim: int, rank: int, world_size: int) -> Tensor:
    return tensor.tensor_split(world_size, dim)[rank]


def _bias(linear: nn.Linear) -> Tensor:
    return torch.zeros(()) if linear.bias is None else linear.bias.detach().clone()


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
    seen["differentiable"] = isinstance(y, Tensor) and y.requires_grad
    if not _agreed(shape == seen["wanted"] and seen["differentiable"]):
        return seen
    with count_operations() as backward:
        (y * weights).sum().backward()
    before = y.detach().clone()
    with torch.no_grad():
        for p in module.parameters():
            if p.grad is not None:
                p -= _STEP * p.grad
        after = module(x.detach())
    return seen | {"before": before, "gradient": x.grad, "after": after, "backward": backward.sequence}


def _serial(module: nn.Module, x: Tensor, weights: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    before = module(x)
    (before * weights).sum().backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= _STEP * p.grad
        return {"before": before.detach(), "gradient": x.grad, "after": module(x)}


def _same(came: Any, wanted: Tensor) -> bool:
    try:
        return torch.allclose(torch.as_tensor(came, dtype=torch.float64), wanted, rtol=0, atol=1e-8)
    except (RuntimeError, TypeError, ValueError):  # None, or another shape
        return False


def _decide(
    what: str,
    s: dict[str, Any],
    rank: int,
    wanted: dict[str, Tensor],
    hint: Callable[[str, Any], str],
    numbers: int,
    traffic: dict[str, tuple[int, str]],
) -> None:
    """wanted: this rank's. numbers: that a rank holds. traffic: how many the one collective of a direction
    takes, or 0 where there is none, and a hint."""
    shape = "every rank has its part of the features that are cut, and all of everything else"
    compare(f"{what}: shape of the output", s["shape"], s["wanted"], rank=rank, hint=shape)
    if not s["differentiable"]:
        reject(f"{what}: the output does not lead back to parameters and input", rank=rank, hint=_CUT)
    for key, named in _KEYS.items():
        if s[key] is None:
            reject(f"{what}: {named} does not exist", rank=rank, hint=_LOST)
        tokens = wanted[key].flatten(0, 1)
        came = torch.tensor(s[key], dtype=torch.float64).reshape(tokens.shape)
        for i, (row, token) in enumerate(zip(came, tokens, strict=True)):  # one token can be read
            if not _same(row, token):
                of = f"{what}: {named}, token {i}"
                compare(of, row.tolist(), token, rank=rank, hint=hint(key, s[key]), tolerance=1e-8)
    at_most(f"numbers held ({what})", s["numbers"], int(_SLACK * numbers) + 2, rank=rank, hint=_HELD)
    for direction, (size, why) in traffic.items():
        at_most(f"collectives in {direction} ({what})", len(s[direction]), int(size > 0), rank=rank, hint=why)
        given = sum(given for _, given in s[direction])
        at_most(f"bytes given to collectives in {direction} ({what})", given, 8 * size, rank=rank, hint=why)


def _named(n_in: int, n_out: int, bias: bool) -> str:
    return f"{n_in} inputs, {n_out} outputs" + ("" if bias else ", no bias")


def see_column(make: Callable[..., Any]) -> list[dict[str, Any]]:
    rank, world_size, seen = dist.get_rank(), dist.get_world_size(), []
    for case, (n_in, n_out, bias) in enumerate(_SHAPES):
        x, weights = _random(10 + case, 2, 3, n_in), _random(20 + case, 2, 3, n_out)
        linear = _linear(case, n_in, n_out, bias)
        seen.append(_see(make(linear), x, _part(weights, -1, rank, world_size)))
    return seen


def decide_column(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case, (n_in, n_out, bias) in enumerate(_SHAPES):
        x, weights = _random(10 + case, 2, 3, n_in), _random(20 + case, 2, 3, n_out)
        linear = _linear(case, n_in, n_out, bias)
        matrix, offset = linear.weight.detach().clone(), _bias(linear)
        numbers = sum(_part(p, 0, 0, world_size).numel() for p in linear.parameters())
        whole = _serial(linear, x, weights)
        for rank, s in enumerate(s[case] for s in seen):
            own = {key: _part(whole[key], -1, rank, world_size) for key in ("before", "after")}
            mistakes = {
                "where is the bias?": _part(whole["before"] - offset, -1, rank, world_size),
                "that is the gradient through this rank's outputs only; the others saw x, too": (
                    _part(weights, -1, rank, world_size) @ _part(matrix, 0, rank, world_size)
                ),
                _AGAIN: world_size * whole["gradient"],
            }
            others = {
                "before": "this rank's rows of nn.Linear's weight, and its part of the bias, once",
                "gradient": "every rank needs the whole gradient: what have the ranks to do with their own?",
                "after": "weight and bias are parameters, and get the gradient of their own outputs",
            }
            hint = _hints(mistakes, others)
            traffic = {
                "forward": (0, "the outputs stay where they are"),
                "backward": (x.numel(), "one sum, of tensors of x's shape"),
            }
            _decide(_named(n_in, n_out, bias), s, rank, whole | own, hint, numbers, traffic)
    return "parts forward, one sum backward, nobody holds more than its part; one without outputs sums, too."


def see_row(make: Callable[..., Any]) -> list[dict[str, Any]]:
    rank, world_size, seen = dist.get_rank(), dist.get_world_size(), []
    for case, (n_out, n_in, bias) in enumerate(_SHAPES):
        x, weights = _random(10 + case, 2, 3, n_in), _random(20 + case, 2, 3, n_out)
        linear = _linear(case, n_in, n_out, bias)
        seen.append(_see(make(linear), _part(x, -1, rank, world_size), weights))
    return seen


def decide_row(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    traffic_hint = "one sum, of tensors of the output's shape; the bias needs no messages"
    whole_hint = "the gradient of the output is whole on every rank: what is left to communicate?"
    for case, (n_out, n_in, bias) in enumerate(_SHAPES):
        x, weights = _random(10 + case, 2, 3, n_in), _random(20 + case, 2, 3, n_out)
        linear = _linear(case, n_in, n_out, bias)
        matrix, offset = linear.weight.detach().clone(), _bias(linear)
        numbers = _part(matrix, 1, 0, world_size).numel() + offset.numel()
        whole = _serial(linear, x, weights)
        for rank, s in enumerate(s[case] for s in seen):
            gradient = _part(whole["gradient"], -1, rank, world_size)
            product = _part(x, -1, rank, world_size) @ _part(matrix, 1, rank, world_size).T
            mistakes = {
                "the bias is in it once for each rank": whole["before"] + (world_size - 1) * offset,
                "where is the bias?": whole["before"] - offset,
                "that is this rank's partial sum": product + offset,
                "that is this rank's partial sum, without a bias": product,
                whole_hint: world_size * gradient,
            }
            others = {
                "before": "this rank's columns of nn.Linear's weight meet its inputs; then comes a sum",
                "gradient": "it comes from the whole output, through this rank's columns",
                "after": _AFTER,
            }
            hint = _hints(mistakes, others)
            traffic = {"forward": (whole["before"].numel(), traffic_hint), "backward": (0, whole_hint)}
            wanted = whole | {"gradient": gradient}
            _decide(_named(n_in, n_out, bias), s, rank, wanted, hint, numbers, traffic)
    return "one sum forward, nothing backward, and the bias is in it once, before and after a step."


def _hints(mistakes: dict[str, Tensor], others: dict[str, str]) -> Callable[[str, Any], str]:
    """The hint whose wrong value came, or the general one of what is wrong."""
    return lambda key, came: next(
        (hint for hint, value in mistakes.items() if _same(came, value)), others[key]
    )


class _Attention(nn.Module):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int, causal: bool = True) -> None:
        super().__init__()
        self.qkv, self.out, self.n_head, self.causal = qkv, out, n_head, causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


def _layers(case: int) -> tuple[nn.Linear, nn.Linear, int]:
    C, n_head = _ATTENTIONS[case]
    return _linear(50 + case, C, 3 * C), _linear(60 + case, C, C), n_head


def see_attention(make: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for case, (C, _) in enumerate(_ATTENTIONS):
        seen.append(_see(make(*_layers(case)), _random(30 + case, 2, 5, C), _random(40 + case, 2, 5, C)))
    return seen


def decide_attention(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    once = "one all-reduce each way, of tensors of x's shape: what stands between the pair needs none"
    for case, (C, n_head) in enumerate(_ATTENTIONS):
        x, weights = _random(30 + case, 2, 5, C), _random(40 + case, 2, 5, C)
        qkv, out, _ = _layers(case)
        offset = _bias(out)
        with torch.no_grad():
            everywhere = _Attention(qkv, out, n_head, causal=False)(x)
        wanted = _serial(_Attention(qkv, out, n_head), x, weights)
        mistakes = {
            "the bias of out is in it once for each rank": wanted["before"] + (world_size - 1) * offset,
            "where is the bias of out?": wanted["before"] - offset,
            "causal: a position does not see later ones": everywhere,
            _AGAIN: world_size * wanted["gradient"],
        }
        others = {
            "before": "a head has rows in three places of qkv's weight and bias, and columns of out's weight",
            "gradient": "x goes into all heads, also those of other ranks",
            "after": _AFTER,
        }
        own = -(-n_head // world_size) * (C // n_head)  # numbers of rank 0's heads, which has most
        numbers, traffic = (
            3 * own * (C + 1) + own * C + C,
            dict.fromkeys(("forward", "backward"), (x.numel(), once)),
        )
        for rank, s in enumerate(s[case] for s in seen):
            _decide(
                f"{n_head} heads of {C // n_head}",
                s,
                rank,
                wanted,
                _hints(mistakes, others),
                numbers,
                traffic,
            )
    return "whole heads on each rank, also where their number does not divide, and one sum each way."


EXERCISES = {
    "15.1": Exercise(see_column, decide_column, world_sizes=(4, 3), timeout=10.0),
    "15.2": Exercise(see_row, decide_row, world_sizes=(4, 3), timeout=10.0),
    "15.3": Exercise(see_attention, decide_attention, world_sizes=(4, 3), timeout=10.0),
}
