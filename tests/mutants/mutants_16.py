"""Wrong solutions of chapter 16: a stage's schedule, idle time of unbalanced stages, 1F1B from messages."""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

Schedule = list[tuple[str, int]]
Batches = list[torch.Tensor] | None

# 16.1: stage_schedule(stage, m, limit)


def _with_hold(hold: int, m: int) -> Schedule:
    """The rule, for a stage that holds at most ``hold`` micro-batches."""
    actions, forwards = [], 0
    for backward in range(m):
        while forwards < m and forwards - backward < hold:
            actions.append(("F", forwards))
            forwards += 1
        actions.append(("B", backward))
    return actions


def is_always_gpipe(stage: int, m: int, limit: int) -> Schedule:
    return [("F", i) for i in range(m)] + [("B", i) for i in range(m)]


def forgets_the_stage(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(max(1, limit), m)


def forgets_that_one_must_be_held(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(limit - stage, m)


def holds_one_more(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(max(1, limit - stage) + 1, m)


def holds_one_less(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(max(1, limit - stage - 1), m)


def takes_the_newest_backward(stage: int, m: int, limit: int) -> Schedule:
    actions, held, forwards = [], [], 0
    while forwards < m or held:
        if forwards < m and len(held) < max(1, limit - stage):
            actions.append(("F", forwards))
            held.append(forwards)
            forwards += 1
        else:
            actions.append(("B", held.pop()))
    return actions


def does_gpipe_backwards_in_reverse(stage: int, m: int, limit: int) -> Schedule:
    hold = max(1, limit - stage)
    if hold < m:
        return _with_hold(hold, m)
    return [("F", i) for i in range(m)] + [("B", i) for i in reversed(range(m))]


def forgets_the_last_backwards(stage: int, m: int, limit: int) -> Schedule:
    hold = min(max(1, limit - stage), m)
    return _with_hold(hold, m)[: len(_with_hold(hold, m)) - (hold - 1)]


def expects_enough_micro_batches(stage: int, m: int, limit: int) -> Schedule:
    hold = max(1, limit - stage)
    actions = [("F", i) for i in range(hold)]
    for i in range(max(m - hold, 0)):
        actions += [("B", i), ("F", hold + i)]
    return actions + [("B", i) for i in range(max(m - hold, 0), m)]


def empties_before_it_fills_again(stage: int, m: int, limit: int) -> Schedule:
    hold, actions = max(1, limit - stage), []
    for start in range(0, m, hold):
        group = range(start, min(start + hold, m))
        actions += [("F", i) for i in group] + [("B", i) for i in group]
    return actions


def spells_the_names_out(stage: int, m: int, limit: int) -> Schedule:
    names = {"F": "forward", "B": "backward"}
    return [(names[kind], i) for kind, i in _with_hold(max(1, limit - stage), m)]


def counts_from_one(stage: int, m: int, limit: int) -> Schedule:
    return [(kind, i + 1) for kind, i in _with_hold(max(1, limit - stage), m)]


def loops_for_ever_behind_the_limit(stage: int, m: int, limit: int) -> Schedule:
    actions, forwards, backwards = [], 0, 0
    while backwards < m:
        if forwards < m and forwards - backwards < limit - stage:
            actions.append(("F", forwards))
            forwards += 1
        elif backwards < forwards:
            actions.append(("B", backwards))
            backwards += 1
    return actions


def begins_with_a_backward(stage: int, m: int, limit: int) -> Schedule:
    warmup = min(max(0, limit - stage - 1), m)
    actions = [("F", i) for i in range(warmup)]
    for i in range(m - warmup):
        actions += [("B", i), ("F", warmup + i)]
    return actions + [("B", i) for i in range(m - warmup, m)]


def does_forwards_that_are_not_there(stage: int, m: int, limit: int) -> Schedule:
    warmup = max(1, limit - stage) - 1
    actions = [("F", i) for i in range(warmup)]
    for i in range(m):
        actions += [("F", warmup + i), ("B", i)]
    return actions


def writes_the_stage_too(stage: int, m: int, limit: int) -> list[tuple[str, int, int]]:
    return [(kind, stage, i) for kind, i in _with_hold(max(1, limit - stage), m)]


def joins_kind_and_number(stage: int, m: int, limit: int) -> list[str]:
    return [f"{kind}{i}" for kind, i in _with_hold(max(1, limit - stage), m)]


def makes_the_whole_schedule(stage: int, m: int, limit: int) -> list[Schedule]:
    return [_with_hold(max(1, limit - s), m) for s in range(stage + 1)]


def counts_stages_from_the_end(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(min(stage + 1, limit), m)


def subtracts_the_stage_from_what_there_is(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(max(1, min(limit, m) - stage), m)


def knows_only_the_two_ends(stage: int, m: int, limit: int) -> Schedule:
    return _with_hold(max(1, 4 - stage) if limit <= 4 else m, m)


# 16.2: gpipe_idle(forward, backward, m)


def _idle(forward: list[float], backward: list[float], m: int, total: float) -> list[float]:
    return [1 - m * (f + b) / total for f, b in zip(forward, backward, strict=True)]


def takes_them_for_balanced(forward: list[float], backward: list[float], m: int) -> list[float]:
    p = len(forward)
    return [(p - 1) / (m + p - 1)] * p


def takes_the_average_stage(forward: list[float], backward: list[float], m: int) -> list[float]:
    p = len(forward)
    return _idle(forward, backward, m, (sum(forward) + sum(backward)) / p * (m + p - 1))


def takes_the_slowest_for_all(forward: list[float], backward: list[float], m: int) -> list[float]:
    return _idle(forward, backward, m, (m + len(forward) - 1) * (max(forward) + max(backward)))


def looks_for_one_slowest_stage(forward: list[float], backward: list[float], m: int) -> list[float]:
    both = [f + b for f, b in zip(forward, backward, strict=True)]
    return _idle(forward, backward, m, sum(both) + (m - 1) * max(both))


def returns_seconds(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [total - m * (f + b) for f, b in zip(forward, backward, strict=True)]


def returns_the_busy_share(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [m * (f + b) / total for f, b in zip(forward, backward, strict=True)]


def divides_by_the_busy_time(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [total / (m * (f + b)) - 1 for f, b in zip(forward, backward, strict=True)]


def forgets_the_backward(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + (m - 1) * max(forward)
    return [1 - m * f / total for f in forward]


def counts_the_slowest_once_more(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + m * (max(forward) + max(backward))
    return _idle(forward, backward, m, total)


def returns_the_average(forward: list[float], backward: list[float], m: int) -> float:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return sum(_idle(forward, backward, m, total)) / len(forward)


def takes_backward_for_twice_forward(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = 3 * (sum(forward) + (m - 1) * max(forward))
    return _idle(forward, backward, m, total)


def forgets_to_fill_the_pipeline(forward: list[float], backward: list[float], m: int) -> list[float]:
    return _idle(forward, backward, m, m * (max(forward) + max(backward)))


def measures_each_rank_in_its_own_time(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    idle = []
    for s, (f, b) in enumerate(zip(forward, backward, strict=True)):
        own = total - sum(forward[:s]) - sum(backward[:s])
        idle.append(1 - m * (f + b) / own)
    return idle


def counts_only_the_fill_and_the_drain(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [(sum(forward[:s]) + sum(backward[:s])) / total for s in range(len(forward))]


def takes_the_last_stage_for_the_slowest(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (forward[-1] + backward[-1])
    return _idle(forward, backward, m, total)


def takes_the_first_stage_for_the_slowest(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (forward[0] + backward[0])
    return _idle(forward, backward, m, total)


def overlaps_forwards_and_backwards(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * max(*forward, *backward)
    return _idle(forward, backward, m, total)


def returns_percent(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [100 * share for share in _idle(forward, backward, m, total)]


def rounds_to_percent(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [round(share, 2) for share in _idle(forward, backward, m, total)]


def sorts_the_stages(forward: list[float], backward: list[float], m: int) -> list[float]:
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return sorted(_idle(forward, backward, m, total), reverse=True)


def takes_the_ideal_time_of_the_slowest(forward: list[float], backward: list[float], m: int) -> list[float]:
    ideal = m * (max(forward) + max(backward))
    total = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    return [(total - m * (f + b)) / ideal for f, b in zip(forward, backward, strict=True)]


# 16.3: one_f_one_b_step(part, inputs, targets, m)


class _Stage:
    """A rank's forwards and backwards; the wrong steps change the order, or one of these moves."""

    def __init__(self, part: nn.Module, inputs: Batches, targets: Batches, m: int) -> None:
        self.part, self.inputs, self.targets, self.m = part, inputs, targets, m
        self.rank, self.last = dist.get_rank(), dist.get_world_size() - 1
        self.held: deque[tuple[torch.Tensor, torch.Tensor]] = deque()
        self.sending: list[Any] = []
        self.loss, self.count, self.keep = 0.0, 0, []

    def send(self, tensor: torch.Tensor, to: int) -> None:
        self.keep.append(tensor.contiguous())
        self.sending.append(dist.isend(self.keep[-1], to))

    def receive(self, source: int) -> torch.Tensor:
        tensor = torch.empty(4, 16, dtype=torch.float64)
        dist.recv(tensor, source)
        return tensor

    def take(self) -> torch.Tensor:
        if self.rank == 0:
            return self.inputs[self.count]
        return self.receive(self.rank - 1).requires_grad_()

    def loss_of(self, y: torch.Tensor) -> torch.Tensor:
        return mse_loss(y, self.targets[self.count]) / self.m

    def forward(self) -> None:
        x = self.take()
        y = self.part(x)
        if self.rank < self.last:
            self.send(y.detach(), self.rank + 1)
        else:
            y = self.loss_of(y)
            self.loss += y.item()
        self.held.append((x, y))
        self.count += 1

    def backward(self) -> None:
        x, y = self.held.popleft()
        y.backward(self.receive(self.rank + 1) if self.rank < self.last else None)
        if self.rank > 0:
            self.send(x.grad, self.rank - 1)

    def run(self, hold: int) -> float | None:
        done = 0
        while done < self.m:
            if self.count < self.m and len(self.held) < hold:
                self.forward()
            else:
                self.backward()
                done += 1
        return self.finish()

    def finish(self) -> float | None:
        for work in self.sending:
            work.wait()
        return self.loss if self.rank == self.last else None


def _hold(m: int) -> int:
    return min(dist.get_world_size() - dist.get_rank(), m)


def runs_gpipe(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Stage(part, inputs, targets, m).run(m)


def holds_as_many_on_each_rank(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Stage(part, inputs, targets, m).run(min(dist.get_world_size(), m))


class _SumOfLosses(_Stage):
    def loss_of(self, y: torch.Tensor) -> torch.Tensor:
        return mse_loss(y, self.targets[self.count])


def forgets_to_divide_by_m(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _SumOfLosses(part, inputs, targets, m).run(_hold(m))


def returns_the_sum_of_losses(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    loss = _Stage(part, inputs, targets, m).run(_hold(m))
    return None if loss is None else loss * m


class _LastLoss(_Stage):
    def loss_of(self, y: torch.Tensor) -> torch.Tensor:
        self.loss = 0.0
        return super().loss_of(y)


def returns_the_last_micro_batchs_loss(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    loss = _LastLoss(part, inputs, targets, m).run(_hold(m))
    return None if loss is None else loss * m


def returns_a_loss_everywhere(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float:
    return _Stage(part, inputs, targets, m).run(_hold(m)) or 0.0


class _NoGradient(_Stage):
    def take(self) -> torch.Tensor:
        return super().take().detach()


def forgets_requires_grad(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _NoGradient(part, inputs, targets, m).run(_hold(m))


class _Recomputes(_Stage):
    def forward(self) -> None:
        x = self.take()
        with torch.no_grad():
            y = self.part(x)
            if self.rank < self.last:
                self.send(y, self.rank + 1)
        self.held.append((x, torch.tensor(self.count)))
        self.count += 1

    def backward(self) -> None:
        x, number = self.held.popleft()
        y = self.part(x)
        if self.rank == self.last:
            y = mse_loss(y, self.targets[int(number)]) / self.m
            self.loss += y.item()
        y.backward(self.receive(self.rank + 1) if self.rank < self.last else None)
        if self.rank > 0:
            self.send(x.grad, self.rank - 1)


def calls_part_twice(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Recomputes(part, inputs, targets, m).run(_hold(m))


class _OutputGradient(_Stage):
    def backward(self) -> None:
        _, y = self.held.popleft()
        gradient = self.receive(self.rank + 1) if self.rank < self.last else None
        y.backward(gradient)
        if self.rank > 0:
            self.send(
                torch.zeros(4, 16, dtype=torch.float64) if gradient is None else gradient, self.rank - 1
            )


def passes_the_outputs_gradient_on(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    return _OutputGradient(part, inputs, targets, m).run(_hold(m))


def averages_gradients_over_stages(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    loss = _Stage(part, inputs, targets, m).run(_hold(m))
    for p in part.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    return loss


def runs_one_micro_batch_at_a_time(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    return _Stage(part, inputs, targets, m).run(1)


def waits_for_a_gradient_first(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    stage = _Stage(part, inputs, targets, m)
    if stage.rank < stage.last:
        stage.receive(stage.rank + 1)
    return stage.run(_hold(m))


def expects_as_many_micro_batches_as_ranks(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    stage = _Stage(part, inputs, targets, m)
    for _ in range(dist.get_world_size() - stage.rank):
        stage.forward()
    for _ in range(m - (dist.get_world_size() - stage.rank)):
        stage.backward()
        stage.forward()
    while stage.held:
        stage.backward()
    return stage.finish()


def forgets_the_last_backwards_of_the_step(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    stage = _Stage(part, inputs, targets, m)
    for _ in range(_hold(m)):
        stage.forward()
    for _ in range(m - _hold(m)):
        stage.backward()
        stage.forward()
    return stage.finish()


def calls_pytorchs_schedule(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(part, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=m, loss_fn=mse_loss)
    losses: list[torch.Tensor] = []
    if rank == 0:
        schedule.step(torch.cat(inputs))
    elif rank == size - 1:
        schedule.step(target=torch.cat(targets), losses=losses)
    else:
        schedule.step()
    return torch.stack(losses).mean().item() if losses else None


def updates_the_weights_too(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    loss = _Stage(part, inputs, targets, m).run(_hold(m))
    with torch.no_grad():
        for p in part.parameters():
            p -= 0.1 * p.grad
    return loss


class _ClearsGradients(_Stage):
    def backward(self) -> None:
        self.part.zero_grad()
        super().backward()


def clears_the_gradient_before_each_backward(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    return _ClearsGradients(part, inputs, targets, m).run(_hold(m))


class _Newest(_Stage):
    def backward(self) -> None:
        self.held.rotate(1)  # the newest comes to the front
        super().backward()


def takes_the_newest_micro_batch(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Newest(part, inputs, targets, m).run(_hold(m))


class _KeepsGraphs(_Stage):
    def backward(self) -> None:
        x, y = self.held[0]
        self.keep.append(y)
        y.backward(self.receive(self.rank + 1) if self.rank < self.last else None, retain_graph=True)
        self.held.popleft()
        if self.rank > 0:
            self.send(x.grad, self.rank - 1)


def keeps_every_graph(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _KeepsGraphs(part, inputs, targets, m).run(_hold(m))


class _ShapeFirst(_Stage):
    def send(self, tensor: torch.Tensor, to: int) -> None:
        super().send(torch.tensor(tensor.shape), to)
        super().send(tensor, to)

    def receive(self, source: int) -> torch.Tensor:
        shape = torch.empty(2, dtype=torch.int64)
        dist.recv(shape, source)
        return super().receive(source)


def sends_the_shape_first(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _ShapeFirst(part, inputs, targets, m).run(_hold(m))


class _Blocking(_Stage):
    def send(self, tensor: torch.Tensor, to: int) -> None:
        dist.send(tensor.contiguous(), to)


def sends_and_waits(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Blocking(part, inputs, targets, m).run(_hold(m))


class _Float32(_Stage):
    def receive(self, source: int) -> torch.Tensor:
        tensor = torch.empty(4, 16)
        dist.recv(tensor, source)
        return tensor


def receives_into_float32(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Float32(part, inputs, targets, m).run(_hold(m))


class _SumOfErrors(_Stage):
    def loss_of(self, y: torch.Tensor) -> torch.Tensor:
        return mse_loss(y, self.targets[self.count], reduction="sum") / self.m


def sums_the_squared_errors(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _SumOfErrors(part, inputs, targets, m).run(_hold(m))


class _FirstOrLast(_Stage):
    def loss_of(self, y: torch.Tensor) -> torch.Tensor:
        if self.rank == 0:  # "rank 0 has no targets"
            return y.mean() / self.m
        return super().loss_of(y)


def expects_two_ranks_or_more(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _FirstOrLast(part, inputs, targets, m).run(_hold(m))


def expects_four_ranks(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    stage = _Stage(part, inputs, targets, m)
    stage.last = 3
    return stage.run(min(4 - stage.rank, m))


def shares_the_loss_with_all_ranks(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float:
    loss = torch.tensor(_Stage(part, inputs, targets, m).run(_hold(m)) or 0.0)
    dist.broadcast(loss, src=dist.get_world_size() - 1)
    return loss.item()


class _Broadcasts(_Stage):
    def send(self, tensor: torch.Tensor, to: int) -> None:
        raise NotImplementedError

    def run(self, hold: int) -> float | None:
        for i in range(self.m):  # one micro-batch at a time, by collectives
            message = torch.zeros(4, 16, dtype=torch.float64)
            for rank in range(self.last + 1):
                if rank == self.rank:
                    x = self.inputs[i] if rank == 0 else message.clone().requires_grad_()
                    y = self.part(x)
                    message = y.detach().clone()
                dist.broadcast(message, src=rank)
            for rank in range(self.last, -1, -1):
                if rank == self.rank:
                    if rank == self.last:
                        y = mse_loss(y, self.targets[i]) / self.m
                        self.loss += y.item()
                    y.backward(None if rank == self.last else message)
                    message = message if rank == 0 else x.grad.clone()
                dist.broadcast(message, src=rank)
        return self.loss if self.rank == self.last else None


def broadcasts_instead_of_sending(part: nn.Module, inputs: Batches, targets: Batches, m: int) -> float | None:
    return _Broadcasts(part, inputs, targets, m).run(_hold(m))


class _Ones(_Stage):
    def receive(self, source: int) -> torch.Tensor:
        tensor = super().receive(source)
        return torch.ones_like(tensor) if source > self.rank else tensor


def goes_back_without_the_gradient_it_was_sent(
    part: nn.Module, inputs: Batches, targets: Batches, m: int
) -> float | None:
    return _Ones(part, inputs, targets, m).run(_hold(m))


MUTANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "16.1": (
        is_always_gpipe,
        forgets_the_stage,
        forgets_that_one_must_be_held,
        holds_one_more,
        holds_one_less,
        takes_the_newest_backward,
        does_gpipe_backwards_in_reverse,
        forgets_the_last_backwards,
        expects_enough_micro_batches,
        empties_before_it_fills_again,
        spells_the_names_out,
        counts_from_one,
        loops_for_ever_behind_the_limit,
        begins_with_a_backward,
        does_forwards_that_are_not_there,
        writes_the_stage_too,
        joins_kind_and_number,
        makes_the_whole_schedule,
        counts_stages_from_the_end,
        subtracts_the_stage_from_what_there_is,
        knows_only_the_two_ends,
    ),
    "16.2": (
        takes_them_for_balanced,
        takes_the_average_stage,
        takes_the_slowest_for_all,
        looks_for_one_slowest_stage,
        returns_seconds,
        returns_the_busy_share,
        divides_by_the_busy_time,
        forgets_the_backward,
        counts_the_slowest_once_more,
        returns_the_average,
        takes_backward_for_twice_forward,
        forgets_to_fill_the_pipeline,
        measures_each_rank_in_its_own_time,
        counts_only_the_fill_and_the_drain,
        takes_the_last_stage_for_the_slowest,
        takes_the_first_stage_for_the_slowest,
        overlaps_forwards_and_backwards,
        returns_percent,
        rounds_to_percent,
        sorts_the_stages,
        takes_the_ideal_time_of_the_slowest,
    ),
    "16.3": (
        runs_gpipe,
        holds_as_many_on_each_rank,
        forgets_to_divide_by_m,
        returns_the_sum_of_losses,
        returns_the_last_micro_batchs_loss,
        returns_a_loss_everywhere,
        forgets_requires_grad,
        calls_part_twice,
        passes_the_outputs_gradient_on,
        averages_gradients_over_stages,
        runs_one_micro_batch_at_a_time,
        waits_for_a_gradient_first,
        expects_as_many_micro_batches_as_ranks,
        forgets_the_last_backwards_of_the_step,
        calls_pytorchs_schedule,
        updates_the_weights_too,
        clears_the_gradient_before_each_backward,
        takes_the_newest_micro_batch,
        keeps_every_graph,
        sends_the_shape_first,
        sends_and_waits,
        receives_into_float32,
        sums_the_squared_errors,
        expects_two_ranks_or_more,
        expects_four_ranks,
        shares_the_loss_with_all_ranks,
        broadcasts_instead_of_sending,
        goes_back_without_the_gradient_it_was_sent,
    ),
}

FITS = {
    "is_always_gpipe": "all forwards first",
    "forgets_the_stage": "too many micro-batches held",
    "forgets_that_one_must_be_held": "hold none could not work at all",
    "expects_enough_micro_batches": "there are m micro-batches",
    "counts_from_one": "count from 0",
    "begins_with_a_backward": "another forward before it waits for a backward",
    "holds_one_more": "one too many",
    "holds_one_less": "fewer than it may",
    "takes_the_newest_backward": "oldest first",
    "does_gpipe_backwards_in_reverse": "order of the forwards",
    "forgets_the_last_backwards": "one forward and one backward",
    "empties_before_it_fills_again": "after each backward",
    "spells_the_names_out": "pairs such as",
    "takes_them_for_balanced": "equal stages",
    "takes_the_average_stage": "in an average stage: which one sets the pace",
    "takes_the_last_stage_for_the_slowest": "need not be the last",
    "takes_the_first_stage_for_the_slowest": "need not be the first",
    "overlaps_forwards_and_backwards": "first come all forwards, then all backwards",
    "takes_the_slowest_for_all": "what does filling really take",
    "looks_for_one_slowest_stage": "need not be in one stage",
    "returns_seconds": "not its share",
    "returns_the_busy_share": "in which it works",
    "divides_by_the_busy_time": "not of a stage's working time",
    "counts_the_slowest_once_more": "m - 1 micro-batches",
    "returns_the_average": "a number for each stage",
    "runs_gpipe": "that is GPipe",
    "holds_as_many_on_each_rank": "before its first backward",
    "forgets_to_divide_by_m": "6 times what was expected",
    "returns_the_sum_of_losses": "6 times what was expected",
    "returns_the_last_micro_batchs_loss": "mean loss of the whole batch",
    "returns_a_loss_everywhere": "does not know the loss",
    "forgets_requires_grad": r"m=6, 4 ranks; backward fills x\.grad only where x\.requires_grad",
    "expects_as_many_micro_batches_as_ranks": r"list index out of range \(m=2, 4 ranks\)",
    "forgets_the_last_backwards_of_the_step": r"waits in wait[\s\S]+up to the last gradient",
    "calls_pytorchs_schedule": "PyTorch's schedules, not allowed",
    "calls_part_twice": "calls of part",
    "passes_the_outputs_gradient_on": "the last rank's is right",
    "averages_gradients_over_stages": "a collective ran",
    "runs_one_micro_batch_at_a_time": "one micro-batch at a time",
    "waits_for_a_gradient_first": "had not finished",
    "loops_for_ever_behind_the_limit": "a late stage",
    "does_forwards_that_are_not_there": "there are m micro-batches",
    "writes_the_stage_too": "pairs such as",
    "joins_kind_and_number": "pairs such as",
    "makes_the_whole_schedule": "pairs such as",
    "counts_stages_from_the_end": "fewer than it may",
    "subtracts_the_stage_from_what_there_is": "fewer than it may",
    "knows_only_the_two_ends": "too many micro-batches held",
    "takes_backward_for_twice_forward": "need not take twice",
    "forgets_the_backward": "times of their own",
    "forgets_to_fill_the_pipeline": "fills and drains",
    "measures_each_rank_in_its_own_time": "the same for all",
    "counts_only_the_fill_and_the_drain": "waits in the middle",
    "returns_percent": "between 0 and 1",
    "rounds_to_percent": "rounded",
    "sorts_the_stages": "wrong places",
    "takes_the_ideal_time_of_the_slowest": "not of the ideal time",
    "updates_the_weights_too": "parameters changed",
    "clears_the_gradient_before_each_backward": "nothing clears it",
    "takes_the_newest_micro_batch": "oldest first",
    "keeps_every_graph": "retain_graph",
    "sends_the_shape_first": "12 to rank 1",
    "sends_and_waits": "waits in send",
    "receives_into_float32": "tensors of different shapes",
    "sums_the_squared_errors": "over all elements",
    "expects_two_ranks_or_more": "1 rank: ",
    "expects_four_ranks": "had not finished|stopped before",
    "shares_the_loss_with_all_ranks": "a collective ran",
    "broadcasts_instead_of_sending": "one micro-batch at a time",
    "goes_back_without_the_gradient_it_was_sent": "the last rank's is right",
}
