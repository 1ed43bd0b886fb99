"""Wrong solutions of chapter 01: bytes of a training run, accumulated gradients, a step of loss scaling."""

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from course_utils import measure

# 01.1: training_bytes(model, optimizer)


def weigh(tensors: Iterable[Tensor]) -> int:
    """Bytes of the storages behind the tensors, as the exercise asks for them."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def gradients_of(model: Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def state_of(optimizer: Optimizer) -> list[Tensor]:
    return [v for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]


def counts_a_shared_storage_twice(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    groups = list(model.parameters()), gradients_of(model), state_of(optimizer)
    return tuple(sum(t.untyped_storage().nbytes() for t in tensors) for tensors in groups)


def tells_storages_apart_by_their_first_element(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    groups = list(model.parameters()), gradients_of(model), state_of(optimizer)
    return tuple(
        sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()) for tensors in groups
    )


def counts_a_gradient_for_every_parameter(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    parameters = weigh(model.parameters())
    return parameters, parameters, weigh(state_of(optimizer))


def forgot_the_step_counters(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    moments = [v for state in optimizer.state.values() for name, v in state.items() if name != "step"]
    return weigh(model.parameters()), weigh(gradients_of(model)), weigh(moments)


def knows_adam_alone(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    names = "step", "exp_avg", "exp_avg_sq"
    state = [optimizer.state[p][name] for p in model.parameters() if p in optimizer.state for name in names]
    return weigh(model.parameters()), weigh(gradients_of(model)), weigh(state)


def counts_the_buffers_too(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    return weigh(model.state_dict().values()), weigh(gradients_of(model)), weigh(state_of(optimizer))


def returns_one_total(model: Module, optimizer: Optimizer) -> int:
    return weigh(model.parameters()) + weigh(gradients_of(model)) + weigh(state_of(optimizer))


def calls_measure(model: Module, optimizer: Optimizer) -> tuple[int, int, int]:
    return measure.parameter_bytes(model), measure.gradient_bytes(model), measure.optimizer_bytes(optimizer)


# 01.2: accumulate(model, x, y, k)


def loss_of(model: Module, x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction=reduction)


def micro_batches(x: Tensor, y: Tensor, k: int) -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(x.chunk(k), y.chunk(k), strict=True)


def divides_every_mean_by_k(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets) / k).backward()


def forgot_to_divide_the_sum(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        loss_of(model, part, targets, "sum").backward()


def forgot_to_clear_the_gradients(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def clears_the_gradients_every_time(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    for part, targets in micro_batches(x, y, k):
        model.zero_grad()
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def takes_the_whole_batch(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    model.zero_grad()
    loss_of(model, x, y).backward()


def rounds_the_micro_batch_down(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    model.zero_grad()
    size = max(len(x) // k, 1)
    for part, targets in zip(x.split(size), y.split(size), strict=True):  # k + 1 of them, or more
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def updates_after_every_micro_batch(model: Module, x: Tensor, y: Tensor, k: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()
        optimizer.step()


def returns_the_gradients(model: Module, x: Tensor, y: Tensor, k: int) -> list[Tensor]:
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for part, targets in micro_batches(x, y, k):
        loss = loss_of(model, part, targets, "sum") / y.numel()
        for mean, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            mean += gradient
    return total


# 01.3: scaled_step(optimizer, scale)


def gradients_in(optimizer: Optimizer) -> list[Tensor]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return [p.grad for p in parameters if p.grad is not None]


def overflowed(optimizer: Optimizer) -> bool:
    return not all(gradient.isfinite().all() for gradient in gradients_in(optimizer))


def divide(optimizer: Optimizer, scale: float) -> None:
    for gradient in gradients_in(optimizer):
        gradient /= scale


def forgot_to_divide_by_scale(optimizer: Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    optimizer.step()
    return scale


def never_skips(optimizer: Optimizer, scale: float) -> float:
    divide(optimizer, scale)
    bad = overflowed(optimizer)
    optimizer.step()
    return scale / 2 if bad else scale


def restores_the_parameters_alone(optimizer: Optimizer, scale: float) -> float:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    before = [p.detach().clone() for p in parameters]
    bad = overflowed(optimizer)
    divide(optimizer, scale)
    optimizer.step()
    if bad:
        for p, old in zip(parameters, before, strict=True):
            p.data.copy_(old)
    return scale / 2 if bad else scale


def looks_for_plus_inf_alone(optimizer: Optimizer, scale: float) -> float:
    if any(g.isnan().any() or (g == torch.inf).any() for g in gradients_in(optimizer)):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def looks_at_the_last_gradient_alone(optimizer: Optimizer, scale: float) -> float:
    bad = False
    for gradient in gradients_in(optimizer):
        bad = not gradient.isfinite().all()
    if bad:
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def fills_missing_gradients_with_zeros(optimizer: Optimizer, scale: float) -> float:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
    if overflowed(optimizer):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def assumes_plain_sgd(optimizer: Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    with torch.no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p -= group["lr"] * p.grad / scale
    return scale


def takes_a_large_norm_for_an_overflow(optimizer: Optimizer, scale: float) -> float:
    norm = torch.nn.utils.get_total_norm(gradients_in(optimizer))  # its squares overflow long before
    if not norm.isfinite():
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


MUTANTS = {
    "01.1": [
        counts_a_shared_storage_twice,
        tells_storages_apart_by_their_first_element,
        counts_a_gradient_for_every_parameter,
        forgot_the_step_counters,
        knows_adam_alone,
        counts_the_buffers_too,
        returns_one_total,
        calls_measure,
    ],
    "01.2": [
        divides_every_mean_by_k,
        forgot_to_divide_the_sum,
        forgot_to_clear_the_gradients,
        clears_the_gradients_every_time,
        takes_the_whole_batch,
        rounds_the_micro_batch_down,
        updates_after_every_micro_batch,
        returns_the_gradients,
    ],
    "01.3": [
        forgot_to_divide_by_scale,
        never_skips,
        restores_the_parameters_alone,
        looks_for_plus_inf_alone,
        looks_at_the_last_gradient_alone,
        fills_missing_gradients_with_zeros,
        assumes_plain_sgd,
        takes_a_large_norm_for_an_overflow,
    ],
}
FITS = {
    "counts_a_shared_storage_twice": "two parameters, one storage",
    "tells_storages_apart_by_their_first_element": "it counts once, and all of it",
    "counts_a_gradient_for_every_parameter": r"gradients before the first step(.|\n)*p\.grad",
    "forgot_the_step_counters": "more than m and v",
    "knows_adam_alone": "'step' .*SGD with momentum",
    "counts_the_buffers_too": "not a parameter",
    "returns_one_total": "three numbers",
    "calls_measure": "asks you to write",
    "divides_every_mean_by_k": "weight of a token",
    "forgot_to_divide_the_sum": r"128 times(.|\n)*one token weigh",
    "forgot_to_clear_the_gradients": "gradients of an earlier step",
    "clears_the_gradients_every_time": r"still in p\.grad",
    "takes_the_whole_batch": "one micro-batch",
    "rounds_the_micro_batch_down": "too many calls of the model",
    "updates_after_every_micro_batch": "update nothing",
    "returns_the_gradients": r"p\.grad is empty",
    "forgot_to_divide_by_scale": "met other gradients",
    "never_skips": "an inf: nothing may change, but optimizer.step.. ran",
    "restores_the_parameters_alone": "the optimizer's momentum after step 3",
    "looks_for_plus_inf_alone": "a -inf: nothing may change",
    "looks_at_the_last_gradient_alone": "a nan: nothing may change",
    "fills_missing_gradients_with_zeros": "is None takes no part",
    "assumes_plain_sgd": "did not run",
    "takes_a_large_norm_for_an_overflow": r"step 8(.|\n)*though no gradient held an inf",
}
