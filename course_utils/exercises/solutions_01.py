"""Reference solutions of chapter 01."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F


def held(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages behind tensors, each storage once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def training_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    """Bytes of the storages behind the parameters, the gradients, and the optimizer's state."""
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters if p.grad is not None]
    state = [t for entry in optimizer.state.values() for t in entry.values() if isinstance(t, torch.Tensor)]
    return held(parameters), held(gradients), held(state)


def accumulate(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    """Fill p.grad of all parameters, whatever was in it before. Update nothing.

    x, y: (B, T), inputs and targets; model(x): (B, T, V).
    """
    model.zero_grad()
    for x_micro, y_micro in zip(x.chunk(k), y.chunk(k), strict=True):  # each (at most ceil(B / k), T)
        logits = model(x_micro)
        loss = F.cross_entropy(logits.flatten(0, 1), y_micro.flatten(), reduction="sum")
        (loss / y.numel()).backward()  # by all tokens, so that sizes may differ


def scaled_step(optimizer: torch.optim.Optimizer, scale: float) -> float:
    """Divide the gradients by scale, update the parameters, and return the scale of the next step."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not all(p.grad.isfinite().all() for p in parameters):
        return scale / 2
    for p in parameters:
        p.grad /= scale
    optimizer.step()
    return scale


SOLUTIONS = {"01.1": training_bytes, "01.2": accumulate, "01.3": scaled_step}
