"""The core of the contract, forked and spawned, in a folder with a space and non-ASCII letters in its path.

Systems without fork spawn; here COURSE_UTILS_START=spawn forces it. A launch then takes seconds.
"""

import os
import signal

import nbformat
import pytest
from kernels import ROOT, Kernel, time_limit, wait_for  # noqa: F401  # time_limit: a fixture of every test here
from nbclient import NotebookClient

CELLS = """
    from dataclasses import dataclass
    import layers  # a module of the notebook's folder
    weights = torch.arange(3.0)
    calls = []
    @dataclass
    class Point:
        x: torch.Tensor
    class Scaler:
        def __init__(self, by):
            self.by = by
        def scaled(self, x):
            return self.by * x
    def helper(x):
        calls.append(x)
        return Point(Scaler(2.0).scaled(x) + layers.WIDTH)
"""


@pytest.fixture(scope="module", params=["forkserver", "spawn"])
def notebook(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kurs") / "été 1 übung Σ"
    folder.mkdir()
    (folder / "layers.py").write_text("WIDTH = 12\n")
    with Kernel(folder, COURSE_UTILS_START=request.param) as kernel:
        kernel.start_method = request.param
        yield kernel


@pytest.fixture
def kernel(notebook):
    assert notebook.ready().run(CELLS).ename is None
    yield notebook
    assert len(notebook.left(seconds=1)) <= (notebook.start_method == "forkserver")  # its server alone
    assert notebook.files() == []


def test_the_start_method_is_the_one_asked_for(kernel):
    cell = kernel.run(
        "import psutil\nlaunch(lambda: psutil.Process().ppid(), world_size=2)", ask="os.getpid()"
    )
    parents = {int(pid) for pid in cell.result.strip("[]").split(",")}
    assert (parents == {cell.asked}) == (kernel.start_method == "spawn")


def test_what_the_notebook_defines_goes_along_and_comes_back(kernel):
    cell = kernel.run(
        """
        base = torch.ones(3, requires_grad=True)
        def body(first, *, last):
            total = weights + base * dist.get_rank()
            dist.all_reduce(total)
            weights.add_(100)
            return helper(total), first + last, os.getcwd() == here, torch.get_num_threads()
        here = os.getcwd()
        results = launch(body, 1, last=2, world_size=2)
        points = [point for point, *_ in results]
        """,
        ask="([(type(p) is Point, p.x.tolist(), p.x.requires_grad) for p in points],"
        " [rest for _, *rest in results], weights.tolist(), calls)",
    )
    assert cell.ename is None, cell.evalue
    assert cell.asked == (
        [(True, [14.0, 18.0, 22.0], False)] * 2, [[3, True, 1]] * 2, [0.0, 1.0, 2.0], []
    )  # fmt: skip
    assert kernel.run("launch(Scaler(3).scaled, 2, world_size=2)").result == "[6, 6]"


def test_rank_order_and_output(kernel):
    cell = kernel.run("""
        def body():
            time.sleep(0.2 * (1 - dist.get_rank()))
            print("Σ from", dist.get_rank())
            os.write(2, b"raw")
        launch(body, world_size=2)
    """)
    assert (cell.ename, cell.result) == (None, None)
    assert cell.lines == [f"rank {r} │ {text}" for r in range(2) for text in (f"Σ from {r}", "raw")]
    assert kernel.late() == []


def test_torchruns_variables_and_a_group_of_ones_own(kernel):
    code = """
        def body():
            dist.init_process_group("gloo")
            total = torch.ones(1)
            dist.all_reduce(total)
            names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "COLOR"
            return [os.environ[name] for name in names], total.item()
        found = launch(body, world_size=2, init=False, env={"COLOR": "blue"})
    """
    assert kernel.run(code, ask="found").asked == [
        (["0", "0", "2", "127.0.0.1", "blue"], 2.0),
        (["1", "1", "2", "127.0.0.1", "blue"], 2.0),
    ]


def test_debug_detail_catches_a_mismatch(kernel):
    code = "def body():\n    dist.all_reduce(torch.ones(4 + dist.get_rank()))\n"
    caught = kernel.catch(
        code, "world_size=2, timeout=10, env={'TORCH_DISTRIBUTED_DEBUG': 'DETAIL'}", limit=40
    )
    assert "mismatch" in caught.text
    assert "SIGABRT" not in caught.text


def test_errors_name_the_line_of_the_cell(kernel):
    caught = kernel.catch("def body():\n    return tensr.ones(1)\n", "timeout=5, world_size=2", limit=40)
    assert "all 2 ranks: NameError" in caught.text
    assert "return tensr.ones(1)" in caught.text
    code = "def body():\n    if dist.get_rank() == 1:\n        os.kill(os.getpid(), 9)\n    dist.barrier()\n"
    caught = kernel.catch(code, "timeout=5, world_size=2", limit=40)
    assert caught.rank == 1
    assert "SIGKILL" in caught.text


def test_a_short_timeout_is_not_spent_on_starting_and_names_the_lines(kernel):
    code = """
        def body():
            if dist.get_rank() == 0:
                time.sleep(60)
            dist.barrier()
    """
    caught = kernel.catch(code, "timeout=0.5, world_size=2", limit=40)
    assert caught.kind == "RankTimeout"
    assert "time.sleep(60)" in caught.failures[0]
    assert "dist.barrier()" in caught.failures[1]


def test_what_cannot_be_sent_is_named(kernel):
    caught = kernel.catch("def body():\n    return threading.Lock()\n", "world_size=2, timeout=10", limit=40)
    assert "lock" in caught.text


@pytest.mark.parametrize("while_ranks", ["start", "run"])
def test_an_interrupt(kernel, while_ranks):
    code = """
        def body():
            open(f"in_{dist.get_rank()}", "w").close()
            time.sleep(60)
        launch(body, world_size=2)
    """
    before = len(kernel.processes())
    cell = kernel.start(code)
    if while_ranks == "run":
        wait_for(lambda: len(list(kernel.folder.glob("in_*"))) == 2, "two ranks", seconds=30)
    else:
        wait_for(lambda: len(kernel.processes()) > before, "a process", seconds=30)
    kernel.manager.interrupt_kernel()
    assert "Interrupt" in kernel.finish(cell, timeout=10).ename
    for path in kernel.folder.glob("in_*"):
        path.unlink()
    assert kernel.run("launch(dist.get_rank, world_size=2)").result == "[0, 1]"


def test_a_killed_kernel_takes_its_ranks_with_it(kernel):  # the last test here: the kernel is gone
    kernel.start("launch(lambda: open('in', 'w').close() or time.sleep(60), world_size=2)")
    wait_for((kernel.folder / "in").exists, "a rank", seconds=30)
    os.kill(kernel.pid, signal.SIGKILL)
    wait_for(lambda: not kernel.processes(), "the end of the ranks", seconds=5)
    assert kernel.files(seconds=3) == []


@pytest.mark.all
def test_a_chapter_runs_with_spawn_forced(tmp_path, monkeypatch):
    folder = tmp_path / "été 1 übung Σ"
    folder.mkdir()
    monkeypatch.setenv("COURSE_UTILS_START", "spawn")
    chapter = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4)
    NotebookClient(chapter, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = {cell.id: cell.outputs for cell in chapter.cells if cell.cell_type == "code"}
    assert "rank 3 failed first: IndexError" in outputs["fail-run"][0].text
    assert "Look first at rank 0" in outputs["hang-run"][0].text
