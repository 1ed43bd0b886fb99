"""Checks of chapter 16: the schedule of a stage, unbalanced stages, 1F1B by its order, memory and result."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course_utils.exercises.judging import Exercise, at_most, compare, plain, reject
from course_utils.exercises.messages import Message, logged_messages
from course_utils.measure import count_operations

_ONE = "a stage that may hold none could not work at all: at least one"

_STAGES = [  # stage, m, limit: 1F1B, GPipe, few micro-batches, a limit that would leave nothing, and others
    *((0, 8, 4), (2, 8, 4), (3, 8, 4), (1, 3, 8), (0, 2, 4), (3, 4, 2), (1, 6, 4), (0, 1, 1), (0, 5, 1)),
]


def _one_by_one(stage: int, m: int, limit: int) -> list[list[Any]]:
    may_hold = min(max(1, limit - stage), m)
    forwards, backwards = ([[kind, i] for i in range(m)] for kind in "FB")
    turns = [action for pair in zip(backwards, forwards[may_hold:], strict=False) for action in pair]
    return forwards[:may_hold] + turns + backwards[m - may_hold :]


def see_stage(stage_schedule: Callable[..., Any]) -> list[Any]:
    return [stage_schedule(*case) for case in _STAGES]


def _held(actions: list[Any]) -> int:
    now = most = 0
    for kind, _ in actions:
        now += 1 if kind == "F" else -1
        most = max(most, now)
    return most


def _decide_stage(what: str, came: Any, stage: int, m: int, limit: int) -> None:
    wanted, may_hold = _one_by_one(stage, m, limit), max(1, limit - stage)
    form = 'a list of pairs such as ("F", 0) and ("B", 0)'
    pairs = isinstance(came, list) and all(isinstance(a, list) and len(a) == 2 for a in came)
    if not pairs or not all(kind in ("F", "B") and type(i) is int for kind, i in came):
        reject(f"{what}: not a list of actions", expected=wanted, came=came, hint=form)
    for kind in "FB":
        order = [i for other, i in came if other == kind]
        hint = "each micro-batch once, and the oldest first"
        if len(order) < m:
            hint = "each micro-batch has one forward and one backward, also those of the warm-up"
            hint = _ONE if limit - stage < 1 else hint
        elif len(order) > m:
            hint = "there are m micro-batches, also where the stage could do or hold more"
        elif order == list(range(1, m + 1)):
            hint = "micro-batches count from 0"
        if kind == "B" and m > 1 and order == list(range(m))[::-1]:
            hint = "backwards come in the order of the forwards: the oldest first"
        compare(f"{what}: the {kind}s", order, list(range(m)), hint=hint)
    for i in range(m):
        if came.index(["B", i]) < came.index(["F", i]):
            hint = _ONE if limit - stage < 1 else "a backward needs what its forward left"
            reject(f"{what}: backward {i} comes before its forward", expected=wanted, came=came, hint=hint)
    most, wants = _held(came), _held(wanted)
    hint = "a stage that holds what it may has to do a backward first"
    if limit - stage < 1:
        hint = _ONE
    elif most == m and came == [["F", i] for i in range(m)] + [["B", i] for i in range(m)]:
        hint = "all forwards first is GPipe; this stage has to stop before"
    elif most == may_hold + 1:
        hint = "one too many: count what is held after the forward, and not before it"
    at_most(f"micro-batches held ({what})", most, wants, hint=hint)
    if most < wants:
        hint = "it could do another forward before it waits for a backward: the next stage needs work"
        if limit - stage < wants:
            hint = "a later stage may hold less: limit - stage"
        reject(f"{what}: it holds fewer than it may", expected=wants, came=most, hint=hint)
    turns = "after each backward there is room for a forward again, as long as there is one to do"
    compare(what, came, wanted, hint=turns)


def decide_stage(seen: list[Any]) -> str:
    for came, (stage, m, limit) in zip(seen[0], _STAGES, strict=True):
        _decide_stage(f"stage {stage}, m={m}, limit={limit}", came, stage, m, limit)
    return "one rule, and the limit leads from 1F1B to GPipe."


_TIMES = [  # forward, backward, m
    ([1.0, 1.0, 1.0, 2.0], [2.0, 2.0, 2.0, 4.0], 32),
    ([1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], 4),
    ([2.0, 1.0, 3.0, 1.5], [4.0, 2.5, 3.0, 3.0], 12),  # the slowest forward and backward in two stages
    ([3.0, 1.0, 1.0], [1.0, 1.0, 4.0], 5),
    ([0.5], [1.0], 7),
    ([1.0, 2.0], [3.0, 1.0], 1),
]


def see_idle(gpipe_idle: Callable[..., Any]) -> list[Any]:
    return [gpipe_idle(list(forward), list(backward), m) for forward, backward, m in _TIMES]


def _shares(forward: list[float], backward: list[float], m: int, whole: float) -> list[float]:
    return [1 - m * (f + b) / whole for f, b in zip(forward, backward, strict=True)]


def _whole(forward: list[float], backward: list[float], m: int) -> float:
    """The end of the last action, stage by stage and micro-batch by micro-batch."""
    p = len(forward)
    free, arrived = [0.0] * p, [0.0] * m
    for times, order in ((forward, range(p)), (backward, range(p - 1, -1, -1))):
        for stage in order:
            for i in range(m):
                arrived[i] = free[stage] = max(free[stage], arrived[i]) + times[stage]
    return max(arrived)


def _idle_hint(came: list[float], forward: list[float], backward: list[float], m: int) -> str:
    p, both = len(forward), [f + b for f, b in zip(forward, backward, strict=True)]
    whole, slowest, shares = _whole(forward, backward, m), max(both), partial(_shares, forward, backward, m)
    forwards = sum(forward) + (m - 1) * max(forward)
    filled = (
        "that is the time of m + p - 1 micro-batches in the slowest stage: what does filling really take?"
    )
    mistakes = {
        "that is the formula for equal stages": [(p - 1) / (m + p - 1)] * p,
        "one number for all ranks: which share does each idle?": [1 - m * sum(both) / p / whole] * p,
        "the share of all time, not of a stage's working time": [whole / (m * work) - 1 for work in both],
        "the slowest stage idles too, while the pipeline fills and drains": shares(m * slowest),
        filled: shares((m + p - 1) * slowest),
        "the slowest forward and the slowest backward need not be in one stage": (
            shares(sum(both) + (m - 1) * slowest)
        ),
        "m - 1 micro-batches follow the first one": shares(sum(both) + m * slowest),
        "that is the time of m + p - 1 micro-batches in an average stage: which one sets the pace?": (
            shares((m + p - 1) * sum(both) / p)
        ),
        "micro-batches come out at the pace of the slowest stage, which need not be the first": (
            shares(sum(both) + (m - 1) * both[0])
        ),
        "micro-batches come out at the pace of the slowest stage, which need not be the last": (
            shares(sum(both) + (m - 1) * both[-1])
        ),
        "first come all forwards, then all backwards: each of the two has its own pace": (
            shares(sum(both) + (m - 1) * max(*forward, *backward))
        ),
        "that is the share of time in which it works": [m * work / whole for work in both],
        "that is the idle time itself, not its share": [whole - m * work for work in both],
        "a share lies between 0 and 1": [100 * share for share in shares(whole)],
        "the share of all time, not of the ideal time": [
            (whole - m * work) / (m * (max(forward) + max(backward))) for work in both
        ],
        "the time is the same for all: it begins with the first action of any stage, not of this one": [
            1 - m * work / (whole - sum(forward[:s]) - sum(backward[:s])) for s, work in enumerate(both)
        ],
        "a stage also waits in the middle, from its last forward to its first backward": [
            (sum(forward[:s]) + sum(backward[:s])) / whole for s in range(p)
        ],
        "a backward need not take twice as long as a forward": shares(3 * forwards),
        "that holds for the forwards: backwards have times of their own": [
            1 - m * f / forwards for f in forward
        ],
    }
    for hint, wrong in mistakes.items():
        if _close(came, wrong, 1e-5):
            return hint
    if _close(came, shares(whole), 0.006):
        return "close, but rounded"
    if _close(sorted(came), sorted(shares(whole)), 1e-5):
        return "the right shares, in the wrong places: the first is stage 0's"
    return (
        "one micro-batch passes all stages; the others come out behind it, one each time the slowest is done"
    )


def _close(came: list[float], wanted: list[float], distance: float) -> bool:
    return all(math.isclose(c, w, abs_tol=distance) for c, w in zip(came, wanted, strict=True))


def decide_idle(seen: list[Any]) -> str:
    for came, (forward, backward, m) in zip(seen[0], _TIMES, strict=True):
        what = f"forward {forward}, backward {backward}, m={m}"
        numbers = isinstance(came, list) and all(isinstance(c, (int, float)) for c in came)
        if not numbers or len(came) != len(forward):
            hint = "a list with a number for each stage"
            reject(f"{what}: not a share for each stage", expected=len(forward), came=came, hint=hint)
        came = [float(c) for c in came]
        wanted = _shares(forward, backward, m, _whole(forward, backward, m))
        compare(what, came, wanted, hint=_idle_hint(came, forward, backward, m), tolerance=1e-5)
    return "fast stages wait for the slowest, and no number of micro-batches changes that."


_CASES = (6, 2, 1)  # micro-batches; with four ranks the second has fewer than stages


class _Kept:
    """A tensor that autograd keeps for a backward; `alive` counts them by micro-batch."""

    def __init__(self, tensor: Tensor, i: int, alive: Counter[int]) -> None:
        self.tensor, self.i, self.alive = tensor, i, alive
        alive[i] += 1

    def __del__(self) -> None:
        self.alive[self.i] -= 1


class _Watched(nn.Module):
    """A stage that writes down when it is called, when its backward begins, and what is held meanwhile."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(50 + rank)
        self.weight = nn.Parameter(torch.randn(16, 16, generator=generator, dtype=torch.float64) / 4)
        self.log: list[list[Any]] = []
        self.calls, self.most = 0, 0
        self.alive: Counter[int] = Counter()

    def forward(self, x: Tensor) -> Tensor:
        i, self.calls = self.calls, self.calls + 1
        self.log.append(["F", i])
        with saved_tensors_hooks(lambda t: _Kept(t, i, self.alive), lambda kept: kept.tensor):
            y = torch.tanh(x @ self.weight)
        if y.requires_grad:
            y.register_hook(lambda _: self.log.append(["B", i]))
        self.most = max(self.most, sum(count > 0 for count in self.alive.values()))
        return y


def _batch(m: int) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(m)
    x, y = torch.randn(2, 4 * m, 16, generator=generator, dtype=torch.float64)
    return list(x.chunk(m)), list(y.chunk(m))


@contextmanager
def _says_where(part: _Watched, m: int) -> Iterator[None]:
    """An error says in which step it was, and what a missing gradient may come from."""
    try:
        yield
    except Exception as error:
        where = f"m={m}, {dist.get_world_size()} ranks"
        if "NoneType" in str(error) and part.log and part.log[-1][0] == "B":
            where += "; backward fills x.grad only where x.requires_grad"
        if len(error.args) == 1:
            error.args = (f"{error.args[0]} ({where})",)
        raise


def see_step(one_f_one_b_step: Callable[..., Any]) -> list[dict[str, Any]]:
    """What was seen of each step, up to one that left out a forward or a backward on some rank: its messages
    that nobody received would make the next one hang."""
    rank, last, runs = dist.get_rank(), dist.get_world_size() - 1, []
    for m in _CASES:
        part, (inputs, targets) = _Watched(rank), _batch(m)
        before = part.weight.detach().clone()
        given = inputs if rank == 0 else None, targets if rank == last else None
        dist.barrier()
        with logged_messages() as log, count_operations() as operations, _says_where(part, m):
            loss = one_f_one_b_step(part, *given, m)
        runs.append(
            {
                "loss": loss,
                "gradient": part.weight.grad,
                "trained": not torch.equal(part.weight, before),
                "log": part.log,
                "most": part.most,
                "left": sum(count > 0 for count in part.alive.values()),
                "messages": plain(log),
                "operations": operations,
            }
        )
        calls = Counter(kind for kind, _ in part.log)
        whole = torch.tensor(int(calls == {"F": m, "B": m}))
        dist.all_reduce(whole, op=dist.ReduceOp.MIN)
        if not whole:
            break
    return runs


def _decide_order(what: str, log: list[Any], rank: int, last: int, m: int) -> None:
    calls = [kind for kind, _ in log]
    hint = "one call of part for each micro-batch, and nothing else"
    if calls.count("F") == m + 1:
        hint += "; PyTorch's schedules, not allowed here, make one more to find out shapes"
    compare(f"{what}: calls of part", calls.count("F"), m, rank=rank, hint=hint)
    hint = "each micro-batch's output needs its backward, also those of the warm-up"
    if calls.count("B") == 0:
        hint = "no backward reached part: backward(gradient) continues from its output"
    compare(f"{what}: backwards through part", calls.count("B"), m, rank=rank, hint=hint)
    wanted = _one_by_one(rank, m, limit=last + 1)
    if log == wanted:
        return
    came, expected = (" ".join(f"{kind}{i}" for kind, i in actions) for actions in (log, wanted))
    hint = "how many forwards does this rank need before its first backward? Then one and one"
    if log == [[kind, i] for kind in "FB" for i in range(m)]:
        hint = "all forwards first: that is GPipe"
    elif [i for kind, i in log if kind == "B"] != list(range(m)):
        hint = "backwards come in the order of the forwards: the oldest first"
    elif log == [[kind, i] for i in range(m) for kind in "FB"]:
        hint = "one micro-batch at a time: the ranks behind this one have nothing to do meanwhile"
    reject(f"{what}: the order", expected=expected, came=came, rank=rank, hint=hint)


def _decide_messages(what: str, s: dict[str, Any], rank: int, last: int, m: int) -> None:
    for operation in s["operations"]:
        if operation.split(":")[-1] not in ("send", "recv", "recv_anysource"):
            hint = "no rank but a neighbor needs anything: send and receive are enough"
            reject(
                f"{what}: a collective ran", expected="messages only", came=operation, rank=rank, hint=hint
            )
    messages = [Message(*message) for message in s["messages"]]
    sends = Counter(message.peer for message in messages if message.kind == "send")
    wanted = {peer: m for peer in (rank - 1, rank + 1) if 0 <= peer <= last}
    hint = "an activation to the next rank, a gradient to the one before, for each micro-batch"
    compare(f"{what}: messages sent, by receiver", _named(sends), _named(wanted), rank=rank, hint=hint)
    elements = sum(message.elements for message in messages if message.kind == "send")
    at_most(f"elements sent ({what})", elements, 64 * sum(wanted.values()), rank=rank, hint=hint)


def _named(counts: dict[int, int]) -> list[str]:
    return [f"{counts[peer]} to rank {peer}" for peer in sorted(counts)]


def _serial(inputs: list[Tensor], targets: list[Tensor], world_size: int) -> tuple[float, list[list[float]]]:
    """The loss and, for each part, its gradient as one list."""
    parts = [_Watched(rank) for rank in range(world_size)]
    loss = nn.functional.mse_loss(nn.Sequential(*parts)(torch.cat(inputs)), torch.cat(targets))
    loss.backward()
    return loss.item(), [part.weight.grad.flatten().tolist() for part in parts]


def _decide_gradient(what: str, came: Any, rank: int, world_size: int, m: int) -> None:
    inputs, targets = _batch(m)
    wanted = _serial(inputs, targets, world_size)[1][rank]
    if came is None:
        reject(f"{what}: part's parameters have no gradient", rank=rank, hint="backward() fills .grad")
    came = [x for row in came for x in row]
    hint = "the loss is a mean over all micro-batches: what does one of them weigh?"
    if _close(came, [64 * w for w in wanted], 1e-6):
        hint = "mse_loss is a mean over all elements, not their sum"
    elif _close(came, [w / m for w in _serial(inputs[-1:], targets[-1:], world_size)[1][rank]], 1e-6):
        hint = "that is the last micro-batch alone: backward adds to .grad, as long as nothing clears it"
    elif rank < world_size - 1:
        hint = "the last rank's is right: is each message taken for the micro-batch it is of?"
    compare(f"{what}: the gradient", came, wanted, rank=rank, hint=hint)


def decide_step(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    last = world_size - 1
    for case, m in enumerate(_CASES):
        what = f"m={m}, {world_size} rank{'s' if last else ''}"
        loss, _ = _serial(*_batch(m), world_size)
        for rank, runs in enumerate(seen):
            s = runs[case]  # the steps end behind one that is rejected here
            _decide_order(what, s["log"], rank, last, m)
            hint = "the backward of a micro-batch frees what it held; retain_graph keeps it"
            limit = min(world_size - rank, m)
            at_most(f"micro-batches held ({what})", s["most"], limit, rank=rank, hint=hint)
            at_most(f"micro-batches held after the step ({what})", s["left"], 0, rank=rank, hint=hint)
            _decide_messages(what, s, rank, last, m)
        for rank in reversed(range(world_size)):  # a wrong gradient travels from the last rank to the first
            _decide_gradient(what, seen[rank][case]["gradient"], rank, world_size, m)
            if seen[rank][case]["trained"]:
                hint = "the gradient stays in .grad; the update is not part of this step"
                reject(f"{what}: part's parameters changed", rank=rank, hint=hint)
        hint = "the mean loss of the whole batch, as a float"
        compare(f"{what}: the loss", seen[last][case]["loss"], loss, rank=last, hint=hint)
        for rank in range(last):
            hint = "this rank does not know the loss"
            compare(f"{what}: returned", seen[rank][case]["loss"], None, rank=rank, hint=hint)
    return "the serial gradient on 4 ranks, 2 and 1, and no rank holds more than min(p - rank, m)."


_HANG = (
    "send waits for its receiver: if a rank sends forward while the next sends back, both wait. isend goes "
    "on, until it is waited for; and does a rank receive exactly what its neighbors send, up to the last "
    "gradient?"
)

_LOOP = "a loop that finds neither a forward nor a backward to do never ends: what may a late stage hold?"

EXERCISES = {
    "16.1": Exercise(see_stage, decide_stage, world_sizes=(1,), timeout=5.0, timeout_hint=_LOOP),
    "16.2": Exercise(see_idle, decide_idle, world_sizes=(1,)),
    "16.3": Exercise(see_step, decide_step, world_sizes=(4, 2, 1), timeout=10.0, timeout_hint=_HANG),
}
