"""The notebook's end of the ranks' processes: start them, hear of their exits, end them all.

Two ways with the same face: forked from the fork server, or spawned as fresh Pythons (slower by seconds),
where fork is missing or the environment variable COURSE_UTILS_START says spawn.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from course_utils import forkserver

_SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # read when torch is imported; its warnings hold times and ports


class Exit(NamedTuple):
    """A rank's process has ended: its exit code, negative for a signal, and when (time.perf_counter)."""

    rank: int
    code: int
    time: float


def start_method() -> str:
    """forkserver or spawn.

    Raises:
        ValueError: COURSE_UTILS_START names something else, or forkserver where the system can't fork.
    """
    method = os.environ.get("COURSE_UTILS_START") or ("forkserver" if hasattr(os, "fork") else "spawn")
    if method not in ("forkserver", "spawn") or (method == "forkserver" and not hasattr(os, "fork")):
        raise ValueError(f"COURSE_UTILS_START={method!r}: use 'spawn', or 'forkserver' where there is fork")
    return method


def rank_sys_path() -> list[str]:
    """The notebook's sys.path, with its working folder behind the standard library.

    Python puts that folder in front, where a student's own random.py would stop torch from being imported.
    """
    here = os.getcwd()
    local = [entry for entry in sys.path if os.path.abspath(entry or here) == here]
    rest = [entry for entry in sys.path if entry not in local]
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    last = max((i for i, path in enumerate(rest) if path in standard or "lib-dynload" in path), default=-1)
    return rest[: last + 1] + ([here] if local else []) + rest[last + 1 :]


class _Server:
    """The running fork server; one a notebook, started by the first launch."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.preloaded: set[str] = set()
        self.channel, theirs = socket.socketpair()
        call = f"from course_utils.forkserver import serve; serve({theirs.fileno()})"
        try:
            with theirs:
                self.process = subprocess.Popen(
                    forkserver.boot(call, rank_sys_path()),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={**os.environ, **_QUIET, **_SINGLE_THREADED},
                    start_new_session=True,  # an interrupt from the keyboard is for the notebook alone
                )
            if self.channel.recv(1) != b"R":
                raise RuntimeError(f"the process that starts ranks failed: {self._last_words()}")
        except BaseException:
            self.close()
            raise

    def _last_words(self) -> str:
        _, errors = self.process.communicate()
        lines = errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def close(self) -> None:
        self.channel.close()
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()


_server: _Server | None = None
_server_lock = threading.Lock()


def _running_server() -> _Server:
    global _server
    with _server_lock:
        if _server and _server.process.poll() is not None:  # somebody killed it
            _server.close()
            _server = None
        _server = _server or _Server()
        return _server


def _open_job() -> socket.socket:
    """A channel to the server for one launch."""
    for last_try in (False, True):
        server = _running_server()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(server.channel, [b"J"], [theirs.fileno()])
        except BaseException as error:
            ours.close()
            if last_try or not isinstance(error, OSError):
                raise
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(5)  # killed a moment ago: the next turn starts another
        else:
            return ours
    raise AssertionError


def preload(modules: Iterable[str]) -> None:
    """Has the server import modules that a rank of this launch had to import, for the launches to come."""
    if _server is None:
        return
    for name in set(modules) - _server.preloaded:
        _server.preloaded.add(name)
        with contextlib.suppress(OSError):
            _server.channel.sendall(bytes([forkserver.HEAVY.index(name)]))


def _forget_server() -> None:
    """In a fork of the notebook: the server is the parent's, and must see the end of it."""
    global _server, _server_lock
    _server_lock = threading.Lock()
    if _server:
        _server.channel.close()
        _server = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_server)


class ForkedRanks:
    """Ranks forked from the fork server; `controls` and `outputs` are in rank order."""

    def __init__(self, world_size: int, folder: str, env: dict[str, str]) -> None:
        self.controls: list[socket.socket] = []
        self.outputs: list[Any] = []
        self.pids: dict[int, int] = {}
        self._left = set(range(world_size))
        self._buffer = b""
        self.events = _open_job()
        try:
            name = folder.encode()
            self.events.sendall(forkserver.PATH.pack(len(name)) + name)
            for rank in range(world_size):
                ours, control = socket.socketpair()
                self.controls.append(ours)
                read, write = os.pipe()
                self.outputs.append(open(read, "rb", buffering=0))
                try:
                    socket.send_fds(self.events, [forkserver.FORK.pack(rank)], [control.fileno(), write])
                finally:
                    control.close()
                    os.close(write)
            self.events.setblocking(False)
        except BaseException:
            self.end()
            raise

    def exits(self) -> list[Exit]:
        """What has ended since the last call."""
        gone = True  # somebody killed the server, and its ranks die with it
        with contextlib.suppress(ConnectionResetError):
            try:
                while part := self.events.recv(65536):
                    self._buffer += part
            except BlockingIOError:
                gone = False
        found, size = [], forkserver.EVENT.size
        while len(self._buffer) >= size:
            kind, rank, value, when = forkserver.EVENT.unpack(self._buffer[:size])
            self._buffer = self._buffer[size:]
            if kind == b"P":
                self.pids[rank] = value
            else:
                self.pids.pop(rank, None)
                self._left.discard(rank)
                found.append(Exit(rank, value, when))
        if gone:
            found += [Exit(rank, -signal.SIGKILL, time.perf_counter()) for rank in self._left]
            self._left.clear()
        return found

    def end(self) -> None:
        """Kills what still runs; returns when no process of this launch is left."""
        with contextlib.suppress(OSError):
            self.events.shutdown(socket.SHUT_WR)  # the server takes this as the order to kill
            self.events.settimeout(10)
            while self.events.recv(65536):
                pass
        self.events.close()
        _close(self.controls, self.outputs)


class SpawnedRanks:
    """Ranks started as fresh Python processes, the same way on every system."""

    events = None

    def __init__(self, world_size: int, folder: str, env: dict[str, str]) -> None:
        self.controls: list[socket.socket] = []
        self.outputs: list[Any] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._ended: set[int] = set()
        try:
            for _ in range(world_size):
                self._start(folder, {**env, **_QUIET})
        except BaseException:
            self.end()
            raise

    def _start(self, folder: str, env: dict[str, str]) -> None:
        ours, control = socket.socketpair()
        self.controls.append(ours)
        read, write = os.pipe()
        self.outputs.append(open(read, "rb", buffering=0))
        windows = os.name == "nt"
        call = f"from course_utils.rank import main_spawned; main_spawned({control.fileno()}, {folder!r})"
        try:
            process = subprocess.Popen(
                forkserver.boot(call, rank_sys_path()),
                stdin=subprocess.PIPE if windows else subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                env=env,
                **({} if windows else {"pass_fds": [control.fileno()], "start_new_session": True}),
            )
            self.processes.append(process)
            if windows:
                with process.stdin as stdin:
                    stdin.write(control.share(process.pid))
                self.outputs[-1] = _pumped(self.outputs[-1])
        finally:
            control.close()
            os.close(write)

    @property
    def pids(self) -> dict[int, int]:
        return {r: p.pid for r, p in enumerate(self.processes) if r not in self._ended}

    def exits(self) -> list[Exit]:
        """What has ended since the last call."""
        found = []
        for rank, process in enumerate(self.processes):
            if rank not in self._ended and process.poll() is not None:
                self._ended.add(rank)
                found.append(Exit(rank, process.returncode, time.perf_counter()))
        return found

    def end(self) -> None:
        """Kills what still runs; returns when no process of this launch is left."""
        for process in self.processes:
            process.kill()
            if hasattr(os, "killpg"):  # with what it started itself
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _close(self.controls, self.outputs)


def _pumped(pipe: Any) -> socket.socket:
    """A socket that gives what the pipe gives: on Windows only sockets can be waited for."""
    ours, theirs = socket.socketpair()

    def pump() -> None:
        with pipe, theirs, contextlib.suppress(OSError):
            while part := pipe.read(65536):
                theirs.sendall(part)

    threading.Thread(target=pump, daemon=True).start()
    return ours


def _close(*groups: list[Any]) -> None:
    for group in groups:
        for item in group:
            item.close()
        group.clear()
