"""Wrong solutions of chapter 11: units under a limit, accumulation with one gathering, the peak of a step."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp

# 11.1: shard_in_units(layers, limit)


def _size(layer: nn.Module) -> int:
    return sum(p.numel() for p in layer.parameters())


def _groups(layers: nn.Sequential, limit: int) -> list[list[nn.Module]]:
    """Consecutive layers, filled up from the front: what the right answer makes."""
    groups: list[list[nn.Module]] = []
    room = -1
    for layer in layers:
        room -= _size(layer)
        if room < 0:
            groups.append([])
            room = limit - _size(layer)
        groups[-1].append(layer)
    return groups


def calls_it_on_the_whole_alone(layers: nn.Sequential, limit: int) -> None:
    fsdp.fully_shard(layers)


def makes_a_unit_of_each_layer(layers: nn.Sequential, limit: int) -> None:
    for layer in layers:
        fsdp.fully_shard(layer)
    fsdp.fully_shard(layers)


def forgot_the_last_unit(layers: nn.Sequential, limit: int) -> None:
    unit: list[nn.Module] = []
    for layer in layers:
        if unit and sum(map(_size, unit)) + _size(layer) > limit:
            fsdp.fully_shard(unit)
            unit = []
        unit.append(layer)
    fsdp.fully_shard(layers)


def forgot_layers_itself(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit):
        fsdp.fully_shard(unit)


def takes_the_whole_first(layers: nn.Sequential, limit: int) -> None:
    fsdp.fully_shard(layers)
    for unit in _groups(layers, limit):
        fsdp.fully_shard(unit)


def closes_a_unit_when_it_is_over_the_limit(layers: nn.Sequential, limit: int) -> None:
    unit: list[nn.Module] = []
    for layer in layers:
        unit.append(layer)
        if sum(map(_size, unit)) >= limit:
            fsdp.fully_shard(unit)
            unit = []
    if unit:
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def stays_below_the_limit(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit - 1):
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def packs_by_size(layers: nn.Sequential, limit: int) -> None:
    """First fit, the largest first: few units, but not of layers that follow one another."""
    units: list[list[nn.Module]] = []
    for layer in sorted(layers, key=_size, reverse=True):
        for unit in units:
            if sum(map(_size, unit)) + _size(layer) <= limit:
                unit.append(layer)
                break
        else:
            units.append([layer])
    for unit in units:
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def counts_weights_without_biases(layers: nn.Sequential, limit: int) -> None:
    unit: list[nn.Module] = []
    size = 0
    for layer in layers:
        own = layer.weight.numel() if hasattr(layer, "weight") else 0
        if unit and size + own > limit:
            fsdp.fully_shard(unit)
            unit, size = [], 0
        unit.append(layer)
        size += own
    fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def leaves_large_layers_to_the_root(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit):
        if sum(map(_size, unit)) <= limit:
            fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def keeps_the_units(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit):
        fsdp.fully_shard(unit, reshard_after_forward=False)
    fsdp.fully_shard(layers)


def counts_bytes(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit // 4):
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def counts_pieces(layers: nn.Sequential, limit: int) -> None:
    for unit in _groups(layers, limit * dist.get_world_size()):
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def counts_layers(layers: nn.Sequential, limit: int) -> None:
    count = -(-_size(layers) // limit)
    each = -(-len(layers) // count)
    for start in range(0, len(layers), each):
        fsdp.fully_shard(list(layers[start : start + each]))
    fsdp.fully_shard(layers)


def wraps_a_new_sequential(layers: nn.Sequential, limit: int) -> None:
    """The new container is in no model: nobody calls it, so it never gathers."""
    for unit in _groups(layers, limit):
        fsdp.fully_shard(nn.Sequential(*unit))
    fsdp.fully_shard(layers)


def makes_an_empty_unit(layers: nn.Sequential, limit: int) -> None:
    unit: list[nn.Module] = []
    for layer in layers:
        if sum(map(_size, unit)) + _size(layer) > limit:
            fsdp.fully_shard(unit)
            unit = []
        unit.append(layer)
    fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


def shards_on_rank_0_alone(layers: nn.Sequential, limit: int) -> None:
    if dist.get_rank() == 0:
        for unit in _groups(layers, limit):
            fsdp.fully_shard(unit)
        fsdp.fully_shard(layers)


def joins_the_rest_to_the_last_unit(layers: nn.Sequential, limit: int) -> None:
    units = _groups(layers, limit)
    if len(units) > 1:
        units[-2:] = [units[-2] + units[-1]]
    for unit in units:
        fsdp.fully_shard(unit)
    fsdp.fully_shard(layers)


# 11.2: accumulate(model, micro_batches)


def _loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return model(batch).square().mean()


def _run(
    model: fsdp.FSDPModule,
    micro_batches: list[torch.Tensor],
    share: float | None = None,
    syncs: tuple[bool, bool] = (False, True),
    pieces: tuple[bool, bool] = (False, True),
    forward: tuple[bool | None, bool | None] = (False, True),
    recurse: bool = True,
) -> None:
    """The right answer with its switches: before the last micro-batch and in it, or before and after all."""
    if forward[0] is not None:
        model.set_reshard_after_forward(forward[0])
    for i, batch in enumerate(micro_batches):
        last = i == len(micro_batches) - 1
        model.set_requires_gradient_sync(syncs[last], recurse=recurse)
        model.set_reshard_after_backward(pieces[last], recurse=recurse)
        (_loss(model, batch) * (share or 1 / len(micro_batches))).backward()
    if forward[1] is not None:
        model.set_reshard_after_forward(forward[1])


def accumulates_as_without_fsdp(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    for batch in micro_batches:
        (_loss(model, batch) / len(micro_batches)).backward()


def forgot_to_divide(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, share=1.0)


def divides_by_the_ranks_too(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, share=1 / len(micro_batches) / dist.get_world_size())


def divides_by_four(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, share=1 / 4)


def skips_the_reduction_alone(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, pieces=(True, True), forward=(None, None))


def forgot_that_forward_reshards(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, forward=(None, None))


def forgot_that_backward_reshards(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, pieces=(True, True))


def reduces_every_time(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, syncs=(True, True))


def leaves_the_parameters_whole(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, pieces=(False, False))


def never_reduces(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, syncs=(False, False))


def reduces_before_the_last(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, syncs=(True, False))


def keeps_the_units_for_ever(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, forward=(False, False))


def sets_the_root_alone(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, recurse=False)


def makes_one_large_batch(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    model.set_reshard_after_forward(False)
    _loss(model, torch.cat(micro_batches)).backward()
    model.set_reshard_after_forward(True)


def runs_one_backward_of_the_sum(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    model.set_reshard_after_forward(False)
    (sum(_loss(model, batch) for batch in micro_batches) / len(micro_batches)).backward()
    model.set_reshard_after_forward(True)


def unshards_the_root_and_hopes(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    model.unshard()
    _run(model, micro_batches, pieces=(False, True), forward=(None, None))


def takes_the_first_for_not_the_last(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    """With one micro-batch the first is the last, and nothing is reduced."""
    model.set_reshard_after_forward(False)
    for i, batch in enumerate(micro_batches):
        if i == 0:
            model.set_requires_gradient_sync(False)
            model.set_reshard_after_backward(False)
        elif i == len(micro_batches) - 1:
            model.set_requires_gradient_sync(True)
            model.set_reshard_after_backward(True)
        (_loss(model, batch) / len(micro_batches)).backward()
    model.set_reshard_after_forward(True)


def reduces_on_rank_0_alone(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches, syncs=(False, dist.get_rank() == 0))


def uses_no_sync_of_ddp(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    with model.no_sync():
        for batch in micro_batches[:-1]:
            (_loss(model, batch) / len(micro_batches)).backward()
    (_loss(model, micro_batches[-1]) / len(micro_batches)).backward()


def runs_the_last_one_only(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    _run(model, micro_batches[-1:])


# 11.3: peak_bytes(units, root, world_size, kept)


def _peak(
    units: list[int],
    root: int,
    world_size: int,
    kept: bool,
    rest: int = 12,
    roots: int = 8,
    moments: list[int] | None = None,
    arriving: bool = True,
    leaving: bool = True,
    pieces: bool = True,
) -> float:
    """The right answer, with its parts to be left out."""
    n = sum(units) + root
    worst = 0.0
    for i in range(len(units)) if moments is None else moments:
        alive = 2 * units[i]
        if kept:
            alive += sum(units[:i])
        elif arriving:
            alive += sum(units[max(i - 1, 0) : i])
        if leaving:
            alive += sum(units[i + 1 : i + 2])
        done = sum(units[i + 1 :]) if pieces else 0
        worst = max(worst, 4 * alive + 4 * done / world_size)
    return rest * n / world_size + roots * root + worst


def counts_one_unit(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, arriving=False, leaving=False)


def forgot_what_arrives(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, arriving=False)


def forgot_what_is_on_its_way(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, leaving=False)


def takes_all_units_for_the_largest(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak([max(units)] * len(units), root, world_size, kept)


def four_times_the_largest(units: list[int], root: int, world_size: int, kept: bool) -> float:
    rest = 12 * (sum(units) + root) / world_size
    return rest + 16 * max(units) + 4 * max(units) / world_size + 8 * root


def forgot_what_is_at_rest(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, rest=0)


def counts_gradients_at_rest(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, rest=16)


def forgot_the_moments(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, rest=4)


def does_not_divide_what_is_at_rest(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, rest=12 * world_size)


def forgot_the_pieces_of_gradients(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, pieces=False)


def takes_one_piece_as_in_the_example(units: list[int], root: int, world_size: int, kept: bool) -> float:
    n = sum(units) + root
    worst = 0.0
    for i, unit in enumerate(units):
        before, after = sum(units[max(i - 1, 0) : i]), sum(units[i + 1 : i + 2])
        whole = sum(units[:i]) if kept else before
        worst = max(worst, 4 * (2 * unit + whole + after) + 4 * after / world_size)
    return 12 * n / world_size + 8 * root + worst


def looks_at_block_2_as_in_the_example(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, moments=[min(2, len(units) - 1)])


def looks_at_the_largest_unit_alone(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, moments=[units.index(max(units))])


def looks_at_the_last_unit_alone(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, moments=[len(units) - 1])


def leaves_out_the_ends(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, moments=list(range(1, len(units) - 1)))


def wraps_around_at_the_first_unit(units: list[int], root: int, world_size: int, kept: bool) -> float:
    """units[-1] is the last unit, and Python does not mind."""
    n = sum(units) + root
    worst = 0.0
    for i, unit in enumerate(units):
        whole = sum(units[:i]) if kept else units[i - 1]
        alive = 2 * unit + whole + sum(units[i + 1 : i + 2])
        worst = max(worst, 4 * alive + 4 * sum(units[i + 1 :]) / world_size)
    return 12 * n / world_size + 8 * root + worst


def runs_past_the_last_unit(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return max(
        12 * (sum(units) + root) / world_size
        + 8 * root
        + 4 * (2 * units[i] + units[i + 1] + (sum(units[:i]) if kept else units[i - 1]))
        + 4 * sum(units[i + 1 :]) / world_size
        for i in range(len(units))
    )


def goes_forward(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units[::-1], root, world_size, kept)


def ignores_kept(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, False)


def kept_means_all_at_every_moment(units: list[int], root: int, world_size: int, kept: bool) -> float:
    if not kept:
        return _peak(units, root, world_size, kept)
    n = sum(units) + root
    moments = [
        4 * (unit + sum(units[i + 1 : i + 2])) + 4 * sum(units[i + 1 :]) / world_size
        for i, unit in enumerate(units)
    ]
    return 12 * n / world_size + 8 * root + 4 * sum(units) + max(moments)


def kept_and_arriving(units: list[int], root: int, world_size: int, kept: bool) -> float:
    if not kept:
        return _peak(units, root, world_size, kept)
    n = sum(units) + root
    moments = [
        4 * (unit + sum(units[: i + 1]) + sum(units[max(i - 1, 0) : i + 2]) - unit)
        + 4 * sum(units[i + 1 :]) / world_size
        for i, unit in enumerate(units)
    ]
    return 12 * n / world_size + 8 * root + max(moments)


def forgot_the_root_s_gradients(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept, roots=4)


def forgot_the_root(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, 0, world_size, kept)


def counts_numbers(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, world_size, kept) / 4


def divides_everything(units: list[int], root: int, world_size: int, kept: bool) -> float:
    return _peak(units, root, 1, kept) / world_size


MUTANTS = {
    "11.1": [
        calls_it_on_the_whole_alone,
        makes_a_unit_of_each_layer,
        forgot_the_last_unit,
        forgot_layers_itself,
        takes_the_whole_first,
        closes_a_unit_when_it_is_over_the_limit,
        stays_below_the_limit,
        packs_by_size,
        counts_weights_without_biases,
        leaves_large_layers_to_the_root,
        keeps_the_units,
        counts_bytes,
        counts_pieces,
        counts_layers,
        wraps_a_new_sequential,
        makes_an_empty_unit,
        shards_on_rank_0_alone,
        joins_the_rest_to_the_last_unit,
    ],
    "11.2": [
        accumulates_as_without_fsdp,
        forgot_to_divide,
        divides_by_the_ranks_too,
        divides_by_four,
        skips_the_reduction_alone,
        forgot_that_forward_reshards,
        forgot_that_backward_reshards,
        reduces_every_time,
        leaves_the_parameters_whole,
        never_reduces,
        reduces_before_the_last,
        keeps_the_units_for_ever,
        sets_the_root_alone,
        makes_one_large_batch,
        runs_one_backward_of_the_sum,
        unshards_the_root_and_hopes,
        takes_the_first_for_not_the_last,
        reduces_on_rank_0_alone,
        uses_no_sync_of_ddp,
        runs_the_last_one_only,
    ],
    "11.3": [
        counts_one_unit,
        forgot_what_arrives,
        forgot_what_is_on_its_way,
        takes_all_units_for_the_largest,
        four_times_the_largest,
        forgot_what_is_at_rest,
        counts_gradients_at_rest,
        forgot_the_moments,
        does_not_divide_what_is_at_rest,
        forgot_the_pieces_of_gradients,
        takes_one_piece_as_in_the_example,
        looks_at_block_2_as_in_the_example,
        looks_at_the_largest_unit_alone,
        looks_at_the_last_unit_alone,
        leaves_out_the_ends,
        wraps_around_at_the_first_unit,
        runs_past_the_last_unit,
        goes_forward,
        ignores_kept,
        kept_means_all_at_every_moment,
        kept_and_arriving,
        forgot_the_root_s_gradients,
        forgot_the_root,
        counts_numbers,
        divides_everything,
    ],
}
FITS = {
    "calls_it_on_the_whole_alone": "how is a smaller unit made",
    "makes_a_unit_of_each_layer": "fully_shard takes a list of modules",
    "forgot_the_last_unit": "which unit should they be in",
    "forgot_layers_itself": "single root module",
    "takes_the_whole_first": "the parts first, layers last",
    "closes_a_unit_when_it_is_over_the_limit": "before the sum is above the limit",
    "stays_below_the_limit": "full to the last parameter",
    "packs_by_size": "a unit is a run of neighbors",
    "counts_weights_without_biases": "too many parameters in a unit",
    "leaves_large_layers_to_the_root": "needs a unit",
    "keeps_the_units": "reshard_after_forward",
    "counts_bytes": "too many units",
    "counts_pieces": "too many parameters in a unit",
    "counts_layers": "too many",
    "wraps_a_new_sequential": "pass a list of layers",
    "makes_an_empty_unit": "IndexError",
    "shards_on_rank_0_alone": "every rank calls the same operations",
    "joins_the_rest_to_the_last_unit": "too many parameters in a unit",
    "accumulates_as_without_fsdp": "which settings keep a unit gathered",
    "forgot_to_divide": "backward adds up, and the mean is wanted",
    "divides_by_the_ranks_too": "what does each micro-batch's loss weigh",
    "divides_by_four": "what does each micro-batch's loss weigh",
    "skips_the_reduction_alone": "which settings keep a unit gathered",
    "forgot_that_forward_reshards": "after forward",
    "forgot_that_backward_reshards": "not from one micro-batch to the next",
    "reduces_every_time": "only the last micro-batch's backward reduces",
    "leaves_the_parameters_whole": "gives each unit back",
    "never_reduces": "has to reduce",
    "reduces_before_the_last": "last micro-batch's gradient is missing",
    "keeps_the_units_for_ever": "settings stay",
    "sets_the_root_alone": "not from one micro-batch to the next",
    "makes_one_large_batch": "one micro-batch at a time",
    "runs_one_backward_of_the_sum": "one micro-batch at a time",
    "unshards_the_root_and_hopes": "after forward",
    "takes_the_first_for_not_the_last": "1 micro-batch",
    "reduces_on_rank_0_alone": "every rank calls the same operations",
    "uses_no_sync_of_ddp": "no_sync",
    "runs_the_last_one_only": "rows of each forward",
    "counts_one_unit": "the one before it, and the one after",
    "forgot_what_arrives": "start to gather",
    "forgot_what_is_on_its_way": "still being reduced",
    "takes_all_units_for_the_largest": "with its own size",
    "four_times_the_largest": "for each unit in turn",
    "forgot_what_is_at_rest": "weights and moments at rest",
    "counts_gradients_at_rest": "not 16",
    "forgot_the_moments": "two moments",
    "does_not_divide_what_is_at_rest": "its piece alone",
    "forgot_the_pieces_of_gradients": "leaves a piece of its gradients",
    "takes_one_piece_as_in_the_example": "of each unit",
    "looks_at_block_2_as_in_the_example": "not the worst",
    "looks_at_the_largest_unit_alone": "not the worst",
    "looks_at_the_last_unit_alone": "not the worst",
    "leaves_out_the_ends": "not the worst",
    "wraps_around_at_the_first_unit": "nothing comes before the first unit",
    "runs_past_the_last_unit": "IndexError",
    "goes_forward": "backward begins with the last unit",
    "ignores_kept": "which of the two cases is `kept`",
    "kept_means_all_at_every_moment": "which are through",
    "kept_and_arriving": "which ones still wait whole",
    "forgot_the_root_s_gradients": "and so are its gradients",
    "forgot_the_root": "where is the root",
    "counts_numbers": "fp32 has 4 bytes",
    "divides_everything": "what is whole is whole on each",
}
