"""Reference solutions of chapter 11."""

import torch
import torch.distributed as dist
from torch.distributed import fsdp


def shard_in_units(layers: torch.nn.Sequential, limit: int) -> None:
    """Call fully_shard on parts of layers, and on layers itself, in place. Ranks: all there are."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    units: list[list[torch.nn.Module]] = []
    room = 0
    for layer in layers:
        size = sum(p.numel() for p in layer.parameters())
        if not units or size > room:
            units.append([])
            room = limit
        units[-1].append(layer)
        room -= size
    for unit in units:
        fsdp.fully_shard(unit, mesh=mesh)
    fsdp.fully_shard(layers, mesh=mesh)  # or each unit would be a root, and stay gathered until backward


def accumulate(model: fsdp.FSDPModule, micro_batches: list[torch.Tensor]) -> None:
    """Leave the gradients in grad. The loss of a micro-batch is model(batch).square().mean()."""
    model.set_reshard_after_forward(False)
    for i, batch in enumerate(micro_batches, start=1):
        last = i == len(micro_batches)
        model.set_requires_gradient_sync(last)
        model.set_reshard_after_backward(last)
        (model(batch).square().mean() / len(micro_batches)).backward()
    model.set_reshard_after_forward(True)


def peak_bytes(units: list[int], root: int, world_size: int, kept: bool) -> float:
    """Bytes on one rank at the peak of backward. units, root: numbers of parameters of the whole."""
    at_rest = 12 / world_size * (sum(units) + root)  # weights and two moments
    peak = 0.0
    for i, unit in enumerate(units):
        before, after = units[:i], units[i + 1 :]
        numbers = 2 * unit + sum(after[:1]) + sum(after) / world_size  # itself; on their way; reduced
        numbers += sum(before) if kept else sum(before[-1:])
        peak = max(peak, 4 * numbers)
    return at_rest + 8 * root + peak


SOLUTIONS = {"11.1": shard_in_units, "11.2": accumulate, "11.3": peak_bytes}
