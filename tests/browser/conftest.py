"""A real browser: Chromium as the system has it, driven by Playwright."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_page import LabPage, watch
from lab_server import serving
from playwright.sync_api import Browser, Page, sync_playwright

from course_utils.tools.lab import ROOT, hand_out

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of 1280 x 720 pixels; errors in its console and requests to the network fail the test."""
    opened = browser.new_page(viewport={"width": 1280, "height": 720})
    problems = watch(opened)
    yield opened
    opened.context.close()
    assert not problems


@pytest.fixture(scope="session")
def my_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's own copy of the course, as `lab` makes it, and a notebook with a launch that hangs."""
    copy = tmp_path_factory.mktemp("student") / "my_course"
    hand_out(ROOT / "notebooks", copy)
    (copy / "hang.ipynb").write_text(json.dumps(HANGING), "utf-8")
    return copy


@pytest.fixture(scope="session")
def address(my_course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a JupyterLab of the student's copy answers; tests may look into its pages."""
    settings = tmp_path_factory.mktemp("settings")
    user = settings / "CONFIG" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
    user.mkdir(parents=True)
    # Else JupyterLab takes cells out of the page that are far out of view.
    (user / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}', "utf-8")
    with serving(my_course, settings, ("--LabApp.expose_app_in_browser=True",)) as (_, printed):
        yield printed


@pytest.fixture
def lab(page: Page, address: str, request: pytest.FixtureRequest) -> Iterator[LabPage]:
    """JupyterLab in ``page``, with no notebook open yet; the one that a test opens is closed."""
    tab = LabPage(page, address, request.node.name.replace("[", "-").strip("]"))
    yield tab
    tab.close()


def _code(name: str, source: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "source": source,
        "execution_count": None,
        "outputs": [],
    }


HANGING = {
    "cells": [
        _code("setup", "import torch, torch.distributed as dist\nfrom course_utils import launch"),
        _code("go", "print('the ranks', launch(dist.get_rank))"),
        _code(
            "hang",
            "def wait_for_nobody():\n"
            "    print('waiting', flush=True)\n"
            "    dist.recv(torch.zeros(1), src=(dist.get_rank() + 1) % 4)\n\n\n"
            "launch(wait_for_nobody, timeout=600, live=True)",
        ),
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
