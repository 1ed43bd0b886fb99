"""What a check says: a verdict as text, as HTML, and as fields for a program that counts."""

from dataclasses import dataclass
from html import escape

NOT_ATTEMPTED, NOT_RIGHT, RIGHT = "not attempted yet", "not right", "right"
_LOOK = {NOT_ATTEMPTED: ("○", "#777777"), NOT_RIGHT: ("✗", "#b3261e"), RIGHT: ("✓", "#1b7837")}


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. ``status`` is NOT_ATTEMPTED, NOT_RIGHT or RIGHT; ``message`` says why."""

    exercise: str
    status: str
    message: str
    expected: str = ""
    came: str = ""
    rank: int | None = None
    hint: str = ""

    @property
    def passed(self) -> bool:
        return self.status == RIGHT

    @property
    def attempted(self) -> bool:
        return self.status != NOT_ATTEMPTED

    def __repr__(self) -> str:
        details = [f"  {name:<8}  {text}".replace("\n", "\n" + " " * 12) for name, text in self._details()]
        return "\n".join([f"{self._title()}: {self.message}", *details])

    def _repr_html_(self) -> str:
        look = "text-align: left; vertical-align: top; white-space: pre-wrap"
        rows = ""
        for name, text in self._details():
            face = "; font-family: monospace" if name in ("expected", "came") else ""  # a report has columns
            head = f'<th scope="row" style="{look}">{name}</th>'
            rows += f'<tr>{head}<td style="{look}{face}">{escape(text)}</td></tr>'
        edge = f'style="border-left: 4px solid {_LOOK[self.status][1]}; padding-left: 0.8em"'
        table = f"<table>{rows}</table>" if rows else ""
        return f"<div {edge}><b>{self._title()}:</b> {escape(self.message)}{table}</div>"

    def _title(self) -> str:
        return f"{_LOOK[self.status][0]} {self.exercise} {self.status}"

    def _details(self) -> list[tuple[str, str]]:
        rank = "" if self.rank is None else str(self.rank)
        rows = {"rank": rank, "expected": self.expected, "came": self.came, "hint": self.hint}
        return [(name, text) for name, text in rows.items() if text]


def not_attempted(exercise: str) -> Verdict:
    """The verdict on a stub that still raises NotImplementedError, and on a value that is still ``...``."""
    return Verdict(exercise, NOT_ATTEMPTED, "write your answer above, then run both cells.")
