"""The notebook's end of progress(): one bar a rank."""

import sys
from typing import Any


class Bars:
    """Shows a bar for each rank that reports progress; in a terminal one line, elsewhere nothing."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.widgets: list[Any] = []

    def update(self, rank: int, done: int, total: int | None) -> None:
        if "ipykernel" not in sys.modules:
            if sys.stderr.isatty():
                print(f"\rrank {rank}: {done} of {total or '?'} ", end="", file=sys.stderr, flush=True)
            return
        if not self.widgets:
            self._show()
        bar = self.widgets[rank]
        bar.max = total or done + 1
        bar.value = done

    def _show(self) -> None:
        import ipywidgets
        from IPython.display import display

        self.widgets = [
            ipywidgets.IntProgress(
                description=f"rank {rank}", layout={"width": "60%"}, style={"description_width": "6em"}
            )
            for rank in range(self.world_size)
        ]
        box = ipywidgets.VBox(self.widgets)
        # A plain text, the same on every run, stands for the bars on a page without a kernel.
        text = f"progress of {self.world_size} ranks"
        view = {"model_id": box.model_id, "version_major": 2, "version_minor": 0}
        display({"text/plain": text, "application/vnd.jupyter.widget-view+json": view}, raw=True)
