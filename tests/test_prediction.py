"""predict() commits the student, tells the truth, and leaves outputs that are the same for everybody."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from course_utils import predict
from course_utils.prediction import Guess, record

ROOT = Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"


def guess(*choices: object) -> Guess:
    return Guess("How many bytes does each rank send, in units of S?", choices or (1.0, 1.5, 3.0))


@pytest.fixture
def my_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's copy of the course; the working folder is one below it."""
    folder = tmp_path / "my_course"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".manifest.json").write_text("{}")
    monkeypatch.chdir(folder / "scripts")
    return folder


def notes(folder: Path) -> dict:
    return json.loads((folder / "progress.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("choice", [None, 0, 1, 2])
@pytest.mark.parametrize("value", [1.5, 1.502, np.float32(1.4999), torch.tensor(1.51)])
def test_the_line_depends_neither_on_the_choice_nor_on_noise(
    choice: int | None, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = guess()
    assert asked.buttons.value is None, "nothing is chosen beforehand"
    asked.buttons.value = choice
    asked.compare(value)
    assert capsys.readouterr().out == "measured: 1.5 (choices were 1.0, 1.5, 3.0)\n"


def test_a_value_that_is_no_choice_contradicts_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    asked = guess()
    asked.buttons.value = 1
    for value in (2.2, math.nan, -1.5):
        asked.compare(value)
        assert capsys.readouterr().out == f"measured: ⟨{value:.4g}⟩, none of the choices (1.0, 1.5, 3.0)\n"
        assert "Not so" in asked.verdict.value


def test_the_tolerance_is_relative_and_can_be_wide(capsys: pytest.CaptureFixture[str]) -> None:
    asked = guess(1, 10, 1000)
    asked.compare(14, tolerance=0.5)
    asked.compare(300, tolerance=math.inf)
    asked = guess(0, 100)
    asked.compare(1.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" (")[0] for line in lines] == ["measured: 10", "measured: 1000", "measured: 0"]


def test_strings_and_booleans(capsys: pytest.CaptureFixture[str]) -> None:
    guess("it hangs", "it fails").compare("it fails")
    guess(True, False).compare(np.bool_(False))
    guess(1, True).compare(True)
    guess("a", "b").compare("c")
    assert capsys.readouterr().out.splitlines() == [
        "measured: it fails (choices were it hangs, it fails)",
        "measured: False (choices were True, False)",
        "measured: True (choices were 1, True)",
        "measured: ⟨c⟩, none of the choices (a, b)",
    ]


@pytest.mark.parametrize(
    ("choices", "value"), [((1, 2), "1"), ((1, 2), True), (("a", "b"), 1.0), ((1, 2), None)]
)
def test_a_value_of_another_kind_is_a_clear_error(choices: tuple, value: object) -> None:
    with pytest.raises(TypeError, match="compare got"):
        guess(*choices).compare(value)


def test_bad_choices_are_clear_errors() -> None:
    with pytest.raises(ValueError, match="at least two choices"):
        predict("How many?", 1)
    with pytest.raises(ValueError, match="look alike"):
        predict("How many?", 1, "1")
    with pytest.raises(TypeError, match="number, a string or a boolean, not list"):
        predict("How many?", 1, [2])


def test_the_verdict_comes_whenever_the_choice_comes() -> None:
    early, late = guess(), guess()
    early.buttons.value = 2
    assert early.verdict.value == "You said 3.0. Run on to find out."
    early.compare(1.502)
    assert early.verdict.value == "<b>✗ Not so:</b> you said 3.0, measured 1.502."
    late.compare(1.502)
    assert late.verdict.value == ""
    late.buttons.value = 1
    assert late.verdict.value == "<b>✓ Right:</b> you said 1.5, measured 1.502."


def test_what_the_author_writes_is_escaped() -> None:
    asked = Guess("Is a < b?", ("a<b", "<i>no</i>"))
    asked.buttons.value = 1
    asked.compare("a<b")
    assert "<i>" not in asked.verdict.value
    assert "a &lt; b" in asked.widget.children[0].value


def test_the_first_choice_is_noted_and_kept(my_course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    asked, late = guess(), Guess("And now?", (1, 2))
    asked.buttons.value = 2
    asked.compare(1.5)
    asked.buttons.value = 1
    late.compare(2)
    late.buttons.value = 1
    assert notes(my_course) == {
        "predictions": {
            asked.question: {"said": "3.0", "right": False, "before the answer": True},
            "And now?": {"said": "2", "right": True, "before the answer": False},
        }
    }
    assert sorted(path.name for path in my_course.iterdir()) == [".manifest.json", "progress.json", "scripts"]


@pytest.mark.parametrize("broken", ["", "{", "[]", "null", '{"predictions": 3}', "\x00"])
def test_broken_notes_are_set_aside(my_course: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    (my_course / "progress.json").write_text(broken)
    record("predictions", "q", 1)
    record("exercises", "02.1", "right")
    assert notes(my_course) == {"predictions": {"q": 1}, "exercises": {"02.1": "right"}}
    assert (my_course / "progress.broken.json").read_text() == broken


def test_notes_stop_no_lesson(my_course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    (my_course / "progress.json").write_text('{"predictions": {"q": 1}}')

    def read_only(*_arguments: object, **_options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "replace", read_only)
    record("predictions", "q", 2)
    monkeypatch.setattr("tempfile.mkstemp", read_only)
    record("predictions", "q", 2)
    assert notes(my_course) == {"predictions": {"q": 1}}
    assert not list(my_course.glob(".progress*")), "a temporary file was left"


def test_nothing_is_noted_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, my_course: Path) -> None:
    record("predictions", "under tests", 1)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    for name in ("notebooks", "elsewhere/my_course"):  # the second bears the name and has no manifest
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        record("predictions", "q", 1)
    assert not list(tmp_path.rglob("progress*"))


def test_without_a_kernel_the_question_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    predict("How many?", 1, 2)
    assert capsys.readouterr().out == "Predict. How many?\n  ○ 1\n  ○ 2\n"


CELLS = [
    "from course_utils import panel, predict",
    'guess = predict("How many bytes, in units of S?", 1.0, 1.5, 3.0)',
    "import random\nguess.compare(1.5 + random.random() / 50)",
    "def draw(p, x, ring, kind, chunks):\n"
    "    width = p * 10\n"
    '    picture = f\'<svg role="img" aria-label="{p} ranks" width="{width}" height="9"></svg>\'\n'
    "    return picture, f'{p} ranks, {kind}, {x}, {ring}, {chunks}'",
    'panel(draw, p=(1, 8, 4), x=(0.0, 1.0, 0.5), ring=True, kind=("gpipe", "1f1b"), chunks=[1, 2, 4])',
    "import matplotlib.pyplot as plt\n"
    "def plot(p):\n"
    "    figure, axes = plt.subplots()\n"
    "    axes.plot([0, random.random()], [0, p])\n"
    "    return figure, f'a line up to {p}'\n"
    "panel(plot, p=(1, 8, 4))",
    "panel(lambda p: 1 / p, p=(0, 8, 0))",
]


def test_a_stored_notebook_passes_strict_nbval_and_reads_without_a_kernel(tmp_path: Path) -> None:
    """One kernel runs the cells; stored without widgets, nbval runs them again and compares strictly."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    env |= {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / "ipython")}
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute(env=env)
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert sum(WIDGET in output.get("data", {}) for output in outputs) == 4, "a live kernel shows widgets"
    for output in outputs:
        output.get("data", {}).pop(WIDGET, None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    path = tmp_path / "small.ipynb"
    nbformat.write(notebook, path)

    question, line, picture, plot, failing = outputs
    assert "How many bytes" in question["data"]["text/html"]
    assert "<li>1.5</li>" in question["data"]["text/html"]
    assert line["text"] == "measured: 1.5 (choices were 1.0, 1.5, 3.0)\n"
    assert 'aria-label="4 ranks"' in picture["data"]["text/html"]
    assert picture["data"]["text/plain"].startswith(
        "4 ranks, gpipe, 0.5, True, 1\n[p = 4 · x = 0.5 · ring = True"
    )
    assert plot["metadata"]["image/png"]["alt"].startswith("a line up to 4")
    assert failing["data"]["text/plain"].startswith("ZeroDivisionError: division by zero")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", str(path)]
    again = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180)
    assert again.returncode == 0, again.stdout[-3000:]
    assert f"{len(CELLS)} passed" in again.stdout
