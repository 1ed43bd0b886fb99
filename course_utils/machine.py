"""What this machine gives the course, and what is to be mended where it gives less than that needs."""

import contextlib
import math
import os
import shutil
import socket
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

import psutil
import torch.distributed as dist

MEMORY = 2 * 2**30  # bytes: a chapter with its ranks takes 0.4 to 1.6 GB
SHARED = 16 * 2**20  # bytes in /dev/shm: what the workers of a data loader hand over
LONGEST = 70  # characters: a socket's path has 104 (macOS) or 108, and a data loader's name in it takes 32
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


class Machine(NamedTuple):
    """What was found: a number of cores, bytes, a folder, and whether a thing is there."""

    cores: int
    free: int
    gloo: bool = True
    loopback: bool = True  # two sockets of this machine reach each other
    shared: int | None = None  # free in /dev/shm; None where the system has no such thing
    temporary: str | None = "/tmp"
    proxy: str = ""  # one that this machine's own address would go through
    named: bool = True  # the host's name has an address, where gloo asks for it


def cores() -> int:
    """Cores that this process may use: a container or a scheduler can leave it fewer than the machine has."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            if (group / "cpu.max").exists():
                quota, period = (group / "cpu.max").read_text().split()
            else:
                quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:  # "max" or -1: no limit
                mine = min(mine, math.ceil(int(quota) / int(period)))
    return max(mine, 1)


def free_memory() -> int:
    """Bytes that this process and its ranks may still take, by the system and by a container's limit."""
    free = psutil.virtual_memory().available
    for group in _groups("memory"):
        with contextlib.suppress(OSError, ValueError):
            new = (group / "memory.max").exists()
            limit, used = ("max", "current") if new else ("limit_in_bytes", "usage_in_bytes")
            limit, used = (int((group / f"memory.{name}").read_text()) for name in (limit, used))
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            cache = int(stat["inactive_file" if new else "total_inactive_file"])  # given back when needed
            free = min(free, limit - used + cache)
    return max(free, 0)


def _groups(controller: str) -> list[Path]:
    """The control groups that limit this process, from its own up to the root; none but on Linux."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names == "" or controller in names.split(","):
                base = _GROUPS / controller if names else _GROUPS
                own = base / path.lstrip("/")
                found += [own, *(folder for folder in own.parents if folder.is_relative_to(base))]
    return found


def look() -> Machine:
    """This machine as it is now; takes milliseconds."""
    linux, shared, temporary = sys.platform == "linux", None, None
    if linux:
        shared = 0
        with contextlib.suppress(OSError), tempfile.TemporaryFile(dir="/dev/shm"):
            shared = shutil.disk_usage("/dev/shm").free
    with contextlib.suppress(FileNotFoundError):
        temporary = tempfile.gettempdir()
    proxies = urllib.request.getproxies_environment()
    passes = not proxies or urllib.request.proxy_bypass_environment("localhost", proxies)
    return Machine(
        cores=cores(),
        free=free_memory(),
        gloo=dist.is_available() and dist.is_gloo_available(),
        loopback=_reaches_itself(),
        shared=shared,
        temporary=temporary,
        proxy="" if passes else next((name for name in proxies if name != "no"), ""),
        named=os.name != "nt" or _has_address(),  # elsewhere launch names the loopback interface
    )


def _reaches_itself() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2).close()
    except OSError:
        return False
    return True


def _has_address() -> bool:
    with contextlib.suppress(OSError):
        return bool(socket.gethostbyname(socket.gethostname()))
    return False


def advice(machine: Machine) -> list[str]:
    """For each thing that a machine lacks a sentence on what that means and what to do."""
    found = []
    if not machine.gloo:
        found.append(
            "This PyTorch has no gloo, and every chapter needs it. Install the one of requirements.txt."
        )
    if not machine.loopback:
        found.append(
            "No process can reach another at 127.0.0.1: a firewall stops it. Let Python connect to this "
            "machine itself."
        )
    if machine.free < MEMORY:
        found.append(
            f"Only {machine.free / 2**30:.1f} GiB of memory are free, and a chapter takes up to 2: close "
            "programs, and end the kernels of other chapters (menu Kernel, Shut Down All Kernels). "
            "Where memory runs out, a rank ends by SIGKILL, or the kernel restarts."
        )
    if machine.cores < 2:
        found.append("There is one core. All of it runs, more slowly; take no measured time for a machine's.")
    if machine.shared is not None and machine.shared < SHARED:
        found.append(
            "/dev/shm is missing or full. Only the workers of a data loader need it, in chapter 06. "
            "A container gets one by --shm-size=1g."
        )
    if machine.temporary is None:
        found.append("No folder for temporary files can be written. Set TMPDIR to one, and start lab again.")
    elif os.name != "nt" and len(machine.temporary) > LONGEST:
        found.append(
            f"The temporary folder's path has {len(machine.temporary)} characters, and with more than "
            f"{LONGEST} the workers of a data loader (chapter 06) hang. Start lab again with TMPDIR=/tmp."
        )
    if not machine.named:
        found.append("This host's name has no address, and gloo asks for it: enter it in the file hosts.")
    if machine.proxy:
        found.append(
            f"A proxy is set ({machine.proxy}_proxy). The course asks none; if the browser cannot open a "
            "chapter, set NO_PROXY=localhost,127.0.0.1 and start lab again."
        )
    return found


def to_mend() -> str:
    """What this machine lacks and what to do about it, a line each, in the brackets of what differs."""
    lines = advice(look())
    return "⟨" + "\n".join(f"- {line}" for line in lines) + "⟩" if lines else "⟨nothing⟩"
