"""Every slide of every chapter: nothing overflows, nothing is too small to read, nothing asks the network."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import Page

from course_utils.tools import slides
from course_utils.tools.run import chapters

SMALLEST = 18  # pixels of all text, on a slide 720 high
# Excused are indices of formulas, which the formula's own text stands for, and the labels inside of pictures:
# to keep these beside their code, a deck makes them smaller by no more than SHRUNK.
SHRUNK = 0.6
MEASURE = """({smallest, shrunk}) => Reveal.getSlides().map((slide) => {
    const {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v, 99);  // with all its fragments
    const shown = [...slide.querySelectorAll("*")].filter((part) => !part.closest("aside.notes"));
    const boxes = shown.map((part) => part.getBoundingClientRect()).filter((box) => box.width && box.height);
    const raw = [...slide.querySelectorAll(".jp-MarkdownCell :is(p, li, td)")].filter((part) => {
        const copy = part.cloneNode(true);
        copy.querySelectorAll("code").forEach((code) => code.remove());
        return /\\$[^$]+\\$/.test(copy.textContent);
    });
    const scale = (part) => part ? (parseFloat(part.style?.zoom) || 1) * scale(part.parentElement) : 1;
    const words = (part) => [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    // of these another part speaks
    const inside = "aside.notes, aside.notes *, .highlight span, math *, svg *";
    const read = [...slide.querySelectorAll(`:not(:is(${inside}))`)].filter(
        (part) => (part.tagName === "math" || words(part)) && part.checkVisibility());
    const size = (part) => parseFloat(getComputedStyle(part).fontSize) * scale(part);
    const pictures = [...slide.querySelectorAll("img, svg")];
    return {
        at: `${h}/${v} ${slide.textContent.trim().slice(0, 40)}`,
        empty: !slide.textContent.trim() && !slide.querySelector("img, svg"),
        formulas: raw.length,
        bottom: Math.max(...boxes.map((box) => box.bottom)),
        right: Math.max(...boxes.map((box) => box.right)),
        small: read.filter((part) => size(part) < smallest)
            .map((part) => `${size(part).toFixed(1)} pixels: ${part.textContent.trim().slice(0, 60)}`),
        shrunk: pictures.filter((picture) => scale(picture) < shrunk).length,
        lines: [...slide.querySelectorAll(".jp-RenderedText pre, tr")].map((part) => part.textContent.trim()),
        marks: ["::before", "::after"].flatMap((end) => [...slide.querySelectorAll("pre, table")].map(
            (part) => getComputedStyle(part, end).content)).filter((mark) => mark !== "none"),
    };
})"""
LINES = [f"rank {rank}, step {step}" for rank in range(8) for step in range(8)]


def look(deck: Path, page: Page) -> list[dict[str, Any]]:
    """What is seen on each slide of the deck."""
    page.goto(deck.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    return page.evaluate(MEASURE, {"smallest": SMALLEST, "shrunk": SHRUNK})


@pytest.mark.all
@pytest.mark.parametrize("chapter", chapters([]), ids=lambda path: path.stem)
def test_all_slides_of_a_chapter_fit(chapter: Path, tmp_path: Path, page: Page) -> None:
    seen = look(slides.write(chapter, tmp_path / "deck"), page)
    assert len(seen) > 5
    assert not [slide for slide in seen if slide["bottom"] > 721 or slide["right"] > 1281]
    assert not [slide for slide in seen if slide["empty"]]
    assert not [slide for slide in seen if slide["small"] or slide["shrunk"]]
    assert not [slide for slide in seen if slide["formulas"]]


@pytest.mark.all
def test_long_output_goes_on_on_the_next_slide(tmp_path: Path, page: Page) -> None:
    text = v4.new_output("stream", text="\n".join(LINES) + "\n")
    rows = "".join(f"<tr><th>{line}</th><td>1</td></tr>" for line in LINES)
    table = f"<table><tr><th>where</th><th>bytes</th></tr>{rows}</table>"
    cells = [
        v4.new_markdown_cell("# 99 · Long", metadata={"slideshow": {"slide_type": "slide"}}),
        v4.new_code_cell("run()", outputs=[text], metadata={"slideshow": {"slide_type": "slide"}}),
        v4.new_code_cell(
            "drawing.table(...)",
            outputs=[v4.new_output("display_data", {"text/html": table})],
            metadata={"slideshow": {"slide_type": "slide"}},
        ),
    ]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "long.ipynb")
    seen = look(slides.write(tmp_path / "long.ipynb", tmp_path / "deck"), page)
    assert not [slide for slide in seen if slide["bottom"] > 721 or slide["small"]]
    parts = [slide for slide in seen if slide["lines"]]
    tables = [part for part in parts if part["lines"][0] == "wherebytes"]
    texts = [part for part in parts if part not in tables]
    for several in (texts, tables):
        first, *between, last = [part["marks"] for part in several]
        assert (first, last) == (['"goes on"'], ['"continued"'])
        assert all(marks == ['"continued"', '"goes on"'] for marks in between)
    assert "\n".join(line for part in texts for line in part["lines"]).splitlines() == LINES
    assert [line for part in tables for line in part["lines"][1:]] == [f"{line}1" for line in LINES]


@pytest.mark.all
def test_the_keyboard_leads_through_a_deck_and_the_notes_are_there(tmp_path: Path, page: Page) -> None:
    page.goto(slides.write(chapters(["13"])[0], tmp_path / "deck").as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    first = page.evaluate("Reveal.getCurrentSlide().textContent")
    for _ in range(3):
        page.keyboard.press("Space")
    assert page.evaluate("Reveal.getCurrentSlide().textContent") != first
    assert page.locator("aside.notes").count()
    assert not page.locator("aside.notes").first.is_visible()
    assert page.evaluate("Reveal.hasPlugin('notes')")
