"""What chapter 00 says of a machine that lacks something, for each thing that may be lacking."""

import os
import re
import socket
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from course_utils import machine
from course_utils.machine import Machine, advice

WELL = Machine(cores=2, free=4 * 2**30, shared=64 * 2**20)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")


def test_a_machine_that_has_all_is_told_nothing() -> None:
    assert advice(WELL) == []
    assert advice(WELL._replace(shared=None)) == []  # no /dev/shm, where the system has none


@pytest.mark.parametrize(
    ("lacks", "says", "does"),
    [
        ({"free": 2**30}, r"Only 1\.0 GiB", "end the kernels of other chapters"),
        ({"cores": 1}, "one core", "more slowly"),
        ({"shared": 0}, "/dev/shm is missing or full", "--shm-size"),
        ({"gloo": False}, "no gloo", r"requirements\.txt"),
        ({"loopback": False}, "firewall stops it", "Let Python"),
        ({"temporary": None}, "No folder for temporary files", "Set TMPDIR"),
        ({"temporary": "/" + 90 * "x"}, "91 characters", "TMPDIR=/tmp"),
        ({"named": False}, "name has no address", "the file hosts"),
        ({"proxy": "http"}, "http_proxy", "NO_PROXY=localhost"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_lacking_is_said_with_what_to_do(lacks: dict, says: str, does: str) -> None:
    found = advice(WELL._replace(**lacks))
    assert len(found) == 1
    assert re.search(f"{says}.*{does}", found[0])


def test_all_of_it_stays_between_the_brackets_of_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (WELL, WELL._replace(cores=1, free=0)):
        monkeypatch.setattr(machine, "look", lambda found=found: found)
        assert re.fullmatch(r"⟨[^⟨⟩]+⟩", machine.to_mend())
    assert machine.to_mend().count("\n") == 1


def test_the_machine_is_seen_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    seen = machine.look()
    assert seen.gloo
    assert seen.loopback
    assert seen.named
    assert seen.proxy == ""
    assert seen.cores <= (os.cpu_count() or 1)

    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert machine.look().proxy == "https"
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert machine.look().proxy == ""

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "nowhere")])
    assert machine.look().temporary is None

    def refuse(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert not machine.look().loopback
    monkeypatch.setattr(socket, "gethostbyname", refuse)
    assert not machine._has_address()


@LINUX
@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_limits_count(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = namedtuple("memory", "available")(8 * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(machine, "_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "_OWN_GROUPS", tmp_path / "own")
    assert (machine.cores(), machine.free_memory()) == (4, 8 * 2**30)  # no such file, as on macOS

    (tmp_path / "own").write_text("4:memory:/a/b\n3:cpu,cpuacct:/a/b\n" if version == 1 else "0::/a/b\n")
    if version == 1:
        limits = {"memory.limit_in_bytes": 2**30, "memory.usage_in_bytes": 3 * 2**28}
        limits |= {"memory.stat": f"total_inactive_file {2**28}"}
        limits |= {"cpu.cfs_quota_us": 150_000, "cpu.cfs_period_us": 100_000}
        none = {"memory.limit_in_bytes": 2**63 - 4096, "memory.usage_in_bytes": 2**20}
        none |= {"memory.stat": "total_inactive_file 0", "cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100_000}
    else:
        limits = {"memory.max": 2**30, "memory.current": 3 * 2**28, "memory.stat": f"inactive_file {2**28}"}
        limits |= {"cpu.max": "150000 100000"}
        none = {"memory.max": "max", "memory.current": 2**20, "memory.stat": "inactive_file 0"}
        none |= {"cpu.max": "max 100000"}
    for group, files in (("a/b", none), ("a", limits)):  # the limit is the parent's, as a pod's is
        for name, value in files.items():
            kind = name.partition(".")[0] if version == 1 else ""
            path = tmp_path / kind / group / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
    assert machine.cores() == 2
    assert machine.free_memory() == 2**29
