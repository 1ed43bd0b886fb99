"""pytest for the whole repository; in tests/, `pytest notebooks/...` would know nothing of it."""

import pytest

LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="also run what needs a browser, system packages or a long time"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
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
