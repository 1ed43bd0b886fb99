"""Reference solutions of chapter 03."""

import torch.distributed as dist


def global_rank(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    """The rank of the process with this local rank on this node.

    ranks_a_node: how many processes each node runs. Raises ValueError where there is no such process.
    """
    if not 0 <= node < len(ranks_a_node) or not 0 <= local_rank < ranks_a_node[node]:
        raise ValueError(f"no local rank {local_rank} on node {node} of {ranks_a_node}")
    return sum(ranks_a_node[:node]) + local_rank


def node_and_local_rank(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    """(node, local rank) of the process with this rank.

    ranks_a_node: how many processes each node runs. Raises ValueError where there is no such process.
    """
    left = rank
    for node, ranks in enumerate(ranks_a_node):
        if 0 <= left < ranks:
            return node, left
        left -= ranks
    raise ValueError(f"no rank {rank} on nodes of {ranks_a_node}")


def grid_groups(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """This rank's row group and column group.

    The ranks stand in a grid, row by row: rank = row · columns + column, and rows · columns = world_size.
    """
    row, column = divmod(dist.get_rank(), columns)
    row_groups = [dist.new_group([r * columns + c for c in range(columns)]) for r in range(rows)]
    column_groups = [dist.new_group([r * columns + c for r in range(rows)]) for c in range(columns)]
    return row_groups[row], column_groups[column]


SOLUTIONS = {"03.1": global_rank, "03.2": node_and_local_rank, "03.3": grid_groups}
