"""pytest for the whole repository; in tests/, `pytest notebooks/...` would know nothing of it."""

from collections import Counter
from pathlib import Path

import pytest

LEFT_OUT = pytest.StashKey[int]()
# A chapter has 60 seconds on two cores that do nothing else; one that takes twice that has grown too long.
LIMIT = 120.0


class NotebookSeconds:
    """What each notebook took, told at the end; one beyond the limit fails the run. A limit of 0 is none."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seconds: Counter[str] = Counter()

    @property
    def too_long(self) -> list[str]:
        return [name for name, seconds in self.seconds.items() if 0 < self.limit < seconds]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = Path(report.location[0])
        if path.suffix == ".ipynb":
            self.seconds[path.stem] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.too_long and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.seconds:
            told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.seconds.items())
            terminalreporter.write_line(f"seconds by notebook: {told}")
        for name in self.too_long:
            terminalreporter.write_line(f"FAILED {name}: took more than {self.limit:g} seconds", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="also run what needs a browser, system packages or a long time"
    )
    parser.addoption(
        "--seconds", type=float, default=LIMIT, help="a notebook that takes longer fails the run; 0: no limit"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotebookSeconds(config.option.seconds))
    # pyproject names the file from the root; nbval would look for it in the folder that pytest was started in
    given = config.option.nbval_sanitize_with
    if given and (config.rootpath / given).is_file():
        config.option.nbval_sanitize_with = str(config.rootpath / given)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.all:
        return
    left_out = [item for item in items if item.get_closest_marker("all")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("all")]
        config.stash[LEFT_OUT] = len(left_out)


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    number = config.stash.get(LEFT_OUT, 0)
    return f"left out: {number}, which --all runs too (browser, system packages, long)" if number else ""
