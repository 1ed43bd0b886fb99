"""How a check is written: look in the ranks, decide in the notebook.

    def see_average(weighted_average):                # in every rank: calls the student's function
        gradient, count = example(dist.get_rank())
        with count_operations() as operations:
            average = weighted_average(gradient, count)
        return {"average": average, "operations": operations}

    def decide_average(seen):                         # in the notebook: has plain data, one item a rank
        compare_ranks("the average", [s["average"] for s in seen], [WANTED] * len(seen), hint="...")
        return "unequal counts on four ranks gave the full batch's gradient."

    EXERCISES = {"02.1": Exercise(see_average, decide_average, world_sizes=(4, 3))}

What ``observe`` returns travels as JSON (``plain`` makes tensors nested lists), so that a decision touches no
object that student code made, and a grader can take the two steps apart. ``decide`` calls ``reject``, or a
helper that does, or returns one sentence on what was shown. Where the answer is a value, ``observe`` is None,
and ``seen`` is the value.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

from course_utils.exercises.verdict import NOT_RIGHT, RIGHT, Verdict, not_attempted
from course_utils.report import RankError, RankTimeout

_NOTHING = "nothing came back: does the function end in return?"


@dataclass(frozen=True)
class Exercise:
    """``observe`` runs in a launch for each of ``world_sizes`` ((1,) where ranks are not the subject),
    ``decide`` after each. ``timeout`` is in seconds, ``timeout_hint`` what to look at when it was not enough,
    or when a rank died of a signal; ``options`` go to launch, such as {"init": False}."""

    observe: Callable[[Callable[..., Any]], Any] | None
    decide: Callable[[Any], str]
    world_sizes: tuple[int, ...] = (4,)
    timeout: float = 20.0
    timeout_hint: str = "every rank calls the same operations in the same order, one without data too"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def launch_options(self) -> dict[str, Any]:
        """What launch is given beside the world size."""
        return {"backend": "gloo", "timeout": self.timeout} | self.options


class NotAttempted(Exception):
    """A rank met the stub; the launcher's report names it."""


class Rejected(Exception):
    """Raised by ``reject``; its arguments are the verdict's fields."""


def chapter_exercises(chapter: str) -> dict[str, Exercise]:
    """The exercises of chapter "02" by id; none where that chapter has none."""
    name = f"course_utils.exercises.checks_{chapter}"
    return import_module(name).EXERCISES if chapter.isdecimal() and find_spec(name) else {}


def find(exercise: str) -> Exercise:
    """The exercise of that id. Raises ValueError, with the ids of its chapter, or of all."""
    there = chapter_exercises(str(exercise).split(".")[0])
    if exercise not in there:
        known = there or [name for chapter in range(100) for name in chapter_exercises(f"{chapter:02}")]
        raise ValueError(f"no exercise {exercise!r}; there are {', '.join(sorted(known)) or 'none yet'}")
    return there[exercise]


def in_rank(observe: Callable[[Any], Any] | None, answer: Any) -> str:
    """The first step, in a rank: look at the student's answer and say what was seen, as JSON."""
    try:
        return json.dumps(plain(observe(answer) if observe else answer))
    except NotImplementedError as error:
        if error.args:  # torch raises it too, always with a message
            raise
        raise NotAttempted from None


def judge(name: str, exercise: Exercise, seen: Sequence[str]) -> Verdict:
    """The second step, in the notebook or a grader: what each rank saw, as JSON, becomes a verdict."""
    try:
        data = [json.loads(text) for text in seen]
        return Verdict(name, RIGHT, exercise.decide(data if exercise.observe else data[0]))
    except Rejected as rejected:
        return Verdict(name, NOT_RIGHT, *rejected.args)
    except Exception as error:
        message = f"what came back has not the form that was asked for ({type(error).__name__}: {error})"
        return Verdict(name, NOT_RIGHT, message, came="\n".join(text[:100] for text in seen))


def fail(name: str, exercise: Exercise, error: RankError) -> Verdict:
    """The verdict where a rank raised, died, or did not come to an end."""
    if isinstance(error, RankTimeout):
        message = f"it had not finished after {exercise.timeout:g} s"
        return Verdict(name, NOT_RIGHT, message, came=str(error), hint=exercise.timeout_hint)
    if NotAttempted.__name__ in error.failures.get(error.rank, ""):
        return not_attempted(name)
    rank = None if str(error).startswith("all ") else error.rank
    # a message to a rank that does not exist hangs, or kills gloo by a signal, from run to run
    hint = exercise.timeout_hint if error.failures.get(error.rank, "").startswith("SIG") else ""
    return Verdict(name, NOT_RIGHT, "it stopped before it had an answer", "", str(error), rank, hint)


def plain(value: Any) -> Any:
    """``value`` as JSON holds it: tensors and arrays as nested lists, anything unknown as its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    text = str(value)
    return f"<{type(value).__name__}>" if " at 0x" in text else text[:200]


def brief(value: Any, digits: int = 6) -> str:
    """``value`` on one short line: floats to ``digits`` digits, the first eight items of a list."""
    if isinstance(value, list):
        rest = [f"… {len(value)} in all"] if len(value) > 8 else []
        return f"[{', '.join([*(brief(item, digits) for item in value[:8]), *rest])}]"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def reject(
    message: str, *, expected: Any = "", came: Any = "", rank: int | None = None, hint: str = ""
) -> NoReturn:
    """Not right: what, what was expected, what came, on which rank, and a hint that gives nothing away."""
    raise Rejected(message, brief(expected), brief(came), rank, hint)


def compare(
    what: str, came: Any, expected: Any, *, rank: int | None = None, hint: str = "", tolerance: float = 1e-6
) -> None:
    """Reject where ``came`` is not ``expected``: numbers within ``tolerance`` times the larger of 1 and
    expected, lists item by item, all else equal and of the same type."""
    expected = plain(expected)
    if (difference := _difference(came, expected, tolerance)) is None:
        return
    if factor := _factor(came, expected):
        difference = f"{factor:.4g} times what was expected"
    elif first := _first_difference(came, expected, tolerance):
        what, came, expected = f"{what}, from item {first} on", came[first:], expected[first:]
    digits = next((d for d in (6, 9, 12) if brief(came, d) != brief(expected, d)), 17)
    shown = {"expected": brief(expected, digits), "came": brief(came, digits)}
    reject(f"{what}: {difference}", **shown, rank=rank, hint=hint if came is not None else _NOTHING)


def compare_ranks(what: str, came: Sequence[Any], expected: Sequence[Any], **details: Any) -> None:
    """``compare`` rank by rank; ``expected`` has an item for each."""
    for rank, (item, wanted) in enumerate(zip(came, expected, strict=True)):
        compare(what, item, wanted, rank=rank, **details)


def at_most(what: str, came: float, limit: float, *, rank: int | None = None, hint: str = "") -> None:
    """Reject where a resource (bytes sent, collectives, elements held) is above ``limit``."""
    if not came <= limit:
        reject(f"too many {what}", expected=f"at most {brief(limit)}", came=came, rank=rank, hint=hint)


def forbid(operations: Mapping[str, int], *names: str, rank: int | None = None) -> None:
    """Reject where the backend ran an operation that the exercise asks to write, by whatever name called:
    ``forbid(s["operations"], "broadcast", rank=rank)`` with the counts of measure.count_operations."""
    for operation, count in operations.items():
        name = operation.split(":")[-1]  # gloo:broadcast, nccl:broadcast
        if name in names and count:
            hint = f"{name} is what this exercise asks you to write from other operations"
            reject(
                f"the backend ran {name}",
                expected="never",
                came="once" if count == 1 else f"{count} times",
                rank=rank,
                hint=hint,
            )


def _difference(came: Any, expected: Any, tolerance: float) -> str | None:
    """What is different, None where nothing is."""
    if _shape(came) != _shape(expected):
        return f"shape {_shape(came)}, not {_shape(expected)}"
    if isinstance(expected, list):
        found = (_difference(c, e, tolerance) for c, e in zip(came, expected, strict=True))
        return next((difference for difference in found if difference), None)
    kinds = {type(came), type(expected)}
    if kinds <= {int, float} and not math.isnan(came):
        same = came == expected or abs(came - expected) <= tolerance * max(1, abs(expected))
    else:
        same = len(kinds) == 1 and (came == expected or (came != came and expected != expected))
    return None if same else "not the expected value"


def _first_difference(came: Any, expected: Any, tolerance: float) -> int:
    """Where two lists differ for the first time, if that is beyond the items that ``brief`` shows; else 0."""
    if not isinstance(expected, list) or not isinstance(came, list) or len(came) != len(expected):
        return 0
    pairs = enumerate(zip(came, expected, strict=True))
    first = next((i for i, (c, e) in pairs if _difference(c, e, tolerance)), 0)
    return first if first >= 8 else 0


def _factor(came: Any, expected: Any) -> float | None:
    """The number that all of ``expected`` was multiplied by; None where there is no one such number."""
    if _shape(came) != _shape(expected):
        return None
    pairs = list(zip(_numbers(came), _numbers(expected), strict=True))
    ratios = [c / e for c, e in pairs if e]
    if not ratios or any(c for c, e in pairs if not e) or math.isclose(ratios[0], 1, rel_tol=1e-3):
        return None
    return ratios[0] if all(math.isclose(ratio, ratios[0], rel_tol=1e-4) for ratio in ratios) else None


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    return [value] if type(value) in (int, float) else [math.nan]


def _shape(value: Any) -> list[int]:
    """The shape of nested lists; the first item speaks for the others."""
    return [len(value), *(_shape(value[0]) if value else [])] if isinstance(value, list) else []
