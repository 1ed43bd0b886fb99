"""Wrong solutions of chapter 01: bytes of a training run, accumulated gradients, a step of loss scaling."""

from collections.abc import Iterable, Iterator
from math import ceil

import torch
import torch.nn.functional as F

from course_utils import measure

# 01.1: training_bytes(model, optimizer)


def weigh(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages behind the tensors, as the exercise asks for them."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def gradients_of(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def state_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]


def counts_a_shared_storage_twice(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    groups = list(model.parameters()), gradients_of(model), state_of(optimizer)
    return tuple(sum(t.untyped_storage().nbytes() for t in tensors) for tensors in groups)


def counts_the_elements_in_view(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    groups = list(model.parameters()), gradients_of(model), state_of(optimizer)
    return tuple(sum(t.numel() * t.element_size() for t in tensors) for tensors in groups)


def tells_storages_apart_by_their_first_element(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    groups = list(model.parameters()), gradients_of(model), state_of(optimizer)
    return tuple(
        sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()) for tensors in groups
    )


def multiplies_by_sixteen(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    count = sum(p.numel() for p in model.parameters())
    return 4 * count, 4 * count, 8 * count


def assumes_fp32(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    def weigh_in_fp32(tensors: Iterable[torch.Tensor]) -> int:
        storages = [t.untyped_storage() for t in tensors]
        sizes = {s.data_ptr(): s.nbytes() for s in storages}
        elements = {t.untyped_storage().data_ptr(): t.element_size() for t in tensors}
        return sum(4 * size // elements[place] for place, size in sizes.items())

    return (
        weigh_in_fp32(list(model.parameters())),
        weigh_in_fp32(gradients_of(model)),
        weigh_in_fp32(state_of(optimizer)),
    )


def counts_a_gradient_for_every_parameter(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    parameters = weigh(model.parameters())
    return parameters, parameters, weigh(state_of(optimizer))


def leaves_out_frozen_parameters(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    trained = [p for p in model.parameters() if p.grad is not None]
    return weigh(trained), weigh(p.grad for p in trained), weigh(state_of(optimizer))


def trips_over_a_missing_gradient(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    return (
        weigh(model.parameters()),
        weigh(p.grad for p in model.parameters()),
        weigh(state_of(optimizer)),
    )


def forgot_the_step_counters(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    moments = [v for state in optimizer.state.values() for name, v in state.items() if name != "step"]
    return weigh(model.parameters()), weigh(gradients_of(model)), weigh(moments)


def knows_adam_alone(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    names = "step", "exp_avg", "exp_avg_sq"
    state = [optimizer.state[p][name] for p in model.parameters() if p in optimizer.state for name in names]
    return weigh(model.parameters()), weigh(gradients_of(model)), weigh(state)


def expects_a_state_before_the_first_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    state = [
        optimizer.state[p][name] for p in model.parameters() for name in ("step", "exp_avg", "exp_avg_sq")
    ]
    return weigh(model.parameters()), weigh(gradients_of(model)), weigh(state)


def counts_two_moments_before_the_first_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int, int]:
    gradients = gradients_of(model)
    return weigh(model.parameters()), weigh(gradients), 2 * weigh(gradients) + 4 * len(gradients)


def counts_the_buffers_too(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    return weigh(model.state_dict().values()), weigh(gradients_of(model)), weigh(state_of(optimizer))


def returns_one_total(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    return weigh(model.parameters()) + weigh(gradients_of(model)) + weigh(state_of(optimizer))


def returns_mebibytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[float, float, float]:
    groups = model.parameters(), gradients_of(model), state_of(optimizer)
    return tuple(weigh(tensors) / 2**20 for tensors in groups)


def calls_measure(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int, int]:
    return measure.parameter_bytes(model), measure.gradient_bytes(model), measure.optimizer_bytes(optimizer)


# 01.2: accumulate(model, x, y, k)


def loss_of(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction=reduction)


def micro_batches(x: torch.Tensor, y: torch.Tensor, k: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield from zip(x.chunk(k), y.chunk(k), strict=True)


def divides_every_mean_by_k(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets) / k).backward()


def forgot_to_divide_by_k(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        loss_of(model, part, targets).backward()


def forgot_to_divide_the_sum(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        loss_of(model, part, targets, "sum").backward()


def divides_by_sequences_not_tokens(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / len(x)).backward()


def forgot_to_clear_the_gradients(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def clears_the_gradients_every_time(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    for part, targets in micro_batches(x, y, k):
        model.zero_grad()
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def takes_the_whole_batch(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    loss_of(model, x, y).backward()


def holds_all_graphs_until_the_end(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    losses = [loss_of(model, part, targets, "sum") for part, targets in micro_batches(x, y, k)]
    (sum(losses) / y.numel()).backward()


def goes_sequence_by_sequence(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, len(x)):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def rounds_the_micro_batch_down(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    size = max(len(x) // k, 1)
    for part, targets in zip(x.split(size), y.split(size), strict=True):  # k + 1 of them, or more
        (loss_of(model, part, targets, "sum") / y.numel()).backward()


def drops_the_remainder(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    size = len(x) // k
    for i in range(k):
        part, targets = x[i * size : (i + 1) * size], y[i * size : (i + 1) * size]
        (loss_of(model, part, targets) / k).backward()


def gives_the_last_one_the_remainder(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int
) -> None:
    model.zero_grad()
    size = max(len(x) // k, 1)
    for i in range(min(k, len(x))):
        end = len(x) if i == k - 1 else (i + 1) * size
        (loss_of(model, x[i * size : end], y[i * size : end], "sum") / y.numel()).backward()


def insists_on_a_batch_that_k_divides(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int
) -> None:
    model.zero_grad()
    shape = k, len(x) // k, x.shape[1]
    for part, targets in zip(x.view(shape), y.view(shape), strict=True):
        (loss_of(model, part, targets) / k).backward()


def updates_too(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    model.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def updates_after_every_micro_batch(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / y.numel()).backward()
        optimizer.step()


def returns_the_gradients(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int
) -> list[torch.Tensor]:
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for part, targets in micro_batches(x, y, k):
        loss = loss_of(model, part, targets, "sum") / y.numel()
        for mean, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            mean += gradient
    return total


def gives_the_last_micro_batch_its_own_weight(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, k: int
) -> None:
    model.zero_grad()
    size = ceil(len(x) / k)
    for part, targets in micro_batches(x, y, k):
        (loss_of(model, part, targets, "sum") / (k * size * y.shape[1])).backward()  # as if all were full


# 01.3: scaled_step(optimizer, scale)


def gradients_in(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return [p.grad for p in parameters if p.grad is not None]


def overflowed(optimizer: torch.optim.Optimizer) -> bool:
    return not all(gradient.isfinite().all() for gradient in gradients_in(optimizer))


def divide(optimizer: torch.optim.Optimizer, scale: float) -> None:
    for gradient in gradients_in(optimizer):
        gradient /= scale


def forgot_to_divide_by_scale(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    optimizer.step()
    return scale


def multiplies_by_scale(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    divide(optimizer, 1 / scale)
    optimizer.step()
    return scale


def divides_a_copy(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    for gradient in gradients_in(optimizer):
        gradient = gradient / scale
    optimizer.step()
    return scale


def never_skips(optimizer: torch.optim.Optimizer, scale: float) -> float:
    divide(optimizer, scale)
    bad = overflowed(optimizer)
    optimizer.step()
    return scale / 2 if bad else scale


def forgot_to_step(optimizer: torch.optim.Optimizer, scale: float) -> float:
    divide(optimizer, scale)
    return scale / 2 if overflowed(optimizer) else scale


def steps_with_gradients_of_zero(optimizer: torch.optim.Optimizer, scale: float) -> float:
    bad = overflowed(optimizer)
    for gradient in gradients_in(optimizer):
        gradient.copy_(torch.zeros_like(gradient) if bad else gradient / scale)
    optimizer.step()
    return scale / 2 if bad else scale


def replaces_the_bad_elements(optimizer: torch.optim.Optimizer, scale: float) -> float:
    bad = overflowed(optimizer)
    for gradient in gradients_in(optimizer):
        gradient.nan_to_num_(0.0, 0.0, 0.0).div_(scale)
    optimizer.step()
    return scale / 2 if bad else scale


def skips_the_bad_parameter_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    bad = overflowed(optimizer)
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad = p.grad / scale if p.grad.isfinite().all() else None
    optimizer.step()
    return scale / 2 if bad else scale


def restores_the_parameters_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    before = [p.detach().clone() for p in parameters]
    bad = overflowed(optimizer)
    divide(optimizer, scale)
    optimizer.step()
    if bad:
        for p, old in zip(parameters, before, strict=True):
            p.data.copy_(old)
    return scale / 2 if bad else scale


def looks_for_inf_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if any(gradient.isinf().any() for gradient in gradients_in(optimizer)):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def looks_for_nan_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if any(gradient.isnan().any() for gradient in gradients_in(optimizer)):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def looks_for_plus_inf_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if any(g.isnan().any() or (g == torch.inf).any() for g in gradients_in(optimizer)):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def looks_at_the_first_group_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    gradients = [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]
    if not all(gradient.isfinite().all() for gradient in gradients):
        return scale / 2
    for gradient in gradients:
        gradient /= scale
    optimizer.step()
    return scale


def looks_at_the_last_gradient_alone(optimizer: torch.optim.Optimizer, scale: float) -> float:
    bad = False
    for gradient in gradients_in(optimizer):
        bad = not gradient.isfinite().all()
    if bad:
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def needs_a_gradient_everywhere(optimizer: torch.optim.Optimizer, scale: float) -> float:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if not p.grad.isfinite().all():
                return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def fills_missing_gradients_with_zeros(optimizer: torch.optim.Optimizer, scale: float) -> float:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
    if overflowed(optimizer):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def divides_the_learning_rate(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    for group in optimizer.param_groups:
        group["lr"] /= scale
    optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] *= scale
    return scale


def assumes_plain_sgd(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    with torch.no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p -= group["lr"] * p.grad / scale
    return scale


def halves_the_scale_every_time(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if not overflowed(optimizer):
        divide(optimizer, scale)
        optimizer.step()
    return scale / 2


def doubles_the_scale_after_a_good_step(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if overflowed(optimizer):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale * 2


def keeps_the_scale_after_an_overflow(optimizer: torch.optim.Optimizer, scale: float) -> float:
    if not overflowed(optimizer):
        divide(optimizer, scale)
        optimizer.step()
    return scale


def forgot_to_return_the_scale(optimizer: torch.optim.Optimizer, scale: float) -> float | None:
    if overflowed(optimizer):
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return None


def takes_a_large_norm_for_an_overflow(optimizer: torch.optim.Optimizer, scale: float) -> float:
    norm = torch.nn.utils.get_total_norm(gradients_in(optimizer))  # its squares overflow long before
    if not norm.isfinite():
        return scale / 2
    divide(optimizer, scale)
    optimizer.step()
    return scale


def leaves_the_scale_to_the_library(optimizer: torch.optim.Optimizer, scale: float) -> float:
    scaler = torch.amp.GradScaler("cpu")  # begins at 65,536, whatever the loss was multiplied by
    scaler.scale(torch.zeros(()))
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


MUTANTS = {
    "01.1": [
        counts_a_shared_storage_twice,
        counts_the_elements_in_view,
        tells_storages_apart_by_their_first_element,
        multiplies_by_sixteen,
        assumes_fp32,
        counts_a_gradient_for_every_parameter,
        leaves_out_frozen_parameters,
        trips_over_a_missing_gradient,
        forgot_the_step_counters,
        knows_adam_alone,
        expects_a_state_before_the_first_step,
        counts_two_moments_before_the_first_step,
        counts_the_buffers_too,
        returns_one_total,
        returns_mebibytes,
        calls_measure,
    ],
    "01.2": [
        divides_every_mean_by_k,
        forgot_to_divide_by_k,
        forgot_to_divide_the_sum,
        divides_by_sequences_not_tokens,
        forgot_to_clear_the_gradients,
        clears_the_gradients_every_time,
        takes_the_whole_batch,
        holds_all_graphs_until_the_end,
        goes_sequence_by_sequence,
        rounds_the_micro_batch_down,
        drops_the_remainder,
        gives_the_last_one_the_remainder,
        insists_on_a_batch_that_k_divides,
        updates_too,
        updates_after_every_micro_batch,
        returns_the_gradients,
        gives_the_last_micro_batch_its_own_weight,
    ],
    "01.3": [
        forgot_to_divide_by_scale,
        multiplies_by_scale,
        divides_a_copy,
        never_skips,
        forgot_to_step,
        steps_with_gradients_of_zero,
        replaces_the_bad_elements,
        skips_the_bad_parameter_alone,
        restores_the_parameters_alone,
        looks_for_inf_alone,
        looks_for_nan_alone,
        looks_for_plus_inf_alone,
        looks_at_the_first_group_alone,
        looks_at_the_last_gradient_alone,
        needs_a_gradient_everywhere,
        fills_missing_gradients_with_zeros,
        divides_the_learning_rate,
        assumes_plain_sgd,
        halves_the_scale_every_time,
        doubles_the_scale_after_a_good_step,
        keeps_the_scale_after_an_overflow,
        forgot_to_return_the_scale,
        takes_a_large_norm_for_an_overflow,
        leaves_the_scale_to_the_library,
    ],
}
FITS = {
    "counts_a_shared_storage_twice": "two parameters, one storage",
    "counts_the_elements_in_view": "two parameters, one storage",
    "tells_storages_apart_by_their_first_element": "it counts once, and all of it",
    "multiplies_by_sixteen": r"state after a step.*(.|\n)*storages that are there",
    "assumes_fp32": "not every number takes 4 bytes",
    "counts_a_gradient_for_every_parameter": r"gradients before the first step(.|\n)*p\.grad",
    "leaves_out_frozen_parameters": "right: parameters before the first step",
    "trips_over_a_missing_gradient": "NoneType.*before the first step",
    "forgot_the_step_counters": "more than m and v",
    "knows_adam_alone": "'step' .*SGD with momentum",
    "expects_a_state_before_the_first_step": "before the first step",
    "counts_two_moments_before_the_first_step": "optimizer to optimizer",
    "counts_the_buffers_too": "not a parameter",
    "returns_one_total": "three numbers",
    "returns_mebibytes": "times what was expected|bytes",
    "calls_measure": "asks you to write",
    "divides_every_mean_by_k": "weight of a token",
    "forgot_to_divide_by_k": r"4 times(.|\n)*one token weigh",
    "forgot_to_divide_the_sum": r"128 times(.|\n)*one token weigh",
    "divides_by_sequences_not_tokens": r"16 times(.|\n)*one token weigh",
    "forgot_to_clear_the_gradients": "gradients of an earlier step",
    "clears_the_gradients_every_time": r"still in p\.grad",
    "takes_the_whole_batch": "one micro-batch",
    "holds_all_graphs_until_the_end": "backward frees",
    "goes_sequence_by_sequence": "too many calls of the model",
    "rounds_the_micro_batch_down": "too many calls of the model",
    "drops_the_remainder": "k does not divide B",
    "gives_the_last_one_the_remainder": "3 sequences are one micro-batch",
    "insists_on_a_batch_that_k_divides": "shape.*B = 10, k = 4",
    "updates_too": "update nothing",
    "updates_after_every_micro_batch": "update nothing",
    "returns_the_gradients": r"p\.grad is empty",
    "gives_the_last_micro_batch_its_own_weight": "weight of a token",
    "forgot_to_divide_by_scale": "met other gradients",
    "multiplies_by_scale": "met other gradients",
    "divides_a_copy": "met other gradients",
    "never_skips": "an inf: nothing may change, but optimizer.step.. ran",
    "forgot_to_step": "did not run",
    "steps_with_gradients_of_zero": "nothing may change, but optimizer.step.. ran",
    "replaces_the_bad_elements": "nothing may change, but optimizer.step.. ran",
    "skips_the_bad_parameter_alone": "nothing may change, but optimizer.step.. ran",
    "restores_the_parameters_alone": "the optimizer's momentum after step 3",
    "looks_for_inf_alone": "a nan: nothing may change",
    "looks_for_nan_alone": "an inf: nothing may change",
    "looks_for_plus_inf_alone": "a -inf: nothing may change",
    "looks_at_the_first_group_alone": r"met other gradients.*all p\.grad",
    "looks_at_the_last_gradient_alone": "a nan: nothing may change",
    "needs_a_gradient_everywhere": "NoneType.*step 1",
    "fills_missing_gradients_with_zeros": "is None takes no part",
    "divides_the_learning_rate": "met other gradients",
    "assumes_plain_sgd": "did not run",
    "halves_the_scale_every_time": "the same scale after a good step",
    "doubles_the_scale_after_a_good_step": "the same scale after a good step",
    "keeps_the_scale_after_an_overflow": "half of it after a skipped one",
    "forgot_to_return_the_scale": "nothing came back",
    "takes_a_large_norm_for_an_overflow": r"step 8(.|\n)*though no gradient held an inf",
    "leaves_the_scale_to_the_library": "met other gradients",
}
