"""Solutions of chapter 20: what limits a plan, local SGD, and the final project."""

from itertools import product
from math import ceil
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


def what_limits(model: dict[str, int], plan: dict[str, int], batch: int, memory: int) -> tuple[str, float]:
    replicas, t, p = plan["data"], plan["tensor"], plan["pipeline"]
    for name, whole, divisor in (
        ("heads", model["heads"], t),
        ("layers", model["layers"], p),
        ("batch", batch, replicas * plan["micro_batch"]),
    ):
        if whole % divisor:
            return name, 0
    layers, h = model["layers"] // p, model["hidden"]
    parameters = (12 * h * h * layers + model["vocab"] * h) / t
    divided = [
        size / replicas if plan["stage"] >= first else size for size, first in ((2, 3), (4, 2), (12, 1))
    ]
    states = parameters * sum(divided)

    micro_batches = batch // (replicas * plan["micro_batch"])
    inputs_held = min(p, micro_batches) * layers * h
    numbers = inputs_held + 16 * h if plan["recompute"] else 16 * inputs_held
    held = states + 2 * numbers * plan["micro_batch"] * model["context"] / t
    return "states" if states > memory else "activations" if held > memory else "fits", held


def local_sgd_training(model: nn.Module, batches: list[tuple[Tensor, Tensor]], lr: float, H: int) -> None:
    params = list(model.parameters())
    for step, (x, y) in enumerate(batches, start=1):
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), params)
        with torch.no_grad():
            for p, gradient in zip(params, gradients, strict=True):
                p -= lr * gradient
            if step % H == 0 or step == len(batches):
                flat = nn.utils.parameters_to_vector(params)
                dist.all_reduce(flat)
                nn.utils.vector_to_parameters(flat / dist.get_world_size(), params)


class Plan(NamedTuple):
    """As in the chapter."""

    data: int
    tensor: int = 1
    pipeline: int = 1
    pieces: int = 1
    stage: int = 0
    micro_batch: int = 1
    recompute: bool = False


def layer_parameters(m: dict[str, Any]) -> float:
    attention = 2 * m["hidden"] ** 2 * (1 + m["kv_heads"] / m["heads"])
    return attention + m["ffn_matrices"] * m["hidden"] * m["ffn"]


def share(m: dict[str, Any], plan: Plan) -> tuple[int, float, float]:
    tables = m["vocab"] * m["hidden"] * (2 if plan.pipeline == 1 and not m["tied_embeddings"] else 1)
    return ceil(m["layers"] / plan.pipeline), layer_parameters(m) / plan.tensor, tables / plan.tensor


def held(m: dict[str, Any], plan: Plan, batch: int) -> float:
    """Bytes on the fullest rank."""
    layers, layer, tables = share(m, plan)
    n, tokens = batch // (plan.data * plan.micro_batch), plan.micro_batch * m["context"]
    divided = ((2, 3), (4, 2), (12, 1))
    states = sum(size / plan.data if plan.stage >= first else size for size, first in divided)
    h, p, v = m["hidden"], plan.pipeline, plan.pieces
    saved = 2 * (6 * h + 2 * h * m["kv_heads"] // m["heads"] + {2: 2, 3: 4}[m["ffn_matrices"]] * m["ffn"])
    at_a_time = min(n, p if v == 1 else p + (p - 1) / v)
    kept = at_a_time * layers * (2 * h if plan.recompute else saved) + saved * plan.recompute
    activations = tokens / plan.tensor * (kept + 4 * m["vocab"])
    return states * (layers * layer + tables) + activations + 6 * (layer + tables) * (plan.stage == 3)


def half(size: float, messages: int, plan: Plan, c: dict[str, float], node: int) -> float:
    """Seconds of a reduce-scatter or an all-gather among the replicas."""
    near = min(plan.data, max(1, node // plan.tensor))
    far = plan.data / near
    inside, across = size * (near - 1) / near, size / near * (far - 1) / far
    return inside / c["inside"] + across / c["across"] + messages * 10e-6 * (near + far - 2)


def seconds(m: dict[str, Any], plan: Plan, batch: int, c: dict[str, float], node: int) -> float:
    """Seconds a step."""
    layers, layer, tables = share(m, plan)
    n, tokens, h = batch // (plan.data * plan.micro_batch), plan.micro_batch * m["context"], m["hidden"]
    t, p, v, again = plan.tensor, plan.pipeline, plan.pieces, plan.recompute
    flops = layers * (6 * layer + 12 * m["context"] * h / t) * (4 / 3 if again else 1)
    compute = tokens * (flops + 6 * m["vocab"] * h / t / p) / (0.5 * c["peak"])
    sums = 2 * (12 if again else 8) * layers * tokens * h * (t - 1) / t
    tensor = sums / c["inside" if t <= node else "across"]
    hops = 4 * v * tokens * h / t / c["across"] if p > 1 else 0
    size, scatters = layers * layer + tables, n if plan.stage >= 2 else 1
    gathers, width = (1, 4) if plan.stage == 0 else (2 * n if plan.stage == 3 else 1, 2)
    sent = scatters * half(4 * size, layers, plan, c, node)
    sent += gathers * half(width * size, layers, plan, c, node)
    hidden = scatters * compute * (1 if plan.stage == 3 else 2 / 3)
    return (n + (p - 1) / v) * (compute + tensor + hops) + max(0, sent - hidden)


def divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def best_plan(
    m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
) -> tuple[float, Plan, float]:
    """Seconds, plan and bytes of the fastest plan that fits."""
    found = []
    for t, p, b in product((1, 2, 4, 8, 16), divisors(gpus), (1, 2, 4, 8)):
        d, layers = gpus // (t * p), ceil(m["layers"] / p)
        if d * t * p != gpus or m["heads"] % t or layers * (p - 1) >= m["layers"] or batch % (d * b):
            continue
        pieces = divisors(layers) if p > 1 and batch // (d * b) % p == 0 else [1]
        for v, stage, again in product(pieces, range(4) if d > 1 else [0], (False, True)):
            plan = Plan(d, t, p, v, stage, b, again)
            size = held(m, plan, batch)
            if size <= 0.8 * c["memory"]:
                found.append((seconds(m, plan, batch, c, node), plan, size))
    return min(found)


def summed(tensor: Tensor, group: Any) -> Tensor:
    total = tensor.detach().clone()
    dist.all_reduce(total, group=group)
    return total


class Project:
    """The final project. Both methods run on each of four ranks."""

    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[Plan, float, float]:
        time, plan, size = best_plan(m, gpus, node, batch, c)
        return plan, time, size

    def train(
        self, up: Tensor, down: Tensor, batches: list[tuple[Tensor, Tensor]], lr: float
    ) -> tuple[list[float], Tensor, Tensor]:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        replica, part = mesh.get_coordinate()
        replicas, layer = mesh.get_group("data"), mesh.get_group("tensor")
        up = up.chunk(2, 0)[part].clone().requires_grad_()
        down = down.chunk(2, 1)[part].clone().requires_grad_()
        losses = []
        for x, target in batches:
            x, target = x.chunk(2)[replica], target.chunk(2)[replica]
            y = F.linear(F.gelu(F.linear(x, up)), down)  # a partial sum; x needs no gradient
            y = x + y + (summed(y, layer) - y.detach())
            loss = F.mse_loss(y, target)
            gradients = torch.autograd.grad(loss, (up, down))
            with torch.no_grad():
                for p, gradient in zip((up, down), gradients, strict=True):
                    p -= lr * summed(gradient, replicas) / 2
            losses.append(summed(loss, replicas).item() / 2)
        return losses, up.detach(), down.detach()


SOLUTIONS = {"20.1": what_limits, "20.2": local_sgd_training, "20.3": Project}
