"""A concept test taken by keyboard in JupyterLab, and where its answers and the glossary's links lead."""

import pytest
from lab_page import LabPage
from playwright.sync_api import Page

from course_utils.concepts.question import sitting

pytestmark = pytest.mark.all

AT_BUBBLE = """() => {
    const documents = [...jupyterapp.shell.widgets("main")];
    documents.find(({context}) => context?.path === "GLOSSARY.md").setFragment("#bubble");
}"""
SHOWN = "(path) => jupyterapp.shell.currentWidget?.context?.path === path"


def test_a_concept_test_by_keyboard(page: Page, address: str) -> None:
    lab = LabPage(page, address, "concepts")
    lab.open("concepts_part_1.ipynb")
    lab.start()
    buttons = page.get_by_role("button", name="Hand in")
    buttons.nth(1).wait_for(timeout=60_000)
    boxes, items = page.locator(".widget-radio-box"), [*sitting(1, "before"), *sitting(1, "after")]
    assert boxes.count() == len(items)
    for number, item in enumerate(items):
        asked = f"{number % 10 + 1}. {item.ask}"
        group = page.get_by_role("radiogroup", name=asked, exact=True)
        assert group.evaluate_all("(found, box) => found.includes(box)", boxes.nth(number).element_handle())
        radios = boxes.nth(number).get_by_role("radio")
        assert radios.count() == 4
        for choice in item.choices:
            assert boxes.nth(number).get_by_role("radio", name=choice, exact=True).count() == 1
        place = boxes.nth(number).bounding_box()
        assert place["x"] + place["width"] <= 1280, f"{item.question.name} is cut"
        radios.first.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert radios.nth(1).is_checked()
    before, after = (sum(i.choices[1] == i.right for i in of) for of in (items[:10], items[10:]))
    for number, told in enumerate((f"All {before} of 10", f"All {before} of 10 {after} of 10")):
        buttons.nth(number).focus()
        page.keyboard.press("Enter")
        page.get_by_role("row", name=told, exact=True).wait_for(timeout=20_000)
    lab.start()
    links = page.get_by_role("link", name="Read again")
    links.first.wait_for(timeout=60_000)
    assert links.count() == 10 - after
    first = next(item for item in items[10:] if item.choices[1] != item.right)
    links.first.click()
    page.wait_for_function(SHOWN, arg=f"{first.question.read[0]}.ipynb", timeout=60_000)


def test_a_chapter_leads_to_the_glossary(page: Page, address: str) -> None:
    LabPage(page, address, "glossary").open("01_one_process.ipynb")
    page.get_by_role("link", name="glossary").click()
    term = page.locator(".jp-MarkdownViewer h3[data-jupyter-id=bubble]")
    term.wait_for(timeout=60_000)
    assert term.bounding_box()["y"] > 720
    page.evaluate(AT_BUBBLE)  # as a link to GLOSSARY.md#bubble does
    page.wait_for_function(
        "document.querySelector('h3[data-jupyter-id=bubble]').getBoundingClientRect().y < 720"
    )
