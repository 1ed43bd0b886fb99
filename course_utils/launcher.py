"""launch(): run a function in several real processes, from a cell, and leave none of them behind."""

import contextlib
import difflib
import functools
import inspect
import math
import numbers
import operator
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psutil

from course_utils import rank as rank_process
from course_utils.job import Job
from course_utils.processes import ForkedRanks, SpawnedRanks, rank_sys_path, start_method
from course_utils.report import RankError, RanksInterrupted
from course_utils.sending import pack_call

T = TypeVar("T")
_RANK_BYTES = 20 * 2**20  # a rank's own memory before fn uses any
_OPTIONS = ("world_size", "backend", "timeout", "init", "live", "env")


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
            "launch was called inside a rank: ranks can't start ranks; call it from the notebook"
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
        try:
            values = Job(world_size, timeout, live).run(start, folder, settings, call)
        except (RankError, RanksInterrupted) as error:
            raise error.with_traceback(None) from None
    return values if any(value is not None for value in values) else _Silent(values)


class _Silent(list):
    """A list of None that shows nothing, so that a last line launch(f) needs no assignment."""

    def _ipython_display_(self) -> None:
        pass


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
        "KINETO_LOG_LEVEL": "99",  # the profiler writes lines of its own to stderr
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
    room = psutil.virtual_memory().available // _RANK_BYTES
    if size > max(room, 64):
        raise ValueError(
            f"world_size={size}: the free memory of this machine is enough for about {room} ranks"
        )
    with contextlib.suppress(ImportError):
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = (files - 128) // 2
        if files != resource.RLIM_INFINITY and size > most:
            raise ValueError(f"world_size={size}: {files} open files (ulimit -n) are enough for {most} ranks")
    return size


def _check_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not callable(fn):
        raise TypeError(
            f"launch needs a function, not {type(fn).__name__}: write launch(step, x), not launch(step(x))"
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
        near = [option for key in kwargs for option in difflib.get_close_matches(key, _OPTIONS, n=1)]
        hint = f"did you mean {near[0]}?" if near else "the number of processes goes in world_size"
        raise TypeError(f"{name}{signature} can't take what it was given: {error} ({hint})") from None


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
                f"backend={backend!r}: {world_size} ranks need as many GPUs, not {gpus}; use 'auto'"
            )
    return backend, "nccl" in backend.lower()
