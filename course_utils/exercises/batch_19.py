"""Run a batch file as Slurm would, on nodes that are not there: what starts where, with which arguments?

``submit`` runs the file in bash. ``srun``, ``scontrol``, ``hostname``, ``torchrun`` and ``python`` are
stand-ins: this file, run as a script. srun starts its command once a task with the variables that Slurm
sets; torchrun and python start nothing and write down how they were called. sbatch and scancel do nothing,
also where there is a real Slurm. Standard library only, since it is started once a task.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SUBMIT_DIR = "/shared/project"  # what the calls show for the folder from which the job was handed in
_STAND_INS = ("srun", "sbatch", "scancel", "scontrol", "hostname", "torchrun", "python", "python3", "module")
_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "w": "nodelist", "J": "job-name", "o": "output"}
_SHORT |= {"e": "error", "t": "time", "p": "partition", "A": "account"}
_WITH_VALUE = {*_SHORT.values(), "ntasks-per-node", "gpus-per-node", "gres", "export", "mem", "jobid", "wait"}


def submit(text: str, nodes: int, timeout: float = 10.0) -> dict[str, Any]:
    """What ``sbatch --nodes=NODES`` of this text would start.

    Returns {"hosts": names of the nodes, "calls": a dictionary for each torchrun or python (name, host,
    arguments, and the environment's variables), "errors": what the shell wrote to stderr}. A file that takes
    longer than ``timeout`` seconds is stopped, and the errors say so.
    """
    hosts = [f"gpu-{number}" for number in range(17, 17 + nodes)]
    asked = _options(_directives(text))[0]
    per_node = int(asked.get("ntasks-per-node", 0))
    total = nodes * per_node if per_node else int(asked.get("ntasks", nodes))
    with tempfile.TemporaryDirectory() as folder:
        for name in _STAND_INS:
            stand_in = Path(folder, "bin", name)
            stand_in.parent.mkdir(exist_ok=True)
            stand_in.write_text(f'#!/bin/sh\nexec "$STAND_IN_PYTHON" -I "$STAND_IN" {name} "$@"\n')
            stand_in.chmod(0o755)
        work = Path(folder, "work")
        work.mkdir()
        (work / "job.sh").write_text(text)
        job = {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "HOME": str(work),
            "USER": "student",
            "HOSTNAME": hosts[0],  # bash keeps what it finds, and srun hands it on, as on a real cluster
            "TMPDIR": "/tmp",
            "SLURM_TMPDIR": "/tmp/slurm.4711",  # what many clusters call a node's own folder
            "STAND_IN": __file__,
            "STAND_IN_PYTHON": sys.executable,
            "STAND_IN_LOG": folder,
            "SLURM_JOB_ID": "4711",
            "SLURM_JOBID": "4711",
            "SLURM_JOB_NODELIST": f"gpu-[17-{16 + nodes}]" if nodes > 1 else "gpu-17",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_SUBMIT_DIR": str(work),
            "SLURM_CPUS_PER_TASK": asked.get("cpus-per-task", "1"),
            **_task(hosts, total, 0),
        }
        job |= {"SLURM_NNODES": job["SLURM_JOB_NUM_NODES"], "SLURM_NODELIST": job["SLURM_JOB_NODELIST"]}
        if per_node:
            job["SLURM_NTASKS_PER_NODE"] = str(per_node)
        errors = _bash(work, job, timeout)
        # The folder's name is a new one every time, and lies below /tmp, as no submit folder does.
        logs = [log.read_text().replace(str(work), SUBMIT_DIR) for log in sorted(Path(folder).glob("*.json"))]
        return {"hosts": hosts, "calls": [json.loads(log) for log in logs], "errors": errors}


def _bash(work: Path, environment: dict[str, str], timeout: float) -> str:
    """Run job.sh; what it wrote to stderr, or why it was stopped."""
    command = ["bash", "job.sh"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    # A session of its own, so that a file that waits for ever is stopped with all that it started.
    with subprocess.Popen(command, cwd=work, env=environment, start_new_session=True, **pipes) as shell:
        try:
            return shell.communicate(timeout=timeout)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, 9)
            return f"it had not ended after {timeout:g} s"


def _directives(text: str) -> list[str]:
    """The words behind #SBATCH, up to the first command: Slurm reads no further."""
    words: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            words += re.sub(r"\s#.*", "", line.removeprefix("#SBATCH")).split()
    return words


def _options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the command behind them."""
    values: dict[str, str] = {}
    words = list(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, equals, value = _SHORT.get(word[1:2], word[1:2]), word[2:], word[2:].removeprefix("=")
        if not equals and name in _WITH_VALUE and words:
            value = words.pop(0)
        values[name] = value
    return values, words


def _task(hosts: list[str], total: int, task: int) -> dict[str, str]:
    """The variables of one of so many tasks, dealt out to the hosts in blocks."""
    places = [number * len(hosts) // max(total, 1) for number in range(total)] or [0]
    node = places[task]
    numbers = {"PROCID": task, "NODEID": node, "LOCALID": task - places.index(node), "NTASKS": total}
    return {f"SLURM_{name}": str(number) for name, number in numbers.items()} | {
        "SLURMD_NODENAME": hosts[node]
    }


def _hosts(nodelist: str) -> list[str]:
    """gpu-[17-19] → gpu-17, gpu-18, gpu-19."""
    found = re.fullmatch(r"(.*)\[(\d+)-(\d+)\]", nodelist)
    if not found:
        return nodelist.split(",")
    return [f"{found[1]}{number}" for number in range(int(found[2]), int(found[3]) + 1)]


def _srun(words: list[str]) -> int:
    options, command = _options(words)
    asked_nodes = options.get("nodes", "1000000").split("-")[-1]  # 2, or 2-2
    hosts = _hosts(options.get("nodelist", os.environ["SLURM_JOB_NODELIST"]))[: int(asked_nodes)]
    per_node = options.get("ntasks-per-node", os.environ.get("SLURM_NTASKS_PER_NODE"))
    asked = int(os.environ["SLURM_NTASKS"])
    total = int(options.get("ntasks", len(hosts) * int(per_node) if per_node else max(asked, len(hosts))))
    # Slurm gives the address of the node where srun runs; here names do for addresses.
    handed = os.environ | {"SLURM_LAUNCH_NODE_IPADDR": os.environ["SLURMD_NODENAME"]}
    codes = [
        subprocess.run(command, env=handed | _task(hosts, total, task), check=False).returncode
        for task in range(total)
    ]
    return max(codes, default=0)


def _write_down(name: str, words: list[str]) -> None:
    call = {
        "name": name,
        "host": os.environ["SLURMD_NODENAME"],
        "arguments": words,
        "variables": dict(os.environ),
    }
    log = Path(os.environ["STAND_IN_LOG"], f"{time.monotonic_ns():020}-{os.getpid()}.json")
    log.write_text(json.dumps(call))


def _main(name: str, *words: str) -> int:
    if name == "srun":
        return _srun(list(words))
    if name == "scontrol" and words[:1] == ("show",) and words[1:2] in (("hostnames",), ("hostname",)):
        print(*_hosts(words[2] if words[2:] else os.environ["SLURM_JOB_NODELIST"]), sep="\n")
    elif name == "hostname":
        print(os.environ["SLURMD_NODENAME"])
    elif name in ("torchrun", "python", "python3"):
        module = list(words[:2]) == ["-m", "torch.distributed.run"]
        _write_down("torchrun" if module else name.rstrip("3"), list(words[2:] if module else words))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
