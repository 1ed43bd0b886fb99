"""check() always answers with one of three verdicts, in time, whatever the student hands in."""

import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from kernels import time_limit  # noqa: F401  # a fixture that every test here uses
from test_solutions import LOADED, stub

import course_utils.exercises
from course_utils import check, show_solution
from course_utils.exercises.judging import (
    Exercise,
    Rejected,
    brief,
    compare,
    compare_ranks,
    fail,
    judge,
    plain,
    reject,
)
from course_utils.exercises.verdict import Verdict
from course_utils.report import RankError, RankTimeout

MEAN = LOADED["99"].solutions["99.1"]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exercise 99.1 with a time-out of 2 s and one launch."""
    exercises = LOADED["99"].exercises
    hurry = dataclasses.replace(exercises["99.1"], timeout=2.0, world_sizes=(4,))
    monkeypatch.setitem(exercises, "99.1", hurry)


def loops(_mine: torch.Tensor) -> None:
    while True:
        pass


def waits_for_a_message(mine: torch.Tensor) -> None:
    if dist.get_rank() == 3:
        dist.recv(mine, 0)


def exits(mine: torch.Tensor) -> torch.Tensor:
    raise SystemExit(3)


def dies(mine: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        os._exit(7)
    return MEAN(mine)


def divides_by_zero_on_rank_2(mine: torch.Tensor) -> torch.Tensor:
    return MEAN(mine) / (dist.get_rank() - 2 or 1 // 0)


def refuses_with_a_message(_mine: torch.Tensor) -> None:
    raise NotImplementedError("Could not run 'aten::mean' on this backend")


def with_a_lock(lock: object) -> Callable[[torch.Tensor], torch.Tensor]:
    def holds_a_lock(mine: torch.Tensor) -> torch.Tensor:
        with lock:
            return MEAN(mine)

    return holds_a_lock


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (loops, "not finished after 2 s"),
        (waits_for_a_message, "dist.recv(mine, 0)"),
        (exits, "exit code 3"),
        (dies, "exit code 7"),
        (divides_by_zero_on_rank_2, "rank 2 failed first: ZeroDivisionError"),
        (refuses_with_a_message, "aten::mean"),
        (with_a_lock(threading.Lock()), "Make it inside your function"),
        (lambda: None, "TypeError"),
        (lambda mine: "three", "came      three"),
        (lambda mine: [mine.tolist()], "shape [1, 2], not [2]"),
        (lambda mine: mine.double() * float("nan"), "came      [nan, nan]"),
        (lambda mine: (item for item in mine), "came      <generator>"),
        (3, "pass the function itself, not 3"),
        (None, "pass the function itself, not None"),
        (torch.ones(2), "pass the function itself, not [1, 1]"),
    ],
)
def test_whatever_is_handed_in_the_verdict_says_what_is_wrong(answer: object, says: str) -> None:
    start = time.monotonic()
    verdict = check("99.1", answer)
    assert verdict.attempted
    assert not verdict.passed
    assert says in repr(verdict)
    assert (
        time.monotonic() - start < 30
    )  # the time-out of 2 s and, on a busy machine, the start and the end of ranks


@pytest.mark.usefixtures("hurried")
def test_numpy_for_torch_and_back_is_no_mistake() -> None:
    def in_numpy(mine: torch.Tensor) -> np.ndarray:
        return MEAN(mine).numpy()

    assert check("99.1", in_numpy).passed


def test_the_verdict_names_the_rank() -> None:
    verdict = check("99.1", dies)
    assert verdict.rank == 1
    assert "rank      1" in repr(verdict)


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(course_utils.exercises, "launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check("99.1", MEAN)


def test_not_attempted_looks_the_same_for_a_stub_and_a_value() -> None:
    for verdict in (check("99.1", stub), check("99.1", ...), check("99.2", ...)):
        assert not verdict.attempted
        assert not verdict.passed
        assert repr(verdict).endswith("not attempted yet: write your answer above, then run both cells.")


def test_a_value_is_judged_without_ranks() -> None:
    assert check("99.2", torch.tensor(12000)).passed
    assert check("99.2", np.int64(12000)).passed
    verdict = check("99.2", 4000)
    assert "what does Adam keep?" in repr(verdict)
    assert "12000" not in repr(verdict), "the hint gives the answer away"
    assert not check("99.2", stub).passed
    assert not check("99.2", [lambda: 0]).passed
    endless: list = []
    endless.append(endless)
    assert not check("99.2", endless).passed


@pytest.mark.parametrize("unknown", ["99.9", "98.1", "mean", "", 99.1])
def test_an_unknown_exercise_lists_the_known_ones(unknown: object) -> None:
    for function in (lambda: check(unknown, MEAN), lambda: show_solution(unknown)):
        with pytest.raises(ValueError, match=r"no exercise .*99\.1, 99\.2, 99\.3, 99\.4"):
            function()


def test_html_and_text_say_the_same_and_escape_what_the_student_wrote() -> None:
    verdict = Verdict("99.1", "not right", "it is <wrong>", "[1]", "<script>", 0, "why?")
    assert repr(verdict).splitlines() == [
        "✗ 99.1 not right: it is <wrong>",
        "  rank      0",
        "  expected  [1]",
        "  came      <script>",
        "  hint      why?",
    ]
    html = verdict._repr_html_()
    assert "it is &lt;wrong&gt;" in html
    assert "<script>" not in html
    for word in ("not right", "expected", "[1]", "why?"):
        assert word in html


def test_a_solution_shows_what_it_uses_and_nothing_else() -> None:
    source = show_solution("99.1").data
    assert source.startswith("```python\nimport torch\nimport torch.distributed as dist\n\n\ndef _divide(")
    assert "@torch.no_grad()\ndef mean_over_ranks(" in source
    assert "# the same on every rank" in source
    assert "unused" not in source
    assert "broadcast" not in source
    assert "WORDS_A_PARAMETER = 3" in show_solution("99.2").data
    assert show_solution("99.1").data == source
    assert " at 0x" not in repr(show_solution("99.1"))  # nbval compares it


def test_a_grader_can_take_look_and_decision_apart() -> None:
    exercise = LOADED["99"].exercises["99.4"]
    owners = [[i % size for i in range(7)] for size in (2, 3)]
    assert judge("99.4", exercise, [json.dumps(owners)]).passed
    for forged in ("[]", "{}", "null", "not json", '"text"', json.dumps([owners, owners])):
        verdict = judge("99.4", exercise, [forged])
        assert not verdict.passed, forged
    assert not judge("99.1", LOADED["99"].exercises["99.1"], ['{"mean": 1}'] * 4).passed


def test_plain_data_is_json() -> None:
    tensor = torch.tensor([[1.5, 2.0]], requires_grad=True)
    seen = plain({"t": tensor, 1: (np.float32(0.5), range(2)), "type": torch.float32, "other": object()})
    assert seen == {"t": [[1.5, 2.0]], "1": [0.5, [0, 1]], "type": "torch.float32", "other": "<object>"}
    assert json.loads(json.dumps(seen)) == seen


def test_compare_forgives_rounding_and_nothing_else() -> None:
    compare("x", [1.0 + 1e-7, 2], [1, 2.0])
    compare("x", 1e9 + 1, 1e9)
    compare("x", float("inf"), float("inf"))
    compare("x", [], [])
    compare("x", {"a": 1}, {"a": 1})
    wrong = [(1.001, 1), (True, 1), ("1", 1), (None, 1), ([1], 1), ([1, 2], [2, 1]), ({"a": 1}, {"a": 2})]
    for came, expected in [*wrong, (float("nan"), 1.0), (float("inf"), 1.0), ([[1], 2], [[1], [2]])]:
        with pytest.raises(Rejected):
            compare("x", came, expected)


def test_a_small_difference_is_visible_in_the_message() -> None:
    with pytest.raises(Rejected) as caught:
        compare("x", 1.00001234, 1.0)
    _, expected, came, *_ = caught.value.args
    assert expected != came


def test_compare_names_a_factor_that_all_numbers_have() -> None:
    for came, words in (
        ([4.0, 8.0, 0], "x: 4 times"),
        ([0.25, 0.5, 0], "x: 0.25 times"),
        ([4.0, 7.0, 0], "x: not the"),
        ([4.0, 8.0, 1.0], "x: not the"),
        ([0.0, 0.0, 0.0], "x: not the"),
    ):
        with pytest.raises(Rejected, match=words):
            compare("x", came, [1.0, 2.0, 0])


def test_compare_ranks_names_the_rank_that_differs() -> None:
    with pytest.raises(Rejected) as caught:
        compare_ranks("x", [1, 1, 2, 1], [1] * 4, hint="look")
    assert caught.value.args == ("x: 2 times what was expected", "1", "2", 2, "look")


def test_long_values_are_cut() -> None:
    assert brief(list(range(100))) == "[0, 1, 2, 3, 4, 5, 6, 7, … 100 in all]"


def test_an_exercise_says_what_to_look_at_when_time_is_up() -> None:
    exercise = Exercise(None, str, timeout_hint="who receives first?")
    verdict = fail("99.1", exercise, RankTimeout("2 ranks wait", None, {}))
    assert "who receives first?" in repr(verdict)


def test_an_exercise_says_what_to_look_at_when_a_rank_dies_of_a_signal() -> None:
    exercise = Exercise(None, str, timeout_hint="does that rank exist?")
    died = {2: "SIGSEGV (a crash in C code)"}
    assert "does that rank exist?" in repr(fail("99.1", exercise, RankError("rank 2 died", 2, died)))
    raised = {2: "ValueError: SIGSEGV"}
    assert "does that rank exist?" not in repr(fail("99.1", exercise, RankError("rank 2", 2, raised)))


def test_a_difference_beyond_the_shown_items_is_shown() -> None:
    with pytest.raises(Rejected) as caught:
        compare("x", [*range(20), 7], list(range(21)))
    assert caught.value.args[:3] == ("x, from item 20 on: not the expected value", "[20]", "[7]")


def test_a_decision_may_reject_with_a_text_alone() -> None:
    def decide(answer: int) -> str:
        reject("no such number", hint="think")

    verdict = judge("99.2", Exercise(None, decide), ["1"])
    assert repr(verdict) == "✗ 99.2 not right: no such number\n  hint      think"


def test_attempts_are_noted_in_the_students_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my_course"
    folder.mkdir()
    (folder / ".manifest.json").write_text("{}")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    check("99.2", ...)
    assert not (folder / "progress.json").exists()
    check("99.2", 1)
    check("99.2", 12000)
    assert json.loads((folder / "progress.json").read_text()) == {"exercises": {"99.2": "right"}}
