"""Wrong solutions of the miniature chapter."""

import torch
import torch.distributed as dist


def forgot_to_divide(mine):
    dist.all_reduce(mine)
    return mine


def divides_by_four_always(mine):
    dist.all_reduce(mine)
    return mine / 4


def reduces_element_by_element(mine):
    for element in mine:
        dist.all_reduce(element)
    return mine / dist.get_world_size()


def forgot_to_return(mine):
    dist.all_reduce(mine)


def counts_the_parameters_alone():
    return 4000


def counts_in_kilobytes():
    return 12.0


def answers_in_words():
    return "12000 bytes"


def calls_the_library(tensor):
    dist.broadcast(tensor, 0)


def calls_the_library_by_another_name(tensor):
    torch.distributed.distributed_c10d.broadcast(tensor, src=0)


def sends_to_one_rank_alone(tensor):
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)


def deals_in_blocks(index, world_size):
    return index * world_size // 7


def counts_ranks_from_one(index, world_size):
    return index % world_size + 1


def takes_one_argument(index):
    return index


MUTANTS = {
    "99.1": [forgot_to_divide, divides_by_four_always, reduces_element_by_element, forgot_to_return],
    "99.2": [counts_the_parameters_alone, counts_in_kilobytes, answers_in_words],
    "99.3": [calls_the_library, calls_the_library_by_another_name, sends_to_one_rank_alone],
    "99.4": [deals_in_blocks, counts_ranks_from_one, takes_one_argument],
}
FITS = {
    "forgot_to_divide": r"4 times what was expected\n  rank +0\n  expected +\[2.5, 5\]\n  came +\[10, 20\]",
    "divides_by_four_always": r"expected +\[2, 4\]",
    "reduces_element_by_element": "too many collectives",
    "forgot_to_return": "nothing came back",
    "counts_the_parameters_alone": "what does Adam keep",
    "counts_in_kilobytes": r"expected +12000\n  came +12$",
    "answers_in_words": r"came +12000 bytes",
    "calls_the_library": "the backend ran broadcast",
    "calls_the_library_by_another_name": "the backend ran broadcast",
    "sends_to_one_rank_alone": r"rank +2",
    "deals_in_blocks": "round and round",
    "counts_ranks_from_one": r"came +\[\[1, 2, 1, 2, 1, 2, 1\]",
    "takes_one_argument": r"TypeError: takes_one_argument\(\) takes 1 positional argument",
}
