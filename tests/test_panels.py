"""panel(): every kind of knob, what a page without a kernel shows, and errors that leave it alive."""

import base64
from typing import Any

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest

from course_utils import panel
from course_utils.drawing import Picture


def show_state(**state: Any) -> tuple[str, str]:
    return f"<b>{state}</b>", " ".join(f"{name}={value!r}" for name, value in state.items())


@pytest.mark.parametrize(
    ("knob", "kind", "value"),
    [
        ((1, 8, 4), widgets.IntSlider, 4),
        ((0, 64, 8, 8), widgets.IntSlider, 8),
        ((0.0, 1.0, 0.25), widgets.FloatSlider, 0.25),
        ((0, 1, 0.5, 0.5), widgets.FloatSlider, 0.5),
        ([1, 2, 4, 8], widgets.SelectionSlider, 1),
        (([1, 2, 4, 8], 4), widgets.SelectionSlider, 4),
        (("gpipe", "1f1b"), widgets.RadioButtons, "gpipe"),
        (("a", "b", "c", "d", "e"), widgets.Dropdown, "a"),
        (True, widgets.Checkbox, True),
    ],
)
def test_a_knob_for_every_form(knob: Any, kind: type, value: Any) -> None:
    explorer = panel(show_state, micro_batches=knob)
    widget = explorer.knobs["micro_batches"]
    assert type(widget) is kind
    assert widget.description == "micro batches"
    assert explorer.state == {"micro_batches": value}
    assert explorer.text == f"micro_batches={value!r}"


@pytest.mark.parametrize(
    "knob",
    [(1, 8), (1, 8, 9), (8, 1, 4), (), [], 4, "gpipe", (1, 8, 4, 1, 1), ([1, 2], 3), (1, 8, True), None],
)
def test_any_other_knob_is_a_clear_error(knob: Any) -> None:
    with pytest.raises(TypeError, match="knob p="):
        panel(show_state, p=knob)


def test_knobs_that_the_function_does_not_take_are_a_clear_error() -> None:
    def draw(p: int, m: int) -> str:
        return f"{p} {m}"

    with pytest.raises(TypeError, match=r"don't fit draw's parameters: missing a required argument: 'm'"):
        panel(draw, p=(1, 8, 4))
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        panel(draw, p=(1, 8, 4), m=(1, 8, 4), q=True)
    with pytest.raises(TypeError, match="at least one knob"):
        panel(draw)


def test_turning_a_knob_changes_picture_and_text_but_not_what_is_stored() -> None:
    explorer = panel(show_state, p=(1, 8, 4))
    stored = repr(explorer)
    explorer.knobs["p"].value = 7
    assert explorer.picture_widget.value == "<b>{'p': 7}</b>"
    assert ">p=7<" in explorer.text_widget.value
    data, metadata = explorer._repr_mimebundle_()
    assert repr(explorer) == stored == data["text/plain"] == "p=4\n[p = 4]"
    assert "<b>{'p': 4}</b>" in data["text/html"]
    assert metadata == {}


def test_an_error_is_one_line_and_the_panel_lives_on() -> None:
    def inverse(p: int) -> str:
        if p == 2:
            raise ValueError("first line\nsecond line")
        if p == 3:
            return 3  # not what a panel's function returns
        return f"1/{p} = {1 / p:.3f} < 1"

    explorer = panel(inverse, p=(0, 8, 4))
    assert explorer.text == "1/4 = 0.250 < 1"
    assert "0.250 &lt; 1" in explorer.text_widget.value
    for value, says in [
        (0, "ZeroDivisionError: division by zero"),
        (2, "ValueError: first line"),
        (3, "TypeError: a panel's function returns (picture, text) or a text, not int"),
        (5, "1/5 = 0.200 < 1"),
    ]:
        explorer.knobs["p"].value = value
        assert explorer.text == says


def test_a_figure_has_its_text_as_alternative_and_is_shown_once() -> None:
    def plot(p: int) -> tuple[plt.Figure, str]:
        figure, axes = plt.subplots()
        axes.plot([0, p])
        return figure, f'up to "{p}"'

    before = plt.get_fignums()
    explorer = panel(plot, p=(1, 8, 4))
    assert 'alt="up to &quot;4&quot;"' in explorer.picture_widget.value
    data, metadata = explorer._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert "text/html" not in data, "nbval would compare a plot's pixels"
    assert metadata["image/png"]["alt"] == 'up to "4"\n[p = 4]'
    assert plt.get_fignums() == before


def test_a_picture_may_be_an_object_with_html() -> None:
    picture = Picture("<svg></svg>", "its own text")
    explorer = panel(lambda p: (picture, "text") if p else picture, p=True)
    assert (explorer.picture_widget.value, explorer.text) == ("<svg></svg>", "text")
    explorer.knobs["p"].value = False
    assert (explorer.picture_widget.value, explorer.text) == ("<svg></svg>", "its own text")
