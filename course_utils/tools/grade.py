"""``python3 -m course_utils grade``: the exercises of submitted notebooks, as a table and as CSV.

A submission's exercise cells are put into the chapter in place of its stubs. They run in ranks of a process
of their own, under a limit of time and of memory, and the verdict is made here, from what the ranks saw, by
the chapter's own check. That stops edited checks; it does not stop hostile code, which needs a container.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import astuple
from pathlib import Path
from typing import Any, TextIO

from course_utils.exercises.judging import fail, find, judge
from course_utils.exercises.verdict import NOT_RIGHT, Verdict
from course_utils.report import RankError, RankTimeout
from course_utils.tools import csv_file, handed_in, submission
from course_utils.tools.grade_table import NO_VERDICT, NOT_FOUND, Grade, NoVerdict, rows, table
from course_utils.tools.run import ROOT

TIMEOUT = 120  # seconds for one exercise
START = 300  # seconds until the process that runs them has imported what it needs: a disk may be slow
MEMORY = 4.0  # GiB for each process
NO_MEMORY = re.compile(
    r"MemoryError|bad_alloc|[Cc]an(no|')t allocate memory|failed to map segment|can't start new thread|"
    r"RuntimeError: Resource temporarily unavailable"  # no memory for a thread
)


def grade(name: str, path: Path, timeout: float = TIMEOUT, memory: float = MEMORY) -> Grade:
    """Grade one notebook; ``timeout`` is in seconds an exercise, ``memory`` in GiB a process."""
    try:
        notebook = submission.load(path)
    except submission.Unreadable as error:
        return Grade(name, remarks=[str(error)])
    except OSError as error:
        return Grade(name, remarks=[f"can't be read ({error.strerror})"])
    verdicts: dict[str, Verdict] = {}
    for task in notebook.tasks:
        if not task.cells:
            message = f"no cell of the notebook defines {task.name}"
            verdicts[task.exercise] = NoVerdict(task.exercise, NOT_FOUND, message)
    while left := [task for task in notebook.tasks if task.exercise not in verdicts]:
        # another round where an exercise took its process with it
        verdicts |= {verdict.exercise: verdict for verdict in _verdicts(left, timeout, memory)}
    return Grade(name, verdicts, notebook.remarks, notebook.chapter)


def _verdicts(tasks: list[submission.Task], timeout: float, memory: float) -> list[Verdict]:
    """Run exercises in one process, up to the first that takes it down or has no end: one verdict or more."""
    given = {"tasks": [astuple(task) for task in tasks], "memory": int(memory * 2**30)}
    command, found, ready = [sys.executable, "-m", "course_utils.tools.grading_run"], [], ""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes) as process:
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        try:
            with contextlib.suppress(BrokenPipeError):
                json.dump(given, process.stdin)
                process.stdin.close()
            ready = lines.get(timeout=START)
            for task in tasks:
                line = ready and lines.get(timeout=timeout)
                if not line:
                    reason = f"its process died: it met the limit --memory {memory:g} (GiB), or "
                    reason += "its code ended it" if ready else "the installation of the course is not whole"
                    return [*found, NoVerdict(task.exercise, NO_VERDICT, reason)]
                found.append(verdict(task.exercise, json.loads(line), memory))
        except queue.Empty:
            reason = f"it had not finished after {timeout:g} s, the limit --timeout"
            if not ready:
                reason = f"its process had not started after {START} s: a busy machine"
            return [*found, NoVerdict(tasks[len(found)].exercise, NO_VERDICT, reason)]
        finally:
            _kill(process)  # the ranks end with their notebook, which this process is for them
    return found


def _read(stream: TextIO, lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def verdict(exercise: str, found: list[dict[str, Any]], memory: float) -> Verdict:
    """The verdict on what the ranks saw, world size by world size, as ``check`` makes it in a notebook.

    There is none where the failure need not be the student's; ``memory`` is the limit in GiB.
    """
    how, result = find(exercise), Verdict(exercise, NOT_RIGHT, "no rank was started")
    for ranks in found:
        if "seen" in ranks:
            result = judge(exercise, how, ranks["seen"])
        elif reason := _not_the_students(ranks["report"], memory):
            return NoVerdict(exercise, NO_VERDICT, reason, came=ranks["report"])
        else:
            failures = {int(rank): line for rank, line in ranks["failures"].items()}
            kind = RankTimeout if ranks["timeout"] else RankError
            result = fail(exercise, how, kind(ranks["report"], ranks["rank"], failures))
        if not result.passed:
            break
    return result


def _not_the_students(report: str, memory: float) -> str:
    """Why a launch's report says nothing of the answer; empty where it does."""
    if NO_MEMORY.search(report):
        return f"it asked for more memory than the limit --memory {memory:g} (GiB) leaves a process"
    if "cell 'setup', line" in report or "had not started" in report:  # no line of the student has run there
        return f"its imports failed or took too long: a busy machine, or too little --memory {memory:g} (GiB)"
    return ""


def _remark_copies(grades: list[Grade], notebooks: list[tuple[str, Path]]) -> None:
    """Say where a folder has several notebooks of one chapter: mostly two downloads of one student."""
    together = defaultdict(list)
    for graded, (_, path) in zip(grades, notebooks, strict=False):  # an interrupted run has fewer grades
        together[path.absolute().parent, graded.chapter].append(graded)
    for (_, chapter), alike in together.items():
        if chapter and len(alike) > 1:
            names = ", ".join(graded.name for graded in alike[:3]) + (", ..." if len(alike) > 3 else "")
            alike[-1].remarks.append(
                f"{len(alike)} notebooks of chapter {chapter} in its folder, all are graded: {names}"
            )


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 all are graded, whatever the grades; 2 wrong arguments; 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils grade", description="Grade the exercises of submitted notebooks."
    )
    parser.add_argument("path", nargs="+", type=Path, help="notebooks, or folders of notebooks")
    parser.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        default=ROOT / "build" / "grades.csv",
        help="(%(default)s); a file of that name is kept as grades.1.csv and so on",
    )
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds an exercise (%(default)s)")
    parser.add_argument("--memory", type=float, default=MEMORY, help="GiB for each process (%(default)s)")
    args = parser.parse_args(argv)
    if not (args.timeout > 0 and args.memory > 0):
        parser.error("--timeout and --memory are numbers greater than 0")
    try:
        found = handed_in.find(args.path)
        if args.path[0].is_file() and len(args.path) == 1:
            _check_readable(args.path[0])
    except ValueError as error:
        parser.error(str(error))
    try:
        csv_file.check(args.csv)
    except OSError as error:
        parser.error(csv_file.refusal(args.csv, error))
    return _grade_all(found, args)


def _check_readable(path: Path) -> None:
    """Raises ValueError for a file that is no notebook of the course: alone, it was not meant."""
    try:
        submission.load(path)
    except (submission.Unreadable, OSError) as error:
        raise ValueError(f"{path}: {error}") from None


def _grade_all(found: handed_in.HandedIn, args: argparse.Namespace) -> int:
    """Grade one after the other, then show and write what there is, also after an interrupt."""
    grades, target, total = [], args.csv, len(found.notebooks)
    try:
        for number, (name, path) in enumerate(found.notebooks, 1):
            print(f"{number} of {total}: {name}", flush=True)
            grades.append(grade(name, path, args.timeout, args.memory))
    except KeyboardInterrupt:
        print(f"interrupted: {len(grades)} of {total} are graded", file=sys.stderr)
        target = args.csv.with_stem(f"{args.csv.stem}.interrupted")
    if grades:
        _remark_copies(grades, found.notebooks)
        print(f"\n{table(grades, found)}")
        try:
            saved = csv_file.save(target, rows(grades, found))
        except OSError as error:  # since grading began: a full disk, or a folder that is gone
            print(f"{target} can't be written ({error.strerror})", file=sys.stderr)
            saved = csv_file.save(Path(tempfile.mkdtemp(prefix="grades-"), target.name), rows(grades, found))
        print(f"\nthe reasons are in {saved}")
    return 0 if len(grades) == total else 130
