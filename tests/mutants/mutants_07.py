"""Wrong solutions of chapter 07: a run on more ranks, a warm-up in samples, the noise scale."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

# 07.1: move(run, world_size)


def _moved(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    before = run["local_batch"] * run["accumulate"]
    accumulate = max(1, run["accumulate"] // world_size)
    batch = run["local_batch"] * accumulate * world_size
    return {
        "accumulate": accumulate,
        "global_batch": batch,
        "rate": run["rate"] * batch / before,
        "warmup_updates": math.ceil(run["warmup_updates"] * before / batch),
        "updates": run["epochs"] * math.ceil(run["samples"] / batch),
    }


def scales_the_rate_by_the_ranks(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    return _moved(run, world_size) | {"rate": run["rate"] * world_size}


def keeps_the_rate(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    return _moved(run, world_size) | {"rate": run["rate"]}


def scales_by_the_square_root(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    return moved | {"rate": run["rate"] * math.sqrt(moved["rate"] / run["rate"])}


def keeps_the_warmup_in_updates(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    return _moved(run, world_size) | {"warmup_updates": run["warmup_updates"]}


def rounds_the_warmup_down(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    before = run["local_batch"] * run["accumulate"]
    moved = _moved(run, world_size)
    return moved | {"warmup_updates": run["warmup_updates"] * before // moved["global_batch"]}


def keeps_the_accumulation(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    batch = run["local_batch"] * run["accumulate"] * world_size
    return {
        "accumulate": run["accumulate"],
        "global_batch": batch,
        "rate": run["rate"] * world_size,
        "warmup_updates": math.ceil(run["warmup_updates"] / world_size),
        "updates": run["epochs"] * math.ceil(run["samples"] / batch),
    }


def drops_the_last_batch_of_an_epoch(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    return moved | {"updates": run["epochs"] * (run["samples"] // moved["global_batch"])}


def counts_one_long_epoch(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    return moved | {"updates": math.ceil(run["epochs"] * run["samples"] / moved["global_batch"])}


def counts_the_updates_of_an_epoch(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    return moved | {"updates": moved["updates"] // run["epochs"]}


def lets_the_accumulation_become_0(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    accumulate = run["accumulate"] // world_size
    return _moved(run, world_size) | {"accumulate": accumulate}


def keeps_the_share_of_the_run(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    share = run["warmup_updates"] / _moved(run, 1)["updates"]
    return moved | {"warmup_updates": math.ceil(share * moved["updates"])}


def leaves_the_warmup_broken(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    before = run["local_batch"] * run["accumulate"]
    return moved | {"warmup_updates": run["warmup_updates"] * before / moved["global_batch"]}


def forgets_that_the_run_accumulated(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    moved = _moved(run, world_size)
    growth = moved["global_batch"] / run["local_batch"]
    warmup = math.ceil(run["warmup_updates"] / growth)
    return moved | {"rate": run["rate"] * growth, "warmup_updates": warmup}


def leaves_accumulation_out_of_the_batch(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    return _moved(run, world_size) | {"global_batch": run["local_batch"] * world_size}


def returns_the_settings_as_a_tuple(run: dict[str, Any], world_size: int) -> Any:
    return tuple(_moved(run, world_size).values())


def changes_the_run_it_was_given(run: dict[str, Any], world_size: int) -> dict[str, Any]:
    run.update(_moved(run, world_size))
    return run


# 07.2: warmup_schedule(optimizer, global_batch, warmup_samples)


def counts_updates_and_not_samples(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / warmup_samples))


def begins_at_zero(optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int) -> LRScheduler:
    return LambdaLR(optimizer, lambda update: min(1.0, update * global_batch / warmup_samples))


def goes_on_growing(optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int) -> LRScheduler:
    return LambdaLR(optimizer, lambda update: (update + 1) * global_batch / warmup_samples)


def rounds_the_updates_up(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    updates = math.ceil(warmup_samples / global_batch)
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / updates))


def jumps_at_the_end(optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int) -> LRScheduler:
    return LambdaLR(optimizer, lambda update: float((update + 1) * global_batch >= warmup_samples))


def one_rate_for_all_groups(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    for group in optimizer.param_groups:
        group["lr"] = optimizer.param_groups[0]["lr"]
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) * global_batch / warmup_samples))


def uses_linear_lr(optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int) -> LRScheduler:
    updates = max(1, warmup_samples // global_batch)
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1 / updates, total_iters=updates)


def returns_the_function_alone(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> Any:
    return lambda update: min(1.0, (update + 1) * global_batch / warmup_samples)


def sets_the_rate_to_the_share(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    for group in optimizer.param_groups:
        group["lr"] = 1.0
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) * global_batch / warmup_samples))


def counts_the_ranks_twice(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    seen = global_batch * dist.get_world_size()
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) * seen / warmup_samples))


def multiplies_by_the_rate_twice(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    factors = [
        lambda update, lr=group["lr"]: lr * min(1.0, (update + 1) * global_batch / warmup_samples)
        for group in optimizer.param_groups
    ]
    return LambdaLR(optimizer, factors)


def counts_its_own_calls(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    """LambdaLR calls it once for each group."""
    seen = 0

    def share(update: int) -> float:
        nonlocal seen
        seen += global_batch
        return min(1.0, seen / warmup_samples)

    return LambdaLR(optimizer, share)


def warms_the_first_group_only(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    def share(update: int) -> float:
        return min(1.0, (update + 1) * global_batch / warmup_samples)

    return LambdaLR(optimizer, [share] + [lambda update: 1.0] * (len(optimizer.param_groups) - 1))


def rounds_the_share_down(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    return LambdaLR(optimizer, lambda update: min(1.0, (update + 1) * global_batch // warmup_samples))


def stays_small_and_jumps(
    optimizer: torch.optim.Optimizer, global_batch: int, warmup_samples: int
) -> LRScheduler:
    small = global_batch / warmup_samples
    return LambdaLR(optimizer, lambda update: 1.0 if (update + 1) * small >= 1 else small)


# 07.3: noise_scale(gradients, local_batch)


def _squares(gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An update's mean of the ranks' squared norms, and the squared norm of the ranks' mean."""
    world = dist.get_world_size()
    small, mean = gradients.square().sum(1), gradients.clone()
    dist.all_reduce(small)
    dist.all_reduce(mean)
    return small / world, (mean / world).square().sum(1)


def _estimates(
    small: torch.Tensor, large: torch.Tensor, b: int, batch: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The noise tr(Σ) and the signal |G|²."""
    return (small - large) / (1 / b - 1 / batch), (batch * large - b * small) / (batch - b)


def divides_before_it_averages(gradients: torch.Tensor, local_batch: int) -> float:
    noise, signal = _estimates(*_squares(gradients), local_batch, local_batch * dist.get_world_size())
    return (noise / signal).mean().item()


def takes_the_large_norm_for_the_signal(gradients: torch.Tensor, local_batch: int) -> float:
    small, large = _squares(gradients)
    noise, _ = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise.mean() / large.mean()).item()


def returns_the_ratio_upside_down(gradients: torch.Tensor, local_batch: int) -> float:
    noise, signal = _estimates(*_squares(gradients), local_batch, local_batch * dist.get_world_size())
    return (signal.mean() / noise.mean()).item()


def forgets_the_local_batch(gradients: torch.Tensor, local_batch: int) -> float:
    noise, signal = _estimates(*_squares(gradients), 1, dist.get_world_size())
    return (noise.mean() / signal.mean()).item()


def uses_the_norm_of_this_rank(gradients: torch.Tensor, local_batch: int) -> float:
    small, (_, large) = gradients.square().sum(1), _squares(gradients)
    noise, signal = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise.mean() / signal.mean()).item()


def forgets_to_square_the_norms(gradients: torch.Tensor, local_batch: int) -> float:
    small, large = (squares.sqrt() for squares in _squares(gradients))
    noise, signal = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise.mean() / signal.mean()).item()


def sums_instead_of_averaging(gradients: torch.Tensor, local_batch: int) -> float:
    small, total = gradients.square().sum(1), gradients.clone()
    dist.all_reduce(small, op=dist.ReduceOp.AVG)
    dist.all_reduce(total)
    large = total.square().sum(1)
    noise, signal = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise.mean() / signal.mean()).item()


def one_collective_an_update(gradients: torch.Tensor, local_batch: int) -> float:
    pairs = [_squares(row[None]) for row in gradients]
    small, large = (torch.cat(squares) for squares in zip(*pairs, strict=True))
    noise, signal = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise.mean() / signal.mean()).item()


def gathers_all_gradients(gradients: torch.Tensor, local_batch: int) -> float:
    world = dist.get_world_size()
    everybody = [torch.empty_like(gradients) for _ in range(world)]
    dist.all_gather(everybody, gradients)
    small = torch.stack(everybody).square().sum(2).mean(0)
    large = torch.stack(everybody).mean(0).square().sum(1)
    noise, signal = _estimates(small, large, local_batch, local_batch * world)
    return (noise.mean() / signal.mean()).item()


def changes_the_gradients(gradients: torch.Tensor, local_batch: int) -> float:
    world = dist.get_world_size()
    small = gradients.square().sum(1)
    dist.all_reduce(small)
    dist.all_reduce(gradients)
    large = gradients.div_(world).square().sum(1)
    noise, signal = _estimates(small / world, large, local_batch, local_batch * world)
    return (noise.mean() / signal.mean()).item()


def answers_on_rank_0_alone(gradients: torch.Tensor, local_batch: int) -> float:
    world = dist.get_world_size()
    small, mean = gradients.square().sum(1), gradients.clone()
    dist.reduce(small, dst=0)
    dist.reduce(mean, dst=0)
    large = (mean / world).square().sum(1)
    noise, signal = _estimates(small / world, large, local_batch, local_batch * world)
    return (noise.mean() / signal.mean()).item()


def squares_the_mean_of_the_updates(gradients: torch.Tensor, local_batch: int) -> float:
    small, _ = _squares(gradients)
    _, large = _squares(gradients.mean(0, keepdim=True))
    noise, signal = _estimates(small.mean(), large.mean(), local_batch, local_batch * dist.get_world_size())
    return (noise / signal).item()


def averages_lengths_and_squares_them(gradients: torch.Tensor, local_batch: int) -> float:
    length, mean = gradients.norm(dim=1), gradients.clone()
    dist.all_reduce(length, op=dist.ReduceOp.AVG)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    small, large = length.square().mean(), mean.square().sum(1).mean()
    noise, signal = _estimates(small, large, local_batch, local_batch * dist.get_world_size())
    return (noise / signal).item()


def takes_the_spread_over_updates_for_noise(gradients: torch.Tensor, local_batch: int) -> float:
    mean, noise = gradients.mean(0), gradients.var(0).sum() * local_batch
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    dist.all_reduce(noise, op=dist.ReduceOp.AVG)
    return (noise / mean.square().sum()).item()


def divides_by_four_ranks(gradients: torch.Tensor, local_batch: int) -> float:
    small, total = gradients.square().sum(1), gradients.clone()
    dist.all_reduce(small)
    dist.all_reduce(total)
    small, large = small.mean() / 4, (total / 4).square().sum(1).mean()
    noise, signal = _estimates(small, large, local_batch, 4 * local_batch)
    return (noise / signal).item()


def averages_on_rank_0_alone(gradients: torch.Tensor, local_batch: int) -> float:
    small, mean = gradients.square().sum(1), gradients.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(small, op=dist.ReduceOp.AVG)
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    noise, signal = _estimates(
        small.mean(), mean.square().sum(1).mean(), local_batch, local_batch * dist.get_world_size()
    )
    return (noise / signal).item()


def assumes_four_ranks(gradients: torch.Tensor, local_batch: int) -> float:
    noise, signal = _estimates(*_squares(gradients), local_batch, 4 * local_batch)
    return (noise.mean() / signal.mean()).item()


MUTANTS = {
    "07.1": [
        scales_the_rate_by_the_ranks,
        keeps_the_rate,
        scales_by_the_square_root,
        keeps_the_warmup_in_updates,
        rounds_the_warmup_down,
        keeps_the_accumulation,
        drops_the_last_batch_of_an_epoch,
        counts_one_long_epoch,
        counts_the_updates_of_an_epoch,
        lets_the_accumulation_become_0,
        keeps_the_share_of_the_run,
        leaves_the_warmup_broken,
        forgets_that_the_run_accumulated,
        leaves_accumulation_out_of_the_batch,
        returns_the_settings_as_a_tuple,
        changes_the_run_it_was_given,
    ],
    "07.2": [
        counts_updates_and_not_samples,
        begins_at_zero,
        goes_on_growing,
        rounds_the_updates_up,
        jumps_at_the_end,
        one_rate_for_all_groups,
        uses_linear_lr,
        returns_the_function_alone,
        sets_the_rate_to_the_share,
        counts_the_ranks_twice,
        multiplies_by_the_rate_twice,
        counts_its_own_calls,
        warms_the_first_group_only,
        rounds_the_share_down,
        stays_small_and_jumps,
    ],
    "07.3": [
        divides_before_it_averages,
        takes_the_large_norm_for_the_signal,
        returns_the_ratio_upside_down,
        forgets_the_local_batch,
        uses_the_norm_of_this_rank,
        forgets_to_square_the_norms,
        sums_instead_of_averaging,
        one_collective_an_update,
        gathers_all_gradients,
        changes_the_gradients,
        answers_on_rank_0_alone,
        squares_the_mean_of_the_updates,
        averages_lengths_and_squares_them,
        takes_the_spread_over_updates_for_noise,
        divides_by_four_ranks,
        averages_on_rank_0_alone,
        assumes_four_ranks,
    ],
}

FITS = {
    "scales_the_rate_by_the_ranks": "did the batch grow",
    "keeps_the_rate": "multiplied by what the batch grew by",
    "scales_by_the_square_root": "square-root rule",
    "keeps_the_warmup_in_updates": "see as many samples",
    "rounds_the_warmup_down": "rounded up",
    "keeps_the_accumulation": "take the place of accumulation",
    "drops_the_last_batch_of_an_epoch": "each epoch ends with its own batch",
    "counts_one_long_epoch": "each epoch ends with its own batch",
    "counts_the_updates_of_an_epoch": "that is one epoch",
    "lets_the_accumulation_become_0": "one is the least",
    "keeps_the_share_of_the_run": "see as many samples",
    "leaves_the_warmup_broken": "rounded up",
    "forgets_that_the_run_accumulated": "did the batch grow",
    "leaves_accumulation_out_of_the_batch": "local batch, ranks and accumulation",
    "returns_the_settings_as_a_tuple": "not a dictionary",
    "changes_the_run_it_was_given": "new dictionary",
    "counts_updates_and_not_samples": "how many samples does one see",
    "begins_at_zero": "the first update sees samples",
    "goes_on_growing": "after the warm-up",
    "rounds_the_updates_up": "ends at sample",
    "one_rate_for_all_groups": "a rate of its own",
    "jumps_at_the_end": "should it be wasted",
    "uses_linear_lr": "ends at sample",
    "sets_the_rate_to_the_share": "a rate of its own",
    "counts_the_ranks_twice": "all ranks already",
    "multiplies_by_the_rate_twice": "a rate of its own",
    "counts_its_own_calls": "a rate of its own",
    "warms_the_first_group_only": "a rate of its own",
    "rounds_the_share_down": "should it be wasted",
    "stays_small_and_jumps": "ends at sample",
    "returns_the_function_alone": "no schedule came back",
    "divides_before_it_averages": "divide once",
    "takes_the_large_norm_for_the_signal": "still has noise",
    "returns_the_ratio_upside_down": "divided by which",
    "forgets_the_local_batch": "how many samples",
    "uses_the_norm_of_this_rank": "rank 0 has another value",
    "forgets_to_square_the_norms": "where are the squares taken",
    "sums_instead_of_averaging": "of an average, not of a sum",
    "squares_the_mean_of_the_updates": "square it before you average",
    "averages_lengths_and_squares_them": "where are the squares taken",
    "takes_the_spread_over_updates_for_noise": "over all updates and ranks",
    "divides_by_four_ranks": "how many ranks are there",
    "averages_on_rank_0_alone": "rank 0 has another value|had not finished|failed first",
    "assumes_four_ranks": "how many ranks are there",
    "one_collective_an_update": "too many collectives",
    "gathers_all_gradients": "all_gather",
    "changes_the_gradients": "work on a copy",
    "answers_on_rank_0_alone": "rank 0 has another value",
}
