"""``python3 -m course_utils concepts``: what a class knew before and after a part, question by question.

It reads the files progress.json that students hand in, whatever they are called, and judges the answers noted
there by the key of today. Students who sat only one of a part's two tests do not count for that part.
"""

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from course_utils.concepts.question import PARTS, SECTION, SITTINGS, Item, key, sitting
from course_utils.tools.run import ROOT

LARGEST = 10 * 2**20  # bytes; a whole course's notes are some 50 KB


class Row(NamedTuple):
    """A question: how many were right in both sittings, and the wrong answer given most often after."""

    part: int
    students: int
    question: str
    before: float
    after: float
    often_wrong: str


def notes(paths: list[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """The section on concept tests of each file, and a line for each file that has none.

    Raises ValueError for a path that does not exist.
    """
    found, remarks = [], []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: there is no such file or folder")
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            if any(part.startswith(".") for part in file.relative_to(path).parts):
                continue
            try:
                if file.stat().st_size > LARGEST:
                    raise ValueError("too large for notes of the course")
                noted = json.loads(file.read_text("utf-8"))[SECTION]
                found.append({name: said for name, said in noted.items() if isinstance(said, dict)})
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                remarks.append(f"{file}: no notes of concept tests ({type(error).__name__})")
    return found, remarks


def rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    """The questions of each part that somebody sat before and after it."""
    for part in PARTS:
        both = [[said[key(part, when)] for when in SITTINGS] for said in found if _sat(part, said)]
        items = {item.question.name: item for item in sitting(part, "after")} if both else {}
        first = {item.question.name: item for item in sitting(part, "before")}
        for name, item in sorted(items.items()):
            wrong = Counter(_wrong(item, after) for _, after in both if _wrong(item, after))
            yield Row(
                part,
                len(both),
                name,
                sum(before.get(name) == first[name].right for before, _ in both) / len(both),
                sum(after.get(name) == item.right for _, after in both) / len(both),
                wrong.most_common(1)[0][0] if wrong else "",
            )


def _sat(part: int, said: dict[str, Any]) -> bool:
    return all(key(part, when) in said for when in SITTINGS)


def _wrong(item: Item, said: dict[str, Any]) -> str:
    """The wrong choice that was taken; empty where there was none."""
    choice = said.get(item.question.name)
    return choice if choice in item.choices and choice != item.right else ""


def table(found: list[Row]) -> str:
    """A line a question: right before, right after, the difference; a line for each part."""
    lines = []
    for part in sorted({row.part for row in found}):
        of_part = [row for row in found if row.part == part]
        count = of_part[0].students
        lines += [
            f"Part {part}, {count} student{'s' * (count > 1)}    before   after    gain   often said after"
        ]
        before, after = (sum(row[i] for row in of_part) / len(of_part) for i in (3, 4))
        for row in [*of_part, Row(part, count, "all", before, after, "")]:
            shares = f"{row.before:7.0%} {row.after:7.0%} {row.after - row.before:+7.0%}"
            lines.append(f"  {row.question:20}{shares}   {row.often_wrong}".rstrip())
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
        found, remarks = notes(args.path)
    except ValueError as error:
        parser.error(str(error))
    result = list(rows(found))
    print("\n".join([table(result), *remarks]).strip("\n"))
    if not result:
        print("nobody has handed in both tests of a part")
        return 1
    args.csv.parent.mkdir(parents=True, exist_ok=True)
    with args.csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["part", "students", "question", "before", "after", "often said after"])
        writer.writerows(result)
    print(f"\nthe same as a file: {args.csv}")
    return 0
