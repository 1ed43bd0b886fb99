"""Reference solutions of chapter 19."""

from math import sqrt


def environment(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    """What torchrun sets for the process with this local rank on this node, ready for os.environ.update.

    RANK, LOCAL_RANK, GROUP_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT:
    these eight and no others.
    hosts: the nodes' names, node 0 first; its machine holds the store, at port. ranks_a_node: [2, 4, 1], say.
    """
    return {
        "RANK": str(sum(ranks_a_node[:node]) + local_rank),
        "LOCAL_RANK": str(local_rank),
        "GROUP_RANK": str(node),
        "WORLD_SIZE": str(sum(ranks_a_node)),
        "LOCAL_WORLD_SIZE": str(ranks_a_node[node]),
        "GROUP_WORLD_SIZE": str(len(ranks_a_node)),
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": str(port),
    }


def batch_file(processes: int) -> str:
    """The mended batch file, for `processes` processes on each node."""
    return """#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --time=01:00:00

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node=PROCESSES \\
    --rdzv-backend=c10d --rdzv-endpoint=$head:29500 --rdzv-id=$SLURM_JOB_ID \\
    train_ddp.py --checkpoint-dir "$SLURM_SUBMIT_DIR/checkpoints-$SLURM_JOB_ID"
""".replace("PROCESSES", str(processes))


def checkpoint_every(
    gpus: int, gpu_mtbf_hours: float, save_seconds: float, step_seconds: float
) -> tuple[int, float]:
    """(steps between two checkpoints, share of time lost to saving and to steps computed twice).

    By the formula of section 8 without the restart: the number of steps, at least 1, that loses least.
    """
    mtbf = gpu_mtbf_hours * 3600 / gpus  # of the whole job, in seconds

    def lost(steps: int) -> float:
        interval = steps * step_seconds
        return save_seconds / interval + interval / (2 * mtbf)

    below = max(1, int(sqrt(2 * save_seconds * mtbf) / step_seconds))
    steps = min(below, below + 1, key=lost)
    return steps, lost(steps)


SOLUTIONS = {"19.1": environment, "19.2": batch_file, "19.3": checkpoint_every}
