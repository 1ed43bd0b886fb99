"""Checks of chapter 10: even shards, the norm over shards, an Adam whose state is sharded."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, reject
from course_utils.measure import count_bytes, count_operations, storage_bytes

_LAYOUTS = (  # sizes, world_size
    ([6, 2], 3),
    ([4096, 64, 640, 10], 4),
    ([5], 2),
    ([3, 0, 4, 1, 9], 3),
    ([1, 1], 4),
    ([8, 8], 1),
    ([2, 2, 2, 2], 4),
)


def _pieces(sizes: list[int], world_size: int) -> list[list[list[int]]]:
    places = [[i, j] for i, size in enumerate(sizes) for j in range(size)]  # each element of the flat vector
    shard = -(-len(places) // world_size)
    pieces: list[list[list[int]]] = []
    for rank in range(world_size):
        owned: list[list[int]] = []
        for i, j in places[rank * shard : (rank + 1) * shard]:
            if owned and owned[-1][0] == i:
                owned[-1][2] = j + 1
            else:
                owned.append([i, j, j + 1])
        pieces.append(owned)
    return pieces


def see_pieces(shard_pieces: Callable[..., Any]) -> list[Any]:
    return [shard_pieces(list(sizes), world_size) for sizes, world_size in _LAYOUTS]


def decide_pieces(seen: list[Any]) -> str:
    for came, (sizes, world_size) in zip(seen[0], _LAYOUTS, strict=True):
        _decide_layout(f"sizes {sizes}, {world_size} ranks", came, sizes, world_size)
    return "every element has one owner, and no rank holds more than another, whatever the shapes are."


def _decide_layout(what: str, came: Any, sizes: list[int], world_size: int) -> None:
    wanted, shard = _pieces(sizes, world_size), -(-sum(sizes) // world_size)
    hint = "a list with an item for each rank, which is a list of (parameter, start, stop)"
    if not isinstance(came, list) or not all(isinstance(owned, list) for owned in came):
        reject(f"{what}: not a list of lists", expected=wanted, came=came, hint=hint)
    empty = "a rank without elements has an empty list"
    compare(f"{what}: number of ranks", len(came), world_size, hint=empty)
    held = []
    for rank, owned in enumerate(came):
        for piece in owned:
            three = isinstance(piece, list) and [type(number) for number in piece] == [int] * 3
            if not three or not 0 <= piece[0] < len(sizes):
                reject(f"{what}: a piece is (parameter, start, stop)", came=piece, rank=rank, hint=hint)
            inside = "start and stop count elements within that parameter, not in the flat vector"
            if piece[1] == piece[2]:
                inside = "no piece is empty: leave it out"
            elif piece[0] == len(sizes) - 1 and piece[1] < sizes[-1] < piece[2]:
                inside = "the padding is nobody's piece"
            if not 0 <= piece[1] < piece[2] <= sizes[piece[0]]:
                shown = f"piece {tuple(piece)} of a parameter of {sizes[piece[0]]} elements"
                reject(f"{what}: {shown}", rank=rank, hint=inside)
        held.append(sum(stop - start for _, start, stop in owned))
    owners = [(i, j) for owned in came for i, start, stop in owned for j in range(start, stop)]
    if len(owners) != len(set(owners)):
        once = "stop is excluded, and the next piece begins there"
        if all(owned[0][1] == 0 for owned in came if owned):  # each rank begins anew
            once = "start and stop count elements within that parameter, not in the shard"
        reject(f"{what}: some elements have two owners", expected=sum(sizes), came=len(owners), hint=once)
    lost = "the last elements belong to somebody, too: which way do you round?"
    if [[[i, start, stop + 1] for i, start, stop in owned] for owned in came] == wanted:
        lost = "stop is excluded: it is the first element that is not yours"
    compare(f"{what}: elements with an owner", len(owners), sum(sizes), hint=lost)
    even = "a parameter may be cut: cut where the shard ends, not where the parameter does"
    if sum(sizes) % world_size == 0 and max(held) == shard + 1:
        even = "a length that the ranks divide needs no padding"
    elif held[:-1] == [sum(sizes) // world_size] * (world_size - 1):
        even = "the last rank has the rest: pad the vector, and all shards are equally long"
    at_most(f"elements on one rank ({what})", max(held), shard, rank=held.index(max(held)), hint=even)
    equal = "with its padding each shard is equally long, so the padding stands at the end of the vector"
    lengths = [sum(stop - start for _, start, stop in owned) for owned in wanted]
    compare_ranks(f"{what}: elements", held, lengths, hint=equal)
    order = "rank r has the r-th shard of the flat vector; one piece a parameter, in the vector's order"
    compare_ranks(f"{what}: pieces", came, wanted, hint=order)


_SHARDS = {4: (2, 1, 0, 3), 3: (1, 0, 2)}  # shards of each rank, by world_size
_THRESHOLDS = (1.0, 1000.0, 2.5)  # the second one clips nothing


def _random(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _gradients(rank: int, world_size: int, case: int) -> tuple[list[Tensor], list[Tensor]]:
    # float32: a sum that begins with torch.zeros(()) has the same type on a rank without shards
    n, single = _SHARDS[world_size][rank], torch.float32
    shards = [_random(100 * case + 10 * rank + i, 3 + rank, dtype=single) for i in range(n)]
    return shards, [_random(100 * case + 90 + i, 4, dtype=single) for i in range(2)]


def _clip(clip_sharded: Callable[..., Any], shards: list[Tensor], *rest: Any) -> Any:
    try:
        return clip_sharded([*shards], *rest)
    except TypeError as error:  # sum([]) is the number 0, not a tensor
        if shards:
            raise
        raise TypeError(f"this rank has no shards: {error}").with_traceback(error.__traceback__) from None


def see_clip(clip_sharded: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    norms, given, operations = [], [], []
    for case, max_norm in enumerate(_THRESHOLDS):
        shards, replicated = _gradients(rank, world_size, case)
        with count_operations() as ran:
            norms.append(_clip(clip_sharded, shards, replicated, max_norm))
        given.append([shards, replicated])
        operations.append(ran.sequence)
    zeros: Any = [torch.zeros(2)]
    try:  # an edge: what is wrong elsewhere is said first
        clip_sharded([*zeros], [], 1.0)
    except ArithmeticError as error:
        zeros = type(error).__name__
    return {"norms": norms, "given": given, "operations": operations, "zeros": zeros}


def decide_clip(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    for case, max_norm in enumerate(_THRESHOLDS):
        gradients = [_gradients(rank, world_size, case) for rank in range(world_size)]
        own = [[g.square().sum().item() for g in shards] for shards, _ in gradients]
        small = sum(g.square().sum().item() for g in gradients[0][1])
        norm = math.sqrt(sum(map(sum, own)) + small)
        factor = min(1.0, max_norm / (norm + 1e-6))
        for rank, s in enumerate(seen):
            came = s["norms"][case]
            hint = _norm_hint(came, own, small, rank, max_norm) if isinstance(came, (int, float)) else ""
            compare(f"the norm, max_norm={max_norm:g}", came, norm, rank=rank, hint=hint, tolerance=1e-5)
            for kind, (before, after) in enumerate(zip(gradients[rank], s["given"][case], strict=True)):
                what = f"{('a shard', 'a replicated gradient')[kind]} after the call, max_norm={max_norm:g}"
                hint = "in place: the caller's tensors change, and all by one factor"
                if factor == 1:
                    hint = "a norm below the threshold is left alone"
                for old, new in zip(before, after, strict=True):
                    compare(what, new, old * factor, rank=rank, hint=hint, tolerance=1e-5)
            _decide_one_number(s["operations"][case], rank)
    for rank, s in enumerate(seen):
        hint = "a gradient of zeros has the norm 0: what is divided by what?"
        compare("a gradient of zeros after the call", s["zeros"], [[0.0, 0.0]], rank=rank, hint=hint)
    return "one number on the wire, and every rank clips by the norm of a gradient that none of them has."


def _norm_hint(came: float, own: list[list[float]], small: float, rank: int, max_norm: float) -> str:
    """What a norm that is wrong was computed from."""
    squares = [sum(squares) for squares in own]
    roots = sum(map(math.sqrt, squares)) + math.sqrt(small)
    often = sum(squares) + len(own) * small
    mistakes = {
        "the replicated gradients are on every rank: how often do they count?": often,
        "the replicated gradients are part of the gradient": sum(squares),
        "this rank's gradients alone are not the gradient": squares[rank] + small,
        "no rank has the other ranks' shards": squares[rank],
        "what comes from the ranks is a sum, not a mean: each shard's squares count fully": (
            sum(squares) / len(own) + small
        ),
        "that is the square of the norm": (sum(squares) + small) ** 2,
        "that is the norm after clipping: return what it was before": max_norm**2,
        "norms don't add up: what does?": sum(math.sqrt(square + small) for square in squares) ** 2,
        "norms don't add up: which of their powers does?": roots**2,
    }
    return next(
        (hint for hint, square in mistakes.items() if math.isclose(came, math.sqrt(square), rel_tol=1e-4)),
        "squares add up: over the elements of a shard, over shards, over ranks",
    )


def _decide_one_number(operations: list[Any], rank: int) -> None:
    hint = "add up this rank's squares first: one number says all that the others need"
    at_most("collectives", len(operations), 1, rank=rank, hint=hint)
    at_most("bytes given to collectives", sum(size for _, size in operations), 8, rank=rank, hint=hint)


_LENGTHS = (10, 16, 3)  # by case; 3 leaves a rank of 4 without elements
_STEPS, _LARGE = 3, 60_001
_KEPT = "Adam remembers two numbers a parameter, of flat's type; they stand in state, and nowhere else"
_SUMMED = "that is the step for the sum of the gradients; where gradients are tiny, Adam shows it"


def _adam_inputs(rank: int, case: int, step: int) -> Tensor:
    """Case 1 has gradients of eps' size: elsewhere Adam hides a factor that all gradients have."""
    scale = 1e-8 if case == 1 else 1.0
    return scale * _random(1000 * case + 10 * step + rank + 1, _LENGTHS[case])


def see_adam(sharded_adam_step: Callable[..., Any]) -> dict[str, Any]:
    rank = dist.get_rank()
    flats = [_random(case, n) for case, n in enumerate(_LENGTHS)]
    models = [flat[:] for flat in flats]  # views, as parameters are: new storage under flat is not theirs
    states: list[dict[Any, Any]] = [{} for _ in _LENGTHS]
    left = []
    for step in range(_STEPS):  # three trainings in turn: what one remembers must not reach another
        for case, flat in enumerate(flats):
            gradient = _adam_inputs(rank, case, step)
            sharded_adam_step(flat, gradient, states[case], 0.1 if case else 0.01)
            left.append(torch.equal(gradient, _adam_inputs(rank, case, step)))
    numbers = [storage_bytes(state) / 8 for state in states]
    flat, state = torch.ones(_LARGE), {}
    gradient = torch.full((_LARGE,), rank + 1.0)
    for _ in range(2):  # the first one makes connections
        dist.barrier()
        with count_operations() as operations, count_bytes() as sent:
            sharded_adam_step(flat, gradient, state, 0.01)
    return {
        "flats": models,
        "left": all(left),
        "numbers": numbers,
        "large": storage_bytes(state) / 4,
        "sent": sent.bytes,
        "operations": operations.sequence,
    }


def _serial_adam(ranks: Iterable[int], case: int, factor: float = 1.0, lr: float | None = None) -> Tensor:
    """The parameters after steps with the mean gradient of these ranks."""
    flat = _random(case, _LENGTHS[case]).requires_grad_()
    optimizer = torch.optim.Adam([flat], lr=lr or (0.1 if case else 0.01))
    for step in range(_STEPS):
        flat.grad = torch.stack([_adam_inputs(rank, case, step) for rank in ranks]).mean(0)
        flat.grad *= factor
        optimizer.step()
    return flat.detach()


def decide_adam(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    for case, n in enumerate(_LENGTHS):
        wanted = _serial_adam(range(world_size), case)
        for rank, s in enumerate(seen):
            hint = "" if all(_right(s["flats"][case], wanted)) else _adam_hint(seen, rank, case, wanted)
            what = f"{n} parameters after {_STEPS} steps"
            compare(what, s["flats"][case], wanted, rank=rank, hint=hint, tolerance=1e-7)
        _decide_state([s["numbers"][case] for s in seen], n)
    _decide_state([s["large"] for s in seen], _LARGE)
    size = 4 * (_LARGE + -_LARGE % world_size)
    limit = 2 * (world_size - 1) / world_size * size
    for rank, s in enumerate(seen):
        if not s["left"]:
            hint = "average into a tensor of its own"
            reject("gradient is not what it was before the call", rank=rank, hint=hint)
        names = [name.split(":")[-1] for name, _ in s["operations"]]
        hint = "one half brings a rank its part of the average, the other gives everybody the new parameters"
        if "all_reduce" in names:
            hint = "the backend ran an all_reduce of everything; on gloo reduce_scatter_single does that, too"
        came, most = round(s["sent"] / size, 3), round(1.03 * limit / size, 3)
        at_most(f"bytes sent (in units of flat's {size})", came, most, rank=rank, hint=hint)
        calls = [name for name in names if name not in ("send", "recv")]
        at_most("collectives", len(calls), 2, rank=rank, hint="two: one before the update, one after it")
    return "the serial parameters, a rank's part of the states, and not a byte more than an all-reduce sends."


def _right(came: list[float], wanted: Tensor) -> list[bool]:
    return [abs(c - w) <= 1e-7 for c, w in zip(came, wanted.tolist(), strict=True)]


def _adam_hint(seen: list[dict[str, Any]], rank: int, case: int, wanted: Tensor) -> str:
    """What parameters that are wrong were computed from."""
    came, world_size, n = seen[rank]["flats"][case], len(seen), len(wanted)
    start, right = _random(case, n).tolist(), _right(came, wanted)
    shard, even = -(-n // world_size), n // world_size * world_size
    if came == start:
        return "flat has not changed: write into the vector itself, of which a model's parameters are views"
    if 0 < even < n and all(right[:even]) and came[even:] == start[even:]:
        return "all but the last elements are right: which rank updates the remainder?"
    if case == 0 and torch.allclose(torch.tensor(came, dtype=wanted.dtype), wanted, rtol=0, atol=1e-4):
        return "very close: does eps stand beside the root, and have your own tensors flat's type?"
    if all(right[rank * shard : (rank + 1) * shard]) and any(right):
        return "this rank's own part is right: how does it get the others'?"
    if came != seen[0]["flats"][case]:
        return "the ranks differ, so some have not got what others computed"
    if not any(s["numbers"][case] for s in seen):
        return _KEPT
    if case == 1 and all(_right(came, _serial_adam(range(world_size), case, factor=world_size))):
        return _SUMMED
    if all(_right(came, _serial_adam(range(world_size), case, lr=0.01))):
        return "lr is an argument, and this is the step for its default"
    parts = [_serial_adam([r], case)[r * shard : (r + 1) * shard] for r in range(world_size)]
    if all(_right(came, torch.cat(parts))):
        return "each part is updated with its own rank's gradient: where does the mean over ranks come from?"
    return "the mean over ranks; both moments, both corrected by the number of steps; no weight decay"


def _decide_state(numbers: list[float], n: int) -> None:
    limit = 2 * -(-n // len(numbers)) + 1  # two moments of a shard, and a counter
    hint = (
        "only Adam's moments of this rank's part, no parameters; a view holds the whole storage it looks at"
    )
    if n % len(numbers) == 0 and max(numbers) <= limit + 2:
        hint = "a length that the ranks divide needs no padding"
    for rank, held in enumerate(numbers):
        at_most(f"numbers in state, for {n} parameters", held, limit, rank=rank, hint=hint)
    if sum(numbers) < 2 * n:
        what = f"numbers in state on all ranks together, for {n} parameters"
        reject(f"too few {what}", expected=f"at least {2 * n}", came=sum(numbers), hint=_KEPT)


EXERCISES = {
    "10.1": Exercise(see_pieces, decide_pieces, world_sizes=(1,)),
    "10.2": Exercise(see_clip, decide_clip, world_sizes=(4, 3), timeout=8.0),
    "10.3": Exercise(see_adam, decide_adam, world_sizes=(4, 3), timeout=15.0),
}
