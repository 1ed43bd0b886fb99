"""A page of JupyterLab: driven as a student drives it, read through its own objects."""

import ast
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import ElementHandle, Page

LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1", "http://localhost")

OPEN = """async (path) => {
    await jupyterapp.restored;
    const panel = await jupyterapp.commands.execute("docmanager:open", {path});
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
}"""
# Disposed of, not closed: closing asks whether to save.
CLOSE = """async () => {
    const panel = jupyterapp.shell.currentWidget;
    await panel.sessionContext.shutdown();
    panel.dispose();
}"""
# A promise that stands in the page, for the cells may run for minutes.
RUN = """([command, cell]) => {
    const {content} = jupyterapp.shell.currentWidget;
    if (cell) {
        content.deselectAll();
        content.activeCellIndex = content.widgets.findIndex(({model}) => model.id === cell);
        content.mode = "command";
    }
    window.ended = false;
    jupyterapp.commands.execute(command).finally(() => { window.ended = true; });
}"""
CELLS = "() => jupyterapp.shell.currentWidget.content.widgets.map(({model}) => model.toJSON())"
NODE = """(id) => jupyterapp.shell.currentWidget.content.widgets.find(({model}) => model.id === id).node"""
THEME = """(theme) => jupyterapp.commands.execute("apputils:change-theme", {theme})"""
EVALUATE = """async (expression) => {
    const {kernel} = jupyterapp.shell.currentWidget.sessionContext.session;
    const asked = {code: "", silent: true, store_history: false, user_expressions: {it: expression}};
    const {it} = (await kernel.requestExecute(asked).done).content.user_expressions;
    return it.status === "ok" ? [true, it.data["text/plain"]] : [false, `${it.ename}: ${it.evalue}`];
}"""


def watch(page: Page) -> list[str]:
    """A list that grows with each error in the page's console and each request that leaves the machine."""
    problems: list[str] = []
    page.on("console", lambda message: message.type == "error" and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.startswith(LOCAL) or problems.append(request.url))
    return problems


class KernelError(RuntimeError):
    """What was asked of the kernel has failed there."""


class LabPage:
    """One tab, a workspace of its own, and one notebook at a time in it.

    ``address`` is the server's as it was printed. The server must expose JupyterLab's objects to the page.
    """

    def __init__(self, page: Page, address: str, workspace: str) -> None:
        self.page = page
        server, _, rest = address.partition("/lab/")
        page.goto(f"{server}/lab/workspaces/{workspace}?{rest.partition('?')[2]}")
        page.wait_for_function("window.jupyterapp", timeout=60_000)

    def open(self, path: str) -> None:
        """Open the notebook at ``path`` below the server's folder, and wait for its kernel."""
        self.page.evaluate(OPEN, path)

    def close(self) -> None:
        """End the notebook's kernel and take the notebook away, unsaved."""
        self.page.evaluate(CLOSE)

    def start(self, cell: str = "") -> None:
        """Run the cell with this id, or all, without waiting."""
        self.page.evaluate(RUN, ["notebook:run-cell" if cell else "notebook:run-all-cells", cell])

    @property
    def ended(self) -> bool:
        """Whether what was started has run."""
        return self.page.evaluate("window.ended")

    def run(self, *cells: str, seconds: float = 60) -> None:
        """Run these cells one after the other."""
        for cell in cells:
            self.start(cell)
            self.page.wait_for_function("window.ended", timeout=1000 * seconds)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells, as its file would hold them now."""
        return self.page.evaluate(CELLS)

    def node(self, cell: str) -> ElementHandle:
        """The cell's element in the page."""
        return self.page.evaluate_handle(NODE, cell).as_element()

    def outputs(self, cell: str) -> str:
        """The text that stands under the cell."""
        areas = self.node(cell).query_selector_all(".jp-OutputArea-output")
        return "\n".join(area.inner_text() for area in areas)

    def write(self, cell: str, source: str) -> None:
        """Replace what stands in the cell, as somebody does who types."""
        self.node(cell).query_selector(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)  # in one go, or the editor would add indents and brackets

    def ask(self, expression: str) -> Any:
        """The value of an expression in the notebook's kernel, a literal. The kernel must be free.

        Raises KernelError, with the error's name and message.
        """
        right, text = self.page.evaluate(EVALUATE, expression)
        if not right:
            raise KernelError(text)
        return ast.literal_eval(text)

    @property
    def theme(self) -> str:
        """The name of JupyterLab's theme."""
        return self.page.evaluate("document.body.dataset.jpThemeName")

    def wear(self, theme: str) -> None:
        """Put on JupyterLab's theme of that name: JupyterLab Light or JupyterLab Dark."""
        self.page.evaluate(THEME, theme)
        self.page.wait_for_function("(theme) => document.body.dataset.jpThemeName === theme", arg=theme)

    def wait(self, condition: Callable[[], object], what: str, seconds: float = 20) -> None:
        """Wait until ``condition()`` holds; the page lives on meanwhile."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"after {seconds:.0f} s there is no {what}"
            self.page.wait_for_timeout(100)
