"""Checks of chapter 11: what to wrap, one gathering for many micro-batches, the peak of memory."""

from collections.abc import Callable, Sequence
from itertools import accumulate as running_sums
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import fsdp
from torch.distributed.tensor import DTensor

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, reject
from course_utils.measure import count_operations, parameter_bytes

# 11.1 · widths of the layers (of which 2 and 4 divide all), limit

_LAYERS = (
    ((32, 64, 64, 64, 16, 16, 32, 8), 4_600),
    ((16, 16, 32, 64, 32, 16, 16, 16, 16), 2_820),  # weights without biases would let three in
    ((64, 64, 8, 64, 64, 8, 8), 2_000),  # two layers are larger than the limit, the first and one inside
    ((16, 16, 16, 16, 16, 16, 16), 816),  # to the parameter
    ((16, 16, 16, 16, 16), 100_000),
)


def _layers(case: int) -> nn.Sequential:
    torch.manual_seed(case)
    return nn.Sequential(*(nn.Linear(n, m).double() for n, m in pairwise(_LAYERS[case][0])))


def _sizes(case: int) -> list[int]:
    return [n * m + m for n, m in pairwise(_LAYERS[case][0])]


def _batch(case: int, rank: int, rows: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(100 * case + rank)
    return torch.randn(rows, _LAYERS[case][0][0], generator=generator, dtype=torch.float64)


def _gathered(operations: Any) -> list[int]:
    """Parameters of the units that were gathered, in order: a gathering's input is one rank's piece."""
    world_size = dist.get_world_size()
    return [size // 8 * world_size for name, size in operations.sequence if name.endswith("all_gather")]


def _reduced(operations: Any) -> list[int]:
    return [size // 8 for name, size in operations.sequence if not name.endswith("all_gather")]


def _whole(t: Tensor | None) -> Tensor | None:
    return t.full_tensor() if isinstance(t, DTensor) else t


_WHOLE_FIRST = "fully_shard stopped at a part, after layers itself"
_ELSEWHERE = "fully_shard took layers in a container that layers does not hold"


def see_units(shard_in_units: Callable[..., Any]) -> list[dict[str, Any]] | str:
    seen = []
    for case, (_, limit) in enumerate(_LAYERS):
        layers = _layers(case)
        same = list(layers)
        try:
            shard_in_units(layers, limit)
        except TypeError:  # torch's own words for it are of no help to a student
            if isinstance(layers, fsdp.FSDPModule):
                return _WHOLE_FIRST
            if not any(isinstance(layer, fsdp.FSDPModule) for layer in layers):
                return _ELSEWHERE
            raise
        found: dict[str, Any] = {
            "outside": [name for name, p in layers.named_parameters() if not isinstance(p, DTensor)],
            "bytes": parameter_bytes(layers),
            "layers": len(layers) == len(same) and all(a is b for a, b in zip(layers, same, strict=True)),
        }
        with count_operations() as forward:
            loss = layers(_batch(case, dist.get_rank())).square().mean()
        with count_operations() as backward:
            loss.backward()
        found |= {"forward": _gathered(forward), "again": _gathered(backward), "reduced": _reduced(backward)}
        found["gradient"] = _norms([_whole(p.grad) for p in layers.parameters() if p.grad is not None])
        seen.append(found)
    return seen


def _fewest(sizes: Sequence[int], limit: int) -> int:
    units, room = 0, 0
    for size in sizes:
        if not units or size > room:
            units, room = units + 1, limit
        room -= size
    return units


def decide_units(seen: list[Any]) -> str:
    world_size = len(seen)
    if _ELSEWHERE in seen:
        reject(
            _ELSEWHERE, hint="nobody calls a new container, so it would never gather: pass a list of layers"
        )
    if _WHOLE_FIRST in seen:
        reject(
            _WHOLE_FIRST, hint="a call takes all that no call has taken before: the parts first, layers last"
        )
    for case, (_, limit) in enumerate(_LAYERS):
        sizes = _sizes(case)
        what = f"layers of {', '.join(f'{size:,}' for size in sizes)} parameters, limit {limit:,}"
        for rank, found in enumerate(s[case] for s in seen):
            _decide_units(what, found, sizes, limit, world_size, rank)
        layers = _layers(case)
        layers(torch.cat([_batch(case, rank) for rank in range(world_size)])).square().mean().backward()
        wanted = _norms([p.grad for p in layers.parameters() if p.grad is not None])
        compare_ranks(f"{what}: gradients", [s[case]["gradient"] for s in seen], [wanted] * world_size)
    return "as few messages as the limit allows, nothing outside, and no unit stays longer than it must."


def _decide_units(
    what: str, found: dict[str, Any], sizes: list[int], limit: int, world_size: int, rank: int
) -> None:
    if not found["layers"]:
        hint = "fully_shard changes modules in place; layers keeps its layers, in their order"
        reject(f"{what}: layers was rebuilt", rank=rank, hint=hint)
    if found["outside"]:
        hint = "what is in no unit is whole on every rank, and nobody averages its gradients"
        came = ", ".join(found["outside"])
        reject(f"{what}: parameters outside", expected="none", came=came, rank=rank, hint=hint)
    compare(f"{what}: bytes at rest", found["bytes"], 8 * sum(sizes) // world_size, rank=rank)
    units = found["forward"]
    hint = "each unit is gathered once in forward, when its first layer is computed"
    compare(f"{what}: parameters gathered in forward", sum(units), sum(sizes), rank=rank, hint=hint)
    ends = list(running_sums(sizes, initial=0))
    if not set(running_sums(units)) <= set(ends):
        hint = "a unit is a run of neighbors: the gatherings, in order, must be whole runs of layers"
        if units and ends[-1] - units[0] in ends:
            hint = "the first gathering is the root's, of the last layers: which unit should they be in?"
        elif units and units[0] > limit:
            hint = "the first gathering is the root's: a layer above the limit needs a unit, too"
        reject(f"{what}: units are not runs of layers", expected=sizes, came=units, rank=rank, hint=hint)
    begin = 0
    for unit in units:
        n_layers = ends.index(begin + unit) - ends.index(begin)
        begin += unit
        if unit > limit and n_layers > 1:
            hint = "add up, and begin a new unit before the sum is above the limit"
            if len(units) == 1:
                hint = "one unit is the whole model at once: how is a smaller unit made?"
            at_most(f"parameters in a unit of {n_layers} layers ({what})", unit, limit, rank=rank, hint=hint)
    hint = "a unit may be full to the last parameter; what comes after a large layer may share a unit"
    if len(units) == len(sizes):
        hint = "a unit of its own for each layer is the most messages: fully_shard takes a list of modules"
    at_most(f"units ({what})", len(units), _fewest(sizes, limit), rank=rank, hint=hint)
    hint = "no unit was given back after forward: who is the root, and what did reshard_after_forward say?"
    if found["again"]:
        hint = "each unit is given back after forward, the last one as well"
    elif len(units) == 1:
        hint = "a root stays gathered after forward, and here the root holds all: what should be in the unit?"
    compare(
        f"{what}: gathered again in backward", sorted(found["again"]), sorted(units), rank=rank, hint=hint
    )
    hint = "one reduce-scatter a unit, in backward"
    compare(f"{what}: gradients reduced", sorted(found["reduced"]), sorted(units), rank=rank, hint=hint)


# 11.2

_WIDTHS, _MICRO = (16, 32, 32, 32, 8), (3, 1, 4)  # the micro-batches of three steps


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(n, m).double() for n, m in pairwise(_WIDTHS)))


def _micro_batches(step: int, rank: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    batch = torch.randn(2 * _MICRO[step], _WIDTHS[0], generator=generator, dtype=torch.float64)
    return list(batch.split(2))


def see_accumulate(accumulate: Callable[..., Any]) -> dict[str, Any]:
    rank, model = dist.get_rank(), _model()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    seen: list[dict[str, Any]] = []
    order: list[int] = []  # rows of a forward, 0 for the begin of a backward

    def note(_model: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        order.append(len(inputs[0]))
        output.register_hook(lambda _gradient: order.append(0))

    model.register_forward_hook(note)
    for step in range(len(_MICRO)):
        model.zero_grad()
        order.clear()
        with count_operations() as operations:
            accumulate(model, _micro_batches(step, rank))
        found: dict[str, Any] = {"gathered": len(_gathered(operations)), "reduced": len(_reduced(operations))}
        found["order"] = list(order)
        found["pieces"] = all(isinstance(p, DTensor) for p in model.parameters())
        found["bytes"] = parameter_bytes(model)
        gradients = [_whole(p.grad) for p in model.parameters()]
        found["gradient"] = None if any(g is None for g in gradients) else _norms(gradients)
        seen.append(found)
    model.zero_grad()
    with count_operations() as ordinary:
        model(_micro_batches(0, rank)[0]).square().mean().backward()
    return {
        "steps": seen,
        "ordinary": [len(_gathered(ordinary)), len(_reduced(ordinary))],
        "ordinary bytes": parameter_bytes(model),
    }


def _norms(gradients: Sequence[Tensor]) -> list[float]:
    """A few numbers that stand for gradients: of each the norm, and the sum weighted by place."""
    places = [torch.arange(1.0, g.numel() + 1, dtype=g.dtype) / g.numel() for g in gradients]
    return [
        float(v)
        for g, at in zip(gradients, places, strict=True)
        for v in (g.norm(), (g.flatten() * at).sum())
    ]


def _wanted(step: int, world_size: int, which: slice = slice(None)) -> list[float]:
    """The serial gradient of the mean over these micro-batches of all ranks."""
    model = _model()
    batches = [_micro_batches(step, rank) for rank in range(world_size)]
    chosen = [b for rank in batches for b in rank[which]]
    model(torch.cat(chosen)).square().mean().backward()
    return _norms([p.grad for p in model.parameters() if p.grad is not None])


def decide_accumulate(seen: list[dict[str, Any]]) -> str:
    units, world_size = len(_WIDTHS) - 1, len(seen)
    whole = 8 * sum(n * m + m for n, m in pairwise(_WIDTHS))
    for step, micro in enumerate(_MICRO):
        what = f"step {step} ({micro} micro-batch{'es' * (micro > 1)}, {units} units)"
        wanted = _wanted(step, world_size)
        before = _wanted(step, world_size, slice(0, max(1, micro - 1)))
        all_but_last = [(micro - 1) / micro * value for value in before]
        for rank, found in enumerate(s["steps"][step] for s in seen):
            hint = "one micro-batch at a time, forward and backward: the activations of two do not fit"
            compare(
                f"{what}: rows of each forward, 0 for a backward",
                found["order"],
                [2, 0] * micro,
                rank=rank,
                hint=hint,
            )
            hint = "the last backward, or you after it, gives each unit back"
            if not found["pieces"]:
                reject(f"{what}: parameters are whole afterwards", rank=rank, hint=hint)
            if found["gradient"] is None:
                hint = "the last micro-batch's backward has to reduce what all have added up"
                reject(f"{what}: a parameter's piece has no gradient", rank=rank, hint=hint)
            hint = "the mean over samples: what does each micro-batch's loss weigh?"
            if _close(found["gradient"], _wanted(step, world_size, slice(micro - 1, None))):
                hint = "that is the gradient of the last micro-batch alone: did the others add to it?"
            elif micro > 1 and _close(found["gradient"], all_but_last):
                hint = "the last micro-batch's gradient is missing: it was not reduced with the others"
            elif _close(found["gradient"], [micro * value for value in wanted]):
                hint = f"{micro} times the gradient: backward adds up, and the mean is wanted"
            compare(f"{what}: gradients", found["gradient"], wanted, rank=rank, hint=hint, tolerance=1e-9)
            hint = "which settings keep a unit gathered, after forward and after backward?"
            if found["gathered"] == micro * units:
                hint = "kept from forward to backward, but not from one micro-batch to the next"
            at_most(f"all-gathers in {what}", found["gathered"], units, rank=rank, hint=hint)
            hint = "only the last micro-batch's backward reduces; the others leave whole gradients"
            at_most(f"reduce-scatters in {what}", found["reduced"], units, rank=rank, hint=hint)
            hint = "the last backward, or you after it, gives each unit back"
            compare(f"{what}: bytes of parameters", found["bytes"], whole // world_size, rank=rank, hint=hint)
    hint = "settings stay: the caller's next step is to gather in backward, and to reduce"
    counts = [[2 * units, units]] * world_size
    what = "all-gathers and reduce-scatters of an ordinary step afterwards"
    compare_ranks(what, [s["ordinary"] for s in seen], counts, hint=hint)
    hint = "after an ordinary step, too, parameters are in pieces"
    came = [s["ordinary bytes"] for s in seen]
    compare_ranks("bytes of parameters afterwards", came, [whole // world_size] * world_size, hint=hint)
    return (
        "one gathering and one reduction a unit, for any number of micro-batches: traffic paid with memory."
    )


def _close(came: Any, wanted: Sequence[float]) -> bool:
    return (
        isinstance(came, list)
        and len(came) == len(wanted)
        and all(abs(c - w) <= 1e-9 * max(1, abs(w)) for c, w in zip(came, wanted, strict=True))
    )


# 11.3 · units, root, world_size, kept

_PEAKS = (
    ([700, 1150, 1100, 1130, 300], 70, 4, False),
    ([700, 1150, 1100, 1130, 300], 70, 4, True),
    ([100, 4000, 300, 2000, 2500, 50], 600, 8, False),
    ([100, 4000, 300, 2000, 2500, 50], 600, 8, True),
    ([5000, 10, 10], 0, 2, False),  # the first unit: nothing comes before it
    ([10, 10, 5000], 0, 2, False),  # the last one: nothing is on its way yet
    ([10, 10, 5000], 700, 2, True),
    ([3000, 1000], 500, 16, False),
    ([1000], 0, 4, True),
    ([2000, 3000, 2500, 800], 400, 4, True),
)
_Numbers = dict[str, float]


def _moment(i: int, units: list[int], root: int, world_size: int, kept: bool) -> _Numbers:
    """Parameters' worth of fp32 on one rank while unit i's gradients are complete."""
    before, after = units[:i], units[i + 1 :]
    return {
        "weight": units[i],
        "gradients": units[i],
        "arriving": (sum(before) if kept else sum(before[-1:])),
        "on their way": sum(after[:1]),
        "reduced": sum(after) / world_size,
        "root": root,
        "root's gradients": root,
        "rest": 3 * (sum(units) + root) / world_size,
    }


def _peak(
    units: list[int],
    root: int,
    world_size: int,
    kept: bool,
    mistake: Callable[[_Numbers, int], _Numbers] = lambda _numbers, _world_size: {},
) -> float:
    moments = (_moment(i, units, root, world_size, kept) for i in range(len(units)))
    return max(4 * sum((numbers | mistake(numbers, world_size)).values()) for numbers in moments)


def _forgot(*parts: str) -> Callable[[_Numbers, int], _Numbers]:
    return lambda _numbers, _world_size: dict.fromkeys(parts, 0)


_MISTAKES = (
    (_forgot("weight"), "the unit that is computed is whole itself"),
    (_forgot("gradients"), "the unit's own gradients are whole until they are reduced"),
    (_forgot("arriving"), "what does a unit's backward start to gather, and what has `kept` left there?"),
    (
        _forgot("on their way"),
        "the gradients of the unit that came just before in backward are still being reduced",
    ),
    (
        _forgot("arriving", "on their way"),
        "a unit is not alone: what of the one before it, and the one after?",
    ),
    (_forgot("reduced"), "what has been reduced leaves a piece of its gradients on each rank"),
    (
        lambda numbers, world_size: {"reduced": numbers["on their way"] / world_size},
        "a piece of the gradients of each unit that backward is through with, not of one",
    ),
    (_forgot("root"), "the root is whole, and so are its gradients, until backward is over"),
    (
        _forgot("root", "root's gradients"),
        "the root is whole, and so are its gradients, until backward is over",
    ),
    (
        lambda numbers, world_size: {
            "root": 0,
            "root's gradients": 0,
            "rest": numbers["rest"] - 3 * numbers["root"] / world_size,
        },
        "where is the root: at rest, whole, with its gradients?",
    ),
    (_forgot("rest"), "weights and moments at rest: 12 bytes a parameter, in pieces, the root's as well"),
    (lambda numbers, _: {"rest": numbers["rest"] / 3}, "AdamW holds two moments, at the peak as well"),
    (
        lambda numbers, _: {"rest": numbers["rest"] * 4 / 3},
        "12 bytes a parameter are at rest in backward, not 16: gradients stand in the list as they come",
    ),
    (
        lambda numbers, world_size: {"rest": numbers["rest"] * world_size},
        "of what is at rest each rank holds its piece alone",
    ),
)


def see_peak(peak_bytes: Callable[..., Any]) -> list[Any]:
    return [peak_bytes(list(units), *rest) for units, *rest in _PEAKS]


def _hint(came: float, units: list[int], root: int, world_size: int, kept: bool) -> str:
    """Which mistake gives just this number."""
    rest = (root, world_size, kept)

    def is_it(other: float) -> bool:
        return abs(came - other) < 1e-6 * other

    if is_it(_peak(units, *rest) / 4):
        return "these are numbers of parameters: fp32 has 4 bytes each"
    if is_it(_peak(units, root, world_size, not kept)):
        return "which of the two cases is `kept`?"
    for mistake, hint in _MISTAKES:
        if is_it(_peak(units, *rest, mistake)):
            return hint
    if any(is_it(4 * sum(_moment(i, units, *rest).values())) for i in range(len(units))):
        return "that is one of the moments, but not the worst: neighbors count as well as size"
    if is_it(
        max(4 * sum(_moment(i, units, *rest).values()) + 4 * units[-1] * (i == 0) for i in range(len(units)))
    ):
        return "nothing comes before the first unit, and units[-1] is the last"
    if is_it(_peak([max(units)] * len(units), *rest)):
        return "each unit counts with its own size, before, at and after its turn"
    if is_it(_peak(units, root, 1, kept) / world_size):
        return "the ranks share what is in pieces; what is whole is whole on each of them"
    if is_it(_peak(units[::-1], *rest)):
        return "backward begins with the last unit: who has been reduced, and who is still to come?"
    if kept:
        return "while one unit has its turn: which ones still wait whole, and which are through?"
    return "list who is there while a unit's gradients become complete, for each unit in turn"


def decide_peak(seen: list[list[Any]]) -> str:
    for came, (units, *rest) in zip(seen[0], _PEAKS, strict=True):
        root, world_size, kept = rest
        what = f"units {units}, root {root}, {world_size} ranks, {'kept' if kept else 'resharded'}"
        wanted = _peak(units, *rest)
        hint = _hint(came, units, *rest) if isinstance(came, (int, float)) else ""
        compare(f"bytes at the peak: {what}", came, wanted, hint=hint, tolerance=1e-9)
    return "four neighbors and the root: the largest unit alone does not tell the peak."


EXERCISES = {
    "11.1": Exercise(see_units, decide_units, world_sizes=(2, 4), timeout=30.0),
    "11.2": Exercise(see_accumulate, decide_accumulate, world_sizes=(2, 4), timeout=30.0),
    "11.3": Exercise(see_peak, decide_peak, world_sizes=(1,)),
}
