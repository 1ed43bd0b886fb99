"""Train an MLP on digits by DistributedDataParallel, and go on from a checkpoint where there is one.

On one machine:    torchrun --standalone --nproc-per-node=4 train_ddp.py --checkpoint-dir checkpoints
On several:        the same command on each, with --nnodes and --rdzv-...: chapter 19, and train_ddp.sbatch
"""

import argparse
import json
import os
import signal
import socket
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from course_utils.datasets import digits
from course_utils.models import MLP

GLOBAL_BATCH = 48  # samples a step, on all ranks together: 1, 2, 3, 4, 6, 8, 12, 16 ... ranks share it evenly
SAVE_EVERY = 3  # steps


def place() -> dict[str, int | str]:
    """Where this process runs, and its numbers, as its starter set them."""
    told = {name.lower(): int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    return {**told, "node": int(os.environ.get("GROUP_RANK", 0)), "host": socket.gethostname()}


def share(step: int, n_samples: int) -> list[int]:
    """This rank's indices of the global batch of a step."""
    epoch, position = divmod(step * GLOBAL_BATCH, n_samples)
    sampler = DistributedSampler(range(n_samples))
    sampler.set_epoch(epoch)
    local = GLOBAL_BATCH // sampler.num_replicas
    start = position // sampler.num_replicas
    return list(sampler)[start : start + local]


def save(state: dict[str, object], path: Path) -> None:
    """Rank 0 writes aside and renames, so that a kill at any moment leaves a whole file."""
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)
    dist.barrier()


def train(
    steps: int, checkpoint_dir: str, fail_at: int | None = None, fail_rank: int = 0
) -> dict[str, list[float] | int | dict[str, int | str]]:
    """The mean loss of each step, the step at which this attempt began, and this rank's place.

    The folder must be one that all ranks see. With fail_at, rank fail_rank kills itself before that step,
    unless the run has gone on from a checkpoint. Raises ValueError where the ranks can't share the batch,
    RuntimeError where they don't see the same checkpoint.
    """
    here = place()
    on_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    device = torch.device("cuda", here["local_rank"]) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)  # the local rank: the rank is no GPU's number on a second node
    dist.init_process_group("nccl" if on_gpu else "gloo")
    if GLOBAL_BATCH % here["world_size"]:
        raise ValueError(f"{here['world_size']} ranks can't share a batch of {GLOBAL_BATCH} evenly")

    data, path, losses = digits(), Path(checkpoint_dir) / "checkpoint.pt", []
    torch.manual_seed(0)
    model = MLP(64, 64, 10).double().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    if path.exists():
        state = torch.load(path, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    begun = len(losses)
    everybody = [None] * here["world_size"]
    dist.all_gather_object(everybody, begun)
    if len(set(everybody)) > 1:
        raise RuntimeError(
            f"the ranks would begin at steps {everybody}: do all nodes share {checkpoint_dir}?"
        )
    ddp = DistributedDataParallel(model, device_ids=[device] if on_gpu else None)
    for step in range(begun, steps):
        if (step, here["rank"], begun) == (fail_at, fail_rank, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        mine = share(step, len(data.train_x))
        x, y = data.train_x[mine].double().to(device), data.train_y[mine].to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach().clone(), op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        if (step + 1) % SAVE_EVERY == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
            save(state, path)
    dist.all_gather_object(everybody, here)
    dist.destroy_process_group()
    return {"losses": losses, "begun": begun, "place": here, "ranks": everybody}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--checkpoint-dir", required=True, help="a folder that all nodes share")
    parser.add_argument("--out", help="rank 0 writes losses and ranks there, as JSON")
    parser.add_argument("--fail-at", type=int, help="before this step ...")
    parser.add_argument("--fail-rank", type=int, default=0, help="... this rank kills itself, once")
    options = parser.parse_args()
    result = train(options.steps, options.checkpoint_dir, options.fail_at, options.fail_rank)
    here = result.pop("place")
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
