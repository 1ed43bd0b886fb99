"""Reference solutions of chapter 04."""

import torch
import torch.distributed as dist


def sum_everywhere(x: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' x, on every rank.

    x: any shape, the same on all ranks; left unchanged. Returns a tensor of that shape and type.
    """
    total = x.clone()
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=0)  # over whatever reduce left on the others
    return total


def tree_broadcast(x: torch.Tensor, src: int) -> None:
    """Overwrite x on every rank with the x of rank src, in ⌈log₂ W⌉ rounds and W-1 messages.

    x: any shape, the same on all ranks. src: the root, any rank.
    """
    world_size = dist.get_world_size()
    place = (dist.get_rank() - src) % world_size  # the root has place 0
    having = 1  # places 0 to having - 1 have the tensor
    while having < world_size:
        if place < having and place + having < world_size:
            dist.send(x, dst=(place + having + src) % world_size)
        elif having <= place < 2 * having:
            dist.recv(x, src=(place - having + src) % world_size)
        having *= 2


def gather_everywhere(x: torch.Tensor) -> torch.Tensor:
    """All ranks' x one after the other, in rank order, on every rank.

    x: (n,), the same n on all ranks; left unchanged. Returns (W * n,), of x's type.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = [x if r == rank else torch.empty_like(x) for r in range(world_size)]
    for step in range(world_size - 1):  # a ring: pass on what came last
        to_right = dist.P2POp(dist.isend, parts[(rank - step) % world_size], (rank + 1) % world_size)
        from_left = dist.P2POp(dist.irecv, parts[(rank - step - 1) % world_size], (rank - 1) % world_size)
        for request in dist.batch_isend_irecv([to_right, from_left]):
            request.wait()
    return torch.cat(parts)


SOLUTIONS = {"04.1": sum_everywhere, "04.2": tree_broadcast, "04.3": gather_everywhere}
