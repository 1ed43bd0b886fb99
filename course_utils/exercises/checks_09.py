"""Checks of chapter 09: bytes a GPU, the largest model, a calculator with two mistakes."""

from collections.abc import Callable
from typing import Any

from course_utils.exercises.judging import Exercise, compare, reject

_GIB = 2**30
_PARTS = ("weights", "gradients", "optimizer state")


def _three(came: Any, case: str) -> list[float]:
    """The three numbers that were returned; rejected where they are not."""
    if came is not None and not (isinstance(came, list) and len(came) == 3):
        parts = ", ".join(_PARTS)
        reject(f"not three numbers for {case}", expected=f"a tuple: {parts}", came=came)
    return came or [None, None, None]


def _near(came: Any, wanted: float) -> bool:
    return isinstance(came, (int, float)) and abs(came - wanted) <= 1e-6 * max(1e-3, abs(wanted))


# 09.1 · trained, frozen, stage, world_size, group

_HELD = (
    *((7_500_000_000, 0, stage, 32, 8) for stage in range(4)),  # another number of groups than of GPUs in one
    *((7_000_000_000, 0, stage, 8, 8) for stage in range(4)),
    *((40_000_000, 8_000_000_000, stage, 16, 4) for stage in range(4)),
    (3_000_000, 1_000_000_000, 3, 6, 1),
)


def _held(trained: int, frozen: int, stage: int, _world_size: int, group: int) -> list[float]:
    divide = [group if stage >= first else 1 for first in (3, 2, 1)]
    sizes = (2 * (trained + frozen), 2 * trained, 12 * trained)
    return [size / d / _GIB for size, d in zip(sizes, divide, strict=True)]


def see_gib_per_gpu(gib_per_gpu: Callable[..., Any]) -> list[Any]:
    return [gib_per_gpu(*case) for case in _HELD]


def _held_hint(part: int, came: Any, case: tuple[int, ...]) -> str:
    """What to think of, by the mistake that gives this value."""
    trained, frozen, stage, world_size, group = case
    if not isinstance(came, (int, float)):
        return "three numbers were asked for"
    wanted = _held(*case)[part]
    if _near(came, wanted * _GIB):
        return "these are bytes"
    if _near(came, wanted * _GIB / 1e9):
        return "GB or GiB?"
    if _near(came, _held(trained, frozen, stage, world_size, world_size)[part]):
        return "among how many GPUs is one copy divided, and how many copies are there?"
    if _near(came, _held(trained, frozen, stage, world_size, world_size // group)[part]):
        return "is `group` the number of groups, or of the GPUs in one?"
    if _near(came, _held(trained, frozen, 0, 1, 1)[part]) or _near(
        came, _held(trained, frozen, 3, 1, group)[part]
    ):
        return f"which parts does stage {stage} divide?"
    if frozen and part and came > wanted:
        return "what does a parameter need that is never updated, and what does it not need?"
    if frozen and not part and _near(came, _held(trained, 0, stage, world_size, group)[0]):
        return "frozen parameters take part in forward, too"
    if frozen and stage == 3 and _near(came - 2 * frozen / _GIB, 2 * trained / group / _GIB):
        return "which weights does stage 3 divide?"
    if came == round(came, 3):
        return "is it rounded? return all digits"
    return (
        f"{trained:,} trained and {frozen:,} frozen parameters: which bytes has each, and who divides them?"
    )


def decide_gib_per_gpu(seen: list[Any]) -> str:
    for came, case in zip(seen[0], _HELD, strict=True):
        trained, frozen, stage, world_size, group = case
        what = f"stage {stage}, {world_size} GPUs in groups of {group}"
        values = _three(came, what)
        for part, (value, wanted) in enumerate(zip(values, _held(*case), strict=True)):
            if not _near(value, wanted):
                count = f"{trained / 1e9:g} + {frozen / 1e9:g} billion parameters, {what}"
                compare(
                    f"{_PARTS[part]}: {count}", value, wanted, hint=_held_hint(part, value, case), tolerance=0
                )
    return (
        "only what is trained has gradients and state, and a group holds one copy of what its stage divides."
    )


# 09.2 · memory, hidden, vocab, tokens, world_size, stage

_DEEP = (
    (80 * 10**9, 4096, 32_000, 4096, 1, 0),
    (80 * 10**9, 4096, 32_000, 4096, 64, 0),
    (80 * 10**9, 4096, 32_000, 4096, 64, 1),
    (80 * 10**9, 4096, 32_000, 4096, 64, 2),
    (80 * 10**9, 4096, 32_000, 4096, 64, 3),
    (80 * 10**9, 8192, 128_000, 8192, 1024, 3),
    (141 * 10**9, 8192, 128_000, 8192, 256, 3),
    (12 * 10**9, 8192, 128_000, 8192, 8, 3),  # not even one
    (10**9, 1024, 50_000, 65_536, 8, 2),  # the activations alone
    (2_602_565_632, 1024, 32_768, 4096, 8, 2),  # ten layers, to the byte
)


def _bytes(
    layers: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int, *, without: str = ""
) -> float:
    """Bytes on one GPU, or what comes out where one part is forgotten."""
    weights, gradients, state = (
        b / (world_size if stage >= first else 1) for b, first in ((2, 3), (2, 2), (12, 1))
    )
    n = 12 * hidden**2 * layers + 2 * vocab * hidden * (without != "tables")
    act = tokens * 32 * hidden * layers * (without != "activations")
    act += tokens * 4 * vocab * (without != "log-probabilities")
    if without == "whole activations":
        act /= world_size
    gathered = 4 * 12 * hidden**2 if stage == 3 and without != "gathered" else 0
    return (weights + gradients + state) * n + act + gathered


def _deepest(memory: int, *shape: int, without: str = "") -> int:
    """Upwards from the linear estimate, so that rounding cannot decide."""
    rest, one = (_bytes(layers, *shape, without=without) for layers in (0, 1))
    layers = max(0, int((memory - rest) // (one - rest)))
    while layers and _bytes(layers, *shape, without=without) > memory:
        layers -= 1
    return layers


_LEFT_OUT = {
    "whole activations": "which bytes does a stage divide, and are activations among them?",
    "activations": "what does each layer save for each token?",
    "log-probabilities": "does what the vocabulary takes in activations count too?",
    "tables": "the two tables are parameters, too",
    "gathered": "in stage 3 a whole layer is there while it is computed",
}


def see_most_layers(most_layers: Callable[..., Any]) -> list[Any]:
    return [most_layers(*case) for case in _DEEP]


def decide_most_layers(seen: list[Any]) -> str:
    for came, case in zip(seen[0], _DEEP, strict=True):
        memory, hidden, vocab, tokens, world_size, stage = case
        wanted = _deepest(*case)
        if isinstance(came, float):
            reject(
                "not a whole number of layers", expected="an int", came=came, hint="layers come whole: int"
            )
        hint = f"write down the bytes of L layers as a + b·L: here {memory:,} bytes are the limit"
        left = (memory - 48 * hidden**2, *case[1:])
        alike = (memory, hidden, vocab, tokens, world_size, 3)
        fits = [part for part in _LEFT_OUT if came == _deepest(*case, without=part) != wanted]
        if wanted == 0 and came == 1:
            hint = "does even one layer fit here?"
        elif came == wanted + 1:  # several mistakes give that
            hint = "one layer too many: is all counted, tables and log-probabilities too, and rounded down?"
        elif fits:
            hint = _LEFT_OUT[fits[0]]
        elif came == wanted - 1 and _bytes(wanted, *case[1:]) == memory:
            hint = f"does what needs exactly {memory:,} bytes still fit?"
        elif stage < 3 and came == _deepest(*left):
            hint = "which stage gathers a layer?"
        elif stage < 3 and came == _deepest(*alike, without="gathered"):
            hint = f"which bytes does stage {stage} divide?"
        elif came == _deepest(memory, hidden, vocab, tokens * world_size, world_size, stage):
            hint = "tokens are those on one GPU"
        if isinstance(came, int) and came < 0:
            hint = "less than no layers: the rest alone is too large"
        what = f"h={hidden}, V={vocab}, {tokens} tokens, world_size={world_size}, stage {stage}"
        compare(f"layers in {memory / 1e9:g} GB: {what}", came, wanted, hint=hint, tolerance=0)
    return "turned round, the formula says what fits, and the activations have their share."


# 09.3 · n, tp, pp, dp, stage

_SPLITS = ((8, 1, 4), (4, 2, 2), (1, 1, 8), (1, 4, 16), (2, 2, 1))
_N = 6_871_326_720
_SPLIT = tuple((_N, *split, stage) for stage in range(4) for split in _SPLITS)


def _split(n: int, tp: int, pp: int, dp: int, stage: int) -> list[float]:
    divide = [dp if stage >= first else 1 for first in (3, 2, 1)]
    return [b * n / (tp * pp) / d for b, d in zip((2, 4, 12), divide, strict=True)]


def see_mended_calculator(mended_calculator: Callable[..., Any]) -> list[Any]:
    return [mended_calculator(*case) for case in _SPLIT]


def _split_hint(part: int, came: Any, case: tuple[int, ...]) -> str:
    n, tp, pp, dp, stage = case
    wanted = _split(*case)[part]
    if _near(came, wanted / (tp * pp)):
        return "tp · pp is in tp · pp · dp already"
    if _near(came, wanted * tp * pp):
        return f"a GPU works on 1 / {tp * pp} of the model: does it hold {_PARTS[part]} of the rest?"
    if tp * pp == 1:  # where the model is split, all was right
        return "with tp = pp = 1 the whole model is on each of the dp ranks"
    if _near(came, _split(n, tp, pp, dp, 3)[part]) or _near(came, _split(n, tp, pp, dp, 0)[part]):
        return f"which parts does stage {stage} divide?"
    if _near(came, wanted / _GIB):
        return "bytes were asked for"
    if part == 1 and _near(came, wanted / 2):
        return "how many bytes has a gradient here?"
    return "first the part of the model that a GPU works on, then what its data-parallel ranks share"


def decide_mended_calculator(seen: list[Any]) -> str:
    for came, case in zip(seen[0], _SPLIT, strict=True):
        _, tp, pp, dp, stage = case
        what = f"tp={tp}, pp={pp}, dp={dp}, stage {stage}"
        values = _three(came, what)
        for part, (value, wanted) in enumerate(zip(values, _split(*case), strict=True)):
            if not _near(value, wanted):
                hint = _split_hint(part, value, case)
                compare(f"{_PARTS[part]} with {what}", value, wanted, hint=hint, tolerance=0)
    return "tensor and pipeline parallelism divide everything once, and the stage divides what is left by dp."


EXERCISES = {
    "09.1": Exercise(see_gib_per_gpu, decide_gib_per_gpu, world_sizes=(1,)),
    "09.2": Exercise(
        see_most_layers,
        decide_most_layers,
        world_sizes=(1,),
        timeout_hint="what in the loop brings it nearer to its end?",
    ),
    "09.3": Exercise(see_mended_calculator, decide_mended_calculator, world_sizes=(1,)),
}
