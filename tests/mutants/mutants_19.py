"""Wrong solutions of chapter 19: what torchrun tells a process, a batch file, when to save."""

import os
from collections.abc import Callable
from math import ceil, floor, sqrt
from typing import Any

# 19.1: environment(node, local_rank, hosts, ranks_a_node, port)


def _told(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int, **other: Any
) -> dict[str, str]:
    """The right answer, but for ``other``."""
    numbers = {
        "RANK": sum(ranks_a_node[:node]) + local_rank,
        "LOCAL_RANK": local_rank,
        "GROUP_RANK": node,
        "WORLD_SIZE": sum(ranks_a_node),
        "LOCAL_WORLD_SIZE": ranks_a_node[node],
        "GROUP_WORLD_SIZE": len(ranks_a_node),
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": port,
    }
    return {name: str(value) for name, value in (numbers | other).items()}


def takes_all_nodes_for_equal(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank = node * ranks_a_node[node] + local_rank
    return _told(node, local_rank, hosts, ranks_a_node, port, RANK=rank)


def counts_its_own_node_too(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank = sum(ranks_a_node[: node + 1]) + local_rank
    return _told(node, local_rank, hosts, ranks_a_node, port, RANK=rank)


def begins_each_node_at_rank_0(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, RANK=local_rank)


def takes_the_node_for_the_rank(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, RANK=node, WORLD_SIZE=len(hosts))


def takes_the_rank_for_the_local_rank(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank = sum(ranks_a_node[:node]) + local_rank
    return _told(node, local_rank, hosts, ranks_a_node, port, LOCAL_RANK=rank)


def counts_nodes_as_world_size(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, WORLD_SIZE=len(hosts))


def multiplies_for_the_world_size(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    world_size = len(hosts) * ranks_a_node[node]
    return _told(node, local_rank, hosts, ranks_a_node, port, WORLD_SIZE=world_size)


def takes_node_0s_local_world_size(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, LOCAL_WORLD_SIZE=ranks_a_node[0])


def takes_the_group_for_all_ranks(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    ranks = sum(ranks_a_node)
    return _told(node, local_rank, hosts, ranks_a_node, port, GROUP_WORLD_SIZE=ranks)


def looks_for_the_store_on_its_own_node(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, MASTER_ADDR=hosts[node])


def looks_for_the_store_at_127_0_0_1(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, MASTER_ADDR="127.0.0.1")


def gives_each_rank_a_port(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank = sum(ranks_a_node[:node]) + local_rank
    return _told(node, local_rank, hosts, ranks_a_node, port, MASTER_PORT=port + rank)


def takes_the_usual_port(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return _told(node, local_rank, hosts, ranks_a_node, port, MASTER_PORT=29500)


def leaves_numbers_as_numbers(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, Any]:
    told = _told(node, local_rank, hosts, ranks_a_node, port)
    return {name: value if name == "MASTER_ADDR" else int(value) for name, value in told.items()}


def forgets_the_group(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    told = _told(node, local_rank, hosts, ranks_a_node, port)
    return {name: value for name, value in told.items() if not name.startswith("GROUP_")}


def reads_what_its_own_starter_set(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    return {name: os.environ[name] for name in _told(0, 0, ["here"], [1], 0)}


def fits_the_example_only(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank = {0: 0, 1: 2, 2: 6}[node] + local_rank
    return _told(node, local_rank, hosts, ranks_a_node, port, RANK=rank, WORLD_SIZE=7)


# 19.2: batch_file(processes)


def _file(
    processes: int | str,
    nodes: str = "$SLURM_JOB_NUM_NODES",
    tasks: int = 1,
    before: str = "",
    run: str = "srun torchrun",
    meet: str = '--rdzv-backend=c10d --rdzv-endpoint="$head:29500" --rdzv-id="$SLURM_JOB_ID"',
    folder: str = '"$SLURM_SUBMIT_DIR/checkpoints-$SLURM_JOB_ID"',
    after: str = "",
) -> str:
    """The right answer, but for what is given."""
    return f"""#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node={tasks}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
{before}
{run} --nnodes={nodes} --nproc-per-node={processes} {meet} \\
    train_ddp.py --checkpoint-dir {folder}{after}
"""


def hands_the_broken_file_in(processes: int) -> str:
    return f"""#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node={processes} --node-rank=$SLURM_NODEID \\
    train_ddp.py --checkpoint-dir /tmp/checkpoints
"""


def keeps_four_tasks(processes: int) -> str:
    return _file(processes, tasks=4)


def asks_for_a_task_a_process(processes: int) -> str:
    return _file(processes, tasks=processes)


def asks_for_three_tasks_whatever_the_nodes(processes: int) -> str:
    return _file(processes).replace("#SBATCH --ntasks-per-node=1", "#SBATCH --ntasks=3")


def lets_each_task_start_one_process(processes: int) -> str:
    return _file(1, tasks=processes)


def keeps_four_processes(processes: int) -> str:
    return _file(4)


def counts_tasks_for_processes(processes: int) -> str:
    return _file("$SLURM_NTASKS_PER_NODE")


def expects_three_nodes(processes: int) -> str:
    return _file(processes, nodes="3")


def relies_on_master_addr(processes: int) -> str:
    run = "srun bash -c 'torchrun --node-rank=$SLURM_NODEID"
    return _file(processes, before="export MASTER_ADDR=$head", run=run, meet="", after="'")


def lets_the_batch_shell_read_the_node_id(processes: int) -> str:
    return _file(processes, meet="--master-addr=$head --node-rank=$SLURM_NODEID")


def quotes_the_node_id_twice(processes: int) -> str:
    run = 'srun bash -c "torchrun --node-rank=$SLURM_NODEID --master-addr=$head'
    return _file(processes, run=run, meet="", folder="$SLURM_SUBMIT_DIR/checkpoints", after='"')


def forgets_to_export_the_head(processes: int) -> str:
    run = "srun bash -c 'torchrun --node-rank=$SLURM_NODEID --master-addr=$head"
    return _file(processes, run=run, meet="", after="'")


def forgets_to_export_the_endpoint(processes: int) -> str:
    run = "srun bash -c 'torchrun --rdzv-backend=c10d --rdzv-endpoint=$head:29500"
    return _file(processes, run=run, meet="", after="'")


def takes_the_local_id_for_the_node(processes: int) -> str:
    run = "srun bash -c 'torchrun --node-rank=$SLURM_LOCALID --master-addr=$head"
    return _file(processes, before="export head", run=run, meet="", after="'")


def gives_no_node_rank(processes: int) -> str:
    return _file(processes, meet="--master-addr=$head --master-port=29500")


def meets_at_each_nodes_own_name(processes: int) -> str:
    run = "srun bash -c 'torchrun --rdzv-backend=c10d --rdzv-endpoint=$(hostname):29500"
    return _file(processes, run=run, meet="", after="'")


def meets_at_localhost(processes: int) -> str:
    return _file(processes, meet="--rdzv-backend=c10d --rdzv-endpoint=localhost:29500")


def meets_at_the_whole_list(processes: int) -> str:
    return _file(processes, meet='--rdzv-backend=c10d --rdzv-endpoint="$SLURM_JOB_NODELIST:29500"')


def meets_at_a_node_of_the_example(processes: int) -> str:
    return _file(processes, meet="--rdzv-backend=c10d --rdzv-endpoint=node01:29500")


def meets_at_the_last_node(processes: int) -> str:
    last = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)'
    return _file(processes, before=last, meet="--node-rank=$SLURM_NODEID --master-addr=$head")


def draws_a_port_on_each_node(processes: int) -> str:
    run = "srun bash -c 'torchrun --rdzv-backend=c10d --rdzv-endpoint=$head:$((20000 + RANDOM % 10000))"
    return _file(processes, before="export head", run=run, meet="", after="'")


def makes_every_node_its_own_job(processes: int) -> str:
    return _file(processes, meet="--standalone")


def forgets_the_backend(processes: int) -> str:
    return _file(processes, meet='--rdzv-endpoint="$head:29500" --rdzv-id="$SLURM_JOB_ID"')


def forgets_srun(processes: int) -> str:
    return _file(processes, run="torchrun")


def gives_torchrun_up(processes: int) -> str:
    return f"""#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node={processes}
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29500
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS python train_ddp.py \\
    --checkpoint-dir "$SLURM_SUBMIT_DIR/checkpoints"'
"""


def forgets_the_folder(processes: int) -> str:
    return _file(processes, folder="").replace("--checkpoint-dir ", "")


def saves_in_tmp(processes: int) -> str:
    return _file(processes, folder="/tmp/checkpoints")


def saves_in_the_nodes_tmpdir(processes: int) -> str:
    return _file(processes, folder='"${TMPDIR:-/tmp}/checkpoints-$SLURM_JOB_ID"')


def saves_where_tmpdir_points(processes: int) -> str:
    return _file(processes, folder='"$TMPDIR/checkpoints-$SLURM_JOB_ID"')


def saves_in_a_new_folder_each_time(processes: int) -> str:
    return _file(processes, folder='"$SLURM_SUBMIT_DIR/checkpoints-$(date +%s%N)"')


def saves_in_a_folder_a_day(processes: int) -> str:
    return _file(processes, folder='"$SLURM_SUBMIT_DIR/$(date +%F)"')


def saves_in_a_folder_a_node(processes: int) -> str:
    run = f"srun bash -c 'torchrun --nproc-per-node={processes}"
    meet = "--rdzv-backend=c10d --rdzv-endpoint=$head:29500"
    folder = '"$SLURM_SUBMIT_DIR/checkpoints-$SLURM_NODEID"'
    return _file(processes, before="export head", run=run, meet=meet, folder=folder, after="'")


def saves_in_a_folder_a_start(processes: int) -> str:
    return _file(processes, folder='"$SLURM_SUBMIT_DIR/checkpoints-${SLURM_RESTART_COUNT:-0}"')


# 19.3: checkpoint_every(gpus, gpu_mtbf_hours, save_seconds, step_seconds)


def _best(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> float:
    """Young's interval, in steps."""
    return sqrt(2 * save_seconds * gpu_mtbf_hours * 3600 / gpus) / step_seconds


def _share(steps: float, gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> float:
    interval = steps * step_seconds
    return save_seconds / interval + interval / (2 * gpu_mtbf_hours * 3600 / gpus)


def rounds_down(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = max(1, floor(_best(*case)))
    return steps, _share(steps, *case)


def rounds_up(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = ceil(_best(*case))
    return steps, _share(steps, *case)


def rounds_to_the_nearest(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = max(1, round(_best(*case)))
    return steps, _share(steps, *case)


def _beside(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> int:
    """The right number of steps: the better one of the two beside Young's."""
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    low = max(1, floor(_best(*case)))
    return min((low, low + 1), key=lambda steps: _share(steps, *case))


def saves_before_a_step_has_ended(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = _beside(*case) if _best(*case) >= 1 else 0
    return steps, _share(_best(*case), *case) if steps == 0 else _share(steps, *case)


def divides_by_no_step(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return floor(_best(*case)), _share(floor(_best(*case)), *case)


def keeps_a_fraction_of_a_step(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return _best(*case), _share(_best(*case), *case)


def takes_the_share_before_it_rounds(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return _beside(*case), _share(_best(*case), *case)


def forgets_the_gpus(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (1, gpu_mtbf_hours, save_seconds, step_seconds)
    return _beside(*case), _share(_beside(*case), *case)


def multiplies_by_the_gpus(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (1, gpu_mtbf_hours * gpus, save_seconds, step_seconds)
    return _beside(*case), _share(_beside(*case), *case)


def takes_hours_for_seconds(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours / 3600, save_seconds, step_seconds)
    return _beside(*case), _share(_beside(*case), *case)


def takes_hours_for_minutes(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours / 60, save_seconds, step_seconds)
    return _beside(*case), _share(_beside(*case), *case)


def forgets_the_two(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = max(1, round(_best(*case) / sqrt(2)))
    return steps, _share(steps, *case)


def loses_a_whole_interval(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = _beside(*case)
    return steps, _share(steps, *case) + steps * step_seconds * gpus / (2 * gpu_mtbf_hours * 3600)


def forgets_the_time_of_saving(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = _beside(*case)
    return steps, _share(steps, *case) - save_seconds / (steps * step_seconds)


def adds_the_restart(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    steps = _beside(*case)
    return steps, _share(steps, *case) + 300 * gpus / (gpu_mtbf_hours * 3600)


def returns_the_seconds(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return round(_best(*case) * step_seconds), _share(_beside(*case), *case)


def returns_a_percentage(gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return _beside(*case), 100 * _share(_beside(*case), *case)


def returns_the_share_that_is_left(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return _beside(*case), 1 - _share(_beside(*case), *case)


def returns_the_share_first(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    case = (gpus, gpu_mtbf_hours, save_seconds, step_seconds)
    return _share(_beside(*case), *case), _beside(*case)


def returns_the_steps_alone(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> Any:
    return _beside(gpus, gpu_mtbf_hours, save_seconds, step_seconds)


MUTANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "19.1": (
        takes_all_nodes_for_equal,
        counts_its_own_node_too,
        begins_each_node_at_rank_0,
        takes_the_node_for_the_rank,
        takes_the_rank_for_the_local_rank,
        counts_nodes_as_world_size,
        multiplies_for_the_world_size,
        takes_node_0s_local_world_size,
        takes_the_group_for_all_ranks,
        looks_for_the_store_on_its_own_node,
        looks_for_the_store_at_127_0_0_1,
        gives_each_rank_a_port,
        takes_the_usual_port,
        leaves_numbers_as_numbers,
        forgets_the_group,
        reads_what_its_own_starter_set,
        fits_the_example_only,
    ),
    "19.2": (
        hands_the_broken_file_in,
        keeps_four_tasks,
        asks_for_a_task_a_process,
        asks_for_three_tasks_whatever_the_nodes,
        lets_each_task_start_one_process,
        keeps_four_processes,
        counts_tasks_for_processes,
        expects_three_nodes,
        relies_on_master_addr,
        lets_the_batch_shell_read_the_node_id,
        quotes_the_node_id_twice,
        forgets_to_export_the_head,
        forgets_to_export_the_endpoint,
        takes_the_local_id_for_the_node,
        gives_no_node_rank,
        meets_at_each_nodes_own_name,
        meets_at_localhost,
        meets_at_the_whole_list,
        meets_at_a_node_of_the_example,
        meets_at_the_last_node,
        draws_a_port_on_each_node,
        makes_every_node_its_own_job,
        forgets_the_backend,
        forgets_srun,
        gives_torchrun_up,
        forgets_the_folder,
        saves_in_tmp,
        saves_in_the_nodes_tmpdir,
        saves_where_tmpdir_points,
        saves_in_a_new_folder_each_time,
        saves_in_a_folder_a_day,
        saves_in_a_folder_a_node,
        saves_in_a_folder_a_start,
    ),
    "19.3": (
        rounds_down,
        rounds_up,
        rounds_to_the_nearest,
        saves_before_a_step_has_ended,
        divides_by_no_step,
        keeps_a_fraction_of_a_step,
        takes_the_share_before_it_rounds,
        forgets_the_gpus,
        multiplies_by_the_gpus,
        takes_hours_for_seconds,
        takes_hours_for_minutes,
        forgets_the_two,
        loses_a_whole_interval,
        forgets_the_time_of_saving,
        adds_the_restart,
        returns_the_seconds,
        returns_a_percentage,
        returns_the_share_that_is_left,
        returns_the_share_first,
        returns_the_steps_alone,
    ),
}

FITS = {
    "takes_all_nodes_for_equal": r"\[1, 3\]: RANK(.|\n)*more or fewer processes",
    "counts_its_own_node_too": "RANK(.|\n)*node after node",
    "begins_each_node_at_rank_0": "RANK(.|\n)*numbered through",
    "takes_the_node_for_the_rank": "WORLD_SIZE(.|\n)*all processes on all nodes",
    "takes_the_rank_for_the_local_rank": "LOCAL_RANK(.|\n)*on its own node",
    "counts_nodes_as_world_size": "WORLD_SIZE(.|\n)*all processes on all nodes",
    "multiplies_for_the_world_size": r"\[1, 3\]: WORLD_SIZE(.|\n)*different numbers",
    "takes_node_0s_local_world_size": "LOCAL_WORLD_SIZE(.|\n)*this node alone",
    "takes_the_group_for_all_ranks": "GROUP_WORLD_SIZE(.|\n)*one a node",
    "looks_for_the_store_on_its_own_node": "MASTER_ADDR(.|\n)*the machine of node 0",
    "looks_for_the_store_at_127_0_0_1": "MASTER_ADDR(.|\n)*the machine of node 0",
    "gives_each_rank_a_port": "the port that you were given",
    "takes_the_usual_port": "the port that you were given",
    "leaves_numbers_as_numbers": "os.environ takes strings",
    "forgets_the_group": "GROUP_RANK is missing",
    "reads_what_its_own_starter_set": "not the expected value",
    "fits_the_example_only": r"\[2, 2\]: WORLD_SIZE",
    "hands_the_broken_file_in": r"\[4, 4, 4\](.|\n)*count both",
    "keeps_four_tasks": r"\[4, 4, 4\](.|\n)*count both",
    "asks_for_a_task_a_process": "once a task",
    "asks_for_three_tasks_whatever_the_nodes": "once a task",
    "lets_each_task_start_one_process": "once a task",
    "keeps_four_processes": "5 nodes of 8 processes(.|\n)*the function's argument",
    "counts_tasks_for_processes": "processes a torchrun starts",
    "expects_three_nodes": "ask Slurm how many",
    "relies_on_master_addr": "torchrun does not read MASTER_ADDR",
    "lets_the_batch_shell_read_the_node_id": r"\[0, 0, 0\](.|\n)*single quotes keep it",
    "quotes_the_node_id_twice": r"\[0, 0, 0\](.|\n)*single quotes keep it",
    "forgets_to_export_the_head": "if it was exported",
    "forgets_to_export_the_endpoint": "if it was exported",
    "takes_the_local_id_for_the_node": r"\[0, 0, 0\](.|\n)*does the variable number nodes",
    "gives_no_node_rank": "without --node-rank each torchrun is node 0",
    "meets_at_each_nodes_own_name": "each names itself",
    "meets_at_localhost": "another machine on every node",
    "meets_at_the_whole_list": "scontrol show hostnames unfolds it",
    "meets_at_a_node_of_the_example": "the next job gets other nodes",
    "meets_at_the_last_node": "the machine of node 0 holds the store",
    "draws_a_port_on_each_node": "each has another port",
    "makes_every_node_its_own_job": "there are no other nodes",
    "forgets_the_backend": "with --rdzv-backend=c10d none needs",
    "forgets_srun": "the batch file runs once, on the first node",
    "gives_torchrun_up": "the command is torchrun",
    "forgets_the_folder": "checkpoints' folder(.|\n)*the script asks for it",
    "saves_in_tmp": "every node has a folder of that name of its own",
    "saves_where_tmpdir_points": "every node has a folder of that name of its own",
    "saves_in_the_nodes_tmpdir": "every node has a folder of that name of its own",
    "saves_in_a_new_folder_each_time": "after a restart(.|\n)*the folder of the first time",
    "saves_in_a_folder_a_day": "after a restart(.|\n)*the folder of the first time",
    "saves_in_a_folder_a_node": "one folder for all nodes",
    "saves_in_a_folder_a_start": "after a restart(.|\n)*the folder of the first time",
    "rounds_down": "steps of 700 s(.|\n)*which number of steps",
    "rounds_up": "steps of 850 s(.|\n)*which number of steps",
    "rounds_to_the_nearest": "steps of 700 s(.|\n)*which number of steps",
    "saves_before_a_step_has_ended": "never less than 1",
    "divides_by_no_step": "ZeroDivisionError",
    "keeps_a_fraction_of_a_step": "a whole number",
    "takes_the_share_before_it_rounds": "at the interval that you return",
    "forgets_the_gpus": "is not the job's",
    "multiplies_by_the_gpus": "fails sooner",
    "takes_hours_for_seconds": "hours and seconds",
    "takes_hours_for_minutes": "3600 seconds",
    "forgets_the_two": "half of an interval",
    "loses_a_whole_interval": "half of it computed twice",
    "forgets_the_time_of_saving": "a save in each",
    "adds_the_restart": "the share lost(.|\n)*at the interval",
    "returns_the_seconds": "that is in seconds",
    "returns_a_percentage": "not a percentage",
    "returns_the_share_that_is_left": "not the one that is left",
    "returns_the_share_first": "a whole number",
    "returns_the_steps_alone": "two values are asked for",
}
