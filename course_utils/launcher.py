"""launch(): run a function in several real processes, from a cell, and leave none of them behind."""

import contextlib
import functools
import inspect
import json
import math
import numbers
import operator
import os
import pickle
import re
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from course_utils import rank as rank_process
from course_utils import report
from course_utils.bars import Bars
from course_utils.processes import ForkedRanks, SpawnedRanks, rank_sys_path, start_method
from course_utils.report import Outcome, RankError, RanksInterrupted
from course_utils.sending import pack_call

T = TypeVar("T")
_OPTIONS = ("world_size", "backend", "timeout", "init", "live", "env")
_GRACE = 1.0  # s that the other ranks have to report after one has failed
_GRACE_FOR_CAUSE = 3.0  # s, where so far only ranks that lost their peer have reported
_NOISE = re.compile(
    r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+\n?"
    r"|(?m:^USDT:.*\n?)"  # the profiler's
)


def launch(
    fn: Callable[..., T],
    /,
    *args: Any,
    world_size: int = 4,
    backend: str = "auto",
    timeout: float = 60.0,
    init: bool = True,
    live: bool = False,
    env: dict[str, str] | None = None,
    **kwargs: Any,
) -> list[T]:
    """Runs fn(*args, **kwargs) once in each of world_size fresh processes; returns the values in rank order.

    Inside fn the process group is ready (dist.get_rank(), dist.all_reduce(...)), and RANK, LOCAL_RANK,
    WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set as torchrun sets them. What fn uses from the notebook
    goes with it; nothing it does changes the notebook's own variables. What the ranks print is shown under
    their rank. Returned tensors arrive on the CPU, detached.

    Args:
        fn: any callable: a function defined in a cell, a closure, a lambda, a method.
        world_size: number of processes.
        backend: "gloo", "nccl", "cpu:gloo,cuda:nccl", or "auto": the last one where there are at least
            world_size GPUs, else gloo.
        timeout: seconds from the moment when all ranks have entered fn.
        init: False leaves dist.init_process_group(...) to fn, as in a script under torchrun.
        live: show lines while they are printed, instead of grouped by rank at the end.
        env: variables added to the ranks' environment.

    Raises:
        RankError: a rank raised, exited or died; names the one that failed first.
        RankTimeout: the time was up; says where every rank was standing.
        TypeError: arguments that fn does not take, or a value that can't be sent to the ranks.
        ValueError: an option out of range.
    """
    if rank_process.current is not None:
        raise RuntimeError(
            f"launch was called inside rank {rank_process.current.number}: ranks can't start ranks. "
            "Call launch from the notebook, once for each group of processes."
        )
    world_size = _checked_world_size(world_size)
    _check_call(fn, args, kwargs)
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout={timeout!r}: pass seconds, a number greater than 0")
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout={timeout!r}: pass seconds, a finite number greater than 0")
    for name, value in (("init", init), ("live", live)):
        if not isinstance(value, bool):
            raise TypeError(f"{name}={value!r}: pass True or False")
    env = _checked_env(env)
    backend, devices = _checked_backend(backend, world_size)
    start = ForkedRanks if start_method() == "forkserver" else SpawnedRanks
    call, sources = pack_call(fn, args, kwargs)
    with (
        tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True) as folder,
        _rendezvous(init) as address,
    ):
        settings = {
            "env": _rank_environment(world_size, {**address, **env}),
            "cwd": os.getcwd(),
            "sys_path": rank_sys_path(),
            "sources": sources,
            "devices": devices,
            "backend": backend,
            "init": init,
            "group_timeout": min(timeout + 60, 86400.0),  # longer than ours, so that our report wins
        }
        Path(folder, "settings").write_bytes(pickle.dumps(settings))
        Path(folder, "call").write_bytes(call)
        job = _Job(world_size, timeout, live)
        try:
            values = job.run(start, folder, settings["env"])
        except (RankError, RanksInterrupted) as error:
            raise error.with_traceback(None) from None
    return values if any(value is not None for value in values) else _Silent(values)


class _Silent(list):
    """A list of None that shows nothing, so that a last line launch(f) needs no assignment."""

    def _ipython_display_(self) -> None:
        pass


class _Job:
    """One launch, from the first process to the last; `run` is called once."""

    def __init__(self, world_size: int, timeout: float, live: bool) -> None:
        self.world_size, self.timeout, self.live = world_size, timeout, live
        self.outcomes = [Outcome() for _ in range(world_size)]
        self.ready: set[int] = set()
        self.inbox = [bytearray() for _ in range(world_size)]
        self.output = [bytearray() for _ in range(world_size)]
        self.shown = [0] * world_size  # bytes of output that live mode has shown
        self.alive = set(range(world_size))
        self.bars = Bars(world_size)
        self.selector = selectors.DefaultSelector()

    def run(self, start: type[ForkedRanks | SpawnedRanks], folder: str, env: dict[str, str]) -> list[Any]:
        self.ranks = start(self.world_size, folder, env)
        try:
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
            if not error:
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
                if self.outcomes[ended.rank].kind == "running":
                    self.outcomes[ended.rank] = report.died(ended.code, ended.time, self._text(ended.rank))
        return True

    def _read_control(self, rank: int) -> None:
        buffer, control = self.inbox[rank], self.ranks.controls[rank]
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while part := control.recv(1 << 20):
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
        elif kind == "returned":
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
            while part := output.recv(1 << 20) if isinstance(output, socket.socket) else output.read(1 << 20):
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
        running = [r for r, o in enumerate(self.outcomes) if o.kind == "running" and r in self.alive]
        for rank in running:
            with contextlib.suppress(OSError):
                self.ranks.controls[rank].sendall(b"W")
        answered = lambda: all(self.outcomes[r].frames or self.outcomes[r].failed for r in running)  # noqa: E731
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


@contextlib.contextmanager
def _rendezvous(init: bool) -> Iterator[dict[str, str]]:
    """The address variables; for init=False with a store behind them, which only loopback can reach."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if init:
            listener.close()
            yield address
            return
        import torch.distributed as dist

        listener.listen(1024)
        # torch's own server would listen on all interfaces; with this variable the ranks are all clients.
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        try:
            yield {**address, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        finally:
            del store


def _rank_environment(world_size: int, added: dict[str, str]) -> dict[str, str]:
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")] if os.name != "nt" else []
    env = {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_WORLD_SIZE": "1",
        "TORCHELASTIC_RESTART_COUNT": "0",
        **({"GLOO_SOCKET_IFNAME": loopback[0]} if loopback else {}),
        **added,
    }
    if "inline" in env.get("MPLBACKEND", ""):  # a rank has no notebook to draw in
        env["MPLBACKEND"] = "agg"
    return env


def _checked_world_size(world_size: Any) -> int:
    try:
        if isinstance(world_size, bool):
            raise TypeError
        size = operator.index(world_size)
    except TypeError:
        raise TypeError(f"world_size={world_size!r}: pass a whole number of processes, 1 or more") from None
    if size < 1:
        raise ValueError(f"world_size={size}: pass a whole number of processes, 1 or more")
    with contextlib.suppress(ImportError):
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = (files - 128) // 2
        if files != resource.RLIM_INFINITY and size > most:
            raise ValueError(
                f"world_size={size}: with {files} open files allowed (ulimit -n), at most {most} ranks fit"
            )
    return size


def _check_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not callable(fn):
        raise TypeError(
            f"launch needs a function to run in each rank, not {type(fn).__name__}: launch(step, x), not launch(step(x))"
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    name = getattr(fn, "__name__", "fn")
    bound = set(fn.keywords) if isinstance(fn, functools.partial) else set()
    for option in _OPTIONS:
        if option in signature.parameters and option not in bound:
            raise TypeError(
                f"{name} has a parameter {option!r}, which is also an option of launch: rename it, "
                f"or bind it with functools.partial({name}, {option}=...)"
            )
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{name}{signature} can't be called with the arguments given to launch: {error}"
        ) from None


def _checked_env(env: Any) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, dict) or not all(isinstance(x, str) for pair in env.items() for x in pair):
        raise TypeError(f"env={env!r}: pass a dict of strings, {{'NCCL_DEBUG': 'INFO'}} for instance")
    return env


def _checked_backend(backend: Any, world_size: int) -> tuple[str, bool]:
    """The backend to use, and whether rank r is to have device r."""
    import torch
    import torch.distributed as dist

    if not isinstance(backend, str):
        raise TypeError(f"backend={backend!r}: pass a string, 'auto', 'gloo' or 'nccl'")
    gpus = torch.cuda.device_count()
    if backend == "auto":
        enough = dist.is_nccl_available() and gpus >= world_size
        return ("cpu:gloo,cuda:nccl", True) if enough else ("gloo", False)
    for name in (part.rpartition(":")[2] for part in backend.lower().split(",")):
        if name not in dist.Backend.backend_list:
            known = ", ".join(b for b in dist.Backend.backend_list if b not in ("undefined", "fake"))
            raise ValueError(f"backend={backend!r}: unknown; use 'auto' or one of {known}")
        if name != "fake" and not dist.is_backend_available(name):
            raise ValueError(f"backend={backend!r}: this build of torch has no {name}; use 'auto' or 'gloo'")
        if name == "nccl" and gpus < world_size:
            raise ValueError(
                f"backend={backend!r}: {world_size} ranks need {world_size} GPUs, this machine has {gpus}; use 'auto' or 'gloo'"
            )
    return backend, "nccl" in backend.lower()
