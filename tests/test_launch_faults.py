"""The fault table: whatever a rank does, launch() ends in time, names the cause and leaves nothing.

Every fault runs in a real Jupyter kernel, which must work on afterwards as if nothing had been.
"""

import textwrap

import pytest
from kernels import Kernel, time_limit  # noqa: F401  # time_limit: a fixture that every test here uses

TIMEOUT = 1.0  # of the faults that only the clock ends
CLASSES = """
    class ShardError(ValueError):
        pass
    class Stuck(Exception):
        def __init__(self, needed, also_needed):
            super().__init__(f"stuck at {needed}")
            self.lock = threading.Lock()  # can't be pickled
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("not even this")
    def deeper(n):
        return deeper(n + 1)
"""
SHAPES = "dist.all_reduce(torch.ones(4 if dist.get_rank() else 8_000_000))"

# name: the rank, what it runs while the others wait in an all-reduce, words of the report
FAILS = {
    "an exception": (2, "{}['grad']", "KeyError", "{}['grad']"),
    "the notebook's own exception": (1, "raise ShardError('shard 7')", "ShardError", "shard 7"),
    "an exception that can't be pickled": (1, "raise Stuck('step 5', 0)", "Stuck", "stuck at step 5"),
    "an exception that can't be printed": (3, "raise Mute()", "Mute"),
    "a failed assertion": (0, "assert 1 + 1 == 3", "AssertionError", "assert 1 + 1 == 3"),
    "a recursion without end": (1, "deeper(0)", "RecursionError", "return deeper(n + 1)"),
    "no memory left": (1, "torch.empty(1 << 50)", "RuntimeError", "torch.empty(1 << 50)"),
    "launch inside a rank": (1, "launch(lambda: 1)", "inside a rank", "launch(lambda: 1)"),
    "an interrupt in a rank": (1, "raise KeyboardInterrupt", "KeyboardInterrupt"),
    "sys.exit": (1, "sys.exit(3)", "exit code 3"),
    "sys.exit with a message": (1, "sys.exit('no data found')", "no data found"),
    "sys.exit without a code": (2, "sys.exit()", "exit code 0"),
    "os._exit": (1, "print('my last words')\nos._exit(3)", "exit code 3", "my last words"),
    "os._exit with code 0": (3, "os._exit(0)", "exit code 0"),
    "SIGKILL": (2, "print('my last words')\nos.kill(os.getpid(), 9)", "SIGKILL", "my last words"),
    "SIGTERM": (1, "os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
    "SIGSEGV": (1, "ctypes.string_at(0)", "SIGSEGV"),
    "SIGABRT": (1, "os.abort()", "SIGABRT"),
}
HANGS = {
    "a rank that never enters the collective": (1, "time.sleep(60)", "time.sleep(60)"),
    "a rank that returns without the collective": (1, "return 5", "finished"),
    "a rank in a Python loop": (2, "while True: pass", "while True: pass"),
    "a rank that catches everything": (
        2,
        "while True:\n    try: time.sleep(1)\n    except BaseException: pass",
        "try: time.sleep(1)",
    ),
    "a rank that ignores SIGTERM": (
        0,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        "while True: time.sleep(1)",
    ),
    "a rank in C that keeps the lock": (1, "sum(itertools.repeat(0))", "sum(itertools.repeat(0))"),
    "a call into C that a signal ends": (1, "ctypes.PyDLL(None).sleep(60)", "PyDLL(None).sleep(60)"),
    "a stopped rank": (1, "os.kill(os.getpid(), signal.SIGSTOP)", "rank 1"),
    "a rank that waits for itself": (0, "lock = threading.Lock()\nwhile lock.acquire(): pass", "acquire()"),
    "a rank that waits for a message": (0, "dist.recv(torch.ones(1), 3)", "dist.recv(torch.ones(1), 3)"),
}  # fmt: skip


def body(rank: int, code: str) -> str:
    """A cell: the given rank runs this code while the others wait in an all-reduce."""
    inner = textwrap.indent(code, "        ")
    return f"def body():\n    if dist.get_rank() == {rank}:\n{inner}\n    dist.all_reduce(torch.ones(1))\n"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("faults")) as kernel:
        yield kernel


@pytest.fixture
def kernel(notebook):
    """The shared kernel. After a fault it launches as before, and no process has been added."""
    kernel = notebook.ready()
    assert kernel.run(CLASSES + "    launch(dist.get_rank)").result == "[0, 1, 2, 3]"
    before = set(kernel.processes())
    yield kernel
    assert kernel.left(beside=before) == {}
    assert kernel.run("launch(dist.get_rank)").result == "[0, 1, 2, 3]"
    assert len(kernel.processes()) <= len(before)


@pytest.mark.parametrize("name", FAILS)
def test_a_rank_that_fails(kernel, name):
    rank, code, *words = FAILS[name]
    caught = kernel.catch(body(rank, code), "timeout=10")
    assert (caught.kind, caught.rank) == ("RankError", rank), caught.text
    assert f"rank {rank}" in caught.text.splitlines()[0]
    for word in words:
        assert word in caught.text, caught.text
    assert any(word in caught.failures[rank] for word in words)
    assert all("\n" not in reason for reason in caught.failures.values())
    assert caught.seconds < 5


@pytest.mark.parametrize("name", HANGS)
def test_ranks_that_hang(kernel, name):
    rank, code, *words = HANGS[name]
    caught = kernel.catch(body(rank, code), f"timeout={TIMEOUT}")
    assert (caught.kind, caught.rank) == ("RankTimeout", None), caught.text
    for word in words:
        assert word in caught.text, caught.text
    finished = {rank} if "finished" in words else set()
    assert set(caught.failures) == {0, 1, 2, 3} - finished
    for other in {0, 1, 2, 3} - {rank}:
        assert "dist.all_reduce(torch.ones(1))" in caught.failures[other], caught.text
    assert all("\n" not in reason for reason in caught.failures.values())
    assert TIMEOUT <= caught.seconds < TIMEOUT + 5


def test_two_ranks_that_both_send_first(kernel):
    code = """
        def body():
            dist.send(torch.ones(1), 1 - dist.get_rank())
            dist.recv(torch.ones(1), 1 - dist.get_rank())
    """
    caught = kernel.catch(code, f"timeout={TIMEOUT}, world_size=2")
    assert caught.kind == "RankTimeout"
    assert all("dist.send(" in caught.failures[rank] for rank in (0, 1)), caught.text
    assert caught.seconds < TIMEOUT + 5


def test_different_shapes_that_kill_gloo(kernel):
    caught = kernel.catch(f"def body():\n    {SHAPES}\n", "timeout=10")
    assert caught.kind == "RankError"
    assert "SIGABRT" in caught.text
    assert caught.seconds < 15


def test_a_fault_while_others_still_start(kernel):
    code = "def body():\n    if os.environ['RANK'] == '0':\n        os._exit(4)\n    time.sleep(5)\n"
    caught = kernel.catch(code, "world_size=12, timeout=10, init=False")
    assert caught.rank == 0
    assert caught.seconds < 5
    assert "exit code 4" in caught.text


def test_the_last_lines_are_a_dead_ranks_last(kernel):
    code = "for n in range(5000): print('step', n)\nos.kill(os.getpid(), signal.SIGKILL)"
    caught = kernel.catch(body(1, code), "timeout=10")
    assert "step 4999" in caught.text
    assert "step 100\n" not in caught.text  # the report shows the end, the output above it shows all
    assert caught.shown.count("rank 1 │ step ") == 5000


@pytest.mark.parametrize("ending", ["return", "raise ValueError('ended')"])
def test_a_thread_that_never_ends_does_not_keep_its_rank(kernel, ending):
    code = f"""
        def body():
            threading.Thread(target=threading.Event().wait).start()
            {ending}
        launch(body, timeout=10)
    """
    cell = kernel.run(code)
    assert cell.ename == (None if ending == "return" else "RankError")
    assert cell.seconds < 5


def test_the_first_failure_stays_the_first(kernel):
    code = """
        def body():
            time.sleep({0: 0.6, 1: 0.4, 2: 0.0, 3: 0.2}[dist.get_rank()])
            raise ValueError(f"reason {dist.get_rank()}")
    """
    for _ in range(3):
        assert kernel.catch(code, "timeout=10").rank == 2
