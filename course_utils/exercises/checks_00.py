"""Check of chapter 00: one collective that leaves the maximum everywhere."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks
from course_utils.measure import count_operations

# by world_size: all below zero, and the largest never on the first or the last rank
_NUMBERS = {4: (-3.5, -7.0, -0.5, -9.0), 3: (-8.0, -2.5, -4.0)}


def _mine(rank: int, world_size: int) -> torch.Tensor:
    return torch.tensor([_NUMBERS[world_size][rank]], dtype=torch.float64)


def see_largest(largest: Callable[..., Any]) -> dict[str, Any]:
    mine = _mine(dist.get_rank(), dist.get_world_size())
    with count_operations() as operations:
        result = largest(mine)
    return {"largest": result, "mine": mine, "operations": operations}


def decide_largest(seen: list[dict[str, Any]]) -> str:
    numbers = _NUMBERS[len(seen)]
    hint = f"the ranks had {', '.join(map(str, numbers))}"
    compare_ranks("the result", [s["largest"] for s in seen], [[max(numbers)]] * len(seen), hint=hint)
    for rank, s in enumerate(seen):
        copy = "all_reduce works in place: give it a copy"
        compare("mine after the call", s["mine"], [numbers[rank]], rank=rank, hint=copy)
        at_most("collectives", sum(s["operations"].values()), 1, rank=rank, hint="one is enough")
    return "every rank knows the largest number, after a single collective, on four ranks and on three."


EXERCISES = {"00.1": Exercise(see_largest, decide_largest, world_sizes=(4, 3), timeout=10)}
