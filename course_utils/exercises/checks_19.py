"""Checks of chapter 19: what a process is told, a batch file with four mistakes, and when to save."""

import contextlib
import io
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch.distributed as dist

from course_utils.exercises.batch_19 import submit
from course_utils.exercises.judging import Exercise, compare, plain, reject

# -- 19.1 ----------------------------------------------------------------------------------------------------

_LAYOUTS = {4: [2, 2], 7: [2, 4, 1]}  # by world_size: processes on each node
_ELSEWHERE = ([4, 4, 4], [1, 3], [8])  # asked for, without starting anything
_NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
_NAMES += ("MASTER_ADDR", "MASTER_PORT")


def _right_environment(
    node: int, local_rank: int, hosts: list[str], ranks_a_node: list[int], port: int
) -> dict[str, str]:
    rank, sizes = sum(ranks_a_node[:node]) + local_rank, ranks_a_node
    numbers = (rank, local_rank, node, sum(sizes), sizes[node], len(sizes))
    return dict(zip(_NAMES, map(str, (*numbers, hosts[0], port)), strict=True))


def _questions(world_size: int) -> list[tuple[int, int, list[str], list[int], int]]:
    """Arguments for every process of every layout; the hosts' names say nothing about their order."""
    questions = []
    for sizes in (_LAYOUTS[world_size], *_ELSEWHERE):
        hosts = [f"gpu-{40 - 7 * node}" for node in range(len(sizes))]
        questions += [
            (node, local, hosts, sizes, 20_000 + sum(sizes))
            for node, size in enumerate(sizes)
            for local in range(size)
        ]
    return questions


def see_environment(environment: Callable[..., dict[str, str]]) -> dict[str, Any]:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])  # before an answer changes them
    answers = [
        _told(environment(node, local, [*hosts], [*sizes], port))
        for node, local, hosts, sizes, port in _questions(world_size)
    ]
    if answers != [_right_environment(*question) for question in _questions(world_size)]:
        return {"answers": answers, "met": None}  # to meet by wrong numbers would only hang
    sizes = _LAYOUTS[world_size]
    places = [(node, local) for node, size in enumerate(sizes) for local in range(size)]
    for name in _NAMES:
        os.environ.pop(name, None)
    os.environ.update(
        environment(*places[rank], [address, *["elsewhere"] * (len(sizes) - 1)], [*sizes], port)
    )
    dist.init_process_group("gloo")
    met: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(met, dist.get_rank())
    dist.destroy_process_group()
    return {"answers": answers, "met": met}


def _told(answer: Any) -> Any:
    """As JSON, with numbers told apart from their texts, and keys from what is not asked for."""
    if not isinstance(answer, dict):
        return f"a {type(answer).__name__}"
    return {
        str(key): value if isinstance(value, str) else f"{value!r} (no string)"
        for key, value in answer.items()
    }


_ENVIRONMENT_HINTS = {
    "RANK": "ranks are numbered through, node after node, and a node before may have more or fewer processes",
    "LOCAL_RANK": "the number on its own node, by which a process picks its GPU",
    "GROUP_RANK": "the group is the node: its number among the nodes",
    "WORLD_SIZE": "all processes on all nodes: the nodes may run different numbers",
    "LOCAL_WORLD_SIZE": "the processes of this node alone",
    "GROUP_WORLD_SIZE": "how many groups there are: one a node",
    "MASTER_ADDR": "all processes must look for the store at one place: on the machine of node 0",
    "MASTER_PORT": "the port that you were given",
}


def decide_environment(seen: list[dict[str, Any]]) -> str:
    world_size = len(seen)
    for question, answer in zip(_questions(world_size), seen[0]["answers"], strict=True):
        node, local, _, sizes, _ = question
        what = f"node {node}, local rank {local}, nodes of {sizes}"
        if not isinstance(answer, dict):
            reject(f"{what}: not a dictionary", expected="a dictionary of eight strings", came=answer)
        right = _right_environment(*question)
        if missing := [name for name in _NAMES if name not in answer]:
            reject(f"{what}: {missing[0]} is missing", expected=list(_NAMES), came=sorted(answer))
        for name, value in right.items():
            came = answer[name]
            if came == f"{value} (no string)" or (came.endswith("(no string)") and came.split()[0].isdigit()):
                hint = "os.environ takes strings only, numbers too"
                reject(f"{what}: {name} is not a string", expected=repr(value), came=came, hint=hint)
            compare(f"{what}: {name}", came, value, hint=_ENVIRONMENT_HINTS[name])
        if more := sorted(set(answer) - set(right)):
            reject(f"{what}: more than was asked for", expected=list(_NAMES), came=more)
    for rank, s in enumerate(seen):
        hint = "the answer must depend on the arguments alone: these ranks had no other variables"
        compare("the ranks that met", s["met"], list(range(world_size)), rank=rank, hint=hint)
    return "ranks that knew these eight variables and nothing else found each other and their numbers."


# -- 19.2 ----------------------------------------------------------------------------------------------------

_CLUSTERS = ((3, 4), (5, 8), (2, 2))  # (nodes, processes on each)
_EMPTY = "empty where it was read: in single quotes the node's shell reads the variable, if it was exported"
_LOCAL = re.compile(r"/(tmp|var/tmp|dev/shm|scratch/local|run|local)(/|$)")


def see_batch_file(batch_file: Callable[[int], str]) -> list[Any]:
    """For each cluster, what srun's stand-in started, with torchrun's own reading of its arguments."""
    seen = []
    for nodes, processes in _CLUSTERS:
        text = batch_file(processes)
        if not isinstance(text, str):
            return [{"text": type(text).__name__}]
        ran = submit(text, nodes)
        calls = [{**call, "read": _read(call)} for call in ran["calls"]]
        for call in calls:
            del call["variables"]
        seen.append({"hosts": ran["hosts"], "calls": calls, "errors": ran["errors"][-400:]})
        if sum(call["name"] == "torchrun" for call in calls) != nodes:
            return seen  # wrong already: larger clusters, or waiting again, would show no more
    again = submit(_queued_again(text), nodes)
    calls = [{"name": call["name"], "read": _read(call)} for call in again["calls"]]
    return [*seen, {"calls": calls, "errors": again["errors"][-400:]}]


def _queued_again(text: str) -> str:
    """The batch file as Slurm starts it once more, on a later day, when the job has lost a node."""
    later = "export SLURM_RESTART_COUNT=1; date() { echo 20991231; }\n"
    return re.sub(r"^(?=[ \t]*[^#\s])", lambda _: later, text, count=1, flags=re.MULTILINE)


def _read(call: dict[str, Any]) -> Any:
    """What torchrun would make of its arguments and of the variables PET_...; its complaint as a text."""
    from torch.distributed.run import get_args_parser  # slow to import, and only a rank needs it

    settings = {key: value for key, value in call["variables"].items() if key.startswith("PET_")}
    if call["name"] != "torchrun":
        return None
    complaint = io.StringIO()
    with mock.patch.dict(os.environ, settings), contextlib.redirect_stderr(complaint):
        try:
            return plain(vars(get_args_parser().parse_args(call["arguments"])))
        except SystemExit:
            return complaint.getvalue().strip().splitlines()[-1].partition(": error: ")[2]


def decide_batch_file(seen: list[Any]) -> str:
    for (nodes, processes), ran in zip(_CLUSTERS, seen[0], strict=False):
        if "text" in ran:
            reject("not a text", expected="the lines of a batch file, as one string", came=ran["text"])
        where = f"{nodes} nodes of {processes} processes"
        calls = [call for call in ran["calls"] if call["name"] == "torchrun"]
        _check_launchers(where, calls, ran, nodes)
        options = [call["read"] for call in calls]
        if broken := next((o for o in options if isinstance(o, str)), None):
            reject(
                f"{where}: torchrun does not understand how it is called: {broken}",
                came=" ".join(calls[0]["arguments"]),
            )
        _check_sizes(where, options, nodes, processes)
        _check_rendezvous(where, options, ran["hosts"], calls)
        folder = _check_script(where, options)
    calls = [call for call in seen[0][-1]["calls"] if call["name"] == "torchrun"]
    options = [call["read"] for call in calls if isinstance(call["read"], dict)]
    again = sorted({_checkpoint_dir(option["training_script_args"]) or "none" for option in options})
    if again != [folder]:
        reject(
            "the checkpoints' folder, after a restart of the job",
            expected=folder,
            came=again or seen[0][-1]["errors"] or "no torchrun was started",
            hint="the file runs again from its first line, and must come to the folder of the first time",
        )
    return "one agent a node, one meeting place that all of them know, one folder that all of them see."


def _check_launchers(where: str, calls: Sequence[dict[str, Any]], ran: dict[str, Any], nodes: int) -> None:
    what = f"{where}: torchrun's on each node"
    wanted, came = dict.fromkeys(ran["hosts"], 1), dict.fromkeys(ran["hosts"], 0)
    for call in calls:
        came[call["host"]] = came.get(call["host"], 0) + 1
    if not calls:
        hint = "srun starts a command on the nodes; the command is torchrun"
        reject(f"{where}: no torchrun was started", came=ran["errors"] or "nothing", hint=hint)
    if sum(came.values()) == 1 < nodes:
        hint = "the batch file runs once, on the first node: which command brings something to the others?"
        reject(what, expected=list(wanted.values()), came=list(came.values()), hint=hint)
    if came != wanted:
        hint = (
            "srun starts its command once a task, and torchrun starts the processes of its node: count both"
        )
        reject(what, expected=list(wanted.values()), came=list(came.values()), hint=hint)


def _check_sizes(where: str, options: Sequence[dict[str, Any]], nodes: int, processes: int) -> None:
    for option in options:
        hint = "the function's argument says how many processes a node runs"
        compare(
            f"{where}: processes a torchrun starts", str(option["nproc_per_node"]), str(processes), hint=hint
        )
        most = str(option["nnodes"]).split(":")[-1]
        hint = "sbatch --nodes=... takes precedence over the file's own number: ask Slurm how many there are"
        if option["standalone"]:
            hint = "--standalone means: there are no other nodes"
        compare(f"{where}: nodes that torchrun waits for", most, str(nodes), hint=hint)


def _check_rendezvous(
    where: str, options: Sequence[dict[str, Any]], hosts: Sequence[str], calls: Sequence[dict[str, Any]]
) -> None:
    ways = {(option["rdzv_backend"], option["rdzv_id"], option["standalone"]) for option in options}
    if len(ways) > 1:
        hint = "one backend and one id: they are how agents know that they belong together"
        reject(f"{where}: the agents don't look for the same job", came=sorted(map(str, ways)), hint=hint)
    if any(option["standalone"] for option in options):
        reject(f"{where}: each torchrun stands alone", hint="--standalone means: there are no other nodes")
    if options[0]["rdzv_backend"] == "static" and not options[0]["rdzv_endpoint"]:
        _check_static(where, options, calls, hosts)
        return
    endpoints = sorted({option["rdzv_endpoint"] for option in options})
    what = f"{where}: where the agents meet"
    if endpoints == [""]:
        hint = "torchrun reads no MASTER_ADDR; c10d needs an endpoint, host:port, the same for all"
        reject(what, expected=f"{hosts[0]}:port", came="nothing said", hint=hint)
    if len(endpoints) > 1:
        hint = "each names itself: the name has to be found once, by the batch file, and be the same for all"
        if len({endpoint.rpartition(":")[0] for endpoint in endpoints}) == 1:
            hint = "each has another port: choose it once, in the batch file, or from the job's number"
        reject(what, expected="one endpoint", came=endpoints, hint=hint)
    host, _, port = endpoints[0].rpartition(":") if ":" in endpoints[0] else (endpoints[0], "", "29400")
    if host in ("localhost", "127.0.0.1", "::1", "0.0.0.0"):
        reject(
            what, expected=f"{hosts[0]}:port", came=endpoints[0], hint="that is another machine on every node"
        )
    if host not in hosts:
        hint = "the store must be on one of the job's nodes, and the next job gets other nodes"
        if "[" in host or "," in host:
            hint = "that is the list of all nodes: scontrol show hostnames unfolds it, one name a line"
        hint = hint if host else _EMPTY
        reject(what, expected=f"{hosts[0]}:port", came=endpoints[0], hint=hint)
    if not (port.isdigit() and 1024 <= int(port) < 65536):
        reject(what, expected=f"{host}:port, with a port from 1024 to 65535", came=endpoints[0])
    if options[0]["rdzv_backend"] == "static":
        _check_node_ranks(where, options, calls, host)


def _check_static(
    where: str, options: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]], hosts: Sequence[str]
) -> None:
    what = f"{where}: where the agents meet"
    if any(option["master_addr"] == "" for option in options):
        reject(what, expected=hosts[0], came="an empty --master-addr", hint=_EMPTY)
    addresses = sorted({option["master_addr"] or "127.0.0.1" for option in options})
    if addresses != [hosts[0]]:
        hint = "torchrun does not read MASTER_ADDR: each looks at its own 127.0.0.1. Say it as an option"
        hint = hint if addresses == ["127.0.0.1"] else "the machine of node 0 holds the store, for all"
        reject(what, expected=hosts[0], came=addresses, hint=hint)
    _check_node_ranks(where, options, calls, hosts[0])


def _check_node_ranks(
    where: str, options: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]], master: str
) -> None:
    came = [int(option["node_rank"]) for option in options]
    hint = "each node has its own number, 0 the one that holds the store"
    if len(set(came)) == 1:
        hint = (
            "does the variable number nodes? who replaced it? single quotes keep it; c10d needs no node rank"
        )
        if not any(re.match("--node[-_]rank", word) for call in calls for word in call["arguments"]):
            hint = "without --node-rank each torchrun is node 0; with --rdzv-backend=c10d none needs a number"
    if sorted(came) != list(range(len(came))) or calls[came.index(0)]["host"] != master:
        reject(f"{where}: the nodes' numbers", expected=list(range(len(came))), came=came, hint=hint)


def _check_script(where: str, options: Sequence[dict[str, Any]]) -> str:
    """The checkpoints' folder, which is right as far as one start shows."""
    for option in options:
        script, rest = str(option["training_script"]), list(option["training_script_args"])
        if not script.endswith("train_ddp.py"):
            reject(f"{where}: the program", expected="train_ddp.py", came=script)
    given = [_checkpoint_dir(option["training_script_args"]) for option in options]
    what = f"{where}: the checkpoints' folder"
    if None in given:
        reject(what, expected="--checkpoint-dir FOLDER", came=rest, hint="the script asks for it")
    if len(set(given)) > 1:
        hint = "rank 0 writes, all ranks read: one folder for all nodes"
        reject(what, expected="one folder", came=sorted(set(given)), hint=hint)
    if _LOCAL.match(given[0]):
        hint = "every node has a folder of that name of its own; only rank 0's would hold the checkpoint"
        reject(what, expected="a folder that all nodes share", came=given[0], hint=hint)
    return given[0]


def _checkpoint_dir(words: Sequence[str]) -> str | None:
    for word, value in zip(words, [*words, ""][1:], strict=True):
        if word == "--checkpoint-dir" and value:
            return value
        if word.startswith("--checkpoint-dir="):
            return word.partition("=")[2]
    return None


# -- 19.3 ----------------------------------------------------------------------------------------------------

_JOBS = (  # GPUs, hours between failures of one, seconds a save, seconds a step
    (16_384, 50_000.0, 20.0, 4.0),
    (1024, 50_000.0, 60.0, 0.5),
    (8, 20_000.0, 5.0, 0.25),
    (131_072, 40_000.0, 1.5, 90.0),  # a step longer than the best interval
    (2048, 10_000.0, 30.0, 700.0),  # between one step and two: two are better
    (2048, 10_000.0, 30.0, 850.0),  # here one is
)


def _lost(steps: float, gpus: int, hours: float, save: float, step: float) -> float:
    interval, mtbf = steps * step, hours * 3600 / gpus
    return save / interval + interval / 2 / mtbf


def _best_steps(gpus: int, hours: float, save: float, step: float) -> int:
    free = math.sqrt(2 * save * hours * 3600 / gpus) / step
    around = [max(1, math.floor(free)), max(1, math.ceil(free))]
    return min(around, key=lambda steps: _lost(steps, gpus, hours, save, step))


def see_checkpoint_every(checkpoint_every: Callable[..., tuple[int, float]]) -> list[Any]:
    return [checkpoint_every(*job) for job in _JOBS]


def decide_checkpoint_every(seen: list[list[Any]]) -> str:
    for job, answer in zip(_JOBS, seen[0], strict=True):
        gpus, hours, save, step = job
        what = f"{gpus:,} GPUs, {hours:,.0f} h, a save of {save:g} s, steps of {step:g} s"
        if not isinstance(answer, list) or len(answer) != 2:
            reject(f"{what}: two values are asked for", expected="(steps, share lost)", came=answer)
        steps, share = answer
        best = _best_steps(*job)
        if type(steps) is not int:
            hint = "saves happen between steps: a whole number, an int"
            reject(f"{what}: the number of steps", expected=best, came=repr(steps), hint=hint)
        if steps < 1:
            hint = "at most one save a step: never less than 1"
            reject(f"{what}: the number of steps", expected=best, came=steps, hint=hint)
        # A neighbor that loses practically the same is as good: the optimum is flat.
        if _lost(steps, *job) > 1.01 * _lost(best, *job):
            hint = _interval_hint(steps, best, *job)
            reject(f"{what}: the number of steps", expected=best, came=steps, hint=hint)
        hint = "at the interval that you return: a save in each, and half of it computed twice at a failure"
        if abs(share - 100 * _lost(steps, *job)) < 1e-6 * share:
            hint = "a share, between 0 and 1, not a percentage"
        if abs(share - (1 - _lost(steps, *job))) < 1e-6:
            hint = "the share that is lost, not the one that is left"
        compare(f"{what}: the share lost", share, _lost(steps, *job), hint=hint, tolerance=1e-6)
    return "the optimum is flat, but only around the right M: of the whole job, and in the unit of the save."


def _interval_hint(steps: int, best: int, gpus: int, hours: float, save: float, step: float) -> str:
    mtbf = hours * 3600 / gpus
    slips = {
        math.sqrt(2 * save * hours * 3600) / step: "one GPU's time between failures is not the job's",
        math.sqrt(2 * save * hours * 3600 * gpus) / step: "of more GPUs one fails sooner, not later",
        math.sqrt(2 * save * hours / gpus) / step: "hours and seconds meet under the root",
        math.sqrt(2 * save * hours * 60 / gpus) / step: "an hour has 3600 seconds",
        math.sqrt(save * mtbf) / step: "is half of an interval lost at a failure, or all of it?",
        math.sqrt(2 * save * mtbf): "that is in seconds: how many steps are it?",
    }
    near = [text for value, text in slips.items() if abs(steps - value) <= max(1.0, 0.01 * value)]
    # Where steps are long, slips come out alike; then the formula itself is the best advice.
    return (
        near[0]
        if len(near) == 1 and best > 10
        else "which number of steps makes the two losses together smallest?"
    )


EXERCISES = {
    "19.1": Exercise(
        see_environment,
        decide_environment,
        world_sizes=(4, 7),
        timeout_hint="the ranks could not meet by the variables that came back",
        options={"init": False},
    ),
    "19.2": Exercise(
        see_batch_file,
        decide_batch_file,
        world_sizes=(1,),
        timeout_hint="a batch file ends; which command in it waits?",
    ),
    "19.3": Exercise(see_checkpoint_every, decide_checkpoint_every, world_sizes=(1,)),
}
