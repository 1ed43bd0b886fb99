"""``python3 -m course_utils concepts``: what a class knew before and after a part, question by question.

It reads the files progress.json that students hand in, whatever they are called, and judges the answers noted
there by the key of today. Students who sat only one of a part's two tests do not count for that part.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from course_utils.concepts.question import PARTS, SITTINGS, Item, Question, key, sitting
from course_utils.tools import csv_file
from course_utils.tools.concept_notes import students
from course_utils.tools.run import ROOT

HEAD = (
    *("part", "students", "question", "asked after", "before", "after", "often said after"),
    *("chapter", "section"),
)


class Row(NamedTuple):
    """A question: how many were right in both sittings, and the wrong answer given most often after."""

    part: int
    students: int
    item: Item
    before: float
    after: float
    often_wrong: str

    @property
    def question(self) -> Question:
        return self.item.question

    def cells(self) -> tuple[object, ...]:
        """What a line of the file has, in the order of HEAD."""
        chapter, section, _ = self.question.read
        shares = (self.before, self.after, self.often_wrong)
        return (self.part, self.students, self.question.name, self.item.ask, *shares, chapter, section)


def rows(found: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """The questions of each part that somebody sat before and after it."""
    found = list(found)
    for part in PARTS:
        both = [[said[key(part, when)] for when in SITTINGS] for said in found if len(_sat(part, said)) == 2]
        items = {item.question.name: item for item in sitting(part, "after")} if both else {}
        first = {item.question.name: item for item in sitting(part, "before")}
        for name, item in sorted(items.items()):
            wrong = Counter(_wrong(item, after) for _, after in both if _wrong(item, after))
            yield Row(
                part,
                len(both),
                item,
                sum(before.get(name) == first[name].right for before, _ in both) / len(both),
                sum(after.get(name) == item.right for _, after in both) / len(both),
                wrong.most_common(1)[0][0] if wrong else "",
            )


def left_out(found: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each part of which students sat one test only."""
    lines = []
    for part in PARTS:
        once = [
            f"{name} (only {_sat(part, said)[0]})"
            for name, said in found.items()
            if len(_sat(part, said)) == 1
        ]
        if once:
            lines.append(f"left out of part {part}: {', '.join(once)}")
    return lines


def _sat(part: int, said: dict[str, Any]) -> list[str]:
    return [when for when in SITTINGS if key(part, when) in said]


def _wrong(item: Item, said: dict[str, Any]) -> str:
    """The wrong choice that was taken; empty where there was none."""
    choice = said.get(item.question.name)
    return choice if choice in item.choices and choice != item.right else ""


def _place(question: Question) -> str:
    chapter, section, _ = question.read
    number, dot, _ = section.partition(" · ")
    return f"{chapter[:2]}, section {number}" if dot else f"{chapter[:2]}, {section.replace('`', '')}"


def table(found: list[Row]) -> str:
    """A line a question: right before, right after, the gain, where to read again; a line for each part."""
    lines = []
    for part in sorted({row.part for row in found}):
        of_part = [row for row in found if row.part == part]
        count, wide = of_part[0].students, max(len(_place(row.question)) for row in of_part)
        title = f"Part {part}, {count} student{'s' * (count > 1)}"
        head = f"{'before':>7} {'after':>7} {'gain':>7}   {'read again':{wide}}   often said after"
        lines.append(f"{title:22}{head}")
        before, after = (
            sum(of_all) / len(of_part) for of_all in zip(*(row[3:5] for row in of_part), strict=True)
        )
        said = [(r.question.name, r.before, r.after, _place(r.question), r.often_wrong) for r in of_part]
        for name, one, other, place, often in [*said, ("all", before, after, "", "")]:
            shares = f"{one:7.0%} {other:7.0%} {other - one:+7.0%}"
            lines.append(f"  {name:20}{shares}   {place:{wide}}   {often}".rstrip())
        lines.append("")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 there is a table; 1 nobody sat both tests of a part; 2 wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils concepts",
        description="What a class knew before and after each part, from the progress.json of its students.",
    )
    parser.add_argument("path", nargs="+", type=Path, help="files progress.json, or folders of them")
    parser.add_argument("--csv", type=Path, default=ROOT / "build" / "concepts.csv", help="(%(default)s)")
    args = parser.parse_args(argv)
    try:
        found, remarks = students(args.path)
    except ValueError as error:
        parser.error(str(error))
    result = list(rows(found.values()))
    print("\n".join([table(result), *left_out(found), *remarks]).strip("\n"))
    if not result:
        print("nobody has handed in both tests of a part")
        return 1
    try:
        saved = csv_file.save(args.csv, [HEAD, *(row.cells() for row in result)])
    except OSError as error:
        parser.error(csv_file.refusal(args.csv, error))
    print(f"\nthe same as a file: {saved}")
    return 0
