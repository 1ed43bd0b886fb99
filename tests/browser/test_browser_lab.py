"""A student's hour in JupyterLab: open it, predict, solve an exercise, interrupt and restart."""

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from lab_page import LabPage
from lab_server import serving
from playwright.sync_api import Page

from course_utils.exercises.solution import solution_source
from course_utils.tools import environment
from course_utils.tools.lab import ROOT

pytestmark = pytest.mark.all

FIRST = "00_start_here.ipynb"
WRONG = """\
def largest(mine):
    return mine
"""


def sees_the_first_chapter(page: Page, address: str) -> None:
    page.goto(address)
    title = page.get_by_role("heading", name="00 · Start here")
    title.wait_for(timeout=60_000)
    assert title.is_visible()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(timeout=60_000)
    assert page.locator(".jp-OutputArea-output").count() == 0  # no answer stands under its question
    assert page.get_by_role("dialog").count() == 0  # nobody is asked anything


def test_jupyterlab_opens_the_first_chapter(page: Page, address: str) -> None:
    sees_the_first_chapter(page, address)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C as POSIX sends it")
def test_the_command_of_the_readme_from_its_start_to_ctrl_c(page: Page, tmp_path: Path) -> None:
    try:
        ready = environment.is_ready(environment.Place(ROOT))
    except environment.SetupError as error:  # another user's
        pytest.skip(str(error))
    if not ready:
        pytest.skip("no .venv: the command would make one")
    own = tmp_path / "ann" / "my_course"
    command = [sys.executable, "-m", "course_utils", "lab", "--home", str(own.parent), "--no-browser"]
    terminal, keyboard = map(os.fdopen, os.openpty())  # with none, JupyterLab has another way to end
    with terminal, keyboard, serving(own, tmp_path, command=command, stdin=keyboard) as (process, address):
        sees_the_first_chapter(page, address)
        assert (own / FIRST).is_file()
        served = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert str(own) in " ".join(served[0].cmdline())
        assert len(served) > 1  # the chapter's kernel
        page.goto("about:blank")
        os.killpg(process.pid, signal.SIGINT)  # to all that run in the terminal
        assert process.wait(timeout=30) == 0
        _, left = psutil.wait_procs(served, timeout=10)
        assert not left


def test_a_prediction_is_judged_and_noted(lab: LabPage, my_course: Path) -> None:
    lab.open(FIRST)
    lab.run("setup", "sum-predict")
    question = lab.ask("guess.question")
    cell = lab.node("sum-predict")
    cell.wait_for_selector("input[type=radio]")
    assert lab.page.get_by_role("radiogroup", name=f"Predict. {question}", exact=True).count() == 1

    cell.query_selector_all("input[type=radio]")[1].click()
    said = lab.page.get_by_role("status").get_by_text("You said 3. Run on to find out.")
    said.wait_for()
    lab.run("sum-function", "sum-run")
    lab.page.get_by_text("✗ Not so: you said 3, measured 6.").wait_for()
    assert noted(lab, my_course, "predictions", question) == {
        "said": "3",
        "right": False,
        "before the answer": True,
    }

    lab.run("sum-predict")
    cell.wait_for_selector("input[type=radio]:not(:checked)")
    lab.wait(lambda: not cell.query_selector("input[type=radio]:checked"), "new question")
    cell.query_selector("input[type=radio]").focus()
    for key in ("Tab", "Tab", "Space"):
        lab.page.keyboard.press(key)
    lab.page.get_by_text("You said 6. Run on to find out.").wait_for()
    lab.run("sum-run")
    lab.page.get_by_text("✓ Right: you said 6, measured 6.").wait_for()
    assert noted(lab, my_course, "predictions", question)["right"] is True


def test_an_exercise_gets_its_verdict(lab: LabPage, my_course: Path) -> None:
    lab.open(FIRST)
    lab.run("setup", "ex-1-stub", "ex-1-check")
    lab.page.get_by_text("○ 00.1 not attempted yet:").wait_for()
    for source, sign, verdict in ((WRONG, "✗", "not right"), (solution_source("00.1"), "✓", "right")):
        lab.write("ex-1-stub", source)
        lab.run("ex-1-stub", "ex-1-check")
        lab.page.get_by_text(f"{sign} 00.1 {verdict}:").wait_for()
        assert noted(lab, my_course, "exercises", "00.1") == verdict


def noted(lab: LabPage, my_course: Path, section: str, key: str) -> object:
    """What progress.json of the student's copy says."""
    lab.wait((my_course / "progress.json").exists, "progress.json")
    return json.loads((my_course / "progress.json").read_text("utf-8"))[section][key]


def hang(lab: LabPage) -> list[psutil.Process]:
    """Start a launch that waits for ever; its four ranks, all of them in the student's function."""
    lab.open("hang.ipynb")
    lab.run("setup", "go")
    kernel = psutil.Process(lab.ask("__import__('os').getpid()"))
    before = kernel.children(recursive=True)
    lab.start("hang")
    lab.wait(lambda: lab.outputs("hang").count("waiting") == 4, "output of all four ranks")
    ranks = [process for process in kernel.children(recursive=True) if process not in before]
    assert len(ranks) >= 4
    return ranks


def assert_goes_on(lab: LabPage, ranks: list[psutil.Process], *cells: str) -> None:
    """The ranks are gone, and a next launch returns."""
    _, left = psutil.wait_procs(ranks, timeout=10)
    assert not left
    lab.run(*cells)
    lab.wait(lambda: "the ranks [0, 1, 2, 3]" in lab.outputs("go"), "next launch")


@pytest.mark.parametrize("by", ["button", "keys"])
def test_a_hung_launch_is_interrupted_and_the_notebook_goes_on(lab: LabPage, by: str) -> None:
    ranks = hang(lab)
    if by == "button":
        lab.page.get_by_role("button", name="Interrupt the kernel").click()
    else:
        lab.page.keyboard.press("Escape")
        lab.page.keyboard.type("ii")
    lab.wait(lambda: lab.ended, "end of the cell")
    assert "RanksInterrupted" in lab.outputs("hang")
    assert_goes_on(lab, ranks, "go")


def test_a_restart_in_the_middle_of_a_launch_leaves_no_rank(lab: LabPage) -> None:
    ranks = hang(lab)
    lab.page.get_by_role("button", name="Restart the kernel", exact=True).click()
    lab.page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    lab.wait(lambda: lab.ended, "end of the cell")
    assert_goes_on(lab, ranks, "setup", "go")
