"""Every slide of every chapter: nothing overflows, nothing is too small to read, nothing asks the network."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from course_utils.tools import slides
from course_utils.tools.run import chapters

SMALLEST = 18  # pixels of the text of code, on a slide 720 high
MEASURE = """() => Reveal.getSlides().map((slide) => {
    const {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v, 99);  // with all its fragments
    const shown = [...slide.querySelectorAll("*")].filter((part) => !part.closest("aside.notes"));
    const boxes = shown.map((part) => part.getBoundingClientRect()).filter((box) => box.width && box.height);
    const code = [...slide.querySelectorAll(".jp-InputArea pre")];
    const raw = [...slide.querySelectorAll(".jp-MarkdownCell :is(p, li, td)")].filter((part) => {
        const words = part.cloneNode(true);
        words.querySelectorAll("code").forEach((code) => code.remove());
        return /\\$[^$]+\\$/.test(words.textContent);
    });
    const scale = (part) => part ? (parseFloat(part.style?.zoom) || 1) * scale(part.parentElement) : 1;
    return {
        at: `${h}/${v} ${slide.textContent.trim().slice(0, 40)}`,
        empty: !slide.textContent.trim() && !slide.querySelector("img, svg"),
        formulas: raw.length,
        bottom: Math.max(...boxes.map((box) => box.bottom)),
        right: Math.max(...boxes.map((box) => box.right)),
        code: Math.min(99, ...code.map((pre) => parseFloat(getComputedStyle(pre).fontSize) * scale(pre))),
    };
})"""


@pytest.mark.all
@pytest.mark.parametrize("chapter", chapters([]), ids=lambda path: path.stem)
def test_all_slides_of_a_chapter_fit(chapter: Path, tmp_path: Path, page: Page) -> None:
    deck = slides.write(chapter, tmp_path / "deck")
    page.goto(deck.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    seen = page.evaluate(MEASURE)
    assert len(seen) > 5
    assert not [slide for slide in seen if slide["bottom"] > 721 or slide["right"] > 1281]
    assert not [slide for slide in seen if slide["empty"]]
    assert not [slide for slide in seen if slide["code"] < SMALLEST]
    assert not [slide for slide in seen if slide["formulas"]]


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
