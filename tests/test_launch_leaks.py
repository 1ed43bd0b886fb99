"""What launch() leaves behind (nothing), what it listens on (loopback only), and what a rank costs."""

import time

import pytest
from kernels import Kernel, time_limit  # noqa: F401  # time_limit: a fixture that every test here uses

COUNTS = """
    import gc, psutil
    from pathlib import Path
    def counts():
        gc.collect()
        me = psutil.Process()
        family = [me, *me.children(recursive=True)]
        return {
            "processes": len(family),
            "descriptors": [p.num_fds() for p in family],
            "threads": [p.num_threads() for p in family],
            "sockets": sum(len(p.net_connections("all")) for p in family),
            "files": sorted(str(path) for path in Path(os.environ["TMPDIR"]).rglob("*")),
            "shared memory": sorted(path.name for path in Path("/dev/shm").glob("torch_*")),
        }
    def listening():
        me, ends = psutil.Process(), []
        for process in [me, *me.children(recursive=True)]:
            try:
                ends += process.net_connections("inet")
            except psutil.NoSuchProcess:
                continue  # a rank that has just finished
        return sorted({(c.laddr.ip, c.laddr.port) for c in ends if c.status in ("LISTEN", "NONE")})
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("leaks")) as kernel:
        kernel.run(COUNTS)
        yield kernel


@pytest.fixture
def kernel(notebook):
    notebook.ready().run(COUNTS)
    return notebook


def test_a_hundred_launches_leave_nothing(kernel):
    cell = kernel.run(
        """
        def body(step):
            total = torch.ones(3)
            if step % 2:
                dist.init_process_group("gloo")
            dist.all_reduce(total)
            print("step", step)
            if step % 10 == 9 and dist.get_rank() == 1:
                raise ValueError("one in ten")
            return total
        def run(step):
            try:
                launch(body, step, world_size=2, init=not step % 2)
            except RankError as error:
                assert error.rank == 1 and "one in ten" in str(error)
        for step in range(10):  # the first ones load what stays loaded
            run(step)
        before = counts()
        for step in range(100):
            run(step)
        after = counts()
        """,
        ask="(before, after)",
        timeout=110,
    )
    assert cell.ename is None, cell.evalue
    before, after = cell.asked
    assert after == before


@pytest.mark.parametrize("init", [True, False])
def test_nothing_but_loopback_is_listened_on_and_no_port_stays(kernel, init):
    cell = kernel.run(
        f"""
        def body():
            if not {init}:
                dist.init_process_group("gloo")
            dist.all_reduce(torch.ones(1))
            time.sleep(1.5)
        before = listening()
        thread = threading.Thread(target=launch, args=(body,), kwargs={{"init": {init}}})
        thread.start()
        seen = set()
        while thread.is_alive():
            time.sleep(0.05)
            seen |= set(listening())
        after = listening()
        """,
        ask="(before, sorted(seen), after)",
    )
    assert cell.ename is None, cell.evalue
    before, seen, after = cell.asked
    assert len(seen) > len(before)  # gloo's own ports: the look was taken while ranks ran
    assert {address for address, _ in seen} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert set(after) <= set(before)


def test_the_rendezvous_folder_is_closed_to_other_users(kernel):
    cell = kernel.run("""
        import stat
        def body():
            folders = Path(os.environ["TMPDIR"]).iterdir()
            return [stat.filemode(folder.stat().st_mode) for folder in folders]
        launch(body, world_size=1)
    """)
    assert cell.result == "[['drwx------']]"
    assert kernel.files() == []


def test_memory_that_ranks_share_and_hold(kernel):
    cell = kernel.run(
        """
        def body():
            dist.all_reduce(torch.ones(1000))
            own = psutil.Process().memory_full_info().uss / 2**20  # MiB
            dist.barrier()
            return own
        own = launch(body)
        """,
        ask="own",
    )
    assert max(cell.asked) < 20


def test_sixty_four_ranks_on_two_cores(kernel):
    code = """
        def body():
            total = torch.ones(1)
            dist.all_reduce(total)
            return total.item()
        start = time.perf_counter()
        found = launch(body, world_size=64)
        seconds = time.perf_counter() - start
    """
    kernel.run("launch(lambda: None)")
    for _ in range(2):  # once more, should the machine have been busy
        seconds, right = kernel.run(code, ask="(seconds, found == [64.0] * 64)", timeout=60).asked
        assert right
        if seconds < 5:
            break
        time.sleep(2)
    assert seconds < 5


def test_a_launch_does_not_grow_with_the_ones_before(kernel):
    cell = kernel.run(
        """
        def body():
            print("x" * 100_000)
            return torch.ones(100_000)
        def size():
            gc.collect()
            return psutil.Process().memory_info().rss / 2**20  # MiB
        for _ in range(5):
            launch(body, world_size=2)
        before = size()
        for _ in range(30):
            launch(body, world_size=2)
        grown = size() - before
        """,
        ask="grown",
        timeout=60,
    )
    assert cell.asked < 15
