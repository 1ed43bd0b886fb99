"""Batch files of chapter 19 on stand-ins for Slurm; tests/test_slurm.py runs them on a real one."""

from pathlib import Path

import pytest

from course_utils.datasets import table
from course_utils.exercises.batch_19 import SUBMIT_DIR, submit

BATCH_FILE = Path(__file__).parents[1] / "notebooks" / "scripts" / "train_ddp.sbatch"
TELL = "srun torchrun $SLURM_NODEID '$SLURM_NODEID'"


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_batch_file_starts_one_torchrun_a_node_and_all_meet_on_the_first(nodes: int) -> None:
    ran = submit(BATCH_FILE.read_text(), nodes)
    assert ran["errors"] == ""
    assert [call["host"] for call in ran["calls"]] == ran["hosts"]
    said = {tuple(call["arguments"]) for call in ran["calls"]}
    assert len(said) == 1, "the same command on each node"
    words = said.pop()
    endpoint = next(word for word in words if word.startswith("--rdzv-endpoint="))
    assert endpoint.startswith(f"--rdzv-endpoint={ran['hosts'][0]}:")
    assert {f"--nnodes={nodes}", "--nproc-per-node=4", f"{SUBMIT_DIR}/train_ddp.py"} <= {*words}


def test_tasks_get_the_numbers_that_slurm_gives_them() -> None:
    numbers = " ".join(f"$SLURM_{name}" for name in ("PROCID", "LOCALID", "NODEID", "NTASKS"))
    text = f"#!/bin/bash\n#SBATCH --ntasks-per-node=2\nsrun bash -c 'torchrun {numbers}'"
    calls = submit(text, nodes=3)["calls"]
    assert [call["arguments"] for call in calls] == [
        [str(number) for number in (rank, rank % 2, rank // 2, 6)] for rank in range(6)
    ]


def test_the_batch_shell_expands_what_is_not_in_quotes() -> None:
    calls = submit(f"#!/bin/bash\n{TELL}", nodes=3)["calls"]
    assert [call["arguments"] for call in calls] == [["0", "$SLURM_NODEID"]] * 3


def test_srun_starts_on_the_nodes_that_it_names() -> None:
    loop = (
        "for host in $(scontrol show hostnames); do srun --nodes=1 --ntasks=1 --nodelist=$host torchrun; done"
    )
    ran = submit(f"#!/bin/bash\n#SBATCH --ntasks-per-node=4\n{loop}", nodes=3)
    assert [call["host"] for call in ran["calls"]] == ran["hosts"]


def test_directives_behind_the_first_command_are_not_read() -> None:
    calls = submit("#!/bin/bash\ntrue\n#SBATCH --ntasks-per-node=4\nsrun torchrun", nodes=2)["calls"]
    assert len(calls) == 2


def test_a_file_that_waits_is_stopped_with_all_that_it_started() -> None:
    assert submit("#!/bin/bash\nsrun sleep 60", nodes=2, timeout=1)["errors"] == "it had not ended after 1 s"


@pytest.mark.parametrize("row", table("batch_files"), ids=lambda row: row["name"])
def test_the_data_count_the_launchers_that_the_stand_ins_start(row: dict[str, int | str]) -> None:
    if "srun" not in str(row["command"]):
        pytest.skip("runs without Slurm, in test_slurm.py")
    text = f"#!/bin/bash\n#SBATCH --ntasks-per-node={row['tasks_per_node']}\nexport head=x\n{row['command']}"
    assert len(submit(text, int(row["nodes"]))["calls"]) == row["launchers"]
