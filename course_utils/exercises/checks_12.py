"""Checks of chapter 12: what a layer saves, the best segment length, a checkpoint of one's own."""

import sys
import weakref
from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.exercises.judging import Exercise, at_most, compare, reject

# 12.1 · b, s, h, a, kv, f, width, recompute. The last shape is Llama 3.1 405B: too large to measure

_LAYERS = [
    (*shape, recompute)
    for recompute in ("nothing", "gated", "layer")
    for shape in (
        (2, 64, 64, 4, 4, 104, 4),
        (1, 32, 48, 6, 1, 128, 2),
        (3, 128, 256, 8, 2, 704, 4),
        (1, 8192, 16384, 128, 8, 53248, 2),
    )
]


class _Operations(TorchDispatchMode):
    """Counts operations on tensors: the answer is arithmetic."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _layer(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str, **wrong: Any
) -> float:
    """The bytes; each of ``wrong`` replaces a part of the count by a mistaken one."""
    if recompute == "layer":
        return b * s * (wrong.get("layer", h * width))
    inputs = wrong.get("inputs", 4) * h + 2 * wrong.get("heads", kv) * (h // a)
    hidden = wrong.get("hidden", {"nothing": 4, "gated": 2}[recompute]) * f
    small = wrong.get("statistics", 2 * width) + wrong.get("logsumexp", 4 * a)
    return b * s * ((inputs + hidden) * width + small)


def see_layer_bytes(layer_bytes: Callable[..., Any]) -> dict[str, Any]:
    with _Operations() as operations:  # after a first one no more is asked, so that no huge layer is built
        came = [layer_bytes(*case) for case in _LAYERS if not operations.count]
    return {"came": came, "operations": operations.count}


def _layer_hint(came: Any, case: tuple[Any, ...]) -> str:
    """What to think of, by the mistake that gives this value."""
    b, s, h, a, kv, f, width, recompute = case
    if recompute == "layer":
        return "the whole layer is computed again: from what?"
    hidden = "which tensors of width f does backward of the gated part need?"
    if recompute == "gated":
        hidden = "a checkpoint keeps what goes into it: what does gated take?"
    guesses = [
        ({"logsumexp": 0, "statistics": 0}, "the small tensors count, too: see the list in section 1"),
        ({"logsumexp": 0}, "fused attention keeps a number for each head and token"),
        ({"statistics": 0}, "the norm keeps two numbers for each token"),
        ({"statistics": 8}, "the norm's mean and deviation have the layer's format"),
        ({"statistics": 4 * width}, "how many norms has this layer?"),
        ({"statistics": 4 * width, "inputs": 6}, "how many norms has this layer?"),
        ({"logsumexp": width * a}, "the log-sum-exp is float32 whatever the layer's format is"),
        ({"logsumexp": 4 * kv}, "each query head has a softmax of its own"),
        ({"heads": a}, "how wide are key and value with fewer heads?"),
        ({"inputs": 3}, "one tensor of the layer's width is missing: what does each part read?"),
        *(
            (
                {"inputs": n},
                "too many tensors of the layer's width: some are one storage with several readers, and the "
                "gradient of a sum needs neither summand",
            )
            for n in (5, 6, 7, 8)
        ),
        *(({"hidden": n}, hidden) for n in range(6)),
    ]
    for wrong, hint in guesses:
        if came == _layer(*case, **wrong) != _layer(*case):
            return hint
    weights = 2 * h * h + 2 * h * kv * h // a + 3 * h * f + h
    others = [
        (_layer(b, s, h, a, kv, f, 1, recompute, logsumexp=a), "these are numbers; bytes were asked for"),
        (_layer(*case) / width, "these are numbers; bytes were asked for"),
        (_layer(b, s, h, a, kv, f, 4, recompute), "a number has width bytes"),
        (_layer(1, *case[1:]), "there are b sequences of s tokens"),
        (_layer(b, s, h, a, kv, 4 * h, width, recompute), "the feed-forward's width is f"),
        (_layer(*case) + weights * width, "parameters are held anyway: leave them out"),
    ]
    for wrong_bytes, hint in others:
        if came == wrong_bytes:
            return hint
    return f"make the list of section 1 for a ParallelLayer of width {h} and add it up for {b * s:,} tokens"


def decide_layer_bytes(seen: list[Any]) -> str:
    if seen[0]["operations"]:
        hint = "a layer that does not fit can't be measured: count"
        reject("the function computes with tensors", expected="arithmetic", hint=hint)
    for came, case in zip(seen[0]["came"], _LAYERS, strict=True):
        what = "b={}, s={}, h={}, a={}, kv={}, f={}, width={}, recompute {}".format(*case)
        compare(what, came, _layer(*case), hint=_layer_hint(came, case), tolerance=1e-12)
    return "every tensor of the layer is accounted for at any size; recomputing the gated part saves 2f."


# 12.2 · n_layers, input_bytes, layer_bytes

_CHAINS = (
    *((36, 1, 1), (32, 4, 60), (96, 1, 15), (128, 2, 2), (30, 1, 2), (17, 3, 3), (50, 7, 3), (200, 5, 9)),
    *((2, 1, 10), (23, 8, 8), (1, 1, 10), (4, 3, 1), (3, 10, 10)),
)


def _peak(n_layers: int, input_bytes: int, layer_bytes: int, k: int) -> int:
    sizes = [min(k, n_layers - first) for first in range(0, n_layers, k)]
    return max(j * input_bytes + size * layer_bytes for j, size in enumerate(sizes, 1))


def _best(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    best = min(range(1, n_layers + 1), key=lambda k: _peak(n_layers, input_bytes, layer_bytes, k))
    return best if _peak(n_layers, input_bytes, layer_bytes, best) < n_layers * layer_bytes else 0


def see_best_k(best_k: Callable[..., Any]) -> list[Any]:
    return [best_k(*case) for case in _CHAINS]


def _chain_hint(came: Any, case: tuple[int, int, int]) -> str:
    n, one, layer = case
    wanted, ks = _best(*case), range(1, n + 1)
    if wanted and came == ceil(n / wanted) and wanted != 1:
        return "is that the length of a segment, or the number of segments?"
    if came == _peak(*case, wanted or 1) and came > 1:
        return "is that a number of layers, or the peak?"
    if type(came) is not int or not 0 <= came <= n:
        return "k is a whole number of layers"
    if wanted == 0:
        return f"a plain step holds {n * layer} bytes: is the peak of k = {came} lower?"
    if came == 0:
        return f"a plain step holds {n * layer} bytes; try some k"
    if one != layer and came in (round(sqrt(n)), int(sqrt(n)), ceil(sqrt(n))):
        return "the square root of L is for layers that save as much as their input"
    if came == min(ks, key=lambda k: ceil(n / k) * one + k * layer):
        return "when the last, shorter segment's turn is over, one checkpoint fewer is held"
    if came == min((k for k in ks if n % k == 0), key=lambda k: n / k * one + k * layer):
        return "k need not divide the number of layers"
    return f"its peak is {_peak(*case, came)} bytes, and {_peak(*case, wanted)} is possible: list all k"


def decide_best_k(seen: list[Any]) -> str:
    for came, case in zip(seen[0], _CHAINS, strict=True):
        wanted = _best(*case)
        possible = type(came) is int and 1 <= came <= case[0]
        right = possible and _peak(*case, came) == _peak(*case, wanted) if wanted else came == 0
        if type(came) is not int or not right:  # several k may share the lowest peak
            message = "not the best k for {} layers, input {}, layer {} bytes".format(*case)
            reject(message, expected=wanted, came=came, hint=_chain_hint(came, case))
    return "the lowest peak for any depth and layer, and 0 where checkpoints only add to it."


# 12.3 · two segments in a row: a wide hidden layer, dropout, integers among the inputs, two with a gradient


def _library_is_calling() -> bool:
    """Whether torch.utils.checkpoint stands among the callers, by whatever name it was imported."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            return True
    return False


class _Segment(torch.nn.Module):
    """Notes each call, who called, and the storages of what it makes: two tensors inside and the output."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(6, 24), torch.nn.Linear(24, 6)
        self.dropout, self.calls, self.made, self.library = dropout, 0, [], False

    def forward(self, x: torch.Tensor, factor: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.library |= _library_is_calling()
        hidden = (self.up(x) + shift).tanh()
        dropped = torch.nn.functional.dropout(hidden, self.dropout, self.training)
        output = x + self.down(dropped) * factor
        self.made += [weakref.ref(t.untyped_storage()) for t in (hidden, dropped, output)]
        return output


def _plain(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    return function(*inputs)


def _step(wrap: Callable[..., Any], dropout: float) -> dict[str, Any]:
    torch.manual_seed(0)
    segments = torch.nn.ModuleList(_Segment(dropout) for _ in range(2)).double()
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    shift = torch.randn(24, dtype=torch.float64, requires_grad=True)
    factor = torch.tensor([1, 2, 3, 1, 2, 3])  # integers: no gradient is possible
    weights = torch.rand(5, 6, dtype=torch.float64)
    torch.manual_seed(1)
    y = x * 2
    for segment in segments:
        y = wrap(segment, y, factor, shift)
        if not isinstance(y, torch.Tensor) or y.shape != x.shape or not y.requires_grad:
            return {"output": None, "kind": type(y).__name__, "library": any(s.library for s in segments)}
    output = y.detach().clone()
    loss = (y * weights).sum()  # which saves weights, not y
    del y
    first, last = segments
    made = [*first.made[:2], *last.made]  # the first one's output is the second one's input
    alive = sum(storage() is not None for storage in made)
    forward_calls = [segment.calls for segment in segments]
    torch.rand(3)  # between forward and backward somebody draws
    loss.backward()
    leaves = {"input x": x, "the last input": shift} | dict(segments.named_parameters())
    gradients = {name: None if leaf.grad is None else leaf.grad.flatten() for name, leaf in leaves.items()}
    return {
        "output": output.flatten(),
        "alive": alive,
        "forward_calls": forward_calls,
        "calls": [segment.calls for segment in segments],
        "library": any(segment.library for segment in segments),
        "gradients": gradients,
        "random": torch.rand(3),
    }


def see_recomputed(recomputed: Callable[..., Any]) -> dict[str, Any]:
    cases = {"no dropout": 0.0, "dropout": 0.5}
    seen = {name: _step(recomputed, dropout) for name, dropout in cases.items()}
    return seen | {"plain": {name: _step(_plain, dropout) for name, dropout in cases.items()}}


_HINTS = {
    "no dropout": "backward of the second run, with the gradient that arrived, gives those of the inputs",
    "dropout": "right without dropout, wrong with it: which masks does the second run draw?",
}


def decide_recomputed(seen: list[Any]) -> str:
    s = seen[0]
    if any(s[name]["library"] for name in _HINTS):
        hint = "write it with torch.autograd.Function"
        reject("torch.utils.checkpoint ran the module", expected="never", hint=hint)
    for name, hint in _HINTS.items():
        came, plain = s[name], s["plain"][name]
        if came["output"] is None:
            cut = "a Function's forward returns the output, and apply connects it to the inputs"
            wanted = "a tensor that leads back to the inputs"
            reject(f"{name}: no output to train with", expected=wanted, came=came["kind"], hint=cut)
        same = "forward returns what module(*inputs) returns, drawing as it does"
        compare(f"{name}: the output", came["output"], plain["output"], hint=same)
        compare(f"{name}: calls of module in forward", came["forward_calls"], [1, 1], hint="one is enough")
        kept = "what module makes inside has to be gone after forward: record nothing, keep the inputs"
        at_most("tensors of module still held after forward", came["alive"], 0, hint=kept)
        once = "backward computes each segment again, once"
        compare(f"{name}: calls of module in the whole step", came["calls"], [2, 2], hint=once)
        for part, gradient in came["gradients"].items():
            if gradient is None:
                missing = "does backward of the second run go on to everything that module used?"
                reject(f"{name}: no gradient for {part}", expected="one", came="None", hint=missing)
            compare(f"{name}: the gradient of {part}", gradient, plain["gradients"][part], hint=hint)
        left = "whoever draws later must not notice that the module ran twice: who sets the random state?"
        compare(f"{name}: random numbers after backward", came["random"], plain["random"], hint=left)
    return "inputs kept, the rest computed again with the same masks, and the same gradients."


EXERCISES = {
    "12.1": Exercise(
        see_layer_bytes,
        decide_layer_bytes,
        world_sizes=(1,),
        timeout=10.0,
        timeout_hint="the largest layer asked about is of a model with 405 billion parameters: count",
    ),
    "12.2": Exercise(
        see_best_k,
        decide_best_k,
        world_sizes=(1,),
        timeout=10.0,
        timeout_hint="sometimes no k is below the plain step: does the search end?",
    ),
    "12.3": Exercise(
        see_recomputed,
        decide_recomputed,
        world_sizes=(1,),
        timeout=15.0,
        timeout_hint="backward runs module itself: what it calls must not be checkpointed again",
    ),
}
