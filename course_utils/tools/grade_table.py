"""Grades as a table, and as the rows of a CSV file."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from course_utils.exercises.verdict import Verdict
from course_utils.tools.handed_in import HandedIn

NOT_FOUND, NO_VERDICT = "cell not found", "no verdict"
SIGNS = {"right": "✓", "not right": "✗", "not attempted yet": "○", NO_VERDICT: "!", NOT_FOUND: "?"}
LEGEND = (
    "✓ right   ✗ not right   ○ not attempted   - not handed in\n"
    "! no verdict: a limit was met, or the process died or did not start   ? its cell was not found"
)


@dataclass(frozen=True)
class NoVerdict(Verdict):
    """What is said of an exercise that could not be judged; its status is NOT_FOUND or NO_VERDICT."""

    def _title(self) -> str:
        return f"{SIGNS[self.status]} {self.exercise} {self.status}"


@dataclass
class Grade:
    """What became of one submission: its verdicts by exercise, or the reason why there are none."""

    name: str
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    chapter: str = ""


def table(grades: list[Grade], handed_in: HandedIn) -> str:
    """A row a submission, a column an exercise; below it what is to be said of single ones and of others."""
    exercises = sorted({exercise for graded in grades for exercise in graded.verdicts})
    width = max(len("submission"), *(len(graded.name) for graded in grades))
    lines = [f"{'submission':{width}}  {'  '.join(exercises)}".rstrip()]
    for graded in grades:
        signs = [SIGNS[graded.verdicts[e].status] if e in graded.verdicts else "-" for e in exercises]
        lines.append(f"{graded.name:{width}}  {'  '.join(f'{sign:^4}' for sign in signs)}".rstrip())
    lines += ["", LEGEND]
    for graded in grades:
        lines += [f"{graded.name}: {remark}" for remark in graded.remarks]
        unjudged = [v for _, v in sorted(graded.verdicts.items()) if v.status == NO_VERDICT]
        lines += [f"{graded.name}: {v.exercise}: {v.message}" for v in unjudged]
    return "\n".join([*lines, *handed_in.remarks()])


def rows(grades: list[Grade], handed_in: HandedIn) -> Iterator[list[str]]:
    """A line a submission and exercise; what could not be read, or was passed over, has one line."""
    yield ["submission", "exercise", "status", "message", "came", "hint", "remarks"]
    for graded in grades:
        remarks = "; ".join(graded.remarks)
        if not graded.verdicts:
            yield [graded.name, "", "could not be graded", "", "", "", remarks]
        for exercise, v in sorted(graded.verdicts.items()):
            yield [graded.name, exercise, v.status, v.message, v.came, v.hint, remarks]
    for name, reason in handed_in.passed_over:
        yield [name, "", "passed over", "", "", "", reason]
