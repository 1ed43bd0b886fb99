"""What runs inside each rank's process: set up, run fn once, send what it returned, leave with the others."""

import atexit
import contextlib
import ctypes
import datetime
import faulthandler
import json
import linecache
import os
import pickle
import random
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TypeVar

HEADER = struct.Struct("!II")  # lengths of a message's JSON part and of the bytes that follow it
WAIT_SIGNAL = getattr(signal, "SIGUSR1", None)  # makes a rank that can't run Python write its stack

_LIBC: Any = None
with contextlib.suppress(Exception):  # loaded by the fork server once, for all ranks; Windows has none
    _LIBC = ctypes.CDLL(None)

T = TypeVar("T")
current: "Rank | None" = None  # the rank that this process is; None in the notebook


def progress(iterable: Iterable[T], total: int | None = None) -> Iterator[T]:
    """Passes the items on and advances this rank's bar in the notebook; elsewhere it only passes them on.

    Args:
        total: number of items, where the iterable has no length.
    """
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)
    last = 0.0
    done = 0
    for done, item in enumerate(iterable, 1):
        yield item
        if current and time.perf_counter() - last > 0.05:  # a message costs more than a short step
            last = time.perf_counter()
            current.tell("progress", done=done, total=total)
    if current:
        current.tell("progress", done=done, total=total)


class Rank:
    """The rank's end of the control socket: `tell` sends from any thread, one thread listens."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.sending = threading.Lock()
        self.leave = threading.Event()
        self.main_thread = threading.get_ident()
        self.folder = ""
        self.number = -1

    def tell(self, kind: str, content: bytes = b"", **fields: Any) -> None:
        head = json.dumps({"kind": kind, "time": time.perf_counter(), **fields}).encode()
        with self.sending:
            self.control.sendall(HEADER.pack(len(head), len(content)) + head)
            if content:
                self.control.sendall(content)

    def listen(self) -> None:
        """Obeys the notebook's one-byte words; when the notebook is gone, leaves nothing behind."""
        while word := self.hear():
            if word == b"L":
                self.leave.set()
            elif word == b"W":
                frame = sys._current_frames().get(self.main_thread)
                stack = traceback.walk_stack(frame) if frame else ()
                frames = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in stack]
                self.tell("where", frames=frames[::-1])
        self.end_group()

    def end_group(self) -> NoReturn:
        shutil.rmtree(self.folder, ignore_errors=True)
        if hasattr(os, "killpg"):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    def hear(self) -> bytes:
        try:
            return self.control.recv(1)
        except OSError:
            return b""


def main(control: socket.socket, parent: int, output: int, folder: str = "") -> NoReturn:
    """Runs one rank in this fresh process and ends it.

    Args:
        control: connected to the notebook.
        parent: the fork server's id, this process dies with it; 0 for a process that has none.
        output: file descriptor that takes what the rank prints.
        folder: the launch's, where it is known from the start.
    """
    global current
    _lead_group(parent)
    _redirect(output)
    me = current = Rank(control)
    me.folder = folder
    words = b""
    while not words.endswith(b"\n"):
        words += part if (part := control.recv(4096)) else me.end_group()
    job = json.loads(words)
    me.folder, me.number = job["folder"], job["rank"]
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _run(me, job)
    _flush()
    os._exit(0)


def main_spawned(descriptor: int, folder: str) -> NoReturn:
    """The same, in a process that was started by a command line."""
    shared = getattr(socket, "fromshare", None)  # Windows hands a socket over by a description on stdin
    control = shared(sys.stdin.buffer.read()) if shared else socket.socket(fileno=descriptor)
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    open_streams()
    main(control, 0, output=1, folder=folder)


def _run(me: Rank, job: dict[str, Any]) -> None:
    failing = "starting"
    try:
        with open(os.path.join(me.folder, "settings"), "rb") as file:
            settings = pickle.load(file)
        _set_up(me.number, settings)
        with open(os.path.join(me.folder, "call"), "rb") as file:
            fn, args, kwargs = pickle.load(file)
        if settings["init"]:
            _init_group(me, settings)
        me.tell("ready")
        if me.hear() != b"G":  # by this thread: waking a second one costs a launch milliseconds
            me.end_group()
        threading.Thread(target=me.listen, daemon=True).start()
        failing = "running"
        value = fn(*args, **kwargs)
        failing = "sending"
        _flush()
        from course_utils.forkserver import HEAVY
        from course_utils.sending import pack_result

        tidy = not weakref.finalize._registry and not atexit._ncallbacks()
        heavy = [name for name in HEAVY if name in sys.modules]
        me.tell("returned", pack_result(value), tidy=tidy, heavy=heavy)
    except BaseException as error:
        _flush()
        frames = [
            (f.f_code.co_filename, line, f.f_code.co_name)
            for f, line in traceback.walk_tb(error.__traceback__)
        ]
        me.tell("failed", stage=failing, type=_type_name(error), message=_message(error), frames=frames)
        if failing == "starting":
            me.control.settimeout(5)
            me.hear()  # the others still wait for this one, and its report is the cause
        return
    me.leave.wait()
    # The group is not destroyed: all have finished, and closing a mesh of sockets takes longer than a launch.
    with contextlib.suppress(Exception):  # temporary folders that fn made, for instance
        weakref.finalize._exitfunc()
        atexit._run_exitfuncs()


def _set_up(rank: int, settings: dict[str, Any]) -> None:
    """Makes this process look like one that torchrun started in the notebook's folder."""
    env = {**settings["env"], "RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(item for item in env.items() if os.environ.get(item[0]) != item[1])
    os.chdir(settings["cwd"])
    sys.path[:] = settings["sys_path"]
    for name, text in settings["sources"].items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    random.seed()  # a fork inherits its parent's generators: without this, all launches draw the same
    import numpy as np
    import torch
    import torch.distributed as dist

    np.random.seed(random.getrandbits(32))
    torch.default_generator.seed()
    torch.set_num_threads(1)
    if dist.is_available():
        dist.set_debug_level_from_env()
    if settings["devices"]:
        torch.cuda.set_device(rank)


def _init_group(me: Rank, settings: dict[str, Any]) -> None:
    import torch.distributed as dist

    world_size = int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.path.join(me.folder, "store"), world_size)
    limit = datetime.timedelta(seconds=settings["group_timeout"])
    dist.init_process_group(
        settings["backend"], store=store, rank=me.number, world_size=world_size, timeout=limit
    )


def open_streams() -> None:
    """Streams on file descriptors 0, 1 and 2, C's too. The fork server does it once, for all ranks."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(
            descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    with contextlib.suppress(Exception):  # C's stdout by lines, so that a crash loses none of them
        name = "__stdoutp" if sys.platform == "darwin" else "stdout"
        _LIBC.setvbuf(ctypes.c_void_p.in_dll(_LIBC, name), None, 1, 0)
    if WAIT_SIGNAL:
        faulthandler.register(WAIT_SIGNAL, file=2, all_threads=True)


def _redirect(output: int) -> None:
    """Sends file descriptors 1 and 2, and so C code's output too, to the pipe that the notebook reads."""
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    if output > 2:
        os.close(output)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(Exception):
        _LIBC.fflush(None)


def _lead_group(parent: int) -> None:
    """Leads a process group of its own, and on Linux is killed when the fork server dies."""
    with contextlib.suppress(AttributeError, OSError):
        os.setsid()
    if parent and sys.platform == "linux":
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _type_name(error: BaseException) -> str:
    return type(error).__qualname__.rpartition("<locals>.")[2]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message can't be printed)"
