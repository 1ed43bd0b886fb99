"""Checks of chapter 18: five broken programs, which mended are right, end, and send no more than before."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.exercises.judging import Exercise, at_most, brief, compare, compare_ranks, reject
from course_utils.exercises.messages import logged_calls
from course_utils.measure import count_operations

_ORDER = "each rank's k-th call meets the others' k-th call: write down the order of calls of two ranks"


def _check_traffic(
    seen: Sequence[list[Any]], collectives: int, sent: int, what: str = "the call", hint: str = ""
) -> None:
    """Reject where a rank ran a barrier, more than ``collectives``, or gave them more than ``sent`` bytes.

    ``seen`` has for each rank the sequence that count_operations recorded.
    """
    for rank, operations in enumerate(seen):
        if barriers := [name for name, _ in operations if "barrier" in name]:
            vain = "ranks that call the same collectives meet in them anyway: a barrier mends nothing"
            reject("a barrier was called", expected="none", came=len(barriers), rank=rank, hint=vain)
        at_most(f"collectives ({what})", len(operations), collectives, rank=rank, hint=hint)
        at_most(
            f"bytes given to collectives ({what})", sum(s for _, s in operations), sent, rank=rank, hint=hint
        )


# 18.1 · losses of each rank, limit; by world_size
_STOP: dict[int, list[tuple[list[list[float]], float]]] = {
    4: [
        ([[1.0], [3.0, 3.0], [], [4.0]], 2.0),  # mean 2.75; rank 0 alone would stop
        ([[9.0], [1.0] * 9, [1.0, 1.0], [1.0]], 2.5),  # mean 1.6, mean of means 3
        ([[2.0], [2.0], [2.0], [2.0]], 3.0),  # mean 2, sum 8
        ([[], [5.0], [1.0, 1.0, 1.0], [2.0]], 2.0),  # mean 2: not below
    ],
    2: [([[1.0, 1.0, 1.0], [6.0]], 3.0), ([[8.0], [2.0, 1.0]], 3.0), ([[0.5], [0.25]], 1.0)],
}


def see_stop(should_stop: Callable[..., Any]) -> list[dict[str, Any]]:
    seen = []
    for losses, limit in _STOP[dist.get_world_size()]:
        with count_operations() as operations:
            stop = should_stop(torch.tensor(losses[dist.get_rank()], dtype=torch.float32), limit)
        seen.append({"stop": stop, "operations": operations.sequence})
    return seen


def _stop_hint(came: list[list[Any]], cases: list[tuple[list[list[float]], float]]) -> str:
    """What the answers, a list a rank with one for each case, tell about the mistake."""
    n = len(came)
    means = [[sum(part) / max(1, len(part)) for part in losses] for losses, _ in cases]
    limits = [limit for _, limit in cases]
    own = [  # of no losses it is nan, and not below
        [
            bool(losses[rank]) and mean[rank] < limit
            for (losses, limit), mean in zip(cases, means, strict=True)
        ]
        for rank in range(n)
    ]
    mistakes = {
        "that is the mean over this rank's own samples": own,
        "that is rank 0's own mean, told to all": own[:1] * n,
        "a mean of means: what does a sample weigh on a rank that has many?": (
            [[sum(mean) / n < limit for mean, limit in zip(means, limits, strict=True)]] * n
        ),
        "the sum of the losses, or the count, is of this rank alone": (
            [[sum(map(sum, losses)) < limit for losses, limit in cases]] * n
        ),
    }
    return next((hint for hint, wrong in mistakes.items() if came == wrong), "")


def decide_stop(seen: list[list[dict[str, Any]]]) -> str:
    cases = _STOP[len(seen)]
    came = [[case["stop"] for case in rank] for rank in seen]
    hint = _stop_hint(came, cases)
    for i, (losses, limit) in enumerate(cases):
        whole = [loss for part in losses for loss in part]
        wanted = sum(whole) / len(whole) < limit
        what = f"losses {losses}, limit {limit:g}"
        answers = [rank[i] for rank in came]
        if any(not isinstance(answer, bool) for answer in answers):
            reject(
                f"{what}: not True or False", came=answers, hint="return the answer, as a bool, on every rank"
            )
        told = (
            "rank 0 has the right answer: does each of the others learn it?" if answers[0] is wanted else ""
        )
        compare_ranks(what, answers, [wanted] * len(seen), hint=hint or told)
        few = "the sum and the count travel together; what all ranks know, nobody has to be told"
        _check_traffic([rank[i]["operations"] for rank in seen], 2, 32, what, few)
    return "every rank takes part in what rank 0 needs, so every rank knows."


# 18.2 · names in the order of rank 0; each rank begins one further
_NAMES = (
    *("head.weight", "head.bias", "embedding.weight", "norm.weight", "norm.bias"),
    # so many that the order of a set depends on that of the dictionary, though ranks share a hash seed here
    *(f"block.{i}.{part}" for i in range(3) for part in ("attention.weight", "mlp.weight", "mlp.bias")),
)


def _gradients(rank: int) -> dict[str, Tensor]:
    first = rank % len(_NAMES)
    order = _NAMES[first:] + _NAMES[:first] if rank % 2 == 0 else (_NAMES[first:] + _NAMES[:first])[::-1]
    number = {name: i for i, name in enumerate(_NAMES)}
    return {name: torch.full((2, 2), 8.0 ** number[name] * (rank + 1), dtype=torch.float64) for name in order}


def see_by_name(average_by_name: Callable[..., Any]) -> dict[str, Any]:
    gradients = _gradients(dist.get_rank())
    given = dict(gradients)
    with count_operations() as operations:
        average_by_name(gradients)
    apart = any(gradients.get(name) is not tensor for name, tensor in given.items())
    values = {name: given[name].flatten().tolist() for name in _NAMES}
    return {"values": values, "apart": apart, "operations": operations.sequence}


def decide_by_name(seen: list[dict[str, Any]]) -> str:
    n = len(seen)
    given = [_gradients(rank) for rank in range(n)]
    for rank, s in enumerate(seen):
        for name in _NAMES:
            wanted = (sum(gradients[name] for gradients in given) / n).flatten().tolist()
            own, hint = given[rank][name].flatten().tolist(), _ORDER
            if s["apart"] and s["values"][name] == own:
                hint = "gradients[name] = ... is another tensor: change the one that is there"
            elif s["values"][name] == own:
                hint = "that is this rank's own gradient: nothing came from the others"
            elif s["values"][name] == [n * value for value in wanted]:
                hint = "the average over ranks, not the sum; divide the tensor that was given, in place"
            compare(f"the average of {name}", s["values"][name], wanted, rank=rank, hint=hint)
    few = "the names are the same on all ranks: they can agree on an order without talking"
    _check_traffic([s["operations"] for s in seen], len(_NAMES), len(_NAMES) * 32, hint=few)
    return "an order that follows from the names is the same on every rank."


# 18.3 · samples in each batch of each rank; by world_size
_SIZES = {4: ((3, 2), (1,), (), (4, 1, 2)), 3: ((2,), (2, 2, 1), (1, 1)), 2: ((1, 2), (3, 1))}
_D, _LR = 3, 0.25


def _batches(rank: int, world_size: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(rank + 10)
    sizes = _SIZES[world_size][rank]
    return [torch.randn(size, _D, generator=generator, dtype=torch.float64) + rank for size in sizes]


def see_epoch(train_epoch: Callable[..., Any]) -> dict[str, Any]:
    weight = torch.ones(_D, dtype=torch.float64)
    with count_operations() as operations:
        steps = train_epoch(weight, _batches(dist.get_rank(), dist.get_world_size()), _LR)
    return {"steps": steps, "weight": weight, "operations": operations.sequence}


def _epoch(world_size: int, steps: int, mistake: str = "", rank: int = 0) -> list[float]:
    """The weight that ``rank`` ends with after so many steps, all of it right but for the mistake."""
    batches = [_batches(r, world_size) for r in range(world_size)]
    weight = torch.ones(_D, dtype=torch.float64)
    for step in range(steps):
        parts = [own[step] for own in batches if step < len(own)]
        if mistake == "repeats":
            parts = [own[min(step, len(own) - 1)] for own in batches if own]
        elif mistake == "zeros":
            parts = [own[step] if step < len(own) else torch.zeros_like(weight)[None] for own in batches]
        mean = weight - torch.cat(parts).mean(0)
        if mistake == "means":
            mean = torch.stack([weight - part.mean(0) for part in parts]).sum(0) / world_size
        elif mistake == "means of those who have one":
            mean = torch.stack([weight - part.mean(0) for part in parts]).mean(0)
        elif mistake == "sum":
            mean = torch.cat([weight - part for part in parts]).sum(0)
        if mistake == "leaves" and step >= len(batches[rank]):
            break
        weight = weight - _LR * mean
    return weight.tolist()


def decide_epoch(seen: list[dict[str, Any]]) -> str:
    n = len(seen)
    lengths = [len(sizes) for sizes in _SIZES[n]]
    longest, what = max(lengths), f"{', '.join(map(str, lengths))} batches on the ranks"
    for rank, s in enumerate(seen):
        hint = "the ranks go on until the last one has no batch left"
        if s["steps"] == min(lengths) < longest:
            hint = "batches are left out: the rank with the fewest must not end the epoch"
        elif s["steps"] == lengths[rank] != longest:
            hint = "all ranks take the same steps, and return how many: those without a batch, too"
        compare(f"{what}: steps", s["steps"], longest, rank=rank, hint=hint)
    mistakes = {
        "repeats": "a rank that has no batch left must not bring an old one again",
        "zeros": "a rank that has no batch left brings no sample: one of zeros counts as a sample",
        "means": "what does a sample weigh, and what an empty batch?",
        "means of those who have one": "what does a sample weigh in a batch of 4, what in a batch of 1?",
        "sum": "the mean over the samples, not their sum",
        "leaves": "the weight has to stay equal on all ranks: a rank without a batch moves it, too",
    }
    for rank, s in enumerate(seen):
        hint = "step i: the mean over the samples in all ranks' batches i"
        for mistake, words in mistakes.items():
            wrong = torch.tensor(_epoch(n, longest, mistake, rank))
            came = torch.tensor(s["weight"])
            if wrong.shape == came.shape and torch.allclose(came, wrong, atol=1e-9):
                hint = words
                break
        if s["weight"] == [1.0] * _D:
            hint = "weight is changed in place: weight = weight - ... makes another tensor"
        compare(f"{what}: weight", s["weight"], _epoch(n, longest), rank=rank, hint=hint)
    few = "one collective tells how many steps, and one a step carries sum and count together"
    sent = (longest + 1) * (_D + 1) * 8
    _check_traffic([s["operations"] for s in seen], longest + 1, sent, what, few)
    return "every sample counts once, and nobody waits for a rank that has left."


# 18.4 · the ranks whose batch is bad, call by call; by world_size
_BAD: dict[int, tuple[tuple[int, ...], ...]] = {
    4: ((), (1,), (), (0, 2), (0, 1, 2, 3), ()),
    2: ((), (0,), (), (1,), ()),
}


def _batch(rank: int, call: int, bad: bool) -> Tensor:
    batch = torch.arange(8, dtype=torch.float64).view(2, 4) + 10 * rank + 100 * call
    batch[0, 0] = torch.nan if bad else batch[0, 0]
    return batch


def _overflow(batch: Tensor) -> Tensor:
    """A gradient that is no number, of a batch that raises nothing: on rank 0 alone."""
    return batch.mean(0) * (torch.nan if dist.get_rank() == 0 else 1.0)


def _mistake(batch: Tensor) -> Tensor:
    raise KeyError("a mistake in gradient_of")


def see_careful(careful_average: Callable[..., Any]) -> dict[str, Any]:
    seen, rank = [], dist.get_rank()
    for call, bad in enumerate(_BAD[dist.get_world_size()]):
        asked = 0

        def gradient_of(batch: Tensor) -> Tensor:
            nonlocal asked
            asked += 1
            if batch.isnan().any():
                raise ValueError("nan in the batch")
            return batch.mean(0)

        with count_operations() as operations:
            average = careful_average(_batch(rank, call, rank in bad), gradient_of)
        seen.append({"average": average, "asked": asked, "operations": operations.sequence})
    overflowed = careful_average(_batch(rank, len(seen), False), _overflow)
    try:
        careful_average(_batch(rank, len(seen) + 1, False), _mistake)
        swallowed = True
    except KeyError:
        swallowed = False
    return {"calls": seen, "overflow is None": overflowed is None, "swallowed": swallowed}


def _careful_hint(came: Any, rank: int, call: int, bad: tuple[int, ...], n: int) -> str:
    own = _batch(rank, call, False).mean(0)
    whole = [_batch(r, call, False).mean(0) for r in range(n)]
    good = [mean for r, mean in enumerate(whole) if r not in bad]
    if bad and came is None:
        return ""
    if not bad:
        if came is None:
            return "no rank had a bad batch in this call: what is left over from the one before?"
        if came == own.tolist():
            return "that is this rank's own gradient"
        return (
            "after a bad batch the ranks are out of step: a collective met one of another call"
            if call
            else ""
        )
    if rank in bad:
        return "gradient_of raised here: this batch is skipped"
    if good and came in ((sum(good) / n).tolist(), (sum(good) / len(good)).tolist()):
        return "one bad batch, and all ranks skip: an average over fewer ranks is not wanted"
    return "this rank's batch was good, another's was not: how does this rank learn of it?"


def decide_careful(seen: list[dict[str, Any]]) -> str:
    n = len(seen)
    for call, bad in enumerate(_BAD[n]):
        who = f"bad on rank {', '.join(map(str, bad))}" if bad else "all batches good"
        what = f"call {call}, {who}"
        wanted = None if bad else (sum(_batch(r, call, False).mean(0) for r in range(n)) / n).tolist()
        for rank, ran in enumerate(s["calls"] for s in seen):
            came = ran[call]["average"]
            hint = _careful_hint(came, rank, call, bad, n)
            if wanted is None and came is not None:
                reject(f"{what}: not None", expected="None on all ranks", came=came, rank=rank, hint=hint)
            compare(f"{what}: the average", came, wanted, rank=rank, hint=hint)
            once = "gradient_of is costly: call it once"
            compare(f"{what}: calls of gradient_of", ran[call]["asked"], 1, rank=rank, hint=once)
        few = "whether it went well is one number: it can travel with the gradient"
        _check_traffic([s["calls"][call]["operations"] for s in seen], 2, 4 * 8 + 16, what, few)
    for rank, s in enumerate(seen):
        if s["overflow is None"]:
            apart = "nan may be a gradient, too: say in another number that gradient_of raised"
            reject("None, where a gradient was nan and nothing was raised", rank=rank, hint=apart)
        if s["swallowed"]:
            narrow = "a bad batch raises ValueError; what else is raised is a mistake that has to be seen"
            reject("a KeyError of gradient_of was not let through", rank=rank, hint=narrow)
    return "a rank that fails still calls what the others call, and says so there."


# 18.5 · elements of each weight. The last rank comes when the others have started all, or after _PATIENCE;
# and a little later, so that what is used too early is not there yet. No clock decides on a right answer.
_ELEMENTS, _STEP, _PATIENCE, _LATE = (60_000, 5, 90_000, 700), 0.5, 3.0, 0.3


def _gradient(rank: int, i: int) -> float:
    return (rank + 1.0) * 10**i


@contextmanager
def _logged_waits() -> Iterator[list[str]]:
    """Every way to learn from a work handle that it is over, each time that it is used."""
    names, log = ("wait", "is_completed", "get_future", "synchronize"), []
    real = {name: getattr(dist.Work, name) for name in names}

    def logging(name: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            log.append(name)
            return real[name](self, *arguments, **options)

        return call

    for name in names:
        setattr(dist.Work, name, logging(name))
    try:
        yield log
    finally:
        for name, function in real.items():
            setattr(dist.Work, name, function)


def see_overlapped(overlapped_step: Callable[..., Any]) -> dict[str, Any]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    weights = [torch.full((n,), float(i), dtype=torch.float64) for i, n in enumerate(_ELEMENTS)]
    given = list(weights)
    store, others = dist.distributed_c10d._get_default_store(), range(world_size - 1)
    gradients = [torch.full_like(w, _gradient(rank, i)) for i, w in enumerate(weights)]
    dist.barrier()
    with (
        count_operations() as operations,
        logged_calls(("allreduce", "allreduce_coalesced"), lambda *_: store.add(f"started {rank}", 1)),
        _logged_waits() as waits,
    ):
        started: list[int] = []
        if rank == world_size - 1:
            end = time.monotonic() + _PATIENCE
            while min(started, default=0) < len(_ELEMENTS) and not store.add("raised", 0):
                time.sleep(0.02)
                started = [store.add(f"started {other}", 0) for other in others]
                if time.monotonic() > end:
                    break
            time.sleep(_LATE)
        try:
            overlapped_step(weights, gradients, _STEP)
        except BaseException:
            store.add("raised", 1)  # then the last rank has nobody to wait for
            raise
    ends = [[weight.min().item(), weight.max().item()] for weight in given]
    return {
        "ends": ends,
        "started": started,
        "waits": len(waits),
        "operations": operations.sequence,
    }


def decide_overlapped(seen: list[dict[str, Any]]) -> str:
    n = len(seen)
    for rank, s in enumerate(seen):
        for i, (came, elements) in enumerate(zip(s["ends"], _ELEMENTS, strict=True)):
            total = sum(_gradient(r, i) for r in range(n))
            wanted, summed = i - _STEP * total / n, i - _STEP * total
            hint = "an average that is not there yet was used: what says that an all-reduce is over?"
            if came == [float(i)] * 2:
                hint = "the weight has not moved: weight = weight - ... makes another tensor"
            elif came == [summed] * 2:
                hint = "the average over ranks, not the sum"
            elif came == [i - _STEP * _gradient(rank, i)] * 2:
                hint = "that is this rank's own gradient: was the all-reduce over when it was used?"
            what = f"weight {i} of {elements} elements, smallest and largest"
            compare(what, came, [wanted] * 2, rank=rank, hint=hint)
    each = "one all-reduce for each gradient, and nothing else"
    total_bytes = 8 * sum(_ELEMENTS)
    _check_traffic([s["operations"] for s in seen], len(_ELEMENTS), total_bytes, hint=each)
    for rank, s in enumerate(seen):
        sizes = sorted(size for _, size in s["operations"])
        if sizes != sorted(8 * n for n in _ELEMENTS):
            wanted = [8 * elements for elements in _ELEMENTS]
            reject("not one all-reduce a gradient", expected=wanted, came=brief(sizes), rank=rank, hint=each)
        if s["waits"] < len(_ELEMENTS):
            pause = "a pause is no wait: next time it may be too short. What does async_op=True return?"
            reject("not every all-reduce was waited for", came=s["waits"], rank=rank, hint=pause)
    for rank, started in enumerate(seen[-1]["started"]):
        if started < len(_ELEMENTS):
            reject(
                "not all were started before the first was waited for",
                expected=f"{len(_ELEMENTS)} all-reduces on their way while rank {n - 1} is late",
                came=started,
                rank=rank,
                hint="start all of them, and keep what async_op=True returns",
            )
    return "started together, awaited one by one, and used only then."


_FEW = {"timeout": 6.0}
EXERCISES = {
    "18.1": Exercise(
        see_stop, decide_stop, (4, 2), **_FEW, timeout_hint="compare the calls of rank 0 with the others'"
    ),
    "18.2": Exercise(see_by_name, decide_by_name, (4, 3), **_FEW, timeout_hint=_ORDER),
    "18.3": Exercise(
        see_epoch,
        decide_epoch,
        (4, 3, 2),
        **_FEW,
        timeout_hint="who has left the loop, and who is still in it? A rank without a batch takes part, too",
    ),
    "18.4": Exercise(
        see_careful,
        decide_careful,
        (4, 2),
        **_FEW,
        timeout_hint="all ranks call the same collectives, with one shape and type, after an error too",
    ),
    "18.5": Exercise(see_overlapped, decide_overlapped, (4, 2), timeout=10.0),
}
