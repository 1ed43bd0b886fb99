"""Reference solutions of chapter 12."""

import torch


def layer_bytes(b: int, s: int, h: int, a: int, kv: int, f: int, width: int, recompute: str) -> int:
    """Bytes that ParallelLayer(h, a, kv, f, recompute) saves for (b, s) tokens, numbers of width bytes.

    Each storage once, parameters left out. recompute: "nothing", "gated" or "layer".
    """
    if recompute == "layer":
        return b * s * h * width  # the input alone
    numbers = 4 * h + 2 * kv * (h // a)  # input, normed input, query, heads' output; key and value
    numbers += 2 * f if recompute == "gated" else 4 * f  # gate, up; silu(gate) and the product
    statistics = 2 * width + 4 * a  # mean and deviation; a float32 log-sum-exp for each head
    return b * s * (numbers * width + statistics)


def best_k(n_layers: int, input_bytes: int, layer_bytes: int) -> int:
    """A k with the lowest peak, or 0 where no k is below the plain step.

    input_bytes: a segment's input. layer_bytes: what a layer saves beside it.
    """

    def peak(k: int) -> int:
        sizes = [min(k, n_layers - first) for first in range(0, n_layers, k)]
        return max(j * input_bytes + size * layer_bytes for j, size in enumerate(sizes, 1))

    best = min(range(1, n_layers + 1), key=peak)
    return best if peak(best) < n_layers * layer_bytes else 0


class Recomputed(torch.autograd.Function):
    """One operation for autograd, which keeps its inputs and the random state of its forward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        module: torch.nn.Module,
        *inputs: torch.Tensor,
    ) -> torch.Tensor:
        ctx.module, ctx.state = module, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return module(*inputs)  # unrecorded: inside a Function's forward autograd is off

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.module(*inputs)
        torch.autograd.backward(output, gradient)  # reaches the parameters, too
        return None, *(x.grad for x in inputs)


def recomputed(module: torch.nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """module(*inputs), which backward computes again. At least one input needs a gradient."""
    return Recomputed.apply(module, *inputs)


SOLUTIONS = {"12.1": layer_bytes, "12.2": best_k, "12.3": recomputed}
