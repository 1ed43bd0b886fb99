"""A concept test of ten questions, taken before and after a part of the course, and what to read again.

The questions of part N are in ``part_N.py``, loaded when they are asked for. Answers are noted in
progress.json of the student's own copy of the course, and nowhere else.
"""

from html import escape
from typing import Any

import ipywidgets as widgets

from course_utils.concepts.question import SECTION, Item, key, points, sitting
from course_utils.prediction import recall, record
from course_utils.spoken import spoken

__all__ = ["concept_review", "concept_test"]

_WIDGET = "application/vnd.jupyter.widget-view+json"
_CELL = "text-align: left; padding-right: 2em"
# What was handed in to this kernel: elsewhere than in my_course/ nothing is written.
_handed_in: dict[str, dict[str, str | None]] = {}


def concept_test(part: int, when: str) -> "ConceptTest":
    """The ten questions of ``part``, ``when`` being "before" or "after" it; leave it as a cell's last line.

    Handed in, it tells the points by group and no answers. The first time counts. Raises ValueError for a
    part or a sitting that does not exist.
    """
    return ConceptTest(part, when)


def concept_review(part: int) -> "Review":
    """The right answers to what was wrong in the sitting after ``part``, and what to read again."""
    return Review(part)


class ConceptTest:
    """One sitting: a group of radio buttons for each question, a button, and the points."""

    def __init__(self, part: int, when: str) -> None:
        self.part, self.when, self.items = part, when, sitting(part, when)
        self.choices = [
            widgets.RadioButtons(options=item.choices, value=None, layout=widgets.Layout(width="max-content"))
            for item in self.items
        ]
        self.button = widgets.Button(description="Hand in", button_style="primary")
        self.button.on_click(self._hand_in)
        self.result = widgets.HTML()
        asked = [
            widgets.HTML(
                f'<div style="line-height: 1.4; max-width: 50em"><b>{n}.</b> {escape(item.ask)}</div>'
            )
            for n, item in enumerate(self.items, 1)
        ]
        rows = [widget for pair in zip(asked, self.choices, strict=True) for widget in pair]
        self.widget = spoken([*rows, self.button, self.result], self.result)
        if said := answers(part, when):
            self._tell("You have handed this in before. That counts; another time is for you alone.", said)

    def __repr__(self) -> str:
        lines = []
        for n, item in enumerate(self.items, 1):
            lines += [f"{n}. {item.ask}", *(f"  ○ {choice}" for choice in item.choices)]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_formats: Any) -> dict[str, Any]:
        """The questions as a list for a page without a kernel, and the live widget for a page with one."""
        html = "".join(
            f"<li>{escape(item.ask)}<ul>{''.join(f'<li>{escape(c)}</li>' for c in item.choices)}</ul></li>"
            for item in self.items
        )
        view = self.widget._repr_mimebundle_().get(_WIDGET)
        bundle = {"text/plain": repr(self), "text/html": f"<ol>{html}</ol>"}
        return bundle | {_WIDGET: view} if view else bundle

    def _hand_in(self, _button: widgets.Button) -> None:
        said = {
            item.question.name: buttons.value for item, buttons in zip(self.items, self.choices, strict=True)
        }
        left = [str(n) for n, buttons in enumerate(self.choices, 1) if buttons.value is None]
        if len(left) == len(said):
            self.result.value = "Choose first. What you don't know may stay open."
            return
        for widget in (*self.choices, self.button):
            widget.disabled = True
        if answers(self.part, self.when) is None:
            _handed_in[key(self.part, self.when)] = said
            record(SECTION, key(self.part, self.when), said)
        self._tell(f"Open, and counted as not known: {', '.join(left)}." if left else "Handed in.", said)

    def _tell(self, first: str, said: dict[str, str | None]) -> None:
        before = answers(self.part, "before") if self.when == "after" else None
        earned, earlier = points(self.part, self.when, said), points(self.part, "before", before or {})
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL}">{escape(group)}</th>'
            + (f"<td>{earlier[group][0]} of {of}</td>" if before else "")
            + f"<td>{right} of {of}</td></tr>"
            for group, (right, of) in earned.items()
        )
        columns = ["Group", *(["Before"] if before else []), "After" if self.when == "after" else "Points"]
        head = "".join(f'<th scope="col" style="{_CELL}">{column}</th>' for column in columns)
        after = "The next cell has the answers, and what to read again."
        last = after if self.when == "after" else "The answers come after the part, with other numbers."
        self.result.value = f"{escape(first)}<table><tr>{head}</tr>{rows}</table>{last}"


class Review:
    """What was wrong after the part: the right answer, why, and where to read it again."""

    def __init__(self, part: int) -> None:
        self.items, self.said = sitting(part, "after"), answers(part, "after")

    @property
    def wrong(self) -> list[tuple[int, Item]]:
        """Number and item of each question that was not answered rightly; all of them if none was."""
        said = self.said or {}
        numbered = enumerate(self.items, 1)
        return [(n, item) for n, item in numbered if said.get(item.question.name) != item.right]

    def _hint(self) -> str:
        if self.said is None:
            return "Hand in the test after the part, then run this cell again."
        return "" if self.wrong else f"All {len(self.items)} are right."

    def __repr__(self) -> str:
        return self._hint() or "\n".join(
            f"{n}. {item.ask}\n   {item.right}. {item.question.why}\n   Read again: {_place(item)}"
            for n, item in self.wrong
        )

    def _repr_html_(self) -> str:
        entries = "".join(
            f'<li value="{n}">{escape(item.ask)}<br>You said: '
            f"{escape((self.said or {}).get(item.question.name) or 'nothing')}. "
            f"<b>Right: {escape(item.right)}.</b> {escape(item.question.why)} "
            f'<a href="{_address(item)}">Read again: {escape(_place(item))}</a></li>'
            for n, item in self.wrong
        )
        return f"<p>{self._hint()}</p>" if self._hint() else f"<ol>{entries}</ol>"


def answers(part: int, when: str) -> dict[str, str | None] | None:
    """What the student said in that sitting, by question; None where it was not handed in."""
    noted = recall(SECTION, key(part, when))
    return noted if isinstance(noted, dict) else _handed_in.get(key(part, when))


def _place(item: Item) -> str:
    chapter, section, _ = item.question.read
    return f"chapter {chapter[:2]}, {section.replace('`', '')}"


def _address(item: Item) -> str:
    """The address of the cell that shows it, as JupyterLab understands it."""
    chapter, _, cell = item.question.read
    return f"{chapter}.ipynb#cell-id={cell}"
