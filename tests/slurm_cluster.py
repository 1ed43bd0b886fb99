"""A real Slurm on the hosts of hosts.py: a controller on the head, a slurmd on each host, jobs by sbatch."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hosts import HEAD, HostError, Hosts

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "sinfo", "squeue")
CPUS = 16  # that Slurm believes a host to have; the machine's own few cores compute for all
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")

# No users to protect from each other, and no cgroups: auth/none, cred/none, linuxproc. The hosts have a /run
# of their own, whose paths are short enough for sockets.
CONFIGURATION = """ClusterName=course
SlurmctldHost={head}({address})
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=/run
SlurmdSpoolDir=/run/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/%n.pid
TmpFS={folder}/tmp
KillWait=1
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
{nodes}
PartitionName=course Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def missing() -> str:
    """Which of Slurm's programs are not installed, in words; an empty text where all are."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"no {', '.join(lacking)} (Debian: apt-get install slurmctld slurmd)" if lacking else ""


class JobError(RuntimeError):
    """A job failed or did not end; the text holds its state, its output and the ends of the daemons' logs."""


@dataclass(frozen=True)
class Job:
    """A job that ended: ``state`` as Slurm calls it, its ``exit_code`` and what it printed."""

    state: str
    exit_code: int
    output: str


class SlurmCluster:
    """Slurm's daemons on hosts, and jobs for them."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self._daemons: dict[str, subprocess.Popen[str]] = {}

    def open(self, timeout: float = 30.0) -> None:
        """Start the daemons and wait until all nodes are idle. Raises JobError."""
        folder = self.hosts.folder
        nodes = [
            f"NodeName={name} NodeAddr={self.hosts.addresses[name]} CPUs={CPUS} State=UNKNOWN"
            for name in self.hosts.names
        ]
        text = CONFIGURATION.format(
            head=HEAD, address=self.hosts.addresses[HEAD], folder=folder, nodes="\n".join(nodes)
        )
        (folder / "etc" / "slurm.conf").write_text(text)
        (folder / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for host in [HEAD, *self.hosts.names]:
            program = "slurmctld" if host == HEAD else "slurmd"
            with open(folder / "log" / f"{program}-{host}", "w") as log:
                self._daemons[host] = self.hosts.start(host, [program, "-D"], stdout=log)
        deadline, states = time.monotonic() + timeout, ""
        while states.split() != ["idle"] * len(self.hosts.names):
            ended = [host for host, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise JobError(f"Slurm did not start; ended: {ended}, nodes: {states.split()}\n{self.logs()}")
            time.sleep(0.1)
            with contextlib.suppress(HostError):  # the controller does not answer yet
                states = self.hosts.run(HEAD, ["sinfo", "--noheader", "--Node", "--format=%T"])

    def submit(self, script: Path, *arguments: str, options: Sequence[str] = ()) -> str:
        """Hand a batch file and its arguments to sbatch, with options of sbatch; returns the job's number.

        It is submitted from the folder ``work``; its output goes to slurm-NUMBER.out there. Raises HostError.
        """
        return self.hosts.run(HEAD, ["sbatch", "--parsable", *options, str(script), *arguments]).strip()

    def wait(self, job: str, timeout: float = 180.0) -> Job:
        """The job after its end, whatever became of it. Raises JobError where it is not over in time."""
        deadline = time.monotonic() + timeout
        while not self.ended(job):
            if time.monotonic() > deadline:
                state, reason = (self.field(job, name) for name in ("JobState", "Reason"))
                words = f"job {job} is {state} after {timeout:g} s (reason: {reason})"
                raise JobError(f"{words}\n--- its output\n{self.output(job)}\n{self.logs()}")
            time.sleep(0.3)
        exit_code, _signal = self.field(job, "ExitCode").split(":")
        return Job(self.field(job, "JobState"), int(exit_code), self.output(job))

    def completed(self, job: str, timeout: float = 180.0) -> str:
        """What the job printed. Raises JobError where it failed or is not over in time."""
        ended = self.wait(job, timeout)
        if ended.state != "COMPLETED":
            words = f"job {job}: {ended.state}, exit status {ended.exit_code}"
            raise JobError(f"{words}\n--- its output\n{ended.output}\n{self.logs()}")
        return ended.output

    def cancel_all(self, timeout: float = 60.0) -> None:
        """End all jobs, and wait until their processes are gone from all hosts. Raises JobError."""
        self.hosts.run(HEAD, ["scancel", "--user=root"])
        deadline = time.monotonic() + timeout
        while self.hosts.run(HEAD, ["squeue", "--noheader"]) or self.steps():
            if time.monotonic() > deadline:
                raise JobError(f"jobs could not be ended: {self.steps()}\n{self.logs()}")
            time.sleep(0.1)

    def ended(self, job: str) -> bool:
        """Whether the job is over, whatever became of it."""
        return self.field(job, "JobState") in ENDED

    def steps(self) -> list[list[str]]:
        """The command lines of all processes on the hosts that are not Slurm's own."""
        running = [process for process in self.hosts.processes().values() if process.host != HEAD]
        return [process.line for process in running if not process.line[0].startswith("slurm")]

    def field(self, job: str, name: str) -> str:
        """One field of what ``scontrol show job`` says."""
        words = self.hosts.run(HEAD, ["scontrol", "--oneliner", "show", "job", job]).split()
        return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))

    def output(self, job: str) -> str:
        """What the job has printed so far."""
        path = self.hosts.folder / "work" / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self, lines: int = 15) -> str:
        """The last lines of each daemon's log."""
        parts = []
        for path in sorted((self.hosts.folder / "log").iterdir()):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(parts)


@contextlib.contextmanager
def slurm(hosts: Hosts) -> Iterator[SlurmCluster]:
    """Slurm on hosts that run; its daemons end with them. Raises JobError where it does not start."""
    cluster = SlurmCluster(hosts)
    cluster.open()
    yield cluster
