"""``python3 -m course_utils run``: chapters executed headless, in a scratch folder, with a bar and a table.

Also the execution itself, which ``refresh`` and the planted faults share.
"""

import argparse
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
CELL_TIMEOUT = 300  # seconds
NEIGHBORS = ("matplotlibrc", "scripts")  # what a chapter finds beside itself


class CellFailure(RuntimeError):
    """A cell raised, ran out of time, or took the kernel with it.

    ``cell`` is the id of the cell ("" before the first one), ``reason`` the error as one text.
    """

    def __init__(self, cell: str, reason: str) -> None:
        super().__init__(f"cell '{cell}': {reason}" if cell else reason)
        self.cell, self.reason = cell, reason


def chapters(names: list[str]) -> list[Path]:
    """The notebooks meant by ``names``: numbers (2, 02), names or paths; all where none is given.

    Raises ValueError where a name fits no notebook, or where there is none at all.
    """
    known = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    if not names:
        if not known:
            raise ValueError(f"no chapters in {NOTEBOOKS}")
        return known
    found = []
    for name in names:
        if name.isdigit():
            fits = [path for path in known if int(path.name[:2]) == int(name)]
        else:
            fits = [path for path in known if name in (path.name, path.stem)]
            if not fits and Path(name).suffix == ".ipynb" and Path(name).is_file():
                fits = [Path(name).resolve()]
        if not fits:
            numbers = ", ".join(path.name[:2] for path in known) or "none yet"
            raise ValueError(f"no chapter {name!r}: give a number ({numbers}) or the path of a notebook")
        found += [path for path in fits if path not in found]
    return found


def read(path: Path) -> NotebookNode:
    """The notebook at ``path``, as it stands there. Raises ValueError where it isn't one."""
    try:
        return nbformat.read(path, as_version=nbformat.NO_CONVERT)
    except Exception as error:
        raise ValueError(f"{path.name} is not a readable notebook: {error}") from error


class _Client(NotebookClient):
    """nbclient, which also keeps the outputs as nbval collects them.

    nbval takes no notice of update_display_data and clear_output: of a display that changes it keeps the
    first state, where nbclient (and a browser) keep the last.
    """

    current = ""

    def __init__(self, nb: NotebookNode, **kwargs: Any) -> None:
        super().__init__(nb, **kwargs)
        self.seen_by_nbval: dict[int, list[NotebookNode]] = {}

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        if msg["msg_type"] in ("display_data", "execute_result", "stream", "error"):
            # a copy: nbclient changes the message's type and the outputs that were made of it
            output = nbformat.v4.output_from_msg(copy.deepcopy(msg))
            self.seen_by_nbval.setdefault(cell_index, []).append(output)
        return super().process_message(msg, cell, cell_index)

    @property
    def interrupted(self) -> bool:
        # nbclient answers SIGINT and SIGTERM itself, by ending the kernel; this is the trace that it leaves
        return getattr(self, "_async_cleanup_kernel_future", None) is not None


def execute(
    nb: NotebookNode,
    folder: Path,
    timeout: int = CELL_TIMEOUT,
    on_cell: Callable[[str], None] | None = None,
) -> list[list[NotebookNode]]:
    """Run all code cells of ``nb`` in a fresh kernel of this interpreter, which works in ``folder``.

    The outputs are put into ``nb``. Returned, for each cell, are the outputs as nbval would collect them.
    ``timeout`` is in seconds and for one cell; ``on_cell`` is called with a cell's id after its end. Raises
    CellFailure at the first cell that fails (a cell tagged raises-exception may), KeyboardInterrupt on an
    interrupt; the kernel is gone either way.
    """
    # without kernel folders, "python3" is this interpreter and no kernel that happens to be installed
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = _Client(
        nb,
        km=manager,
        timeout=timeout,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )

    def started(cell: NotebookNode, cell_index: int) -> None:
        client.current = cell.get("id", f"number {cell_index}")

    def ended(cell: NotebookNode, **_: Any) -> None:
        if on_cell is not None:
            on_cell(client.current)

    client.on_cell_start, client.on_cell_executed = started, ended
    client.log.setLevel("CRITICAL")  # what it would log is in the error
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        client.execute(env=env, stderr=subprocess.DEVNULL, cleanup_kc=True)  # as nbval starts it
    except Exception as error:
        if client.interrupted:
            raise KeyboardInterrupt from None
        raise CellFailure(client.current, _reason(error, timeout)) from None
    if client.interrupted:
        raise KeyboardInterrupt
    return [client.seen_by_nbval.get(index, []) for index in range(len(nb.cells))]


def _reason(error: Exception, timeout: int) -> str:
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}"
    if isinstance(error, CellTimeoutError):
        return f"no end within {timeout} s"
    if isinstance(error, DeadKernelError):
        return "the kernel died (out of memory, or ended by a signal or an exit)"
    return f"the kernel could not be used ({type(error).__name__}: {error})"


@contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A temporary folder with a copy of the notebook and of what lies beside it; yields the copy."""
    with tempfile.TemporaryDirectory(prefix="course-") as name:
        folder = Path(name)
        for neighbor in NEIGHBORS:
            source = path.parent / neighbor
            if source.is_dir():
                shutil.copytree(source, folder / neighbor, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.is_file():
                shutil.copy(source, folder)
        yield Path(shutil.copy(path, folder))


class Bar:
    """Cells done of all cells: a line that redraws itself on a terminal, a line a tenth elsewhere."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self.total, self.stream, self.done = max(total, 1), stream, 0
        self.live = stream.isatty()

    def step(self, label: str, cells: int = 1) -> None:
        before, self.done = self.done, min(self.done + cells, self.total)
        if self.live:
            filled = 30 * self.done // self.total
            bar = "#" * filled + "." * (30 - filled)
            self._write(f"\r\x1b[K[{bar}] {self.done} of {self.total} cells  {label}")
        elif 10 * before // self.total < 10 * self.done // self.total:
            self._write(f"{self.done} of {self.total} cells  {label}\n")

    def close(self) -> None:
        if self.live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


@dataclass(frozen=True)
class Result:
    """What became of one chapter; ``failure`` is None where all its cells ran."""

    chapter: str
    cells: int
    seconds: float
    failure: CellFailure | None


def run(path: Path, timeout: int = CELL_TIMEOUT, on_cell: Callable[[str], None] | None = None) -> Result:
    """Execute one notebook in a scratch folder. Nothing beside that folder is written."""
    start, failure = time.perf_counter(), None
    nb = read(path)
    with scratch(path) as copied:
        try:
            execute(nb, copied.parent, timeout, on_cell)
        except CellFailure as error:
            failure = error
    return Result(path.stem, code_cells(nb), time.perf_counter() - start, failure)


def code_cells(nb: NotebookNode) -> int:
    """How many cells would be executed."""
    return sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in nb.cells)


def table(results: list[Result]) -> str:
    """Chapter, cells, seconds and verdict, a row a chapter; below it a line of totals."""
    width = max(len(result.chapter) for result in results)
    lines = [f"{'chapter':{width}}  cells  seconds  verdict"]
    for result in results:
        verdict = "passed"
        if result.failure:
            reason = result.failure.reason.splitlines() or [""]
            verdict = f"failed in cell '{result.failure.cell}': {reason[0]}"
        lines.append(f"{result.chapter:{width}}  {result.cells:5}  {result.seconds:7.1f}  {verdict}")
    failed = sum(result.failure is not None for result in results)
    seconds = sum(result.seconds for result in results)
    lines.append(f"{len(results) - failed} passed, {failed} failed in {seconds:.0f} s")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """The command. Exit status: 0 all ran, 1 a chapter failed, 2 wrong arguments, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course_utils run", description="Execute chapters headless."
    )
    parser.add_argument(
        "chapter", nargs="*", help="numbers or paths of notebooks; all chapters if none is given"
    )
    parser.add_argument(
        "--timeout", type=int, default=CELL_TIMEOUT, help="seconds for one cell (%(default)s)"
    )
    args = parser.parse_args(argv)
    try:
        paths = chapters(args.chapter)
        sizes = {path: code_cells(read(path)) for path in paths}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    bar, results = Bar(sum(sizes.values()), sys.stdout), []
    try:
        for path in paths:
            due = bar.done + sizes[path]
            results.append(run(path, args.timeout, lambda cell, path=path: bar.step(f"{path.stem} · {cell}")))
            bar.step(path.stem, due - bar.done)  # a chapter that failed leaves cells out
    except KeyboardInterrupt:
        bar.close()
        print("interrupted; the kernel has been ended", file=sys.stderr)
        return 130
    bar.close()
    print(table(results))
    for result in results:
        if result.failure and "\n" in result.failure.reason:
            print(f"\n{result.chapter}, {result.failure}")
    return int(any(result.failure for result in results))
