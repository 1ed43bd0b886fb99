"""What ranks print, and how it is shown: under its rank, whole, in rank order, the same on every run."""

import ctypes
import logging
import os
import random
import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch.distributed as dist
from kernels import Kernel, time_limit  # noqa: F401  # time_limit: a fixture that every test here uses

from course_utils import RankError, launch, progress


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("output")) as kernel:
        yield kernel


@pytest.fixture
def kernel(notebook):
    return notebook.ready()


def shown(capfd: pytest.CaptureFixture) -> list[str]:
    """The lines of both streams; capfd also sees what reaches the file descriptors past the launcher."""
    out, err = capfd.readouterr()
    return [line.rstrip() for line in (out + err).splitlines()]


def test_lines_stand_under_their_rank_in_rank_order(capfd):
    def body():
        time.sleep(0.05 * (3 - dist.get_rank()))
        print(f"first of {dist.get_rank()}")
        dist.barrier()
        print("second\nthird")

    launch(body)
    lines = ([f"rank {r} │ first of {r}", f"rank {r} │ second", f"rank {r} │ third"] for r in range(4))
    assert shown(capfd) == [line for three in lines for line in three]


def test_the_same_on_every_run(capfd):
    def body():
        for step in range(20):
            time.sleep(random.random() / 500)
            print("step", step)
            print("note", step, file=sys.stderr)
            os.write(1, f"raw {step}\n".encode())
            print("no flush", end=" ")
        ctypes.CDLL(None).puts(b"from C")

    runs = []
    for _ in range(4):
        launch(body, world_size=2)
        runs.append(shown(capfd))
    assert runs[1:] == runs[:-1]
    text = "\n".join(runs[0])
    assert all(text.count(word) == 40 for word in ("step ", "note ", "raw ", "no flush"))
    assert text.count("from C") == 2


def test_stdout_and_stderr_keep_their_order(capfd):
    def body():
        print("one")
        print("two", file=sys.stderr)
        print("three")
        warnings.warn("four", stacklevel=1)
        logging.error("five")

    launch(body, world_size=1)
    lines = shown(capfd)
    assert all(line.startswith("rank 0 │ ") for line in lines)
    text = "\n".join(lines)
    found = [text.index(word) for word in ("one", "two", "three", "four", "five")]
    assert found == sorted(found)


def test_output_of_c_code_and_of_programs_that_a_rank_starts(capfd):
    def body():
        libc = ctypes.CDLL(None)
        libc.printf(b"printf %d\n", 7)  # in C's own buffer until somebody flushes it
        os.write(1, b"descriptor 1\n")
        os.write(2, b"descriptor 2\n")
        subprocess.run(["echo", "a program"], check=True)
        os.system("echo a shell >&2")

    launch(body, world_size=2)
    expected = {"printf 7", "descriptor 1", "descriptor 2", "a program", "a shell"}
    lines = shown(capfd)
    assert set(lines[:5]) == {f"rank 0 │ {text}" for text in expected}
    assert set(lines[5:]) == {f"rank 1 │ {text}" for text in expected}


def test_a_last_line_without_newline_does_not_run_into_the_next_rank(capfd):
    launch(lambda: print("no newline", end=""), world_size=2)
    print("the caller's")
    assert shown(capfd) == ["rank 0 │ no newline", "rank 1 │ no newline", "the caller's"]


def test_empty_lines_and_every_script_of_the_world(capfd, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")

    def body():
        print("\nΣ ⟨1.5⟩ │ 语言")

    launch(body, world_size=1)
    assert shown(capfd) == ["rank 0 │", "rank 0 │ Σ ⟨1.5⟩ │ 语言"]


def test_bytes_that_are_no_text_are_shown_and_break_nothing(capfd):
    launch(lambda: os.write(1, b"before \xff\xfe\x80 after\n") and None, world_size=2)
    lines = shown(capfd)
    assert [line[:16] for line in lines] == ["rank 0 │ before ", "rank 1 │ before "]
    assert all(line.endswith(" after") for line in lines)


def test_megabytes_come_whole(capfd):
    def body():
        for number in range(40_000):
            print(f"{number:06d} {'x' * 40}")
        sys.stdout.write("y" * 1_000_000)

    launch(body, world_size=2, timeout=30)
    lines = shown(capfd)
    assert len(lines) == 2 * 40_001
    for rank in range(2):
        mine = lines[rank * 40_001 : (rank + 1) * 40_001]
        assert mine[0] == f"rank {rank} │ 000000 {'x' * 40}"
        assert mine[39_999] == f"rank {rank} │ 039999 {'x' * 40}"
        assert mine[40_000] == f"rank {rank} │ {'y' * 1_000_000}"


def test_what_ranks_printed_before_a_failure_is_shown(capfd):
    def body():
        print("before", dist.get_rank())
        dist.barrier()
        if dist.get_rank() == 1:
            raise ValueError("now")
        dist.barrier()

    with pytest.raises(RankError):
        launch(body, world_size=2, timeout=10)
    lines = shown(capfd)
    assert {"rank 0 │ before 0", "rank 1 │ before 1"} <= set(lines)
    assert all(line.startswith("rank ") for line in lines)


def test_a_program_that_outlives_its_rank_holds_nothing_up(capfd):
    start = time.monotonic()
    launch(lambda: print("started", subprocess.Popen(["sleep", "30"]).poll()), world_size=2, timeout=20)
    assert time.monotonic() - start < 8
    assert shown(capfd) == ["rank 0 │ started None", "rank 1 │ started None"]


def test_live_labels_every_line(capfd):
    def body():
        for step in range(50):
            print("step", step, dist.get_rank())
        print("end", end="")

    launch(body, live=True)
    lines = shown(capfd)
    for rank in range(4):
        mine = [line for line in lines if line.startswith(f"rank {rank} │ ")]
        assert mine == [f"rank {rank} │ step {step} {rank}" for step in range(50)] + [f"rank {rank} │ end"]
    assert len(lines) == 4 * 51


def test_in_a_notebook_live_lines_come_while_the_ranks_run(kernel):
    code = """
        def body():
            print("early", dist.get_rank())
            time.sleep(1.5)
            print("late", dist.get_rank())
        launch(body, world_size=2, live={live})
    """
    live = kernel.run(code.format(live=True))
    early = [at for at, kind, content in live.messages if kind == "stream" and "early" in content["text"]]
    assert live.seconds - max(early) > 1
    grouped = kernel.run(code.format(live=False))
    assert grouped.lines == [f"rank {r} │ {word} {r}" for r in range(2) for word in ("early", "late")]
    assert sorted(live.lines) == sorted(grouped.lines)


@pytest.mark.parametrize("live", [False, True])
def test_nothing_arrives_after_the_cell_has_ended(kernel, live):
    cell = kernel.run(f"""
        def body():
            def chatter():
                while True:
                    os.write(1, b"still here\\n")
                    time.sleep(0.05)
            print("x" * 100_000)
            threading.Thread(target=chatter, daemon=True).start()
            os.system("(sleep 0.7; echo from a program) &")
        launch(body, live={live})
    """)
    assert cell.ename is None
    assert cell.text.count("x" * 100_000) == 4
    assert all(line.startswith("rank ") for line in cell.lines)
    assert kernel.late(1.5) == []


def test_a_list_of_nothing_shows_nothing(kernel):
    assert kernel.run("launch(lambda: None)").result is None
    assert kernel.run("launch(lambda: 5, world_size=2)").result == "[5, 5]"
    assert kernel.run("launch(lambda: dist.get_rank() or None, world_size=2)").result == "[None, 1]"
    asked = kernel.run(
        "empty = launch(lambda: None, world_size=2)", "(isinstance(empty, list), empty == [None] * 2)"
    )
    assert asked.asked == (True, True)


def test_progress_passes_the_items_on(capfd):
    def body():
        return [*progress(range(5))], [*progress(letter for letter in "abc")], [*progress([])]

    assert launch(body, world_size=2) == [([0, 1, 2, 3, 4], ["a", "b", "c"], [])] * 2


def test_progress_moves_a_bar_in_the_notebook_while_the_ranks_run(kernel):
    cell = kernel.run("""
        def body():
            for _ in progress(range(10)):
                time.sleep(0.1)
        launch(body, world_size=2)
    """)
    kinds = ("display_data", "update_display_data", "comm_open", "comm_msg")
    moments = [at for at, kind, _ in cell.messages if kind in kinds]
    assert len(moments) >= 3, cell.messages
    assert moments[-1] - moments[0] > 0.4
    assert cell.ename is None
    assert cell.result is None


def test_two_threads_print_side_by_side(capfd):
    def body(name):
        print(f"{name} " * 3)

    threads = [
        threading.Thread(target=launch, args=(body, name), kwargs={"world_size": 2}) for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(shown(capfd)) == sorted(f"rank {r} │ {' '.join(n * 3)}" for r in range(2) for n in "ab")
