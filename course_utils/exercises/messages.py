"""The messages that a rank sends and receives, whatever function asked for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch.distributed as dist


class Message(NamedTuple):
    """``kind`` is "send" or "recv"; ``peer`` the other rank, -1 where it was received from whoever sends;
    ``elements`` how many numbers travel."""

    kind: str
    peer: int
    elements: int


@contextmanager
def logged_messages() -> Iterator[list[Message]]:
    """This rank's messages in the order of their calls: ``with logged_messages() as log: ...``.

    ``peer`` is the rank within the group that carries the message. Collectives are not seen here: count them
    with measure.count_operations.
    """
    group, log = dist.ProcessGroup, []
    real = {name: getattr(group, name) for name in ("send", "recv", "recv_anysource")}

    def logging(name: str) -> Callable[..., Any]:
        def call(self: Any, tensors: Any, *where: int) -> Any:
            peer = -1 if name == "recv_anysource" else where[0]
            log.append(Message(name[:4], peer, sum(tensor.numel() for tensor in tensors)))
            return real[name](self, tensors, *where)

        return call

    for name in real:
        setattr(group, name, logging(name))
    try:
        yield log
    finally:
        for name, function in real.items():
            setattr(group, name, function)
