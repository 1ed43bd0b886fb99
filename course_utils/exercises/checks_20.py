"""Checks of chapter 20: what limits a plan, local SGD by its averages, and the final project.

The planner that the final project is compared with is the chapter's, with nodes of any size.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_utils.exercises.judging import Exercise, at_most, compare, plain, reject
from course_utils.exercises.solutions_20 import planner
from course_utils.measure import count_operations

# 20.1 · what limits a plan

_MODEL = {"layers": 40, "hidden": 5120, "heads": 40, "vocab": 32000, "context": 4096}
_WIDE = {"layers": 96, "hidden": 12288, "heads": 96, "vocab": 50257, "context": 2048}


def _plan(
    data: int, tensor: int, pipeline: int, stage: int, micro_batch: int, recompute: int
) -> dict[str, int]:
    names = ("data", "tensor", "pipeline", "stage", "micro_batch", "recompute")
    return dict(zip(names, (data, tensor, pipeline, stage, micro_batch, recompute), strict=True))


_LIMITS = (  # model, plan, batch, memory
    (_MODEL, _plan(8, 1, 1, 0, 1, 1), 64, 80 * 10**9),
    (_MODEL, _plan(8, 1, 1, 3, 1, 1), 64, 80 * 10**9),
    (_MODEL, _plan(8, 1, 1, 3, 4, 0), 64, 80 * 10**9),
    (_MODEL, _plan(8, 1, 1, 1, 1, 1), 64, 100 * 10**9),
    (_MODEL, _plan(8, 1, 1, 2, 1, 1), 64, 64 * 10**9),
    (_MODEL, _plan(1, 16, 4, 0, 1, 0), 64, 80 * 10**9),
    (_MODEL, _plan(1, 16, 3, 0, 1, 0), 63, 80 * 10**9),
    (_MODEL, _plan(3, 16, 3, 0, 1, 0), 64, 80 * 10**9),  # nothing divides: the first counts
    (_MODEL, _plan(5, 8, 3, 0, 1, 0), 64, 80 * 10**9),
    (_MODEL, _plan(2, 8, 16, 1, 1, 1), 64, 80 * 10**9),
    (_MODEL, _plan(6, 8, 4, 1, 1, 1), 64, 80 * 10**9),
    (_MODEL, _plan(8, 8, 4, 1, 16, 1), 64, 80 * 10**9),
    (_MODEL, _plan(4, 2, 4, 1, 1, 0), 256, 25 * 10**9),
    (_MODEL, _plan(32, 2, 8, 1, 1, 0), 64, 7 * 10**9),
    (_MODEL, _plan(32, 2, 8, 1, 1, 0), 64, 10 * 10**9),
    (_WIDE, _plan(4, 8, 8, 0, 1, 0), 512, 60 * 10**9),
    (_WIDE, _plan(4, 8, 8, 0, 1, 0), 512, 50 * 10**9),
    (_WIDE, _plan(4, 8, 8, 2, 1, 1), 512, 17 * 10**9),
    (_MODEL, _plan(1, 1, 1, 0, 1, 1), 8, 0),  # its memory is exactly what it holds, see _cases
)


def _limit(
    model: dict[str, int],
    plan: dict[str, int],
    batch: int,
    memory: float,
    states: tuple[tuple[int, int], ...] = ((2, 3), (4, 2), (12, 1)),
    **changed: Any,
) -> list[Any]:
    """The answer; `changed` plants a mistake, for the hints."""
    d, t, p, b = (plan[name] for name in ("data", "tensor", "pipeline", "micro_batch"))
    for name, whole, part in (
        ("heads", model["heads"], t),
        ("layers", model["layers"], p),
        ("batch", batch, d * b),
    ):
        if whole % part:
            return [name, 0]
    layers, h = changed.get("stack", model["layers"] // p), model["hidden"]
    ranks = changed.get("ranks", d)
    bytes_each = sum(size / ranks if plan["stage"] >= first else size for size, first in states)
    tables = changed.get("tables", 1) * model["vocab"] * h
    held_states = (12 * h * h * changed.get("layers", layers) + tables) * bytes_each / t
    at_a_time = changed.get("at_a_time", min(p, batch // (d * b)))
    recompute = changed.get("recompute", plan["recompute"])
    again = 16 * h * changed.get("again", 1) if recompute else 0
    numbers = at_a_time * layers * h * (1 if recompute else 16) + again
    sequences = changed.get("sequences", b)
    size = changed.get("size", 2) * changed.get("tokens", model["context"])  # bytes of a sequence's number
    activations = numbers * sequences * size / changed.get("divides", t)
    total = held_states + activations
    return ["states" if held_states > memory else "activations" if total > memory else "fits", total]


def _cases() -> list[tuple[dict[str, int], dict[str, int], int, int]]:
    last = _LIMITS[-1]
    exact = int(_limit(*last)[1])
    return [*_LIMITS[:-1], (*last[:3], exact)]


def see_limits(what_limits: Callable[..., Any]) -> list[Any]:
    return [what_limits(dict(model), dict(plan), batch, memory) for model, plan, batch, memory in _cases()]


def _limit_hint(came: float, model: dict[str, int], plan: dict[str, int], batch: int, memory: int) -> str:
    d, t, p, b = (plan[name] for name in ("data", "tensor", "pipeline", "micro_batch"))
    n = batch // (d * b)
    mistakes = {
        "a step with few micro-batches holds no more than it has": {"at_a_time": p},
        "under 1F1B a stage does not hold all micro-batches of the step": {"at_a_time": n},
        "the first stage holds more than one micro-batch": {"at_a_time": 1},
        "while a layer is recomputed, its own activations are there, too": {"again": 0},
        "one layer at a time is recomputed, not all of them": {"again": model["layers"] // p},
        "one micro-batch at a time is recomputed, not all that are held": {"again": min(p, n)},
        "with recomputing a layer keeps h numbers a token": {"recompute": 0},
        "the ranks of a layer share its activations": {"divides": 1},
        "a number that is saved takes 2 bytes": {"size": 1},
        "a sequence has as many tokens as the context": {"tokens": 1},
        "all bytes, also where the states alone are too many": {"tokens": 0},
        "a micro-batch can have several sequences": {"sequences": 1},
        "only a micro-batch is computed at a time, not the rank's share of the batch": {
            "sequences": batch // d
        },
        "the states are divided among the replicas, not among all ranks": {"ranks": d * t * p},
        "a rank has only the layers of its stage": {"layers": model["layers"]},
        "a rank has and saves only the layers of its stage": {"stack": model["layers"]},
        "the ranks of a layer share the table, too": {"tables": t},
        "the first stage has the whole table: a pipeline does not divide it": {"tables": 1 / p},
        "one table is counted": {"tables": 2},
        "the table belongs to the parameters": {"tables": 0},
        "2 bytes of weights, 4 of gradients, 12 of optimizer state": {"states": ((2, 3), (2, 2), (12, 1))},
        "which stage of ZeRO divides what? 1 the optimizer state, 2 gradients, 3 weights": {
            "states": ((2, 1), (4, 2), (12, 3))
        },
        "stage 2 of ZeRO divides gradients, stage 3 weights: not a stage earlier": {
            "states": ((2, 2), (4, 1), (12, 1))
        },
        "stage 2 of ZeRO divides gradients, not weights": {"states": ((2, 2), (4, 3), (12, 1))},
        "the first stage of ZeRO divides the optimizer state only": {"states": ((2, 1), (4, 1), (12, 1))},
        "a stage of ZeRO divides what the stages before it divide, too": {
            "states": tuple(
                (size, at if at == plan["stage"] else 4) for size, at in ((2, 3), (4, 2), (12, 1))
            )
        },
    }
    wanted = _limit(model, plan, batch, memory)[1]
    for hint, change in mistakes.items():
        value = _limit(model, plan, batch, memory, **change)[1]
        if not math.isclose(value, wanted, rel_tol=1e-9) and math.isclose(came, value, rel_tol=1e-6):
            return hint
    if any(math.isclose(came, wanted / unit, rel_tol=0.01) for unit in (1e9, 2**30)):
        return "in bytes, please"
    return "write down the parameters of a rank, then its states, then what it holds of activations"


def decide_limits(seen: list[list[Any]]) -> str:
    for came, case in zip(seen[0], _cases(), strict=True):
        model, plan, batch, memory = case
        what = f"{model['layers']} layers, {plan}, batch {batch}, {memory / 1e9:.4g} GB"
        if not isinstance(came, list) or len(came) != 2 or not isinstance(came[1], (int, float)):
            form = 'a pair such as ("fits", 12.5e9)'
            reject(f"{what}: not a pair of word and bytes", expected=form, came=came, hint=form)
        word, size = _limit(*case)
        possible = word not in ("heads", "layers", "batch")
        if came[0] != word and not (possible and came[0] in ("states", "activations", "fits")):
            hint = "first whether it can exist: heads, then layers, then the batch"
            reject(f"{what}: what limits it", expected=word, came=came[0], hint=hint)
        hint = _limit_hint(came[1], *case) if possible else "a plan that cannot exist holds nothing: 0"
        compare(f"{what}: the bytes", float(came[1]), float(size), hint=hint, tolerance=1e-9)
        hint = (
            "the bytes are right: compare the states alone with the memory, then all; exactly full still fits"
        )
        compare(f"{what}: what limits it", came[0], word, hint=hint)
    return f"{len(_LIMITS)} plans, of which some can't exist, some don't fit, and one fits to the byte."


# 20.2 · local SGD

_RUNS = ((7, 3), (4, 2), (2, 5), (3, 1))  # steps, H
_LR = 0.3


def _net() -> nn.Module:
    torch.manual_seed(20)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def _own_batches(rank: int, steps: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(100 * steps + rank)
    x = torch.randn(steps, 6, 5, generator=generator, dtype=torch.float64)
    return [(x[i], torch.randint(3, (6,), generator=generator)) for i in range(steps)]


def see_local_sgd(local_sgd_training: Callable[..., Any]) -> list[dict[str, Any]]:
    runs = []
    for steps, H in _RUNS:
        model = _net()
        dist.barrier()
        with count_operations() as operations:
            local_sgd_training(model, _own_batches(dist.get_rank(), steps), _LR, H)
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        ran = dict(operations)
        for name in ran.keys() & {"gloo:barrier", "nccl:barrier"}:
            ran[name] -= 1  # the end of ours may fall into the region
        runs.append({"weights": weights, "operations": ran, "bytes": sum(operations.bytes.values())})
    return runs


def _local_sgd(
    world_size: int,
    steps: int,
    averages: Callable[[int], bool],
    mean: Callable[[Tensor], Tensor] = lambda all_weights: all_weights.mean(0),
    lr: float = _LR,
    clear: bool = True,
) -> list[Tensor]:
    """Each rank's weights at the end; averages(step) says whether `mean` runs after step 1, 2, ..."""
    nets = [_net() for _ in range(world_size)]
    data = [_own_batches(rank, steps) for rank in range(world_size)]
    for step in range(1, steps + 1):
        for net, own in zip(nets, data, strict=True):
            x, y = own[step - 1]
            if clear:
                net.zero_grad()
            F.cross_entropy(net(x), y).backward()
            for p in net.parameters():
                p.data -= lr * p.grad
        if averages(step):
            all_weights = torch.stack(
                [nn.utils.parameters_to_vector(net.parameters()).detach() for net in nets]
            )
            for net in nets:
                nn.utils.vector_to_parameters(mean(all_weights), net.parameters())
    return [nn.utils.parameters_to_vector(net.parameters()).detach() for net in nets]


def _is_due(steps: int, H: int, step: int) -> bool:
    return step % H == 0 or step == steps


def _close(came: Any, wanted: Tensor) -> bool:
    try:
        return torch.allclose(torch.tensor(came, dtype=torch.float64), wanted, rtol=0, atol=1e-9)
    except (RuntimeError, TypeError, ValueError):  # None, or another shape
        return False


def _local_hint(came: Any, rank: int, world_size: int, steps: int, H: int) -> str:
    right = partial(_is_due, steps, H)
    mistakes: dict[str, dict[str, Any]] = {
        "the model is as it was: train it in place": {"averages": lambda step: False, "lr": 0.0},
        "each rank has its own parameters still: an average counts once it is back in the model": {
            "averages": lambda step: False
        },
        "steps after the last full H need an average, too": {"averages": lambda step: step % H == 0},
        "an average is due after H steps, not before": {"averages": lambda step: (step - 1) % H == 0},
        "that averages once more than asked, or one step early": {
            "averages": lambda step: (step - 1) % H == 0 or step == steps
        },
        "that averages after every step, parameters or gradients: H steps come first": {
            "averages": lambda step: True
        },
        "divide by the number of ranks, which need not be 4": {
            "averages": right,
            "mean": lambda w: w.sum(0) / 4,
        },
        "gradients of earlier steps are still in .grad": {"averages": right, "clear": False},
        "the loss is a mean over the batch, not a sum": {"averages": right, "lr": 6 * _LR},
        "that averages at the end only": {"averages": lambda step: step == steps},
        "that is the sum over the ranks, not their average": {"averages": right, "mean": lambda w: w.sum(0)},
        "those are rank 0's parameters: everybody's count": {
            "averages": right,
            "mean": lambda w: w[0].clone(),
        },
    }
    wanted = _local_sgd(world_size, steps, right)[rank]
    for hint, change in mistakes.items():
        wrong = _local_sgd(world_size, steps, **change)[rank]
        if not _close(wrong.tolist(), wanted) and _close(came, wrong):
            return hint
    return "H own steps of p -= lr * gradient, then the mean of the parameters over all ranks"


def decide_local_sgd(seen: list[list[dict[str, Any]]]) -> str:
    world_size = len(seen)
    for i, (steps, H) in enumerate(_RUNS):
        what, due = f"{steps} steps, H = {H}", math.ceil(steps / H)
        wanted = _local_sgd(world_size, steps, partial(_is_due, steps, H))
        wrong = [rank for rank, runs in enumerate(seen) if not _close(runs[i]["weights"], wanted[rank])]
        if wrong:  # the last one, as a mistake may leave rank 0 with parameters that tell too little
            rank = wrong[-1]
            came = seen[rank][i]["weights"]
            hint = _local_hint(came, rank, world_size, steps, H)
            compare(f"parameters after {what}", came, wanted[rank], rank=rank, hint=hint, tolerance=1e-9)
        for rank, runs in enumerate(seen):
            count = sum(runs[i]["operations"].values())
            hint = "one vector of all parameters, and none where no average is due"
            at_most(f"collectives and messages ({what})", count, due, rank=rank, hint=hint)
            hint = "the parameters, once in an average; averages of averages change nothing"
            at_most(
                f"bytes given to collectives ({what})", runs[i]["bytes"], due * 8 * 66, rank=rank, hint=hint
            )
    return f"on {world_size} ranks, also where H does not divide the steps, one collective an average."


# 20.3 · the final project

_LLAMA = {"layers": 40, "hidden": 5120, "heads": 40, "kv_heads": 40, "ffn": 13824, "ffn_matrices": 3}
_LLAMA |= {"vocab": 32000, "context": 4096, "tied_embeddings": 0}
_GPT = {"layers": 96, "hidden": 12288, "heads": 96, "kv_heads": 96, "ffn": 49152, "ffn_matrices": 2}
_GPT |= {"vocab": 50257, "context": 2048, "tied_embeddings": 1}
_A100 = {"memory": 40e9, "peak": 312e12, "inside": 300e9, "across": 12.5e9}
_H100 = {"memory": 80e9, "peak": 989e12, "inside": 450e9, "across": 12.5e9}
_PROJECTS = (  # model, GPUs, GPUs of a node, sequences a step, cluster
    (_LLAMA, 32, 4, 128, _A100),
    (_GPT, 512, 4, 768, _H100),
    (_GPT, 512, 16, 768, _H100),
    (_LLAMA, 16, 8, 256, _A100 | {"across": 1.25e9}),
    (_GPT, 64, 4, 256, _H100),  # without recomputing it takes far longer
)
_F, _C, _N, _STEPS, _RATE = 24, 6, 8, 5, 0.1


def _pair() -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw(_F, _C) / 2, draw(_C, _F) / 4, [(draw(_N, _C), draw(_N, _C)) for _ in range(_STEPS)]


def see_project(Project: Callable[[], Any]) -> dict[str, Any]:
    project, (up, down, batches) = Project(), _pair()
    planned = [project.plan(dict(m), gpus, node, batch, dict(c)) for m, gpus, node, batch, c in _PROJECTS]
    given = [t.clone() for t in (up, down)]
    dist.barrier()
    with count_operations() as operations, FlopCounterMode(display=False) as counter:
        trained = project.train(up, down, batches, _RATE)
    kept = torch.equal(given[0], up.detach()) and torch.equal(given[1], down.detach())
    seen = {"planned": planned, "trained": trained, "kept": kept, "flops": counter.get_total_flops()}
    return seen | {"bytes": sum(operations.bytes.values())}


def _decide_plan(came: Any, m: dict[str, Any], gpus: int, node: int, batch: int, c: dict[str, float]) -> None:
    what = f"{m['layers']} layers of width {m['hidden']} on {gpus} GPUs, nodes of {node}"
    form = "a Plan, its seconds and its bytes"
    if not isinstance(came, list) or len(came) != 3 or not isinstance(came[0], list) or len(came[0]) != 7:
        reject(f"{what}: not what was asked for", expected=form, came=came, hint=form)
    chapter = planner(node)
    plan, time, size = chapter["Plan"](*came[0]), came[1], came[2]
    if not all(isinstance(number, (int, float)) for number in (*plan, time, size)):
        reject(f"{what}: not numbers", expected=form, came=came, hint=form)
    if plan.data * plan.tensor * plan.pipeline != gpus:
        hint = "data · tensor · pipeline is the number of GPUs"
        reject(f"{what}: the degrees", expected=gpus, came=list(plan[:3]), hint=hint)
    layers = math.ceil(m["layers"] / plan.pipeline)
    if m["heads"] % plan.tensor or layers * (plan.pipeline - 1) >= m["layers"]:
        hint = "tensor divides the heads, and no stage is without layers"
        reject(f"{what}: such a plan can't exist", came=list(plan[:3]), hint=hint)
    n, rest = divmod(batch, plan.data * plan.micro_batch)
    if rest or layers % plan.pieces or (plan.pieces > 1 and n % plan.pipeline):
        hint = (
            "data · micro_batch divides the batch, pieces the layers of a stage, pipeline the micro-batches"
        )
        reject(f"{what}: such a plan can't exist", came=list(plan), hint=hint)
    wanted = sum(chapter["held"](m, plan, batch).values())
    hint = "all three parts of held(), in bytes, for the plan that you return"
    compare(f"{what}: bytes of the fullest rank", float(size), wanted, hint=hint, tolerance=0.01)
    hint = "leave a fifth of the memory free"
    at_most(f"bytes ({what})", wanted / 1e9, 0.8 * c["memory"] / 1e9, hint=f"{hint} (in GB here)")
    wanted = sum(chapter["seconds"](m, plan, batch, c).values())
    hint = "all four parts of seconds(), for the plan that you return"
    if math.isclose(time, sum(planner(8)["seconds"](m, plan, batch, c).values()), rel_tol=0.01):
        hint = "that is for nodes of eight: NODE stands in half() and in seconds()"
    if abs(time / wanted - 1) > 0.01:
        reject(f"{what}: seconds a step", expected=wanted, came=time, hint=hint)
    best, plan_of_best = chapter["ranked"](m, gpus, batch, c)[0]
    if wanted > 1.05 * best:
        hint = "its numbers are right, but a node's size decides which splits are cheap: search all plans"
        if plan_of_best.tensor > 8 or plan.tensor > node:
            hint = "how many ranks may share a layer here before they wait for the network?"
        if plan_of_best.recompute and not plan.recompute:
            hint = "does your search also try plans that recompute?"
        reject(
            f"{what}: a plan is over 5 % faster",
            expected=f"at most {1.05 * best:.4g} s",
            came=wanted,
            hint=hint,
        )


def _train(
    lr: float = _RATE, samples: slice = slice(None), residuals: int = 1, features: slice = slice(None)
) -> tuple[list[float], Tensor, Tensor]:
    """In one process; the arguments are mistakes."""
    up, down, batches = _pair()
    up, down, losses = up[features].clone(), down[:, features].clone(), []
    for x, target in batches:
        x, target = x[samples], target[samples]
        up.requires_grad_()
        down.requires_grad_()
        loss = F.mse_loss(residuals * x + F.linear(F.gelu(F.linear(x, up)), down), target)
        gradients = torch.autograd.grad(loss, (up, down))
        up, down = up.detach() - lr * gradients[0], down.detach() - lr * gradients[1]
        losses.append(loss.item())
    return losses, up, down


def _loss_of_quarters(part: int) -> float:
    """The first loss on the ranks with this part of the layer, if every rank reads a quarter of its own."""
    up, down, batches = _pair()
    x, target = (t.chunk(4) for t in batches[0])
    losses = []
    for replica in (0, 1):
        own = 2 * replica + part
        outputs = [
            F.linear(F.gelu(F.linear(x[2 * replica + k], up.chunk(2)[k])), down.chunk(2, 1)[k])
            for k in (0, 1)
        ]
        losses.append(F.mse_loss(x[own] + outputs[0] + outputs[1], target[own]).item())
    return sum(losses) / 2


def _train_hint(losses: list[float], rank: int) -> str:
    own = slice(rank // 2 * _N // 2, (rank // 2 + 1) * _N // 2)
    features = slice(rank % 2 * _F // 2, (rank % 2 + 1) * _F // 2)
    first = {
        "that is the loss of this rank's half: over which ranks is the mean?": _train(samples=own),
        "x is added on each rank of a layer; in the sum it should be once": _train(residuals=2),
        "x itself belongs to y, too": _train(residuals=0),
        "that is half of the layer alone: who adds the other half's output?": _train(features=features),
    }
    for hint, (wrong, _, _) in first.items():
        if math.isclose(losses[0], wrong[0], rel_tol=1e-9):
            return hint
    if math.isclose(losses[0], _loss_of_quarters(rank % 2), rel_tol=1e-9):
        return "ranks 0 and 1 share the layer: they read the same half"
    apart = [_train(samples=slice(half, half + _N // 2))[0][1] for half in (0, _N // 2)]
    then = {
        "gradients are doubled: mean over the replicas, and nothing added up behind the sum?": _train(
            lr=2 * _RATE
        )[0][1],
        "the gradients are too small by the number of replicas": _train(lr=_RATE / 2)[0][1],
        "each replica goes its own way: average the gradients before the step": sum(apart) / 2,
    }
    for hint, wrong in then.items():
        if math.isclose(losses[1], wrong, rel_tol=1e-9):
            return f"the first loss is right; {hint}"
    if math.isclose(losses[0], _train()[0][0], rel_tol=1e-9):
        return "the first loss is right: which gradient is wrong, or averaged over the wrong ranks?"
    return "forward: this rank's rows of up, its columns of down, then one sum over the ranks of the layer"


def _decide_train(seen: list[dict[str, Any]]) -> None:
    losses, up, down = _train()
    for rank, s in enumerate(seen):
        came = s["trained"]
        if not isinstance(came, list) or len(came) != 3:
            form = "the list of losses, this rank's part of up, and of down"
            reject("train: not what was asked for", expected=form, came=came, rank=rank, hint=form)
        if not isinstance(came[0], list) or len(came[0]) != _STEPS:
            reject(
                "train: the losses", expected=f"{_STEPS} numbers", came=came[0], rank=rank, hint="one a step"
            )
        half = rank % 2
        parts = {"up": (came[1], up.chunk(2, 0)[half]), "down": (came[2], down.chunk(2, 1)[half])}
        for name, (part, wanted) in parts.items():
            shape = (
                [len(part), len(part[0])]
                if isinstance(part, list) and part and isinstance(part[0], list)
                else []
            )
            if shape != list(wanted.shape):
                hint = "this rank's half only: rows of up, columns of down"
                reject(
                    f"train: the shape of {name}",
                    expected=list(wanted.shape),
                    came=shape,
                    rank=rank,
                    hint=hint,
                )
        if not _close(came[0], torch.tensor(losses, dtype=torch.float64)):
            hint = _train_hint(came[0], rank)
            compare("train: the losses", came[0], losses, rank=rank, hint=hint, tolerance=1e-9)
        for name, (part, wanted) in parts.items():
            hint = (
                "the losses are right, so the step before the last was: is it the part after the last step?"
            )
            other = {"up": up.chunk(2, 0), "down": down.chunk(2, 1)}[name][1 - half]
            if torch.allclose(torch.tensor(part, dtype=torch.float64), other, rtol=0, atol=1e-9):
                hint = (
                    "that is the other half: rank r holds half r % 2, and works on half r // 2 of the batch"
                )
            compare(f"train: {name}", part, plain(wanted), rank=rank, hint=hint, tolerance=1e-9)
        if not s["kept"]:
            reject(
                "train: up or down was changed", rank=rank, hint="chunk gives views: clone this rank's part"
            )
    numbers = _STEPS * (_F * _C + 2 * _N // 2 * _C + 4)  # gradients of a half; outputs and their gradients
    flops = _STEPS * 6 * 2 * (_N // 2) * (_F // 2) * _C  # six products a step, the gradient of x among them
    for rank, s in enumerate(seen):
        hint = "a rank brings the gradients of its half, and its outputs; nobody needs the whole matrices"
        at_most("bytes given to collectives in train", s["bytes"], 8 * numbers, rank=rank, hint=hint)
        hint = "a quarter of the work is this rank's: half of the layer, on half of the batch"
        at_most("FLOPs in train", s["flops"], flops, rank=rank, hint=hint)


def decide_project(seen: list[dict[str, Any]]) -> str:
    for rank in range(1, len(seen)):
        hint = "the same search on every rank"
        compare("the plans", seen[rank]["planned"], seen[0]["planned"], rank=rank, hint=hint)
    if not isinstance(seen[0]["planned"], list):
        reject("plan: not what was asked for", came=seen[0]["planned"])
    for came, project in zip(seen[0]["planned"], _PROJECTS, strict=True):
        _decide_plan(came, *project)
    _decide_train(seen)
    shape = " × ".join(str(degree) for degree in seen[0]["planned"][1][0][:3])
    return f"planned ({shape} where nodes have 4 GPUs), justified to 1 %, and run as one process would."


EXERCISES = {
    "20.1": Exercise(see_limits, decide_limits, world_sizes=(1,)),
    "20.2": Exercise(see_local_sgd, decide_local_sgd, world_sizes=(4, 3)),
    "20.3": Exercise(
        see_project,
        decide_project,
        world_sizes=(4,),
        timeout=20.0,
        timeout_hint=(
            "ranks 0 and 1 meet in the layer's sum, 0 and 2 in the gradients': in one order? "
            "And all ranks make each group, those that are not in it, too"
        ),
    ),
}
