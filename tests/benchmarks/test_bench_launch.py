"""launch() costs little more than the processes themselves, far less than the usual ways to start them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import course_utils

BENCH = Path(__file__).with_name("bench_launch.py")
ROOT = Path(course_utils.__file__).resolve().parents[1]


def measured(runs: int, slow_runs: int) -> dict[str, float]:
    """Medians from a process of its own: this one is large, which would make its forks slow."""
    command = [sys.executable, str(BENCH), "--runs", str(runs), "--slow-runs", str(slow_runs), "--json"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_launch_costs_at_most_half_more_than_a_bare_fork():
    ratios = []
    for runs in (11, 31, 31, 31):  # a busy machine gets more and longer looks, under the same bound
        medians = measured(runs, slow_runs=0)
        ratios.append(medians["launch()"] / medians["bare fork"])
        if ratios[-1] <= 1.5:
            break
    assert min(ratios) <= 1.5, ratios


def test_torchrun_and_mp_spawn_cost_at_least_eight_times_as_much():
    medians = measured(runs=5, slow_runs=1)
    assert medians["torchrun"] >= 8 * medians["launch()"], medians
    assert medians["mp.spawn"] >= 8 * medians["launch()"], medians
