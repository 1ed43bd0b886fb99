"""A JupyterLab as `lab` starts it, on a free port, for the time of a test."""

import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from course_utils.tools import lab


@contextmanager
def serving(
    folder: Path,
    settings: Path,
    more: tuple[str, ...] = (),
    command: list[str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The running server of ``folder`` and its address as printed; ends it and its kernels.

    ``command`` starts it, if given, in the folder of the repository. It leads a process group of its own.
    ``settings`` is an empty folder for Jupyter's files: a user's own play no part.
    Its kernels know nothing of pytest, under which the course takes no notes.
    JupyterLab prints its address a moment before it listens there, so this waits until it answers.
    """
    kinds = {f"JUPYTER_{kind}_DIR": str(settings / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    log = settings / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command or lab.jupyter(folder, port=0, browser=False, more=list(more)),
            cwd=lab.ROOT,
            stdin=stdin,
            start_new_session=True,
            env=inherited | kinds,
            stderr=errors,
            preexec_fn=None
            if os.name == "nt"
            else lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process,
    ):
        try:
            yield process, _address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> str:
    end = monotonic() + seconds
    while monotonic() < end and process.poll() is None:
        printed = re.search(r"http://127\.0\.0\.1:\S+", log.read_text("utf-8"))
        if printed:
            try:
                urllib.request.urlopen(printed[0], timeout=seconds).close()
            except urllib.error.URLError:
                pass
            else:
                return printed[0]
        sleep(0.05)
    raise AssertionError(
        f"JupyterLab did not answer (exit status {process.poll()}):\n{log.read_text('utf-8')}"
    )
