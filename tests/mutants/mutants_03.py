"""Wrong solutions of chapter 03: ranks from places and back, the groups of a grid."""

import os
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


def knows_nodes_of_four(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return 4 * node + local_rank


def adds_only_the_node_before(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return (ranks_a_node[node - 1] if node else 0) + local_rank


def deals_ranks_out_in_turn(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return local_rank * len(ranks_a_node) + node


def counts_from_one(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return sum(ranks_a_node[:node]) + local_rank + 1


def asks_the_process_group(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    return dist.get_rank()


def asserts_instead_of_raising(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    assert 0 <= node < len(ranks_a_node)
    assert 0 <= local_rank < ranks_a_node[node]
    return sum(ranks_a_node[:node]) + local_rank


def returns_the_error(node: int, local_rank: int, ranks_a_node: list[int]) -> int | ValueError:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        return ValueError("no such process")
    return sum(ranks_a_node[:node]) + local_rank


def computes_and_returns_nothing(node: int, local_rank: int, ranks_a_node: list[int]) -> None:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    _rank = sum(ranks_a_node[:node]) + local_rank


def takes_nodes_off_the_list(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    if not (0 <= node < len(ranks_a_node) and 0 <= local_rank < ranks_a_node[node]):
        raise ValueError("no such process")
    return sum(ranks_a_node.pop(0) for _ in range(node)) + local_rank


def never_reaches_its_node(node: int, local_rank: int, ranks_a_node: list[int]) -> int:
    before, at = 0, 0
    while at < node:
        before += ranks_a_node[at]  # forgot at += 1
    return before + local_rank


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


def divides_by_four(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank < sum(ranks_a_node):
        raise ValueError("no such process")
    return divmod(rank, 4)


def deals_nodes_out_in_turn(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank < sum(ranks_a_node):
        raise ValueError("no such process")
    return rank % len(ranks_a_node), rank // len(ranks_a_node)


def subtracts_only_the_node_before(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    end = 0
    for node, ranks in enumerate(ranks_a_node):
        end += ranks
        if 0 <= rank < end:
            return node, rank - (ranks_a_node[node - 1] if node else 0)
    raise ValueError("no such process")


def returns_the_local_rank_alone(rank: int, ranks_a_node: list[int]) -> int:
    if rank >= 0:
        for ranks in ranks_a_node:
            if rank < ranks:
                return rank
            rank -= ranks
    raise ValueError("no such process")


def counts_nodes_from_one(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if rank >= 0:
        for node, ranks in enumerate(ranks_a_node, 1):
            if rank < ranks:
                return node, rank
            rank -= ranks
    raise ValueError("no such process")


def takes_one_rank_too_many(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank <= sum(ranks_a_node):
        raise ValueError("no such process")
    node = 0
    while node < len(ranks_a_node) - 1 and rank >= ranks_a_node[node]:
        rank -= ranks_a_node[node]
        node += 1
    return node, rank


def reads_its_own_environment(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    return int(os.environ["GROUP_RANK"]), int(os.environ["LOCAL_RANK"])


def never_leaves_a_node(rank: int, ranks_a_node: list[int]) -> tuple[int, int]:
    if not 0 <= rank < sum(ranks_a_node):
        raise ValueError("no such process")
    node, start = 0, 0
    while rank >= start + ranks_a_node[node]:
        start = sum(ranks_a_node[:node])  # forgot node += 1
    return node, rank - start


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


def lets_only_members_synchronize(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    return (
        dist.new_group(lines[row], use_local_synchronization=True),
        dist.new_group(stacks[column], use_local_synchronization=True),
    )


def ends_a_row_too_early(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    line_groups = [dist.new_group(list(range(r * columns, r + columns))) for r in range(rows)]
    stack_groups = [dist.new_group(ranks) for ranks in ranks_of(rows, columns)[1]]
    return line_groups[row], stack_groups[column]


def knows_four_ranks(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    line_groups = [dist.new_group(ranks) for ranks in ranks_of(rows, columns)[0]]
    stack_groups = [dist.new_group(list(range(c, 4, columns))) for c in range(columns)]
    return line_groups[row], stack_groups[column]


def steps_down_a_column_by_rows(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    line_groups = [dist.new_group(ranks) for ranks in ranks_of(rows, columns)[0]]
    stack_groups = [dist.new_group(list(range(c, rows * columns, rows))) for c in range(columns)]
    return line_groups[row], stack_groups[column]


def stops_when_it_has_its_own(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    mine = []
    for lines in ranks_of(rows, columns):
        for ranks in lines:
            group = dist.new_group(ranks)
            if dist.get_rank() in ranks:
                mine.append(group)
                break
    return mine[0], mine[1]


def forgets_the_columns(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    groups = [dist.new_group(ranks) for ranks in ranks_of(rows, columns)[0]]
    return groups[dist.get_rank() // columns], groups[dist.get_rank() // columns]


def gives_the_world_twice(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    return dist.group.WORLD, dist.group.WORLD


def returns_the_row_alone(rows: int, columns: int) -> dist.ProcessGroup:
    lines, stacks = ranks_of(rows, columns)
    groups = [dist.new_group(ranks) for ranks in lines + stacks]
    return groups[dist.get_rank() // columns]


def creates_and_returns_nothing(rows: int, columns: int) -> None:
    lines, stacks = ranks_of(rows, columns)
    for ranks in lines + stacks:
        dist.new_group(ranks)


def lets_rank_0_wait_for_the_others(rows: int, columns: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    row, column = divmod(dist.get_rank(), columns)
    lines, stacks = ranks_of(rows, columns)
    groups = [dist.new_group(ranks) for ranks in lines], [dist.new_group(ranks) for ranks in stacks]
    if dist.get_rank() == 0:
        dist.barrier()
    return groups[0][row], groups[1][column]


MUTANTS = {
    "03.1": [
        assumes_that_all_nodes_run_as_many,
        counts_its_own_node_as_well,
        takes_any_place,
        takes_negative_places,
        takes_one_local_rank_too_many,
        lets_the_list_raise,
        returns_minus_one_for_no_process,
        knows_nodes_of_four,
        adds_only_the_node_before,
        deals_ranks_out_in_turn,
        counts_from_one,
        asks_the_process_group,
        asserts_instead_of_raising,
        returns_the_error,
        computes_and_returns_nothing,
        takes_nodes_off_the_list,
        never_reaches_its_node,
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
        divides_by_four,
        deals_nodes_out_in_turn,
        subtracts_only_the_node_before,
        returns_the_local_rank_alone,
        counts_nodes_from_one,
        takes_one_rank_too_many,
        reads_its_own_environment,
        never_leaves_a_node,
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
        lets_only_members_synchronize,
        ends_a_row_too_early,
        knows_four_ranks,
        steps_down_a_column_by_rows,
        stops_when_it_has_its_own,
        forgets_the_columns,
        gives_the_world_twice,
        returns_the_row_alone,
        creates_and_returns_nothing,
        lets_rank_0_wait_for_the_others,
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
    "knows_nodes_of_four": "on the nodes before",
    "adds_only_the_node_before": "on the nodes before",
    "deals_ranks_out_in_turn": "stand before it",
    "counts_from_one": "stand before it",
    "asks_the_process_group": "stand before it",
    "asserts_instead_of_raising": r"ValueError[\s\S]*AssertionError",
    "returns_the_error": "returned and not raised",
    "computes_and_returns_nothing": "return",
    "takes_nodes_off_the_list": "copy",
    "never_reaches_its_node": "loop",
    "divides_by_four": "last local rank",
    "deals_nodes_out_in_turn": "go through the nodes",
    "subtracts_only_the_node_before": "last local rank",
    "returns_the_local_rank_alone": "two numbers",
    "counts_nodes_from_one": "from 0",
    "takes_one_rank_too_many": r"rank 8[\s\S]*ValueError",
    "reads_its_own_environment": "go through the nodes",
    "never_leaves_a_node": "loop",
    "lets_only_members_synchronize": "every rank creates one group",
    "ends_a_row_too_early": r"the row group has other members[\s\S]*\[3, 4, 5\]",
    "knows_four_ranks": r"the column group has other members[\s\S]*\[1, 4\]",
    "steps_down_a_column_by_rows": r"row · columns \+ column",
    "stops_when_it_has_its_own": "its own or not",
    "forgets_the_columns": "too few",
    "gives_the_world_twice": "too few",
    "returns_the_row_alone": "return both",
    "creates_and_returns_nothing": "return both",
    "lets_rank_0_wait_for_the_others": "not all members make",
}
