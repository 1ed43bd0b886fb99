"""Wrong solutions of chapter 10: even shards, a norm over shards, a sharded Adam step."""

import math
from typing import Any

import torch
import torch.distributed as dist

# 10.1: shard_pieces(sizes, world_size)


def _pieces(sizes: list[int], first: int, last: int) -> list[tuple[int, int, int]]:
    """The pieces between two places of the flat vector."""
    pieces, begin = [], 0
    for parameter, size in enumerate(sizes):
        start, stop = max(first - begin, 0), min(last - begin, size)
        if start < stop:
            pieces.append((parameter, start, stop))
        begin += size
    return pieces


def deals_out_whole_parameters(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    held, load = [[] for _ in range(world_size)], [0] * world_size
    for parameter, size in enumerate(sizes):
        rank = load.index(min(load))
        held[rank].append((parameter, 0, size))
        load[rank] += size
    return held


def rounds_the_shard_down(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard = sum(sizes) // world_size
    return [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]


def gives_the_rest_to_the_last_rank(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard, n = sum(sizes) // world_size, sum(sizes)
    ends = [*(rank * shard for rank in range(world_size)), n]
    return [_pieces(sizes, ends[rank], ends[rank + 1]) for rank in range(world_size)]


def spreads_the_rest_over_the_first_ranks(
    sizes: list[int], world_size: int
) -> list[list[tuple[int, int, int]]]:
    parts = torch.arange(sum(sizes)).tensor_split(world_size)
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return [_pieces(sizes, ends[rank], ends[rank + 1]) for rank in range(world_size)]


def counts_in_the_flat_vector(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard, begins = math.ceil(sum(sizes) / world_size), [sum(sizes[:i]) for i in range(len(sizes))]
    held = [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]
    return [[(p, begins[p] + start, begins[p] + stop) for p, start, stop in pieces] for pieces in held]


def includes_the_last_element_in_stop(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard = math.ceil(sum(sizes) / world_size)
    held = [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]
    return [[(p, start, stop - 1) for p, start, stop in pieces] for pieces in held]


def keeps_empty_pieces(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard = math.ceil(sum(sizes) / world_size)
    held = [[] for _ in range(world_size)]
    for rank in range(world_size):
        begin = 0
        for parameter, size in enumerate(sizes):
            start = min(max(rank * shard - begin, 0), size)
            stop = max(min((rank + 1) * shard - begin, size), start)
            held[rank].append((parameter, start, stop))
            begin += size
    return held


def gives_away_the_padding(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard = math.ceil(sum(sizes) / world_size)
    padded = [*sizes[:-1], sizes[-1] + shard * world_size - sum(sizes)]
    return [_pieces(padded, rank * shard, (rank + 1) * shard) for rank in range(world_size)]


def cuts_each_parameter(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    """As FSDP does: each parameter in equal parts."""
    held = [[] for _ in range(world_size)]
    for parameter, size in enumerate(sizes):
        part = math.ceil(size / world_size)
        for rank in range(world_size):
            start, stop = min(rank * part, size), min((rank + 1) * part, size)
            if start < stop:
                held[rank].append((parameter, start, stop))
    return held


def leaves_out_ranks_without_pieces(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard = math.ceil(sum(sizes) / world_size)
    held = [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]
    return [pieces for pieces in held if pieces]


# 10.2: clip_sharded(shards, replicated, max_norm)


def _squares(tensors: list[torch.Tensor]) -> torch.Tensor:
    return sum((t.double().square().sum() for t in tensors), torch.zeros((), dtype=torch.float64))


def _scale(tensors: list[torch.Tensor], norm: float, max_norm: float) -> None:
    for t in tensors:
        t.mul_(min(1.0, max_norm / (norm + 1e-6)))


def clips_by_its_own_norm(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    norm = _squares(shards + replicated).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def counts_the_replicated_on_every_rank(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards + replicated)
    dist.all_reduce(total)
    _scale(shards + replicated, total.sqrt().item(), max_norm)
    return total.sqrt().item()


def forgets_the_replicated(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    _scale(shards + replicated, total.sqrt().item(), max_norm)
    return total.sqrt().item()


def scales_the_shards_alone(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards, norm, max_norm)
    return norm


def adds_up_norms(shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float) -> float:
    total = _squares(shards).sqrt()
    dist.all_reduce(total)
    norm = (total + _squares(replicated).sqrt()).item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def forgets_the_root(shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def averages_over_ranks(shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float) -> float:
    total = _squares(shards)
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def lengthens_short_gradients(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    for t in shards + replicated:
        t.mul_(max_norm / norm)
    return norm


def returns_the_norm_after_clipping(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return min(norm, max_norm)


def clips_copies(shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale([t.clone() for t in shards + replicated], norm, max_norm)
    return norm


def one_collective_a_shard(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(replicated)
    for shard in shards:
        square = shard.double().square().sum()
        dist.all_reduce(square)
        total += square
    _scale(shards + replicated, total.sqrt().item(), max_norm)
    return total.sqrt().item()


def skips_the_collective_without_shards(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    if shards:
        dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return norm


# 10.3: sharded_adam_step(flat, gradient, state, lr)


def _padded(x: torch.Tensor) -> torch.Tensor:
    world = dist.get_world_size()
    return torch.nn.functional.pad(x, (0, -len(x) % world))


def _mean_of_my_shard(gradient: torch.Tensor) -> torch.Tensor:
    parts = _padded(gradient).chunk(dist.get_world_size())
    received = [torch.empty_like(parts[0]) for _ in parts]
    dist.all_to_all(received, [part.contiguous() for part in parts])
    return sum(received) / len(parts)


def _adam(shard: torch.Tensor, mean: torch.Tensor, state: dict[str, Any], lr: float) -> torch.Tensor:
    state.setdefault("t", 0)
    state.setdefault("m", torch.zeros_like(shard))
    state.setdefault("v", torch.zeros_like(shard))
    state["t"] += 1
    state["m"].mul_(0.9).add_(mean, alpha=0.1)
    state["v"].mul_(0.999).add_(mean * mean, alpha=0.001)
    m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    return shard - lr * m / (v.sqrt() + 1e-8)


def _share(flat: torch.Tensor, shard: torch.Tensor) -> None:
    whole = shard.new_empty(len(shard) * dist.get_world_size())
    dist.all_gather_single(whole, shard.contiguous())
    flat.copy_(whole[: len(flat)])


def _right(flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01) -> None:
    mine = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()]
    _share(flat, _adam(mine, _mean_of_my_shard(gradient), state, lr))


def is_not_sharded(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mean = gradient.clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    flat.copy_(_adam(flat, mean, state, lr))


def all_reduces_and_then_shards(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mean, rank, world = gradient.clone(), dist.get_rank(), dist.get_world_size()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    _share(flat, _adam(_padded(flat).chunk(world)[rank], _padded(mean).chunk(world)[rank], state, lr))


def forgot_to_divide_by_world_size(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    """Adam hides the factor, but for epsilon."""
    world = dist.get_world_size()
    mine = _padded(flat).chunk(world)[dist.get_rank()]
    _share(flat, _adam(mine, _mean_of_my_shard(gradient) * world, state, lr))


def forgot_to_share(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    world, rank = dist.get_world_size(), dist.get_rank()
    mine = _padded(flat).chunk(world)[rank]
    new, first = _adam(mine, _mean_of_my_shard(gradient), state, lr), rank * len(mine)
    flat[first : first + len(mine)] = new[: max(len(flat) - first, 0)]


def cuts_off_what_does_not_divide(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    n = len(flat) - len(flat) % dist.get_world_size()
    _right(flat[:n], gradient[:n], state, lr)


def forgot_the_bias_correction(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mine, mean = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()], _mean_of_my_shard(gradient)
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * mean
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * mean * mean
    _share(flat, mine - lr * state["m"] / (state["v"].sqrt() + 1e-8))


def starts_over_in_every_step(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    _right(flat, gradient, {}, lr)


def corrects_as_in_the_first_step(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    state["t"] = 0
    _right(flat, gradient, state, lr)


def uses_the_gradient_of_this_rank(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    world, rank = dist.get_world_size(), dist.get_rank()
    _share(flat, _adam(_padded(flat).chunk(world)[rank], _padded(gradient).chunk(world)[rank], state, lr))


def keeps_the_mean_gradient_too(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mine = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()]
    state["mean"] = _mean_of_my_shard(gradient)
    _share(flat, _adam(mine, state["mean"], state, lr))


_kept: dict[int, dict[str, Any]] = {}


def keeps_a_full_state_elsewhere(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mean = _mean_of_my_shard(gradient)
    whole = mean.new_empty(len(mean) * dist.get_world_size())
    dist.all_gather_single(whole, mean)
    own = _kept.setdefault(id(state), {})
    flat.copy_(_adam(flat, whole[: len(flat)], own, lr))


def steps_on_rank_0_and_broadcasts(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mean = gradient.clone()
    dist.reduce(mean, dst=0)
    if dist.get_rank() == 0:
        flat.copy_(_adam(flat, mean / dist.get_world_size(), state, lr))
    dist.broadcast(flat, src=0)


def changes_the_gradient(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    _right(flat, gradient, state, lr)
    gradient.zero_()


def ignores_the_learning_rate(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    _right(flat, gradient, state)


MUTANTS = {
    "10.1": [
        deals_out_whole_parameters,
        rounds_the_shard_down,
        gives_the_rest_to_the_last_rank,
        spreads_the_rest_over_the_first_ranks,
        counts_in_the_flat_vector,
        includes_the_last_element_in_stop,
        keeps_empty_pieces,
        gives_away_the_padding,
        cuts_each_parameter,
        leaves_out_ranks_without_pieces,
    ],
    "10.2": [
        clips_by_its_own_norm,
        counts_the_replicated_on_every_rank,
        forgets_the_replicated,
        scales_the_shards_alone,
        adds_up_norms,
        forgets_the_root,
        averages_over_ranks,
        lengthens_short_gradients,
        returns_the_norm_after_clipping,
        clips_copies,
        one_collective_a_shard,
        skips_the_collective_without_shards,
    ],
    "10.3": [
        is_not_sharded,
        all_reduces_and_then_shards,
        forgot_to_divide_by_world_size,
        forgot_to_share,
        cuts_off_what_does_not_divide,
        forgot_the_bias_correction,
        starts_over_in_every_step,
        corrects_as_in_the_first_step,
        uses_the_gradient_of_this_rank,
        keeps_the_mean_gradient_too,
        keeps_a_full_state_elsewhere,
        steps_on_rank_0_and_broadcasts,
        changes_the_gradient,
        ignores_the_learning_rate,
    ],
}

FITS = {
    "deals_out_whole_parameters": "a parameter may be cut",
    "rounds_the_shard_down": "which way do you round",
    "spreads_the_rest_over_the_first_ranks": "at the end of the vector",
    "counts_in_the_flat_vector": "within that parameter",
    "keeps_empty_pieces": "no piece is empty",
    "gives_away_the_padding": "padding is nobody's",
    "cuts_each_parameter": "shard of the flat vector",
    "leaves_out_ranks_without_pieces": "an empty list",
    "clips_by_its_own_norm": "this rank's gradients alone",
    "counts_the_replicated_on_every_rank": "how often do they count",
    "forgets_the_replicated": "replicated gradients are part",
    "scales_the_shards_alone": "a replicated gradient after the call",
    "adds_up_norms": "norms don't add up",
    "forgets_the_root": "square of the norm",
    "averages_over_ranks": "a sum, not a mean",
    "lengthens_short_gradients": "below the threshold",
    "clips_copies": "in place",
    "one_collective_a_shard": "had not finished",
    "skips_the_collective_without_shards": "had not finished",
    "is_not_sharded": "too many numbers in state",
    "all_reduces_and_then_shards": "ran an all_reduce",
    "forgot_to_divide_by_world_size": "sum of the gradients",
    "forgot_to_share": "how does it get the others'",
    "cuts_off_what_does_not_divide": "remainder",
    "forgot_the_bias_correction": "corrected",
    "keeps_the_mean_gradient_too": "too many numbers in state",
    "keeps_a_full_state_elsewhere": "too few numbers in state",
    "steps_on_rank_0_and_broadcasts": "too many numbers in state",
    "changes_the_gradient": "before the call",
}
