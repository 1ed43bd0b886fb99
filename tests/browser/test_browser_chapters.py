"""Every chapter in JupyterLab: it runs to its end, nothing is cut or faint, its panel answers the keys."""

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contrast import FAINT
from lab_page import LabPage, watch
from panel_keys import PanelKeys
from playwright.sync_api import Browser

from course_utils.tools.run import chapters

AT_A_TIME = 3  # on two cores: ranks mostly wait for each other
LIMIT = 300  # seconds from "Run All" to the end
WIDE, NARROW = 1280, 1024  # pixels; on the narrow page without the file browser, which Ctrl+B folds away
TOO_WIDE = """() => jupyterapp.shell.currentWidget.content.widgets.flatMap(({model, node}) => {
    const areas = [...node.querySelectorAll(".jp-OutputArea-output, .jp-MarkdownOutput")];
    return areas.flatMap((area) => {
        if (!area.isConnected) return [`${model.id}: is not in the page`];
        const edge = area.getBoundingClientRect();
        if (!edge.width) return [];  // folded away
        for (const part of [area, ...area.querySelectorAll("*")]) {
            if (part.closest("mjx-container *, .noUi-target, .widget-readout")) continue;
            const {overflowX, overflowY} = getComputedStyle(part);
            const {clientWidth, clientHeight, scrollWidth, scrollHeight} = part;
            const {right, width} = part.getBoundingClientRect();
            const inside = part.ownerSVGElement?.getBoundingClientRect() ?? edge;
            const judged = width && (part.tagName === "text" || !part.ownerSVGElement);
            // up to 3 pixels are a glyph that leans out
            const wide = clientWidth && overflowX !== "visible" && scrollWidth > clientWidth + 3;
            const high = clientHeight && overflowY !== "visible" && scrollHeight > clientHeight + 3;
            const how = wide ? `${scrollWidth} in ${clientWidth} wide`
                : high ? `${scrollHeight} in ${clientHeight} high`
                : judged && right > inside.right + 3 ? `${Math.ceil(right - inside.right)} beyond the edge`
                : "";
            const words = part.textContent.trim().replace(/\\s+/g, " ").slice(0, 60);
            if (how) return [`${model.id}: ${part.tagName} ${part.getAttribute("class")}: ${how}: ${words}`];
        }
        return [];
    });
})"""
THEMES = ("JupyterLab Dark", "JupyterLab Light")
# Text inside of a picture stands on the picture's own ground.
TOO_FAINT = (
    "() => {"
    + FAINT
    + """
    return jupyterapp.shell.currentWidget.content.widgets.flatMap(({model, node}) => {
        const parts = [...node.querySelectorAll(":is(.jp-OutputArea-output, .jp-MarkdownOutput) *")];
        return faint(parts.filter((part) => !part.ownerSVGElement)).map((found) => `${model.id}: ${found}`);
    });
}"""
)


@dataclass
class Visit:
    """What was found in a chapter; the lists are empty where all is well."""

    seconds: float = 0.0
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    counts: list[int | None] = field(default_factory=list)
    too_wide: dict[int, list[str]] = field(default_factory=dict)
    faint: dict[str, list[str]] = field(default_factory=dict)
    panels: dict[str, list[str]] = field(default_factory=dict)


class Desk:
    """A tab of its own, in which one chapter after the other is opened, run and looked at."""

    def __init__(self, browser: Browser, address: str, number: int) -> None:
        page = browser.new_context().new_page()
        self.problems = watch(page)
        self.lab = LabPage(page, address, f"desk-{number}")
        self.chapter: Path | None = None
        self.began = 0.0

    def begin(self, chapter: Path) -> None:
        self.problems.clear()
        self.chapter = chapter
        self._resize(WIDE)
        self.lab.open(chapter.name)
        self.began = time.monotonic()
        self.lab.start()

    @property
    def done(self) -> bool:
        return self.lab.ended or time.monotonic() - self.began > LIMIT

    def look(self) -> Visit:
        """The findings on the chapter that has run, which is closed then."""
        visit = Visit(seconds=time.monotonic() - self.began)
        try:
            if self.lab.ended:
                self._look(visit)
            else:
                visit.errors.append(f"has not come to its end within {LIMIT} s")
        except Exception as error:  # it is this chapter's, and another one's test may be waiting
            visit.errors.append(f"{type(error).__name__}: {error}")
        visit.console = list(self.problems)
        self.lab.close()
        return visit

    def _look(self, visit: Visit) -> None:
        code = [cell for cell in self.lab.cells if cell["cell_type"] == "code"]
        visit.counts = [cell["execution_count"] for cell in code]
        for cell in code:
            if "raises-exception" not in cell["metadata"].get("tags", []):
                failed = [out for out in cell["outputs"] if out["output_type"] == "error"]
                visit.errors += [f"{cell['id']}: {out['ename']}: {out['evalue']}" for out in failed]
        for width in (WIDE, NARROW):
            self._resize(width)
            visit.too_wide[width] = self._found(TOO_WIDE)
        now, other = sorted(THEMES, key=lambda theme: theme != self.lab.theme)
        visit.faint[now] = self.lab.page.evaluate(TOO_FAINT)
        self.lab.wear(other)  # and leave it on, since changing takes seconds
        visit.faint[other] = self._found(TOO_FAINT)
        for cell in code:
            if "panel" in cell["metadata"].get("tags", []):
                keys = PanelKeys(self.lab, cell["id"], cell["execution_count"])
                visit.panels[cell["id"]] = keys.findings()

    def _found(self, script: str) -> list[str]:
        """What the script finds, when JupyterLab, the widgets and the formulas have followed."""
        for _ in range(6):
            self.lab.page.wait_for_timeout(500)
            if not (found := self.lab.page.evaluate(script)):
                break
        return found

    def _resize(self, width: int) -> None:
        self.lab.page.set_viewport_size({"width": width, "height": 720})
        side = "expandLeft" if width == WIDE else "collapseLeft"
        self.lab.page.evaluate(f"async () => {{ await jupyterapp.restored; jupyterapp.shell.{side}(); }}")


class Visits:
    """The chapters' findings; three chapters run at a time, whichever is asked for."""

    def __init__(self, browser: Browser, address: str, wanted: list[Path]) -> None:
        self.waiting = deque(wanted)
        self.desks = [Desk(browser, address, number) for number in range(min(AT_A_TIME, len(wanted)))]
        self.seen: dict[Path, Visit] = {}

    def __getitem__(self, chapter: Path) -> Visit:
        while chapter not in self.seen:
            for desk in self.desks:
                if desk.chapter and desk.done:
                    self.seen[desk.chapter] = desk.look()
                    desk.chapter = None
                if not desk.chapter and self.waiting:
                    desk.begin(self.waiting.popleft())
            self.desks[0].lab.page.wait_for_timeout(300)
        return self.seen[chapter]


@pytest.fixture(scope="session")
def visits(browser: Browser, address: str, request: pytest.FixtureRequest) -> Visits:
    asking = [item for item in request.session.items if "visits" in getattr(item, "fixturenames", ())]
    wanted = dict.fromkeys(item.callspec.params["chapter"] for item in asking)
    return Visits(browser, address, list(wanted))


def each(wanted: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("chapter", wanted, ids=lambda path: path.stem)


@pytest.mark.all
@each(chapters([]))
def test_a_chapter_runs_to_its_end(chapter: Path, visits: Visits) -> None:
    visit = visits[chapter]
    assert not visit.errors
    assert visit.counts == list(range(1, len(visit.counts) + 1))
    assert not visit.console


@pytest.mark.all
@each(chapters([]))
def test_nothing_in_a_chapter_scrolls_or_is_cut(chapter: Path, visits: Visits) -> None:
    assert visits[chapter].too_wide == {WIDE: [], NARROW: []}


@pytest.mark.all
@each(chapters([]))
def test_nothing_in_a_chapter_is_faint_in_light_or_dark(chapter: Path, visits: Visits) -> None:
    assert visits[chapter].faint == {theme: [] for theme in THEMES}


@pytest.mark.all
@each([path for path in chapters([]) if '"panel"' in path.read_text("utf-8")])
def test_each_panel_can_be_heard_seen_and_turned_by_keys(chapter: Path, visits: Visits) -> None:
    panels = visits[chapter].panels
    assert panels
    assert panels == {cell: [] for cell in panels}
