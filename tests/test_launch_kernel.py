"""launch() in a real notebook: interrupted, killed, restarted, from threads, in odd folders."""

import contextlib
import os
import signal
import socket
import subprocess
import time

import psutil
import pytest
from kernels import Kernel, time_limit, wait_for  # noqa: F401  # time_limit: a fixture that every test here uses

from course_utils import forkserver
from course_utils.processes import rank_sys_path

HANGS = """
    def body():
        open(f"in_{dist.get_rank()}", "w").close()
        if dist.get_rank() == 0:
            print("before the hang")
            time.sleep(60)
        dist.barrier()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


@pytest.fixture
def kernel(notebook):
    return notebook.ready()


def start_and_enter(kernel: Kernel, options: str = "") -> str:
    """Starts a launch that hangs and returns when all its ranks are in it."""
    for path in kernel.folder.glob("in_*"):
        path.unlink()
    cell = kernel.start(HANGS + f"    launch(body, {options})")
    wait_for(lambda: len(list(kernel.folder.glob("in_*"))) == 4, "four ranks", seconds=20)
    return cell


def test_nothing_starts_for_bad_arguments(folder):
    with Kernel(folder) as kernel:
        for call in (
            "launch(lambda x: x)",
            "launch(lambda: 1, 2)",
            "launch(3)",
            "launch(lambda: 1, world_size=0)",
            "launch(lambda: 1, world_size=2.5)",
            "launch(lambda: 1, backend='smoke')",
            "launch(lambda: 1, timeout=0)",
            "launch(lambda env: 1, 2)",
            "launch(lambda: 1, wrld_size=2)",
            "launch(lambda x: 1, threading.Lock())",
        ):
            cell = kernel.run(call)
            assert cell.ename in ("TypeError", "ValueError", "Unsendable"), (call, cell.ename)
            assert kernel.processes() == {}, call
            assert kernel.files() == [], call


def test_an_interrupt_ends_the_ranks_and_the_cell(kernel):
    kernel.run("launch(dist.get_rank)")
    before = set(kernel.processes())
    for presses in (1, 5):  # some students press the stop button many times
        cell = start_and_enter(kernel)
        pressed = time.monotonic()
        for _ in range(presses):
            kernel.manager.interrupt_kernel()
            time.sleep(0.05)
        ended = kernel.finish(cell)
        assert time.monotonic() - pressed < 5
        assert "Interrupt" in ended.ename
        assert kernel.left(beside=before) == {}
        assert kernel.run("launch(dist.get_rank)").result == "[0, 1, 2, 3]"
        assert kernel.files() == []


def test_an_interrupt_is_a_keyboard_interrupt_and_what_was_printed_is_shown(kernel):
    cell = start_and_enter(kernel.ready())
    kernel.manager.interrupt_kernel()
    shown = kernel.finish(cell)
    assert "rank 0 │ before the hang" in shown.lines
    assert kernel.late() == []
    tail = "    try:\n        launch(body)\n    except KeyboardInterrupt:\n        caught = True\n"
    cell = kernel.start("    caught = None" + HANGS + tail, ask="caught")
    time.sleep(1)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(cell).asked is True


@pytest.mark.parametrize("moment", [0.05, 0.3, 0.8])
def test_an_interrupt_while_processes_start(folder, moment):
    with Kernel(folder) as kernel:
        cell = kernel.start(
            "launch(lambda: time.sleep(60), world_size=8)"
        )  # the kernel's first: all starts up
        time.sleep(moment)
        kernel.manager.interrupt_kernel()
        assert "Interrupt" in kernel.finish(cell, timeout=10).ename
        assert kernel.run("launch(dist.get_rank)").result == "[0, 1, 2, 3]"
        assert kernel.files() == []
        assert len(kernel.left(seconds=0.2)) <= 1  # the server


@pytest.mark.parametrize("way", ["killed", "terminated", "restarted", "shut down"])
def test_a_kernel_that_ends_takes_everything_with_it(folder, way):
    kernel = Kernel(folder)
    try:
        start_and_enter(kernel, options="init=True")
        first = kernel.processes()
        assert len(first) >= 4
        assert kernel.files() != []
        if way in ("killed", "terminated"):
            os.kill(kernel.pid, signal.SIGKILL if way == "killed" else signal.SIGTERM)
        elif way == "restarted":
            kernel.client.stop_channels()
            kernel.manager.restart_kernel(now=True)
        else:
            kernel.client.stop_channels()
            kernel.manager.shutdown_kernel(now=True)
        wait_for(lambda: not any(alive(pid) for pid in first), f"the end of {first}", seconds=5)
        assert kernel.files(seconds=3) == []
        if way == "restarted":
            kernel.connect()
            assert kernel.run("launch(dist.get_rank)").result == "[0, 1, 2, 3]"
    finally:
        with contextlib.suppress(Exception):
            kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=True)


def test_the_server_of_a_killed_notebook_removes_the_folder_of_a_job_that_ended_first(tmp_path):
    """The sockets of a killed process close one after the other: the job's may be the first."""
    folder = tmp_path / "launch-job"
    folder.mkdir()
    ours, theirs = socket.socketpair()
    boot = forkserver.boot(
        f"from course_utils.forkserver import serve; serve({theirs.fileno()})", rank_sys_path()
    )
    with theirs:
        server = subprocess.Popen(boot, pass_fds=[theirs.fileno()])
    try:
        assert ours.recv(1) == b"R"
        job, channel = socket.socketpair()
        with channel:
            socket.send_fds(ours, [b"J"], [channel.fileno()])
        name = os.fsencode(folder)
        job.sendall(forkserver.PATH.pack(len(name)) + name)
        job.close()
        time.sleep(0.5)  # the server has seen the job's end, not the notebook's
        assert folder.exists()
        ours.close()
        server.wait(5)
        assert not folder.exists()
    finally:
        server.kill()
        server.wait()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_helper_process_is_an_error_and_the_next_launch_works(kernel):
    kernel.run("launch(dist.get_rank)")
    helpers = kernel.processes()
    cell = start_and_enter(kernel, "timeout=30")
    for pid in helpers:
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    ended = kernel.finish(cell, timeout=60)
    assert ended.ename in ("RankError", "RuntimeError"), ended.evalue
    assert time.monotonic() - killed < 6
    assert kernel.run("launch(dist.get_rank)").result == "[0, 1, 2, 3]"
    assert not set(helpers) & set(kernel.left())


def test_several_threads_launch_at_once(kernel):
    cell = kernel.run("""
        from concurrent.futures import ThreadPoolExecutor
        def body(salt):
            total = torch.tensor([float(salt)])
            dist.all_reduce(total)
            print("salt", salt)
            return total.item()
        def launches(salt):
            return [launch(body, salt, world_size=2) for _ in range(3)]
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(launches, range(4))]
        assert found == [[[2.0 * salt] * 2] * 3 for salt in range(4)], found
    """)
    assert cell.ename is None, cell.evalue
    assert sorted(cell.lines) == sorted(
        f"rank {r} │ salt {s}" for s in range(4) for r in range(2) for _ in range(3)
    )


def test_a_failing_launch_leaves_its_neighbors_alone(kernel):
    cell = kernel.run("""
        from concurrent.futures import ThreadPoolExecutor
        def good():
            time.sleep(1)
            dist.barrier()
            return dist.get_rank()
        def bad():
            os._exit(3)
        with ThreadPoolExecutor(2) as pool:
            well, ill = pool.submit(launch, good), pool.submit(launch, bad)
        print(well.result(), type(ill.exception()).__name__)
    """)
    assert cell.text == "[0, 1, 2, 3] RankError\n"


def test_several_notebooks_launch_at_once(tmp_path):
    code = """
        def body(salt, made):
            if not made:
                dist.init_process_group("gloo")
            total = torch.tensor([float(salt)])
            dist.all_reduce(total)
            return total.item()
        [launch(body, {salt}, init, init=init, world_size=3)[2] for init in (True, False) * 4]
    """
    with contextlib.ExitStack() as stack:
        kernels = []
        for name in "ab":
            (tmp_path / name).mkdir()
            kernels.append(stack.enter_context(Kernel(tmp_path / name)))
        cells = [kernel.start(code.format(salt=salt)) for salt, kernel in enumerate(kernels)]
        for salt, (kernel, cell) in enumerate(zip(kernels, cells, strict=True)):
            assert kernel.finish(cell).result == str([3.0 * salt] * 8)


def test_in_a_folder_with_modules_named_like_the_standard_librarys(folder):
    for name in ("random", "queue", "socket", "selectors", "struct", "json", "signal", "statistics"):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('the student own {name}.py was imported')\n")
    (folder / "layers.py").write_text("WIDTH = 12\n")
    with Kernel(folder) as kernel:
        cell = kernel.run("import layers\nlaunch(lambda: layers.WIDTH * dist.get_rank())")
        assert (cell.ename, cell.result) == (None, "[0, 12, 24, 36]"), cell.evalue
        cell = kernel.run("launch(lambda: dist.init_process_group('gloo'), init=False)")
        assert cell.ename is None, cell.evalue


def test_with_a_long_temporary_folder(folder):
    long = folder / ("deep" * 20) / ("deeper" * 20)
    with Kernel(folder, TMPDIR=str(long)) as kernel:
        cell = kernel.run("launch(dist.get_rank)", ask="__import__('tempfile').gettempdir()")
        assert (cell.ename, cell.result) == (None, "[0, 1, 2, 3]"), cell.evalue
        assert cell.asked == str(long)
        assert kernel.run("launch(lambda: dist.init_process_group('gloo'), init=False)").ename is None
        assert kernel.files() == []
