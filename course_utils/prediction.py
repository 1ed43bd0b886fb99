"""``predict``: the student commits to an answer before the cell that gives it."""

import contextlib
import json
import math
import os
import tempfile
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from IPython import get_ipython
from IPython.display import display

from course_utils.spoken import spoken

Choice = float | str  # int and bool are floats to a type checker

_WIDGET = "application/vnd.jupyter.widget-view+json"
# `lab` writes it: it tells the student's copy of the course from a folder that only bears the name.
_MANIFEST = ".manifest.json"


def predict(question: str, *choices: Choice) -> "Guess":
    """Ask ``question`` with radio buttons, none chosen, and go on: "Run all" never waits for the answer.

    Returns a guess; the cell that finds out ends in ``guess.compare(value)``. Choices are numbers, strings or
    booleans. Raises ValueError for fewer than two choices or two that look alike, TypeError for other kinds.
    """
    guess = Guess(question, choices)
    guess.show()
    return guess


class Guess:
    """A question with a definite answer, and what the student chose."""

    def __init__(self, question: str, choices: tuple[Choice, ...]) -> None:
        if len(choices) < 2:
            raise ValueError("predict needs at least two choices: predict('How many?', 1, 2, 3)")
        for choice in choices:
            if _kind(choice) is None:
                raise TypeError(f"a choice is a number, a string or a boolean, not {type(choice).__name__}")
        self.question, self.choices = question, choices
        self.labels = [str(choice) for choice in choices]
        if len(set(self.labels)) < len(choices):
            raise ValueError(f"two choices look alike: {', '.join(self.labels)}")
        self.answer: int | None = None
        self.measured = ""
        self._committed = False
        self.buttons = widgets.RadioButtons(
            options=[(label, i) for i, label in enumerate(self.labels)],
            value=None,
            layout=widgets.Layout(width="max-content"),
        )
        self.verdict = widgets.HTML()
        asked = widgets.HTML(f"<b>Predict.</b> {escape(question)}")
        self.widget = spoken([asked, self.buttons, self.verdict], self.verdict)
        self.buttons.observe(self._chosen, "value")

    def __repr__(self) -> str:
        return f"Guess({self.question!r}, {', '.join(map(repr, self.choices))})"

    def show(self) -> None:
        """Display the question: a widget where a kernel lives, the same as a list on a page without one."""
        text = "\n".join([f"Predict. {self.question}", *(f"  ○ {label}" for label in self.labels)])
        if get_ipython() is None:
            print(text)
            return
        items = "".join(f"<li>{escape(label)}</li>" for label in self.labels)
        html = f"<div><b>Predict.</b> {escape(self.question)}<ul>{items}</ul></div>"
        view = self.widget._repr_mimebundle_().get(_WIDGET)
        bundle = {"text/plain": text, "text/html": html}
        display(bundle | {_WIDGET: view} if view else bundle, raw=True)

    def compare(self, value: Any, tolerance: float = 0.05) -> None:
        """Print the measured answer, in one line that does not depend on the choice, and judge the choice.

        A number stands for the choice nearest to it, if that is at most ``tolerance`` away (relative), so the
        noise of a measurement does not show in the line. Tensors and arrays of one element count as numbers.
        Raises TypeError for a value that no choice could equal, such as a string among numbers.
        """
        value = value.item() if hasattr(value, "item") else value
        if not any(_kind(value) is _kind(choice) for choice in self.choices):
            raise TypeError(f"compare got {value!r}, but the choices are {', '.join(self.labels)}")
        self.answer = self._nearest(value, tolerance)
        self.measured = f"{value:.4g}" if isinstance(value, float) else str(value)
        among = ", ".join(self.labels)
        if self.answer is None:
            print(f"measured: ⟨{self.measured}⟩, none of the choices ({among})")
        else:
            print(f"measured: {self.labels[self.answer]} (choices were {among})")
        self._judge(before=True)

    def _nearest(self, value: Choice, tolerance: float) -> int | None:
        same = {i: c for i, c in enumerate(self.choices) if _kind(c) is _kind(value)}
        if _kind(value) is not Real:
            return next((i for i, choice in same.items() if choice == value), None)
        unit = min((abs(c) for c in same.values() if c), default=1)  # what "relative" means for the choice 0
        distance = {i: abs(value - c) / (abs(c) or unit) for i, c in same.items()}
        best = min(distance, key=lambda i: distance[i] if not math.isnan(distance[i]) else math.inf)
        return best if distance[best] <= tolerance else None

    def _chosen(self, _change: dict[str, Any]) -> None:
        # An exception in a widget's callback would end as a traceback in the browser's console.
        with contextlib.suppress(Exception):
            self._judge(before=False)

    def _judge(self, before: bool) -> None:
        choice = self.buttons.value
        if choice is None:
            return
        said = escape(self.labels[choice])
        if not self.measured:
            self.verdict.value = f"You said {said}. Run on to find out."
            return
        right = choice == self.answer
        word = "✓ Right" if right else "✗ Not so"
        self.verdict.value = f"<b>{word}:</b> you said {said}, measured {escape(self.measured)}."
        if not self._committed:  # only the first choice is a prediction; trying the others is free
            self._committed = True
            note = {"said": self.labels[choice], "right": right, "before the answer": before}
            record("predictions", self.question, note)


def _kind(value: Any) -> type | None:
    """bool apart from numbers, since True == 1."""
    return next((kind for kind in (bool, Real, str) if isinstance(value, kind)), None)


def record(section: str, key: str, value: Any) -> None:
    """Note ``value`` under ``section`` and ``key`` in progress.json of the student's own copy of the course.

    Does nothing anywhere else, nor under tests, nor where the file can't be written: notes stop no lesson.
    """
    if "PYTEST_CURRENT_TEST" in os.environ:
        return
    with contextlib.suppress(OSError):
        if path := _progress():
            _write(path, section, key, value)


def recall(section: str, key: str) -> Any:
    """What ``record`` noted under ``section`` and ``key``; None where there is no such note."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if path := _progress():
            return json.loads(path.read_text(encoding="utf-8")).get(section, {}).get(key)
    return None


def _progress() -> Path | None:
    """progress.json of the copy of the course that the working folder lies in, whether it exists or not."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder.name == "my_course" and (folder / _MANIFEST).is_file():
            return folder / "progress.json"
    return None


def _write(path: Path, section: str, key: str, value: Any) -> None:
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
        notes.setdefault(section, {})[key] = value
    except FileNotFoundError:
        notes = {section: {key: value}}
    except (ValueError, AttributeError, TypeError):  # not JSON, or not our shape: keep it aside, start again
        path.replace(path.with_name("progress.broken.json"))
        notes = {section: {key: value}}
    # Written beside and renamed, so that a kernel killed half-way leaves the old notes whole.
    handle, name = tempfile.mkstemp(prefix=".progress-", dir=path.parent, text=True)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(notes, file, indent=1, ensure_ascii=False)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
