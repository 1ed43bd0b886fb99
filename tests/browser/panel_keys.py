"""A panel as somebody meets it who has a keyboard and a screen reader: from knob to knob by Tab."""

from dataclasses import dataclass
from typing import Any

from lab_page import KernelError, LabPage
from playwright.sync_api import ElementHandle

FIRST = "input, select, [tabindex='0'], [contenteditable='true']"
# What can show where the focus is, of the element itself and of what it stands in
LOOK = """(part) => [part, part.parentElement].map((at) => {
    const {outline, borderColor, boxShadow, backgroundColor} = getComputedStyle(at);
    return [outline, borderColor, boxShadow, backgroundColor].join();
}).join("|")"""
KEYS = {
    "slider": ("ArrowRight", "ArrowLeft"),  # the second where the first finds the end
    "spinbutton": ("ArrowUp", "ArrowDown"),
    "combobox": ("ArrowDown", "ArrowUp"),
    "checkbox": ("Space",),
    "radio": ("Space",),
}


@dataclass
class Stop:
    """Where Tab halts: role, name and value as Chromium tells them to a screen reader."""

    element: ElementHandle
    role: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"


class PanelKeys:
    """The panel under the cell ``cell``, whose execution count is ``count``."""

    def __init__(self, lab: LabPage, cell: str, count: int) -> None:
        self.lab, self.panel = lab, f"Out[{count}]"
        self.box = lab.node(cell).wait_for_selector(".course-panel", timeout=30_000)
        self.devtools = lab.page.context.new_cdp_session(lab.page)
        self.wrong: list[str] = []
        self.turned: set[str] = set()  # knobs that a key has turned
        self.seen: set[str] = set()  # knobs that have then changed what the panel shows

    def findings(self) -> list[str]:
        """What is wrong with the panel, a line each; none where each knob can be heard, seen and turned."""
        knobs = f"{self.panel}.knobs.items()"
        labels = self.lab.ask(f"{{k.description: n for n, k in {knobs}}}")
        radios = f"for n, k in {knobs} if type(k).__name__ == 'RadioButtons'"
        names = labels | self.lab.ask(f"{{option: n {radios} for option in k.options}}")
        self.box.scroll_into_view_if_needed()
        self.box.query_selector(FIRST).focus()
        self.lab.page.keyboard.press("Tab")
        self.lab.page.keyboard.press("Shift+Tab")  # so that it is the keyboard that comes to the first knob
        while stop := self._stop():
            knob = names.get(stop.name)
            if knob is None:
                self.wrong.append(f"{stop} is no knob's name: {', '.join(names)}")
            elif stop.role in KEYS and (stop.role, stop.value) != ("radio", "true"):
                self._turn(stop, knob)
            focused = stop.element.evaluate(LOOK)
            self.lab.page.keyboard.press("Tab")
            if stop.element.evaluate(LOOK) == focused:
                self.wrong.append(f"{stop} looks the same with the focus and without")
        groups = self.lab.ask(f"[k.description {radios}]")
        told = [box.get_attribute("aria-label") for box in self.box.query_selector_all("[role=radiogroup]")]
        if told != groups:
            self.wrong.append(f"groups of radio buttons are named {told}, not {groups}")
        self.wrong += [f"no key turns {name}" for name in labels.values() if name not in self.turned]
        self.wrong += [f"{name} changes nothing" for name in self.turned - self.seen]
        return self.wrong

    def _stop(self) -> Stop | None:
        """Where the focus is; None outside the panel."""
        element = self.lab.page.evaluate_handle("document.activeElement").as_element()
        if not self.box.evaluate("(box, part) => box.contains(part)", element):
            return None
        found = self.devtools.send("Runtime.evaluate", {"expression": "document.activeElement"})
        asked = {"objectId": found["result"]["objectId"], "fetchRelatives": False}
        (node,) = self.devtools.send("Accessibility.getPartialAXTree", asked)["nodes"]
        told = {p["name"]: p["value"].get("value") for p in node.get("properties", [])}
        value = (
            element.get_attribute("aria-valuetext")
            or told.get("checked")
            or node.get("value", {}).get("value")
        )
        said = str(value).replace("\N{NO-BREAK SPACE}", " ")  # ipywidgets' in the lines of a list
        return Stop(element, node["role"]["value"], node["name"]["value"], said)

    def _turn(self, stop: Stop, knob: str) -> None:
        """Turn it by a key; what the panel then says must be right."""
        before, shown = self._state(), self._shown()
        for key in KEYS[stop.role]:
            self.lab.page.keyboard.press(key)
            try:
                self.lab.wait(lambda: self._state() != before, "change", seconds=2)
            except AssertionError:
                continue  # at its end, or chosen already
            break
        state = self._state()
        turned = {name for name in state if state[name] != before[name]}
        if not turned:
            return
        self.turned.add(knob)
        if turned != {knob}:
            self.wrong.append(f"{stop} turns {', '.join(turned)}")
        try:
            self.lab.wait(lambda: self._text() == self._expected(), "right text", seconds=15)
        except AssertionError:
            self.wrong.append(f"{state}: the panel says {self._text()!r}, not {self._expected()!r}")
        if self._shown() != shown:
            self.seen.add(knob)
        told = self._stop()
        assert told, f"{stop} lost the focus to a key"
        value = state[knob]
        fits = {"checkbox": str(value).lower(), "radio": "true"}.get(stop.role, str(value))
        if told.value != fits and not _same_number(told.value, value):
            self.wrong.append(f"{stop} tells the value {told.value!r} where it is {value!r}")

    def _state(self) -> dict[str, Any]:
        return self.lab.ask(f"{self.panel}.state")

    def _text(self) -> str:
        return self.box.query_selector(".course-panel-text pre").text_content()

    def _shown(self) -> str:
        return self.box.query_selector(".course-panel-picture").inner_html() + self._text()

    def _expected(self) -> str:
        """What the chapter's function gives for the knobs' values; a panel shows its errors in one line."""
        panels = "__import__('sys').modules['course_utils.panels']"
        try:
            return self.lab.ask(f"{panels}._picture_and_text({self.panel}.fn(**{self.panel}.state))[1]")
        except KernelError as error:
            return str(error).splitlines()[0]


def _same_number(told: str, value: Any) -> bool:
    try:
        return not isinstance(value, str) and float(told.replace(",", "")) == value
    except ValueError:
        return False
