"""A real Jupyter kernel for tests: runs cells, collects what they show, and knows the processes they leave.

A test that hangs says nothing, so everything here has a limit; every kernel ends with a look at what it left.
"""

import ast
import os
import signal
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from types import TracebackType
from typing import Any, Self

import psutil
import pytest
from jupyter_client import KernelManager

import course_utils

ROOT = Path(course_utils.__file__).resolve().parents[1]
MARK = "COURSE_TEST_MARK"  # an environment variable that all descendants of a kernel inherit
SETTLE = 2.0  # seconds that the system may take to reap killed processes
PRELUDE = """
    import ctypes, functools, itertools, os, signal, sys, threading, time
    import torch
    import torch.distributed as dist
    from course_utils import RankError, RankTimeout, launch, progress
"""


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Ends a test that hangs, with the line where it hung. Import it to have it."""

    def late(signum: int, frame: Any) -> None:
        raise TimeoutError("the test took more than two minutes")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 10.0) -> Any:
    """The first true value of ``condition()``; an AssertionError naming ``what`` if it does not come."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return value


def course_processes(mark: str, root: int | None = None) -> dict[int, str]:
    """Processes {pid: command} that inherited ``mark``, and all below process ``root``, without that one."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.cmdline())
        except psutil.Error:
            continue  # gone meanwhile, or not ours
    if root is not None and psutil.pid_exists(root):
        found |= {child.pid: child.status() for child in children(root)}
        found.pop(root, None)
    return found


def children(root: int | None = None) -> list[psutil.Process]:
    """All processes below ``root`` (this one by default), zombies included."""
    return psutil.Process(root).children(recursive=True)


@dataclass
class Cell:
    """What one executed cell showed: ``text`` of its streams, ``result`` of its last line, its error."""

    messages: list[tuple[float, str, dict]] = field(default_factory=list)  # (seconds, type, content)
    seconds: float = 0.0
    asked: Any = None

    def of(self, *kinds: str) -> list[dict]:
        return [content for _, kind, content in self.messages if kind in kinds]

    @property
    def text(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def result(self) -> str | None:
        return next((content["data"]["text/plain"] for content in self.of("execute_result")), None)

    @property
    def ename(self) -> str | None:
        return next((content["ename"] for content in self.of("error")), None)

    @property
    def evalue(self) -> str:
        return next((content["evalue"] for content in self.of("error")), "")


@dataclass
class Caught:
    """The RankError that a launch in a kernel ended in, taken apart, and how long that took."""

    kind: str
    rank: int | None
    failures: dict[int, str]
    text: str
    seconds: float
    shown: str


class Kernel:
    """A kernel of this Python, working in ``folder``, with its own temporary folder; a context manager."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.temporary = Path(env.get("TMPDIR", folder / "tmp"))
        self.temporary.mkdir(parents=True, exist_ok=True)
        inherited = dict(os.environ)
        inherited.pop("PYTEST_CURRENT_TEST", None)  # with it ipykernel behaves as no student's kernel does
        self.env = inherited | {
            "PYTHONPATH": str(ROOT),
            "IPYTHONDIR": str(folder / "ipython"),
            "TMPDIR": str(self.temporary),
            MARK: self.mark,
            **env,
        }
        self.busy = False
        self.manager = KernelManager()
        self.manager.start_kernel(cwd=str(folder), env=self.env)
        self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        left = self.left(seconds=5)
        for pid in left:  # a test's leftovers must not spoil the next test
            os.kill(pid, signal.SIGKILL)
        if kind is None:
            assert not left, f"left after the kernel's shutdown: {left}"
            assert self.files() == [], "temporary files left after the kernel's shutdown"

    def connect(self) -> None:
        """Opens the channels and prepares the notebook; after a restart again."""
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        ready = self.run(PRELUDE, timeout=60)
        assert ready.ename is None, ready.of("error")

    def ready(self) -> Self:
        """This kernel for the next test: restarted where the last one left it in the middle of a cell."""
        if self.busy or not self.manager.is_alive():
            self.client.stop_channels()
            self.manager.restart_kernel(now=True)
            self.busy = False
            self.connect()
        return self

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def processes(self) -> dict[int, str]:
        """Everything that runs for this kernel, beside the kernel itself: its server and its ranks."""
        found = course_processes(self.mark, self.pid if self.manager.is_alive() else None)
        found.pop(self.pid, None)
        return found

    def left(self, beside: set[int] = frozenset(), seconds: float = SETTLE) -> dict[int, str]:
        """Processes still there after at most ``seconds``, without those of ``beside``."""
        end = time.monotonic() + seconds
        while left := {pid: what for pid, what in self.processes().items() if pid not in beside}:
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        return left

    def files(self, seconds: float = 0.0) -> list[str]:
        """What lies in the kernel's temporary folder; ``seconds`` is how long it may take to be emptied."""
        end = time.monotonic() + seconds
        while (files := sorted(str(path) for path in self.temporary.rglob("*"))) and time.monotonic() < end:
            time.sleep(0.05)
        return files

    def start(self, code: str, ask: str = "None") -> str:
        """Sends a cell and does not wait."""
        self.started, self.busy = time.monotonic(), True
        return self.client.execute(textwrap.dedent(code), user_expressions={"asked": ask}, allow_stdin=False)

    def finish(self, cell_id: str, timeout: float = 30.0) -> Cell:
        """Waits for the cell's end and collects what it showed."""
        cell, end = Cell(), self.started + timeout
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(end - time.monotonic(), 0.01))
            except Empty:
                raise AssertionError(f"no end of the cell in {timeout} s; so far: {cell.messages}") from None
            if message["parent_header"].get("msg_id") != cell_id:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            cell.messages.append((time.monotonic() - self.started, message["msg_type"], message["content"]))
        cell.seconds, self.busy = time.monotonic() - self.started, False
        while (reply := self.client.get_shell_msg(timeout=10))["parent_header"]["msg_id"] != cell_id:
            pass
        asked = reply["content"].get("user_expressions", {}).get("asked", {})
        if asked.get("status") == "ok":
            cell.asked = ast.literal_eval(asked["data"]["text/plain"])
        return cell

    def run(self, code: str, ask: str = "None", timeout: float = 30.0) -> Cell:
        """Runs a cell; ``ask`` is an expression evaluated after it, whose literal value becomes ``asked``."""
        return self.finish(self.start(code, ask), timeout)

    def catch(self, code: str, options: str = "", limit: float = 20.0) -> Caught:
        """Runs a cell that defines ``body``, launches it in the same cell, and takes the RankError apart."""
        tail = f"\ntry:\n    launch(body, {options})\nexcept RankError as error:\n    caught = error\n"
        ask = "(type(caught).__name__, caught.rank, dict(caught.failures), str(caught))"
        cell = self.run("caught = None\n" + textwrap.dedent(code) + tail, ask, timeout=limit)
        assert cell.ename is None, f"{cell.ename}: {cell.evalue}"
        assert cell.asked, "no error came: launch() returned"
        return Caught(*cell.asked, seconds=cell.seconds, shown=cell.text)

    def late(self, seconds: float = 1.0) -> list[dict]:
        """What still arrives after a cell has ended."""
        messages, end = [], time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            try:
                message = self.client.get_iopub_msg(timeout=remaining)
            except Empty:
                break
            if message["msg_type"] != "status":
                messages.append(message["content"])
        return messages
