"""One launch from the first process to the last: take in what ranks send, wait, collect, end them all."""

import contextlib
import json
import os
import pickle
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course_utils import rank as rank_process
from course_utils import report
from course_utils.bars import Bars
from course_utils.processes import ForkedRanks, SpawnedRanks, preload
from course_utils.report import Outcome, RankError, RanksInterrupted

_GRACE = 1.0  # s that the other ranks have to report after one has failed
_GRACE_FOR_CAUSE = 3.0  # s, where so far only ranks that lost their peer have reported
_NOISE = re.compile(
    r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+\n?"
)


class Job:
    """One launch, from the first process to the last; `run` is called once."""

    def __init__(self, world_size: int, timeout: float, live: bool) -> None:
        self.world_size, self.timeout, self.live = world_size, timeout, live
        self.outcomes = [Outcome() for _ in range(world_size)]
        self.ready: set[int] = set()
        self.inbox = [bytearray() for _ in range(world_size)]
        self.output = [bytearray() for _ in range(world_size)]
        self.shown = [0] * world_size  # bytes of output that live mode has shown
        self.alive = set(range(world_size))
        self.heavy: set[str] = set()  # modules that ranks have loaded and the fork server may not have
        self.tidy = [False] * world_size  # nothing registered to be done at exit: may be killed at once
        self.judged = False  # the time is up or a rank has failed: what comes now is too late
        self.bars = Bars(world_size)
        self.selector = selectors.DefaultSelector()

    def run(
        self, start: type[ForkedRanks | SpawnedRanks], folder: str, settings: dict[str, Any], call: bytes
    ) -> list[Any]:
        self.ranks = start(self.world_size, folder, settings["env"])
        try:
            # While the processes are starting; a rank reads the files when it has heard of the folder.
            Path(folder, "settings").write_bytes(pickle.dumps(settings))
            Path(folder, "call").write_bytes(call)
            for rank, (control, output) in enumerate(
                zip(self.ranks.controls, self.ranks.outputs, strict=True)
            ):
                with contextlib.suppress(OSError):  # its exit will be reported
                    control.sendall(json.dumps({"rank": rank, "folder": folder}).encode() + b"\n")
                control.setblocking(False)
                if isinstance(output, socket.socket):
                    output.setblocking(False)
                else:
                    os.set_blocking(output.fileno(), False)
                self.selector.register(control, selectors.EVENT_READ, (self._read_control, rank))
                self.selector.register(output, selectors.EVENT_READ, (self._read_output, rank))
            if self.ranks.events:
                self.selector.register(self.ranks.events, selectors.EVENT_READ, (lambda _: None, 0))
            error = self._wait_for_all()
            if not error and not all(self.tidy):
                self._tell_all(b"L")
                self._pump(5.0, lambda: not self.alive)
        except KeyboardInterrupt:
            self._ask_where()
            error = RanksInterrupted(report.interruption(self.outcomes))
        finally:
            with _uninterrupted():
                for rank in range(self.world_size):
                    self._read_output(rank)
                self.ranks.end()
                self.selector.close()
                self._show()
        preload(self.heavy)
        if error:
            raise error
        return [self._value(rank, outcome.value) for rank, outcome in enumerate(self.outcomes)]

    def _wait_for_all(self) -> RankError | None:
        """Waits until all ranks have returned; else gives the error to raise."""
        limit = 60.0 + 2.0 * self.world_size  # spawned ranks import torch, two at a time on two cores
        everybody = lambda: len(self.ready) == self.world_size or self._failed()  # noqa: E731
        if not self._pump(limit, everybody):
            self._ask_where()
            return report.rank_timeout(self.outcomes, limit, "started")
        if not self._failed():
            self._tell_all(b"G")
            settled = lambda: self._failed() or all(o.kind == "returned" for o in self.outcomes)  # noqa: E731
            if not self._pump(self.timeout, settled):
                self._ask_where()
                return report.rank_timeout(self.outcomes, self.timeout, "finished")
        if not self._failed():
            return None
        settled = lambda: all(o.kind != "running" for o in self.outcomes)  # noqa: E731
        if not self._pump(_GRACE, settled) and all(o.lost_peer for o in self._failed()):
            self._pump(_GRACE_FOR_CAUSE - _GRACE, lambda: any(not o.lost_peer for o in self._failed()))
        self._ask_where()
        return report.rank_error(self.outcomes)

    def _failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.failed]

    def _pump(self, seconds: float, done: Callable[[], Any]) -> bool:
        """Takes in what the ranks send until done() or for so many seconds; says whether done() came true."""
        end = time.perf_counter() + seconds
        while not done():
            left = end - time.perf_counter()
            if left <= 0:
                return False
            # Spawned processes tell of their end by nothing that could be waited for.
            for key, _ in self.selector.select(left if self.ranks.events else min(left, 0.02)):
                read, rank = key.data
                read(rank)
            for ended in self.ranks.exits():
                self._read_control(ended.rank)
                self._read_output(ended.rank)
                self.alive.discard(ended.rank)
                if self.outcomes[ended.rank].kind == "running" and not self.judged:
                    self.outcomes[ended.rank] = report.died(ended.code, ended.time, self._text(ended.rank))
        return True

    def _read_control(self, rank: int) -> None:
        buffer, control = self.inbox[rank], self.ranks.controls[rank]
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while part := control.recv(1 << 16):
                buffer += part
            self._unregister(control)
        size = rank_process.HEADER.size
        while len(buffer) >= size:
            head, content = rank_process.HEADER.unpack(buffer[:size])
            if len(buffer) < size + head + content:
                break
            message = json.loads(bytes(buffer[size : size + head]))
            self._take(rank, message, bytes(buffer[size + head : size + head + content]))
            del buffer[: size + head + content]

    def _take(self, rank: int, message: dict[str, Any], content: bytes) -> None:
        kind = message["kind"]
        if kind == "ready":
            self.ready.add(rank)
        elif kind in ("returned", "failed") and self.judged:
            pass
        elif kind == "returned":
            self.tidy[rank] = message["tidy"]
            self.heavy.update(message["heavy"])
            self.outcomes[rank] = Outcome("returned", time=message["time"], value=content)
        elif kind == "failed":
            self.outcomes[rank] = report.raised(message)
        elif kind == "where" and self.outcomes[rank].kind == "running":
            self.outcomes[rank].frames = [tuple(frame) for frame in message["frames"]]
        elif kind == "progress":
            self.bars.update(rank, message["done"], message["total"])

    def _read_output(self, rank: int) -> None:
        output = self.ranks.outputs[rank]
        with contextlib.suppress(BlockingIOError, OSError):
            while part := output.recv(1 << 16) if isinstance(output, socket.socket) else output.read(1 << 16):
                self.output[rank] += part
                if self.live:
                    self._show_live(rank)
            if part == b"":
                self._unregister(output)

    def _unregister(self, channel: Any) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(channel)

    def _tell_all(self, word: bytes) -> None:
        for control in self.ranks.controls:
            with contextlib.suppress(OSError):
                control.sendall(word)

    def _ask_where(self) -> None:
        """Learns where the ranks that still run are standing; from one that can't answer, by a signal."""
        self.judged = True
        running = [r for r, o in enumerate(self.outcomes) if o.kind == "running" and r in self.alive]
        for rank in running:
            with contextlib.suppress(OSError):
                self.ranks.controls[rank].sendall(b"W")
        answered = lambda: all(self.outcomes[r].frames or r not in self.alive for r in running)  # noqa: E731
        if self._pump(1.0, answered) or rank_process.WAIT_SIGNAL is None:
            return
        silent = [rank for rank in running if not self.outcomes[rank].frames and rank in self.ranks.pids]
        for rank in silent:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.ranks.pids[rank], rank_process.WAIT_SIGNAL)
        self._pump(0.5, lambda: False)
        for rank in silent:
            rest, frames = report.parse_dump(self.output[rank].decode("utf-8", "replace"))
            self.output[rank] = bytearray(rest.encode())
            self.outcomes[rank].frames = frames

    def _text(self, rank: int) -> str:
        return _NOISE.sub("", self.output[rank].decode("utf-8", "replace").replace("\r\n", "\n"))

    def _show(self) -> None:
        """Prints what the ranks wrote, each line under its rank."""
        if self.live:
            for rank in range(self.world_size):
                self._show_live(rank, last=True)
            return
        text = "".join(self._labelled(rank, self._text(rank)) for rank in range(self.world_size))
        if text:
            print(text, end="", flush=True)

    def _show_live(self, rank: int, last: bool = False) -> None:
        fresh = self.output[rank][self.shown[rank] :]
        end = len(fresh) if last else fresh.rfind(b"\n") + 1
        self.shown[rank] += end
        text = _NOISE.sub("", fresh[:end].decode("utf-8", "replace"))
        if text:
            print(self._labelled(rank, text), end="", flush=True)

    def _labelled(self, rank: int, text: str) -> str:
        label = f"rank {rank:>{len(str(self.world_size - 1))}} │ "
        lines = text.replace("\r", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        return "".join(f"{label}{line}\n" for line in lines)

    def _value(self, rank: int, content: bytes) -> Any:
        try:
            return pickle.loads(content)
        except Exception as error:
            reason = f"what it returned can't be read here: {type(error).__name__}: {error}"
            raise RankError(f"rank {rank} failed first: {reason}", rank, {rank: reason}) from None


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second interrupt must not stop the cleaning up, which takes a moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler if handler is not None else signal.default_int_handler)
