"""The process that ranks are forked from: it has imported torch, so that a rank starts in milliseconds.

Forking the notebook itself is out: after one matrix product there, the first one in a forked child hangs
for ever. multiprocessing's own fork server keeps its socket in the temporary folder (a long TMPDIR breaks
it), starts with the notebook's folder on sys.path (a student's random.py breaks it), imports the main
program again in each child, and does not notice that the notebook was killed. This one talks through an
inherited socket pair only, so it ends, with all ranks, when the notebook does.
"""

import atexit
import contextlib
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import struct
import sys
import time
import weakref
from typing import NoReturn

PATH = struct.Struct("!I")  # length of the job's folder, whose name follows
FORK = struct.Struct("!I")  # rank; its control socket and its output pipe come with it
HEAVY = (  # modules that take a rank seconds, or a good part of one, to import
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    "torch.fx.experimental.symbolic_shapes",  # by the first backward(gradient)
)
EVENT = struct.Struct(
    "!cIid"
)  # b"P", rank, pid, time of the fork · b"X", rank, wait status, time of the exit


class _Job:
    """One launch: its channel to the notebook, and its ranks that live."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.ranks: dict[int, int] = {}  # pid → rank
        self.ending = False

    def tell(self, kind: bytes, rank: int, value: int) -> None:
        with contextlib.suppress(OSError):  # a launch that was interrupted no longer listens
            self.channel.sendall(EVENT.pack(kind, rank, value, time.perf_counter()))


def _read(channel: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = channel.recv(size - len(content))
        if not part:
            raise EOFError
        content += part
    return content


def kill_group(pid: int) -> None:
    """Ends a rank and what it started itself, data loader workers for instance."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # in the instant before it leads its own group
        os.kill(pid, signal.SIGKILL)


def serve(descriptor: int) -> NoReturn:
    """Forks ranks on request until the notebook is gone; never returns."""
    notebook = socket.socket(fileno=descriptor)
    import numpy.random  # noqa: F401  each module imported here is shared by all ranks
    import torch.distributed

    import course_utils.sending  # noqa: F401
    from course_utils.rank import open_streams

    open_streams()
    torch.set_num_threads(1)
    atexit._clear()  # what a rank does at its end is to be its own
    weakref.finalize._registry.clear()
    gc.collect()
    gc.freeze()  # a collection in a rank would otherwise touch, and so copy, every page of the server

    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    jobs: dict[int, _Job] = {}
    folders: set[str] = set()  # of jobs that are over, too: a notebook that was killed did not remove them
    notebook.sendall(b"R")

    while True:
        readable, _, _ = select.select(
            [notebook, wake_read, *(j.channel for j in jobs.values() if not j.ending)], [], []
        )
        if wake_read in readable:
            os.read(wake_read, 4096)
        if notebook in readable and not _accept(notebook, jobs, folders):
            ranks = [pid for job in jobs.values() for pid in job.ranks]
            for pid in ranks:
                kill_group(pid)
            for pid in ranks:  # a rank that still writes would fill its folder again
                os.waitpid(pid, 0)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        for job in list(jobs.values()):
            if job.channel in readable and not _fork_rank(
                job, [notebook, *(j.channel for j in jobs.values())]
            ):
                job.ending = True
                for pid in job.ranks:
                    kill_group(pid)
        _reap(jobs)


def _accept(notebook: socket.socket, jobs: dict[int, _Job], folders: set[str]) -> bool:
    """Takes a word from the notebook: a new job, or a module to import; False when the notebook is gone."""
    try:
        content, descriptors, _, _ = socket.recv_fds(notebook, 1, 1)
    except OSError:
        return False
    if not content:
        return False
    if not descriptors:
        # A rank had to import it: now all later ones have it. At the start it would slow every fork.
        importlib.import_module(HEAVY[content[0]])
        gc.freeze()
        return True
    channel = socket.socket(fileno=descriptors[0])
    try:
        folder = _read(channel, PATH.unpack(_read(channel, PATH.size))[0]).decode()
    except (EOFError, OSError):
        channel.close()
    else:
        jobs[channel.fileno()] = _Job(channel)
        folders.difference_update([known for known in folders if not os.path.exists(known)])
        folders.add(folder)
    return True


def _fork_rank(job: _Job, to_close: list[socket.socket]) -> bool:
    """Forks the next rank that the job asks for; False when the job is over."""
    try:
        content, descriptors, _, _ = socket.recv_fds(job.channel, FORK.size, 2)
    except OSError:
        return False
    if not content:
        return False
    (rank,) = FORK.unpack(content)
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for channel in to_close:
                channel.close()
            from course_utils.rank import main

            main(socket.socket(fileno=descriptors[0]), parent=server, output=descriptors[1])
        os._exit(1)
    for descriptor in descriptors:
        os.close(descriptor)
    job.ranks[pid] = rank
    job.tell(b"P", rank, pid)
    return True


def _reap(jobs: dict[int, _Job]) -> None:
    while True:
        try:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            break
        if child is None:
            break
        kill_group(child.si_pid)  # while the zombie still keeps the number from being used again
        _, status = os.waitpid(child.si_pid, 0)
        for job in jobs.values():
            if child.si_pid in job.ranks:
                job.tell(b"X", job.ranks.pop(child.si_pid), os.waitstatus_to_exitcode(status))
    for key, job in list(jobs.items()):
        if job.ending and not job.ranks:
            job.channel.close()
            del jobs[key]


def boot(call: str, sys_path: list[str]) -> list[str]:
    """The command that runs `call` in a fresh Python which finds its modules as the notebook does.

    -I keeps the working folder and PYTHON* variables from getting in the way of the standard library.
    """
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys_path!r}; {call}"]
