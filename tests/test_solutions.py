"""Every check accepts its reference solution and rejects every wrong one, with words that fit the mistake."""

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ahead import ahead

from course_utils import exercises
from course_utils.exercises import check
from course_utils.exercises.judging import find
from course_utils.exercises.verdict import Verdict

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "chapter_99")]  # ranks get this path too


def chapter(number: str) -> SimpleNamespace:
    """A chapter's three dictionaries; 99 is the miniature one that stands under tests/."""
    if number == "99":
        for name in ("checks_99", "solutions_99"):
            sys.modules[f"course_utils.exercises.{name}"] = import_module(name)
    package = "" if number == "99" else "mutants."
    try:
        mutants = import_module(f"{package}mutants_{number}")
    except ModuleNotFoundError:
        mutants = SimpleNamespace(MUTANTS={})  # test_every_exercise_has_a_solution_and_three_mutants says so
    return SimpleNamespace(
        exercises=import_module(f"course_utils.exercises.checks_{number}").EXERCISES,
        solutions=import_module(f"course_utils.exercises.solutions_{number}").SOLUTIONS,
        mutants=mutants.MUTANTS,
        fits=getattr(mutants, "FITS", {}),
    )


CHAPTERS = {path.stem[-2:] for path in Path(exercises.__file__).parent.glob("checks_*.py")} | {"99"}
LOADED = {number: chapter(number) for number in sorted(CHAPTERS)}
ALL = [(name, loaded) for loaded in LOADED.values() for name in loaded.exercises]
WRONG = [
    pytest.param(
        name,
        mutant.__name__,
        loaded.fits.get(mutant.__name__, "(?!)"),  # matches nothing; a quick test names who is left out
        id=f"{name}-{mutant.__name__}",
        marks=[] if name.startswith("99") else [pytest.mark.all],  # minutes, for all chapters together
    )
    for name, loaded in ALL
    for mutant in loaded.mutants.get(name, ())
]
FUNCTIONS = [name for name, loaded in ALL if loaded.exercises[name].observe]


def answer(exercise: str, function: Callable[..., Any]) -> Any:
    """What a student hands in: the function, or the value where that is asked for."""
    return function if find(exercise).observe else function()


@pytest.mark.parametrize(("name", "loaded"), ALL, ids=[name for name, _ in ALL])
def test_every_exercise_has_a_solution_and_three_mutants(name: str, loaded: SimpleNamespace) -> None:
    assert name in loaded.solutions
    mutants = [mutant.__name__ for mutant in loaded.mutants.get(name, ())]
    assert len(mutants) >= 3
    unnamed = [mutant for mutant in mutants if not loaded.fits.get(mutant)]
    assert not unnamed, "FITS says no words that the verdict on these has to have"


@pytest.mark.parametrize(("name", "loaded"), ALL, ids=[name for name, _ in ALL])
def test_the_solution_is_right(name: str, loaded: SimpleNamespace) -> None:
    verdict = check(name, answer(name, loaded.solutions[name]))
    assert verdict.passed, verdict
    assert len(verdict.message) > 20, "a right verdict says in a sentence what was shown"


def wrong_verdict(name: str, mutant: str) -> Verdict:
    """What the check says of the wrong solution of that name."""
    mutants = {function.__name__: function for function in LOADED[name[:2]].mutants[name]}
    return check(name, answer(name, mutants[mutant]))


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], Future[Verdict]]]:
    test = "test_a_wrong_solution_is_rejected"
    with ahead(
        request.session, test, wrong_verdict, lambda case: (case["name"], case["mutant"]), at_a_time=4
    ) as found:
        yield found


@pytest.mark.parametrize(("name", "mutant", "fits"), WRONG)
def test_a_wrong_solution_is_rejected(
    verdicts: dict[tuple[str, str], Future[Verdict]], name: str, mutant: str, fits: str
) -> None:
    verdict = verdicts[name, mutant].result()
    assert verdict.attempted, verdict
    assert not verdict.passed, verdict
    if not re.search(fits, repr(verdict)):  # beside three others a wait may run out that does not alone
        verdict = wrong_verdict(name, mutant)
    assert re.search(fits, repr(verdict)), verdict


def stub(*_arguments: Any, **_options: Any) -> None:
    raise NotImplementedError


def returns_its_input(*arguments: Any, **_options: Any) -> Any:
    return arguments[0]


def returns_nothing(*_arguments: Any, **_options: Any) -> None:
    return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stub_is_not_attempted(name: str) -> None:
    verdict = check(name, stub)
    assert not verdict.attempted, verdict


@pytest.mark.parametrize("lazy", [returns_its_input, returns_nothing])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lazy_function_is_rejected(name: str, lazy: Callable[..., Any]) -> None:
    verdict = check(name, lazy)
    assert verdict.attempted, verdict
    assert not verdict.passed, verdict
