"""The messages that a rank sends and receives, whatever function asked for them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeVar

import torch.distributed as dist

T = TypeVar("T")


class Message(NamedTuple):
    """``kind`` is "send" or "recv"; ``peer`` the other rank, -1 where it was received from whoever sends;
    ``elements`` how many numbers travel."""

    kind: str
    peer: int
    elements: int


@contextmanager
def logged_calls(names: Iterable[str], entry: Callable[..., T]) -> Iterator[list[T]]:
    """This rank's calls of the named methods of a ProcessGroup, in order: ``with logged_calls(...) as log``.

    An item is what ``entry(name, group, *arguments)`` makes of a call before it runs.
    """
    group, log = dist.ProcessGroup, []
    real = {name: getattr(group, name) for name in names}

    def logging(name: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            log.append(entry(name, self, *arguments))
            return real[name](self, *arguments, **options)

        return call

    for name in real:
        setattr(group, name, logging(name))
    try:
        yield log
    finally:
        for name, function in real.items():
            setattr(group, name, function)


def _message(name: str, _group: Any, tensors: Any, *where: int) -> Message:
    peer = -1 if name == "recv_anysource" else where[0]
    return Message(name[:4], peer, sum(tensor.numel() for tensor in tensors))


def logged_messages() -> AbstractContextManager[list[Message]]:
    """This rank's messages in the order of their calls: ``with logged_messages() as log: ...``.

    ``peer`` is the rank within the group that carries the message. Collectives are not seen here: count them
    with measure.count_operations.
    """
    return logged_calls(("send", "recv", "recv_anysource"), _message)
