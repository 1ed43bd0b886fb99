"""What chapter 17 has the student diagnose from traces alone: read it after exercise 17.3, not before.

``train`` runs a small training program in a rank, records it with torch.profiler and returns the events, with
the rank's clock set wrong. ``simulate`` makes spans of such a program without running it, for the check of
17.3. In both one rank keeps the others waiting, and which one, and why, follows from the case's name.
"""

import json
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import profiler
from torch.utils.data import DataLoader

from course_utils.timeline import Span, simulated_compute

RANKS = 4
LAYERS, BUCKETS = 8, 4
FORWARD, BACKWARD, MESSAGE = 0.010, 0.020, 0.036  # seconds: of a layer, and of a message
CAUSES = ("computation", "input", "idle")


@dataclass(frozen=True)
class Case:
    """Seconds or factors, one a rank. ``idle`` is time that nothing in the trace names, at a step's start;
    ``update`` the optimizer's; ``ahead`` what the rank's clock shows too much."""

    inputs: tuple[float, ...]
    load: tuple[float, ...]
    idle: tuple[float, ...]
    update: tuple[float, ...]
    ahead: tuple[float, ...]
    culprit: tuple[int, str]


def _ranks(common: float, **other: float) -> tuple[float, ...]:
    """One value for each rank: ``common``, but for those named r0 to r3."""
    return tuple(other.get(f"r{rank}", common) for rank in range(RANKS))


def case(name: str) -> Case:
    """What is wrong in the blind case "A" or "B". Raises ValueError for another name."""
    slow, busy, ahead, behind = random.Random(f"chapter 17, blind case {name}").sample(range(RANKS), RANKS)
    clocks = {f"r{ahead}": 0.090, f"r{behind}": -0.035}
    even = {"idle": _ranks(0.0), "update": _ranks(0.0)}
    if name == "A":  # all ranks wait long for their input, and one of them computes longer
        inputs = _ranks(0.070, **{f"r{busy}": 0.085})
        load = _ranks(1.0, **{f"r{slow}": 1.35})
        return Case(inputs, load, ahead=_ranks(0.0, **clocks), culprit=(slow, "computation"), **even)
    if name == "B":  # one rank computes a little longer than the others, another one's input is late
        inputs = _ranks(0.015, **{f"r{slow}": 0.100})
        load = _ranks(1.0, **{f"r{busy}": 1.12})
        return Case(inputs, load, ahead=_ranks(0.0, **clocks), culprit=(slow, "input"), **even)
    raise ValueError(f"no blind case {name!r}; there are A and B")


def train(name: str) -> list[dict[str, Any]]:
    """Run the blind case in this rank and return the Chrome trace's complete events, times in microseconds.

    The events are named as the chapter's: ProfilerStep#k, enumerate(DataLoader)..., forward i, backward i,
    message i, Optimizer.step..., and marker behind each of nine barriers in the first recorded step.
    """
    rank, own, events = dist.get_rank(), case(name), []
    step = _Step(own, rank)
    batches = DataLoader(range(LAYERS * 4), batch_size=LAYERS, collate_fn=step.load)
    config = profiler._ExperimentalConfig(profile_all_threads=True)
    schedule = profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    options = {"activities": [profiler.ProfilerActivity.CPU], "experimental_config": config}
    with profiler.profile(
        schedule=schedule, on_trace_ready=lambda prof: events.extend(_events(prof)), **options
    ) as running:
        for x in batches:
            if running.step_num == 1:
                _mark()
            step(x)
            running.step()
    return [event | {"ts": event["ts"] + 1e6 * own.ahead[rank]} for event in events]


class _Step:
    """A training step that waits where a real one computes; the all-reduces are real."""

    def __init__(self, own: Case, rank: int) -> None:
        self.seconds, self.factor = own.inputs[rank], own.load[rank]
        self.wire = ThreadPoolExecutor(max_workers=1)
        weight = torch.nn.Parameter(torch.zeros(LAYERS))
        weight.grad = torch.zeros(LAYERS)
        self.optimizer = torch.optim.SGD([weight], lr=0.1)
        self.bucket = torch.zeros(2**15)

    def load(self, indices: list[int]) -> torch.Tensor:
        simulated_compute(self.seconds)
        return torch.tensor(indices)

    def __call__(self, _batch: torch.Tensor) -> None:
        messages = []
        for i in range(LAYERS):
            self.compute(f"forward {i}", FORWARD)
        for i in reversed(range(LAYERS)):
            self.compute(f"backward {i}", BACKWARD)
            if i % (LAYERS // BUCKETS) == 0:
                messages.append(self.wire.submit(self.send, f"message {len(messages)}"))
        for message in messages:
            message.result()
        self.optimizer.step()

    def compute(self, name: str, seconds: float) -> None:
        with profiler.record_function(name):
            simulated_compute(self.factor * seconds)

    def send(self, name: str) -> None:
        with profiler.record_function(name):
            dist.all_reduce(self.bucket)
            time.sleep(MESSAGE)


def _mark() -> None:
    for _ in range(9):
        dist.barrier()
        with profiler.record_function("marker"):
            pass


def _events(prof: profiler.profile) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["cat"] != "Trace"]


# Simulated: r0 to r3 name the ranks that differ. What is common, what a decoy has more, what the culprit has.
_SIMULATED: dict[str, Case] = {
    "a straggler": Case(
        _ranks(0.015, r2=0.025),
        _ranks(1.0, r2=1.3),
        _ranks(0.0),
        _ranks(0.002),
        _ranks(0.0),
        (2, "computation"),
    ),
    "a late input": Case(
        _ranks(0.015, r0=0.075), _ranks(1.0), _ranks(0.0), _ranks(0.002), _ranks(0.0), (0, "input")
    ),
    "a long input everywhere, and a straggler": Case(
        _ranks(0.300), _ranks(1.0, r3=1.2), _ranks(0.0), _ranks(0.002), _ranks(0.0), (3, "computation")
    ),
    "a late input, and a decoy that computes longer": Case(
        _ranks(0.090, r1=0.130, r2=0.015),
        _ranks(1.0, r2=1.3),
        _ranks(0.0),
        _ranks(0.002),
        _ranks(0.0),
        (1, "input"),
    ),
    "time without a name": Case(
        _ranks(0.015), _ranks(1.0, r0=1.05), _ranks(0.001, r3=0.070), _ranks(0.002), _ranks(0.0), (3, "idle")
    ),
    "a slow update": Case(
        _ranks(0.040, r3=0.060),
        _ranks(1.0),
        _ranks(0.002),
        _ranks(0.005, r1=0.080),
        _ranks(0.0),
        (1, "computation"),
    ),
    "a straggler whose input is the fastest": Case(
        _ranks(0.050, r0=0.020),
        _ranks(1.0, r0=1.4),
        _ranks(0.0),
        _ranks(0.002),
        _ranks(0.0),
        (0, "computation"),
    ),
}


def simulated_cases() -> tuple[str, ...]:
    """The names that ``simulate`` knows."""
    return tuple(_SIMULATED)


def simulate(name: str) -> tuple[list[list[Span]], list[tuple[float, float]], tuple[int, str]]:
    """Spans of each rank over four steps, on one clock; (start, end) of the four steps together on each rank;
    the rank that the others wait for, with the cause. Durations vary by up to 3 %; times are in seconds."""
    own, rng = _SIMULATED[name], random.Random(f"chapter 17, {name}")
    spans: list[list[Span]] = [[] for _ in range(RANKS)]
    now = [0.001 * rng.random() for _ in range(RANKS)]
    begin = list(now)
    for _ in range(4):
        ready = [_until_ready(own, rank, now[rank], spans[rank], rng) for rank in range(RANKS)]
        free = [0.0] * RANKS
        for k in range(BUCKETS):
            starts = [max(ready[rank][k], free[rank]) for rank in range(RANKS)]
            end = max(starts) + MESSAGE * rng.uniform(1.0, 1.03)
            for rank, start in enumerate(starts):
                spans[rank].append(Span(f"message {k}", "communication", start, end))
            free = [end] * RANKS
        for rank in range(RANKS):
            begin_update = max(free[rank], ready[rank][-1])
            now[rank] = begin_update + own.update[rank]
            spans[rank].append(Span("update", "optimizer", begin_update, now[rank]))
    ordered = [sorted(own_spans, key=lambda s: (s.start, s.end)) for own_spans in spans]
    return ordered, list(zip(begin, now, strict=True)), own.culprit


def _until_ready(own: Case, rank: int, start: float, spans: list[Span], rng: random.Random) -> list[float]:
    """Add this rank's spans up to the end of backward, and return when each bucket is full."""
    now, ready = start + own.idle[rank], []

    def add(name: str, kind: str, seconds: float) -> None:
        nonlocal now
        spans.append(Span(name, kind, now, now + seconds * rng.uniform(1.0, 1.03)))
        now = spans[-1].end

    add("input", "input", own.inputs[rank])
    for i in range(LAYERS):
        add(f"forward {i}", "forward", own.load[rank] * FORWARD)
    for i in reversed(range(LAYERS)):
        add(f"backward {i}", "backward", own.load[rank] * BACKWARD)
        if i % (LAYERS // BUCKETS) == 0:
            ready.append(now)
    return ready
