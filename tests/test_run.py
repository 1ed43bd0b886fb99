"""`run`: chapters executed in a scratch folder, with a bar, a table and a verdict."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from nbformat import v4

from course_utils.tools import run
from course_utils.tools.refresh import text_of


def write(path: Path, *sources: str, **tags: list[str]) -> Path:
    """A notebook with a cell for each source, named cell-one, cell-two, ...; ``tags`` by number word."""
    names = ("one", "two", "three", "four")
    cells = [v4.new_markdown_cell("# 00 · Title", id="title")]
    for name, source in zip(names, sources, strict=False):
        cells.append(v4.new_code_cell(source, id=f"cell-{name}", metadata={"tags": tags.get(name, [])}))
    path.write_text(text_of(v4.new_notebook(cells=cells)), "utf-8")
    return path


def test_a_chapter_passes_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("print('trained')")
    (tmp_path / "matplotlibrc").write_text("figure.dpi: 93")
    path = write(
        tmp_path / "one.ipynb",
        "open('left_behind.txt', 'w').close()",
        "import matplotlib\nassert matplotlib.rcParams['figure.dpi'] == 93",
        "assert open('scripts/train.py').read() == \"print('trained')\"",
        "import course_utils",
    )
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert run.main([str(path)]) == 0
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1 of 4 cells  one · cell-one"
    assert printed[-2].split()[:2] == ["one", "4"]
    assert printed[-2].endswith("passed")
    assert printed[-1].startswith("1 passed, 0 failed in ")


def test_a_failing_cell_is_named_and_the_rest_still_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path / "bad.ipynb", "1", "raise ValueError('first line\\nsecond line')", "never = 1")
    good = write(tmp_path / "good.ipynb", "1 / 0", one=["raises-exception"])
    assert run.main([str(bad), str(good)]) == 1
    printed = capsys.readouterr().out
    assert "failed in cell 'cell-two': ValueError: first line\n" in printed
    assert "bad, cell 'cell-two': ValueError: first line\nsecond line" in printed
    assert "1 passed, 1 failed" in printed
    assert "4 of 4 cells  good" in printed


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import time; time.sleep(60)", "no end within 1 s"),
        ("import os; os._exit(1)", "the kernel died"),
        ("this is no Python", "SyntaxError"),
    ],
)
def test_a_cell_that_hangs_kills_or_makes_no_sense(tmp_path: Path, source: str, reason: str) -> None:
    start = time.monotonic()
    result = run.run(write(tmp_path / "one.ipynb", source), timeout=1)
    assert result.failure is not None
    assert result.failure.cell == "cell-one"
    assert reason in result.failure.reason
    assert time.monotonic() - start < 30


def test_chapters_by_number_name_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "NOTEBOOKS", tmp_path)
    with pytest.raises(ValueError, match="no chapters in"):
        run.chapters([])
    first, second = write(tmp_path / "00_start.ipynb"), write(tmp_path / "01_next.ipynb")
    assert run.chapters([]) == [first, second]
    assert run.chapters(["1"]) == run.chapters(["01"]) == run.chapters(["01_next"]) == [second]
    assert run.chapters([str(second), "1", "0"]) == [second, first]
    with pytest.raises(ValueError, match=r"no chapter '7': give a number \(00, 01\)"):
        run.chapters(["7"])


def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["no_such_chapter"]) == 2
    assert "no chapter 'no_such_chapter'" in capsys.readouterr().err
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{")
    assert run.main([str(broken)]) == 2
    assert "broken.ipynb is not a readable notebook" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_redraws_itself_on_a_terminal() -> None:
    screen = Terminal()
    bar = run.Bar(4, screen)
    bar.step("a")
    bar.step("b", 3)
    bar.close()
    assert screen.getvalue() == (
        f"\r\x1b[K[{'#' * 7}{'.' * 23}] 1 of 4 cells  a\r\x1b[K[{'#' * 30}] 4 of 4 cells  b\r\x1b[K"
    )


def test_bar_writes_a_line_a_tenth_elsewhere() -> None:
    lines = io.StringIO()
    bar = run.Bar(100, lines)
    for _ in range(100):
        bar.step("cell")
    assert lines.getvalue().splitlines()[::9] == ["10 of 100 cells  cell", "100 of 100 cells  cell"]


@pytest.mark.skipif(os.name == "nt", reason="a SIGINT can't be sent to one process there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_no_kernel(tmp_path: Path, number: int) -> None:
    mark = tmp_path / "mark"
    source = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)"
    path = write(tmp_path / "one.ipynb", source)
    command = "import sys; from course_utils.tools.run import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(path)],
        cwd=run.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < deadline, "the kernel never started"
            time.sleep(0.05)
        kernel = psutil.Process(int(mark.read_text()))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        psutil.wait_procs([kernel], timeout=10)
    finally:
        process.kill()
        process.wait()
    assert not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in out + err
