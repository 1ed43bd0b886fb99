"""What a launch costs: 4 gloo ranks, one all-reduce, from call to results, by four ways of starting ranks.

    python3 tests/benchmarks/bench_launch.py [--runs 11] [--slow-runs 3] [--json]

All ways run the same body, interleaved in one process, so that a busy moment hits them alike; medians are
printed as a Markdown table. The bare fork is the least that four ranks can cost: it has no output of its
own, no time-out, no report, and is unsafe in a notebook (design: fork after a matrix product hangs).
"""

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD_SIZE = 4
EXPECTED = [10.0] * WORLD_SIZE
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
SCRIPT = """
import os
import torch.distributed as dist
from bench_launch import body
dist.init_process_group("gloo")
rank, value = dist.get_rank(), body()
with open(os.path.join(os.environ["BENCH_FOLDER"], str(rank)), "w") as file:
    file.write(str(value))
dist.destroy_process_group()
"""


def body() -> float:
    """What each rank does once its group is ready."""
    total = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(total)
    return total.item()


def init(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    store = dist.FileStore(os.path.join(folder, "store"), WORLD_SIZE)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD_SIZE)


def by_launch() -> list[float]:
    from course_utils import launch

    return launch(body, world_size=WORLD_SIZE)


def by_bare_fork() -> list[float]:
    pipes, pids = [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(WORLD_SIZE):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    init(rank, folder)
                    os.write(write, pickle.dumps(body()))
                finally:
                    os._exit(0)
            os.close(write)
            pipes.append(read)
            pids.append(pid)
        found = []
        for read in pipes:
            with open(read, "rb") as pipe:
                found.append(pickle.loads(pipe.read()))
        for pid in pids:
            os.waitpid(pid, 0)
    return found


def _spawned(rank: int, folder: str) -> None:
    init(rank, folder)
    Path(folder, str(rank)).write_text(str(body()))
    dist.destroy_process_group()


def by_mp_spawn() -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_spawned, args=(folder,), nprocs=WORLD_SIZE)
        return [float(Path(folder, str(rank)).read_text()) for rank in range(WORLD_SIZE)]


def by_torchrun() -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "job.py").write_text(SCRIPT)
        here = str(Path(__file__).parent)
        env = os.environ | {"BENCH_FOLDER": folder, "PYTHONPATH": here, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--log-dir={folder}"]
        command += [f"--nproc-per-node={WORLD_SIZE}", os.path.join(folder, "job.py")]
        subprocess.run(command, env=env, check=True, capture_output=True)
        return [float(Path(folder, str(rank)).read_text()) for rank in range(WORLD_SIZE)]


FAST: dict[str, Callable[[], list[float]]] = {"bare fork": by_bare_fork, "launch()": by_launch}
SLOW: dict[str, Callable[[], list[float]]] = {"torchrun": by_torchrun, "mp.spawn": by_mp_spawn}


def measure(runs: int, slow_runs: int) -> dict[str, float]:
    """Median seconds of each way. The slow ones are spread evenly over the rounds of the fast ones.

    Raises:
        RuntimeError: a way gave another sum than 1 + 2 + 3 + 4 on some rank.
    """
    seconds: dict[str, list[float]] = {name: [] for name in (*FAST, *SLOW)}
    for _ in range(2):  # warm-up: the first launch starts what all later ones use
        for way in FAST.values():
            way()
    for round_ in range(runs):
        slow = (round_ + 1) * slow_runs // runs > round_ * slow_runs // runs
        for name, way in (FAST | SLOW if slow else FAST).items():
            start = time.perf_counter()
            found = way()
            seconds[name].append(time.perf_counter() - start)
            if found != EXPECTED:
                raise RuntimeError(f"{name} gave {found} instead of {EXPECTED}")
    return {name: statistics.median(times) for name, times in seconds.items() if times}


def table(medians: dict[str, float]) -> str:
    """A Markdown table: milliseconds of each way, against the bare fork and against launch()."""
    what = f"{WORLD_SIZE} gloo ranks, one all-reduce, call to results"
    lines = [f"| {what} | median | against a bare fork | against launch() |", "|---|---:|---:|---:|"]
    for name, median in medians.items():
        fork, launched = median / medians["bare fork"], median / medians["launch()"]
        lines.append(f"| {name} | {median * 1000:,.0f} ms | {fork:.2f} × | {launched:.2f} × |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11, help="rounds of bare fork and launch()")
    parser.add_argument(
        "--slow-runs", type=int, default=3, help="rounds that torchrun and mp.spawn take part in"
    )
    parser.add_argument("--json", action="store_true", help="print medians in seconds as JSON")
    options = parser.parse_args()
    medians = measure(options.runs, options.slow_runs)
    print(json.dumps(medians) if options.json else table(medians))


if __name__ == "__main__":
    main()
