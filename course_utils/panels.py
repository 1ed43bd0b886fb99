"""``panel``: knobs around a function of the chapter, a picture and a text that follow them."""

import base64
import inspect
import io
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from course_utils.spoken import spoken

_WIDGET = "application/vnd.jupyter.widget-view+json"
_WIDE = {"description_width": "max-content"}


def panel(fn: Callable[..., Any], /, **knobs: Any) -> "Panel":
    """Explore ``fn(**state)`` by turning knobs; leave the panel as a cell's last line.

    ``fn`` returns ``(picture, text)``, a text alone, or a ``drawing.Picture``, which has both. A picture is
    an HTML string (an SVG in it has role="img" and an aria-label), an object with ``_repr_html_``, or a
    matplotlib figure, for which the text is the alternative text.

    A knob is one of
      - ``(lowest, highest, start)`` or ``(lowest, highest, start, step)``: a slider, of floats if any is one;
      - a list of values, ``[1, 2, 4, 8]``, or a list and its start, ``([1, 2, 4, 8], 4)``: a slider on them;
      - a tuple of strings, the first is the start: radio buttons, from five on a drop-down list;
      - True or False: a check box.

    Raises TypeError where a knob is none of these or ``fn`` does not take it. An error inside ``fn`` is shown
    in the panel in one line, and the knobs stay alive.
    """
    return Panel(fn, knobs)


class Panel:
    """What ``panel`` returns: ``knobs`` by name, ``state``, and the current ``text`` and ``picture``."""

    def __init__(self, fn: Callable[..., Any], knobs: dict[str, Any]) -> None:
        if not callable(fn) or not knobs:
            raise TypeError("panel needs a function and at least one knob: panel(draw, p=(1, 8, 4))")
        try:
            inspect.signature(fn).bind(**knobs)
        except TypeError as error:
            raise TypeError(f"the knobs don't fit {fn.__name__}'s parameters: {error}") from None
        self.fn = fn
        self.knobs = {name: _knob(name, given) for name, given in knobs.items()}
        self.picture_widget, self.text_widget = widgets.HTML(), widgets.HTML()
        self.picture_widget.add_class("course-panel-picture")
        self.text_widget.add_class("course-panel-text")
        self.widget = spoken([*self.knobs.values(), self.picture_widget, self.text_widget], self.text_widget)
        self.widget.add_class("course-panel")
        self._update()
        self._start = self._static()
        for knob in self.knobs.values():
            knob.observe(self._update, "value")

    @property
    def state(self) -> dict[str, Any]:
        """The knobs' values, the arguments of the next call."""
        return {name: knob.value for name, knob in self.knobs.items()}

    def __repr__(self) -> str:
        return self._start["text/plain"]

    def _repr_mimebundle_(self, **_formats: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The start state for a page without a kernel, and the live widget for a page with one."""
        view = self.widget._repr_mimebundle_().get(_WIDGET)
        alt = {"image/png": {"alt": self._start["text/plain"]}} if "image/png" in self._start else {}
        return (self._start | {_WIDGET: view} if view else self._start), alt

    def _update(self, _change: Any = None) -> None:
        try:
            self.picture, self.text = _picture_and_text(self.fn(**self.state))
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            self.picture, self.text = "", f"{type(error).__name__}: {first}".removesuffix(": ")
        self.picture_widget.value = _html(self.picture, self.text)
        self.text_widget.value = f'<pre style="margin: 0">{escape(self.text)}</pre>'

    def _static(self) -> dict[str, str]:
        state = " · ".join(f"{knob.description} = {knob.value}" for knob in self.knobs.values())
        text = f"{self.text}\n[{state}]"
        # nbval compares HTML but no PNG, and a plot's pixels differ between machines.
        if isinstance(self.picture, bytes):
            return {"text/plain": text, "image/png": base64.b64encode(self.picture).decode()}
        return {"text/plain": text, "text/html": f"<div>{self.picture}<pre>{escape(text)}</pre></div>"}


def _picture_and_text(result: Any) -> tuple[str | bytes, str]:
    """The picture as HTML or PNG, and the text."""
    if isinstance(result, str):
        return "", result
    if hasattr(result, "_repr_html_"):
        return result._repr_html_(), repr(result)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str)):
        raise TypeError(f"a panel's function returns (picture, text) or a text, not {type(result).__name__}")
    picture, text = result
    if hasattr(picture, "savefig"):
        from matplotlib import pyplot

        buffer = io.BytesIO()
        picture.savefig(buffer, format="png", dpi=100)
        pyplot.close(picture)  # or the notebook would show it once more under the panel
        return buffer.getvalue(), text
    return (picture._repr_html_() if hasattr(picture, "_repr_html_") else str(picture)), text


def _html(picture: str | bytes, text: str) -> str:
    if isinstance(picture, str):
        return picture
    source = base64.b64encode(picture).decode()
    return f'<img src="data:image/png;base64,{source}" alt="{escape(text)}" style="max-width: 100%">'


def _knob(name: str, given: Any) -> widgets.Widget:
    """The widget for one knob; see ``panel`` for the forms."""
    label = {"description": name.replace("_", " "), "style": _WIDE}
    if isinstance(given, bool):
        return widgets.Checkbox(value=given, indent=False, **label)
    if isinstance(given, list) and given:
        given = (given, given[0])
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], list) and given[1] in given[0]:
        return widgets.SelectionSlider(options=given[0], value=given[1], **label)
    if isinstance(given, tuple) and given and all(isinstance(value, str) for value in given):
        if len(given) > 4:
            return widgets.Dropdown(options=given, **label)
        return widgets.RadioButtons(options=given, orientation="horizontal", **label)
    numbers = isinstance(given, tuple) and all(type(value) in (int, float) for value in given)
    if numbers and len(given) in (3, 4):
        low, high, start = given[:3]
        if low <= start <= high and low < high:
            floats = any(isinstance(value, float) for value in given)
            step = given[3] if len(given) == 4 else (high - low) / 100 if floats else 1
            kind = widgets.FloatSlider if floats else widgets.IntSlider
            return kind(min=low, max=high, value=start, step=step, **label)
    raise TypeError(
        f"knob {name}={given!r}: pass (lowest, highest, start), a list of values, a tuple of strings, "
        "True or False"
    )
