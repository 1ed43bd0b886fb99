"""Wrong solutions of chapter 20: what limits a plan, local SGD for a module, the final project."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.functional import cross_entropy, gelu, mse_loss

Numbers = dict[str, int]
Batches = list[tuple[torch.Tensor, torch.Tensor]]

# 20.1: what_limits(model, plan, batch, memory)


def _exists(model: Numbers, plan: Numbers, batch: int) -> str | None:
    if model["heads"] % plan["tensor"]:
        return "heads"
    if model["layers"] % plan["pipeline"]:
        return "layers"
    return "batch" if batch % (plan["data"] * plan["micro_batch"]) else None


def _parameters(model: Numbers, plan: Numbers) -> float:
    h = model["hidden"]
    layers = model["layers"] // plan["pipeline"]
    return (12 * h * h * layers + model["vocab"] * h) / plan["tensor"]


def _states(model: Numbers, plan: Numbers) -> float:
    divided = {3: 2, 2: 4, 1: 12}
    each = sum(size / plan["data"] if plan["stage"] >= stage else size for stage, size in divided.items())
    return each * _parameters(model, plan)


def _activations(model: Numbers, plan: Numbers, held: float, layer: float = 1) -> float:
    layers, h = model["layers"] // plan["pipeline"], model["hidden"]
    kept = held * layers * (h if plan["recompute"] else 16 * h) + layer * 16 * h * plan["recompute"]
    return 2 * plan["micro_batch"] * model["context"] * kept / plan["tensor"]


def _held(plan: Numbers, batch: int) -> int:
    return min(plan["pipeline"], batch // (plan["data"] * plan["micro_batch"]))


def _answer(states: float, activations: float, memory: float) -> tuple[str, float]:
    total = states + activations
    return "states" if states > memory else "activations" if total > memory else "fits", total


def _limits(model: Numbers, plan: Numbers, batch: int, memory: float, **other: float) -> tuple[str, float]:
    """The right answer, but for ``states``, ``activations`` or ``held`` in ``other``."""
    if missing := _exists(model, plan, batch):
        return missing, 0
    states = other.get("states", _states(model, plan))
    own = _activations(model, plan, other.get("held", _held(plan, batch)))
    return _answer(states, other.get("activations", own), memory)


def fills_the_pipeline_always(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    return _limits(model, plan, batch, memory, held=plan["pipeline"])


def holds_all_micro_batches(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    n = batch / (plan["data"] * plan["micro_batch"])
    return _limits(model, plan, batch, memory, held=n)


def holds_one_micro_batch(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    return _limits(model, plan, batch, memory, held=1)


def asks_for_the_batch_first(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    if batch % (plan["data"] * plan["micro_batch"]):
        return "batch", 0
    return _limits(model, plan, batch, memory)


def forgets_the_micro_batch_in_the_batch(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    if batch % plan["data"] == 0 and _exists(model, plan, batch) == "batch":
        return _answer(_states(model, plan), _activations(model, plan, _held(plan, batch)), memory)
    return _limits(model, plan, batch, memory)


def forgets_the_table(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    return _limits(model, plan, batch, memory, states=_states(model | {"vocab": 0}, plan))


def counts_two_tables(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    states = _states(model | {"vocab": 2 * model["vocab"]}, plan)
    return _limits(model, plan, batch, memory, states=states)


def keeps_the_table_whole(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    vocab = model["vocab"] * plan["tensor"]
    return _limits(model, plan, batch, memory, states=_states(model | {"vocab": vocab}, plan))


def shards_all_states_at_every_stage(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    states = _states(model, plan | {"stage": 3 * (plan["stage"] > 0)})
    return _limits(model, plan, batch, memory, states=states)


def shards_one_state_alone(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    sizes = {1: 12, 2: 4, 3: 2}
    each = sum(size / plan["data"] if plan["stage"] == s else size for s, size in sizes.items())
    return _limits(model, plan, batch, memory, states=each * _parameters(model, plan))


def shards_weights_first(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    sizes = {1: 2, 2: 4, 3: 12}
    each = sum(size / plan["data"] if plan["stage"] >= s else size for s, size in sizes.items())
    return _limits(model, plan, batch, memory, states=each * _parameters(model, plan))


def shards_a_stage_early(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    stage = plan["stage"] + (plan["stage"] > 0)
    return _limits(model, plan, batch, memory, states=_states(model, plan | {"stage": stage}))


def cuts_the_table_by_stages(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    vocab = model["vocab"] / plan["pipeline"]
    return _limits(model, plan, batch, memory, states=_states(model | {"vocab": vocab}, plan))


def keeps_all_despite_recomputing(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    own = _activations(model, plan | {"recompute": 0}, _held(plan, batch))
    return _limits(model, plan, batch, memory, activations=own)


def forgets_the_recomputed_layer(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    kept = _activations(model, plan, _held(plan, batch), layer=0)
    return _limits(model, plan, batch, memory, activations=kept)


def recomputes_a_layer_for_each_that_is_held(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    held = _held(plan, batch)
    return _limits(model, plan, batch, memory, activations=_activations(model, plan, held, layer=held))


def divides_no_activations(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    whole = _activations(model, plan, _held(plan, batch)) * plan["tensor"]
    return _limits(model, plan, batch, memory, activations=whole)


def counts_numbers_for_bytes(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    numbers = _activations(model, plan, _held(plan, batch)) / 2
    return _limits(model, plan, batch, memory, activations=numbers)


def counts_sequences_for_tokens(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    few = _activations(model, plan, _held(plan, batch)) / model["context"]
    return _limits(model, plan, batch, memory, activations=few)


def gives_every_stage_all_layers(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    held = _held(plan, batch)
    whole = plan | {"pipeline": 1}
    return _limits(
        model, plan, batch, memory, states=_states(model, whole), activations=_activations(model, whole, held)
    )


def stops_at_exactly_the_memory(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    return _limits(model, plan, batch, memory - 1)


def keeps_a_fifth_free(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    return _limits(model, plan, batch, 0.8 * memory)


def returns_the_states_bytes_alone(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    what, size = _limits(model, plan, batch, memory)
    return what, _states(model, plan) if what == "states" else size


def counts_what_cannot_exist(model: Numbers, plan: Numbers, batch: int, memory: int) -> tuple[str, float]:
    what, _ = _limits(model, plan, batch, memory)
    return what, _states(model, plan) + _activations(model, plan, _held(plan, batch))


def asks_for_more_layers_than_stages_only(
    model: Numbers, plan: Numbers, batch: int, memory: int
) -> tuple[str, float]:
    if _exists(model, plan, batch) == "layers" and model["layers"] >= plan["pipeline"]:
        if batch % (plan["data"] * plan["micro_batch"]):
            return "batch", 0
        return _answer(_states(model, plan), _activations(model, plan, _held(plan, batch)), memory)
    return _limits(model, plan, batch, memory)


# 20.2: local_sgd_training(model, batches, lr, H)


def _step(model: nn.Module, x: torch.Tensor, y: torch.Tensor, lr: float) -> None:
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(cross_entropy(model(x), y), parameters)
    with torch.no_grad():
        for p, gradient in zip(parameters, gradients, strict=True):
            p -= lr * gradient


def _average(model: nn.Module, op: Any = dist.ReduceOp.AVG) -> None:
    whole = nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.all_reduce(whole, op=op)
    nn.utils.vector_to_parameters(whole, model.parameters())


def _local(
    model: nn.Module,
    batches: Batches,
    lr: float,
    when: Callable[[int], bool],
    average: Callable[[nn.Module], None] = _average,
) -> None:
    for step, (x, y) in enumerate(batches, 1):
        _step(model, x, y, lr)
        if when(step):
            average(model)


def averages_gradients(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    for x, y in batches:
        cross_entropy(model(x), y).backward()
        whole = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)
        for p, gradient in zip(
            model.parameters(), whole.split([p.numel() for p in model.parameters()]), strict=True
        ):
            p.data -= lr * gradient.view_as(p)
            p.grad = None


def averages_tensor_by_tensor(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        for p in model.parameters():
            dist.all_reduce(p.data, op=dist.ReduceOp.AVG)

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def forgets_the_last_steps(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: step % H == 0)


def averages_once_more_always(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: step % H == 0)
    _average(model)


def averages_at_the_end_only(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: step == len(batches))


def averages_after_every_step(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: True)


def never_averages(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: False)


def counts_steps_from_zero(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    _local(model, batches, lr, lambda step: (step - 1) % H == 0 or step == len(batches))


def adds_the_parameters_up(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    last = len(batches)
    _local(
        model,
        batches,
        lr,
        lambda step: step % H == 0 or step == last,
        lambda m: _average(m, dist.ReduceOp.SUM),
    )


def takes_rank_0s_parameters(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        whole = nn.utils.parameters_to_vector(model.parameters()).detach()
        dist.broadcast(whole, src=0)
        nn.utils.vector_to_parameters(whole, model.parameters())

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def divides_by_four(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        whole = nn.utils.parameters_to_vector(model.parameters()).detach()
        dist.all_reduce(whole)
        nn.utils.vector_to_parameters(whole / 4, model.parameters())

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def averages_matrices_only(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        matrices = [p for p in model.parameters() if p.ndim > 1]
        whole = nn.utils.parameters_to_vector(matrices).detach()
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)
        nn.utils.vector_to_parameters(whole, matrices)

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def throws_the_average_away(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        whole = torch.cat([p.detach().flatten() for p in model.parameters()])
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def forgets_to_clear_gradients(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    for step, (x, y) in enumerate(batches, 1):
        cross_entropy(model(x), y).backward()
        for p in model.parameters():
            p.data -= lr * p.grad
        if step % H == 0 or step == len(batches):
            _average(model)


def trains_a_copy(model: nn.Module, batches: Batches, lr: float, H: int) -> nn.Module:
    model = deepcopy(model)
    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches))
    return model


def adds_losses_over_the_batch(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    for step, (x, y) in enumerate(batches, 1):
        _step(model, x, y, lr * len(x))
        if step % H == 0 or step == len(batches):
            _average(model)


def averages_on_rank_0_alone(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        if dist.get_rank() == 0:
            _average(model)

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


def calls_pytorchs_averager(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    averager = PeriodicModelAverager(period=H, warmup_steps=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in batches:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        averager.average_parameters(list(model.parameters()))


def waits_at_a_barrier_too(model: nn.Module, batches: Batches, lr: float, H: int) -> None:
    def average(model: nn.Module) -> None:
        dist.barrier()
        _average(model)

    _local(model, batches, lr, lambda step: step % H == 0 or step == len(batches), average)


# 20.3: Project: the chapter's planner for nodes of any size, and a 2 × 2 mesh


class _Plan(NamedTuple):
    data: int
    tensor: int = 1
    pipeline: int = 1
    pieces: int = 1
    stage: int = 0
    micro_batch: int = 1
    recompute: bool = False


def _share(m: dict[str, Any], q: _Plan) -> tuple[int, float, float]:
    h = m["hidden"]
    layer = 2 * h**2 * (1 + m["kv_heads"] / m["heads"]) + m["ffn_matrices"] * h * m["ffn"]
    tables = m["vocab"] * h * (2 if q.pipeline == 1 and not m["tied_embeddings"] else 1)
    return ceil(m["layers"] / q.pipeline), layer / q.tensor, tables / q.tensor


def _bytes(m: dict[str, Any], q: _Plan, batch: int) -> dict[str, float]:
    (layers, layer, tables), n = _share(m, q), batch // (q.data * q.micro_batch)
    tokens, h, p, v = q.micro_batch * m["context"], m["hidden"], q.pipeline, q.pieces
    states = sum(s / q.data if q.stage >= first else s for s, first in ((2, 3), (4, 2), (12, 1)))
    saved = 6 * h + 2 * h * m["kv_heads"] // m["heads"] + {2: 2, 3: 4}[m["ffn_matrices"]] * m["ffn"]
    kept = min(n, p if v == 1 else p + (p - 1) / v) * layers * (2 * h if q.recompute else 2 * saved)
    return {
        "states": states * (layers * layer + tables),
        "activations": tokens / q.tensor * (kept + 2 * saved * q.recompute + 4 * m["vocab"]),
        "gathered": 6 * (layer + tables) * (q.stage == 3),
    }


def _half(size: float, messages: int, q: _Plan, c: dict[str, float], node: int) -> float:
    near = min(q.data, max(1, node // q.tensor))
    far = q.data / near
    inside, across = size * (near - 1) / near, size / near * (far - 1) / far
    return inside / c["inside"] + across / c["across"] + messages * 10e-6 * (near + far - 2)


def _seconds(m: dict[str, Any], q: _Plan, batch: int, c: dict[str, float], node: int) -> dict[str, float]:
    (layers, layer, tables), n = _share(m, q), batch // (q.data * q.micro_batch)
    tokens, h, t, p, v = q.micro_batch * m["context"], m["hidden"], q.tensor, q.pipeline, q.pieces
    flops = layers * (6 * layer + 12 * m["context"] * h / t) * (4 / 3 if q.recompute else 1)
    compute = tokens * (flops + 6 * m["vocab"] * h / t / p) / (0.5 * c["peak"])
    sums = 2 * (12 if q.recompute else 8) * layers * tokens * h * (t - 1) / t
    tensor = sums / c["inside" if t <= node else "across"]
    hops = 4 * v * tokens * h / t / c["across"] if p > 1 else 0
    size, scatters = layers * layer + tables, n if q.stage >= 2 else 1
    gathers, width = (1, 4) if q.stage == 0 else (2 * n if q.stage == 3 else 1, 2)
    sent = scatters * _half(4 * size, layers, q, c, node) + gathers * _half(width * size, layers, q, c, node)
    return {
        "compute": n * compute,
        "tensor": n * tensor,
        "pipeline": n * hops + (p - 1) / v * (compute + tensor + hops),
        "gradients": max(0, sent - scatters * compute * (1 if q.stage == 3 else 2 / 3)),
    }


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def _plans(m: dict[str, Any], gpus: int, batch: int) -> Iterator[_Plan]:
    for t, p, b in product((1, 2, 4, 8, 16), _divisors(gpus), (1, 2, 4, 8)):
        d, layers = gpus // (t * p), ceil(m["layers"] / p)
        if d * t * p != gpus or m["heads"] % t or layers * (p - 1) >= m["layers"] or batch % (d * b):
            continue
        pieces = _divisors(layers) if p > 1 and batch // (d * b) % p == 0 else [1]
        for v, stage, again in product(pieces, range(4) if d > 1 else [0], (False, True)):
            yield _Plan(d, t, p, v, stage, b, again)


class _Right:
    """The project done right; each wrong one below changes one of these steps."""

    free = 0.8

    def allowed(self, q: _Plan, node: int) -> bool:
        return True

    def node(self, node: int) -> int:
        return node

    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[_Plan, float, float]:
        found = []
        for q in _plans(m, gpus, batch):
            size = sum(_bytes(m, q, batch).values())
            if size <= self.free * c["memory"] and self.allowed(q, node):
                found.append((sum(_seconds(m, q, batch, c, self.node(node)).values()), q, size))
        took, best, size = min(found)
        return best, took, size

    def place(self) -> tuple[int, int]:  # which part of the layer, and which half of the batch
        return dist.get_rank() % 2, dist.get_rank() // 2

    def groups(self) -> tuple[Any, Any]:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        return mesh.get_group("tensor"), mesh.get_group("data")

    def parts(self, up: torch.Tensor, down: torch.Tensor, part: int) -> list[torch.Tensor]:
        return [up.chunk(2)[part].clone(), down.chunk(2, 1)[part].clone()]

    def share(self, t: torch.Tensor, half: int) -> torch.Tensor:
        return t.chunk(2)[half]

    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        y = gelu(x @ u.T) @ d.T
        total = y.detach().clone()
        dist.all_reduce(total, group=group)
        return x + y + (total - y.detach())

    def reduce(self, gradients: list[torch.Tensor], group: Any) -> None:
        for gradient in gradients:
            dist.all_reduce(gradient, op=dist.ReduceOp.AVG, group=group)

    def loss(self, value: torch.Tensor, group: Any) -> float:
        mean = value.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG, group=group)
        return mean.item()

    def train(
        self, up: torch.Tensor, down: torch.Tensor, batches: Batches, lr: float
    ) -> tuple[list[float], torch.Tensor, torch.Tensor]:
        (part, half), (tensor, data), losses = self.place(), self.groups(), []
        u, d = (w.requires_grad_() for w in self.parts(up, down, part))
        for x, target in batches:
            value = mse_loss(self.forward(self.share(x, half), u, d, tensor), self.share(target, half))
            gradients = [g.contiguous() for g in torch.autograd.grad(value, [u, d])]
            self.reduce(gradients, data)
            with torch.no_grad():
                for w, gradient in zip((u, d), gradients, strict=True):
                    w -= lr * gradient
            losses.append(self.loss(value, data))
        return losses, u.detach(), d.detach()


class KeepsNodesOfEight(_Right):
    def node(self, node: int) -> int:
        return 8


class TakesTheFastestThatDoesNotFit(_Right):
    free = float("inf")


class KeepsNoMemoryFree(_Right):
    free = 1.0


class NeverRecomputes(_Right):
    def allowed(self, q: _Plan, node: int) -> bool:
        return not q.recompute


class NeverBuildsAPipeline(_Right):
    def allowed(self, q: _Plan, node: int) -> bool:
        return q.pipeline == 1


class _SplitsNoLayer(_Right):
    def allowed(self, q: _Plan, node: int) -> bool:
        return q.tensor == 1


class SplitsLayersOnlyWhereItMust(_Right):
    def plan(self, *arguments: Any, **named: Any) -> tuple[_Plan, float, float]:
        try:
            return _SplitsNoLayer().plan(*arguments, **named)
        except ValueError:  # nothing fits
            return super().plan(*arguments, **named)


class SharesLayersByEight(_Right):
    def allowed(self, q: _Plan, node: int) -> bool:
        return q.tensor == 8


class ReturnsGigabytes(_Right):
    def plan(self, *arguments: Any, **named: Any) -> tuple[_Plan, float, float]:
        best, took, size = super().plan(*arguments, **named)
        return best, took, size / 1e9


class ReturnsSecondsAMicroBatch(_Right):
    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[_Plan, float, float]:
        best, took, size = super().plan(m, gpus, node, batch, c)
        return best, took / (batch // (best.data * best.micro_batch)), size


class ReturnsStatesAlone(_Right):
    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[_Plan, float, float]:
        best, took, _ = super().plan(m, gpus, node, batch, c)
        return best, took, _bytes(m, best, batch)["states"]


class ReturnsTheSmallestPlan(_Right):
    def plan(
        self, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]
    ) -> tuple[_Plan, float, float]:
        size, best = min((sum(_bytes(m, q, batch).values()), q) for q in _plans(m, gpus, batch))
        return best, sum(_seconds(m, best, batch, c, node).values()), size


class SwapsTheMesh(_Right):
    def place(self) -> tuple[int, int]:
        return dist.get_rank() // 2, dist.get_rank() % 2

    def groups(self) -> tuple[Any, Any]:
        return super().groups()[::-1]


class SwapsTheGroups(_Right):
    def groups(self) -> tuple[Any, Any]:
        return super().groups()[::-1]


class MakesItsOwnGroupsOnly(_Right):
    def groups(self) -> tuple[Any, Any]:
        rank = dist.get_rank()
        first = rank // 2 * 2
        return dist.new_group([first, first + 1]), dist.new_group([rank % 2, rank % 2 + 2])


class AveragesOverAllRanks(_Right):
    def reduce(self, gradients: list[torch.Tensor], group: Any) -> None:
        super().reduce(gradients, None)


class AveragesNoGradients(_Right):
    def reduce(self, gradients: list[torch.Tensor], group: Any) -> None:
        pass


class AddsGradientsUp(_Right):
    def reduce(self, gradients: list[torch.Tensor], group: Any) -> None:
        for gradient in gradients:
            dist.all_reduce(gradient, group=group)


class ReturnsItsOwnLoss(_Right):
    def loss(self, value: torch.Tensor, group: Any) -> float:
        return value.item()


class ReadsItsOwnQuarter(_Right):
    def share(self, t: torch.Tensor, half: int) -> torch.Tensor:
        return t.chunk(4)[dist.get_rank()]


class ReadsTheWholeBatch(_Right):
    def share(self, t: torch.Tensor, half: int) -> torch.Tensor:
        return t


class AddsXTwice(_Right):
    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        return super().forward(x, u, d, group) + x


class ForgetsTheResidual(_Right):
    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        return super().forward(x, u, d, group) - x


class ForgetsTheSum(_Right):
    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        return x + gelu(x @ u.T) @ d.T


class AveragesThePartsOfY(_Right):
    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        return x + (super().forward(x, u, d, group) - x) / 2


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group, total = group, y.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = gradient.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class AddsUpInBackwardToo(_Right):
    def forward(self, x: torch.Tensor, u: torch.Tensor, d: torch.Tensor, group: Any) -> torch.Tensor:
        return x + _Twice.apply(gelu(x @ u.T) @ d.T, group)


class ChangesUpAndDown(_Right):
    def parts(self, up: torch.Tensor, down: torch.Tensor, part: int) -> list[torch.Tensor]:
        return [up.chunk(2)[part].detach(), down.chunk(2, 1)[part].detach()]


class SplitsDownByRows(_Right):
    def parts(self, up: torch.Tensor, down: torch.Tensor, part: int) -> list[torch.Tensor]:
        return [up.chunk(2)[part].clone(), down.chunk(2)[part].clone()]


class TakesOneGroupForEverything(_Right):
    def groups(self) -> tuple[Any, Any]:
        return None, None


class ComputesTheWholeLayer(_Right):
    def train(
        self, up: torch.Tensor, down: torch.Tensor, batches: Batches, lr: float
    ) -> tuple[list[float], torch.Tensor, torch.Tensor]:
        part, losses = dist.get_rank() % 2, []
        u, d = up.clone().requires_grad_(), down.clone().requires_grad_()
        for x, target in batches:
            value = mse_loss(x + gelu(x @ u.T) @ d.T, target)
            gradients = torch.autograd.grad(value, [u, d])
            u, d = ((w - lr * g).detach().requires_grad_() for w, g in zip((u, d), gradients, strict=True))
            losses.append(value.item())
        return losses, u.detach().chunk(2)[part], d.detach().chunk(2, 1)[part]


class ReturnsWholeMatrices(_Right):
    def train(
        self, up: torch.Tensor, down: torch.Tensor, batches: Batches, lr: float
    ) -> tuple[list[float], torch.Tensor, torch.Tensor]:
        losses, u, d = super().train(up, down, batches, lr)
        whole = []
        for w, dim in ((u, 0), (d, 1)):
            parts = [torch.empty_like(w.contiguous()) for _ in range(4)]
            dist.all_gather(parts, w.contiguous())
            whole.append(torch.cat(parts[:2], dim))
        return losses, *whole


MUTANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "20.1": (
        fills_the_pipeline_always,
        holds_all_micro_batches,
        holds_one_micro_batch,
        asks_for_the_batch_first,
        forgets_the_micro_batch_in_the_batch,
        forgets_the_table,
        counts_two_tables,
        keeps_the_table_whole,
        shards_all_states_at_every_stage,
        shards_one_state_alone,
        shards_weights_first,
        shards_a_stage_early,
        cuts_the_table_by_stages,
        keeps_all_despite_recomputing,
        forgets_the_recomputed_layer,
        recomputes_a_layer_for_each_that_is_held,
        divides_no_activations,
        counts_numbers_for_bytes,
        counts_sequences_for_tokens,
        gives_every_stage_all_layers,
        stops_at_exactly_the_memory,
        keeps_a_fifth_free,
        returns_the_states_bytes_alone,
        counts_what_cannot_exist,
        asks_for_more_layers_than_stages_only,
    ),
    "20.2": (
        averages_gradients,
        averages_tensor_by_tensor,
        forgets_the_last_steps,
        averages_once_more_always,
        averages_at_the_end_only,
        averages_after_every_step,
        never_averages,
        counts_steps_from_zero,
        adds_the_parameters_up,
        takes_rank_0s_parameters,
        divides_by_four,
        averages_matrices_only,
        throws_the_average_away,
        forgets_to_clear_gradients,
        trains_a_copy,
        adds_losses_over_the_batch,
        averages_on_rank_0_alone,
        calls_pytorchs_averager,
        waits_at_a_barrier_too,
    ),
    "20.3": (
        KeepsNodesOfEight,
        TakesTheFastestThatDoesNotFit,
        KeepsNoMemoryFree,
        NeverRecomputes,
        NeverBuildsAPipeline,
        SplitsLayersOnlyWhereItMust,
        SharesLayersByEight,
        ReturnsGigabytes,
        ReturnsSecondsAMicroBatch,
        ReturnsStatesAlone,
        ReturnsTheSmallestPlan,
        SwapsTheMesh,
        SwapsTheGroups,
        MakesItsOwnGroupsOnly,
        AveragesOverAllRanks,
        AveragesNoGradients,
        AddsGradientsUp,
        ReturnsItsOwnLoss,
        ReadsItsOwnQuarter,
        ReadsTheWholeBatch,
        AddsXTwice,
        ForgetsTheResidual,
        ForgetsTheSum,
        AveragesThePartsOfY,
        AddsUpInBackwardToo,
        ChangesUpAndDown,
        SplitsDownByRows,
        TakesOneGroupForEverything,
        ComputesTheWholeLayer,
        ReturnsWholeMatrices,
    ),
}

FITS = {
    "fills_the_pipeline_always": "holds no more than it has",
    "holds_all_micro_batches": "does not hold all micro-batches",
    "holds_one_micro_batch": "more than one micro-batch",
    "asks_for_the_batch_first": "heads, then layers",
    "forgets_the_micro_batch_in_the_batch": "expected  batch",
    "forgets_the_table": "table belongs to the parameters",
    "counts_two_tables": "one table is counted",
    "keeps_the_table_whole": "share the table",
    "shards_all_states_at_every_stage": "divides the optimizer state only",
    "shards_one_state_alone": "the stages before it",
    "shards_a_stage_early": "not a stage earlier",
    "cuts_the_table_by_stages": "does not divide it",
    "keeps_all_despite_recomputing": "keeps h numbers a token",
    "shards_weights_first": "1 the optimizer state",
    "forgets_the_recomputed_layer": "its own activations are there",
    "recomputes_a_layer_for_each_that_is_held": "one micro-batch at a time is recomputed",
    "divides_no_activations": "share its activations",
    "counts_numbers_for_bytes": "takes 2 bytes",
    "counts_sequences_for_tokens": "as many tokens",
    "gives_every_stage_all_layers": "only the layers of its stage",
    "stops_at_exactly_the_memory": "exactly full still fits",
    "keeps_a_fifth_free": "the bytes are right",
    "returns_the_states_bytes_alone": "also where the states alone",
    "counts_what_cannot_exist": "holds nothing: 0",
    "asks_for_more_layers_than_stages_only": "expected  layers",
    "averages_gradients": "parameters or gradients",
    "averages_tensor_by_tensor": "one vector of all parameters",
    "forgets_the_last_steps": "steps after the last full H",
    "averages_once_more_always": "none where no average is due",
    "averages_at_the_end_only": "at the end only",
    "averages_after_every_step": "after every step",
    "never_averages": "its own parameters still",
    "counts_steps_from_zero": "after H steps, not before",
    "adds_the_parameters_up": "the sum over the ranks",
    "takes_rank_0s_parameters": "those are rank 0's",
    "divides_by_four": "need not be 4",
    "averages_matrices_only": "the mean of the parameters",
    "throws_the_average_away": "back in the model",
    "forgets_to_clear_gradients": "earlier steps",
    "trains_a_copy": "train it in place",
    "adds_losses_over_the_batch": "mean over the batch, not a sum",
    "averages_on_rank_0_alone": "had not finished",
    "calls_pytorchs_averager": "after H steps, not before",
    "waits_at_a_barrier_too": "too many collectives",
    "KeepsNodesOfEight": "for nodes of eight",
    "TakesTheFastestThatDoesNotFit": "a fifth of the memory free",
    "KeepsNoMemoryFree": "a fifth of the memory free",
    "NeverRecomputes": "plans that recompute",
    "NeverBuildsAPipeline": "search all plans",
    "SplitsLayersOnlyWhereItMust": "search all plans",
    "SharesLayersByEight": "wait for the network",
    "ReturnsGigabytes": "in bytes",
    "ReturnsSecondsAMicroBatch": "seconds a step",
    "ReturnsStatesAlone": "all three parts",
    "ReturnsTheSmallestPlan": "over 5 % faster",
    "SwapsTheMesh": "the other half",
    "SwapsTheGroups": "one sum over the ranks of the layer",
    "MakesItsOwnGroupsOnly": r"had not finished(.|\n)*make each group",
    "AveragesOverAllRanks": "over the wrong ranks",
    "AveragesNoGradients": "its own way",
    "AddsGradientsUp": "mean over the replicas",
    "ReturnsItsOwnLoss": "over which ranks is the mean",
    "ReadsItsOwnQuarter": "they read the same half",
    "ReadsTheWholeBatch": "a quarter of the work",
    "AddsXTwice": "in the sum it should be once",
    "ForgetsTheResidual": "x itself belongs to y",
    "ForgetsTheSum": "who adds the other half's",
    "AveragesThePartsOfY": "then one sum",
    "AddsUpInBackwardToo": "nothing added up behind",
    "ChangesUpAndDown": "chunk gives views",
    "SplitsDownByRows": "cannot be multiplied",
    "TakesOneGroupForEverything": "over the ranks of the layer",
    "ComputesTheWholeLayer": "a quarter of the work",
    "ReturnsWholeMatrices": "half only",
}
