"""A real browser: Chromium as the system has it, driven by Playwright."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

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
    problems: list[str] = []
    opened.on("console", lambda message: message.type == "error" and problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    local = ("file:", "data:", "blob:", "http://127.0.0.1", "http://localhost")
    opened.on("request", lambda request: request.url.startswith(local) or problems.append(request.url))
    yield opened
    opened.close()
    assert not problems
