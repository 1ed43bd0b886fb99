"""Reference solutions of chapter 05."""

from collections.abc import Iterable
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def bucket_bytes(gradients: list[int], cap: int, first: int) -> list[int]:
    """The bytes in each bucket, in the order in which they are sent; no empty buckets."""
    buckets: list[int] = []
    for size in gradients:
        limit = first if len(buckets) == 1 else cap
        if not buckets or buckets[-1] >= limit:
            buckets.append(0)
        buckets[-1] += size
    return buckets


def accumulate_epoch(
    ddp: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    micro_batches: list[tuple[torch.Tensor, torch.Tensor]],
    k: int,
) -> int:
    """Train once over micro_batches and return the number of steps; leave no gradients behind.

    micro_batches: pairs x (B, D), y (B, 1), B is the same in all; as many on each rank, any number of them.
    """
    groups = [micro_batches[i : i + k] for i in range(0, len(micro_batches), k)]  # the last may be shorter
    for *quiet, (last_x, last_y) in groups:
        n = len(quiet) + 1
        with ddp.no_sync():
            for x, y in quiet:
                (nn.functional.mse_loss(ddp(x), y) / n).backward()
        (nn.functional.mse_loss(ddp(last_x), last_y) / n).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(groups)


def make_buckets(params: Iterable[nn.Parameter], cap: int) -> list[list[nn.Parameter]]:
    """Parameters in buckets that are closed as soon as they hold cap bytes."""
    buckets: list[list[nn.Parameter]] = [[]]
    for p in params:
        if sum(q.nbytes for q in buckets[-1]) >= cap:
            buckets.append([])
        buckets[-1].append(p)
    return buckets


class DataParallelModule(nn.Module):
    """Averages the gradients of module over all ranks, in buckets of cap bytes, during backward."""

    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__()
        self.module, self.sync, self.started = module, True, []
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)
        trained = [p for p in module.parameters() if p.requires_grad]
        for bucket in make_buckets(reversed(trained), cap):
            ready: list[nn.Parameter] = []
            for p in bucket:
                p.register_post_accumulate_grad_hook(partial(self.on_gradient, bucket, ready))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)

    def on_gradient(self, bucket: list[nn.Parameter], ready: list[nn.Parameter], p: nn.Parameter) -> None:
        if not self.sync:
            return
        ready.append(p)
        if len(ready) == len(bucket):
            flat = torch.cat([q.grad.flatten() for q in bucket])
            work = dist.all_reduce(flat, op=dist.ReduceOp.AVG, async_op=True)
            self.started.append((bucket, flat, work))
            ready.clear()

    def finish(self) -> None:
        """Wait for the all-reduces that backward has started; then every p.grad is the average."""
        for bucket, flat, work in self.started:
            work.wait()
            pieces = flat.split([p.numel() for p in bucket])
            for p, piece in zip(bucket, pieces, strict=True):
                p.grad.copy_(piece.view_as(p))
        self.started.clear()


SOLUTIONS = {"05.1": bucket_bytes, "05.2": accumulate_epoch, "05.3": DataParallelModule}
