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
    return stage.loss if stage.rank == stage.last else None


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
    ),
}

FITS = {
    "is_always_gpipe": "all forwards first",
    "forgets_the_stage": "too many micro-batches held",
    "holds_one_more": "one too many",
    "holds_one_less": "fewer than it may",
    "takes_the_newest_backward": "oldest first",
    "does_gpipe_backwards_in_reverse": "order of the forwards",
    "forgets_the_last_backwards": "one forward and one backward",
    "empties_before_it_fills_again": "after each backward",
    "spells_the_names_out": "pairs such as",
    "takes_them_for_balanced": "equal stages",
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
    "calls_part_twice": "calls of part",
    "passes_the_outputs_gradient_on": "the last rank's is right",
    "averages_gradients_over_stages": "a collective ran",
    "runs_one_micro_batch_at_a_time": "one micro-batch at a time",
    "waits_for_a_gradient_first": "had not finished",
}
