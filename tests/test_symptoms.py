"""The page to print of chapter 18: a run has shown each phrase on it, or a source named here holds it.

`page-claim` compares its list of words with what the programs showed; here the page is compared with
that list.
"""

import ast
import json
import mmap
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.distributed.elastic.multiprocessing import api, errors

from course_utils.tools.run import chapters

# Names of calls, variables and tools: what to type or to search for, and no message.
NAMES = {"if rank == 0", "init_process_group", "new_group", "Join", "timeout=", "work.wait()"}
NAMES |= {"WORLD_SIZE", "dmesg", "monitored_barrier", "SeqNum", "OpType"}


def cells(number: str) -> dict[str, dict]:
    (path,) = chapters([number])
    return {cell["id"]: cell for cell in json.loads(path.read_text("utf-8"))["cells"]}


def source(name: str) -> str:
    return "".join(cells("18")[name]["source"])


def printed(number: str) -> Callable[[str], bool]:
    """Whether the stored outputs of a chapter hold a phrase."""

    def holds(phrase: str) -> bool:
        outputs = [output for cell in cells(number).values() for output in cell.get("outputs", ())]
        texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
        return any(phrase in "".join(text) for text in texts)

    return holds


def torchrun_says(phrase: str) -> bool:
    """In its log of a failed job, or in the summary at the end; an exit code is a %s in the source."""
    said = "".join(Path(module.__file__).read_text("utf-8") for module in (api, errors))
    return phrase.replace("-9", "%s") in said


def gloo_says(phrase: str) -> bool:
    for library in Path(torch.__file__).parent.glob("lib/*torch_cpu.*"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data.find(phrase.encode()) >= 0:
                return True
    return False


def nccl_says(phrase: str) -> bool:
    """In the log that the chapter quotes; the page's … stands for any value."""
    return all(part in source("record-logs") for part in phrase.removesuffix(")").split("…"))


QUOTED = {
    "EADDRINUSE": printed("03"),
    "waits in send": printed("04"),
    "Expected to have finished reduction in the prior iteration": printed("05"),
    "Root Cause": torchrun_says,
    "exitcode: -9": torchrun_says,
    "Connection closed by peer": gloo_says,  # launch shortens it to "lost its peer"
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=…, OpType=…)": nccl_says,
}


def phrases() -> set[str]:
    return {phrase for name in ("page-idea", "page-more") for phrase in re.findall("`([^`]+)`", source(name))}


def claimed() -> set[str]:
    """The words that `page-claim` looks for in what the programs showed."""
    found = [
        node.value
        for node in ast.parse(source("page-claim")).body
        if isinstance(node, ast.Assign | ast.AugAssign) and "words" in ast.unparse(node).split("=")[0]
    ]
    return set("".join(ast.literal_eval(value) for value in found).split("|"))


def test_each_phrase_of_the_page_is_claimed_or_quoted_or_a_name() -> None:
    assert sorted(phrases() - claimed() - set(QUOTED) - NAMES) == []


def test_the_lists_hold_nothing_that_is_not_on_the_page() -> None:
    assert sorted((claimed() | set(QUOTED) | NAMES) - phrases()) == []


@pytest.mark.parametrize("phrase", QUOTED)
def test_a_quoted_phrase_stands_in_its_source(phrase: str) -> None:
    said_by = QUOTED[phrase]
    assert said_by(phrase)
    assert not said_by(phrase.replace("e", "é").replace("E", "É"))
