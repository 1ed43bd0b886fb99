"""What a rank did and holds: bytes it sent, backend operations it ran, bytes of its tensors, seconds.

Bytes are printed in powers of two (1 GiB = 2**30 B), rates in powers of ten (1 GB/s = 10**9 B/s), as memory
and networks are sold.
"""

import ctypes
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any, Self

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

# libkineto reads it when a process profiles for the first time; below 6 it writes "USDT:" lines to stderr
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

# struct tcp_info of linux/tcp.h, since 4.19: bytes_sent and bytes_retrans at 200, notsent_bytes at 144
_TCP, _TCP_INFO, _INFO_BYTES, _SENT_AT, _NOT_SENT_AT = 6, 11, 216, 200, 144


def _sent() -> dict[str, int]:
    """Payload bytes by connection, or this rank's share of what went over the loopback interface."""
    if sys.platform.startswith("linux") and (sent := _sent_by_socket()) is not None:
        return sent
    world_size = dist.get_world_size() if dist.is_initialized() else 1
    for name, counter in psutil.net_io_counters(pernic=True).items():
        if name in ("lo", "lo0") or name.startswith("Loopback"):
            return {name: counter.bytes_sent // world_size}
    raise OSError("no TCP_INFO here and no counter of the loopback interface: measure bytes on Linux")


def _sent_by_socket() -> dict[str, int] | None:
    """Payload bytes given to each open TCP socket of this process, by inode; None from an old kernel."""
    getsockopt = ctypes.CDLL(
        None
    ).getsockopt  # on the descriptor itself: nothing is duplicated, closed or set
    sent = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # closed meanwhile, by another thread
            continue
        info, size = ctypes.create_string_buffer(_INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
        if not link.startswith("socket:") or getsockopt(int(fd), _TCP, _TCP_INFO, info, ctypes.byref(size)):
            continue  # a file, a pipe, or a socket that is not TCP
        if size.value < _INFO_BYTES:
            return None
        total, again = struct.unpack_from("=QQ", info, _SENT_AT)
        (waiting,) = struct.unpack_from("=I", info, _NOT_SENT_AT)
        sent[link] = total - again + waiting
    return sent


def bytes_sent() -> int:
    """Payload bytes that this process has sent over the TCP connections that it has open now.

    On Linux: TCP_INFO's `bytes_sent` without those that TCP had to send again, plus what still waits in the
    socket's buffer. So the number is exact as soon as an operation is done, whatever else the machine does. A
    closed connection is gone with its bytes; what does not go by TCP is not seen (NCCL over NVLink, PCIe,
    shared memory, InfiniBand).

    Elsewhere: the loopback interface's counter divided by the world size. It has the packets' headers and the
    traffic of all processes in it, so it stands for a rank only where all ranks send alike and meet in a
    barrier before each reading. Raises OSError where there is no such counter.
    """
    return sum(_sent().values())


class SentBytes:
    """Payload bytes that this rank has sent since `count_bytes` began, until its end."""

    def __init__(self) -> None:
        self._start, self._end = _sent(), None

    @property
    def bytes(self) -> int:
        """Raises RuntimeError if a connection that had sent something was closed: its bytes are unknown."""
        now = _sent() if self._end is None else self._end
        if lost := [key for key, sent in self._start.items() if sent and key not in now]:
            raise RuntimeError(
                f"{len(lost)} TCP connections were closed meanwhile, what they sent is unknown: "
                "end count_bytes() before destroy_process_group()"
            )
        return sum(sent - self._start.get(key, 0) for key, sent in now.items())

    def __repr__(self) -> str:
        return f"SentBytes({measured(self.bytes, 'B')})"


@contextmanager
def count_bytes() -> Iterator[SentBytes]:
    """Count what this rank sends: `with count_bytes() as sent: dist.all_reduce(x)`, then `sent.bytes`.

    Wait for asynchronous operations inside. No barrier is needed around the region (see bytes_sent); one
    inside counts too, as do the headers of messages (gloo: some 72 bytes each). A new connection counts from
    its start.
    """
    sent = SentBytes()
    try:
        yield sent
    finally:
        sent._end = _sent()


class Operations(dict[str, int]):
    """How often this rank's backend ran each operation: `{"gloo:all_reduce": 2}`; empty until the region
    ends.

    `sequence` has (operation, bytes of its input tensors) in order of their start.
    """

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.sequence: list[tuple[str, int]] = []


@contextmanager
def count_operations() -> Iterator[Operations]:
    """Count what gloo or NCCL ran on this rank: `with count_operations() as operations: ...`.

    From the profiler's events: an operation has the name of what the backend did, whatever function asked for
    it (gloo's reduce_scatter_single is an all_reduce). Wait for asynchronous operations inside. Profilers
    don't nest.
    """
    operations = Operations()
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        yield operations
    for event in sorted(profiler.function_events or (), key=lambda event: event.time_range.start):
        if event.name.startswith(("gloo:", "nccl:")):
            operations.sequence.append((event.name, _input_bytes(event)))
    for name, size in sorted(operations.sequence):
        operations[name] = operations.get(name, 0) + 1
        operations.bytes[name] = operations.bytes.get(name, 0) + size


_DTYPES_BY_SIZE = {
    1: ("bool", "signed char", "unsigned char"),
    2: ("c10::Half", "c10::BFloat16", "short int"),
    4: ("float", "int"),
    8: ("double", "long int"),
}
_ITEM_BYTES = {name: size for size, names in _DTYPES_BY_SIZE.items() for name in names}


def _input_bytes(event: Any) -> int:
    total = 0
    for shape, dtype in zip(event.input_shapes, event.input_dtypes or (), strict=False):
        if dtype not in _ITEM_BYTES and shape:
            raise ValueError(f"{event.name} has a tensor of type {dtype}: add its size to measure.py")
        total += prod(shape) * _ITEM_BYTES.get(dtype, 0)  # 0: an option, not a tensor
    return total


def _tensors(thing: Any) -> Iterator[Tensor]:
    if isinstance(thing, Tensor):
        yield (
            thing.to_local() if hasattr(thing, "to_local") else thing
        )  # a DTensor, whose import takes a second
    elif isinstance(thing, nn.Module):
        yield from _tensors([*thing.parameters(), *thing.buffers()])
    elif isinstance(thing, torch.optim.Optimizer):  # ZeroRedundancyOptimizer keeps its shard in an inner one
        yield from _tensors([thing.state, getattr(thing, "optim", None)])
    elif isinstance(thing, Mapping):
        yield from _tensors(thing.values())
    elif isinstance(thing, Iterable) and not isinstance(thing, (str, bytes)):
        for item in thing:
            yield from _tensors(item)


@torch.no_grad()
def storage_bytes(*things: Any) -> int:
    """Bytes that this rank holds in the storages of tensors, each storage once.

    `things`: tensors, modules (parameters and buffers, not gradients), optimizers (their state), containers
    of them; anything else holds no tensors. A view counts its whole storage, a DTensor its local shard.
    """
    storages = [tensor.untyped_storage() for tensor in _tensors(things)]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def parameter_bytes(model: nn.Module) -> int:
    """Bytes of the parameters that this rank holds, without buffers."""
    return storage_bytes(model.parameters())


def gradient_bytes(model: nn.Module) -> int:
    """Bytes of the gradients that this rank holds in `.grad`."""
    return storage_bytes(p.grad for p in model.parameters())


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the optimizer state that this rank holds: none before the first step."""
    return storage_bytes(optimizer)


def saved_tensor_bytes(fn: Callable[[], Any]) -> int:
    """Bytes that autograd keeps for backward while `fn`, a forward pass, runs: the activations.

    Each storage counts once; parameters, other leaves that require a gradient, and views of them don't. What
    an operation saves of the input and the targets counts, and so do autocast's copies of parameters.
    """
    storages = {}  # holds on to them: the place of a freed one would be used again

    def pack(tensor: Tensor) -> Tensor:
        root = tensor if tensor._base is None else tensor._base
        if not (root.is_leaf and root.requires_grad):
            storages.update({t.untyped_storage()._cdata: t.untyped_storage() for t in _tensors(tensor)})
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(storage.nbytes() for storage in storages.values())


class Seconds(float):
    """The median of some timings in seconds: a float that also has `min`, `spread` and `timings`."""

    def __new__(cls, timings: Iterable[float]) -> Self:
        timings = tuple(timings)
        self = super().__new__(cls, statistics.median(timings))
        self.timings = timings
        return self

    def __getnewargs__(self) -> tuple[tuple[float, ...]]:  # for pickle: a rank may return it
        return (self.timings,)

    @property
    def min(self) -> float:
        return min(self.timings)

    @property
    def spread(self) -> float:
        """Seconds between the first and the third quartile."""
        quartiles = statistics.quantiles(self.timings, method="inclusive") if len(self.timings) > 1 else [0.0]
        return quartiles[-1] - quartiles[0]

    def __repr__(self) -> str:
        return measured(self, "s")


def median_seconds(
    fn: Callable[[], Any], repeats: int = 10, warmup: int = 2, before: Callable[[], Any] | None = None
) -> Seconds:
    """Call `fn` `warmup` + `repeats` times and time the last `repeats` calls, work it left on a GPU included.

    `before` runs untimed before each call: with `dist.barrier` all ranks start a collective together.
    Raises ValueError if `repeats` is below 1 or `warmup` below 0.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats must be at least 1 and warmup at least 0, got {repeats} and {warmup}")
    timings = []
    for _ in range(warmup + repeats):
        if before is not None:
            before()
        start = time.perf_counter()
        fn()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        timings.append(time.perf_counter() - start)
    return Seconds(timings[warmup:])


def quantity(value: float, unit: str = "") -> str:
    """A number of three digits with its unit, scaled: `quantity(0.138, "s")` is '138 ms'.

    "s" goes down to ms, µs, ns; "B" up by 2**10 to KiB, MiB, GiB, TiB; what begins with "B/", "bit" or
    "FLOP" up by 10**3 (kB/s, GB/s, TFLOP/s). Other units stay as they are (12,300 tokens/s).
    """
    names, step, scaled = [unit], 1000, float(value)
    if unit == "s" and value:
        names, scaled = ["ns", "µs", "ms", "s"], scaled * 1e9
    elif unit == "B":
        names, step = ["B", "KiB", "MiB", "GiB", "TiB"], 1024
    elif unit.startswith(("B/", "bit", "FLOP")):
        names = [prefix + unit for prefix in ("", "k", "M", "G", "T", "P")]
    while len(names) > 1 and abs(scaled) >= 0.9995 * step:
        names, scaled = names[1:], scaled / step
    return (
        f"{scaled:,.0f} {names[0]}".rstrip() if abs(scaled) >= 99.95 else f"{scaled:.3g} {names[0]}".rstrip()
    )


def measured(value: float | str, unit: str = "") -> str:
    """A value of this run, between ⟨ and ⟩, where the notebooks' test compares nothing: `⟨138 ms⟩`.

    A number is written as `quantity` does, a string as it is. An exact value, the same in every run, needs
    none.
    """
    return f"⟨{value if isinstance(value, str) else quantity(value, unit)}⟩"
