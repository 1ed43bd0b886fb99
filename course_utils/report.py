"""Failures and time-outs of ranks, turned into text that a student can act on."""

import linecache
import re
import signal
import site
import sys
import sysconfig
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Frame = tuple[str, int, str]  # file, line, function; a stack is outermost first

LOST_PEER = re.compile(
    r"Connection (closed|reset|refused)|Broken pipe|connectFullMesh|Socket closed|pair closure|[Rr]ead error|"
    r"recvValue failed|sendBytes failed|Failed to recv|failed to connect"
)
_NETWORK_ERRORS = ("RuntimeError", "DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
_ACCUSATION = "failed to pass monitoredBarrier"
_SIGNAL_HINTS = {
    "SIGABRT": "C++ code gave up; in gloo mostly because ranks brought tensors of different shapes",
    "SIGKILL": "killed from outside; when nobody did it, mostly the system, because memory ran out",
    "SIGSEGV": "a crash in C code; with gloo, look for a message to a rank that does not exist",
    "SIGTERM": "asked to end from outside",
}
_COURSE = str(Path(__file__).parent)
_LIBRARIES = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), *site.getsitepackages()})


class RankError(RuntimeError):
    """At least one rank failed.

    Attributes:
        rank: the rank that failed first; None when the time was up.
        failures: rank → one-line reason, for every rank that failed or had not finished.
    """

    def __init__(self, report: str, rank: int | None, failures: dict[int, str]) -> None:
        super().__init__(report)
        self.rank, self.failures = rank, failures

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rank, self.failures)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the report alone, since the launcher's own frames would bury it."""
        return f"{type(self).__name__}: {self}".splitlines()


class RankTimeout(RankError):
    """The time was up before all ranks had finished; `failures` says where each of these was standing."""


class RanksInterrupted(KeyboardInterrupt):
    """An interrupt from the keyboard ended the ranks; says where they were standing."""

    _render_traceback_ = RankError._render_traceback_


@dataclass
class Outcome:
    """How one rank ended, or where it stands.

    Attributes:
        kind: running, returned, raised or died.
        reason: one line: the error, the signal or the exit code.
        time: when (time.perf_counter).
        frames: the stack of the error, or the one where it was standing.
        last_lines: what a rank that died had written last.
    """

    kind: str = "running"
    reason: str = ""
    time: float = 0.0
    frames: list[Frame] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)
    lost_peer: bool = False
    value: bytes = b""

    @property
    def failed(self) -> bool:
        return self.kind in ("raised", "died")


def raised(message: dict[str, Any]) -> Outcome:
    """The outcome that a rank's own message about its exception describes."""
    kind, text = message["type"], message["message"]
    frames = [tuple(frame) for frame in message["frames"]]
    reason = f"{kind}: {_first_line(text)}" if text.strip() else kind
    if kind == "SystemExit":
        code = (
            text
            if re.fullmatch(r"-?\d+", text)
            else "0"
            if text in ("", "None")
            else f"1 ({_first_line(text)})"
        )
        reason = f"exit code {code}: sys.exit was called before fn had returned"
    elif kind == "Unsendable":
        reason = _first_line(text)
    lost = kind in _NETWORK_ERRORS and bool(LOST_PEER.search(text))
    return Outcome("raised", reason, message["time"], frames, lost_peer=lost)


def died(code: int, time: float, output: str) -> Outcome:
    """The outcome of a process that ended without a word: exit code, negative for a signal."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        reason = f"{name} ({_SIGNAL_HINTS[name]})" if name in _SIGNAL_HINTS else name
    else:
        reason = f"exit code {code}: the process ended before fn had returned"
    return Outcome(
        "died", reason, time, last_lines=[line for line in output.splitlines() if line.strip()][-5:]
    )


def cell_numbers() -> dict[str, int]:
    """File name of the code of each cell → its execution count, in this notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return dict(getattr(getattr(shell, "compile", None), "_filename_map", {}))


def _position(frames: list[Frame]) -> int | None:
    """Index of the innermost frame that the reader wrote: of a cell, else outside all libraries."""
    cells = cell_numbers()
    for test in (lambda file: file in cells, lambda file: not file.startswith((_COURSE, *_LIBRARIES, "<"))):
        for index in range(len(frames) - 1, -1, -1):
            if test(frames[index][0]):
                return index
    return None


def place(frames: list[Frame]) -> str:
    """`In [5], line 3, in step:  dist.all_reduce(x)` for a stack; empty without a line of the reader."""
    index = _position(frames)
    if index is None:
        return ""
    file, line, function = frames[index]
    number = cell_numbers().get(file)
    where = f"In [{number}], line {line}" if number is not None else f"{Path(file).name}, line {line}"
    code = linecache.getline(file, line).strip()
    code = code if len(code) <= 72 else code[:71] + "…"
    within = "" if function.startswith("<") else f", in {function}"
    return f"{where}{within}:  {code}" if code else f"{where}{within}"


def collective(frames: list[Frame]) -> str:
    """The operation of torch.distributed that the reader's line is waiting in, `all_reduce` for instance."""
    index = _position(frames)
    for file, _, function in frames[(-1 if index is None else index) + 1 :]:
        if "torch/distributed/" in file.replace("\\", "/") and function != "wrapper":
            return function
    if index == len(frames) - 1 and ".wait(" in linecache.getline(*frames[index][:2]):
        return "wait"  # of a request: C code, which has no frame
    return ""


def parse_dump(output: str) -> tuple[str, list[Frame]]:
    """Takes the stacks that faulthandler wrote out of a rank's output: (the rest, the rank's stack)."""
    block = r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):\n((?:  .*\n?)*)\n?"
    stacks = []
    for match in re.finditer(block, output):
        lines = re.findall(r'  File "(.*)", line (\d+) in (.*)', match[1])
        stacks.append([(file, int(line), function) for file, line, function in lines][::-1])
    return re.sub(block, "", output), max(stacks, key=lambda s: _position(s) is not None, default=[])


def rank_error(outcomes: list[Outcome]) -> RankError:
    """The error for ranks of which at least one has failed; ties go to the lowest rank."""
    failed = {rank: o for rank, o in enumerate(outcomes) if o.failed}
    causes = {rank: o for rank, o in failed.items() if not o.lost_peer} or failed
    # rank 0 says so of a rank that died as well, at once, and may be heard before the death is seen
    causes = {rank: o for rank, o in causes.items() if _ACCUSATION not in o.reason} or causes
    earliest = min(causes.values(), key=lambda o: o.time)
    cause = (earliest.reason, place(earliest.frames))
    same = [rank for rank, o in causes.items() if (o.reason, place(o.frames)) == cause]
    first = same[0]
    everywhere = len(same) == len(outcomes) > 1
    lines = [f"all {len(same)} ranks: {cause[0]}" if everywhere else f"rank {first} failed first: {cause[0]}"]
    lines += [f"    {cause[1]}"] if cause[1] else []
    if failed[first].last_lines:
        lines += ["    the last lines it wrote:", *(f"    │ {line}" for line in failed[first].last_lines)]
    if len(same) < len(outcomes):
        others = {rank: o for rank, o in enumerate(outcomes) if rank != first}
        lines += ["the other ranks:", *_rows(others, same)]
    failures = {
        rank: ", ".join(filter(None, _standing(o))) if o.lost_peer else o.reason for rank, o in failed.items()
    }
    return RankError("\n".join(lines), first, failures)


def rank_timeout(outcomes: list[Outcome], seconds: float, limit: str) -> RankTimeout:
    """The error for ranks that had not finished when the time was up.

    Args:
        seconds: the limit that has passed.
        limit: what the limit is for, "finished" or "started".
    """
    ranks = dict(enumerate(outcomes))
    waiting = [rank for rank, o in ranks.items() if o.kind == "running"]
    count = f"{len(waiting)} of {len(ranks)} ranks" if len(ranks) > 1 else "the rank"
    lines = [f"after {seconds:g} s {count} had not {limit}", *_rows(ranks)]
    if limit == "finished" and (hint := _hint(ranks)):
        lines.append(hint)
    failures = {rank: _line(ranks[rank]) for rank in waiting}
    return RankTimeout("\n".join(lines), None, failures)


def interruption(outcomes: list[Outcome]) -> str:
    """What an interrupted launch says: where its ranks were standing."""
    return "\n".join(["the ranks were stopped", *_rows(dict(enumerate(outcomes)))])


def _standing(outcome: Outcome) -> tuple[str, str]:
    """What a rank was doing, or how it ended, and the reader's line."""
    where = place(outcome.frames)
    if outcome.kind == "returned":
        return "had finished", ""
    if outcome.kind == "running":
        if not outcome.frames:
            return "did not answer", ""
        operation = collective(outcome.frames)
        return f"waits in {operation}" if operation else "runs", where
    return "lost its peer" if outcome.lost_peer else outcome.reason, where


def _line(outcome: Outcome) -> str:
    return " at ".join(filter(None, _standing(outcome)))


def _hint(ranks: dict[int, Outcome]) -> str:
    """Which ranks the others are waiting for, where that can be told."""
    waits = [rank for rank, o in ranks.items() if o.kind == "running" and collective(o.frames)]
    missing = [str(rank) for rank in ranks if rank not in waits]
    if not waits or not missing:
        return ""
    names = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {', '.join(missing)}"
    return f"Look first at {names}: the others wait for {'it' if len(missing) == 1 else 'them'}."


def _rows(ranks: dict[int, Outcome], same: Collection[int] = ()) -> list[str]:
    """One line a rank: number, what it was doing, the reader's line."""
    rows = [(str(r), *(("raised the same", "") if r in same else _standing(o))) for r, o in ranks.items()]
    digits = max((len(row[0]) for row in rows), default=1)
    width = max((len(row[1]) for row in rows if len(row[1]) <= 30), default=0)  # long ones stand out anyway
    return [f"    rank {r:>{digits}}  {state:<{width}}  {where}".rstrip() for r, state, where in rows]


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return re.sub(r"^\[[^\]]*\.cc:\d+\] ", "", line)  # the file of C++ code that gloo puts in front
