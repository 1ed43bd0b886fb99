"""Planted faults: a claim must be able to be false, so each chapter is run with named mistakes put into it.

``tests/faults_NN.py`` holds a list ``FAULTS`` of at least three ``Fault``s.
"""

import copy
import importlib.util
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from course_utils.tools.form_outputs import output_texts
from course_utils.tools.form_text import tags
from course_utils.tools.run import ROOT, CellFailure, execute, read, scratch

AT_LEAST = 3
SKIPPED = {"exercise", "check", "panel", "figure"}  # no claim depends on them
TRUE, FALSE = re.compile(r"\bTrue\b"), re.compile(r"\bFalse\b")


@dataclass(frozen=True)
class Fault:
    """A mistake, named after itself (forgot_to_divide), and the claim that must notice it.

    In the cell with the id ``cell``, the text ``find``, which stands there exactly once, becomes ``replace``;
    then the cell with the id ``claim`` has to print False.
    """

    name: str
    cell: str
    find: str
    replace: str
    claim: str


def load(notebook: Path, folder: Path = ROOT / "tests") -> list[Fault]:
    """The faults of a chapter, from ``folder``. Raises FileNotFoundError where it has none."""
    file = folder / f"faults_{notebook.name[:2]}.py"
    if not file.is_file():
        raise FileNotFoundError(f"{notebook.name} has no planted faults: write {file.name} in tests/")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FAULTS


def problems(nb: NotebookNode, faults: list[Fault]) -> list[str]:
    """What keeps these faults from being planted and noticed, seen without running anything."""
    order = {cell.id: index for index, cell in enumerate(nb.cells) if cell.cell_type == "code"}
    found = [] if len(faults) >= AT_LEAST else [f"{len(faults)} faults, at least {AT_LEAST} are due"]
    names = [fault.name for fault in faults]
    found += [f"{name}: two faults of this name" for name in sorted(set(names)) if names.count(name) > 1]
    for fault in faults:
        missing = [name for name in (fault.cell, fault.claim) if name not in order]
        if missing:
            found.append(f"{fault.name}: no code cell '{missing[0]}'")
            continue
        cell, claim = nb.cells[order[fault.cell]], nb.cells[order[fault.claim]]
        if (times := cell.source.count(fault.find)) != 1 or fault.find == fault.replace:
            found.append(f"{fault.name}: {fault.find!r} stands {times} times in '{fault.cell}', not once")
        if "claim" not in tags(claim) or order[fault.claim] < order[fault.cell]:
            found.append(f"{fault.name}: '{fault.claim}' is not a cell tagged claim after '{fault.cell}'")
        stored = "\n".join(output_texts(claim))
        if not TRUE.search(stored) or FALSE.search(stored):
            found.append(f"{fault.name}: '{fault.claim}' does not print True without the fault")
    return found


def planted(nb: NotebookNode, fault: Fault) -> NotebookNode:
    """A copy of the notebook with the fault in it, cut after the claim, without cells no claim depends on."""
    nb = copy.deepcopy(nb)
    kept = _kept(nb, [fault])
    last = next(index for index, cell in enumerate(kept) if cell.id == fault.claim)
    nb.cells = [_with(cell, fault) for cell in kept[: last + 1]]
    return nb


def noticed(notebook: Path, fault: Fault, timeout: int = 120) -> tuple[bool, str]:
    """Run the notebook with the fault planted: whether the claim printed False, and all that it printed.

    Runs in a scratch folder; ``timeout`` is in seconds and for one cell. Raises CellFailure where a cell
    fails: then the fault is loud, and the claim proves nothing.
    """
    with scratch(notebook) as copied:
        nb = planted(read(copied), fault)
        execute(nb, copied.parent, timeout)
    text = "\n".join(output_texts(nb.cells[-1]))
    return bool(FALSE.search(text)), text


def noticed_in_turn(notebook: Path, faults: list[Fault], timeout: int = 120) -> dict[str, str]:
    """All faults in one run of the notebook: what the claim printed, for those that it noticed.

    After a claim come its faults, that in the last cell first: each time the cells from the fault's to the
    claim with the fault in them, which makes good the fault before, and in the end the same cells as they
    stand. A fault counts as noticed where the claim printed False with it and, in the end, True again.
    Whatever else happened (a cell failed, or could not be run twice) says nothing: ask ``noticed`` for the
    faults that are missing here.
    """
    with scratch(notebook) as copied:
        nb = read(copied)
        kept = _kept(nb, faults)
        order = {cell.id: index for index, cell in enumerate(kept)}
        runs, with_fault, without = [], {}, {}  # a fault's name, a claim → where in runs the claim is
        for cell in kept[: 1 + max(order[fault.claim] for fault in faults)]:
            runs.append(copy.deepcopy(cell))
            between = []
            its_own = [fault for fault in faults if fault.claim == cell.id]
            for fault in sorted(its_own, key=lambda fault: order[fault.cell], reverse=True):
                between = kept[order[fault.cell] : order[cell.id] + 1]
                runs += [_with(again, fault) for again in between]
                with_fault[fault.name] = len(runs) - 1
            runs += copy.deepcopy(between)
            without[cell.id] = len(runs) - 1
        for index, cell in enumerate(runs):
            cell.id, cell.outputs = f"run-{index}", []
        nb.cells = runs
        with suppress(CellFailure):
            execute(nb, copied.parent, timeout)
    texts = ["\n".join(output_texts(cell)) for cell in runs]
    found = {}
    for fault in faults:
        printed, in_the_end = texts[with_fault[fault.name]], texts[without[fault.claim]]
        if FALSE.search(printed) and TRUE.search(in_the_end) and not FALSE.search(in_the_end):
            found[fault.name] = printed
    return found


def _kept(nb: NotebookNode, faults: list[Fault]) -> list[NotebookNode]:
    """The code cells without those that no claim depends on."""
    named = {name for fault in faults for name in (fault.cell, fault.claim)}
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    return [cell for cell in code if cell.id in named or not SKIPPED & set(tags(cell))]


def _with(cell: NotebookNode, fault: Fault) -> NotebookNode:
    """A copy of the cell; where it is the fault's, the fault is in it."""
    cell = copy.deepcopy(cell)
    if cell.id == fault.cell:
        cell.source = cell.source.replace(fault.find, fault.replace)
    return cell
