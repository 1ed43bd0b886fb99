"""Solutions of chapter 14: exposed communication, the ranks that waste half, a hierarchical all-reduce."""

import torch
import torch.distributed as dist
import torch.nn.functional as F


def merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times that the intervals cover, as disjoint intervals in order."""
    covered: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if covered and start <= covered[-1][1]:
            covered[-1] = (covered[-1][0], max(covered[-1][1], end))
        else:
            covered.append((start, end))
    return covered


def exposed_seconds(computing: list[tuple[float, float]], communicating: list[tuple[float, float]]) -> float:
    hidden = 0.0
    for start, end in merged(communicating):
        hidden += sum(max(0.0, min(end, e) - max(start, s)) for s, e in merged(computing))
    return sum(end - start for start, end in merged(communicating)) - hidden


def half_lost(compute: float, size: float, alpha: float, bandwidth: float) -> int:
    ranks = 2
    while True:
        step = compute / ranks + 2 * (ranks - 1) * (alpha + size / ranks / bandwidth)
        if compute / (ranks * step) <= 0.5:
            return ranks
        ranks += 1


def hierarchical_all_reduce(x: torch.Tensor, ranks_a_node: int) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    nodes = [list(range(first, first + ranks_a_node)) for first in range(0, world_size, ranks_a_node)]
    rows = [list(range(local, world_size, ranks_a_node)) for local in range(ranks_a_node)]
    groups = {tuple(ranks): dist.new_group(ranks) for ranks in nodes + rows}  # all ranks make all groups
    node = groups[tuple(nodes[rank // ranks_a_node])]
    row = groups[tuple(rows[rank % ranks_a_node])]

    padded = F.pad(x, (0, -len(x) % ranks_a_node))
    part = padded.new_empty(len(padded) // ranks_a_node)
    dist.reduce_scatter_single(part, padded, group=node)
    dist.all_reduce(part, group=row)
    dist.all_gather_single(padded, part, group=node)
    x.copy_(padded[: len(x)])


SOLUTIONS = {"14.1": exposed_seconds, "14.2": half_lost, "14.3": hierarchical_all_reduce}
