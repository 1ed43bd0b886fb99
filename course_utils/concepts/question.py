"""A question of a concept test, and the order in which the two sittings of a test ask theirs."""

from dataclasses import dataclass
from importlib import import_module
from random import Random

PARTS = (1, 2, 3, 4, 5, 6)
SITTINGS = ("before", "after")
SECTION = "concepts"  # of progress.json


@dataclass(frozen=True)
class Question:
    """A question with one right choice and three wrong ones, each of them a known misconception.

    Attributes:
        name: of the question, unique in its part.
        group: the heading under which its point is counted.
        ask, choices: as asked before the part, the right choice first.
        why: what makes that choice right, also with the second numbers.
        read: chapter, section and cell that show it.
        again: ask and choices for the sitting after the part, where it has other numbers.
    """

    name: str
    group: str
    ask: str
    choices: tuple[str, str, str, str]
    why: str
    read: tuple[str, str, str]
    again: tuple[str, tuple[str, str, str, str]] | None = None

    def form(self, when: str) -> tuple[str, tuple[str, str, str, str]]:
        """What is asked in that sitting, and the choices, the right one first."""
        return self.again if when == "after" and self.again else (self.ask, self.choices)


@dataclass(frozen=True)
class Item:
    """A question as one sitting shows it; ``right`` is one of its ``choices``."""

    question: Question
    ask: str
    choices: tuple[str, ...]
    right: str


def questions(part: int) -> list[Question]:
    """The questions of a part. Raises ValueError for a part that the course doesn't have."""
    if part not in PARTS:
        raise ValueError(f"the course has the parts {', '.join(map(str, PARTS))}, not {part!r}")
    return import_module(f"course_utils.concepts.part_{part}").QUESTIONS


def sitting(part: int, when: str) -> list[Item]:
    """The items in the order of that sitting, the same on every machine. Raises ValueError."""
    if when not in SITTINGS:
        raise ValueError(f"a concept test is taken 'before' or 'after' its part, not {when!r}")
    asked, random = list(questions(part)), Random(f"part {part}, {when}")
    random.shuffle(asked)
    # each position has the right choice two or three times: none is the better guess
    positions = (random.sample(range(4), 4) * len(asked))[: len(asked)]
    random.shuffle(positions)
    items = []
    for question, position in zip(asked, positions, strict=True):
        ask, (right, *wrong) = question.form(when)
        random.shuffle(wrong)
        items.append(Item(question, ask, (*wrong[:position], right, *wrong[position:]), right))
    return items


def key(part: int, when: str) -> str:
    """Under which progress.json has what was handed in."""
    return f"part {part}, {when}"


def points(part: int, when: str, said: dict[str, str | None]) -> dict[str, tuple[int, int]]:
    """By group, and for all: how many of the answers ``said``, by question, are right, of how many."""
    right = {item.question.name: said.get(item.question.name) == item.right for item in sitting(part, when)}
    groups: dict[str, list[bool]] = {}
    for question in questions(part):
        groups.setdefault(question.group, []).append(right[question.name])
    return {group: (sum(of), len(of)) for group, of in {**groups, "All": list(right.values())}.items()}
