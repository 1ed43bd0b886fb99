"""The process in which a submission's exercises run: its ranks run the student's code, it does not.

    python -m course_utils.tools.grading_run < tasks.json

The tasks come on standard input. An empty line on standard output says that all is ready; then, for each
task, what the ranks saw comes as a line of JSON. The verdicts are not made here: the process that decides
has nothing of the student's in it but these lines.
"""

import ast
import contextlib
import json
import linecache
import os
import sys
from typing import Any

from course_utils.exercises.judging import NotAttempted, find, in_rank
from course_utils.forkserver import HEAVY
from course_utils.launcher import launch
from course_utils.processes import preload, start_method
from course_utils.report import RankError, RankTimeout


class Imports:
    """What the setup of ``cells`` and the check import; the ranks do it where they receive this.

    That is before a launch's clock runs: on a slow machine imports alone would take the time of an answer.
    """

    def __init__(self, exercise: str, cells: list[tuple[str, str]]) -> None:
        setup = [node for cell, source in cells if cell == "setup" for node in ast.parse(source).body]
        lines = [ast.unparse(node) for node in setup if isinstance(node, ast.Import | ast.ImportFrom)]
        self.source = "\n".join([f"import course_utils.exercises.checks_{exercise.split('.')[0]}", *lines])

    def __reduce__(self) -> tuple[Any, ...]:
        return _import, (self.source,)


def _import(source: str) -> None:
    with contextlib.suppress(Exception):  # the setup itself will say what is wrong
        exec(source, {})


def observe(exercise: str, name: str, cells: list[tuple[str, str]], _imported: None = None) -> str:
    """In a rank: define what the student wrote and look at it, as ``check`` does in a notebook."""
    import torch

    namespace: dict[str, Any] = {"__name__": "__main__"}
    with torch.random.fork_rng():  # a chapter's seed would make all ranks draw the same numbers
        for cell, source in cells:
            file = f"cell '{cell}'"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            exec(compile(source, file, "exec"), namespace)
    if name not in namespace:
        raise NameError(f"the exercise's cell does not define {name}")
    answer = namespace[name]
    if answer is ...:
        raise NotAttempted
    how = find(exercise).observe
    if how is not None and not callable(answer):
        raise TypeError(f"{name} is to be a function, not {type(answer).__name__}")
    return in_rank(how, answer)


def seen(exercise: str, name: str, cells: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """For each world size what its ranks saw, or how they failed; after a failure there is no next."""
    how, found, imports = find(exercise), [], Imports(exercise, cells)
    for world_size in how.world_sizes:
        options = {"world_size": world_size, **how.launch_options}
        try:
            found.append({"seen": launch(observe, exercise, name, cells, imports, **options)})
        except RankError as error:
            what = {"report": str(error), "rank": error.rank, "failures": error.failures}
            return [*found, {**what, "timeout": isinstance(error, RankTimeout)}]
        except (
            Exception,
            SystemExit,
        ) as error:  # as in check: whatever it was, the next exercise has its turn
            text = f"{type(error).__name__}: {error}"
            return [*found, {"report": text, "rank": None, "failures": {}, "timeout": False}]
    return found


def limit_memory(size: int) -> None:
    """Let neither this process nor its ranks allocate more than ``size`` bytes each, where the system can."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    except (ImportError, ValueError, OSError):  # Windows has no such limit
        return


def prepare() -> None:
    """Let all ranks have torch's slow modules: the first optimizer would take seconds for them, or many on a
    busy machine, of the time that an answer has."""
    if start_method() == "spawn":  # each rank imports for itself
        return
    for _ in range(3):  # a launch waits a minute for its ranks, and a slow disk needs more
        with contextlib.suppress(Exception):  # too little memory, for instance: the exercises will say so
            launch(os.getpid, world_size=1)
            preload(HEAVY)
            launch(os.getpid, world_size=1)  # comes back when they are there
            return


def main() -> int:
    """Run the tasks on standard input, one after the other. What the ranks print is dropped."""
    given = json.load(sys.stdin)
    limit_memory(given["memory"])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    prepare()
    print(file=answers, flush=True)
    for exercise, name, cells in given["tasks"]:
        print(json.dumps(seen(exercise, name, cells)), file=answers, flush=True)
        prepare()  # again, for an answer may have taken the ranks' parent with it
    return 0


if __name__ == "__main__":
    sys.exit(main())
