"""Wrong solutions of chapter 03: ranks from places and back, the groups of a grid."""

from functools import cache

import torch.distributed as dist

# 03.1: global_rank(node, local_rank, ranks_a_node)


def assumes_that_all_nodes_run_as_many(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return node * ranks_a_node[node] + local_rank


def counts_its_own_node_as_well(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return sum(ranks_a_node[: node + 1]) + local_rank


def takes_any_place(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    return sum(ranks_a_node[:node]) + local_rank


def takes_negative_places(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if node >= len(ranks_a_node) or local_rank >= ranks_a_node[node]:
        raise ValueError("no such process")
    return sum(ranks_a_node[:node]) + local_rank


def takes_one_local_rank_too_many(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank <= ranks_a_node[node]):
        raise ValueError("no such process")
    return sum(ranks_a_node[:node]) + local_rank


def lets_the_list_raise(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not 0 <= local_rank < ranks_a_node[node] or node < 0:  # IndexError behind the last node
        raise ValueError("no such process")
    return sum(ranks_a_node[:node]) + local_rank


def returns_minus_one_for_no_process(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        return -1
    return sum(ranks_a_node[:node]) + local_rank


# 03.2: node_and_local_rank(rank, ranks_a_node)


def divides_by_the_first_node(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank < sum(ranks_a_node):
        raise ValueError("no such process")
    return divmod(rank, ranks_a_node[0])


def leaves_each_node_one_rank_late(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank < sum(ranks_a_node):
        raise ValueError("no such process")
    node = 0
    while rank > ranks_a_node[node]:
        rank -= ranks_a_node[node]
        node += 1
    return node, rank


def keeps_the_global_rank(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    end = 0
    for node, ranks in enumerate(ranks_a_node):
        end += ranks
        if 0 <= rank < end:
            return node, rank
    raise ValueError("no such process")


def swaps_the_two(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if rank >= 0:
        for node, ranks in enumerate(ranks_a_node):
            if rank < ranks:
                return rank, node
            rank -= ranks
    raise ValueError("no such process")


def runs_off_the_list(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if rank < 0:
        raise ValueError("no such process")
    node = 0
    while rank >= ranks_a_node[node]:
        rank -= ranks_a_node[node]
        node += 1
    return node, rank


def takes_negative_ranks(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    for node, ranks in enumerate(ranks_a_node):
        if rank < ranks:
            return node, rank
        rank -= ranks
    raise ValueError("no such process")


def returns_nothing_behind_the_last_node(rank: int, ranks_a_node: list[int]) -> tuple[int, int] | None:
    if rank < 0:
        raise ValueError("no such process")
    for node, ranks in enumerate(ranks_a_node):
        if rank < ranks:
            return node, rank
        rank -= ranks
    return None


def uses_up_the_list(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    node = 0
    while rank >= 0 and ranks_a_node:
        ranks = ranks_a_node.pop(0)
        if rank < ranks:
            return node, rank
        rank -= ranks
        node += 1
    raise ValueError("no such process")


# 03.3: grid_groups(rows, columns)


def ranks_of(rows: int, columns: int) -> tuple[list[list[int]], list[list[int]]]:
    """The ranks of each row and of each column."""
    lines = [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
    return lines, [list(column) for column in zip(*lines, strict=True)]


def creates_its_own_two_alone(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    return dist.new_group(lines[row]), dist.new_group(stacks[column])


def creates_its_own_two_first(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    mine = dist.new_group(lines[row]), dist.new_group(stacks[column])
    for ranks in lines[:row] + lines[row + 1 :] + stacks[:column] + stacks[column + 1 :]:
        dist.new_group(ranks)
    return mine


def returns_the_last_it_created(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    lines, stacks = ranks_of(rows, columns)
    for ranks in lines:
        row = dist.new_group(ranks)
    for ranks in stacks:
        column = dist.new_group(ranks)
    return row, column


def returns_column_and_row(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    line_groups = [dist.new_group(ranks) for ranks in lines]
    stack_groups = [dist.new_group(ranks) for ranks in stacks]
    return stack_groups[column], line_groups[row]


def numbers_column_by_column(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    column, row = divmod(dist.get_rank(), rows)
    stacks, lines = ranks_of(columns, rows)
    line_groups = [dist.new_group(ranks) for ranks in lines]
    stack_groups = [dist.new_group(ranks) for ranks in stacks]
    return line_groups[row], stack_groups[column]


def divides_by_the_rows(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = dist.get_rank() // rows, dist.get_rank() % rows  # right for a square
    line_groups = [dist.new_group([row * rows + c for c in range(columns)]) for row in range(rows)]
    stack_groups = [dist.new_group([r * rows + column for r in range(rows)]) for column in range(columns)]
    return line_groups[row], stack_groups[column]


def knows_one_grid(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    lines = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    stacks = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    return lines[dist.get_rank() // 2], stacks[dist.get_rank() % 2]


@cache
def first_grid() -> list:
    """What the first call left here."""
    return []


def answers_with_the_first_grid(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    kept = first_grid()
    if not kept:
        row, column = divmod(dist.get_rank(), columns)
        lines, stacks = ranks_of(rows, columns)
        kept.append([dist.new_group(ranks) for ranks in lines][row])
        kept.append([dist.new_group(ranks) for ranks in stacks][column])
    return kept[0], kept[1]


def creates_two_groups_for_each_rank(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    lines, stacks = ranks_of(rows, columns)
    for rank in range(rows * columns):
        row, column = dist.new_group(lines[rank // columns]), dist.new_group(stacks[rank % columns])
        if rank == dist.get_rank():
            mine = row, column
    return mine


def lets_the_mesh_do_it(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    mesh = dist.init_device_mesh("cpu", (rows, columns), mesh_dim_names=("row", "column"))
    return mesh.get_group("column"), mesh.get_group("row")


def takes_the_mesh_dimensions_by_name(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    mesh = dist.init_device_mesh("cpu", (rows, columns), mesh_dim_names=("row", "column"))
    return mesh.get_group("row"), mesh.get_group("column")


def returns_the_ranks(rows: int, columns: int) -> tuple[list[int], list[int]]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    for ranks in lines + stacks:
        dist.new_group(ranks)
    return lines[row], stacks[column]


def returns_all_groups(rows: int, columns: int) -> tuple[list[dist.ProcessGroup], list[dist.ProcessGroup]]:
    lines, stacks = ranks_of(rows, columns)
    return [dist.new_group(ranks) for ranks in lines], [dist.new_group(ranks) for ranks in stacks]


def takes_the_world_for_a_single_row(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    line_groups = [dist.new_group(ranks) if rows > 1 else None for ranks in lines]
    stack_groups = [dist.new_group(ranks) if columns > 1 else None for ranks in stacks]
    return line_groups[row], stack_groups[column]


MUTANTS = {
    "03.1": [
        assumes_that_all_nodes_run_as_many,
        counts_its_own_node_as_well,
        takes_any_place,
        takes_negative_places,
        takes_one_local_rank_too_many,
        lets_the_list_raise,
        returns_minus_one_for_no_process,
    ],
    "03.2": [
        divides_by_the_first_node,
        leaves_each_node_one_rank_late,
        keeps_the_global_rank,
        swaps_the_two,
        runs_off_the_list,
        takes_negative_ranks,
        returns_nothing_behind_the_last_node,
        uses_up_the_list,
    ],
    "03.3": [
        creates_its_own_two_alone,
        creates_its_own_two_first,
        returns_the_last_it_created,
        returns_column_and_row,
        numbers_column_by_column,
        divides_by_the_rows,
        knows_one_grid,
        answers_with_the_first_grid,
        creates_two_groups_for_each_rank,
        lets_the_mesh_do_it,
        takes_the_mesh_dimensions_by_name,
        returns_the_ranks,
        returns_all_groups,
        takes_the_world_for_a_single_row,
    ],
}
FITS = {
    "assumes_that_all_nodes_run_as_many": "on the nodes before",
    "counts_its_own_node_as_well": "stand before it",
    "takes_any_place": "ValueError",
    "takes_negative_places": r"-1[\s\S]*ValueError",
    "takes_one_local_rank_too_many": r"local rank 4[\s\S]*ValueError",
    "lets_the_list_raise": r"ValueError[\s\S]*IndexError",
    "returns_minus_one_for_no_process": "ValueError",
    "divides_by_the_first_node": "its own number of processes",
    "leaves_each_node_one_rank_late": "last local rank",
    "keeps_the_global_rank": "last local rank",
    "swaps_the_two": "the node comes first",
    "runs_off_the_list": r"ValueError[\s\S]*IndexError",
    "takes_negative_ranks": r"-1[\s\S]*ValueError",
    "returns_nothing_behind_the_last_node": r"ValueError[\s\S]*None",
    "uses_up_the_list": "copy",
    "creates_its_own_two_alone": "every group, its own or not",
    "creates_its_own_two_first": "same order",
    "returns_the_last_it_created": "no member",
    "returns_column_and_row": "row group comes first",
    "numbers_column_by_column": "row · columns",
    "divides_by_the_rows": r"IndexError.*grid_groups\(2, 3\)",
    "knows_one_grid": r"IndexError.*grid_groups\(2, 3\)",
    "answers_with_the_first_grid": "at every call",
    "creates_two_groups_for_each_rank": "too many",
    "lets_the_mesh_do_it": "mesh",
    "takes_the_mesh_dimensions_by_name": "mesh",
    "returns_the_ranks": r"\blist\b",
    "returns_all_groups": r"\blist\b",
    "takes_the_world_for_a_single_row": "too few",
}
