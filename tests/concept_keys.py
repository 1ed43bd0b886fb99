"""The right answers of the concept tests, computed: by torch, by ranks that launch() starts, by formulas.

``COMPUTED`` has, for each question whose answer can be computed, a function that returns what is right in
both sittings, in the words of a choice. What a run contradicts comes back as a text that is no choice.
"""

import io
import os
import subprocess
import time
from collections.abc import Callable
from functools import cache
from math import isclose, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.run import get_args_parser
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from course_utils import RankError, launch
from course_utils.exercises import solutions_03, solutions_09, solutions_14, solutions_16, solutions_19
from course_utils.measure import (
    count_bytes,
    count_operations,
    gradient_bytes,
    optimizer_bytes,
    parameter_bytes,
    saved_tensor_bytes,
)

Key = tuple[str, str] | str
NOT_SO = "a run contradicts this answer"
TIMES = {0.5: "half as much", 1.0: "as much", 1.5: "half as much again", 2.0: "twice as much"}


def numbers(text: str, *values: object) -> tuple[str, str]:
    """``text`` with the value of each sitting in its braces."""
    return tuple(text.format(value) for value in values)


def said(text: str, holds: bool) -> str:
    return text if holds else NOT_SO


# Part 1


def state_bytes() -> Key:
    model = nn.Linear(100, 100)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 100)).sum().backward()
    optimizer.step()
    held = parameter_bytes(model) + gradient_bytes(model) + optimizer_bytes(optimizer)
    a_parameter = round(held / sum(p.numel() for p in model.parameters()))
    return numbers("{} GB", a_parameter, a_parameter // 2)


def what_grows() -> Key:
    def held(batch: int) -> dict[str, int]:
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(batch, 32)
        activations = saved_tensor_bytes(lambda: model(x).square().sum())
        model(x).square().sum().backward()
        optimizer.step()
        return {
            "the activations": activations,
            "the gradients": gradient_bytes(model),
            "the parameters": parameter_bytes(model),
            "the states": optimizer_bytes(optimizer),
        }

    once, twice = held(64), held(128)
    return " and ".join(name for name in once if round(twice[name] / once[name]) == 2)


def forgotten_division() -> Key:
    def times(k: int) -> str:
        weight, x = torch.ones(3, requires_grad=True), torch.randn(8 * k, 3)
        (whole,) = torch.autograd.grad((x @ weight).square().mean(), weight)
        for micro_batch in x.chunk(k):
            (micro_batch @ weight).square().mean().backward()
        return f"{(weight.grad / whole).mean():.0f}"

    return numbers("{} times that of the whole batch", times(4), times(8))


def unequal_shares() -> Key:
    def gradient(shares: list[tuple[int, float]]) -> str:
        weight = torch.tensor(1.0, requires_grad=True)
        samples = torch.cat([torch.full((count,), value) for count, value in shares])
        (weight * samples).mean().backward()
        return f"{weight.grad:g}"

    return gradient([(30, 2.0), (10, 6.0)]), gradient([(20, 2.0), (60, 6.0)])


def token_weight() -> Key:
    def ratio(long: int, short: int) -> str:
        losses = torch.ones(long + short, requires_grad=True)
        ((losses[:long].mean() + losses[long:].mean()) / 2).backward()
        return f"{losses.grad[-1] / losses.grad[0]:.0f}"

    return numbers("{} times as much as one of rank 0", ratio(6, 2), ratio(10, 2))


def gpu_number() -> Key:
    places = [solutions_03.node_and_local_rank(*asked) for asked in ((9, [4, 4, 4]), (13, [8, 8]))]
    return numbers("number {}", *(local_rank for _, local_rank in places))


def group_sum() -> Key:
    def held(groups: list[list[int]]) -> float:
        x = torch.tensor(dist.get_rank() + 1.0)
        for ranks, group in [(ranks, dist.new_group(ranks)) for ranks in groups]:
            if dist.get_rank() in ranks:
                dist.all_reduce(x, group=group)
        return x.item()

    halves, odd_and_even = [[0, 1, 2], [3, 4, 5]], [[0, 2, 4], [1, 3, 5]]
    return numbers("{:.0f}", *(launch(held, groups, world_size=6)[4] for groups in (halves, odd_and_even)))


def reduce_scatter() -> Key:
    first = torch.arange(1.0, 17).view(4, 4)
    second = torch.tensor([[1.0, 2, 3, 4], [10, 20, 30, 40], [100, 200, 300, 400], [0, 0, 0, 5]])

    def held(rows: Tensor) -> float:
        part = torch.empty(1)
        dist.reduce_scatter_single(part, rows[dist.get_rank()].contiguous())
        return part.item()

    return numbers("[{:.0f}]", launch(held, first)[2], launch(held, second)[3])


@cache
def all_reduced(world_size: int) -> float:
    """What a rank sends in an all-reduce, in units of the tensor; gloo's sends as much as a ring."""

    def sent() -> float:
        x = torch.ones(2**20)
        dist.all_reduce(torch.ones(1))
        with count_bytes() as count:
            dist.all_reduce(x)
        return count.bytes / x.nbytes

    return round(max(launch(sent, world_size=world_size)), 1 if world_size < 8 else 2)


def all_reduce_bytes() -> Key:
    return numbers("{:.0f} MB", all_reduced(4) * 100, all_reduced(8) * 200)


def swapped_calls() -> Key:
    def step() -> tuple[float, float]:
        rank = dist.get_rank()
        loss, gradient = torch.tensor(1.0 + rank), torch.tensor(10.0 * (1 + rank))
        for x in (loss, gradient) if rank == 0 else (gradient, loss):
            dist.all_reduce(x)
        return loss.item(), gradient.item()

    mixed = [(1.0 + 20.0, 10.0 + 2.0), (2.0 + 10.0, 20.0 + 1.0)]
    text = "Loss and gradient are added to each other, without an error"
    return said(text, launch(step, world_size=2) == mixed)


# Part 2


@cache
def under_ddp(world_size: int) -> dict[str, float]:
    """What DDP does with a summed loss, in no_sync and past its wrapper; the same on all ranks."""

    def look() -> dict[str, float]:
        torch.manual_seed(0)
        model, rank = nn.Linear(4, 1).double(), dist.get_rank()
        x = torch.randn(8 * world_size, 4, dtype=torch.float64)
        mine = x[8 * rank : 8 * (rank + 1)]
        (of_all,) = torch.autograd.grad(model(x).square().sum(), model.weight)
        ddp = DistributedDataParallel(model)
        ddp(mine).square().sum().backward()
        found = {"share of the sum": (model.weight.grad / of_all).mean().item()}
        for forward_inside in (False, True):
            with count_operations() as operations:
                for quiet in (True, True, True, False):
                    accumulate(ddp, mine, quiet, forward_inside)
            found[f"all-reduces, {forward_inside}"] = operations["gloo:all_reduce"]
        model.zero_grad()
        ddp.module(mine).square().sum().backward()
        gradients = [torch.empty_like(model.weight) for _ in range(world_size)]
        dist.all_gather(gradients, model.weight.grad)
        found["own gradients"] = float(not torch.allclose(gradients[0], gradients[1]))
        del ddp  # before its group: see CONTRIBUTING
        return found

    return launch(look, world_size=world_size)[0]


def accumulate(ddp: DistributedDataParallel, x: Tensor, quiet: bool, forward_inside: bool) -> None:
    if not quiet:
        ddp(x).square().sum().backward()
    elif forward_inside:
        with ddp.no_sync():
            ddp(x).square().sum().backward()
    else:
        loss = ddp(x).square().sum()
        with ddp.no_sync():
            loss.backward()


def summed_loss() -> Key:
    words = {0.25: "a quarter", 0.5: "half"}
    shares = (under_ddp(world_size)["share of the sum"] for world_size in (4, 2))
    return numbers(
        "{} of the gradient of the sum over all samples", *(words.get(round(s, 9)) for s in shares)
    )


def no_sync() -> Key:
    words = {0: "never", 1: "once", 3: "3 times", 4: "4 times"}
    return tuple(words.get(under_ddp(2)[f"all-reduces, {inside}"], NOT_SO) for inside in (False, True))


def past_the_wrapper() -> Key:
    text = "Each rank trains on its own gradient, without an error"
    return said(text, under_ddp(2)["own gradients"] == 1)


def overlap() -> Key:
    def whole(compute: int, send: int) -> int:
        sent = 0
        for ready in range(compute, 4 * compute + 1, compute):
            sent = max(sent, ready) + send
        return sent

    return numbers("{:,} ms", whole(100, 100), whole(100, 200))


def samples_drawn() -> Key:
    def drawn(samples: int, world_size: int) -> int:
        return sum(len(DistributedSampler(range(samples), world_size, r)) for r in range(world_size))

    return numbers("{}", drawn(10, 4), drawn(21, 8))


def no_set_epoch() -> Key:
    samplers = [DistributedSampler(range(24), 4, rank) for rank in range(4)]
    epochs = [[list(sampler) for sampler in samplers] for _ in range(3)]
    disjoint = len({sample for rank in epochs[2] for sample in rank}) == 24
    return said("Every epoch has the same order", epochs[0] == epochs[1] == epochs[2] and disjoint)


def more_gpus() -> Key:
    def run(samples: int, batch: int, rate: float, gpus: int) -> str:
        assert len(DataLoader(range(samples), batch)) == samples / batch
        updates = len(DataLoader(range(samples), batch, sampler=DistributedSampler(range(samples), gpus, 0)))
        return f"{batch * gpus}, {updates} and {rate * gpus:g}"

    return run(32_000, 32, 0.1, 8), run(128_000, 64, 0.2, 4)


def mean_of_accuracies() -> Key:
    def accuracy(ranks: list[tuple[int, float]]) -> float:
        right = torch.cat([torch.arange(count) < round(share * count) for count, share in ranks])
        return right.float().mean().item()

    first, second = [(700, 0.9), (200, 0.6), (100, 0.3)], [(500, 0.8), (100, 0.5), (400, 0.2)]
    return numbers("{:.0f} %", 100 * accuracy(first), 100 * accuracy(second))


def first_loss() -> Key:
    torch.manual_seed(0)
    start = {"weight": torch.randn(1, 4), "bias": torch.zeros(1)}
    batches = torch.randn(6, 8, 4)

    def run(weights: dict[str, Tensor], seen: Tensor, state: dict | None = None) -> tuple:
        model = nn.Linear(4, 1)
        model.load_state_dict(weights)
        optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.1), []
        if state:
            optimizer.load_state_dict(state)
        for x in seen:
            optimizer.zero_grad()
            losses.append((loss := (model(x) - 1).square().mean()).item())
            loss.backward()
            optimizer.step()
        return losses, {name: p.detach().clone() for name, p in model.state_dict().items()}

    whole, _ = run(start, batches)
    _, saved = run(start, batches[:3])
    resumed, _ = run(saved, batches[3:])  # without the optimizer's state
    elsewhere, _ = run(saved, batches[[4, 5]])
    holds = resumed[0] == whole[3] and resumed[1] != whole[4] and elsewhere[0] != whole[3]
    return said("The weights and the batch are the right ones", holds)


def killed_save() -> Key:
    class Killed(Exception):
        pass

    class Disk(io.FileIO):
        def write(self, data: bytes) -> int:
            if self.tell() + len(data) > 2000:
                super().write(bytes(data)[: len(data) // 2])
                raise Killed
            return super().write(data)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(torch.zeros(2000), path)
        torch.load(path)
        try:
            with Disk(path, "w") as file:
                torch.save(torch.ones(2000), file)
        except (Killed, RuntimeError):
            pass
        try:
            torch.load(path)
        except Exception:
            return said("neither the new checkpoint nor the old one", os.listdir(folder) == [path.name])
    return NOT_SO


# Part 3


def zero_bytes() -> Key:
    def held(stage: int, world_size: int) -> float:
        sizes = {"states": (8, 1), "gradients": (4, 2), "parameters": (4, 3)}  # divided from which stage on
        return sum(size / world_size if stage >= first else size for size, first in sizes.values())

    return numbers("{:g}", held(1, 8), held(2, 4))


def mixed_states() -> Key:
    whole, many = (solutions_09.gib_per_gpu(2**30, 0, 1, 2**20, group) for group in (1, 2**20))
    return f"{sum(whole) - sum(many):.0f}"


def optimizer_first() -> Key:
    def moved() -> bool:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        before = [p.full_tensor().clone() for p in model.parameters()]
        for _ in range(2):
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
        after = [p.full_tensor() for p in model.parameters()]
        return not all(map(torch.equal, before, after))

    text = "runs without an error and changes nothing in the model"
    return said(text, not any(launch(moved, world_size=2)))


def zero_traffic() -> Key:
    def sent() -> list[int]:
        x, part, parts = torch.ones(2**20), torch.empty(2**18), torch.empty(2**20)
        found = []
        for (
            collective
        ) in (  # gloo's own reduce-scatter runs as an all-reduce: its first half is an all-to-all
            lambda: dist.all_reduce(x),
            lambda: dist.all_to_all_single(parts, x),
            lambda: dist.all_gather_single(parts, part),
        ):
            collective()
            with count_bytes() as count:
                collective()
            found.append(count.bytes)
        return found

    whole, scatter, gather = launch(sent)[0]
    sums = (scatter + gather, scatter + 2 * gather)
    return tuple(TIMES.get(round(total / whole, 1), NOT_SO) for total in sums)


def clip_shards() -> Key:
    def norm(ranks: int) -> float:
        shards = [nn.Parameter(torch.zeros(100)) for _ in range(ranks)]
        for shard in shards:
            shard.grad = torch.randn(100)
            nn.utils.clip_grad_norm_([shard], 1.0)
        return torch.cat([shard.grad for shard in shards]).norm().item()

    return numbers("{:.0f}", norm(4), norm(9))


def segments() -> Key:
    return numbers("{}", *(min(range(1, n + 1), key=lambda k, n=n: n / k + k) for n in (64, 100)))


# Part 4


def ring_growth() -> Key:
    text = "grows from {:g} to {:g} times the tensor"
    return tuple(text.format(all_reduced(start), all_reduced(8)) for start in (2, 4))


def through_the_root() -> Key:
    def sent() -> float:
        x, others = torch.ones(2**18), range(1, dist.get_world_size())
        dist.barrier()
        with count_bytes() as count:
            if dist.get_rank():
                dist.send(x, 0)
                dist.recv(x, 0)
            else:
                for rank in others:
                    dist.recv(x, rank)
                for rank in others:
                    dist.send(x, rank)
        return count.bytes / x.nbytes

    return numbers("{} MB", *(round(launch(sent, world_size=size)[0]) * 100 for size in (4, 8)))


def between_nodes() -> Key:
    def formula(nodes: int) -> str:
        return f"{2 * (nodes - 1) / nodes:g}"

    def crossing(ranks_a_node: int) -> float:
        nodes = dist.get_world_size() // ranks_a_node
        local, x = dist.get_rank() % ranks_a_node, torch.ones(2**20)
        rows = [[node * ranks_a_node + i for node in range(nodes)] for i in range(ranks_a_node)]
        row = [dist.new_group(ranks) for ranks in rows][local]
        part = x.chunk(ranks_a_node)[local].clone()
        dist.all_reduce(torch.ones(1), group=row)
        with count_bytes() as count:
            dist.all_reduce(part, group=row)
        return count.bytes / x.nbytes

    measured = sum(launch(crossing, 4, world_size=8)[:4])  # what the four ranks of node 0 send to the other
    return (formula(4), formula(2)) if isclose(measured, 1, rel_tol=0.02) else NOT_SO


def ring_steps() -> Key:
    def steps(ranks: int) -> int:
        held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
        step = 0
        while any(len(chunk) < ranks for chunks in held for chunk in chunks):
            sent = [((rank + 1) % ranks, (rank - step) % ranks) for rank in range(ranks)]
            news = [set(held[rank][chunk]) for rank, (_, chunk) in enumerate(sent)]
            for (to, chunk), new in zip(sent, news, strict=True):
                held[to][chunk] |= new
            step += 1
        return step

    return numbers("{}", steps(8), steps(5))


def small_message() -> Key:
    def milliseconds(ranks: int, latency: float) -> float:
        return 2 * (ranks - 1) * (latency + 4e3 / ranks / 10e9) * 1e3

    return numbers("{:.2g} ms", milliseconds(64, 20e-6), milliseconds(32, 10e-6))


def bus_bandwidth() -> Key:
    return numbers("{:g} GB/s", all_reduced(8) / 0.02, all_reduced(4) / 0.01)


def slowest_rank() -> Key:
    return numbers("{} ms", max(100, 100, 100, 140), max(50, 50, 50, 90))


def hidden_messages() -> Key:
    def step(compute: int, send: int, beside: int) -> float:
        exposed = solutions_14.exposed_seconds([(0, compute)], [(compute - beside, compute - beside + send)])
        return compute + exposed

    return numbers("{:.0f} ms", step(300, 200, 150), step(400, 250, 100))


def weak_scaling() -> Key:
    def efficiency(one: float, many: float, gpus: int) -> float:
        return (32 * gpus / many) / (gpus * 32 / one)

    return numbers("{:.0f} %", 100 * efficiency(1.0, 1.25, 4), 100 * efficiency(0.9, 1.2, 8))


def rare_straggler() -> Key:
    words = {0.01: "1 %", 0.1: "a tenth", 0.5: "about half", 1.0: "nearly all"}
    shares = (1 - 0.99**ranks for ranks in (1024, 64))
    return tuple(words[min(words, key=lambda word, share=share: abs(word - share))] for share in shares)


# Part 5


def row_or_column() -> Key:
    x, a = torch.randn(3, 6).double(), torch.randn(6, 8).double()
    by_rows = [part @ rows for part, rows in zip(x.chunk(2, 1), a.chunk(2), strict=True)]
    by_columns = [x @ columns for columns in a.chunk(2, 1)]
    return (
        said("by adding them", torch.allclose(by_rows[0] + by_rows[1], x @ a)),
        said("by putting them side by side", torch.allclose(torch.cat(by_columns, 1), x @ a)),
    )


class Before(torch.autograd.Function):
    """Nothing in forward, all-reduce in backward."""

    @staticmethod
    def forward(_context: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_context: object, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Behind(torch.autograd.Function):
    """All-reduce in forward, nothing in backward."""

    @staticmethod
    def forward(_context: object, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_context: object, gradient: Tensor) -> Tensor:
        return gradient


def pair_of_layers() -> Key:
    def counted() -> tuple[int, int, bool]:
        torch.manual_seed(0)
        rank = dist.get_rank()
        x, a, b = (torch.randn(8, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
        expected = (x @ a).relu() @ b
        (gradient,) = torch.autograd.grad(expected.square().sum(), x)
        with count_operations() as forward:
            hidden = (Before.apply(x) @ a.chunk(4, 1)[rank]).relu()
            y = Behind.apply(hidden @ b.chunk(4)[rank])
        with count_operations() as backward:
            y.square().sum().backward()
        right = torch.allclose(y, expected) and torch.allclose(x.grad, gradient)
        return forward["gloo:all_reduce"], backward["gloo:all_reduce"], right

    forward, backward, right = launch(counted)[0]
    return (str(forward), str(forward + backward)) if right else NOT_SO


def bias() -> Key:
    def excess(ranks: int) -> float:
        x, a, b = torch.randn(2, 8).double(), torch.randn(8, 4).double(), torch.ones(4).double()
        parts = [part @ rows + b for part, rows in zip(x.chunk(ranks, 1), a.chunk(ranks), strict=True)]
        return (sum(parts) - (x @ a + b)).mean().item()

    return numbers("too large by {:.0f}b", excess(4), excess(8))


def too_early() -> Key:
    parts = torch.randn(2, 100)
    close = torch.allclose(F.gelu(parts).sum(0), F.gelu(parts.sum(0)), rtol=0.01)
    return said("wrong, without an error", not close)


def bubble() -> Key:
    idle = (solutions_16.gpipe_idle([1.0] * 4, [2.0] * 4, m)[0] for m in (4, 12))
    return numbers("{:.0f} %", *(100 * share for share in idle))


def one_f_one_b() -> Key:
    def played(limit: int) -> tuple[int, int]:
        """Slots until all is done, and the most micro-batches that stage 0 holds."""
        plans = [solutions_16.stage_schedule(stage, 8, limit) for stage in range(4)]
        most = held = 0
        for kind, _ in plans[0]:
            held += 1 if kind == "F" else -1
            most = max(most, held)
        done: dict[tuple[int, str, int], int] = {}
        free = [0] * 4
        while any(plans):
            for stage, plan in enumerate(plans):
                if not plan:
                    continue
                kind, i = plan[0]
                needs = [(stage - 1, "F", i)] if kind == "F" else [(stage + 1, "B", i), (stage, "F", i)]
                needs = [need for need in needs if 0 <= need[0] < 4]
                if all(need in done for need in needs):
                    start = max([free[stage], *(done[need] for need in needs)])
                    free[stage] = done[stage, kind, i] = start + 1
                    plan.pop(0)
        return max(free), most

    (gpipe, gpipe_held), (one, one_held) = played(limit=100), played(limit=4)
    held = "the activations that are held"
    words = {(True, True): f"both the bubble and {held}", (False, True): f"only {held}"}
    return words.get((one < gpipe, one_held < gpipe_held), NOT_SO)


def slow_stage() -> Key:
    words = {0.5: "about half", 0.75: "about three quarters", 0.25: "about a quarter", 0.2: "about a fifth"}
    times = ([1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 4.0])
    idle = [solutions_16.gpipe_idle(forward, [2 * f for f in forward], 10**6)[0] for forward in times]
    return numbers("{} of the time", *(words.get(round(share, 3)) for share in idle))


# Part 6


def least_waiting() -> Key:
    def waited(slow: int) -> float:
        seconds = 0.0
        for _ in range(3):
            dist.barrier()
            if dist.get_rank() == slow:
                time.sleep(0.4)
            start = time.perf_counter()
            dist.all_reduce(torch.ones(1))
            seconds += time.perf_counter() - start
        return seconds

    def least(slow: int) -> int:
        times = launch(waited, slow)
        return min(range(4), key=times.__getitem__)

    return numbers("rank {}", least(2), least(1))


def first_failure() -> Key:
    def step() -> None:
        if dist.get_rank() == 2:
            raise ValueError("bad batch")
        dist.all_reduce(torch.ones(1))

    try:
        launch(step)
    except RankError as error:
        return numbers("at the data of rank {}", error.rank)[0]
    return NOT_SO


def launchers() -> Key:
    return numbers("{}", 2 * 4 * 4, 4 * 8 * 8)


def node_rank() -> Key:
    # srun here is a function that does what srun does: it gives each task its own SLURM_NODEID
    batch = 'srun() { for node in 0 1 2; do SLURM_NODEID=$node "$@"; done; }\nsrun echo $SLURM_NODEID\n'
    environment = {**os.environ, "SLURM_NODEID": "0"}  # the batch shell runs on the first node
    done = subprocess.run(["bash", "-c", batch], env=environment, capture_output=True, text=True, check=True)
    return "{}, {} and {}".format(*done.stdout.split())


def exported_address() -> Key:
    os.environ["MASTER_ADDR"], kept = "10.0.0.1", os.environ.get("MASTER_ADDR")
    try:
        taken = get_args_parser().parse_args(["--nnodes=2", "--node-rank=1", "train.py"]).master_addr
    finally:
        os.environ.pop("MASTER_ADDR") if kept is None else os.environ.update(MASTER_ADDR=kept)
    return said("on itself", taken == "127.0.0.1")


def save_interval() -> Key:
    def steps(gpus: int, save_seconds: float) -> int:
        return solutions_19.checkpoint_every(gpus, 1e6, save_seconds, 0.1)[0]

    words = {0.5: "half as long", 0.25: "a quarter as long", 3.0: "3 times as long", 9.0: "9 times as long"}
    ratios = steps(4000, 20) / steps(1000, 20), steps(1000, 180) / steps(1000, 20)
    assert isclose(steps(1000, 20) / 10, sqrt(2 * 20 * 3.6e6), rel_tol=0.01)
    return tuple(words.get(round(ratio, 2), NOT_SO) for ratio in ratios)


def what_fits() -> Key:
    def first(billions: int) -> str:
        for stage, words in ((0, "whole replicas"), (3, "sharded states")):
            states = solutions_09.gib_per_gpu(billions * 10**9, 0, stage, 8, 8)
            if sum(states) * 2**30 / 1e9 + 10 < 80:
                return f"data parallelism with {words}"
        return NOT_SO

    return first(7), first(2)


def mesh() -> Key:
    def partners(data: int, tensor: int, rank: int) -> list[int]:
        made = init_device_mesh("cpu", (data, tensor), mesh_dim_names=("data", "tensor"))
        ranks = dist.get_process_group_ranks(made.get_group("data"))
        return [other for other in ranks if other != rank]

    def asked(data: int, tensor: int, rank: int) -> str:
        found = launch(partners, data, tensor, rank, world_size=data * tensor)[rank]
        return f"with rank {', '.join(map(str, found))}"

    return asked(2, 2, 1), asked(2, 4, 6)


def staleness() -> Key:
    def old(workers: int) -> int:
        computed_for = [0] * workers
        for version in range(5 * workers):  # of the weights; each turn makes the next one
            age = version - computed_for[version % workers]
            computed_for[version % workers] = version + 1
        return age

    return numbers("{}", old(4), old(8))


COMPUTED: dict[int, tuple[Callable[[], Key], ...]] = {
    1: (
        *(state_bytes, what_grows, forgotten_division, unequal_shares, token_weight, gpu_number, group_sum),
        *(reduce_scatter, all_reduce_bytes, swapped_calls),
    ),
    2: (
        *(summed_loss, no_sync, past_the_wrapper, overlap, samples_drawn, no_set_epoch, more_gpus),
        *(mean_of_accuracies, first_loss, killed_save),
    ),
    3: (zero_bytes, mixed_states, optimizer_first, zero_traffic, clip_shards, segments),
    4: (
        *(ring_growth, through_the_root, between_nodes, ring_steps, small_message, bus_bandwidth),
        *(slowest_rank, hidden_messages, weak_scaling, rare_straggler),
    ),
    5: (row_or_column, pair_of_layers, bias, too_early, bubble, one_f_one_b, slow_stage),
    6: (
        *(least_waiting, first_failure, launchers, node_rank, exported_address, save_interval, what_fits),
        *(mesh, staleness),
    ),
}
