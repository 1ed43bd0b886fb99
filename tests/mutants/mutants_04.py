"""Wrong solutions of chapter 04: an all-reduce from two calls, a tree of messages, an all-gather."""

import torch
import torch.distributed as dist

# 04.1: sum_everywhere(x)


def calls_all_reduce(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.all_reduce(total)
    return total


def changes_x(x: torch.Tensor) -> torch.Tensor:
    dist.reduce(x, dst=0)
    dist.broadcast(x, src=0)
    return x


def forgot_the_broadcast(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.reduce(total, dst=0)
    return total


def broadcasts_from_another_rank(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=dist.get_world_size() - 1)
    return total


def broadcasts_the_unreduced_x(x: torch.Tensor) -> torch.Tensor:
    total, result = x.clone(), x.clone()
    dist.reduce(total, dst=0)
    dist.broadcast(result, src=0)
    return result


def broadcasts_on_the_root_alone(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.reduce(total, dst=0)
    if dist.get_rank() == 0:
        dist.broadcast(total, src=0)
    return total


def divides_by_world_size(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=0)
    return total / dist.get_world_size()


def reduces_to_every_rank_in_turn(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    for rank in range(dist.get_world_size()):
        total = x.clone()
        dist.reduce(total, dst=rank)
        if dist.get_rank() == rank:
            result = total
    return result


def adds_up_by_messages(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    total, received = x.clone(), torch.empty_like(x)
    if rank > 0:
        dist.recv(received, src=rank - 1)
        total += received
    if rank < world - 1:
        dist.send(total, dst=rank + 1)
    dist.broadcast(total, src=world - 1)
    return total


# 04.2: tree_broadcast(x, src)


def calls_broadcast(x: torch.Tensor, src: int) -> None:
    dist.broadcast(x, src=src)


def sends_to_everybody_from_the_root(x: torch.Tensor, src: int) -> None:
    if dist.get_rank() != src:
        dist.recv(x, src=src)
        return
    for rank in range(dist.get_world_size()):
        if rank != src:
            dist.send(x, dst=rank)


def passes_it_along_a_chain(x: torch.Tensor, src: int) -> None:
    world = dist.get_world_size()
    place = (dist.get_rank() - src) % world
    if place > 0:
        dist.recv(x, src=(src + place - 1) % world)
    if place < world - 1:
        dist.send(x, dst=(src + place + 1) % world)


def assumes_root_0(x: torch.Tensor, src: int) -> None:
    rank, world, have = dist.get_rank(), dist.get_world_size(), 1
    while have < world:
        if rank < have and rank + have < world:
            dist.send(x, dst=rank + have)
        elif have <= rank < 2 * have:
            dist.recv(x, src=rank - have)
        have *= 2


def assumes_a_power_of_two(x: torch.Tensor, src: int) -> None:
    world, have = dist.get_world_size(), 1
    place = (dist.get_rank() - src) % world
    while have < world:
        if place < have:
            dist.send(x, dst=(place + have + src) % world)
        elif place < 2 * have:
            dist.recv(x, src=(place - have + src) % world)
        have *= 2


def stops_a_round_early(x: torch.Tensor, src: int) -> None:
    world = dist.get_world_size()
    place = (dist.get_rank() - src) % world
    for step in range(world.bit_length() - 1):
        have = 2**step
        if place < have and place + have < world:
            dist.send(x, dst=(place + have + src) % world)
        elif have <= place < 2 * have:
            dist.recv(x, src=(place - have + src) % world)


def mixes_places_with_ranks(x: torch.Tensor, src: int) -> None:
    world, have = dist.get_world_size(), 1
    place = (dist.get_rank() - src) % world
    while have < world:
        if place < have and place + have < world:
            dist.send(x, dst=place + have)
        elif have <= place < 2 * have:
            dist.recv(x, src=place - have)
        have *= 2


def receives_into_a_new_tensor(x: torch.Tensor, src: int) -> None:
    world, have = dist.get_world_size(), 1
    place = (dist.get_rank() - src) % world
    while have < world:
        if place < have and place + have < world:
            dist.send(x, dst=(place + have + src) % world)
        elif have <= place < 2 * have:
            received = torch.empty_like(x)
            dist.recv(received, src=(place - have + src) % world)
            x = received
        have *= 2


def serves_the_nearest_first(x: torch.Tensor, src: int) -> None:
    """A binary tree by parent and children: each parent serves two, so the last wait too long."""
    world = dist.get_world_size()
    place = (dist.get_rank() - src) % world
    if place > 0:
        dist.recv(x, src=((place - 1) // 2 + src) % world)
    for child in (2 * place + 1, 2 * place + 2):
        if child < world:
            dist.send(x, dst=(child + src) % world)


# 04.3: gather_everywhere(x)


def calls_all_gather(x: torch.Tensor) -> torch.Tensor:
    whole = x.new_empty(dist.get_world_size() * len(x))
    dist.all_gather_single(whole, x)
    return whole


def sends_before_it_receives(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    for step in range(world - 1):
        dist.send(parts[(rank - step) % world], dst=(rank + 1) % world)
        dist.recv(parts[(rank - step - 1) % world], src=(rank - 1) % world)
    return torch.cat(parts)


def gathers_on_rank_0_and_sends_back(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    whole = x.new_empty(world * len(x))
    if rank == 0:
        parts = whole.view(world, len(x))
        parts[0] = x
        for other in range(1, world):
            dist.recv(parts[other], src=other)
        for other in range(1, world):
            dist.send(whole, dst=other)
    else:
        dist.send(x, dst=0)
        dist.recv(whole, src=0)
    return whole


def keeps_the_order_of_arrival(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts, work = [x.clone()], []
    for step in range(1, world):
        parts.append(torch.empty_like(x))
        work.append(dist.isend(x, dst=(rank + step) % world))
        work.append(dist.irecv(parts[-1], src=(rank - step) % world))
    for handle in work:
        handle.wait()
    return torch.cat(parts)


def forgot_to_wait(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [torch.zeros_like(x) for _ in range(world)]
    parts[rank] = x.clone()
    for other in range(world):
        if other != rank:
            dist.isend(x, dst=other)
            dist.irecv(parts[other], src=other)
    return torch.cat(parts)


def forgot_its_own_part(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [torch.zeros_like(x) for _ in range(world)]
    others = [other for other in range(world) if other != rank]
    work = [dist.isend(x, dst=other) for other in others]
    work += [dist.irecv(parts[other], src=other) for other in others]
    for handle in work:
        handle.wait()
    return torch.cat(parts)


def forwards_its_own_part_again_and_again(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    for step in range(1, world):
        work = dist.isend(x, dst=(rank + 1) % world)
        dist.recv(parts[(rank - step) % world], src=(rank - 1) % world)
        work.wait()
    return torch.cat(parts)


def sends_the_whole_buffer_round_the_ring(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    whole, received = x.new_zeros(world * len(x)), x.new_zeros(world * len(x))
    whole[rank * len(x) : (rank + 1) * len(x)] = x
    for step in range(1, world):
        work = dist.isend(whole, dst=(rank + 1) % world)
        dist.recv(received, src=(rank - 1) % world)
        work.wait()
        part = (rank - step) % world
        whole[part * len(x) : (part + 1) * len(x)] = received[part * len(x) : (part + 1) * len(x)]
    return whole


def stacks_the_parts(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    others = [other for other in range(world) if other != rank]
    work = [dist.isend(x, dst=other) for other in others]
    work += [dist.irecv(parts[other], src=other) for other in others]
    for handle in work:
        handle.wait()
    return torch.stack(parts)


def gathers_and_broadcasts(x: torch.Tensor) -> torch.Tensor:
    world = dist.get_world_size()
    parts = [torch.empty_like(x) for _ in range(world)] if dist.get_rank() == 0 else None
    dist.gather(x, parts, dst=0)
    whole = torch.cat(parts) if parts else x.new_empty(world * len(x))
    dist.broadcast(whole, src=0)
    return whole


MUTANTS = {
    "04.1": [
        calls_all_reduce,
        changes_x,
        forgot_the_broadcast,
        broadcasts_from_another_rank,
        broadcasts_the_unreduced_x,
        broadcasts_on_the_root_alone,
        divides_by_world_size,
        reduces_to_every_rank_in_turn,
        adds_up_by_messages,
    ],
    "04.2": [
        calls_broadcast,
        sends_to_everybody_from_the_root,
        passes_it_along_a_chain,
        assumes_root_0,
        assumes_a_power_of_two,
        stops_a_round_early,
        mixes_places_with_ranks,
        receives_into_a_new_tensor,
        serves_the_nearest_first,
    ],
    "04.3": [
        calls_all_gather,
        sends_before_it_receives,
        gathers_on_rank_0_and_sends_back,
        keeps_the_order_of_arrival,
        forgot_to_wait,
        forgot_its_own_part,
        forwards_its_own_part_again_and_again,
        sends_the_whole_buffer_round_the_ring,
        stacks_the_parts,
        gathers_and_broadcasts,
    ],
}
FITS = {
    "calls_all_reduce": "all_reduce is what this exercise asks you to write",
    "changes_x": "give them a copy",
    "forgot_the_broadcast": "must then broadcast",
    "broadcasts_from_another_rank": "what reduce left on its dst, from there",
    "broadcasts_the_unreduced_x": "what reduce left",
    "broadcasts_on_the_root_alone": "Look first at ranks 1, 2, 3",
    "divides_by_world_size": r"0\.25 times what was expected(.|\n)*as it was",
    "reduces_to_every_rank_in_turn": "reduce × 1, broadcast × 1",
    "adds_up_by_messages": "reduce × 1, broadcast × 1",
    "calls_broadcast": "broadcast is what this exercise asks you to write",
    "sends_to_everybody_from_the_root": "too many rounds",
    "passes_it_along_a_chain": "too many rounds",
    "assumes_root_0": "places from the root",
    "assumes_a_power_of_two": "5 of 5 ranks had not finished",
    "stops_a_round_early": "how many rounds do 5 ranks need",
    "mixes_places_with_ranks": "Invalid destination rank|same as the rank",
    "receives_into_a_new_tensor": "receive into x itself",
    "serves_the_nearest_first": "rounds with 8 ranks",
    "calls_all_gather": "all_gather is what this exercise asks you to write",
    "sends_before_it_receives": "4 of 4 ranks had not finished(.|\n)*waits in send",
    "gathers_on_rank_0_and_sends_back": "no rank is special",
    "keeps_the_order_of_arrival": "stands at place r",
    "forgot_to_wait": "before a buffer may be read",
    "forgot_its_own_part": "its own part",
    "forwards_its_own_part_again_and_again": "pass on what it received",
    "sends_the_whole_buffer_round_the_ring": "more than they need",
    "stacks_the_parts": r"shape \[4, 5\]",
    "gathers_and_broadcasts": "send, recv and their relatives",
}
