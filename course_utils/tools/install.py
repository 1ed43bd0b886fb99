"""pip, seen by a person: one line of progress while it works, and what to do when it fails.

Standard library only.
"""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

AGAIN = "then start the same command again"
Say = Callable[[str], None]
ADVICE = {
    "network": "The package index could not be reached.\n"
    f"Check the connection (behind a proxy, set HTTPS_PROXY), {AGAIN}.\n"
    "What has been downloaded whole is kept.",
    "certificate": "The package index's certificate was refused: some networks put in one of their own.\n"
    f"Name that network's certificate file in PIP_CERT, {AGAIN}.",
    "disk": "No room, or no right to write, in the repository, the temporary folder or pip's cache.\n"
    f"Make room or mend the rights, {AGAIN}.",
    "version": "The package index has no release of a requirement for this Python and this system.\n"
    f"Try another Python (3.11 to 3.13, 64 bits), {AGAIN}.",
    "ensurepip": "This Python cannot make virtual environments: it lacks ensurepip.\n"
    "On Debian and Ubuntu: sudo apt install python3-venv (or python3.12-venv, by your Python's number), "
    f"{AGAIN}.",
    "pip": f"The .venv that stands here has no pip. Remove the folder .venv, {AGAIN}.",
}
SYMPTOMS = (  # in this order: a failure of the network is often followed by "No matching distribution"
    ("disk", r"No space left on device|Disk quota exceeded|Permission denied|Read-only file system"),
    ("certificate", r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError"),
    (
        "network",
        r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|IncompleteRead"
        r"|Connection (reset|refused|broken)|Temporary failure in name resolution|Network is unreachable"
        r"|Max retries exceeded",
    ),
    ("ensurepip", r"ensurepip is not available|No module named '?ensurepip"),
    ("pip", r"No module named '?pip\b"),
    ("version", r"No matching distribution found"),
)
STAGES = (
    (r"(?:Downloading|Using cached) \S*?([^/\s]+?)-\d\S*\.(?:whl|tar\.gz) \((.*)\)", "downloading {0} ({1})"),
    (r"Processing \S*?([^/\s]+?)-\d\S*\.whl", "unpacking {0}"),
    (r"Collecting ([\w.-]+)", "looking for {0}"),
    (r"Installing build dep|Getting requirements to build|Preparing editable", "preparing course_utils"),
    (r"Installing collected packages: (.*)", "installing {count} packages (about a minute)"),
    (r"WARNING: Retrying", "no answer from the package index, trying again"),
)


class SetupError(RuntimeError):
    """The environment could not be made; the text says why and what to do."""


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def advice(output: str, what: str) -> str:
    """``what`` failed, with the reason in ``output`` and what to do about it, as one text."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reasons = [line for line in lines if re.match(r"(ERROR|error|OSError|Error)\b", line)] or lines[-1:]
    for name, pattern in SYMPTOMS:
        if re.search(pattern, output):
            return f"{what} {ADVICE[name]}" + (f"\n({reasons[-1]})" if name == "version" and reasons else "")
    return f"{what}\n" + "\n".join(reasons[-3:])


def stage(line: str) -> str:
    """A line of pip's output in a person's words; empty where it says nothing new."""
    for pattern, words in STAGES:
        found = re.match(r"\s*" + pattern, line)
        if found and not (words.startswith("downloading") and ".metadata" in line):
            return words.format(*found.groups(), count=(found[1] if found.groups() else "").count(",") + 1)
    return ""


class Progress:
    """One line that is rewritten in a terminal, elsewhere a line now and then, with the seconds so far."""

    def __init__(self, head: str, tell: Say) -> None:
        self.head, self.tell = head, tell
        self.start = self.told = time.monotonic()
        self.terminal = tell is say and sys.stderr.isatty()
        self.last = ""

    def show(self, now: str) -> None:
        clock = time.monotonic()
        words = f"{self.head}: {now} ({clock - self.start:.0f} s)"
        if self.terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            print("\r" + words[: width - 1].ljust(width - 1), end="", file=sys.stderr, flush=True)
        elif (now != self.last and clock - self.told >= 5) or clock - self.told >= 30 or not self.last:
            self.tell(words)
            self.told, self.last = clock, now

    def close(self) -> None:
        if self.terminal:
            print(file=sys.stderr)


def keep(held: int) -> dict[str, tuple[int, ...]]:
    """Options of subprocess that let a child hold the lock too: if this process is killed, it stays taken."""
    return {} if os.name == "nt" else {"pass_fds": (held,)}


def pip(
    command: list[str],
    folder: Path,
    env: dict[str, str],
    log: Path,
    tell: Say,
    held: int,
    head: str = "2 of 2: requirements.txt",
    failed: str = "pip could not install requirements.txt.",
) -> None:
    """Run pip in ``folder``, its whole output into ``log``. Raises SetupError: ``failed``, and why."""
    command = [*command, "--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**env, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **keep(held),
    )
    progress = Progress(head, tell)
    try:
        with log.open("w", encoding="utf-8", buffering=1) as file:
            output = _follow(process, progress, file.write)
    finally:
        _end(process)
        progress.close()
    if process.returncode:
        words = advice(output, failed)
        raise SetupError(f"{words}\npip's whole output: {log}")


def _follow(process: "subprocess.Popen[str]", progress: Progress, log: Callable[[str], object]) -> str:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    output, now = [], "starting pip"
    while True:
        progress.show(now)
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            continue
        if line is None:
            process.wait()
            return "".join(output)
        output.append(line)
        log(line)
        now = stage(line) or now


def _end(process: "subprocess.Popen[str]") -> None:
    """See pip out, also where this was interrupted: nothing may write in .venv after the lock is free."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
