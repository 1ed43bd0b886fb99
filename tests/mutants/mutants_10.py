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


def pads_by_a_whole_round_too_much(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    n = sum(sizes)
    shard = (n + world_size - n % world_size) // world_size
    return [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]


def counts_within_the_shard(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard, begins = math.ceil(sum(sizes) / world_size), [sum(sizes[:i]) for i in range(len(sizes))]
    held = [_pieces(sizes, rank * shard, (rank + 1) * shard) for rank in range(world_size)]
    return [
        [(p, begins[p] + start - rank * shard, begins[p] + stop - rank * shard) for p, start, stop in pieces]
        for rank, pieces in enumerate(held)
    ]


def cuts_a_parameter_once_at_most(sizes: list[int], world_size: int) -> list[list[tuple[int, int, int]]]:
    shard, begin = math.ceil(sum(sizes) / world_size), 0
    held: list[list[tuple[int, int, int]]] = [[] for _ in range(world_size)]
    for parameter, size in enumerate(sizes):
        rank = begin // shard
        room = (rank + 1) * shard - begin
        if size:
            held[rank].append((parameter, 0, min(size, room)))
        if size > room:
            held[rank + 1].append((parameter, room, size))
        begin += size
    return held


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


def starts_from_a_python_zero(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = sum(gradient.square().sum() for gradient in shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def divides_by_a_norm_of_zero(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    norm = (total + _squares(replicated)).sqrt()
    for gradient in shards + replicated:
        gradient *= norm.clamp(max=max_norm) / norm
    return norm.item()


def clips_each_kind_alone(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    _scale(shards, total.sqrt().item(), max_norm)
    small = _squares(replicated)
    _scale(replicated, small.sqrt().item(), max_norm)
    return (total + small).sqrt().item()


def averages_the_replicated_again(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    total = _squares(shards)
    dist.all_reduce(total)
    for gradient in replicated:
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
    norm = (total + _squares(replicated)).sqrt().item()
    _scale(shards + replicated, norm, max_norm)
    return norm


def clips_on_its_own_with_the_library(
    shards: list[torch.Tensor], replicated: list[torch.Tensor], max_norm: float
) -> float:
    params = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in shards + replicated]
    for p, gradient in zip(params, shards + replicated, strict=True):
        p.grad = gradient
    return torch.nn.utils.clip_grad_norm_(params, max_norm).item()


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


def binds_a_new_flat(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    whole = flat.clone()
    _right(whole, gradient, state, lr)
    flat = whole


def puts_other_storage_under_flat(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    whole = flat.clone()
    _right(whole, gradient, state, lr)
    flat.data = whole


def adds_eps_under_the_root(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mine = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()]
    _adam(mine, _mean_of_my_shard(gradient), state, lr)
    m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    _share(flat, mine - lr * m / (v + 1e-8).sqrt())


def computes_in_the_default_type(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    whole = flat.float()
    _right(whole, gradient.float(), state, lr)
    flat.copy_(whole)


def pads_a_length_that_needs_none(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    rest = dist.get_world_size() - len(flat) % dist.get_world_size()
    longer = torch.nn.functional.pad(flat, (0, rest))
    _right(longer, torch.nn.functional.pad(gradient, (0, rest)), state, lr)
    flat.copy_(longer[: len(flat)])


def makes_its_moments_as_views(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    if not state:
        rank, world = dist.get_rank(), dist.get_world_size()
        state |= {name: torch.zeros_like(_padded(flat)).chunk(world)[rank] for name in ("m", "v")}
    _right(flat, gradient, state, lr)


def remembers_its_parameters_too(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mine = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()]
    shard = state.setdefault("shard", mine.clone())
    shard.copy_(_adam(shard, _mean_of_my_shard(gradient), state, lr))
    _share(flat, shard)


def steps_with_adamw(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    shard = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()].clone()
    shard.grad = _mean_of_my_shard(gradient)
    optimizer = torch.optim.AdamW([shard], lr=lr)
    if state:
        optimizer.state[shard] = state
    optimizer.step()
    state |= optimizer.state[shard]
    _share(flat, shard)


def gathers_everybodys_gradient(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    gradients = [torch.empty_like(gradient) for _ in range(world)]
    dist.all_gather(gradients, gradient)
    mean = _padded(torch.stack(gradients).mean(0)).chunk(world)[rank]
    _share(flat, _adam(_padded(flat).chunk(world)[rank], mean, state, lr))


def scatters_with_the_library(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    mine = _padded(flat).chunk(dist.get_world_size())[dist.get_rank()]
    mean = torch.empty_like(mine)
    dist.reduce_scatter_single(mean, _padded(gradient), op=dist.ReduceOp.AVG)
    _share(flat, _adam(mine, mean, state, lr))


def leaves_a_rank_without_elements_out(
    flat: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], lr: float = 0.01
) -> None:
    if dist.get_rank() * math.ceil(len(flat) / dist.get_world_size()) < len(flat):
        _right(flat, gradient, state, lr)


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
        pads_by_a_whole_round_too_much,
        counts_within_the_shard,
        cuts_a_parameter_once_at_most,
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
        starts_from_a_python_zero,
        divides_by_a_norm_of_zero,
        clips_each_kind_alone,
        averages_the_replicated_again,
        clips_on_its_own_with_the_library,
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
        binds_a_new_flat,
        puts_other_storage_under_flat,
        adds_eps_under_the_root,
        computes_in_the_default_type,
        pads_a_length_that_needs_none,
        makes_its_moments_as_views,
        remembers_its_parameters_too,
        steps_with_adamw,
        gathers_everybodys_gradient,
        scatters_with_the_library,
        leaves_a_rank_without_elements_out,
    ],
}

FITS = {
    "deals_out_whole_parameters": "a parameter may be cut",
    "gives_the_rest_to_the_last_rank": "the last rank has the rest",
    "rounds_the_shard_down": "which way do you round",
    "spreads_the_rest_over_the_first_ranks": "at the end of the vector",
    "counts_in_the_flat_vector": "within that parameter",
    "keeps_empty_pieces": "no piece is empty",
    "gives_away_the_padding": "padding is nobody's",
    "cuts_each_parameter": "shard of the flat vector",
    "leaves_out_ranks_without_pieces": "an empty list",
    "includes_the_last_element_in_stop": "stop is excluded",
    "pads_by_a_whole_round_too_much": "needs no padding",
    "counts_within_the_shard": "not in the shard",
    "cuts_a_parameter_once_at_most": "cut where the shard ends",
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
    "returns_the_norm_after_clipping": "after clipping",
    "starts_from_a_python_zero": "this rank has no shards",
    "divides_by_a_norm_of_zero": "a gradient of zeros",
    "clips_each_kind_alone": "all by one factor",
    "averages_the_replicated_again": "too many collectives",
    "clips_on_its_own_with_the_library": "this rank's gradients alone",
    "is_not_sharded": "too many numbers in state",
    "all_reduces_and_then_shards": "ran an all_reduce",
    "forgot_to_divide_by_world_size": "sum of the gradients",
    "forgot_to_share": "how does it get the others'",
    "cuts_off_what_does_not_divide": "remainder",
    "forgot_the_bias_correction": "corrected",
    "corrects_as_in_the_first_step": "corrected by the number of steps",
    "uses_the_gradient_of_this_rank": "own rank's gradient",
    "keeps_the_mean_gradient_too": "too many numbers in state",
    "keeps_a_full_state_elsewhere": "too few numbers in state",
    "steps_on_rank_0_and_broadcasts": "too many numbers in state",
    "changes_the_gradient": "before the call",
    "starts_over_in_every_step": "Adam remembers",
    "ignores_the_learning_rate": "lr is an argument",
    "binds_a_new_flat": "flat has not changed",
    "puts_other_storage_under_flat": "flat has not changed",
    "adds_eps_under_the_root": r"\beps\b",
    "computes_in_the_default_type": "flat's type",
    "pads_a_length_that_needs_none": "needs no padding",
    "makes_its_moments_as_views": "whole storage",
    "remembers_its_parameters_too": "no parameters",
    "steps_with_adamw": "weight decay",
    "gathers_everybodys_gradient": "too many bytes sent",
    "scatters_with_the_library": "ran an all_reduce",
    "leaves_a_rank_without_elements_out": r"different shapes|takes? part|had not finished",
}
