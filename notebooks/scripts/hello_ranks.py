"""What each rank was told, one JSON line a rank: torchrun --standalone --nproc-per-node=4 hello_ranks.py"""

import json
import os

import torch
import torch.distributed as dist


def hello() -> dict[str, str | int]:
    # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    dist.init_process_group("gloo")
    total = torch.tensor(dist.get_rank())
    dist.all_reduce(total)  # the sum of all ranks' numbers
    dist.destroy_process_group()
    told = ("RANK", "WORLD_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "OMP_")
    variables = {name: value for name, value in os.environ.items() if name.startswith(told)}
    return {**variables, "sum of ranks": total.item()}


if __name__ == "__main__":
    print(json.dumps(hello()) + "\n", end="", flush=True)  # one write: other ranks can't get into the line
