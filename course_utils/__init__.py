"""The plumbing of the course: what would distract from a chapter's subject stands here.

The names are handed out lazily, because ``python3 -m course_utils`` imports this file on a machine where
nothing is installed yet.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_utils.drawing import show
    from course_utils.exercises import check, show_solution
    from course_utils.launcher import launch
    from course_utils.panels import panel
    from course_utils.prediction import predict
    from course_utils.rank import progress
    from course_utils.report import RankError, RankTimeout

_ROOMS = {
    "launch": "launcher",
    "RankError": "report",
    "RankTimeout": "report",
    "progress": "rank",
    "predict": "prediction",
    "panel": "panels",
    "show": "drawing",
    "check": "exercises",
    "show_solution": "exercises",
}

__all__ = [
    "RankError",
    "RankTimeout",
    "check",
    "launch",
    "panel",
    "predict",
    "progress",
    "show",
    "show_solution",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(f"course_utils.{_ROOMS[name]}"), name)
    raise AttributeError(
        f"module 'course_utils' has no attribute {name!r}; it hands out {', '.join(__all__)}"
    )


def __dir__() -> "list[str]":  # in quotes: Python 3.8 has to get as far as the message that it is too old
    return sorted([*globals(), *__all__])
