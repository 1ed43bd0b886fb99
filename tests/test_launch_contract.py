"""What launch() promises, sentence by sentence (design.md): values, functions, and what they take along.

These tests run in pytest's own process; what needs a notebook is in test_launch_kernel.py and beside it.
"""

import functools
import os
import random
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from kernels import time_limit  # noqa: F401  # a fixture that every test here uses

from course_utils import launch

COUNTER = [0]


def own_rank_times(factor: int, *, plus: int = 0) -> int:
    """A function of an importable module, as a notebook imports one from its folder."""
    COUNTER[0] += 1
    return dist.get_rank() * factor + plus


def test_one_value_a_rank_in_rank_order():
    results = launch(lambda: (dist.get_rank(), dist.get_world_size()))
    assert results == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert isinstance(results, list)


@pytest.mark.parametrize("world_size", [1, 2, 7])
def test_world_size_is_the_number_of_ranks(world_size):
    assert launch(lambda: dist.get_rank(), world_size=world_size) == list(range(world_size))


def test_rank_order_holds_when_the_last_rank_finishes_first():
    def body():
        time.sleep(0.1 * (3 - dist.get_rank()))
        return f"rank {dist.get_rank()}"

    assert launch(body) == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_fn_runs_once_in_each_of_fresh_processes(tmp_path):
    def body():
        (tmp_path / str(os.getpid())).touch(exist_ok=False)  # a second run in one process would raise
        return os.getpid()

    pids = launch(body) + launch(body)
    assert len({*pids, os.getpid()}) == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(str, pids))


def test_arguments_reach_fn():
    def body(a, b=2, *rest, c, d=4, **more):
        return a, b, rest, c, d, more

    assert launch(body, 1, 5, 6, 7, c=3, e=8, world_size=2) == [(1, 5, (6, 7), 3, 4, {"e": 8})] * 2
    assert launch(body, a=1, c=3, world_size=2) == [(1, 2, (), 3, 4, {})] * 2


def test_what_may_be_launched():
    base = 10

    def closure():
        return base + dist.get_rank()

    class Trainer:
        def __init__(self, width):
            self.width = width

        def step(self, times):
            return self.width * times + dist.get_rank()

        def __call__(self):
            return self.width

        @staticmethod
        def static():
            return "static"

        @classmethod
        def name(cls):
            return cls.__name__

    @functools.wraps(closure)
    def wrapped(*args, **kwargs):
        return closure(*args, **kwargs) + 1

    assert launch(closure, world_size=2) == [10, 11]
    assert launch(wrapped, world_size=2) == [11, 12]
    assert launch(lambda x: x * base, 3, world_size=2) == [30, 30]
    assert launch(Trainer(5).step, 2, world_size=2) == [10, 11]
    assert launch(Trainer(5), world_size=2) == [5, 5]
    assert launch(Trainer.static, world_size=2) == ["static", "static"]
    assert launch(Trainer.name, world_size=2) == ["Trainer", "Trainer"]
    assert launch(functools.partial(Trainer(5).step, times=3), world_size=2) == [15, 16]
    assert launch(own_rank_times, 3, plus=1, world_size=2) == [1, 4]
    assert launch(dist.get_rank, world_size=2) == [0, 1]
    assert launch(max, 4, 7, world_size=2) == [7, 7]  # a builtin without a signature


def test_functions_classes_modules_and_tensors_of_the_notebook_go_along():
    weights = torch.arange(3.0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 1, bias=False)
            self.layer.weight.data.copy_(weights)

        def forward(self, x):
            return self.layer(x)

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    def body(model):
        return model(torch.ones(3)).item(), even(dist.get_rank()), Path("a/b").name

    assert launch(body, Model(), world_size=2) == [(3.0, True, "b"), (3.0, False, "b")]


def test_nothing_that_ranks_do_changes_the_callers_variables():
    captured, argument, history, calls = torch.zeros(3), torch.zeros(3), [], COUNTER[0]
    before, place = dict(os.environ), Path.cwd()
    torch.manual_seed(5)
    random.seed(5)

    def body(tensor, entries):
        captured.add_(1)
        tensor.add_(dist.get_rank() + 1)
        entries.append(own_rank_times(1))
        history.append("rank")
        os.environ["COURSE_TEST_OF_A_RANK"] = "1"
        os.chdir("/")
        torch.rand(4)
        return captured.sum().item() + tensor.sum().item(), len(entries)

    entries = ["mine"]
    assert launch(body, argument, entries, world_size=2) == [(6.0, 2), (9.0, 2)]
    assert captured.tolist() == argument.tolist() == [0.0] * 3
    assert (history, entries, COUNTER[0]) == ([], ["mine"], calls)
    assert (dict(os.environ), Path.cwd()) == (before, place)
    assert (torch.rand(1), random.random()) == (
        torch.manual_seed(5) and torch.rand(1),
        random.Random(5).random(),
    )


def test_arguments_are_each_ranks_own():
    def body(shared):
        shared += dist.get_rank()
        dist.barrier()
        return shared.tolist()

    assert launch(body, torch.zeros(1)) == [[0.0], [1.0], [2.0], [3.0]]


def test_ranks_work_where_the_caller_works(tmp_path, monkeypatch):
    launch(lambda: None, world_size=1)  # whatever keeps the ranks' start has been started elsewhere
    (tmp_path / "note.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_TEST_SETTING", "late")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_module.py").write_text("VALUE = 7\n")

    def body():
        import late_module

        return Path("note.txt").read_text(), os.environ.get("COURSE_TEST_SETTING"), late_module.VALUE

    assert launch(body, world_size=2) == [("here", "late", 7)] * 2


def test_returned_tensors_arrive_on_the_cpu_and_detached():
    def body():
        weight = torch.nn.Parameter(torch.full((2,), dist.get_rank() + 1.0))
        loss = (weight * 2).sum()
        loss.backward()
        return {
            "loss": loss,
            "weight": weight,
            "more": [(weight.grad, (weight * 3)[:1])],
            "half": loss.bfloat16(),
        }

    for rank, result in enumerate(launch(body, world_size=2)):
        tensors = [result["loss"], result["weight"], *result["more"][0], result["half"]]
        assert [tensor.tolist() for tensor in tensors] == [
            4.0 * (rank + 1), [rank + 1.0] * 2, [2.0] * 2, [3.0 * (rank + 1)], 4.0 * (rank + 1),
        ]  # fmt: skip
        for tensor in tensors:
            assert tensor.device.type == "cpu"
            assert not tensor.requires_grad
            assert tensor.grad_fn is None
            tensor.add_(1)  # the caller's to change


def test_results_of_the_notebooks_own_class_are_of_that_class():
    class Point:
        def __init__(self, x):
            self.x = x

    results = launch(lambda: Point(torch.ones(2, requires_grad=True) * dist.get_rank()), world_size=2)
    assert [type(point) for point in results] == [Point, Point]
    assert [point.x.tolist() for point in results] == [[0.0, 0.0], [1.0, 1.0]]


def test_large_results_and_arguments_travel():
    def body(block):
        return block + dist.get_rank()

    results = launch(body, torch.zeros(4_000_000), world_size=2)  # 16 MB each way, more than any pipe holds
    assert [(r.numel(), r[-1].item()) for r in results] == [(4_000_000, 0.0), (4_000_000, 1.0)]


def test_a_model_and_what_it_returns_survive_the_ranks():
    results = launch(lambda: torch.nn.Linear(2, 2).state_dict(), world_size=2)
    assert all(torch.isfinite(tensor).all() for state in results for tensor in state.values())


def test_a_matmul_of_the_caller_does_not_hang_the_ranks():
    assert (torch.ones(600, 600) @ torch.ones(600, 600)).sum() == 600.0**3

    def body():
        torch.set_num_threads(2)
        return (torch.ones(600, 600) @ torch.ones(600, 600)).sum().item() == 600.0**3

    assert launch(body, timeout=15) == [True] * 4


def test_one_torch_thread_a_rank():
    assert launch(torch.get_num_threads) == [1, 1, 1, 1]
