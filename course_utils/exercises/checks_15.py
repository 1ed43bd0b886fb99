"""Checks of chapter 15: linear layers and an attention that are spread over ranks.

Each is run forward and backward, takes one SGD step, and runs forward again: the output after the step shows
every parameter's gradient, however the parameters are called and cut.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

from course_utils.exercises.judging import Exercise, at_most, compare, reject
from course_utils.measure import count_operations, storage_bytes

_SHAPES = (
    (6, 10, True),
    (7, 8, False),
    (6, 3, True),
)  # whole features, cut ones (3: none for rank 3 of 4), bias
_ATTENTIONS = ((24, 6), (20, 5))  # C, n_head
_STEP = 0.05
_SLACK = 1.2  # of the numbers that a rank has to hold: room for an index, not for a whole layer
_KEYS = {
    "before": "the output",
    "gradient": "the gradient of the input",
    "after": "the output after one SGD step",
}
_AFTER = "it was right before the step: which gradient is wrong, or counts once for each rank?"
_ALONE_RIGHT = "the first token sees only itself, and is right: look at queries, keys, scale and mask"
_ALONE_WRONG = (
    "the first token sees only itself: its own values go through out. A head has rows in three places of "
    "qkv's weight and bias, and columns of out's weight; its dimensions go back to their order"
)
_AGAIN = "it is summed up once too often"
_CUT = "a rank without features, too; no_grad, detach() and .data cut the graph; parameters are nn.Parameter"
_LOST = "backward has to reach the input: detach(), .data and what was sent as data cut the graph"
_SPLIT = "the r-th part of tensor_split of the features that are cut, and all of everything else"
_TORCH = "parallelize_module cuts and communicates for you: here that is yours to write"
_MEANINGS = {  # of what torch says, where that is no help
    "index out of range": "chunk can make fewer parts than there are ranks, tensor_split makes one for each",
    "NoneType": "is it the bias? With bias=False there is none",
    "shapes cannot be multiplied": "nn.Linear's weight is (n_out, n_in), cut by tensor_split; leave x alone",
}
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


@contextmanager
def _explained() -> Iterator[None]:
    """Adds what an error means here to its text: a check has a hint only for what came back."""
    try:
        yield
    except (IndexError, AttributeError, TypeError, RuntimeError) as error:
        for text, meaning in _MEANINGS.items():
            if text in str(error):
                error.args = (f"{error} ({meaning})",)
        raise


def _see(make: Callable[..., Any], layers: tuple[Any, ...], x: Tensor, weights: Tensor) -> dict[str, Any]:
    """make: of a module, from layers. weights: of the outputs in the loss, whose shape is the output's."""
    with _explained():
        module = make(*layers)
    numbers = storage_bytes([list(vars(part).values()) for part in module.modules()]) / 8
    x = x.clone().requires_grad_()
    with count_operations() as forward, _explained():
        y = module(x)
    shape = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
    seen = {"numbers": numbers, "shape": shape, "wanted": list(weights.shape), "forward": forward.sequence}
    seen["differentiable"] = isinstance(y, Tensor) and y.requires_grad
    seen["torch"] = any(isinstance(p, DTensor) for p in module.parameters())
    good = shape == seen["wanted"] and seen["differentiable"] and not seen["torch"]
    apart = dist.new_group()  # a rank that skipped a sum must not answer the others' with our flag
    flag = torch.tensor(int(good))
    dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=apart)
    if not flag:  # on one rank: if only that one left, the others would wait for it in backward
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


def _decide_form(what: str, seen: list[dict[str, Any]]) -> None:
    """Of all ranks first: where one has no output that can be used, none went on to values."""
    for rank, s in enumerate(seen):
        if s["torch"]:
            reject(f"{what}: the parameters are DTensors", rank=rank, hint=_TORCH)
        compare(f"{what}: shape of the output", s["shape"], s["wanted"], rank=rank, hint=_SPLIT)
        if not s["differentiable"]:
            reject(f"{what}: the output does not lead back to parameters and input", rank=rank, hint=_CUT)


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
        seen.append(_see(make, (linear,), x, _part(weights, -1, rank, world_size)))
    return seen


def decide_column(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for case, (n_in, n_out, bias) in enumerate(_SHAPES):
        x, weights = _random(10 + case, 2, 3, n_in), _random(20 + case, 2, 3, n_out)
        linear = _linear(case, n_in, n_out, bias)
        matrix, offset = linear.weight.detach().clone(), _bias(linear)
        numbers = sum(_part(p, 0, 0, world_size).numel() for p in linear.parameters())
        whole = _serial(linear, x, weights)
        _decide_form(_named(n_in, n_out, bias), [s[case] for s in seen])
        for rank, s in enumerate(s[case] for s in seen):
            own = {key: _part(whole[key], -1, rank, world_size) for key in ("before", "after")}
            own_gradient = _part(weights, -1, rank, world_size) @ _part(matrix, 0, rank, world_size)
            mistakes = [
                ("where is the bias?", _part(whole["before"] - offset, -1, rank, world_size)),
                ("this rank's outputs only gave that; the other ranks saw x, too", own_gradient),
                (_AGAIN, world_size * whole["gradient"]),
            ]
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
        seen.append(_see(make, (linear,), _part(x, -1, rank, world_size), weights))
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
        _decide_form(_named(n_in, n_out, bias), [s[case] for s in seen])
        for rank, s in enumerate(s[case] for s in seen):
            gradient = _part(whole["gradient"], -1, rank, world_size)
            product = _part(x, -1, rank, world_size) @ _part(matrix, 1, rank, world_size).T
            mistakes = [
                ("the bias is in it once for each rank", whole["before"] + (world_size - 1) * offset),
                ("where is the bias?", whole["before"] - offset),
                ("that is this rank's partial sum", product + offset),
                ("that is this rank's partial sum, without a bias", product),
                (whole_hint, world_size * gradient),
            ]
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


def _hints(mistakes: list[tuple[str, Tensor]], others: dict[str, str]) -> Callable[[str, Any], str]:
    """The hint whose wrong value came, or the general one of what is wrong."""
    return lambda key, came: next((hint for hint, value in mistakes if _same(came, value)), others[key])


def _attended(
    qkv: nn.Linear, x: Tensor, heads: list[slice], scales: list[float] | None = None, causal: bool = True
) -> Tensor:
    """heads: of the C numbers. scales: of each head's scores; None: as it should be. Returns (B, T, C)."""
    parts = qkv(x).chunk(3, -1)
    return torch.cat(
        [
            F.scaled_dot_product_attention(
                *(part[..., head] for part in parts), is_causal=causal, scale=scale
            )
            for head, scale in zip(heads, scales or [None] * len(heads), strict=True)
        ],
        -1,
    )


class _Attention(nn.Module):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, heads: list[slice]) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = qkv, out, heads

    def forward(self, x: Tensor) -> Tensor:
        return self.out(_attended(self.qkv, x, self.heads))


def _layers(case: int) -> tuple[nn.Linear, nn.Linear, int]:
    C, n_head = _ATTENTIONS[case]
    return _linear(50 + case, C, 3 * C), _linear(60 + case, C, C), n_head


def _slices(first: int, last: int, width: int) -> list[slice]:
    return [slice(start, start + width) for start in range(first, last, width)]


@torch.no_grad()
def _attention_mistakes(case: int, x: Tensor, world_size: int) -> list[tuple[str, Tensor]]:
    """Wrong outputs that are the same on all ranks."""
    qkv, out, n_head = _layers(case)
    C = out.in_features
    width, heads = C // n_head, _slices(0, C, C // n_head)
    owned = [len(own) for own in torch.arange(n_head).tensor_split(world_size)]  # heads of each rank
    ends = [sum(owned[: rank + 1]) * width for rank in range(world_size)]
    fewer = n_head // world_size  # heads on every rank, or so some think: view then makes wider ones
    wide = [
        head
        for n, end in zip(owned, ends, strict=True)
        if n % fewer == 0
        for head in _slices(end - n * width, end, n * width // fewer)
    ]
    mixed, bias, kept = _attended(qkv, x, heads), out.bias, fewer * world_size * width
    right = out(mixed)
    scales = [[scale] * n_head for scale in (1.0, 1 / width, C**-0.5)]
    scales.append([(n * width) ** -0.5 for n in owned for _ in range(n)])
    same = "not every rank has n_head // world_size heads"
    return [
        (same, mixed[..., :kept] @ out.weight[:, :kept].T + bias),
        ("the bias of out is in it once for each rank", right + (world_size - 1) * bias),
        ("where is the bias of out?", right - bias),
        ("causal: a position does not see later ones", out(_attended(qkv, x, heads, causal=False))),
        ("that is the mean of the ranks' partial sums", (right - bias) / world_size + bias),
        *(("the scale: how wide is one head?", out(_attended(qkv, x, heads, scale))) for scale in scales),
        *([(same, out(_attended(qkv, x, wide)))] if sum(h.stop - h.start for h in wide) == C else []),
    ]


def see_attention(make: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for case, (C, _) in enumerate(_ATTENTIONS):
        seen.append(_see(make, _layers(case), _random(30 + case, 2, 5, C), _random(40 + case, 2, 5, C)))
    return seen


def decide_attention(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    once = "one all-reduce each way, of tensors of x's shape: what stands between the pair needs none"
    for case, (C, n_head) in enumerate(_ATTENTIONS):
        x, weights = _random(30 + case, 2, 5, C), _random(40 + case, 2, 5, C)
        qkv, out, _ = _layers(case)
        width, named = C // n_head, f"{n_head} heads of {C // n_head}"
        heads = _slices(0, C, width)
        with torch.no_grad():
            mixed = _attended(qkv, x, heads)
            matrix, bias = out.weight.clone(), out.bias.clone()
        wanted = _serial(_Attention(qkv, out, heads), x, weights)
        mistakes = _attention_mistakes(case, x, world_size)
        mistakes.append((_AGAIN, world_size * wanted["gradient"]))
        others = {"gradient": "x goes into all heads, also those of other ranks", "after": _AFTER}
        most = -(-n_head // world_size) * width  # numbers of rank 0's heads
        numbers = 3 * most * (C + 1) + most * C + C
        traffic = dict.fromkeys(("forward", "backward"), (x.numel(), once))
        _decide_form(named, [s[case] for s in seen])
        for rank, s in enumerate(s[case] for s in seen):
            partial = _part(torch.arange(n_head), 0, rank, world_size)
            mine = slice(int(partial[0]) * width, (int(partial[-1]) + 1) * width)
            part = mixed[..., mine] @ matrix[:, mine].T
            sums = [("that is this rank's partial sum", part + b) for b in (bias, torch.zeros(()))]
            alone = _same([row[0] for row in s["before"]], wanted["before"][:, 0])
            others["before"] = _ALONE_RIGHT if alone else _ALONE_WRONG
            _decide(named, s, rank, wanted, _hints(mistakes + sums, others), numbers, traffic)
    return "whole heads on each rank, also where their number does not divide, and one sum each way."


EXERCISES = {
    "15.1": Exercise(see_column, decide_column, world_sizes=(4, 3), timeout=10.0),
    "15.2": Exercise(see_row, decide_row, world_sizes=(4, 3), timeout=10.0),
    "15.3": Exercise(see_attention, decide_attention, world_sizes=(4, 3), timeout=10.0),
}
