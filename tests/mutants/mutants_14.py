"""Wrong solutions of chapter 14: exposed communication, where half is lost, a hierarchical all-reduce."""

import math
from collections.abc import Callable

import torch
import torch.distributed as dist

from course_utils import timeline

Intervals = list[tuple[float, float]]

# 14.1: exposed_seconds(computing, communicating)


def length(intervals: Intervals) -> float:
    return sum(end - start for start, end in intervals)


def merged(intervals: Intervals) -> Intervals:
    """The union as intervals that do not touch, sorted."""
    union: Intervals = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end)
        else:
            union.append((start, end))
    return union


def common(ones: Intervals, others: Intervals) -> float:
    return sum(max(0, min(b, d) - max(a, c)) for a, b in ones for c, d in others)


def counts_all_communication(computing: Intervals, communicating: Intervals) -> float:
    return length(merged(communicating))


def subtracts_the_lengths(computing: Intervals, communicating: Intervals) -> float:
    return max(0, length(merged(communicating)) - length(merged(computing)))


def returns_what_is_hidden(computing: Intervals, communicating: Intervals) -> float:
    return common(merged(communicating), merged(computing))


def counts_overlapping_messages_twice(computing: Intervals, communicating: Intervals) -> float:
    return length(communicating) - common(communicating, merged(computing))


def hides_twice_behind_overlapping_computation(computing: Intervals, communicating: Intervals) -> float:
    communicating = merged(communicating)
    return length(communicating) - common(communicating, computing)


def compares_intervals_pair_by_pair(computing: Intervals, communicating: Intervals) -> float:
    pairs = zip(communicating, computing, strict=False)
    return sum(length([one]) - common([one], [other]) for one, other in pairs)


def cuts_at_the_first_overlap_alone(computing: Intervals, communicating: Intervals) -> float:
    exposed = 0.0
    for start, end in merged(communicating):
        for begin, finish in merged(computing):
            if begin < end and finish > start:
                exposed += max(0, begin - start) + max(0, end - finish)
                break
        else:
            exposed += end - start
    return exposed


def forgets_intervals_inside_others(computing: Intervals, communicating: Intervals) -> float:
    def union(intervals: Intervals) -> Intervals:
        result: Intervals = []
        for start, end in sorted(intervals):
            if result and start <= result[-1][1]:
                result[-1] = result[-1][0], end  # not the later of the two ends
            else:
                result.append((start, end))
        return result

    communicating = union(communicating)
    return length(communicating) - common(communicating, union(computing))


def forgot_to_sort(computing: Intervals, communicating: Intervals) -> float:
    def union(intervals: Intervals) -> Intervals:
        result: Intervals = []
        for start, end in intervals:
            if result and start <= result[-1][1]:
                result[-1] = result[-1][0], max(result[-1][1], end)
            else:
                result.append((start, end))
        return result

    communicating = union(communicating)
    return length(communicating) - common(communicating, union(computing))


def takes_first_start_to_last_end(computing: Intervals, communicating: Intervals) -> float:
    if not communicating:
        return 0.0
    whole = [(min(start for start, _ in communicating), max(end for _, end in communicating))]
    return length(whole) - common(whole, merged(computing))


def fails_without_computation(computing: Intervals, communicating: Intervals) -> float:
    last = max(end for _, end in computing)
    both = merged(computing + communicating)
    return length(both) - length(merged(computing)) if last else 0.0


def counts_whole_milliseconds(computing: Intervals, communicating: Intervals) -> float:
    def steps(intervals: Intervals) -> set[int]:
        return {k for start, end in intervals for k in range(int(1e3 * start), int(1e3 * end))}

    return len(steps(communicating) - steps(computing)) / 1e3


def calls_the_timeline(computing: Intervals, communicating: Intervals) -> float:
    spans = [timeline.Span("computing", "compute", *pair) for pair in computing]
    spans += [timeline.Span("communicating", "communication", *pair) for pair in communicating]
    return timeline.exposed(spans)


# 14.2: half_lost(compute, size, alpha, bandwidth)


def first_half(compute: float, seconds: Callable[[int], float]) -> int:
    """The smallest W whose step of seconds(W) is at most half as good as compute / W."""
    W = 2
    while W * seconds(W) < 2 * compute:
        W += 1
    return W


def forgot_alpha(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + 2 * (W - 1) / W * size / bandwidth)


def forgot_the_bytes(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + 2 * (W - 1) * alpha)


def sends_the_tensor_once(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + 2 * (W - 1) * alpha + size / bandwidth)


def takes_the_limit_of_two_sizes(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + 2 * (W - 1) * alpha + 2 * size / bandwidth)


def counts_one_half_of_the_ring(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + (W - 1) * (alpha + size / W / bandwidth))


def sends_whole_tensors_in_each_step(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + 2 * (W - 1) * (alpha + size / bandwidth))


def pays_alpha_once(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(compute, lambda W: compute / W + alpha + 2 * (W - 1) / W * size / bandwidth)


def takes_bandwidth_for_seconds_a_byte(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(
        compute, lambda W: compute / W + 2 * (W - 1) * alpha + 2 * (W - 1) / W * size * bandwidth
    )


def keeps_the_batch_of_each_rank(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    W = 2
    while 2 * (W - 1) * alpha + 2 * (W - 1) / W * size / bandwidth < compute and W < 10_000:
        W += 1
    return W


def returns_the_last_good_number(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return right_number(compute, size, alpha, bandwidth) - 1


def right_number(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return first_half(
        compute, lambda W: compute / W + 2 * (W - 1) * alpha + 2 * (W - 1) / W * size / bandwidth
    )


def wants_less_than_half(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    W = 2
    while compute + 2 * W * (W - 1) * alpha + 2 * (W - 1) * size / bandwidth <= 2 * compute:
        W += 1
    return W


def tries_powers_of_two(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    W = 2
    while compute + 2 * W * (W - 1) * alpha + 2 * (W - 1) * size / bandwidth < 2 * compute:
        W *= 2
    return W


def gives_up_at_1024(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    for W in range(2, 1024):
        if compute + 2 * W * (W - 1) * alpha + 2 * (W - 1) * size / bandwidth >= 2 * compute:
            return W
    return 1024


def returns_the_root_unrounded(compute: float, size: float, alpha: float, bandwidth: float) -> float:
    b, a = 2 * (size / bandwidth - alpha), 2 * alpha
    c = -2 * size / bandwidth - compute
    return (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a) if a else -c / b


def rounds_the_root_down(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    return int(returns_the_root_unrounded(compute, size, alpha, bandwidth))


def divides_by_alpha(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    c = (compute + 2 * size / bandwidth) / (2 * alpha)
    b = size / bandwidth / alpha - 1
    return math.ceil(-b / 2 + math.sqrt(b * b / 4 + c))


def where_communication_is_half_of_one_ranks_step(
    compute: float, size: float, alpha: float, bandwidth: float
) -> int:
    W = 2
    while 2 * (W - 1) * alpha + 2 * (W - 1) / W * size / bandwidth < compute / 2 and W < 10_000:
        W += 1
    return W


# 14.3: hierarchical_all_reduce(x, ranks_a_node)


def groups(L: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """This rank's node and its row across the nodes; every rank makes all groups, in the same order."""
    rank, W = dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group(list(range(first, first + L))) for first in range(0, W, L)]
    rows = [dist.new_group(list(range(local, W, L))) for local in range(L)]
    return nodes[rank // L], rows[rank % L]


def padded(x: torch.Tensor, L: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(-len(x) % L)])


def calls_all_reduce(x: torch.Tensor, ranks_a_node: int) -> None:
    dist.all_reduce(x)


def all_reduces_the_world_in_pieces(x: torch.Tensor, ranks_a_node: int) -> None:
    for piece in x.tensor_split(ranks_a_node):
        dist.all_reduce(piece)


def all_reduces_whole_tensors_twice(x: torch.Tensor, ranks_a_node: int) -> None:
    node, row = groups(ranks_a_node)
    dist.all_reduce(x, group=node)
    dist.all_reduce(x, group=row)


def sends_everything_through_a_leader(x: torch.Tensor, ranks_a_node: int) -> None:
    L, rank = ranks_a_node, dist.get_rank()
    node, row = groups(L)
    dist.reduce(x, dst=rank // L * L, group=node)
    if rank % L == 0:
        dist.all_reduce(x, group=row)
    dist.broadcast(x, src=rank // L * L, group=node)


def takes_the_row_for_the_node(x: torch.Tensor, ranks_a_node: int) -> None:
    row, node = groups(ranks_a_node)
    size = dist.get_world_size(node)
    whole = padded(x, size)
    part = whole.new_empty(len(whole) // size)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x.copy_(whole[: len(x)])


def in_three_stages(x: torch.Tensor, L: int) -> torch.Tensor:
    node, row = groups(L)
    whole = padded(x, L)
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    return whole[: len(x)]


def returns_the_sum(x: torch.Tensor, ranks_a_node: int) -> torch.Tensor:
    return in_three_stages(x, ranks_a_node)


def binds_the_name_x(x: torch.Tensor, ranks_a_node: int) -> None:
    x = in_three_stages(x, ranks_a_node)


def divides_by_world_size(x: torch.Tensor, ranks_a_node: int) -> None:
    x.copy_(in_three_stages(x, ranks_a_node) / dist.get_world_size())


def needs_a_divisible_size(x: torch.Tensor, ranks_a_node: int) -> None:
    node, row = groups(ranks_a_node)
    part = x.new_empty(len(x) // ranks_a_node)
    dist.reduce_scatter_single(part, x, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(x, part, group=node)


def drops_the_rest(x: torch.Tensor, ranks_a_node: int) -> None:
    L, (node, row) = ranks_a_node, groups(ranks_a_node)
    whole = x[: len(x) // L * L].clone()
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x[: len(whole)] = whole


def forgot_the_other_nodes(x: torch.Tensor, ranks_a_node: int) -> None:
    node, _ = groups(ranks_a_node)
    dist.all_reduce(x, group=node)


def forgot_the_all_gather(x: torch.Tensor, ranks_a_node: int) -> None:
    L, (node, row) = ranks_a_node, groups(ranks_a_node)
    whole = padded(x, L)
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    mine = x[dist.get_rank() % L * len(part) :][: len(part)]
    mine.copy_(part[: len(mine)])


def pads_in_float32(x: torch.Tensor, ranks_a_node: int) -> None:
    L, (node, row) = ranks_a_node, groups(ranks_a_node)
    whole = torch.zeros(len(x) + -len(x) % L)
    whole[: len(x)] = x
    part = torch.empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x.copy_(whole[: len(x)])


def knows_two_ranks_a_node(x: torch.Tensor, ranks_a_node: int) -> None:
    x.copy_(in_three_stages(x, 2))


def makes_its_own_groups_alone(x: torch.Tensor, ranks_a_node: int) -> None:
    L, rank, W = ranks_a_node, dist.get_rank(), dist.get_world_size()
    node = dist.new_group(list(range(rank // L * L, rank // L * L + L)))
    row = dist.new_group(list(range(rank % L, W, L)))
    whole = padded(x, L)
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x.copy_(whole[: len(x)])


def leaders_alone_make_the_row(x: torch.Tensor, ranks_a_node: int) -> None:
    L, rank, W = ranks_a_node, dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group(list(range(first, first + L))) for first in range(0, W, L)]
    dist.reduce(x, dst=rank // L * L, group=nodes[rank // L])
    if rank % L == 0:
        row = dist.new_group(list(range(0, W, L)))
        dist.all_reduce(x, group=row)
    dist.broadcast(x, src=rank // L * L, group=nodes[rank // L])


def mixes_the_rows(x: torch.Tensor, ranks_a_node: int) -> None:
    L, W = ranks_a_node, dist.get_world_size()
    node, _ = groups(L)
    rows = [dist.new_group(list(range(first, W, W // L))) for first in range(W // L)]
    row = next(group for group in rows if dist.get_rank() in dist.get_process_group_ranks(group))
    whole = padded(x, L)
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x.copy_(whole[: len(x)])


def waits_on_the_first_node_alone(x: torch.Tensor, ranks_a_node: int) -> None:
    L, (node, row) = ranks_a_node, groups(ranks_a_node)
    whole = padded(x, L)
    part = whole.new_empty(len(whole) // L)
    dist.reduce_scatter_single(part, whole, group=node)
    if dist.get_rank() < L:
        dist.all_reduce(part, group=row)
    dist.all_gather_single(whole, part, group=node)
    x.copy_(whole[: len(x)])


MUTANTS = {
    "14.1": [
        counts_all_communication,
        subtracts_the_lengths,
        returns_what_is_hidden,
        counts_overlapping_messages_twice,
        hides_twice_behind_overlapping_computation,
        compares_intervals_pair_by_pair,
        cuts_at_the_first_overlap_alone,
        forgets_intervals_inside_others,
        forgot_to_sort,
        takes_first_start_to_last_end,
        fails_without_computation,
        counts_whole_milliseconds,
        calls_the_timeline,
    ],
    "14.2": [
        forgot_alpha,
        forgot_the_bytes,
        sends_the_tensor_once,
        takes_the_limit_of_two_sizes,
        counts_one_half_of_the_ring,
        sends_whole_tensors_in_each_step,
        pays_alpha_once,
        takes_bandwidth_for_seconds_a_byte,
        keeps_the_batch_of_each_rank,
        returns_the_last_good_number,
        wants_less_than_half,
        tries_powers_of_two,
        gives_up_at_1024,
        returns_the_root_unrounded,
        rounds_the_root_down,
        divides_by_alpha,
        where_communication_is_half_of_one_ranks_step,
    ],
    "14.3": [
        calls_all_reduce,
        all_reduces_the_world_in_pieces,
        all_reduces_whole_tensors_twice,
        sends_everything_through_a_leader,
        takes_the_row_for_the_node,
        returns_the_sum,
        binds_the_name_x,
        divides_by_world_size,
        needs_a_divisible_size,
        drops_the_rest,
        forgot_the_other_nodes,
        forgot_the_all_gather,
        pads_in_float32,
        knows_two_ranks_a_node,
        makes_its_own_groups_alone,
        leaders_alone_make_the_row,
        mixes_the_rows,
        waits_on_the_first_node_alone,
    ],
}
FITS = {
    "counts_all_communication": "that is all communication",
    "subtracts_the_lengths": "lengths alone",
    "returns_what_is_hidden": "computing hides",
    "counts_overlapping_messages_twice": "two messages at the same time",
    "hides_twice_behind_overlapping_computation": "two of them hide counts once",
    "compares_intervals_pair_by_pair": "several intervals of computation",
    "cuts_at_the_first_overlap_alone": "several intervals of computation",
    "forgets_intervals_inside_others": "inside another",
    "forgot_to_sort": "any order",
    "takes_first_start_to_last_end": "gaps|all communication",
    "fails_without_computation": "empty",
    "counts_whole_milliseconds": "milliseconds",
    "calls_the_timeline": "asks you to write",
    "forgot_alpha": "what do small ones",
    "forgot_the_bytes": "bytes",
    "sends_the_tensor_once": "not the size",
    "takes_the_limit_of_two_sizes": "and not twice",
    "counts_one_half_of_the_ring": "two halves",
    "sends_whole_tensors_in_each_step": "one step of the ring",
    "pays_alpha_once": "what do small ones",
    "takes_bandwidth_for_seconds_a_byte": "bytes a second",
    "keeps_the_batch_of_each_rank": "weak scaling",
    "returns_the_last_good_number": "still use more than half",
    "wants_less_than_half": "one rank fewer",
    "tries_powers_of_two": "powers of two",
    "gives_up_at_1024": "go on until",
    "returns_the_root_unrounded": "an int",
    "rounds_the_root_down": "still use more than half",
    "divides_by_alpha": "by zero",
    "where_communication_is_half_of_one_ranks_step": "T1 /",
    "calls_all_reduce": "all ranks of all nodes",
    "all_reduces_the_world_in_pieces": "all ranks of all nodes",
    "all_reduces_whole_tensors_twice": "only the chunk",
    "sends_everything_through_a_leader": "only the chunk",
    "takes_the_row_for_the_node": "only the chunk",
    "returns_the_sum": "into x itself",
    "binds_the_name_x": "into x itself",
    "divides_by_world_size": "average",
    "needs_a_divisible_size": "reduce_scatter_single",
    "drops_the_rest": "the last one too",
    "forgot_the_other_nodes": "this rank's node alone",
    "forgot_the_all_gather": "gathered",
    "pads_in_float32": "dtype",
    "knows_two_ranks_a_node": "only the chunk",
    "makes_its_own_groups_alone": "every rank calls new_group for all",
    "leaders_alone_make_the_row": "every rank calls new_group for all",
    "mixes_the_rows": "follow one chunk",
    "waits_on_the_first_node_alone": "needs all ranks",
}
