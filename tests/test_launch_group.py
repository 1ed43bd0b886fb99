"""The process group that launch() prepares, the environment of its ranks, and the checks of its arguments."""

import datetime
import functools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from kernels import ROOT, children, time_limit  # noqa: F401  # time_limit: a fixture that every test here uses

from course_utils import RankError, launch

OPTIONS = {"world_size": 2, "backend": "gloo", "timeout": 9.0, "init": True, "live": False, "env": {}}
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SCRIPT = """
import os
import torch
import torch.distributed as dist

def train():
    dist.init_process_group("gloo")
    total = torch.tensor([float(os.environ["RANK"])])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return total.item()

if __name__ == "__main__":
    os.write(1, f"total {train()}\\n".encode())  # print() writes the line and its end apart
"""


def all_reduced() -> float:
    total = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(total)
    return total.item()


def environment() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in TORCHRUN}


def test_the_group_is_ready():
    assert launch(lambda: (dist.is_initialized(), all_reduced())) == [(True, 10.0)] * 4


@pytest.mark.parametrize("init", [True, False])
def test_the_environment_is_as_torchrun_sets_it(init):
    launched = launch(environment, init=init)
    assert [found["RANK"] for found in launched] == ["0", "1", "2", "3"]
    assert [found["LOCAL_RANK"] for found in launched] == ["0", "1", "2", "3"]
    assert {found["WORLD_SIZE"] for found in launched} == {"4"}
    assert {found["MASTER_ADDR"] for found in launched} <= {"127.0.0.1", "localhost"}
    (port,) = {found["MASTER_PORT"] for found in launched}
    assert 0 < int(port) < 65536
    assert not any(name in os.environ for name in TORCHRUN)


def test_without_init_fn_makes_the_group_itself():
    def body():
        before = dist.is_initialized()
        dist.init_process_group("gloo", init_method="env://")
        return before, all_reduced()

    assert launch(body, init=False) == [(False, 10.0)] * 4
    assert launch(dist.is_initialized, init=False, world_size=2) == [False, False]  # fn need not make one


def test_the_same_function_runs_under_torchrun(tmp_path, monkeypatch):
    (tmp_path / "job.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    import job

    assert launch(job.train, init=False, world_size=2) == [1.0, 1.0]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--log-dir={tmp_path}"]
    command += ["--nproc-per-node=2", "job.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["total 1.0"] * 2


@pytest.mark.parametrize("init", [True, False])
def test_launches_side_by_side_do_not_meet(init):
    def body(salt):
        if not init:
            dist.init_process_group("gloo")
        total = torch.tensor([salt])
        dist.all_reduce(total)
        return total.item()

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda salt: launch(body, salt, world_size=2, init=init), range(8)))
    assert found == [[2 * salt] * 2 for salt in range(8)]


def test_backends():
    assert launch(dist.get_backend, backend="gloo") == ["gloo"] * 4
    if torch.cuda.device_count() < 4:
        assert launch(dist.get_backend) == ["gloo"] * 4
        assert launch(dist.get_backend, backend="auto", world_size=5) == ["gloo"] * 5


def test_env_reaches_the_ranks_and_no_further():
    def body():
        return os.environ.get("COURSE_TEST_COLOR"), dist.get_debug_level() == dist.DebugLevel.DETAIL

    env = {"COURSE_TEST_COLOR": "blue", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    assert launch(body, env=env, world_size=2) == [("blue", True)] * 2
    assert launch(body, world_size=2) == [(None, False)] * 2
    assert "COURSE_TEST_COLOR" not in os.environ
    assert env == {"COURSE_TEST_COLOR": "blue", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}


@pytest.mark.parametrize("what", ["shape", "dtype"])
def test_debug_detail_catches_a_mismatch_before_it_kills_or_corrupts(what):
    def body():
        odd = dist.get_rank() == 1
        wrong = torch.ones(5) if what == "shape" else torch.ones(4, dtype=torch.int32)
        dist.all_reduce(wrong if odd else torch.ones(4))

    with pytest.raises(RankError, match=r"(?i)mismatch|different") as caught:
        launch(body, world_size=2, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, timeout=10)
    assert "SIGABRT" not in str(caught.value)


def test_the_clock_starts_when_all_ranks_have_entered():
    assert launch(dist.get_rank, world_size=16, timeout=0.2) == list(
        range(16)
    )  # starting takes longer than this


def test_the_groups_own_timeout_is_longer_than_launchs():
    def body():
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        return backend.options._timeout

    for timeout in (1.0, 3600.0):
        assert min(launch(body, world_size=2, timeout=timeout)) > datetime.timedelta(seconds=timeout)


NOT_ARGUMENTS = [
    ({"world_size": 0}, "world_size"),
    ({"world_size": -1}, "world_size"),
    ({"world_size": 2.5}, "world_size"),
    ({"world_size": "4"}, "world_size"),
    ({"world_size": None}, "world_size"),
    ({"backend": "smoke"}, "gloo"),
    ({"backend": None}, "backend"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1.0}, "timeout"),
    ({"timeout": "long"}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"env": "DEBUG"}, "env"),
    ({"env": {"DEBUG": 1}}, "env"),
]


@pytest.mark.parametrize(("wrong", "named"), NOT_ARGUMENTS, ids=[str(wrong) for wrong, _ in NOT_ARGUMENTS])
def test_bad_options_are_refused_by_name(wrong, named, tmp_path):
    def body():
        (tmp_path / "ran").touch()

    before, start = {child.pid for child in children()}, time.monotonic()
    with pytest.raises((ValueError, TypeError), match=named):
        launch(body, **wrong)
    assert time.monotonic() - start < 0.5
    assert {child.pid for child in children()} <= before
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("fn", [None, 3, "train", [len]])
def test_fn_must_be_callable(fn):
    with pytest.raises(TypeError, match=r"(?i)callable|function"):
        launch(fn)


def test_calling_fn_instead_of_passing_it_is_explained():
    with pytest.raises(TypeError, match=r"(?i)callable|function|parenthes"):
        launch((lambda: None)())


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [((), {}, "data"), ((1, 2, 3), {}, "argument"), ((1,), {"worldsize": 2}, "worldsize")],
    ids=["missing", "too many", "unknown"],
)
def test_arguments_are_bound_before_a_process_starts(args, kwargs, named, tmp_path):
    def body(data, steps=1):
        (tmp_path / "ran").touch()

    before, start = {child.pid for child in children()}, time.monotonic()
    with pytest.raises(TypeError, match=named):
        launch(body, *args, **kwargs)
    assert time.monotonic() - start < 0.5
    assert {child.pid for child in children()} <= before
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_parameter_with_an_options_name_needs_partial(option):
    namespace: dict = {}
    exec(f"def either({option}=0): return {option}\ndef only(*, {option}): return {option}", namespace)
    for fn in (namespace["either"], namespace["only"]):
        with pytest.raises(TypeError, match=r"functools\.partial") as caught:
            launch(fn, world_size=2)
        assert option in str(caught.value)
        advised = functools.partial(fn, **{option: "mine"})
        assert launch(advised, world_size=2) == ["mine"] * 2


def test_a_parameter_named_fn_is_an_ordinary_one():
    assert launch(lambda fn: fn * 2, 4, world_size=2) == [8, 8]


def test_a_script_needs_no_main_guard(tmp_path):
    (tmp_path / "plain.py").write_text(
        "import torch.distributed as dist\n"
        "from course_utils import launch\n"
        "scale = 10\n"
        "def body():\n"
        "    return dist.get_rank() * scale\n"
        "print(launch(body, world_size=2))\n"
    )
    done = subprocess.run(
        [sys.executable, "plain.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("[0, 10]\n", 0), done.stderr


def test_what_one_launch_had_to_import_the_next_one_finds_imported() -> None:
    def loaded() -> bool:
        return "torch._dynamo" in sys.modules

    def makes_an_optimizer() -> bool:
        before = loaded()
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        return before

    launch(makes_an_optimizer)
    assert launch(loaded) == [True] * 4
