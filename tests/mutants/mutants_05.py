"""Wrong solutions of chapter 05: bucket sizes, gradient accumulation, a DDP of one's own."""

from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

# 05.1: bucket_bytes(gradients, cap, first)


def never_lets_a_bucket_exceed_its_cap(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        if buckets[-1] and buckets[-1] + size > (first if len(buckets) == 1 else cap):
            buckets.append(0)
        buckets[-1] += size
    return [size for size in buckets if size]


def closes_only_above_the_cap(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        if buckets[-1] > (first if len(buckets) == 1 else cap):
            buckets.append(0)
        buckets[-1] += size
    return [size for size in buckets if size]


def treats_the_first_bucket_like_the_others(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        if buckets[-1] >= cap:
            buckets.append(0)
        buckets[-1] += size
    return [size for size in buckets if size]


def forgot_the_bucket_that_is_not_full(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets, held = [], 0
    for size in gradients:
        held += size
        if held >= (cap if buckets else first):
            buckets.append(held)
            held = 0
    return buckets


def ends_with_an_empty_bucket(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        buckets[-1] += size
        if buckets[-1] >= (first if len(buckets) == 1 else cap):
            buckets.append(0)
    return buckets


# 05.2: accumulate_epoch(ddp, optimizer, micro_batches, k)

MicroBatches = list[tuple[torch.Tensor, torch.Tensor]]


def forgot_the_rest(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    steps = 0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches, start=1):
        with ddp.no_sync() if i % k else nullcontext():
            (mse_loss(ddp(x), y) / k).backward()
        if i % k == 0:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    optimizer.zero_grad()
    return steps


def divides_the_rest_by_k(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    steps = 0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches, start=1):
        last = i % k == 0 or i == len(micro_batches)
        with nullcontext() if last else ddp.no_sync():
            (mse_loss(ddp(x), y) / k).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    return steps


def adds_up_the_mean_losses(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        *quiet, (x, y) = micro_batches[start : start + k]
        with ddp.no_sync():
            for quiet_x, quiet_y in quiet:
                mse_loss(ddp(quiet_x), quiet_y).backward()
        mse_loss(ddp(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def calls_forward_outside_no_sync(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            loss = mse_loss(ddp(x), y) / len(group)
            with ddp.no_sync() if i < len(group) else nullcontext():
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def keeps_all_of_a_step_in_no_sync(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        with ddp.no_sync():
            for x, y in group:
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


# 05.3: DataParallelModule(module, cap)

Bucket = list[nn.Parameter]


class Common(nn.Module):
    """The parts that students get right; each class below replaces one of them by its mistake."""

    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__()
        self.sync = True
        self.module, self.started = module, []
        for tensor in self.tensors():
            dist.broadcast(tensor.detach(), src=0)
        buckets: list[Bucket] = [[]]
        for p in reversed(self.bucketed()):
            if sum(q.nbytes for q in buckets[-1]) >= cap:
                buckets.append([])
            buckets[-1].append(p)
        for bucket in buckets:
            ready: Bucket = []
            for p in bucket:
                if p.requires_grad:
                    p.register_post_accumulate_grad_hook(partial(self.on_gradient, bucket, ready))

    def tensors(self) -> list[torch.Tensor]:
        return [*self.module.parameters(), *self.module.buffers()]

    def bucketed(self) -> Bucket:
        return [p for p in self.module.parameters() if p.requires_grad]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)

    def on_gradient(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        if self.sync:
            self.note(bucket, ready, p)

    def note(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        ready.append(p)
        if len(ready) == len(bucket):
            ready.clear()
            self.send(bucket)

    def send(self, bucket: Bucket) -> None:
        flat = torch.cat([p.grad.flatten() for p in bucket]) / dist.get_world_size()
        self.started.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def finish(self) -> None:
        for bucket, flat, work in self.started:
            work.wait()
            for p, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(piece.view_as(p))
        self.started.clear()


class WaitsForFrozenParameters(Common):
    def bucketed(self) -> Bucket:
        return list(self.module.parameters())


class ForgotTheBuffers(Common):
    def tensors(self) -> list[torch.Tensor]:
        return list(self.module.parameters())


class CountsGradientsWithoutSync(Common):
    def on_gradient(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        ready.append(p)
        if self.sync and len(ready) == len(bucket):
            ready.clear()
            self.send(bucket)


class WaitsInsideBackward(Common):
    def send(self, bucket: Bucket) -> None:
        super().send(bucket)
        super().finish()


class StartsInFinish(Common):
    def __init__(self, module: nn.Module, cap: int) -> None:
        self.full: list[Bucket] = []
        super().__init__(module, cap)

    def send(self, bucket: Bucket) -> None:
        self.full.append(bucket)

    def finish(self) -> None:
        for bucket in self.full:
            super().send(bucket)
        self.full.clear()
        super().finish()


MUTANTS = {
    "05.1": [
        never_lets_a_bucket_exceed_its_cap,
        closes_only_above_the_cap,
        treats_the_first_bucket_like_the_others,
        forgot_the_bucket_that_is_not_full,
        ends_with_an_empty_bucket,
    ],
    "05.2": [
        forgot_the_rest,
        divides_the_rest_by_k,
        adds_up_the_mean_losses,
        calls_forward_outside_no_sync,
        keeps_all_of_a_step_in_no_sync,
    ],
    "05.3": [
        WaitsForFrozenParameters,
        ForgotTheBuffers,
        CountsGradientsWithoutSync,
        WaitsInsideBackward,
        StartsInFinish,
    ],
}
FITS = {
    "never_lets_a_bucket_exceed_its_cap": "before the gradient that makes it too large, or after",
    "closes_only_above_the_cap": "when is a bucket closed",
    "treats_the_first_bucket_like_the_others": r"expected +\[1048576, 26214400",
    "forgot_the_bucket_that_is_not_full": r"shape \[3\], not \[4\]",
    "ends_with_an_empty_bucket": r"came +\[0\]",
    "forgot_the_rest": "which of them end a group",
    "divides_the_rest_by_k": "groups have 3, 3, 2 micro-batches",
    "adds_up_the_mean_losses": "what does a sample weigh",
    "calls_forward_outside_no_sync": "the forward decides",
    "WaitsForFrozenParameters": r"NoneType[\s\S]*p\.grad",
    "ForgotTheBuffers": "parameters and buffers, for everybody",
    "CountsGradientsWithoutSync": "added up with sync=False",
    "WaitsInsideBackward": r"awaited in finish\(\)",
    "StartsInFinish": "in the hook of its last gradient",
}
