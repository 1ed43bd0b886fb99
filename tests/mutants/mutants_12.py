"""Wrong solutions of chapter 12: what a layer saves, the best segment length, a checkpoint of one's own."""

from collections.abc import Callable
from functools import partial
from math import ceil, isqrt
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointFunction, checkpoint

from course_utils import measure

# 12.1: layer_bytes(b, s, h, a, kv, f, width, recompute)


def _layer(
    b: int,
    s: int,
    h: int,
    a: int,
    kv: int,
    f: int,
    width: int,
    recompute: str,
    *,
    input_copies: int = 1,
    hidden: int = 4,
    hidden_recomputed: int = 2,
    wide_pairs: bool = False,
    attention_output: int = 1,
    residual: int = 0,
    statistics: int = 2,
    statistics_width: int | None = None,
    log_width: int = 4,
    log_heads: int | None = None,
) -> int:
    if recompute == "layer":
        return b * s * h * width
    heads = a if wide_pairs else kv
    columns = h + input_copies * h + h + 2 * heads * h // a + attention_output * h + residual * h
    columns += (hidden_recomputed if recompute == "gated" else hidden) * f
    norm = statistics * (width if statistics_width is None else statistics_width)
    return b * s * (columns * width + norm + log_width * (a if log_heads is None else log_heads))


def forgot_mean_and_deviation(*given: Any) -> int:
    return _layer(*given, statistics=0)


def takes_the_statistics_for_float32(*given: Any) -> int:
    return _layer(*given, statistics_width=4)


def forgot_the_log_sum_exp(*given: Any) -> int:
    return _layer(*given, log_width=0)


def counts_the_log_sum_exp_in_the_layers_format(*given: Any) -> int:
    return _layer(*given, log_width=given[-2])


def counts_a_log_sum_exp_for_each_kv_head(*given: Any) -> int:
    return _layer(*given, log_heads=given[4])


def as_many_keys_as_queries(*given: Any) -> int:
    return _layer(*given, wide_pairs=True)


def counts_the_normed_input_for_each_reader(*given: Any) -> int:
    """Query, key, value, gate and up each save it: five names, one storage."""
    return _layer(*given, input_copies=5)


def counts_attentions_output_twice(*given: Any) -> int:
    return _layer(*given, attention_output=2)


def counts_what_is_added_to_the_residual(*given: Any) -> int:
    return _layer(*given, residual=2)


def gives_the_branches_a_norm_each(*given: Any) -> int:
    """The usual layer, one branch after the other: a second norm with an input and an output."""
    return _layer(*given, residual=2, statistics=4)


def forgot_that_silu_saves_its_input(*given: Any) -> int:
    return _layer(*given, hidden=3)


def counts_the_feed_forward_without_its_gate(*given: Any) -> int:
    return _layer(*given, hidden=2)


def gated_keeps_the_product(*given: Any) -> int:
    return _layer(*given, hidden_recomputed=3)


def gated_keeps_only_the_product(*given: Any) -> int:
    return _layer(*given, hidden_recomputed=1)


def gated_keeps_nothing_of_the_feed_forward(*given: Any) -> int:
    return _layer(*given, hidden_recomputed=0)


def ignores_recompute(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    return _layer(b, s, h, a, kv, f, width, "nothing")


def a_checkpointed_layer_saves_nothing(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    return 0 if recompute == "layer" else _layer(b, s, h, a, kv, f, width, recompute)


def a_checkpointed_layer_keeps_its_norm(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    if recompute == "layer":
        return 2 * b * s * h * width + 2 * b * s * width
    return _layer(b, s, h, a, kv, f, width, recompute)


def counts_numbers_instead_of_bytes(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    return _layer(b, s, h, a, kv, f, 1, recompute, log_width=1)


def assumes_float32(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    return _layer(b, s, h, a, kv, f, 4, recompute)


def assumes_four_times_the_width(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    return _layer(b, s, h, a, kv, 4 * h, width, recompute)


def counts_parameters_too(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    weights = 2 * h * h + 2 * h * kv * h // a + 3 * h * f + h
    return _layer(b, s, h, a, kv, f, width, recompute) + weights * width


def uses_the_published_formula(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    return b * s * h * 34 + 5 * a * s * s * b


def writes_attention_out(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    if recompute == "layer":
        return b * s * h * width
    return _layer(b, s, h, a, kv, f, width, recompute, log_width=0) + 2 * a * s * s * b * width


def forgot_the_batch(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    return _layer(1, s, h, a, kv, f, width, recompute)


def builds_a_layer_and_looks(
    b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str
) -> int:
    """Measured, with a layer that is near: as many keys as queries, and no gate."""
    layer = nn.Sequential(nn.LayerNorm(h, bias=False), nn.Linear(h, f, bias=False), nn.SiLU())
    x = torch.randn(b, s, h, requires_grad=True)
    return measure.saved_tensor_bytes(lambda: layer(x))


# 12.2: best_k(n_layers, input_bytes, layer_bytes)


def _peak(n: int, given: int, saved: int, k: int) -> int:
    sizes = [min(k, n - first) for first in range(0, n, k)]
    return max((j + 1) * given + size * saved for j, size in enumerate(sizes))


def takes_the_root_of_the_depth(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    return isqrt(n_layers)


def takes_the_root_of_depth_by_m(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = max(1, round((n_layers * input_bytes / layer_bytes) ** 0.5))
    return k if _peak(n_layers, input_bytes, layer_bytes, k) < n_layers * layer_bytes else 0


def takes_all_segments_for_full(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    """ceil(L / k) inputs and k layers: the panel's formula."""
    peaks = {k: ceil(n_layers / k) * input_bytes + k * layer_bytes for k in range(1, n_layers + 1)}
    k = min(peaks, key=peaks.get)
    return k if peaks[k] < n_layers * layer_bytes else 0


def does_not_round(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    peaks = {k: n_layers / k * input_bytes + k * layer_bytes for k in range(1, n_layers + 1)}
    k = min(peaks, key=peaks.get)
    return k if peaks[k] < n_layers * layer_bytes else 0


def looks_at_the_last_segment_only(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    def peak(k: int) -> int:
        return ceil(n_layers / k) * input_bytes + ((n_layers - 1) % k + 1) * layer_bytes

    k = min(range(1, n_layers + 1), key=peak)
    return k if peak(k) < n_layers * layer_bytes else 0


def tries_divisors_only(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    divisors = [k for k in range(1, n_layers + 1) if n_layers % k == 0]
    k = min(divisors, key=lambda k: _peak(n_layers, input_bytes, layer_bytes, k))
    return k if _peak(n_layers, input_bytes, layer_bytes, k) < n_layers * layer_bytes else 0


def never_says_0(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    return min(range(1, n_layers + 1), key=lambda k: _peak(n_layers, input_bytes, layer_bytes, k))


def takes_as_low_for_below(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = never_says_0(n_layers, input_bytes, layer_bytes)
    return k if _peak(n_layers, input_bytes, layer_bytes, k) <= n_layers * layer_bytes else 0


def counts_inputs_in_the_plain_step(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = never_says_0(n_layers, input_bytes, layer_bytes)
    plain = n_layers * (input_bytes + layer_bytes)
    return k if _peak(n_layers, input_bytes, layer_bytes, k) < plain else 0


def stops_at_the_first_rise(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    peaks = [_peak(n_layers, input_bytes, layer_bytes, k) for k in range(1, n_layers + 1)]
    k = next((k for k in range(1, n_layers) if peaks[k] > peaks[k - 1]), n_layers)
    return k if peaks[k - 1] < n_layers * layer_bytes else 0


def minimizes_what_forward_leaves(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    return n_layers


def checkpoints_each_layer(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    return 1 if n_layers * input_bytes + layer_bytes < n_layers * layer_bytes else 0


def returns_the_number_of_segments(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = takes_as_low_for_below(n_layers, input_bytes, layer_bytes)
    return ceil(n_layers / k) if k else 0


def returns_the_peak(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = never_says_0(n_layers, input_bytes, layer_bytes)
    return _peak(n_layers, input_bytes, layer_bytes, k)


def counts_one_input_at_a_time(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    """Only the input of the segment that backward works on."""
    return 1 if input_bytes + layer_bytes < n_layers * layer_bytes else 0


def tries_up_to_the_root_only(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = min(range(1, isqrt(n_layers) + 1), key=lambda k: _peak(n_layers, input_bytes, layer_bytes, k))
    return k if _peak(n_layers, input_bytes, layer_bytes, k) < n_layers * layer_bytes else 0


def returns_none_for_never(n_layers: int, input_bytes: int, layer_bytes: int) -> int | None:
    k = never_says_0(n_layers, input_bytes, layer_bytes)
    return k if _peak(n_layers, input_bytes, layer_bytes, k) < n_layers * layer_bytes else None


def searches_without_end(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    k = 1
    while _peak(n_layers, input_bytes, layer_bytes, k) >= n_layers * layer_bytes:
        k = k % n_layers + 1
    return k


# 12.3: recomputed(module, *inputs)


def _own(  # the right answer, with one thing changed by each wrong one
    module: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    *,
    again: Callable[..., torch.Tensor] | None = None,
    note: str = "before",
    back: bool = True,
    detach: bool = True,
    parameters: bool = True,
    ones: bool = False,
    keep_output: bool = False,
) -> torch.Tensor:
    class Recomputed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.state = torch.get_rng_state() if note == "before" else None
            output = module(*inputs)
            if note == "after":
                ctx.state = torch.get_rng_state()
            ctx.save_for_backward(*inputs, *([output] if keep_output else []))
            return output

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            given = list(ctx.saved_tensors)[: len(inputs)]
            if detach:
                given = [x.detach().requires_grad_(x.requires_grad) for x in given]
            now = torch.get_rng_state()
            if ctx.state is not None:
                torch.set_rng_state(ctx.state)
            with torch.enable_grad():
                output = (again or module)(*given)
            if back:
                torch.set_rng_state(now)
            if ones:
                gradient = torch.ones_like(gradient)
            if parameters:
                torch.autograd.backward(output, gradient)
                return tuple(x.grad for x in given)
            needed = [x for x in given if x.requires_grad]
            found = iter(torch.autograd.grad(output, needed, gradient))
            return tuple(next(found) if x.requires_grad else None for x in given)

    return Recomputed.apply(*inputs)


def calls_the_library(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return checkpoint(module, *inputs, use_reentrant=False)


def calls_the_old_library(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return checkpoint(module, *inputs, use_reentrant=True)


def calls_the_librarys_function(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return CheckpointFunction.apply(module, True, *inputs)


def just_runs_the_module(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return module(*inputs)


def returns_the_first_input(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return inputs[0]


def runs_without_gradients(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return module(*inputs)


def draws_new_masks(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, note="never", back=False)


def draws_new_masks_and_puts_the_state_back(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, note="never")


def notes_the_state_after_forward(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, note="after")


def leaves_the_state_of_the_first_run(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, back=False)


def seeds_both_runs(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    def seeded(*given: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        return module(*given)

    return _own(seeded, inputs, back=False)


def recomputes_without_dropout(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    def quiet(*given: torch.Tensor) -> torch.Tensor:
        module.eval()
        output = module(*given)
        module.train()
        return output

    return _own(module, inputs, again=quiet)


def forgot_the_parameters(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, parameters=False)


def ignores_the_gradient_that_comes(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, ones=True)


def keeps_the_output_too(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, keep_output=True)


def forgot_to_detach(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return _own(module, inputs, detach=False)


def forgot_enable_grad(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    def without(*given: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(*given)

    return _own(module, inputs, again=without)


def recomputes_by_itself(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """Backward calls recomputed, not module: it comes to no end."""
    return _own(module, inputs, again=partial(recomputes_by_itself, module))


def asks_a_gradient_of_every_input(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    class Recomputed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.state = torch.get_rng_state()
            ctx.save_for_backward(*inputs)
            return module(*inputs)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            given = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            with torch.random.fork_rng(), torch.enable_grad():
                torch.set_rng_state(ctx.state)
                torch.autograd.backward(module(*given), gradient)
            return tuple(x.grad for x in given)

    return Recomputed.apply(*inputs)


def takes_one_input_only(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    first, rest = inputs[0], inputs[1:]
    return _own(lambda x: module(x, *(r.detach() for r in rest)), (first,))


def keeps_the_graph_of_forward(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """Forward runs with gradients on and keeps the output: nothing is computed again."""

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.given = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
            with torch.enable_grad():
                ctx.output = module(*ctx.given)
            return ctx.output.detach()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            torch.autograd.backward(ctx.output, gradient)
            return tuple(x.grad for x in ctx.given)

    return Kept.apply(*inputs)


def recomputes_once_for_each_gradient(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """Inputs in one run of the module, parameters in another."""
    weights = [p for p in module.parameters() if p.requires_grad]

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
            ctx.state = torch.get_rng_state()
            ctx.save_for_backward(*inputs)
            return module(*inputs)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            given = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
            found = []
            for wanted in ([x for x in given if x.requires_grad], weights):
                with torch.random.fork_rng(), torch.enable_grad():
                    torch.set_rng_state(ctx.state)
                    found.append(torch.autograd.grad(module(*given), wanted, gradient))
            firsts = iter(found[0])
            return (*(next(firsts) if x.requires_grad else None for x in given), *found[1])

    return Twice.apply(*inputs, *weights)


def moves_saved_tensors_away(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """Saved tensors are copied elsewhere, not computed again."""
    with torch.autograd.graph.save_on_cpu():
        return module(*inputs)


MUTANTS = {
    "12.1": [
        forgot_mean_and_deviation,
        takes_the_statistics_for_float32,
        forgot_the_log_sum_exp,
        counts_the_log_sum_exp_in_the_layers_format,
        counts_a_log_sum_exp_for_each_kv_head,
        as_many_keys_as_queries,
        counts_the_normed_input_for_each_reader,
        counts_attentions_output_twice,
        counts_what_is_added_to_the_residual,
        gives_the_branches_a_norm_each,
        forgot_that_silu_saves_its_input,
        counts_the_feed_forward_without_its_gate,
        gated_keeps_the_product,
        gated_keeps_only_the_product,
        gated_keeps_nothing_of_the_feed_forward,
        ignores_recompute,
        a_checkpointed_layer_saves_nothing,
        a_checkpointed_layer_keeps_its_norm,
        counts_numbers_instead_of_bytes,
        assumes_float32,
        assumes_four_times_the_width,
        counts_parameters_too,
        uses_the_published_formula,
        writes_attention_out,
        forgot_the_batch,
        builds_a_layer_and_looks,
    ],
    "12.2": [
        takes_the_root_of_the_depth,
        takes_the_root_of_depth_by_m,
        takes_all_segments_for_full,
        does_not_round,
        looks_at_the_last_segment_only,
        tries_divisors_only,
        never_says_0,
        takes_as_low_for_below,
        counts_inputs_in_the_plain_step,
        stops_at_the_first_rise,
        minimizes_what_forward_leaves,
        checkpoints_each_layer,
        returns_the_number_of_segments,
        returns_the_peak,
        counts_one_input_at_a_time,
        tries_up_to_the_root_only,
        returns_none_for_never,
        searches_without_end,
    ],
    "12.3": [
        calls_the_library,
        calls_the_old_library,
        calls_the_librarys_function,
        just_runs_the_module,
        returns_the_first_input,
        runs_without_gradients,
        draws_new_masks,
        draws_new_masks_and_puts_the_state_back,
        notes_the_state_after_forward,
        leaves_the_state_of_the_first_run,
        seeds_both_runs,
        recomputes_without_dropout,
        forgot_the_parameters,
        ignores_the_gradient_that_comes,
        keeps_the_output_too,
        forgot_to_detach,
        forgot_enable_grad,
        recomputes_by_itself,
        asks_a_gradient_of_every_input,
        takes_one_input_only,
        keeps_the_graph_of_forward,
        recomputes_once_for_each_gradient,
        moves_saved_tensors_away,
    ],
}
FITS = {
    "forgot_mean_and_deviation": "two numbers for each token",
    "takes_the_statistics_for_float32": "mean and deviation have the layer's format",
    "forgot_the_log_sum_exp": "a number for each head and token",
    "counts_the_log_sum_exp_in_the_layers_format": "the log-sum-exp is float32",
    "counts_a_log_sum_exp_for_each_kv_head": "each query head",
    "as_many_keys_as_queries": "how wide are key and value",
    "counts_the_normed_input_for_each_reader": "one storage with several readers",
    "counts_attentions_output_twice": "one storage with several readers",
    "counts_what_is_added_to_the_residual": "gradient of a sum needs neither",
    "gives_the_branches_a_norm_each": "how many norms",
    "forgot_that_silu_saves_its_input": "which tensors of width f",
    "counts_the_feed_forward_without_its_gate": "which tensors of width f",
    "gated_keeps_the_product": "what does gated take",
    "gated_keeps_only_the_product": "what does gated take",
    "gated_keeps_nothing_of_the_feed_forward": "what does gated take",
    "ignores_recompute": "recompute gated(.|\n)*a checkpoint keeps what goes into it",
    "a_checkpointed_layer_saves_nothing": "computed again: from what",
    "a_checkpointed_layer_keeps_its_norm": "computed again: from what",
    "counts_numbers_instead_of_bytes": "bytes were asked for",
    "assumes_float32": "a number has width bytes",
    "assumes_four_times_the_width": "width is f",
    "counts_parameters_too": "leave them out",
    "uses_the_published_formula": "make the list of section 1",
    "writes_attention_out": "make the list of section 1",
    "forgot_the_batch": "b sequences",
    "builds_a_layer_and_looks": "computes with tensors(.|\n)*count",
    "takes_the_root_of_the_depth": "the square root of L is for",
    "takes_the_root_of_depth_by_m": "list all k",
    "takes_all_segments_for_full": "one checkpoint fewer is held",
    "does_not_round": "list all k",
    "looks_at_the_last_segment_only": "list all k",
    "tries_divisors_only": "need not divide",
    "never_says_0": "is the peak of k = 1 lower",
    "takes_as_low_for_below": "is the peak of k = 2 lower",
    "counts_inputs_in_the_plain_step": "a plain step holds 4 bytes",
    "stops_at_the_first_rise": "list all k",
    "minimizes_what_forward_leaves": "its peak is 37 bytes",
    "checkpoints_each_layer": "try some k",
    "returns_the_number_of_segments": "the number of segments",
    "returns_the_peak": "or the peak",
    "counts_one_input_at_a_time": "its peak is 37 bytes",
    "tries_up_to_the_root_only": "the square root of L is for",
    "returns_none_for_never": "expected  0(.|\n)*came      None",
    "searches_without_end": "does the search end",
    "calls_the_library": "torch.utils.checkpoint ran",
    "calls_the_old_library": "torch.utils.checkpoint ran",
    "calls_the_librarys_function": "torch.utils.checkpoint ran",
    "just_runs_the_module": "has to be gone after forward",
    "returns_the_first_input": "returns what module",
    "runs_without_gradients": "leads back to the inputs",
    "draws_new_masks": "which masks does the second run draw",
    "draws_new_masks_and_puts_the_state_back": "which masks does the second run draw",
    "notes_the_state_after_forward": "which masks does the second run draw",
    "leaves_the_state_of_the_first_run": "who sets the random state",
    "seeds_both_runs": "who sets the random state",
    "recomputes_without_dropout": "which masks does the second run draw",
    "forgot_the_parameters": "no gradient for 0.up.weight",
    "ignores_the_gradient_that_comes": "with the gradient that arrived",
    "keeps_the_output_too": "has to be gone after forward",
    "forgot_to_detach": "backward through the graph a second time",
    "forgot_enable_grad": "does not require grad",
    "recomputes_by_itself": "must not be checkpointed again",
    "asks_a_gradient_of_every_input": "only Tensors of floating point",
    "takes_one_input_only": "no gradient for the last input",
    "keeps_the_graph_of_forward": "has to be gone after forward",
    "recomputes_once_for_each_gradient": "computes each segment again, once",
    "moves_saved_tensors_away": "has to be gone after forward",
}
