"""A miniature chapter for testing the framework: ranks, world sizes, a resource, a value, no ranks."""

import torch
import torch.distributed as dist

from course_utils.exercises.judging import Exercise, at_most, compare, compare_ranks, forbid, reject
from course_utils.measure import count_operations


def see_mean(mean_over_ranks):
    mine = torch.tensor([1.0, 2.0]) * (dist.get_rank() + 1)
    with count_operations() as operations:
        mean = mean_over_ranks(mine)
    return {"mean": mean, "operations": operations}


def decide_mean(seen):
    factor = (len(seen) + 1) / 2
    wanted = [[factor, 2 * factor]] * len(seen)
    compare_ranks("the mean", [s["mean"] for s in seen], wanted, hint="what does SUM leave to do?")
    for rank, s in enumerate(seen):
        at_most("collectives", sum(s["operations"].values()), 1, rank=rank, hint="one is enough")
    return "one all-reduce and a division give every rank the mean."


def decide_bytes(answer):
    if answer == 4000:
        reject("this counts one copy", came=answer, expected="more", hint="what does Adam keep?")
    compare("the number of bytes", answer, 12000)
    return "Adam holds two more numbers a parameter."


def see_broadcast(broadcast):
    tensor = torch.full((3,), float(dist.get_rank() + 1))
    with count_operations() as operations:
        broadcast(tensor)
    return {"tensor": tensor, "operations": operations}


def decide_broadcast(seen):
    compare_ranks(
        "the tensor", [s["tensor"] for s in seen], [[1.0] * 3] * len(seen), hint="who has not sent?"
    )
    for rank, s in enumerate(seen):
        forbid(s["operations"], "broadcast", rank=rank)
    return "send and recv are enough to broadcast."


def see_owner(owner):
    return [[owner(index, size) for index in range(7)] for size in (2, 3)]


def decide_owner(seen):
    compare("the owners", seen[0], [[i % size for i in range(7)] for size in (2, 3)], hint="round and round")
    return "samples are dealt like cards."


EXERCISES = {
    "99.1": Exercise(see_mean, decide_mean, world_sizes=(4, 3)),
    "99.2": Exercise(None, decide_bytes),
    "99.3": Exercise(see_broadcast, decide_broadcast, world_sizes=(3,)),
    "99.4": Exercise(see_owner, decide_owner, world_sizes=(1,)),
}
