"""Several hosts on one machine: network namespaces, each with a name, an address and processes of its own.

Everything lives in namespaces of its own (network, mounts, names, processes). The first process in them reads
from a pipe that this process holds. When the pipe is closed, or this process dies, that one ends; with it the
kernel ends all others, and takes the mounts and network devices away.
"""

import contextlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
HEAD = "controller"  # the host that all others can reach; Slurm's controller runs there
PROGRAMS = ("unshare", "nsenter", "ip", "mount", "hostname")
UNSHARE = ("unshare", "-n", "-m", "-u", "-p", "-f", "--mount-proc", "--kill-child")
KINDS = ("net", "mnt", "uts", "pid")

# What is written to the machine's own folders would stay there, so these are empty ones of the hosts.
HEAD_SCRIPT = """set -e
hostname controller
mount --bind "$FOLDER/etc/hosts" /etc/hosts
for place in /dev/shm /run /sys/fs/cgroup; do mount -t tmpfs none $place; done
if [ -d /etc/slurm ]; then mount --bind "$FOLDER/etc" /etc/slurm; fi
ip link set lo up
ip link add bridge0 type bridge
ip address add 10.19.0.1/24 dev bridge0
ip link set bridge0 up
"""
HOST_SCRIPT = """set -e
hostname "$HOST"
mount -t tmpfs none /dev/shm
ip link set lo up
"""
# The process that stays until its pipe is closed. The first of a process namespace inherits what others
# leave; as it ignores the signal of their ends, the kernel reaps them. (dash's read ends at that signal.)
STAY = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
sys.stdin.read()
"""
# All that the scripts ask of the system, tried in namespaces that end with it.
PROBE = """set -e
mount -t tmpfs none /dev/shm
ip link add bridge0 type bridge
ip link add wire type veth peer eth0
ip link set wire master bridge0 up
unshare -n -m -u hostname node1
"""


def missing() -> str:
    """Why there can be no hosts here; an empty text where they can be started."""
    if platform.system() != "Linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"no {', '.join(lacking)} (Debian: apt-get install iproute2 util-linux mount hostname)"
    probe = subprocess.run([*UNSHARE, "sh", "-c", PROBE], capture_output=True, text=True, timeout=30)
    return f"the system refuses namespaces: {probe.stderr.strip()}" if probe.returncode else ""


class HostError(RuntimeError):
    """A host did not start, or a command on it failed or ran out of time; the text holds its output."""


@dataclass(frozen=True)
class Process:
    """A process on a host: the number of its parent, and its command line, word by word."""

    host: str
    parent: int
    line: list[str]


class Hosts:
    """Hosts that run.

    ``names`` are the hosts without the head, ``addresses`` maps all names to IPv4 addresses. ``folder`` is
    seen by all of them, and by this process, under the same path; commands start in ``folder / "work"``.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.names = [f"node{i}" for i in range(1, number + 1)]
        self.addresses = {HEAD: "10.19.0.1"} | {f"node{i}": f"10.19.0.{10 + i}" for i in range(1, number + 1)}
        self.folder = folder
        self._anchors: dict[str, subprocess.Popen[str]] = {}
        self._pids: dict[str, int] = {}
        self._started: list[subprocess.Popen[str]] = []
        for name in ("bin", "etc", "log", "tmp", "work"):
            (folder / name).mkdir()
        for name, words in (("python", ""), ("torchrun", " -m torch.distributed.run")):
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
            (folder / "bin" / name).chmod(0o755)
        entries = [f"{address} {name}" for name, address in self.addresses.items()]
        (folder / "etc" / "hosts").write_text("\n".join(["127.0.0.1 localhost", *entries, ""]))

    def open(self) -> None:
        """Start them. Raises HostError where the system refuses."""
        self._anchor(HEAD, UNSHARE, HEAD_SCRIPT)
        for name in self.names:
            self._anchor(name, self._enter(HEAD, "unshare", "-n", "-m", "-u"), HOST_SCRIPT)
            wire = f"to-{name}"
            # from outside the process namespace, in which the host's process has this number
            self._network("link", "add", wire, "type", "veth", "peer", "eth0", "netns", str(self._pids[name]))
            self._network("link", "set", wire, "master", "bridge0", "up")
            self.run(name, ["ip", "address", "add", f"{self.addresses[name]}/24", "dev", "eth0"])
            self.run(name, ["ip", "link", "set", "eth0", "up"])

    def close(self) -> None:
        """End every process in them, which ends the namespaces. Raises HostError where one is left."""
        for anchor in reversed(self._anchors.values()):
            anchor.stdin.close()
        for process in [*self._started, *self._anchors.values()]:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                raise HostError(f"a process of the hosts did not end: {process.args}") from None
            if process.stdout is not None:
                process.stdout.close()

    def environment(self) -> dict[str, str]:
        """The variables that commands start with, and no others; python and torchrun are this Python."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "work"),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command on a host; ``options`` are those of Popen. Its stderr goes with its stdout."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            self._enter(host, "env", f"--chdir={self.folder / 'work'}", *command),
            text=True,
            env=self.environment(),
            start_new_session=True,
            **(streams | options),
        )
        self._started.append(process)
        return process

    def run(self, host: str, command: Sequence[str], timeout: float = 30.0) -> str:
        """What a command printed. Raises HostError where it fails or takes more than ``timeout`` seconds."""
        return self.result(self.start(host, command), timeout)

    def result(self, process: subprocess.Popen[str], timeout: float = 180.0) -> str:
        """Wait for a command that was started: see run()."""
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.end(process)
            output, _ = process.communicate()
            raise HostError(f"no end within {timeout:g} s: {_words(process)}\n{output}") from None
        if process.returncode:
            raise HostError(f"exit status {process.returncode}: {_words(process)}\n{output}")
        return output

    def end(self, process: subprocess.Popen[str]) -> None:
        """Ask a command that was started, and all that it started, to end; after 5 seconds make them."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid).children(recursive=True)
            for number in (signal.SIGTERM, signal.SIGKILL):
                for member in family:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.send_signal(number)
                _, family = psutil.wait_procs(family, timeout=5)
        process.wait(timeout=10)

    def processes(self) -> dict[int, Process]:
        """All processes that run on the hosts and the head now, Slurm's included, by their number."""
        networks = {self.namespaces(name)["net"]: name for name in self.addresses}
        own = self.namespaces(HEAD)["pid"]  # one for all hosts; the processes that entered it are outside
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            number = int(entry.name)
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns" / "pid") != own or number in self._pids.values():
                    continue
                host = networks[os.readlink(entry / "ns" / "net")]
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                if len(words) > 1:  # a process that has ended has none
                    found[number] = Process(host, int(parent), words[:-1])
        return found

    def namespaces(self, host: str) -> dict[str, str]:
        """Kind → the kernel's name of the namespace that a host has for it."""
        return {kind: os.readlink(f"/proc/{self._pids[host]}/ns/{kind}") for kind in KINDS}

    def _network(self, *words: str) -> None:
        done = subprocess.run(
            ["nsenter", "-t", str(self._pids[HEAD]), "-n", "ip", *words], capture_output=True, text=True
        )
        if done.returncode:
            raise HostError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def _enter(self, host: str, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self._pids[host]), "-n", "-m", "-u", "-p", *command]

    def _anchor(self, host: str, prefix: Sequence[str], script: str) -> None:
        """The process that a host consists of; the others enter its namespaces."""
        process = subprocess.Popen(
            [*prefix, "sh", "-c", f'{script}exec "$@"', "sh", sys.executable, "-IS", "-c", STAY],
            text=True,
            env=self.environment() | {"FOLDER": str(self.folder), "HOST": host},
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._anchors[host] = process
        first = process.stdout.readline()
        if first != "up\n":
            process.stdin.close()
            raise HostError(f"the host {host} did not start: {first}{process.stdout.read()}")
        (inner,) = psutil.Process(process.pid).children()  # unshare and nsenter fork it
        self._pids[host] = inner.pid


@contextlib.contextmanager
def hosts(number: int = 3) -> Iterator[Hosts]:
    """Hosts node1 to nodeN on a network of their own, gone when the block ends. Raises HostError."""
    with tempfile.TemporaryDirectory(prefix="hosts-") as name:
        opened = Hosts(number, Path(name))
        try:
            opened.open()
            yield opened
        finally:
            opened.close()


def left(namespaces: set[str], seconds: float = 10.0) -> list[str]:
    """What still holds one of these namespaces after at most ``seconds``: processes and mounts, in words."""
    deadline = time.monotonic() + seconds
    while (found := _holders(namespaces)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _holders(namespaces: set[str]) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if any(os.readlink(f"/proc/{process.pid}/ns/{kind}") in namespaces for kind in KINDS):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())}")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return found + [f"mount: {line}" for line in mounts if namespaces & set(line.split())]


def _words(process: subprocess.Popen[str]) -> str:
    """The command without the words that take it to its host and its folder."""
    words = list(process.args)
    return " ".join(words[words.index("env") + 2 :])
