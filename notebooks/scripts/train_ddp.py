"""Train an MLP on digits by DistributedDataParallel; go on from the checkpoint where there is one.

On one machine:  torchrun --standalone --nproc-per-node=4 train_ddp.py --checkpoint-dir checkpoints
On several:      train_ddp.sbatch, or torchrun on each of them (chapter 19)
"""

import argparse
import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers import it; after init_process_group it would keep the group alive
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from course_utils.datasets import digits
from course_utils.models import MLP

data = digits()
GLOBAL_BATCH = 48  # samples a step, on all ranks together: 1, 2, 3, 4, 6, 8, 12 ... ranks can share it
SAVE_EVERY = 3  # steps


def place() -> dict[str, Any]:
    """Which process this is: what its starter told it, and the machine that it runs on."""
    mine = {name.lower(): int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    told = ("RANK", "LOCAL_", "GROUP_", "WORLD_", "MASTER_", "TORCHELASTIC_RESTART")
    variables = {name: value for name, value in os.environ.items() if name.startswith(told)}
    node = int(os.environ.get("GROUP_RANK", 0))
    return {**mine, "node": node, "host": socket.gethostname(), "variables": variables}


def join() -> torch.device:
    """Join the process group, and take the GPU of this local rank where the machine has one for each."""
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1)):
        dist.init_process_group("gloo")
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)  # not the rank: a second node has no GPU number 4
    dist.init_process_group("nccl")
    return torch.device("cuda", local_rank)


def batch(step: int) -> tuple[Tensor, Tensor]:
    """This rank's share of the global batch of a step: (48 / world_size, 64) and (48 / world_size,)."""
    epoch, position = divmod(step * GLOBAL_BATCH, len(data.train_x))
    sampler = DistributedSampler(data.train_x)
    sampler.set_epoch(epoch)
    world_size = sampler.num_replicas
    if GLOBAL_BATCH % world_size:
        raise ValueError(f"{world_size} ranks can't share a batch of {GLOBAL_BATCH} evenly")
    mine = list(sampler)[position // world_size : (position + GLOBAL_BATCH) // world_size]
    return data.train_x[mine].double(), data.train_y[mine]


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float]) -> None:
    """Rank 0 writes aside, then renames: a kill at any moment leaves a whole file."""
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
        torch.save(state, path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)
    dist.barrier()


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """The losses so far, with model and optimizer as they were then; [] where there is no checkpoint."""
    losses = []
    if path.exists():
        state = torch.load(path, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    begin = [None] * dist.get_world_size()
    dist.all_gather_object(begin, len(losses))
    if len(set(begin)) > 1:
        raise RuntimeError(f"ranks would begin at steps {begin}: do all nodes see the same {path.name}?")
    return losses


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: list[float],
    until: int,
    path: Path,
    fail_at: int | None,
) -> None:
    """The steps that are still to do. Each adds the mean loss over all ranks to losses."""
    ddp, device = DistributedDataParallel(model), next(model.parameters()).device
    for step in range(len(losses), until):
        if step == fail_at:
            os.kill(os.getpid(), signal.SIGKILL)
        x, y = (tensor.to(device) for tensor in batch(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach().clone(), op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        if (step + 1) % SAVE_EVERY == 0:
            save(path, model, optimizer, losses)


def train(steps: int, checkpoint_dir: str, fail_at: int | None = None, fail_rank: int = 0) -> dict[str, Any]:
    """The losses of all steps, the step at which this start began, and the places of all ranks.

    checkpoint_dir: a folder that all nodes share. fail_at: before this step rank fail_rank kills itself,
    unless the run has gone on from a checkpoint.
    """
    device = join()
    torch.manual_seed(0)
    model = MLP(64, 64, 10).double().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    path = Path(checkpoint_dir) / "checkpoint.pt"
    losses = load(path, model, optimizer)
    begun, fails = len(losses), dist.get_rank() == fail_rank and not losses
    if begun < steps:  # DDP holds the group; it lives in a function that has ended when the group does
        fit(model, optimizer, losses, steps, path, fail_at if fails else None)
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, place())
    dist.destroy_process_group()
    return {"losses": losses, "begun": begun, "ranks": ranks}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--checkpoint-dir", required=True, help="a folder that all nodes share")
    parser.add_argument("--out", help="rank 0 writes losses and ranks there, as JSON")
    parser.add_argument(
        "--fail-at", type=int, metavar="STEP", help="before this step a rank kills itself, once"
    )
    parser.add_argument("--fail-rank", type=int, default=0, metavar="RANK", help="this one")
    options = parser.parse_args()
    result = train(options.steps, options.checkpoint_dir, options.fail_at, options.fail_rank)
    here = place()
    who = (
        f"rank {here['rank']} of {here['world_size']}, local rank {here['local_rank']} on node {here['node']}"
    )
    what = f"steps {result['begun']} to {options.steps}, last loss {result['losses'][-1]:.6f}"
    # One write a line: the other ranks write to the same pipe, and could get in between.
    print(f"{who} ({here['host']}): {what}\n", end="", flush=True)
    if options.out and here["rank"] == 0:
        Path(options.out).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
