"""``python3 -m course_utils grade``: the exercises of submitted notebooks, as a table and as CSV.

A submission's exercise cells are put into the chapter in place of its stubs. They run in ranks of a process
of their own, under a limit of time and of memory, and the verdict is made here, from what the ranks saw, by
the chapter's own check. That stops edited checks; it does not stop hostile code, which needs a container.
"""

import argparse
import contextlib
import csv
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TextIO

from course_utils.exercises.judging import fail, find, judge
from course_utils.exercises.verdict import NOT_RIGHT, Verdict
from course_utils.report import RankError, RankTimeout
from course_utils.tools import submission
from course_utils.tools.run import ROOT

TIMEOUT = 120  # seconds for one exercise
MEMORY = 4.0  # GiB for each process
SIGNS = {"right": "✓", "not right": "✗", "not attempted yet": "○"}


@dataclass
class Grade:
    """What became of one submission: its verdicts by exercise, or the reason why there are none."""

    name: str
    verdicts: dict[str, Verdict]
    remarks: list[str]


def grade(name: str, path: Path, timeout: float = TIMEOUT, memory: float = MEMORY) -> Grade:
    """Grade one notebook; ``timeout`` is in seconds an exercise, ``memory`` in GiB a process."""
    try:
        handed_in = submission.load(path)
    except (submission.Unreadable, OSError) as error:
        return Grade(name, {}, [str(error)])
    found: list[Verdict] = []
    while left := handed_in.tasks[len(found) :]:  # another round where an exercise took its process with it
        found += _verdicts(left, timeout, memory)
    return Grade(name, {verdict.exercise: verdict for verdict in found}, handed_in.remarks)


def _verdicts(tasks: list[submission.Task], timeout: float, memory: float) -> list[Verdict]:
    """Run exercises in one process, up to the first that takes it down or has no end: one verdict or more."""
    given = {"tasks": [astuple(task) for task in tasks], "memory": int(memory * 2**30)}
    command, found = [sys.executable, "-m", "course_utils.tools.grading_run"], []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes) as process:
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        try:
            with contextlib.suppress(BrokenPipeError):
                json.dump(given, process.stdin)
                process.stdin.close()
            for task in tasks:
                line = lines.get(timeout=timeout)
                if not line:
                    return [*found, _lost(task, "its process died: out of memory, or ended by its own code")]
                found.append(verdict(task.exercise, json.loads(line)))
        except queue.Empty:
            return [*found, _lost(task, f"it had not finished after {timeout:g} s")]
        finally:
            _kill(process)  # the ranks end with their notebook, which this process is for them
    return found


def _read(stream: TextIO, lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _lost(task: submission.Task, reason: str) -> Verdict:
    return Verdict(task.exercise, NOT_RIGHT, reason, hint=find(task.exercise).timeout_hint)


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def verdict(exercise: str, found: list[dict[str, Any]]) -> Verdict:
    """The verdict on what the ranks saw, world size by world size, as ``check`` makes it in a notebook."""
    how, result = find(exercise), Verdict(exercise, NOT_RIGHT, "no rank was started")
    for ranks in found:
        if "seen" in ranks:
            result = judge(exercise, how, ranks["seen"])
        else:
            failures = {int(rank): line for rank, line in ranks["failures"].items()}
            kind = RankTimeout if ranks["timeout"] else RankError
            result = fail(exercise, how, kind(ranks["report"], ranks["rank"], failures))
        if not result.passed:
            break
    return result


def table(grades: list[Grade]) -> str:
    """A row a submission, a column an exercise; below it what is to be said of single submissions."""
    exercises = sorted({exercise for graded in grades for exercise in graded.verdicts})
    width = max(len("submission"), *(len(graded.name) for graded in grades))
    lines = [f"{'submission':{width}}  {'  '.join(exercises)}".rstrip()]
    for graded in grades:
        signs = [SIGNS[graded.verdicts[e].status] if e in graded.verdicts else "-" for e in exercises]
        lines.append(f"{graded.name:{width}}  {'  '.join(f'{sign:^4}' for sign in signs)}".rstrip())
    lines += ["", "✓ right   ✗ not right   ○ not attempted   - not handed in"]
    lines += [f"{graded.name}: {remark}" for graded in grades for remark in graded.remarks]
    return "\n".join(lines)


def write_csv(path: Path, grades: list[Grade]) -> None:
    """A line a submission and exercise; a submission that could not be read has one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["submission", "exercise", "status", "message", "came", "hint", "remarks"])
        for graded in grades:
            remarks = "; ".join(graded.remarks)
            if not graded.verdicts:
                rows.writerow([graded.name, "", "could not be graded", "", "", "", remarks])
            for exercise, v in sorted(graded.verdicts.items()):
                rows.writerow([graded.name, exercise, v.status, v.message, v.came, v.hint, remarks])


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 all are graded, whatever the grades; 2 wrong arguments; 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils grade", description="Grade the exercises of submitted notebooks."
    )
    parser.add_argument("path", nargs="+", type=Path, help="notebooks, or folders of notebooks")
    parser.add_argument("--csv", type=Path, default=ROOT / "build" / "grades.csv", help="(%(default)s)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds an exercise (%(default)s)")
    parser.add_argument("--memory", type=float, default=MEMORY, help="GiB for each process (%(default)s)")
    args = parser.parse_args(argv)
    if not (args.timeout > 0 and args.memory > 0):
        parser.error("--timeout and --memory are numbers greater than 0")
    try:
        found = submission.find(args.path)
    except ValueError as error:
        parser.error(str(error))
    grades, status = [], 0
    try:
        for number, (name, path) in enumerate(found, 1):
            print(f"{number} of {len(found)}: {name}", flush=True)
            grades.append(grade(name, path, args.timeout, args.memory))
    except KeyboardInterrupt:
        print(f"interrupted: {len(grades)} of {len(found)} are graded", file=sys.stderr)
        status = 130
    if grades:
        print(f"\n{table(grades)}")
        write_csv(args.csv, grades)
        print(f"\nthe reasons are in {args.csv}")
    return status
