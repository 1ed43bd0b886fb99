"""``check`` and ``show_solution``: the exercises of every chapter, loaded by number when they are asked for.

Chapter NN brings two files here: ``checks_NN.py``, see ``course_utils.exercises.judging`` for how, and
``solutions_NN.py``, one plain typed function an exercise, ending in ``SOLUTIONS = {"NN.1": function, ...}``;
where the answer is a value, the function takes nothing and returns it. Wrong ones are in tests/mutants/.
"""

from typing import Any

from IPython.display import Markdown

from course_utils.exercises.judging import Exercise, brief, fail, find, in_rank, judge, plain
from course_utils.exercises.solution import solution
from course_utils.exercises.verdict import NOT_RIGHT, Verdict, not_attempted
from course_utils.launcher import launch
from course_utils.prediction import record
from course_utils.report import RankError

__all__ = ["check", "show_solution"]


def check(exercise: str, answer: Any) -> Verdict:
    """Judge the student's function, or value, for ``exercise`` such as "02.1"; a cell's last line.

    Whatever the student's code does, the result is a verdict: not attempted yet, not right, or right.
    Raises ValueError, which lists the known exercises, for an exercise that does not exist.
    """
    verdict = _verdict(exercise, find(exercise), answer)
    if verdict.attempted:
        record("exercises", exercise, verdict.status)
    return verdict


def show_solution(exercise: str) -> Markdown:
    """Show the reference solution of ``exercise``, with what it uses of its file. Raises ValueError."""
    find(exercise)
    return solution(exercise)


def _verdict(name: str, exercise: Exercise, answer: Any) -> Verdict:
    if answer is ...:
        return not_attempted(name)
    try:
        if exercise.observe is None:
            return judge(name, exercise, [in_rank(None, answer)])
        if not callable(answer):
            return Verdict(name, NOT_RIGHT, f"pass the function itself, not {brief(plain(answer))}")
        for world_size in exercise.world_sizes:
            options = {"world_size": world_size, **exercise.launch_options}
            seen = launch(in_rank, exercise.observe, answer, **options)
            verdict = judge(name, exercise, seen)
            if not verdict.passed:
                break
        return verdict
    except RankError as error:
        return fail(name, exercise, error)
    except (Exception, SystemExit) as error:  # whatever the student wrote must not stop "Run all"
        text = str(error).replace(f"inside {in_rank.__name__}", "inside your function")
        return Verdict(name, NOT_RIGHT, f"{type(error).__name__}: {text}")
