"""Solutions of chapter 20: what limits a plan, local SGD, and the final project."""

import json
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils import datasets


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


PLANNER = (  # the chapter's cells that make it
    *("plan-class", "held-layer", "held-share", "held-function"),
    *("time-cluster", "time-half", "time-function", "rank-plans", "rank-function"),
)


def planner(node: int) -> dict[str, Any]:
    """What the chapter's own cells define, with nodes of that many GPUs: there is one planner.

    In the notebook the names are there already, and `global NODE; NODE = node` does the rest.
    """
    names: dict[str, Any] = {"NamedTuple": NamedTuple, "ceil": ceil, "product": product, "datasets": datasets}
    notebook = datasets.DATA.parent / "notebooks" / "20_choosing_a_plan.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    source = {cell["id"]: "".join(cell["source"]) for cell in cells}
    for cell in PLANNER:
        exec(source[cell], names)
    names["NODE"] = node
    return names


def summed(tensor: Tensor, group: Any) -> Tensor:
    total = tensor.detach().clone()
    dist.all_reduce(total, group=group)
    return total


class Project:
    """The final project. Both methods run on each of four ranks."""

    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[Any, float, float]:
        chapter = planner(node)
        time, plan = chapter["ranked"](m, gpus, batch, c)[0]
        return plan, time, sum(chapter["held"](m, plan, batch).values())

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
