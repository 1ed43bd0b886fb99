"""Work that many tests wait for, done a few at a time."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def ahead(
    session: pytest.Session,
    test: str,
    work: Callable[..., Any],
    arguments: Callable[[dict[str, Any]], tuple],
    at_a_time: int,
) -> Iterator[dict[tuple, Future]]:
    """Do the work of the selected cases of ``test``, ``at_a_time``, in other processes, in the tests' order.

    In such tests ranks mostly wait, for each other or until a wrong answer's time is up. ``arguments`` makes
    those of ``work`` of a case's parameters; the futures are given by them.
    """
    cases = [item.callspec.params for item in session.items if getattr(item, "originalname", "") == test]
    with ProcessPoolExecutor(at_a_time, multiprocessing.get_context("spawn")) as pool:
        try:
            yield {given: pool.submit(work, *given) for given in dict.fromkeys(map(arguments, cases))}
        finally:
            pool.shutdown(cancel_futures=True)
