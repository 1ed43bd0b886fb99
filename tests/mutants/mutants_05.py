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


def uses_the_small_limit_for_all(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        if buckets[-1] >= first:
            buckets.append(0)
        buckets[-1] += size
    return [size for size in buckets if size]


def never_starts_a_bucket_at_zero(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets, held, limit = [], 0, first
    for size in gradients:
        held += size
        if held >= limit:
            buckets.append(held)
            limit += cap
    return buckets if buckets[-1:] == [held] or not held else [*buckets, held]


def cuts_gradients(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets, left, limit = [], sum(gradients), first
    while left:
        buckets.append(min(limit, left))
        left, limit = left - buckets[-1], cap
    return buckets


def puts_the_small_bucket_last(gradients: list[int], cap: int, first: int) -> list[int]:
    buckets = [0]
    for size in gradients:
        if buckets[-1] >= (first if len(buckets) == 1 else cap):
            buckets.append(0)
        buckets[-1] += size
    return [size for size in reversed(buckets) if size]


def returns_the_gradients_of_each_bucket(gradients: list[int], cap: int, first: int) -> list[list[int]]:
    buckets: list[list[int]] = []
    for size in gradients:
        if not buckets or sum(buckets[-1]) >= (first if len(buckets) == 1 else cap):
            buckets.append([])
        buckets[-1].append(size)
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


def communicates_first(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group):
            with ddp.no_sync() if i else nullcontext():
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def steps_the_rest_without_an_average(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            with ddp.no_sync() if i < k else nullcontext():
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def communicates_each_time(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        for x, y in group:
            (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def averages_by_hand(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        with ddp.no_sync():
            for x, y in group:
                (mse_loss(ddp(x), y) / len(group)).backward()
        for p in ddp.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def divides_by_the_number_of_ranks(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    optimizer.zero_grad()
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            with ddp.no_sync() if i < len(group) else nullcontext():
                (mse_loss(ddp(x), y) / len(group) / dist.get_world_size()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def never_clears_between_steps(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            with ddp.no_sync() if i < len(group) else nullcontext():
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
    optimizer.zero_grad()
    return len(starts)


def clears_before_each_micro_batch(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            optimizer.zero_grad()
            with ddp.no_sync() if i < len(group) else nullcontext():
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
    optimizer.zero_grad()
    return len(starts)


def leaves_the_last_gradients(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    for start in starts:
        group = micro_batches[start : start + k]
        optimizer.zero_grad()
        for i, (x, y) in enumerate(group, start=1):
            with ddp.no_sync() if i < len(group) else nullcontext():
                (mse_loss(ddp(x), y) / len(group)).backward()
        optimizer.step()
    return len(starts)


def makes_one_large_batch(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    for start in starts:
        x, y = (torch.cat(parts) for parts in zip(*micro_batches[start : start + k], strict=True))
        mse_loss(ddp(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(starts)


def communicates_on_rank_0_alone(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, micro_batches: MicroBatches, k: int
) -> int:
    starts = range(0, len(micro_batches), k)
    for start in starts:
        group = micro_batches[start : start + k]
        for i, (x, y) in enumerate(group, start=1):
            with nullcontext() if i == len(group) and dist.get_rank() == 0 else ddp.no_sync():
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


class HooksFrozenParameters(Common):
    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__(module, cap)
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(lambda p: None)


class PacksFrozenParameters(WaitsForFrozenParameters):
    def note(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        ready.append(p)
        if len(ready) == sum(q.requires_grad for q in bucket):
            ready.clear()
            self.send(bucket)


class GivesFrozenParametersZeros(Common):
    def finish(self) -> None:
        super().finish()
        for p in self.module.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)


class BroadcastsNothing(Common):
    def tensors(self) -> list[torch.Tensor]:
        return []


class ForgotToDivide(Common):
    def send(self, bucket: Bucket) -> None:
        flat = torch.cat([p.grad.flatten() for p in bucket])
        self.started.append((bucket, flat, dist.all_reduce(flat, async_op=True)))


class NeverCopiesBack(Common):
    def finish(self) -> None:
        for _, _, work in self.started:
            work.wait()
        self.started.clear()


class ForgetsToClearWhatWasStarted(Common):
    def finish(self) -> None:
        started = list(self.started)
        super().finish()
        self.started = started


class IgnoresSync(Common):
    def on_gradient(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        self.note(bucket, ready, p)


class SendsAtTheFirstGradient(Common):
    def note(self, bucket: Bucket, ready: Bucket, p: nn.Parameter) -> None:
        ready.append(p)
        if len(ready) == 1:
            for q in bucket:
                q.grad = torch.zeros_like(q) if q.grad is None else q.grad
            self.send(bucket)
        if len(ready) == len(bucket):
            ready.clear()


class FillsBucketsInForwardOrder(Common):
    def bucketed(self) -> Bucket:
        return super().bucketed()[::-1]


class SendsEachGradientAlone(Common):
    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__(module, 0)


class ClosesBeforeTheCap(Common):
    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__(module, cap // 2)


class SendsOneBucket(Common):
    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__(module, 2**40)


class WaitsAtABarrier(Common):
    def finish(self) -> None:
        dist.barrier()
        super().finish()


class ForwardReturnsNothing(Common):
    def forward(self, x: torch.Tensor) -> None:
        self.module(x)


class SendsOnRank0Alone(Common):
    def send(self, bucket: Bucket) -> None:
        if dist.get_rank() == 0:
            super().send(bucket)


class WrapsTorchsDDP(nn.Module):
    def __init__(self, module: nn.Module, cap: int) -> None:
        super().__init__()
        self.sync, self.ddp = True, DistributedDataParallel(module, bucket_cap_mb=cap / 2**20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with nullcontext() if self.sync else self.ddp.no_sync():
            return self.ddp(x)

    def finish(self) -> None:
        pass


MUTANTS = {
    "05.1": [
        never_lets_a_bucket_exceed_its_cap,
        closes_only_above_the_cap,
        treats_the_first_bucket_like_the_others,
        forgot_the_bucket_that_is_not_full,
        ends_with_an_empty_bucket,
        uses_the_small_limit_for_all,
        never_starts_a_bucket_at_zero,
        cuts_gradients,
        puts_the_small_bucket_last,
        returns_the_gradients_of_each_bucket,
    ],
    "05.2": [
        forgot_the_rest,
        divides_the_rest_by_k,
        adds_up_the_mean_losses,
        calls_forward_outside_no_sync,
        keeps_all_of_a_step_in_no_sync,
        communicates_first,
        steps_the_rest_without_an_average,
        communicates_each_time,
        averages_by_hand,
        divides_by_the_number_of_ranks,
        never_clears_between_steps,
        clears_before_each_micro_batch,
        leaves_the_last_gradients,
        makes_one_large_batch,
        communicates_on_rank_0_alone,
    ],
    "05.3": [
        WaitsForFrozenParameters,
        PacksFrozenParameters,
        HooksFrozenParameters,
        GivesFrozenParametersZeros,
        BroadcastsNothing,
        ForgotTheBuffers,
        ForgotToDivide,
        NeverCopiesBack,
        ForgetsToClearWhatWasStarted,
        CountsGradientsWithoutSync,
        IgnoresSync,
        WaitsInsideBackward,
        StartsInFinish,
        SendsAtTheFirstGradient,
        FillsBucketsInForwardOrder,
        SendsEachGradientAlone,
        ClosesBeforeTheCap,
        SendsOneBucket,
        WaitsAtABarrier,
        ForwardReturnsNothing,
        SendsOnRank0Alone,
        WrapsTorchsDDP,
    ],
}
FITS = {
    "never_lets_a_bucket_exceed_its_cap": "closed after the one that fills it",
    "closes_only_above_the_cap": "exactly its limit",
    "treats_the_first_bucket_like_the_others": "first bucket has a limit of its own",
    "forgot_the_bucket_that_is_not_full": "the last bucket if it is not full",
    "ends_with_an_empty_bucket": "an empty bucket would be sent",
    "uses_the_small_limit_for_all": "for the first bucket only",
    "never_starts_a_bucket_at_zero": "what does a new bucket hold when it begins",
    "cuts_gradients": "each whole",
    "puts_the_small_bucket_last": "which bucket is sent first",
    "returns_the_gradients_of_each_bucket": "one number for each bucket",
    "forgot_the_rest": "which of them end a group",
    "divides_the_rest_by_k": "what does a sample of the last one weigh",
    "adds_up_the_mean_losses": "is their sum that of the mean loss",
    "calls_forward_outside_no_sync": "at which moment does DDP look",
    "keeps_all_of_a_step_in_no_sync": r"weights differ[\s\S]*no all-reduce ran at all",
    "communicates_first": r"weights differ[\s\S]*after the last gradient was added",
    "steps_the_rest_without_an_average": "2 all-reduces ran; each of the 3 steps needs one",
    "communicates_each_time": "every backward communicated",
    "averages_by_hand": "what else is sent",
    "divides_by_the_number_of_ranks": "DDP has divided",
    "never_clears_between_steps": "gradients of the step before",
    "clears_before_each_micro_batch": "who cleared before",
    "leaves_the_last_gradients": "who clears after the last step",
    "makes_one_large_batch": "activations of several micro-batches",
    "communicates_on_rank_0_alone": "which of their backward passes communicate, and on which ranks",
    "WaitsForFrozenParameters": r"Layer 2 is frozen[\s\S]*p\.grad",
    "PacksFrozenParameters": r"Layer 2 is frozen[\s\S]*p\.grad",
    "HooksFrozenParameters": "Layer 2 is frozen",
    "GivesFrozenParametersZeros": "not even one of zeros",
    "BroadcastsNothing": "parameters and buffers, for everybody",
    "ForgotTheBuffers": "parameters and buffers, for everybody",
    "ForgotToDivide": r"4 times what was expected[\s\S]*mean over all ranks",
    "NeverCopiesBack": "or sent, or copied back",
    "ForgetsToClearWhatWasStarted": "copied back once is done",
    "CountsGradientsWithoutSync": "leave in the counts",
    "IgnoresSync": "adds to the gradients and sends nothing",
    "WaitsInsideBackward": r"awaited in finish\(\)",
    "StartsInFinish": "in the hook of its last gradient",
    "SendsAtTheFirstGradient": "packed before this gradient was there",
    "FillsBucketsInForwardOrder": "which gradients are there first",
    "SendsEachGradientAlone": "a bucket is closed when it holds that, not before",
    "ClosesBeforeTheCap": "a bucket is closed when it holds that, not before",
    "SendsOneBucket": "a bucket is closed when it holds that",
    "WaitsAtABarrier": r"more than all-reduces[\s\S]*barrier",
    "ForwardReturnsNothing": "must return the module's output",
    "SendsOnRank0Alone": "every rank starts the same all-reduces",
    "WrapsTorchsDDP": "use hooks of your own",
}
