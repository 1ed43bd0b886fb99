"""Checks of chapter 03: numbers of ranks on nodes, and the row and column groups of a grid."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, compare, reject

_NODES = ((4, 4, 4), (2, 8, 1), (3,), (1, 1, 5, 2))  # processes on each node
_IMPOSSIBLE_PLACES = ((0, 4, (4, 4)), (2, 0, (4, 4)), (0, -1, (4, 4)), (-1, 0, (4, 4)), (1, 2, (4, 2)))
_IMPOSSIBLE_RANKS = ((8, (4, 4)), (-1, (4, 4)), (3, (1, 2)))
_PATIENCE = 5.0  # seconds for a call that takes a tenth of one, so that a hang gets a report that fits
_GRIDS = {6: ((2, 3), (3, 2)), 4: ((2, 2), (1, 4), (4, 1))}  # by world_size: (rows, columns)


def _places(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(node, local rank) of rank 0, 1, ..."""
    return [(node, local) for node, size in enumerate(sizes) for local in range(size)]


def _result(function: Callable[..., Any], *arguments: Any) -> Any:
    """What came back; the last argument, the processes on each node, has to stay as it was."""
    *place, sizes = arguments
    given = list(sizes)
    try:
        result = function(*place, given)
    except ValueError:
        result = "ValueError"
    return result if given == list(sizes) else f"{given}, left of ranks_a_node"


def _refusal(function: Callable[..., Any], *arguments: Any) -> Any:
    """The name of what was raised where there is no process, or what came back."""
    try:
        result = _result(function, *arguments)
    except Exception as error:
        return type(error).__name__
    return f"{type(result).__name__}, returned and not raised" if isinstance(result, Exception) else result


def _check_refusal(what: str, came: Any) -> None:
    if came != "ValueError":
        hint = "no process stands there: raise ValueError, since a wrong number starts a hang"
        came = "None" if came is None else came
        reject(f"{what} was not refused", expected="ValueError", came=came, hint=hint)


def _check_untouched(what: str, came: Any, sizes: Sequence[int]) -> None:
    if str(came).endswith("left of ranks_a_node"):
        hint = "the caller still needs the list: leave it as it is, or work on a copy"
        reject(f"{what} changed the list", expected=list(sizes), came=came, hint=hint)


def see_global_rank(global_rank: Callable[..., Any]) -> dict[str, Any]:
    ranks = [[_result(global_rank, *place, sizes) for place in _places(sizes)] for sizes in _NODES]
    refused = [_refusal(global_rank, *place) for place in _IMPOSSIBLE_PLACES]
    return {"ranks": ranks, "refused": refused}


def decide_global_rank(seen: list[dict[str, Any]]) -> str:
    hint = "a rank's number is how many processes stand before it, on the nodes before and on its own"
    for sizes, ranks in zip(_NODES, seen[0]["ranks"], strict=True):
        for (node, local), rank, wanted in zip(_places(sizes), ranks, range(sum(sizes)), strict=True):
            what = f"node {node}, local rank {local}, nodes of {list(sizes)}"
            _check_untouched(what, rank, sizes)
            compare(what, rank, wanted, hint=hint)
    for (node, local, sizes), came in zip(_IMPOSSIBLE_PLACES, seen[0]["refused"], strict=True):
        _check_refusal(f"node {node}, local rank {local}, nodes of {list(sizes)}", came)
    return "numbers run through the first node, then through the next, however many processes each has."


def see_node_and_local_rank(node_and_local_rank: Callable[..., Any]) -> dict[str, Any]:
    places = [[_result(node_and_local_rank, rank, sizes) for rank in range(sum(sizes))] for sizes in _NODES]
    refused = [_refusal(node_and_local_rank, *rank) for rank in _IMPOSSIBLE_RANKS]
    return {"places": places, "refused": refused}


def decide_node_and_local_rank(seen: list[dict[str, Any]]) -> str:
    all_wanted = [_places(sizes) for sizes in _NODES]
    swapped = seen[0]["places"] == [[[*reversed(place)] for place in places] for places in all_wanted]
    for sizes, places, wanted in zip(_NODES, seen[0]["places"], all_wanted, strict=True):
        for rank, (came, place) in enumerate(zip(places, wanted, strict=True)):
            what = f"(node, local rank) of rank {rank}, nodes of {list(sizes)}"
            _check_untouched(what, came, sizes)
            order = "the node comes first, then the local rank" if swapped else ""
            compare(what, came, place, hint=order or _way_to(came, rank, sizes))
    for (rank, sizes), came in zip(_IMPOSSIBLE_RANKS, seen[0]["refused"], strict=True):
        _check_refusal(f"rank {rank}, nodes of {list(sizes)}", came)
    return "the local rank, not the rank, is the number of the GPU on its node."


def _way_to(came: Any, rank: int, sizes: Sequence[int]) -> str:
    if not isinstance(came, list) or len(came) != 2:
        return "two numbers are asked for: the node, then the local rank"
    if rank == 0:
        return "nodes and local ranks are numbered from 0, as ranks are"
    node, local = came
    if type(node) is type(local) is int and 0 <= node < len(sizes) and local >= sizes[node]:
        return f"node {node} has {sizes[node]} processes; its last local rank is {sizes[node] - 1}"
    return "each node has its own number of processes: go through the nodes, and leave behind those of each"


def _look_at(group: Any) -> dict[str, Any]:
    if not isinstance(group, dist.ProcessGroup):
        return {"kind": type(group).__name__, "ranks": [], "name": "", "about": ""}
    ranks = dist.get_process_group_ranks(group)
    about = {"name": group.group_name, "about": group.group_desc}
    return {"kind": "ProcessGroup", "ranks": ranks, "number": dist.get_rank(group), **about}


def _agreed(looks: Sequence[Sequence[dict[str, Any]]]) -> bool:
    """Whether every member of every group means the same group: only then may a collective run in it."""
    return all(
        look["kind"] == "ProcessGroup"
        and rank in look["ranks"]
        and all(looks[member][i] == {**look, "number": n} for n, member in enumerate(look["ranks"]))
        for rank, pair in enumerate(looks)
        for i, look in enumerate(pair)
    )


def _members(group: dist.ProcessGroup) -> list[int]:
    """Who really takes part, whatever the group says of itself: each rank adds a bit of its own."""
    bits = torch.tensor(1 << dist.get_rank())
    dist.all_reduce(bits, group=group)
    return [rank for rank in range(dist.get_world_size()) if bits.item() >> rank & 1]


def _call(grid_groups: Callable[..., Any], rows: int, columns: int) -> list[Any] | None:
    """What it returned, as a list; None where it still waits."""
    ends: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            groups = grid_groups(rows, columns)
            pair = [] if groups is None else groups if isinstance(groups, (list, tuple)) else [groups]
            ends.append((True, list(pair)))
        except BaseException as error:
            ends.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if ends and not ends[0][0]:
        error = ends[0][1]
        if error.args:  # the stub's error has none
            empty = "incompatible constructor arguments" in str(error)  # torch's answer to new_group([])
            what = "new_group got a list without ranks" if empty else error
            error.args = (f"{what}, in grid_groups({rows}, {columns})",)
        raise error
    return ends[0][1] if ends else None


def see_grid_groups(grid_groups: Callable[..., Any]) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    apart = dist.new_group()  # no collective left unfinished in the world's group can meet these messages
    dist.barrier(group=apart)  # a rank that fails at once would break the others' connections
    for rows, columns in _GRIDS[dist.get_world_size()]:
        before = dist.distributed_c10d._world.group_count
        groups = _call(grid_groups, rows, columns)
        created = dist.distributed_c10d._world.group_count - before
        looks = None if groups is None else [_look_at(group) for group in groups]
        everybody: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, looks, group=apart)
        seen.append({"before": before, "looks": looks, "created": created, "members": None})
        if None in everybody or not all(len(pair) == 2 for pair in everybody) or not _agreed(everybody):
            break
        seen[-1]["members"] = [_members(group) for group in groups or ()]
    return seen


def decide_grid_groups(seen: list[list[dict[str, Any]]]) -> str:
    for i, (rows, columns) in enumerate(_GRIDS[len(seen)]):
        where = f"grid_groups({rows}, {columns})"
        waits = [rank for rank, grids in enumerate(seen) if grids[i]["looks"] is None]
        if waits:
            calls = ", ".join(f"{grids[i]['created']} on rank {r}" for r, grids in enumerate(seen))
            done = all(grids[i]["created"] == rows + columns for grids in seen)
            reject(
                f"{where}: still waiting after {_PATIENCE:g} s",
                expected=f"{rows + columns} calls of new_group on every rank, in one and the same order",
                came=f"calls so far: {calls}",
                rank=waits[0],
                hint="the groups are made; what waits is a call that not all members make"
                if done
                else "a rank takes part in making every group, its own or not",
            )
        lines = [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
        wanted = [[lines[r // columns], [line[r % columns] for line in lines]] for r in range(len(seen))]
        for rank, (s, ranks) in enumerate(zip((grids[i] for grids in seen), wanted, strict=True)):
            returned, both = len(s["looks"]), "return both groups: the row's, then the column's"
            compare(f"{where}: number of groups returned", returned, 2, rank=rank, hint=both)
            _check_origin(where, s, rows + columns, rank)
            for n, kind in enumerate(("row", "column")):
                _check_group(f"{where}: the {kind} group", s["looks"][n], ranks[n], ranks, rank)
        for rank, (s, ranks) in enumerate(zip((grids[i] for grids in seen), wanted, strict=True)):
            if s["members"] is None:
                numbers = " and ".join(str(_number(look["name"], s["before"])) for look in s["looks"])
                reject(
                    f"{where}: the members of a group don't mean the same group",
                    expected="every rank creates the groups in one and the same order",
                    came=f"this rank created its two groups as number {numbers}",
                    rank=rank,
                    hint="a group's name counts the calls of new_group on its rank",
                )
            compare(f"{where}: who took part in a sum", s["members"], ranks, rank=rank)
    return "every rank created every group, and the sums met in the right ones."


def _number(name: str, before: int) -> int | str:
    """Which of this call's groups it was, from 1, where the name is torch's count."""
    return int(name) - before + 1 if name.isdecimal() else name


def _check_origin(where: str, seen: dict[str, Any], wanted: int, rank: int) -> None:
    """The groups were made by new_group, in this call, and no more of them than asked for."""
    if any(look["about"].startswith("mesh") for look in seen["looks"]):
        reject(
            f"{where}: a DeviceMesh made the groups",
            expected="groups from dist.new_group",
            came="init_device_mesh",
            rank=rank,
            hint="the mesh is what this exercise asks you to write",
        )
    if seen["created"] != wanted:
        reject(
            f"{where}: too {'many' if seen['created'] > wanted else 'few'} calls of new_group",
            expected=wanted,
            came=seen["created"],
            rank=rank,
            hint="at every call every rank creates one group for each row and column, its own or not",
        )


def _check_group(what: str, look: dict[str, Any], ranks: list[int], both: list[list[int]], rank: int) -> None:
    if look["kind"] != "ProcessGroup":
        outside = look["kind"] == "int"  # GroupMember.NON_GROUP_MEMBER
        reject(
            f"{what} is no group of this rank",
            expected="a ProcessGroup",
            came=f"{look['kind']}{', which new_group gives to a rank that is no member' if outside else ''}",
            rank=rank,
            hint="keep the group whose list of ranks has this rank in it",
        )
    if look["ranks"] != ranks:
        swapped = look["ranks"] in both
        hint = (
            "the row group comes first, then the column group" if swapped else "rank = row · columns + column"
        )
        reject(f"{what} has other members", expected=ranks, came=look["ranks"], rank=rank, hint=hint)
    compare(f"{what}: this rank's number in it", look["number"], ranks.index(rank), rank=rank)


_ALONE: dict[str, Any] = {
    "world_sizes": (1,),
    "timeout": 5.0,
    "timeout_hint": "a loop has to come to its end: what changes from one turn to the next?",
}
EXERCISES = {
    "03.1": Exercise(see_global_rank, decide_global_rank, **_ALONE),
    "03.2": Exercise(see_node_and_local_rank, decide_node_and_local_rank, **_ALONE),
    "03.3": Exercise(see_grid_groups, decide_grid_groups, world_sizes=(6, 4)),
}
