"""Chapter 19 on a network of hosts: train_ddp.sbatch under a real Slurm, torchrun by hand, and failures."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import hosts as network
import pytest
import slurm_cluster
from hosts import HEAD, ROOT, HostError, Hosts
from slurm_cluster import SlurmCluster

from course_utils import launch
from course_utils.datasets import table

pytestmark = pytest.mark.all

SCRIPTS = ROOT / "notebooks" / "scripts"
STEPS = 6
ROWS = {row["name"]: row for row in table("batch_files")}  # what chapter 19 prints
NAMES = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS")
TORCHS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TELL = "echo $(hostname) " + " ".join(f"${{{name}-unset}}" for name in [*NAMES, *TORCHS])


def surroundings() -> dict[str, list[str]]:
    """What hosts could leave on the machine: mounts, network devices, files where programs keep state."""
    of_slurm = [Path(name) for name in ("/etc/slurm", "/var/lib/slurm", "/var/log/slurm")]
    of_all = [Path(name) for name in ("/run", "/dev/shm", tempfile.gettempdir())]
    words = ("slurm", "node", "left")  # other programs come and go there
    return {
        "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
        "devices": [name for _, name in socket.if_nameindex()],
        "name": [socket.gethostname()],
        "files": sorted(str(path) for place in [*of_slurm, SCRIPTS] for path in place.glob("[!_]*")),
        "temporary": sorted(
            path.name for place in of_all for path in place.iterdir() if path.name.startswith(words)
        ),
    }


def namespaces(hosts: Hosts) -> set[str]:
    return {name for host in [HEAD, *hosts.names] for name in hosts.namespaces(host).values()}


@pytest.fixture(scope="module")
def machines() -> Iterator[Hosts]:
    """Three hosts, with the scripts of the course in their working folder."""
    if reason := network.missing():
        pytest.skip(reason)
    before = surroundings()
    with network.hosts(3) as opened:
        names = namespaces(opened)
        for script in SCRIPTS.iterdir():
            if script.is_file():
                shutil.copy(script, opened.folder / "work")
        yield opened
    assert network.left(names) == []
    assert not opened.folder.exists()
    assert surroundings() == before


@pytest.fixture(scope="module")
def cluster(machines: Hosts) -> SlurmCluster:
    """Slurm on the three hosts."""
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    with slurm_cluster.slurm(machines) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_job_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Jobs that a test leaves, because they wait for ever or because it failed, are ended."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").cancel_all()


@pytest.fixture(scope="module")
def losses_of_launch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of train_ddp.train on so many ranks, which launch() starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        from train_ddp import train

        def losses(world_size: int) -> list[float]:
            folder = str(tmp_path_factory.mktemp("checkpoints"))
            results = launch(train, STEPS, folder, world_size=world_size, init=False, backend="gloo")
            return results[0]["losses"]

        first = str(tmp_path_factory.mktemp("first"))
        launch(train, 1, first, world_size=1, init=False)  # the next launch then has the imports of DDP
        yield losses


def batch(cluster: SlurmCluster, name: str, *lines: str) -> Path:
    path = cluster.hosts.folder / "work" / f"{name}.sbatch"
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    return path


def said(output: str) -> list[dict[str, str | int]]:
    """What hello_ranks.py printed: a line of JSON a rank."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def is_launcher(line: list[str]) -> bool:
    return "python" in line[0] and any(word.endswith(("/torchrun", "torch.distributed.run")) for word in line)


def is_rank(line: list[str]) -> bool:
    return "python" in line[0] and not is_launcher(line) and any(word.endswith(".py") for word in line)


class Watch:
    """All launchers and ranks that were seen on the hosts, by number of process."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.launchers: dict[int, list[str]] = {}
        self.ranks: dict[int, list[str]] = {}

    def look(self) -> None:
        running = self.hosts.processes()
        for number, process in running.items():
            above = running.get(process.parent)
            # a process that a launcher has just forked bears the launcher's command line for a moment
            if is_launcher(process.line) and not (above and is_launcher(above.line)):
                self.launchers[number] = process.line
            elif is_rank(process.line):
                self.ranks[number] = process.line

    def until(self, done: Callable[[], bool], timeout: float = 180.0) -> bool:
        """Look on until it is done; False where it is not after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                return False
            self.look()
            time.sleep(0.3)
        return True


def test_the_batch_file_trains_on_three_hosts_and_its_losses_are_those_of_launch(
    cluster: SlurmCluster, losses_of_launch: Callable[[int], list[float]]
) -> None:
    work = cluster.hosts.folder / "work"
    watch, job = Watch(cluster.hosts), cluster.submit(work / "train_ddp.sbatch", "--steps", str(STEPS))
    assert watch.until(lambda: cluster.ended(job)), cluster.output(job)
    output = cluster.completed(job)
    result = json.loads((work / f"train_ddp-{job}.json").read_text())
    places = result["ranks"]
    assert [place["rank"] for place in places] == list(range(12)), output
    assert {place["world_size"] for place in places} == {12}
    assert [place["local_rank"] for place in places] == [0, 1, 2, 3] * 3
    assert sorted({place["host"] for place in places}) == cluster.hosts.names
    assert (len(watch.launchers), len(watch.ranks)) == (
        ROWS["right"]["launchers"],
        ROWS["right"]["processes"],
    )
    for node in range(3):
        assert len({place["host"] for place in places if place["node"] == node}) == 1
    assert len([line for line in output.splitlines() if line.startswith("rank ")]) == 12, output
    assert result["begun"] == 0
    assert result["losses"] == pytest.approx(losses_of_launch(12), abs=1e-12)
    assert cluster.steps() == []


def test_a_killed_rank_is_started_again_on_all_hosts_and_the_losses_are_those_of_launch(
    cluster: SlurmCluster, losses_of_launch: Callable[[int], list[float]]
) -> None:
    work = cluster.hosts.folder / "work"
    options = ["--nodes=2", "--export=ALL,PROCESSES_PER_NODE=1"]
    arguments = ["--steps", str(STEPS), "--fail-at", "4", "--fail-rank", "1"]
    job = cluster.submit(work / "train_ddp.sbatch", *arguments, options=options)
    output = cluster.completed(job)
    result = json.loads((work / f"train_ddp-{job}.json").read_text())
    assert "exitcode: -9" in output  # torchrun names the signal
    assert result["begun"] == 3  # the checkpoint's step
    assert {place["host"] for place in result["ranks"]} == {"node1", "node2"}
    assert result["losses"] == pytest.approx(losses_of_launch(2), abs=1e-12)


def test_slurm_sets_numbers_of_its_own_and_none_that_torch_reads(cluster: SlurmCluster) -> None:
    path = batch(cluster, "tell", "#SBATCH --nodes=3 --ntasks-per-node=4", TELL, f"srun bash -c '{TELL}'")
    of_the_batch_shell, *of_tasks = cluster.completed(cluster.submit(path)).splitlines()
    unset = ["unset"] * len(TORCHS)
    assert of_the_batch_shell.split() == ["node1", "0", "0", "0", "12", *unset]
    expected = [[f"node{n // 4 + 1}", str(n), str(n % 4), str(n // 4), "12", *unset] for n in range(12)]
    assert sorted(map(str.split, of_tasks), key=lambda words: int(words[1])) == expected


def mark(name: str) -> str:
    """The name of a row as one word of the shell."""
    return re.sub(r"\W+", "_", name)


def submitted(cluster: SlurmCluster, name: str, port: int = 0) -> str:
    """A row of data/batch_files.csv as a job. What it starts bears the row's name; 0: torchrun's own port."""
    row = ROWS[name]
    port_option = f"--master-port={port} " if port else ""
    words = row["command"].replace("train.py", f"{port_option}hello_ranks.py {mark(name)}")
    return cluster.submit(
        batch(
            cluster,
            mark(name),
            f"#SBATCH --nodes={row['nodes']} --ntasks-per-node={row['tasks_per_node']}",
            'export head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            words,
        )
    )


def together(ranks: list[dict[str, str | int]]) -> int:
    """How many ranks stood in the largest group, after what they were told."""
    return max(Counter(rank.get("TORCHELASTIC_RUN_ID") for rank in ranks).values(), default=0)


@pytest.mark.parametrize("name", ["four tasks, standalone", "no launcher", "no launcher but variables"])
def test_a_batch_file_of_the_chapter_starts_what_its_table_says(cluster: SlurmCluster, name: str) -> None:
    row, watch, number = ROWS[name], Watch(cluster.hosts), submitted(cluster, name)
    assert watch.until(lambda: cluster.ended(number)), cluster.output(number)
    job = cluster.wait(number)
    ranks = said(job.output)
    assert len(watch.ranks) == row["processes"], job.output
    assert len(watch.launchers or watch.ranks) == row["launchers"], watch.launchers
    assert together(ranks) == row["together"]
    if name == "no launcher":
        assert (job.state, job.exit_code) == ("FAILED", 1)
        assert job.output.count("environment variable RANK expected, but not set") == 12, job.output
        return
    assert job.state == "COMPLETED", job.output
    group = sorted(str(number) for number in range(row["together"]))
    groups = row["processes"] // row["together"]
    assert sorted(rank["RANK"] for rank in ranks) == sorted(group * groups)
    assert {rank["WORLD_SIZE"] for rank in ranks} == {str(row["together"])}
    assert {rank["sum of ranks"] for rank in ranks} == {sum(map(int, group))}


def test_batch_files_of_the_chapter_that_start_no_rank_beside_one_that_is_right(
    cluster: SlurmCluster,
) -> None:
    wrong = {name: ROWS[name] for name in ("four tasks", "batch shell's node")}
    watch = Watch(cluster.hosts)
    jobs = [submitted(cluster, "four tasks"), submitted(cluster, "batch shell's node", 29502)]

    def dead() -> int:
        return cluster.output(jobs[0]).count("torch.distributed.DistNetworkError")

    assert watch.until(lambda: len(watch.launchers) == 15 and dead() == 9), [*map(cluster.output, jobs)]
    assert "EADDRINUSE" in cluster.output(jobs[0])
    for name, row in wrong.items():
        lines = [line for line in watch.launchers.values() if line[-1] == mark(name)]
        told = [word for line in lines for word in line if word.startswith("--node-rank")]
        assert told == ["--node-rank=0"] * row["launchers"]  # the batch shell has put its own number there

    # The right one begins later and is done: the wrong ones have had all the time that it takes.
    right = submitted(cluster, "the task's node", 29501)
    assert watch.until(lambda: cluster.ended(right)), cluster.output(right)
    ranks, row = said(cluster.completed(right)), ROWS["the task's node"]
    assert sorted(int(rank["RANK"]) for rank in ranks) == list(range(row["processes"]))
    assert together(ranks) == row["together"]
    assert {rank["sum of ranks"] for rank in ranks} == {66}  # 78 for rank + 1
    watch.look()
    assert [line[-1] for line in watch.ranks.values()] == [mark("the task's node")] * 12
    assert not any(map(cluster.ended, jobs)), [*map(cluster.output, jobs)]
    left = Counter(
        process.line[-1] for process in cluster.hosts.processes().values() if is_launcher(process.line)
    )
    assert left == {mark("four tasks"): 3, mark("batch shell's node"): 3}


def test_torchrun_on_two_hosts_without_slurm_has_the_losses_of_launch(
    machines: Hosts, losses_of_launch: Callable[[int], list[float]]
) -> None:
    words = ["torchrun", "--nnodes=2", "--nproc-per-node=2"]
    words += ["--rdzv-backend=c10d", "--rdzv-endpoint=node1:29501"]
    options = ["--steps", str(STEPS), "--checkpoint-dir", "two-hosts", "--out", "two-hosts.json"]
    started = [machines.start(host, [*words, "train_ddp.py", *options]) for host in ("node1", "node2")]
    output = "".join(machines.result(process) for process in started)
    result = json.loads((machines.folder / "work" / "two-hosts.json").read_text())
    assert {place["host"] for place in result["ranks"]} == {"node1", "node2"}, output
    assert [place["local_rank"] for place in result["ranks"]] == [0, 1, 0, 1]
    assert result["losses"] == pytest.approx(losses_of_launch(4), abs=1e-12)


def test_wrong_addresses_of_the_master_fail_in_their_time_and_an_exported_one_is_not_read(
    machines: Hosts,
) -> None:
    def agents(number: int, *options: str, **variables: str) -> list[subprocess.Popen[str]]:
        words = ["env", *(f"{name}={value}" for name, value in variables.items())]
        words += ["torchrun", f"--nnodes={number}", "--nproc-per-node=2", *options]
        return [
            machines.start(host, [*words, f"--node-rank={node}", "hello_ranks.py"])
            for node, host in enumerate(machines.names[:number])
        ]

    # Nobody has the first address; the second is, on each host, that host. All wait at the same time.
    watch, c10d = Watch(machines), "--rdzv-backend=c10d"
    nobody = agents(2, c10d, "--rdzv-endpoint=10.19.0.99:29502", "--rdzv-conf=read_timeout=5")
    itself = agents(2, c10d, "--rdzv-endpoint=127.0.0.1:29503", "--rdzv-conf=join_timeout=5")
    unread = agents(3, MASTER_ADDR="node1")  # torchrun takes 127.0.0.1:29500 on each host
    assert watch.until(lambda: all(process.poll() is not None for process in [*nobody, *itself]))
    for process in nobody:
        with pytest.raises(HostError, match=r"(?s)exit status 1.*RendezvousConnectionError"):
            machines.result(process)
    for process in itself:
        with pytest.raises(HostError, match=r"(?s)exit status 1.*RendezvousTimeoutError"):
            machines.result(process)
    for process in unread:  # they still wait
        assert process.poll() is None
        machines.end(process)
    row = ROWS["exported address"]
    assert (len(watch.launchers), len(watch.ranks)) == (4 + row["launchers"], row["processes"])


SPAWNS = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank):  # as in many tutorials, which are started by: python train.py
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29555"
    with open("spawns.begun", "a") as begun:
        begun.write(f"{rank} ")
    dist.init_process_group("gloo", rank=rank, world_size=4)
    print("they have met", flush=True)

if __name__ == "__main__":
    mp.spawn(work, nprocs=4)
"""


def test_a_program_that_spawns_under_torchrun_waits_without_a_message(machines: Hosts) -> None:
    row, work, watch = ROWS["spawn"], machines.folder / "work", Watch(machines)
    (work / "spawns.py").write_text(SPAWNS)
    (begun := work / "spawns.begun").touch()
    words = str(row["command"]).partition("#")[0].replace("train.py", "spawns.py").split()

    def spawned() -> list[int]:
        """The parent of each spawned process."""
        running = machines.processes().values()
        return [process.parent for process in running if any("spawn_main" in word for word in process.line)]

    def printed() -> list[str]:
        """What was printed, but for c10d's warnings that this network has no name server."""
        lines = output.read_text().splitlines()
        return [line for line in lines if "hostname of the client socket cannot be retrieved" not in line]

    with open(output := work / "spawns.out", "w") as out:
        process = machines.start("node1", words, stdout=out)
    try:
        assert watch.until(lambda: len(begun.read_text().split()) == row["processes"]), printed()
        watch.until(lambda: process.poll() is not None, timeout=3)  # alone, four ranks have met by then
        assert process.poll() is None
        assert printed() == []
        assert (len(watch.launchers), len(watch.ranks)) == (row["launchers"], 4)
        assert Counter(spawned()) == dict.fromkeys(watch.ranks, 4)
        assert sorted(begun.read_text().split()) == sorted("0123" * 4)
    finally:
        machines.end(process)
    assert spawned() == []


def test_nothing_is_left_of_hosts_whose_job_still_runs(cluster: SlurmCluster) -> None:
    assert cluster.steps() == []  # of all that ran in the tests before this one
    before = surroundings()
    with network.hosts(2) as machines, slurm_cluster.slurm(machines) as small:
        names = namespaces(machines)
        hides = "touch /dev/shm/left /run/left; setsid sh -c 'trap \"\" HUP TERM; sleep 600' &"
        job = small.submit(batch(small, "runs", "#SBATCH --nodes=2", hides, "srun sleep 600"))
        deadline = time.monotonic() + 20
        while sum(line[0].endswith("sleep") for line in small.steps()) < 3:
            assert time.monotonic() < deadline, (small.steps(), small.output(job), small.logs())
            time.sleep(0.1)
        assert len(network.left(names, seconds=0)) > 10
    assert network.left(names) == []
    assert not machines.folder.exists()
    assert surroundings() == before


def test_hosts_end_with_the_process_that_started_them(machines: Hosts) -> None:
    code = """
        import time, hosts
        with hosts.hosts(1) as machines:
            machines.start("node1", ["sleep", "600"])
            print(*machines.namespaces("node1").values(), machines.folder, flush=True)
            time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    *names, folder = process.stdout.readline().rstrip("\n").split(" ", len(network.KINDS))
    assert network.left(set(names), seconds=0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert network.left(set(names)) == []
    shutil.rmtree(folder)  # a killed process can't remove its folder
