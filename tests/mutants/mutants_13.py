"""Wrong solutions of chapter 13: the halves of the ring, and halving and doubling."""

import torch
import torch.distributed as dist

# 13.1: reduce_scatter(x)


def exchange(out: torch.Tensor, dst: int, into: torch.Tensor, src: int) -> None:
    sending = dist.isend(out.contiguous(), dst)
    dist.irecv(into, src).wait()
    sending.wait()


def around(out: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Send out to the next rank and return what came from the one before, shaped like ``like``."""
    rank, size = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(like)
    exchange(out, (rank + 1) % size, received, (rank - 1) % size)
    return received


def ends_one_chunk_further(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank - 1 - step) % size]
        into += around(chunks[(rank - step) % size], into)
    return chunks[(rank + 1) % size]


def returns_the_chunk_before_its_sum(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank - 1 - step) % size]
        into += around(chunks[(rank - step) % size], into)
    return chunks[rank]


def moves_it_with_one_more_message(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    return around(ends_one_chunk_further(x), x.tensor_split(size)[rank])


def sums_everything_with_the_library(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    dist.all_reduce(total)
    return total.tensor_split(dist.get_world_size())[dist.get_rank()]


def calls_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    size = dist.get_world_size()
    part = -(-len(x) // size)
    padded = torch.stack([torch.cat([c, c.new_zeros(part - len(c))]) for c in x.tensor_split(size)])
    out = x.new_empty(part)
    dist.reduce_scatter_single(out, padded.view(-1))
    return out[: len(x.tensor_split(size)[dist.get_rank()])]


def right_on(x: torch.Tensor, size: int) -> torch.Tensor:
    rank = dist.get_rank()
    chunks = x.tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        into += around(chunks[(rank - 1 - step) % size], into)
    return chunks[rank]


def changes_x(x: torch.Tensor) -> torch.Tensor:
    return right_on(x, dist.get_world_size())


def fits_four_ranks(x: torch.Tensor) -> torch.Tensor:
    return right_on(x.clone(), 4)


def replaces_instead_of_adding(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        into.copy_(around(chunks[(rank - 1 - step) % size], into))
    return chunks[rank]


def stops_one_step_early(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 2):
        into = chunks[(rank - 2 - step) % size]
        into += around(chunks[(rank - 1 - step) % size], into)
    return chunks[rank]


def passes_whole_tensors_around(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    total, passing = x.clone(), x
    for _ in range(size - 1):
        passing = around(passing, x)
        total += passing
    return total.tensor_split(size)[rank]


def goes_through_rank_0(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    total, received = x.clone(), torch.empty_like(x)
    if rank > 0:
        mine = torch.empty_like(x.tensor_split(size)[rank])
        dist.send(x, 0)
        dist.recv(mine, 0)
        return mine
    for other in range(1, size):
        dist.recv(received, other)
        total += received
    for other in range(1, size):
        dist.send(total.tensor_split(size)[other].contiguous(), other)
    return total.tensor_split(size)[0]


def sends_each_chunk_to_its_owner(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(1, size):
        received = torch.empty_like(chunks[rank])
        exchange(chunks[(rank + step) % size], (rank + step) % size, received, (rank - step) % size)
        chunks[rank].add_(received)
    return chunks[rank]


def goes_around_backward(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank + 2 + step) % size]
        received = torch.empty_like(into)
        exchange(chunks[(rank + 1 + step) % size], (rank - 1) % size, received, (rank + 1) % size)
        into += received
    return chunks[rank]


def sends_before_it_receives(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        received = torch.empty_like(into)
        dist.send(chunks[(rank - 1 - step) % size], (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
        into += received
    return chunks[rank]


def forgot_to_wait_for_what_it_receives(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.clone().tensor_split(size)
    pending = []
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        received = torch.zeros_like(into)
        pending.append(dist.isend(chunks[(rank - 1 - step) % size], (rank + 1) % size))
        pending.append(dist.irecv(received, (rank - 1) % size))
        into += received
    for work in pending:
        work.wait()
    return chunks[rank]


def takes_the_average(x: torch.Tensor) -> torch.Tensor:
    return right_on(x.clone(), dist.get_world_size()) / dist.get_world_size()


def needs_equal_chunks(x: torch.Tensor) -> torch.Tensor:
    size = dist.get_world_size()
    rank, chunks = dist.get_rank(), x.clone().view(size, len(x) // size)
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        into += around(chunks[(rank - 1 - step) % size], into)
    return chunks[rank]


def drops_the_remainder(x: torch.Tensor) -> torch.Tensor:
    size = dist.get_world_size()
    return right_on(x[: len(x) // size * size].clone(), size)


def splits_with_chunk(x: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = list(x.clone().chunk(size))
    chunks += [x.new_empty(0)] * (size - len(chunks))
    for step in range(size - 1):
        into = chunks[(rank - 2 - step) % size]
        into += around(chunks[(rank - 1 - step) % size], into)
    return chunks[rank]


def returns_the_whole_tensor(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    right_on(total, dist.get_world_size())
    return total


# 13.2: all_gather(chunk, sizes)


def passed_around(chunk: torch.Tensor, sizes: list[int], steps: int | None = None) -> list[torch.Tensor]:
    """The ranks' chunks in rank order, as the ring brings them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [chunk.new_zeros(n) for n in sizes]
    parts[rank] = chunk.clone()
    for step in range(size - 1 if steps is None else steps):
        came = (rank - 1 - step) % size
        parts[came] = around(parts[(rank - step) % size], parts[came])
    return parts


def gathers_with_the_library(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    largest = max(sizes)
    parts = [chunk.new_empty(largest) for _ in sizes]
    dist.all_gather(parts, torch.cat([chunk, chunk.new_zeros(largest - len(chunk))]))
    return torch.cat([part[:n] for part, n in zip(parts, sizes, strict=True)])


def gathers_objects(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    parts = [None] * len(sizes)
    dist.all_gather_object(parts, chunk)
    return torch.cat(parts)


def adds_up_what_is_zero_elsewhere(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    whole = chunk.new_zeros(sum(sizes))
    whole.split(sizes)[dist.get_rank()].copy_(chunk)
    dist.all_reduce(whole)
    return whole


def takes_all_chunks_to_be_like_its_own(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [chunk] * size
    for step in range(size - 1):
        parts[(rank - 1 - step) % size] = around(parts[(rank - step) % size], chunk)
    return torch.cat(parts)


def cuts_into_equal_parts(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = chunk.new_zeros(sum(sizes)).tensor_split(size)
    parts[rank].copy_(chunk)
    for step in range(size - 1):
        came = (rank - 1 - step) % size
        parts[came].copy_(around(parts[(rank - step) % size], parts[came]))
    return torch.cat(parts)


def keeps_the_order_of_arrival(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = passed_around(chunk, sizes)
    return torch.cat([parts[(rank - step) % size] for step in range(size)])


def leaves_out_the_last_step(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return torch.cat(passed_around(chunk, sizes, dist.get_world_size() - 2))


def goes_once_around_and_home(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return torch.cat(passed_around(chunk, sizes, dist.get_world_size()))


def forgot_its_own_chunk(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    parts = passed_around(chunk, sizes)
    parts[dist.get_rank()] = torch.zeros_like(chunk)
    return torch.cat(parts)


def sends_its_chunk_to_everybody(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [chunk.new_empty(n) for n in sizes]
    parts[rank] = chunk
    for step in range(1, size):
        src = (rank - step) % size
        exchange(chunk, (rank + step) % size, parts[src], src)
    return torch.cat(parts)


def collects_on_rank_0(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = chunk.new_empty(sum(sizes))
    if rank > 0:
        dist.send(chunk, 0)
        dist.recv(whole, 0)
        return whole
    parts = whole.split(sizes)
    parts[0].copy_(chunk)
    for other in range(1, size):
        dist.recv(parts[other], other)
    for other in range(1, size):
        dist.send(whole, other)
    return whole


def sends_the_whole_buffer_each_time(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = chunk.new_zeros(sum(sizes))
    whole.split(sizes)[rank].copy_(chunk)
    for step in range(size - 1):
        came = (rank - 1 - step) % size
        received = around(whole, whole)
        whole.split(sizes)[came].copy_(received.split(sizes)[came])
    return whole


def every_rank_sends_first(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [chunk.new_empty(n) for n in sizes]
    parts[rank] = chunk
    for step in range(size - 1):
        dist.send(parts[(rank - step) % size], (rank + 1) % size)
        dist.recv(parts[(rank - 1 - step) % size], (rank - 1) % size)
    return torch.cat(parts)


def returns_float32_always(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return torch.cat(passed_around(chunk, sizes)).float()


def a_rank_with_nothing_returns_at_once(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    if len(chunk) == 0:
        return chunk.new_zeros(sum(sizes))
    return torch.cat(passed_around(chunk, sizes))


def receives_over_its_own_chunk(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    parts = passed_around(chunk, sizes)
    chunk.zero_()
    return torch.cat(parts)


def sends_to_the_rank_before(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [chunk.new_empty(n) for n in sizes]
    parts[rank] = chunk
    for step in range(size - 1):
        into = parts[(rank + 1 + step) % size]
        exchange(parts[(rank + step) % size], (rank - 1) % size, into, (rank + 1) % size)
    return torch.cat(parts)


def returns_a_list_of_chunks(chunk: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
    return passed_around(chunk, sizes)


def takes_three_steps_always(chunk: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return torch.cat(passed_around(chunk, sizes, 3))


# 13.3: halving_doubling(x)


def swap(out: torch.Tensor, partner: int, into: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(into)
    exchange(out, partner, received, partner)
    return received


def halve(x: torch.Tensor, distances: list[int]) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """Halving: what each step kept, what it gave away, and the partner."""
    rank, path, part = dist.get_rank(), [], x.view(-1)
    for distance in distances:
        low, high = part.tensor_split(2)
        keep, give = (high, low) if rank & distance else (low, high)
        keep += swap(give, rank ^ distance, keep)
        path.append((keep, give, rank ^ distance))
        part = keep
    return path


def far_first() -> list[int]:
    size = dist.get_world_size()
    return [size >> step for step in range(1, size.bit_length())]


def adds_with_the_library(x: torch.Tensor) -> None:
    dist.all_reduce(x)


def goes_around_the_ring(x: torch.Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = x.view(-1).tensor_split(size)
    for step in range(2 * (size - 1)):
        into = chunks[(rank - 1 - step) % size]
        received = around(chunks[(rank - step) % size], into)
        into.copy_(into + received if step < size - 1 else received)


def doubles_with_whole_tensors(x: torch.Tensor) -> None:
    for distance in reversed(far_first()):
        x += swap(x, dist.get_rank() ^ distance, x)


def swaps_everything_and_keeps_half(x: torch.Tensor) -> None:
    rank, low, high = dist.get_rank(), 0, len(x)
    path = []
    for distance in far_first():
        x[low:high] += swap(x, rank ^ distance, x)[low:high]
        path.append((low, high))
        middle = (low + high) // 2
        low, high = (middle, high) if rank & distance else (low, middle)
    for distance, (start, end) in zip(reversed(far_first()), reversed(path), strict=True):
        received, middle = swap(x, rank ^ distance, x), (start + end) // 2
        other = slice(start, middle) if rank & distance else slice(middle, end)
        x[other] = received[other]


def stops_after_halving(x: torch.Tensor) -> None:
    halve(x, far_first())


def both_partners_keep_the_lower_half(x: torch.Tensor) -> None:
    rank, path, part = dist.get_rank(), [], x.view(-1)
    for distance in far_first():
        keep, give = part.tensor_split(2)
        keep += swap(give, rank ^ distance, keep)
        path.append((keep, give, rank ^ distance))
        part = keep
    for keep, give, partner in reversed(path):
        give.copy_(swap(keep, partner, give))


def goes_back_in_the_same_order(x: torch.Tensor) -> None:
    for keep, give, partner in halve(x, far_first()):
        give.copy_(swap(keep, partner, give))


def adds_on_the_way_back_too(x: torch.Tensor) -> None:
    for keep, give, partner in reversed(halve(x, far_first())):
        give += swap(keep, partner, give)


def overwrites_instead_of_adding(x: torch.Tensor) -> None:
    rank, path, part = dist.get_rank(), [], x.view(-1)
    for distance in far_first():
        low, high = part.tensor_split(2)
        keep, give = (high, low) if rank & distance else (low, high)
        keep.copy_(swap(give, rank ^ distance, keep))
        path.append((keep, give, rank ^ distance))
        part = keep
    for keep, give, partner in reversed(path):
        give.copy_(swap(keep, partner, give))


def leaves_x_and_returns_the_sum(x: torch.Tensor) -> torch.Tensor:
    total = x.clone()
    for keep, give, partner in reversed(halve(total, far_first())):
        give.copy_(swap(keep, partner, give))
    return total


def both_partners_send_first(x: torch.Tensor) -> None:
    rank, part, path = dist.get_rank(), x.view(-1), []
    for distance in far_first():
        low, high = part.tensor_split(2)
        keep, give = (high, low) if rank & distance else (low, high)
        received = torch.empty_like(keep)
        dist.send(give, rank ^ distance)
        dist.recv(received, rank ^ distance)
        keep += received
        path.append((keep, give, rank ^ distance))
        part = keep
    for keep, give, partner in reversed(path):
        dist.send(keep, partner)
        dist.recv(give, partner)


def knows_four_ranks_alone(x: torch.Tensor) -> None:
    for keep, give, partner in reversed(halve(x, [2, 1])):
        give.copy_(swap(keep, partner, give))


def sends_element_by_element(x: torch.Tensor) -> None:
    rank, part, path = dist.get_rank(), x.view(-1), []
    for distance in far_first():
        low, high = part.tensor_split(2)
        keep, give = (high, low) if rank & distance else (low, high)
        for i in range(len(keep)):
            keep[i] += swap(give[i : i + 1], rank ^ distance, keep[i : i + 1])[0]
        path.append((keep, give, rank ^ distance))
        part = keep
    for keep, give, partner in reversed(path):
        give.copy_(swap(keep, partner, give))


MUTANTS = {
    "13.1": [
        ends_one_chunk_further,
        returns_the_chunk_before_its_sum,
        moves_it_with_one_more_message,
        sums_everything_with_the_library,
        calls_reduce_scatter,
        changes_x,
        fits_four_ranks,
        replaces_instead_of_adding,
        stops_one_step_early,
        passes_whole_tensors_around,
        goes_through_rank_0,
        sends_each_chunk_to_its_owner,
        goes_around_backward,
        sends_before_it_receives,
        forgot_to_wait_for_what_it_receives,
        takes_the_average,
        needs_equal_chunks,
        drops_the_remainder,
        splits_with_chunk,
        returns_the_whole_tensor,
    ],
    "13.2": [
        gathers_with_the_library,
        gathers_objects,
        adds_up_what_is_zero_elsewhere,
        takes_all_chunks_to_be_like_its_own,
        cuts_into_equal_parts,
        keeps_the_order_of_arrival,
        leaves_out_the_last_step,
        goes_once_around_and_home,
        forgot_its_own_chunk,
        sends_its_chunk_to_everybody,
        collects_on_rank_0,
        sends_the_whole_buffer_each_time,
        every_rank_sends_first,
        returns_float32_always,
        a_rank_with_nothing_returns_at_once,
        receives_over_its_own_chunk,
        sends_to_the_rank_before,
        returns_a_list_of_chunks,
        takes_three_steps_always,
    ],
    "13.3": [
        adds_with_the_library,
        goes_around_the_ring,
        doubles_with_whole_tensors,
        swaps_everything_and_keeps_half,
        stops_after_halving,
        both_partners_keep_the_lower_half,
        goes_back_in_the_same_order,
        adds_on_the_way_back_too,
        overwrites_instead_of_adding,
        leaves_x_and_returns_the_sum,
        both_partners_send_first,
        knows_four_ranks_alone,
        sends_element_by_element,
    ],
}
FITS = {
    "ends_one_chunk_further": "sum of chunk 1",
    "returns_the_chunk_before_its_sum": "own part alone",
    "moves_it_with_one_more_message": "too many messages",
    "sums_everything_with_the_library": "backend ran all_reduce",
    "calls_reduce_scatter": "backend ran",
    "changes_x": "copy",
    "fits_four_ranks": "different shapes|3 ranks",
    "replaces_instead_of_adding": r"rank \d's part alone: .*add",
    "stops_one_step_early": "part alone",
    "passes_whole_tensors_around": "too many elements",
    "goes_through_rank_0": "next one only",
    "sends_each_chunk_to_its_owner": "next one only",
    "goes_around_backward": "next one only",
    "sends_before_it_receives": "isend",
    "forgot_to_wait_for_what_it_receives": "part alone|missing",
    "takes_the_average": "0.25 times(.|\n)*that is the average",
    "needs_equal_chunks": r"invalid for input of size 10(.|\n)*view",
    "drops_the_remainder": "tensor_split",
    "splits_with_chunk": "tensor_split",
    "returns_the_whole_tensor": "own chunk alone",
    "gathers_with_the_library": "backend ran all_gather",
    "gathers_objects": "backend ran all_gather",
    "adds_up_what_is_zero_elsewhere": "backend ran all_reduce",
    "takes_all_chunks_to_be_like_its_own": "different shapes|size",
    "cuts_into_equal_parts": "must match the size",
    "keeps_the_order_of_arrival": "another order",
    "leaves_out_the_last_step": r"ranks \[1\] did not arrive",
    "goes_once_around_and_home": "too many messages",
    "forgot_its_own_chunk": "own chunk belongs",
    "sends_its_chunk_to_everybody": "next one only",
    "collects_on_rank_0": "next one only",
    "sends_the_whole_buffer_each_time": "one chunk a step",
    "every_rank_sends_first": "isend",
    "returns_float32_always": "dtype",
    "a_rank_with_nothing_returns_at_once": r"Look first at rank 1(.|\n)*without elements",
    "receives_over_its_own_chunk": "copy of chunk",
    "sends_to_the_rank_before": "next one only",
    "returns_a_list_of_chunks": "in one tensor",
    "takes_three_steps_always": "at most 2",
    "adds_with_the_library": "backend ran all_reduce",
    "goes_around_the_ring": "too many messages",
    "doubles_with_whole_tensors": "never all of x",
    "swaps_everything_and_keeps_half": "never all of x",
    "stops_after_halving": "go back",
    "both_partners_keep_the_lower_half": "keep one half, give the other",
    "goes_back_in_the_same_order": "in each step back",
    "adds_on_the_way_back_too": "take the partner's complete part over",
    "overwrites_instead_of_adding": "add what the partner gave",
    "leaves_x_and_returns_the_sum": "in place",
    "both_partners_send_first": "isend",
    "knows_four_ranks_alone": "8 ranks",
    "sends_element_by_element": "too many messages",
}
