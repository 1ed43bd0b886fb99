"""The reports: which rank failed first and why, where ranks stood when time was up, what can't be sent."""

import pytest
from kernels import Kernel, time_limit  # noqa: F401  # time_limit: a fixture that every test here uses

from course_utils import RankError, RankTimeout
from course_utils.report import Outcome, rank_error


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("errors")) as kernel:
        yield kernel


@pytest.fixture
def kernel(notebook):
    return notebook.ready()


def test_kinds_of_error():
    assert issubclass(RankError, RuntimeError)
    assert issubclass(RankTimeout, RankError)


def test_the_first_failed_rank_is_named_with_the_line_of_the_cell(kernel):
    caught = kernel.catch(
        """
        def body():
            divisor = 2 - dist.get_rank()
            share = 1 / divisor
            dist.all_reduce(torch.tensor([share]))
            dist.barrier()
        """,
        "timeout=10",
    )
    assert (caught.kind, caught.rank) == ("RankError", 2)
    assert "rank 2" in caught.text
    assert "ZeroDivisionError" in caught.text
    assert "share = 1 / divisor" in caught.text
    assert caught.failures[2].startswith("ZeroDivisionError")
    for rank in (0, 1, 3):  # a line for each other rank
        assert any(f"rank {rank}" in line for line in caught.text.splitlines()), caught.text
        assert "ZeroDivisionError" not in caught.failures.get(rank, "")
    assert "peer" in caught.text
    assert all(isinstance(reason, str) and "\n" not in reason for reason in caught.failures.values())
    assert caught.seconds < 5


def test_an_uncaught_error_is_the_cells_error(kernel):
    cell = kernel.run("def body():\n    raise KeyError('missing')\nlaunch(body, world_size=1)")
    assert cell.ename == "RankError"
    assert "rank 0" in cell.evalue
    assert "KeyError" in cell.evalue
    assert "raise KeyError('missing')" in cell.evalue


def test_the_same_error_on_all_ranks_is_said_once(kernel):
    caught = kernel.catch("def body():\n    return tensr.ones(3)\n", "timeout=10")
    assert "all 4 ranks: NameError" in caught.text
    assert caught.text.count("name 'tensr' is not defined") == 1
    assert "return tensr.ones(3)" in caught.text
    assert caught.rank == 0  # ties go to the lowest
    assert set(caught.failures) == {0, 1, 2, 3}
    assert all(reason.startswith("NameError") for reason in caught.failures.values())


def test_the_same_error_is_said_once_though_ranks_come_to_it_late(kernel):
    caught = kernel.catch(
        """
        def body():
            time.sleep(0.1 * (3 - dist.get_rank()))
            raise RuntimeError("the same")
        """,
        "timeout=10",
    )
    assert caught.text.count("the same") <= 2  # the message, and the line of the cell that holds it


def test_errors_that_differ_by_rank_are_not_lumped(kernel):
    caught = kernel.catch(
        """
        def body():
            dist.barrier()
            raise ValueError(f"bad shard {dist.get_rank() * 11}")
        """,
        "timeout=10, world_size=3",
    )
    assert "all 3 ranks" not in caught.text
    assert f"bad shard {caught.rank * 11}" in caught.failures[caught.rank]


def test_the_line_of_another_cell_and_the_call_of_a_library(kernel):
    kernel.run("def scaled(values):\n    return values / missing_scale\n")
    caught = kernel.catch("def body():\n    return scaled(torch.ones(2))\n", "world_size=2, timeout=10")
    assert "return values / missing_scale" in caught.text
    caught = kernel.catch(
        """
        def body():
            left, right = torch.ones(2, 3), torch.ones(2, 3)
            return torch.nn.functional.linear(left, right.T)
        """,
        "world_size=2, timeout=10",
    )
    assert "return torch.nn.functional.linear(left, right.T)" in caught.text


def test_a_cell_that_was_changed_shows_its_new_line(kernel):
    for word in ("first", "second"):
        caught = kernel.catch(f"def body():\n    raise ValueError({word!r})\n", "world_size=1")
        assert f"raise ValueError('{word}')" in caught.text


def test_a_message_of_many_lines_stays_one_line_in_failures(kernel):
    caught = kernel.catch("def body():\n    raise ValueError('one\\ntwo\\nthree')\n", "world_size=1")
    assert "\n" not in caught.failures[0]
    assert "one" in caught.failures[0]
    assert "three" in caught.text


def test_the_report_says_where_every_rank_stood_when_the_time_was_up(kernel):
    caught = kernel.catch(
        """
        def body():
            if dist.get_rank() == 3:
                return "done"
            if dist.get_rank() == 2:
                while True:
                    spins = sum(range(1000))
            dist.recv(torch.empty(1), src=2)
        """,
        "timeout=1.5",
    )
    assert (caught.kind, caught.rank) == ("RankTimeout", None)
    assert set(caught.failures) == {0, 1, 2}
    for rank in (0, 1):
        assert "dist.recv(torch.empty(1), src=2)" in caught.failures[rank]
    assert "while True" in caught.failures[2] or "spins = sum(range(1000))" in caught.failures[2]
    assert "dist.recv(torch.empty(1), src=2)" in caught.text
    assert "1.5" in caught.text  # the time that was up
    (last,) = [line for line in caught.text.splitlines() if "rank 3" in line or line.strip().startswith("3")]
    assert "finished" in last
    assert 1.5 <= caught.seconds < 6.5


def test_a_timeout_names_the_line_of_the_notebook_not_of_a_library(kernel):
    kernel.run("def wait_for_all():\n    dist.barrier()  # the one that hangs\n")
    caught = kernel.catch(
        """
        def body():
            if dist.get_rank() == 0:
                threading.Event().wait()
            wait_for_all()
        """,
        "timeout=1",
    )
    assert "threading.Event().wait()" in caught.failures[0]
    for rank in (1, 2, 3):
        assert "dist.barrier()" in caught.failures[rank]
    assert "distributed_c10d" not in caught.text


def test_what_ranks_printed_before_a_hang_is_shown(kernel):
    caught = kernel.catch("def body():\n    print('at', dist.get_rank())\n    time.sleep(60)\n", "timeout=1")
    assert caught.shown.splitlines() == [f"rank {r} │ at {r}" for r in range(4)]


RESULTS = {
    "a lock": ("threading.Lock()", "lock"),
    "a generator": ("(x for x in [1])", "generator"),
    "an open file, deep inside": ("{'loss': 1.0, 'log': open('log.txt', 'w')}", "TextIOWrapper"),
    "a process group": ("dist.group.WORLD", "ProcessGroup"),
}


@pytest.mark.parametrize("what", RESULTS)
def test_a_result_that_cannot_be_sent_is_named(kernel, what):
    value, named = RESULTS[what]
    caught = kernel.catch(f"def body():\n    return {value} if dist.get_rank() == 1 else 1\n", "timeout=10")
    assert caught.rank == 1
    assert named in caught.text
    assert "return" in caught.text
    assert caught.seconds < 5


@pytest.mark.parametrize("value", ["threading.Lock()", "open('log.txt', 'w')", "(x for x in [1])"])
def test_a_global_or_an_argument_that_cannot_be_sent_is_named(kernel, value):
    for code in (
        f"gadget = {value}\ndef body():\n    return gadget\ncall = lambda: launch(body)\n",
        f"def body(gadget):\n    pass\ncall = lambda: launch(body, gadget={value})\n",
        f"def make():\n    gadget = {value}\n    return lambda: gadget\ncall = lambda: launch(make())\n",
        f"gadget = {value}\ndef inner():\n    return gadget\ncall = lambda: launch(lambda: inner())\n",
    ):
        tail = "try:\n    call()\nexcept (TypeError, RankError) as error:\n    text = str(error)\n"
        cell = kernel.run("text = None\n" + code + tail, ask="text")
        assert cell.asked, (code, cell.ename, cell.evalue)
        assert "gadget" in cell.asked, (code, cell.asked)


def test_a_monitored_barrier_that_accuses_a_dead_rank_is_not_the_cause():
    said = "RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 70000 ms"
    heard_first = Outcome("raised", said, time=1.0)
    dead = Outcome("died", "SIGKILL (killed from outside)", time=1.1)
    lost = Outcome("raised", "RuntimeError: Connection closed by peer", time=0.9, lost_peer=True)
    late = Outcome("running", "", time=0.0)
    assert rank_error([heard_first, lost, dead]).rank == 2
    assert rank_error([heard_first, lost, late]).rank == 0
