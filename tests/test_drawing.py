import base64
import re
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot as plt

from course_utils import drawing, show
from course_utils.drawing import RANK_COLORS, RANK_HATCHES, draw_ranks, rank_color, rank_hatch, table
from course_utils.measure import measured

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def svg_of(picture: drawing.Picture) -> ElementTree.Element:
    (source,) = re.findall(r'src="data:image/svg\+xml,([^"]*)"', picture.html)
    return ElementTree.fromstring(unquote(source))


def texts_of(picture: drawing.Picture) -> list[str]:
    return [e.text for e in svg_of(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_every_rank_has_a_color_and_a_hatch_of_its_own():
    assert len(set(RANK_COLORS)) == len(set(RANK_HATCHES)) == 8
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in RANK_COLORS)
    assert rank_color(9) == rank_color(1)
    assert rank_hatch(9) == rank_hatch(1) == RANK_HATCHES[1]


def linear(color: str) -> list[float]:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


# linear RGB as seen without red, green or blue cones: Machado, Oliveira and Fernandes 2009, severity 1.0
BLIND = {
    "protanopia": [
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ],
    "deuteranopia": [
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ],
    "tritanopia": [
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ],
}


@pytest.mark.parametrize("kind", BLIND)
def test_color_blind_readers_can_tell_the_ranks_apart(kind):
    def lab(color: str) -> tuple[float, float, float]:
        seen = [
            min(max(sum(m * c for m, c in zip(row, linear(color), strict=True)), 0), 1) for row in BLIND[kind]
        ]
        xyz_rows = [
            (0.4339, 0.3762, 0.1899),
            (0.2126, 0.7152, 0.0722),
            (0.0177, 0.1095, 0.8727),
        ]  # over white
        xyz = [sum(m * c for m, c in zip(row, seen, strict=True)) for row in xyz_rows]
        x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    distances = [
        sum((p - q) ** 2 for p, q in zip(lab(a), lab(b), strict=True)) ** 0.5
        for a, b in combinations(RANK_COLORS, 2)
    ]
    assert min(distances) > 15  # CIE76; 2.3 is just noticeable


def test_text_on_a_rank_color_is_readable():
    def luminance(color: str) -> float:
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(color), strict=True))

    for color in RANK_COLORS:
        contrast = (
            (luminance(color) + 0.05) / 0.05
            if color in drawing._DARK_TEXT_ON
            else 1.05 / (luminance(color) + 0.05)
        )
        assert contrast >= 3.4


def test_the_style_file_has_the_ranks_colors():
    style = mpl.rc_params_from_file(
        str(NOTEBOOKS / "matplotlibrc"), fail_on_error=True, use_default_template=True
    )
    assert style["axes.prop_cycle"].by_key()["color"] == list(RANK_COLORS)
    assert style["figure.dpi"] == style["savefig.dpi"] == 100


def test_show_outside_a_notebook_prints_the_sentence_and_closes_the_figure(capsys):
    figure, _ = plt.subplots()
    assert show(figure, alt="A line rises.") is None
    assert capsys.readouterr().out == "A line rises.\n"
    assert not plt.get_fignums()


def test_show_in_a_notebook_stores_the_sentence_with_the_image(monkeypatch):
    outputs = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda data, **options: outputs.append((data, options)))
    for _ in range(2):
        figure, axes = plt.subplots(figsize=(4, 3))
        axes.plot([1, 2])
        show(figure, alt="A < B & C")
    (image, options), (caption, _) = outputs[:2]
    png = base64.b64decode(image["image/png"])
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (400, 300)
    assert options["metadata"] == {"image/png": {"alt": "A < B & C"}}
    assert image["text/plain"] == caption["text/plain"] == "A < B & C"
    assert "A &lt; B &amp; C" in caption["text/html"]
    assert outputs[2] == outputs[0]  # the same bytes every time


def test_show_without_a_sentence_is_an_error():
    with pytest.raises(ValueError, match="alt="):
        show(plt.figure(), alt=" ")
    plt.close("all")


def test_before_and_after_of_real_tensors():
    before = [torch.tensor([1, 2]), torch.tensor([3, 4])]
    picture = draw_ranks(
        before, [torch.tensor([4, 6])] * 2, title="The sum everywhere", operation="all_reduce"
    )
    assert repr(picture) == (
        "The sum everywhere\nrank 0:  1, 2  ──all_reduce─→  4, 6\nrank 1:  3, 4  ──all_reduce─→  4, 6"
    )
    label = "The sum everywhere. rank 0: 1, 2, after all_reduce 4, 6. rank 1: 3, 4, after all_reduce 4, 6"
    assert f'role="img" aria-label="{label}" alt="{label}"' in picture._repr_html_()
    texts = texts_of(picture)
    assert {"rank 0", "rank 1", "before", "after", "all_reduce", "The sum everywhere"} <= set(texts)
    assert texts.count("4") == 3  # one before, two after
    again = draw_ranks(before, [torch.tensor([4, 6])] * 2, title="The sum everywhere", operation="all_reduce")
    assert again.html == picture.html


def frames(picture: drawing.Picture) -> int:
    return sum(e.get("stroke-width") == "2.5" and e.tag.endswith("rect") for e in svg_of(picture))


def fills(picture: drawing.Picture) -> list[str]:
    return [e.get("fill") for e in svg_of(picture) if e.tag.endswith("rect") and e.get("height") == "12.5"]


def test_changed_cells_are_framed():
    assert frames(draw_ranks([[1, 2], [3, 4]], [[1, 2], [3, 5]])) == 1
    assert frames(draw_ranks([["a"], None], [["a", "b"], ["b"]])) == 2
    assert frames(draw_ranks([[1, 2]])) == 0


def test_the_strip_shows_where_values_came_from():
    assert fills(draw_ranks([[1], [2]])) == [rank_color(0), rank_color(1)]
    picture = draw_ranks([[1], [2]], [[3], None], after_from=[[range(2)], []])
    assert fills(picture) == [rank_color(r) for r in (0, 1, 0, 1)]
    kept_and_changed = draw_ranks([[1, 2]], [[1, 5]])
    assert fills(kept_and_changed) == [rank_color(0)] * 3  # nothing is said of a changed value's origin


def test_transfers_are_arrows_in_the_senders_color():
    picture = draw_ranks([["a"], ["b"], ["c"]], [["c"], ["a"], ["b"]], transfers=[(0, 1), (1, 2), (2, 0)])
    strokes = [e.get("stroke") for e in svg_of(picture) if e.tag.endswith("path") and e.get("fill") == "none"]
    assert strokes == [rank_color(0), rank_color(1), rank_color(2)]


@pytest.mark.parametrize("world_size", range(1, 9))
def test_pictures_from_1_to_8_ranks_keep_their_elements_inside(world_size):
    columns = [f"chunk {i}" for i in range(8)]
    state = [[1.23456 * rank] * 8 for rank in range(world_size)]
    svg = svg_of(draw_ranks(state, state[::-1], title="Reversed", operation="send", columns=columns))
    width, height = float(svg.get("width")), float(svg.get("height"))
    for e in svg.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(e.get("x")) + float(e.get("width")) <= width
        assert float(e.get("y")) + float(e.get("height")) <= height


def test_values_of_all_sorts():
    assert repr(draw_ranks([[1, 0.3333333, "<x>", True, torch.tensor([1.5, 2]), 1e20, float("nan")]])) == (
        "rank 0:  1, 0.3333, <x>, True, 1.5 2, 1e+20, nan"
    )
    assert "<x>" in texts_of(draw_ranks([["<x>"]]))
    assert repr(draw_ranks([None, []])) == "rank 0:  nothing\nrank 1:  nothing"


def test_shapes_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match="before has 2 ranks and after 1"):
        draw_ranks([[1], [2]], [[1]])
    with pytest.raises(ValueError, match="origins were given"):
        draw_ranks([[1], [2]], before_from=[[0], [1, 1]])


def test_a_table_as_text_and_as_html():
    rows = [["ring", 1.50243, measured(0.138, "s")], ["all-gather & add", 3, measured(1.2, "s")]]
    picture = table(rows, ["method", "bytes / S", "time"], caption="Four ranks")
    assert repr(picture).splitlines() == [
        "Four ranks",
        "method            bytes / S          time",
        "────────────────  ─────────  ────────────",
        "ring                  1.502  ⟨    138 ms⟩",
        "all-gather & add          3  ⟨     1.2 s⟩",
    ]
    html = ElementTree.fromstring(picture.html)
    assert html.find("caption").text == "Four ranks"
    assert [th.get("scope") for th in html.iter("th")] == ["col", "col", "col", "row", "row"]
    assert [td.get("style") for td in html.iter("td")] == ["text-align:right"] * 4
    assert [th.text for th in html.iter("th")][3:] == ["ring", "all-gather & add"]


def test_what_was_measured_does_not_move_the_rest_of_a_table():
    texts = [
        re.sub("⟨.*?⟩", "", repr(table([["a", measured(v, "s"), 1]], ["x", "t", "n"])))
        for v in (1e-6, 0.987, 12)
    ]
    assert texts[0] == texts[1] == texts[2]


def test_tables_of_dictionaries_and_their_errors():
    assert repr(table([{"n": 1024, "what": None}, {"n": 2, "what": "x"}])).splitlines()[2:] == [
        "1,024  –",
        "    2  x",
    ]
    with pytest.raises(ValueError, match="needs a header"):
        table([[1, 2]])
    with pytest.raises(ValueError, match="row 1 of the table has 1 cells and the header 2"):
        table([[1, 2], [3]], ["a", "b"])
    assert repr(table([], ["a"])) == "a\n─"
