"""Wrong solutions of chapter 18: five programs mended in the wrong place, or only half."""

from collections.abc import Callable

import torch
import torch.distributed as dist

# 18.1: should_stop(losses, limit)


def _sum_and_count(losses: torch.Tensor) -> torch.Tensor:
    return torch.stack([losses.sum(), losses.new_tensor(len(losses))])


def left_the_sum_to_rank_0(losses: torch.Tensor, limit: float) -> bool:
    total, stop = _sum_and_count(losses), torch.zeros(1)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
        stop[0] = total[0] / total[1] < limit
    dist.broadcast(stop, src=0)
    return bool(stop)


def rank_0_judges_by_its_own_losses(losses: torch.Tensor, limit: float) -> bool:
    stop = torch.zeros(1)
    if dist.get_rank() == 0 and len(losses):
        stop[0] = losses.mean() < limit
    dist.broadcast(stop, src=0)
    return bool(stop)


def only_rank_0_hears_the_sum(losses: torch.Tensor, limit: float) -> bool:
    total = _sum_and_count(losses)
    dist.reduce(total, dst=0)
    return bool(total[0] / total[1] < limit)


def takes_the_mean_of_the_means(losses: torch.Tensor, limit: float) -> bool:
    mean = losses.mean() if len(losses) else losses.new_zeros(())
    dist.all_reduce(mean)
    return bool(mean / dist.get_world_size() < limit)


def skips_the_collective_without_samples(losses: torch.Tensor, limit: float) -> bool:
    if len(losses) == 0:
        return False
    total = _sum_and_count(losses)
    dist.all_reduce(total)
    return bool(total[0] / total[1] < limit)


def each_rank_decides_for_itself(losses: torch.Tensor, limit: float) -> bool:
    return bool(losses.mean() < limit)


def all_ranks_have_to_agree(losses: torch.Tensor, limit: float) -> bool:
    votes = torch.tensor(float(len(losses) == 0 or losses.mean() < limit))
    dist.all_reduce(votes, op=dist.ReduceOp.MIN)
    return bool(votes)


def gathers_all_losses(losses: torch.Tensor, limit: float) -> bool:
    lengths = torch.empty(dist.get_world_size(), dtype=torch.int64)
    dist.all_gather_single(lengths, torch.tensor([len(losses)]))
    padded = losses.new_zeros(int(lengths.max()))
    padded[: len(losses)] = losses
    everybody = losses.new_empty(dist.get_world_size() * len(padded))
    dist.all_gather_single(everybody, padded)
    return bool(everybody.sum() / lengths.sum() < limit)


def puts_a_barrier_before_the_broadcast(losses: torch.Tensor, limit: float) -> bool:
    total, stop = _sum_and_count(losses), torch.zeros(1)
    if dist.get_rank() == 0:
        dist.all_reduce(total)
        stop[0] = total[0] / total[1] < limit
    dist.barrier()
    dist.broadcast(stop, src=0)
    return bool(stop)


def compares_the_sum_with_the_limit(losses: torch.Tensor, limit: float) -> bool:
    total = losses.sum()
    dist.all_reduce(total)
    return bool(total < limit)


# 18.2: average_by_name(gradients)


def averages_in_the_order_of_arrival(gradients: dict[str, torch.Tensor]) -> None:
    for gradient in gradients.values():
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def sorts_by_size(gradients: dict[str, torch.Tensor]) -> None:
    for gradient in sorted(gradients.values(), key=torch.Tensor.numel):
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def sorts_by_the_hash_of_the_name(gradients: dict[str, torch.Tensor]) -> None:
    for name in sorted(gradients, key=lambda name: hash((name, dist.get_rank()))):
        dist.all_reduce(gradients[name])
        gradients[name] /= dist.get_world_size()


def forgot_to_divide(gradients: dict[str, torch.Tensor]) -> None:
    for name in sorted(gradients):
        dist.all_reduce(gradients[name])


def puts_new_tensors_into_the_dictionary(gradients: dict[str, torch.Tensor]) -> None:
    for name in sorted(gradients):
        total = gradients[name].clone()
        dist.all_reduce(total)
        gradients[name] = total / dist.get_world_size()


def divides_a_copy(gradients: dict[str, torch.Tensor]) -> None:
    for name in sorted(gradients):
        gradient = gradients[name]
        dist.all_reduce(gradient)
        gradient = gradient / dist.get_world_size()


def agrees_on_the_names_by_objects(gradients: dict[str, torch.Tensor]) -> None:
    names = [list(gradients)]
    dist.broadcast_object_list(names, src=0)
    for name in names[0]:
        dist.all_reduce(gradients[name])
        gradients[name] /= dist.get_world_size()


def puts_a_barrier_before_each(gradients: dict[str, torch.Tensor]) -> None:
    for gradient in gradients.values():
        dist.barrier()
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def packs_all_in_the_order_of_arrival(gradients: dict[str, torch.Tensor]) -> None:
    packed = torch.cat([gradient.flatten() for gradient in gradients.values()])
    dist.all_reduce(packed)
    packed /= dist.get_world_size()
    for gradient, part in zip(
        gradients.values(), packed.split([g.numel() for g in gradients.values()]), strict=True
    ):
        gradient.copy_(part.view_as(gradient))


# 18.3: train_epoch(weight, batches, lr)


def _step(weight: torch.Tensor, batch: torch.Tensor, lr: float) -> None:
    total = torch.cat([(weight - batch).sum(0), weight.new_tensor([len(batch)])])
    dist.all_reduce(total)
    weight -= lr * total[:-1] / total[-1]


def _agree(batches: list[torch.Tensor], op: dist.ReduceOp.RedOpType) -> int:
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=op)
    return int(steps)


def each_rank_takes_its_own_steps(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    for batch in batches:
        _step(weight, batch, lr)
    return len(batches)


def leaves_the_last_batches_out(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MIN)
    for batch in batches[:steps]:
        _step(weight, batch, lr)
    return steps


def brings_the_last_batch_again(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        _step(weight, batches[min(step, len(batches) - 1)] if batches else weight[None][:0], lr)
    return steps


def starts_again_from_the_first_batch(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        _step(weight, batches[step % len(batches)], lr)
    return steps


def counts_a_sample_of_zeros(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        _step(weight, batches[step] if step < len(batches) else torch.zeros_like(weight)[None], lr)
    return steps


def brings_a_gradient_of_zero_that_counts(
    weight: torch.Tensor, batches: list[torch.Tensor], lr: float
) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        mean = (weight - batches[step]).mean(0) if step < len(batches) else torch.zeros_like(weight)
        dist.all_reduce(mean)
        weight -= lr * mean / dist.get_world_size()
    return steps


def returns_its_own_number(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    for step in range(_agree(batches, dist.ReduceOp.MAX)):
        _step(weight, batches[step] if step < len(batches) else weight[None][:0], lr)
    return len(batches)


def takes_the_steps_of_rank_0(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = torch.tensor(len(batches))
    dist.broadcast(steps, src=0)
    for step in range(steps):
        _step(weight, batches[step] if step < len(batches) else weight[None][:0], lr)
    return int(steps)


def asks_before_each_step(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    step = 0
    while _agree(batches[step:], dist.ReduceOp.MAX):
        _step(weight, batches[step] if step < len(batches) else weight[None][:0], lr)
        step += 1
    return step


def moves_only_while_it_has_batches(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        batch = batches[step] if step < len(batches) else weight[None][:0]
        total = torch.cat([(weight - batch).sum(0), weight.new_tensor([len(batch)])])
        dist.all_reduce(total)
        if step < len(batches):
            weight -= lr * total[:-1] / total[-1]
    return steps


def trains_a_copy(weight: torch.Tensor, batches: list[torch.Tensor], lr: float) -> int:
    steps = _agree(batches, dist.ReduceOp.MAX)
    for step in range(steps):
        batch = batches[step] if step < len(batches) else weight[None][:0]
        total = torch.cat([(weight - batch).sum(0), weight.new_tensor([len(batch)])])
        dist.all_reduce(total)
        weight = weight - lr * total[:-1] / total[-1]
    return steps


# 18.4: careful_average(batch, gradient_of)
GradientOf = Callable[[torch.Tensor], torch.Tensor]


def skips_the_collective_after_an_error(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient = gradient_of(batch)
    except ValueError:
        return None
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def brings_zeros_after_an_error(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient = gradient_of(batch)
    except ValueError:
        gradient = batch.new_zeros(batch.shape[1])
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def averages_over_those_that_are_well(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, well = gradient_of(batch), 1
    except ValueError:
        gradient, well = batch.new_zeros(batch.shape[1]), 0
    packed = torch.cat([gradient, gradient.new_tensor([well])])
    dist.all_reduce(packed)
    return packed[:-1] / packed[-1] if packed[-1] else None


def none_on_the_bad_rank_alone(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient = gradient_of(batch)
    except ValueError:
        gradient = None
    total = batch.new_zeros(batch.shape[1]) if gradient is None else gradient.clone()
    dist.all_reduce(total)
    return None if gradient is None else total / dist.get_world_size()


def lets_the_error_through(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    gradient = gradient_of(batch)
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def catches_every_error(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, bad = gradient_of(batch), 0
    except Exception:
        gradient, bad = batch.new_zeros(batch.shape[1]), 1
    packed = torch.cat([gradient, gradient.new_tensor([bad])])
    dist.all_reduce(packed)
    return None if packed[-1] else packed[:-1] / dist.get_world_size()


def marks_the_error_by_nan(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    """A gradient that is not a number for another reason is taken for an error."""
    try:
        gradient = gradient_of(batch).clone()
    except ValueError:
        gradient = batch.new_full(batch.shape[1:], torch.nan)
    dist.all_reduce(gradient)
    return None if gradient.isnan().any() else gradient / dist.get_world_size()


def none_only_if_all_are_bad(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, bad = gradient_of(batch), torch.tensor(0)
    except ValueError:
        gradient, bad = batch.new_zeros(batch.shape[1]), torch.tensor(1)
    dist.all_reduce(bad, op=dist.ReduceOp.MIN)
    if bad:
        return None
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def forgot_to_divide_by_world_size(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, bad = gradient_of(batch), 0
    except ValueError:
        gradient, bad = batch.new_zeros(batch.shape[1]), 1
    packed = torch.cat([gradient, gradient.new_tensor([bad])])
    dist.all_reduce(packed)
    return None if packed[-1] else packed[:-1]


def takes_zeros_of_the_default_type(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, bad = gradient_of(batch), 0.0
    except ValueError:
        gradient, bad = torch.zeros(batch.shape[1]), 1.0
    packed = torch.cat([gradient, gradient.new_tensor([bad])])
    dist.all_reduce(packed)
    return None if packed[-1] else packed[:-1] / dist.get_world_size()


def asks_by_objects(batch: torch.Tensor, gradient_of: GradientOf) -> torch.Tensor | None:
    try:
        gradient, bad = gradient_of(batch), False
    except ValueError:
        gradient, bad = None, True
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, bad)
    if any(everybody):
        return None
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


# 18.5: overlapped_step(weights, gradients, lr)
Tensors = list[torch.Tensor]


def forgot_to_wait(weights: Tensors, gradients: Tensors, lr: float) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        dist.all_reduce(gradient, async_op=True)
        weight -= lr * gradient / dist.get_world_size()


def waits_for_each_at_once(weights: Tensors, gradients: Tensors, lr: float) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        dist.all_reduce(gradient, async_op=True).wait()
        weight -= lr * gradient / dist.get_world_size()


def calls_without_async_op(weights: Tensors, gradients: Tensors, lr: float) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        dist.all_reduce(gradient)
        weight -= lr * gradient / dist.get_world_size()


def waits_for_the_last_alone(weights: Tensors, gradients: Tensors, lr: float) -> None:
    work = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    work[-1].wait()
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= lr * gradient / dist.get_world_size()


def waits_after_the_use(weights: Tensors, gradients: Tensors, lr: float) -> None:
    work = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for weight, gradient, handle in zip(weights, gradients, work, strict=True):
        weight -= lr * gradient / dist.get_world_size()
        handle.wait()


def divides_before_the_wait(weights: Tensors, gradients: Tensors, lr: float) -> None:
    work = []
    for gradient in gradients:
        work.append(dist.all_reduce(gradient, async_op=True))
        gradient /= dist.get_world_size()
    for weight, gradient, handle in zip(weights, gradients, work, strict=True):
        handle.wait()
        weight -= lr * gradient


def forgot_the_average(weights: Tensors, gradients: Tensors, lr: float) -> None:
    work = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for weight, gradient, handle in zip(weights, gradients, work, strict=True):
        handle.wait()
        weight -= lr * gradient


def sleeps_in_place_of_the_wait(weights: Tensors, gradients: Tensors, lr: float) -> None:
    import time

    for gradient in gradients:
        dist.all_reduce(gradient, async_op=True)
    time.sleep(0.1)
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= lr * gradient / dist.get_world_size()


def barrier_in_place_of_the_wait(weights: Tensors, gradients: Tensors, lr: float) -> None:
    for gradient in gradients:
        dist.all_reduce(gradient, async_op=True)
    dist.barrier()
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= lr * gradient / dist.get_world_size()


def waits_for_the_one_before(weights: Tensors, gradients: Tensors, lr: float) -> None:
    """One all-reduce is always under way, but never more than two are started."""
    before = None
    for weight, gradient in [*zip(weights, gradients, strict=True), (None, None)]:
        handle = None if gradient is None else dist.all_reduce(gradient, async_op=True)
        if before is not None:
            before[0].wait()
            before[1].sub_(lr * before[2] / dist.get_world_size())
        before = None if gradient is None else (handle, weight, gradient)


def packs_all_gradients(weights: Tensors, gradients: Tensors, lr: float) -> None:
    packed = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(packed, async_op=True).wait()
    parts = packed.split([gradient.numel() for gradient in gradients])
    for weight, part in zip(weights, parts, strict=True):
        weight -= lr * part.view_as(weight) / dist.get_world_size()


def replaces_the_weights_in_the_list(weights: Tensors, gradients: Tensors, lr: float) -> None:
    work = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
    for i, handle in enumerate(work):
        handle.wait()
        weights[i] = weights[i] - lr * gradients[i] / dist.get_world_size()


MUTANTS = {
    "18.1": [
        left_the_sum_to_rank_0,
        rank_0_judges_by_its_own_losses,
        only_rank_0_hears_the_sum,
        takes_the_mean_of_the_means,
        skips_the_collective_without_samples,
        each_rank_decides_for_itself,
        all_ranks_have_to_agree,
        gathers_all_losses,
        puts_a_barrier_before_the_broadcast,
        compares_the_sum_with_the_limit,
    ],
    "18.2": [
        averages_in_the_order_of_arrival,
        sorts_by_size,
        sorts_by_the_hash_of_the_name,
        forgot_to_divide,
        puts_new_tensors_into_the_dictionary,
        divides_a_copy,
        agrees_on_the_names_by_objects,
        puts_a_barrier_before_each,
        packs_all_in_the_order_of_arrival,
    ],
    "18.3": [
        each_rank_takes_its_own_steps,
        leaves_the_last_batches_out,
        brings_the_last_batch_again,
        starts_again_from_the_first_batch,
        counts_a_sample_of_zeros,
        brings_a_gradient_of_zero_that_counts,
        returns_its_own_number,
        takes_the_steps_of_rank_0,
        asks_before_each_step,
        moves_only_while_it_has_batches,
        trains_a_copy,
    ],
    "18.4": [
        skips_the_collective_after_an_error,
        brings_zeros_after_an_error,
        averages_over_those_that_are_well,
        none_on_the_bad_rank_alone,
        lets_the_error_through,
        catches_every_error,
        marks_the_error_by_nan,
        none_only_if_all_are_bad,
        forgot_to_divide_by_world_size,
        takes_zeros_of_the_default_type,
        asks_by_objects,
    ],
    "18.5": [
        forgot_to_wait,
        waits_for_each_at_once,
        calls_without_async_op,
        waits_for_the_last_alone,
        waits_after_the_use,
        divides_before_the_wait,
        forgot_the_average,
        sleeps_in_place_of_the_wait,
        barrier_in_place_of_the_wait,
        waits_for_the_one_before,
        packs_all_gradients,
        replaces_the_weights_in_the_list,
    ],
}
EARLY = "not there yet|was the all-reduce over"  # which of the two a race says
FITS = {
    "left_the_sum_to_rank_0": "compare the calls of rank 0",
    "rank_0_judges_by_its_own_losses": "rank 0's own mean",
    "only_rank_0_hears_the_sum": "each of the others learn it",
    "takes_the_mean_of_the_means": "mean of means",
    "skips_the_collective_without_samples": "Look first at ranks 0, 2",
    "each_rank_decides_for_itself": "this rank's own samples",
    "all_ranks_have_to_agree": "mean of means",
    "gathers_all_losses": r"too many bytes(.|\n)*sum and the count",
    "puts_a_barrier_before_the_broadcast": "compare the calls of rank 0",
    "compares_the_sum_with_the_limit": "sum of the losses",
    "averages_in_the_order_of_arrival": "order of calls",
    "sorts_by_size": "order of calls",
    "sorts_by_the_hash_of_the_name": "order of calls",
    "forgot_to_divide": "average over ranks, not the sum",
    "puts_new_tensors_into_the_dictionary": "is another tensor",
    "divides_a_copy": "in place",
    "agrees_on_the_names_by_objects": "without talking",
    "puts_a_barrier_before_each": "order of calls",
    "packs_all_in_the_order_of_arrival": "order of calls",
    "each_rank_takes_its_own_steps": "Look first at rank 2",
    "leaves_the_last_batches_out": "batches are left out",
    "brings_the_last_batch_again": "bring an old one again",
    "starts_again_from_the_first_batch": "ZeroDivisionError",
    "counts_a_sample_of_zeros": "one of zeros counts",
    "brings_a_gradient_of_zero_that_counts": "what an empty batch",
    "returns_its_own_number": "return how many",
    "takes_the_steps_of_rank_0": "the same steps",
    "asks_before_each_step": "too many collectives",
    "moves_only_while_it_has_batches": "stay equal on all ranks",
    "trains_a_copy": "in place",
    "skips_the_collective_after_an_error": "Look first at ranks 0, 1, 2",
    "brings_zeros_after_an_error": "all ranks skip",
    "averages_over_those_that_are_well": "all ranks skip",
    "none_on_the_bad_rank_alone": "all ranks skip",
    "lets_the_error_through": "rank 1 failed first: ValueError",
    "catches_every_error": "KeyError",
    "marks_the_error_by_nan": "nan may be a gradient",
    "none_only_if_all_are_bad": "all ranks skip",
    "forgot_to_divide_by_world_size": "4 times what",
    "takes_zeros_of_the_default_type": "one shape and type",
    "asks_by_objects": "too many collectives",
    "forgot_to_wait": "not there yet",
    "waits_for_each_at_once": "start all of them",
    "calls_without_async_op": "start all of them",
    "waits_for_the_last_alone": f"not every all-reduce was waited for|{EARLY}",  # the last may be over first
    "waits_after_the_use": EARLY,
    "divides_before_the_wait": EARLY,
    "forgot_the_average": "not the sum",
    "sleeps_in_place_of_the_wait": f"pause is no wait|{EARLY}",
    "barrier_in_place_of_the_wait": "barrier mends nothing",
    "waits_for_the_one_before": "start all of them",
    "packs_all_gradients": "one all-reduce for each",
    "replaces_the_weights_in_the_list": "has not moved",
}
