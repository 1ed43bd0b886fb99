"""Reference solutions of chapter 07."""

import math
from typing import Any

import torch
import torch.distributed as dist


def move(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    """The settings on world_size ranks, as a new dictionary.

    run has samples (N), epochs, local_batch, accumulate, rate, warmup_updates.
    """
    accumulate = max(1, run["accumulate"] // world_size)  # ranks first take the place of accumulation
    global_batch = run["local_batch"] * world_size * accumulate
    growth = global_batch / (run["local_batch"] * run["accumulate"])
    return {
        "accumulate": accumulate,
        "global_batch": global_batch,
        "rate": run["rate"] * growth,
        "warmup_updates": math.ceil(run["warmup_updates"] / growth),
        "updates": run["epochs"] * math.ceil(run["samples"] / global_batch),
    }


def warmup_schedule(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """A schedule whose step() is called once after each update; the rate rises with the samples seen."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: min(1.0, (update + 1) * global_batch / warmup_samples)
    )


def noise_scale(gradients: torch.Tensor, local_batch: int) -> float:
    """The gradient noise scale in samples, on every rank.

    gradients: (updates, D), a row an update: this rank's mean over local_batch samples of its own.
    McCandlish et al., 2018, arXiv 1812.06162, appendix A: |G|² and S from two sizes of the batch.
    """
    global_batch = local_batch * dist.get_world_size()
    small = gradients.square().sum(1)  # (updates,), |G_b|² on this rank
    averaged = torch.cat([gradients, small[:, None]], dim=1)  # (updates, D + 1)
    dist.all_reduce(averaged, op=dist.ReduceOp.AVG)
    large = averaged[:, :-1].square().sum(1).mean()
    small = averaged[:, -1].mean()
    signal = (global_batch * large - local_batch * small) / (global_batch - local_batch)
    noise = (small - large) / (1 / local_batch - 1 / global_batch)
    return (noise / signal).item()


SOLUTIONS = {"07.1": move, "07.2": warmup_schedule, "07.3": noise_scale}
