"""Reference solutions of chapter 18."""

from collections.abc import Callable

import torch
import torch.distributed as dist


def should_stop(losses: torch.Tensor, limit: float) -> bool:
    """Whether the mean loss over all samples of all ranks is below limit; the same answer on all ranks.

    losses: (n,), this rank's; n differs between ranks, and may be 0.
    """
    total = torch.stack([losses.sum(), losses.new_tensor(len(losses))])
    dist.all_reduce(total)  # called by all; then each rank knows, and nobody has to be told
    return bool(total[0] / total[1] < limit)


def average_by_name(gradients: dict[str, torch.Tensor]) -> None:
    """Replace each gradient, in place, by its average over the ranks.

    gradients: the same names and shapes on all ranks, but on each in the order in which they became ready.
    """
    for name in sorted(gradients):  # an order that all ranks agree on
        dist.all_reduce(gradients[name])
        gradients[name] /= dist.get_world_size()


def train_epoch(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    """One pass over the batches of all ranks. Returns the number of steps, the same on all ranks.

    weight: (D,), equal on all ranks, changed in place. batches: each (B, D); B differs, and so does their
    number, which may be 0. A sample's gradient is weight - sample.
    """
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)
    nothing = weight.new_empty(0, len(weight))  # a batch without samples: its sum is 0, its count too
    for batch in batches + [nothing] * (int(steps) - len(batches)):
        total = torch.cat([(weight - batch).sum(0), weight.new_tensor([len(batch)])])  # (D + 1,)
        dist.all_reduce(total)
        weight -= lr * total[:-1] / total[-1]
    return int(steps)


def careful_average(
    batch: torch.Tensor, gradient_of: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor | None:
    """The average over ranks of gradient_of(batch); None on all ranks where it raised ValueError on any.

    batch: (B, D). gradient_of(batch): (D,), of batch's type; nan in it is no error. Other exceptions pass.
    """
    failed = batch.new_zeros(1)
    try:
        gradient = gradient_of(batch)
    except ValueError:
        gradient, failed = batch.new_zeros(batch.shape[1]), failed + 1
    total = torch.cat([gradient, failed])  # (D + 1,): the ranks that failed are counted on the way
    dist.all_reduce(total)
    return None if total[-1] else total[:-1] / dist.get_world_size()


def overlapped_step(weights: list[torch.Tensor], gradients: list[torch.Tensor], lr: float) -> None:
    """Move each weight, in place, by -lr times the average over ranks of its gradient."""
    works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for weight, gradient, work in zip(weights, gradients, works, strict=True):
        work.wait()
        weight -= lr * gradient / dist.get_world_size()


SOLUTIONS = {
    "18.1": should_stop,
    "18.2": average_by_name,
    "18.3": train_epoch,
    "18.4": careful_average,
    "18.5": overlapped_step,
}
