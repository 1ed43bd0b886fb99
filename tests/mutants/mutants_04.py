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


def returns_x(x: torch.Tensor) -> torch.Tensor:
    return x


def broadcasts_before_it_reduces(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.broadcast(total, src=0)
    dist.reduce(total, dst=0)
    return total


def copies_on_the_root_alone(x: torch.Tensor) -> torch.Tensor:
    total = x.clone() if dist.get_rank() == 0 else x
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=0)
    return total


def gathers_and_adds_on_the_root(x: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    dist.gather(x, parts, dst=0)
    total = sum(parts) if parts else torch.empty_like(x)
    dist.broadcast(total, src=0)
    return total


def reduces_number_by_number(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    for number in total.view(-1):
        dist.reduce(number, dst=0)
        dist.broadcast(number, src=0)
    return total


def every_rank_names_itself_as_root(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.reduce(total, dst=dist.get_rank())
    dist.broadcast(total, src=dist.get_rank())
    return total


def loses_the_type(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape)
    total += x
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=0)
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


def starts_all_messages_at_once(x: torch.Tensor, src: int) -> None:
    if dist.get_rank() != src:
        dist.recv(x, src=src)
        return
    for request in [dist.isend(x, dst=r) for r in range(dist.get_world_size()) if r != src]:
        request.wait()


def fits_four_ranks_only(x: torch.Tensor, src: int) -> None:
    place, to = (dist.get_rank() - src) % 4, [(p + src) % 4 for p in range(4)]
    if place == 0:
        dist.send(x, dst=to[1])
        dist.send(x, dst=to[2])
    elif place == 1:
        dist.recv(x, src=to[0])
        dist.send(x, dst=to[3])
    else:
        dist.recv(x, src=to[place - 2])


def everybody_receives_from_the_root(x: torch.Tensor, src: int) -> None:
    world, have = dist.get_world_size(), 1
    place = (dist.get_rank() - src) % world
    while have < world:
        if place < have and place + have < world:
            dist.send(x, dst=(place + have + src) % world)
        elif have <= place < 2 * have:
            dist.recv(x, src=src)
        have *= 2


def forgot_the_modulo(x: torch.Tensor, src: int) -> None:
    rank, world, have = dist.get_rank(), dist.get_world_size(), 1
    place = rank - src
    while have < world:
        if 0 <= place < have and place + have < world:
            dist.send(x, dst=rank + have)
        elif have <= place < 2 * have:
            dist.recv(x, src=rank - have)
        have *= 2


def sends_to_those_who_have_it(x: torch.Tensor, src: int) -> None:
    """In each round half of all ranks send, those too that have nothing yet."""
    world, have = dist.get_world_size(), 1
    place = (dist.get_rank() - src) % world
    while have < world:
        if place % (2 * have) < have and place + have < world:
            dist.send(x, dst=(place + have + src) % world)
        elif place % (2 * have) >= have:
            dist.recv(x, src=(place - have + src) % world)
        have *= 2


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


def makes_one_buffer_for_all_parts(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(x)] * world
    parts[rank] = x
    work = []
    for other in range(world):
        if other != rank:
            work += [dist.isend(x, dst=other), dist.irecv(parts[other], src=other)]
    for handle in work:
        handle.wait()
    return torch.cat(parts)


def receives_before_it_sends(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    others = [other for other in range(world) if other != rank]
    for other in others:
        dist.recv(parts[other], src=other)
    for other in others:
        dist.send(x, dst=other)
    return torch.cat(parts)


def even_ranks_send_first(x: torch.Tensor) -> torch.Tensor:
    """Right in a ring, where neighbors differ; two even ranks wait for each other."""
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    for other in range(world):
        if other != rank and rank % 2 == 0:
            dist.send(x, dst=other)
            dist.recv(parts[other], src=other)
        elif other != rank:
            dist.recv(parts[other], src=other)
            dist.send(x, dst=other)
    return torch.cat(parts)


def throws_the_request_away(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    for step in range(1, world):
        dist.isend(x, dst=(rank + step) % world)
        dist.recv(parts[(rank - step) % world], src=(rank - step) % world)
    return torch.cat(parts)


def _ring(x: torch.Tensor, steps: int) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() if r == rank else torch.zeros_like(x) for r in range(world)]
    for step in range(steps):
        work = dist.isend(parts[(rank - step) % world], dst=(rank + 1) % world)
        dist.recv(parts[(rank - step - 1) % world], src=(rank - 1) % world)
        work.wait()
    return torch.cat(parts)


def goes_round_once_too_often(x: torch.Tensor) -> torch.Tensor:
    return _ring(x, dist.get_world_size())


def stops_a_step_early(x: torch.Tensor) -> torch.Tensor:
    return _ring(x, dist.get_world_size() - 2)


def keeps_a_buffer_that_is_used_again(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts, mine, received = [x] * world, x.clone(), torch.empty_like(x)
    for step in range(1, world):
        work = dist.isend(mine, dst=(rank + 1) % world)
        dist.recv(received, src=(rank - 1) % world)
        work.wait()
        parts[(rank - step) % world] = received
        mine, received = received, mine
    return torch.cat(parts)


def receives_into_x(x: torch.Tensor) -> torch.Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [x.clone() for _ in range(world)]
    for step in range(1, world):
        work = dist.isend(x.clone(), dst=(rank + 1) % world)
        dist.recv(x, src=(rank - 1) % world)
        work.wait()
        parts[(rank - step) % world] = x.clone()
    return torch.cat(parts)


def broadcasts_in_turn(x: torch.Tensor) -> torch.Tensor:
    parts = [x.clone() for _ in range(dist.get_world_size())]
    for rank, part in enumerate(parts):
        dist.broadcast(part, src=rank)
    return torch.cat(parts)


def gathers_in_float32(x: torch.Tensor) -> torch.Tensor:
    x = x.float()
    return _ring(x, dist.get_world_size() - 1)


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
        returns_x,
        broadcasts_before_it_reduces,
        copies_on_the_root_alone,
        gathers_and_adds_on_the_root,
        reduces_number_by_number,
        every_rank_names_itself_as_root,
        loses_the_type,
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
        starts_all_messages_at_once,
        fits_four_ranks_only,
        everybody_receives_from_the_root,
        forgot_the_modulo,
        sends_to_those_who_have_it,
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
        makes_one_buffer_for_all_parts,
        receives_before_it_sends,
        even_ranks_send_first,
        throws_the_request_away,
        goes_round_once_too_often,
        stops_a_step_early,
        keeps_a_buffer_that_is_used_again,
        receives_into_x,
        broadcasts_in_turn,
        gathers_in_float32,
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
    "returns_x": "came back with its own x",
    "broadcasts_before_it_reduces": "must then broadcast",
    "copies_on_the_root_alone": "give them a copy",
    "gathers_and_adds_on_the_root": "gather × 1",
    "reduces_number_by_number": "each once, for the whole tensor",
    "every_rank_names_itself_as_root": "waits in reduce(.|\n)*all name the same root",
    "loses_the_type": "float32(.|\n)*empty_like",
    "calls_broadcast": "broadcast is what this exercise asks you to write",
    "sends_to_everybody_from_the_root": "too many rounds",
    "passes_it_along_a_chain": "too many rounds",
    "assumes_root_0": "places from the root",
    "assumes_a_power_of_two": r"5 of 5 ranks had not finished(.|\n)*both places must exist",
    "stops_a_round_early": "how many rounds do 5 ranks need",
    "mixes_places_with_ranks": "Invalid destination rank|same as the rank",
    "receives_into_a_new_tensor": "receive into x itself",
    "serves_the_nearest_first": "rounds with 8 ranks",
    "starts_all_messages_at_once": "too many rounds",
    "fits_four_ranks_only": "8 of 8 ranks had not finished(.|\n)*for 4, 8 and 5 ranks",
    "everybody_receives_from_the_root": "every send needs its recv",
    "forgot_the_modulo": "root not 0",
    "sends_to_those_who_have_it": "needs it no second time",
    "calls_all_gather": "all_gather is what this exercise asks you to write",
    "sends_before_it_receives": "4 of 4 ranks had not finished(.|\n)*waits in send",
    "gathers_on_rank_0_and_sends_back": "no rank is special",
    "keeps_the_order_of_arrival": "stands at place r",
    "forgot_to_wait": "was it waited for",
    "forgot_its_own_part": "its own part",
    "forwards_its_own_part_again_and_again": "own part passed on again",
    "sends_the_whole_buffer_round_the_ring": "more than they need",
    "stacks_the_parts": r"shape \[4, 5\]",
    "gathers_and_broadcasts": "send, recv and their relatives",
    "makes_one_buffer_for_all_parts": "is a buffer used twice",
    "receives_before_it_sends": "waits in recv(.|\n)*who is to do the other first",
    "even_ranks_send_first": "waits in send(.|\n)*who is to do the other first",
    "throws_the_request_away": "its request kept",
    "goes_round_once_too_often": "more than they need",
    "stops_a_step_early": "did a message come for each",
    "keeps_a_buffer_that_is_used_again": "is a buffer used twice",
    "receives_into_x": "still needs its own tensor",
    "broadcasts_in_turn": "broadcast 4 times",
    "gathers_in_float32": "float32|not the expected value",
}
