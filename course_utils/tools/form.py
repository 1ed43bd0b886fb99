"""The form of a chapter: ``findings(path)`` says in plain English what a notebook does not keep to.

The rules on a chapter's build stand here; those on its text, its outputs, and on what the student does
stand in form_text, form_outputs and form_learning.
"""

import ast
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_utils.tools import form_learning, form_outputs, form_text
from course_utils.tools.form_text import ENDING, code_cells, headings, parsed, prose, tags

CHAPTERS = (
    "00_start_here",
    "01_one_process",
    "02_gradient_equivalence",
    "03_process_groups",
    "04_collectives",
    "05_ddp",
    "06_distributed_sampler",
    "07_lr_scaling",
    "08_metrics_and_checkpoints",
    "09_zero_memory",
    "10_sharded_optimizer",
    "11_fsdp",
    "12_activation_checkpointing",
    "13_ring_all_reduce",
    "14_communication_cost",
    "15_tensor_parallel",
    "16_pipeline_bubbles",
    "17_profiling",
    "18_debugging_hangs",
    "19_clusters",
    "20_choosing_a_plan",
)
TAGS = (
    "setup",
    "predict",
    "figure",
    "panel",
    "exercise",
    "check",
    "claim",
    "long",
    "gpu",
    "hide-input",
    "raises-exception",
    "nbval-ignore-output",
)
SLIDES = ("slide", "subslide", "fragment", "notes", "skip")
MAX_BYTES = 2**20

# A chapter may be excused from a rule by its name, with the reason. 00 is a tour of ten minutes.
EXCUSED = {
    "00": {
        "builds_on": "there is nothing before it",
        "sections": "its stations are shorter and fewer than a chapter's sections",
        "ending": "it measures the machine and no subject, so it has no table of claims and no sources",
        "exercise_count": "one exercise shows how exercises work",
        "claims": "it shows how the course works and claims nothing about a subject",
        "faults": "it has no claims",
    },
    "18": {"exercise_count": "five short programs to mend"},
}


def valid(nb: NotebookNode) -> list[str]:
    """Format 4.5, valid by nbformat's own schema, with at least one cell."""
    if (nb.nbformat, nb.nbformat_minor) != (4, 5):
        return [f"notebook: format {nb.nbformat}.{nb.nbformat_minor}, not 4.5; run refresh"]
    try:
        nbformat.validate(nb)
    except nbformat.ValidationError as error:
        return [f"notebook: not valid ({str(error).splitlines()[0]})"]
    return [] if nb.cells else ["notebook: no cells"]


def metadata(nb: NotebookNode) -> list[str]:
    """Only kernelspec, title, tags, slideshow, source_hidden; the kernel is python3; the tags are known."""
    found = [
        f"notebook: metadata '{key}'; run refresh"
        for key in nb.metadata
        if key not in ("kernelspec", "title")
    ]
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("notebook: the kernel is not named python3; run refresh")
    for cell in nb.cells:
        extra = [key for key in cell.metadata if key not in ("tags", "slideshow", "jupyter")]
        extra += [f"jupyter.{key}" for key in cell.metadata.get("jupyter", {}) if key != "source_hidden"]
        found += [f"{cell.id}: metadata '{key}'; run refresh" for key in extra]
        found += [f"{cell.id}: the tag '{tag}' is not in use" for tag in tags(cell) if tag not in TAGS]
        if cell.metadata.get("slideshow", {}).get("slide_type") not in SLIDES:
            found.append(f"{cell.id}: no slide type (one of {', '.join(SLIDES)})")
    return found


def ids(nb: NotebookNode) -> list[str]:
    """Cell ids are unique and in words: ring-run, ex-1-check."""
    found, seen = [], set()
    for cell in nb.cells:
        if cell.id in seen:
            found.append(f"{cell.id}: this id is used twice")
        seen.add(cell.id)
        parts = cell.id.split("-")
        wordy = re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cell.id) and any(
            re.fullmatch(r"[a-z]{2,}", p) for p in parts
        )
        random = any(re.fullmatch(r"(?=.*\d)[0-9a-f]{6,}", part) for part in parts)
        if not wordy or random:
            found.append(f"{cell.id}: an id is lower-case words joined by hyphens")
    return found


def counts(nb: NotebookNode) -> list[str]:
    """Execution counts 1 to n: nbval compares nothing in a cell without one. No empty cells, no raw ones."""
    found = [f"{cell.id}: an empty cell" for cell in nb.cells if not cell.source.strip()]
    found += [f"{cell.id}: a raw cell" for cell in nb.cells if cell.cell_type == "raw"]
    if not any(cell.execution_count for cell in code_cells(nb)):
        return [*found, "notebook: never executed; run refresh"]
    for expected, cell in enumerate(code_cells(nb), 1):
        if cell.execution_count != expected:
            found.append(
                f"{cell.id}: execution count {cell.execution_count} instead of {expected}; run refresh"
            )
    return found


def lengths(nb: NotebookNode) -> list[str]:
    """Half of the code cells have at most 5 lines, nine in ten 15, all 25; one `long` up to 45."""
    found, cells = [], code_cells(nb)
    lines = {cell.id: len(cell.source.strip().splitlines()) for cell in cells}
    for cell in cells:
        limit = 45 if "long" in tags(cell) else 25
        if lines[cell.id] > limit:
            found.append(f"{cell.id}: {lines[cell.id]} lines, more than {limit}")
    if len(code_cells(nb, "long")) > 1:
        found.append("notebook: more than one cell is tagged long")
    for limit, share in ((5, 0.5), (15, 0.9)):
        short = sum(length <= limit for length in lines.values())
        if short < share * len(cells):
            found.append(
                f"notebook: {short} of {len(cells)} code cells have at most {limit} lines, {share:.0%} must"
            )
    return found


def title(nb: NotebookNode) -> list[str]:
    """The first cell: `# NN · Title`, a question, 3 to 5 abilities, minutes, what it needs."""
    first = nb.cells[0] if nb.cells else None
    if first is None or first.cell_type != "markdown" or not re.match(r"# \d\d · \S", first.source):
        return ["notebook: the first cell is markdown and begins with '# NN · Title'"]
    found, abilities = [], len(re.findall(r"^\s*[-*] ", first.source, re.MULTILINE))
    if "?" not in prose(first.source):
        found.append(f"{first.id}: the question that the chapter answers is missing")
    if not 3 <= abilities <= 5:
        found.append(f"{first.id}: {abilities} things the reader can do afterwards, not 3 to 5")
    if not re.search(r"\d+ minutes", first.source):
        found.append(f"{first.id}: the minutes are missing ('75 minutes')")
    if not re.search(r"\bneeds?\b", first.source, re.IGNORECASE) or not re.search(r"CPU|core", first.source):
        found.append(f"{first.id}: what it needs is missing ('Needs a CPU with 2 cores; ...')")
    return found


def builds_on(nb: NotebookNode) -> list[str]:
    """The first cell says what the chapter builds on, with links."""
    line = re.search(r"^.*\bbuilds on\b.*$", nb.cells[0].source, re.IGNORECASE | re.MULTILINE)
    return [] if line and "](" in line[0] else [f"{nb.cells[0].id}: 'Builds on' with links is missing"]


def setup(nb: NotebookNode) -> list[str]:
    """The first code cell is the setup: imports, seeds, settings of printing, at most 10 lines."""
    cells = code_cells(nb)
    if not cells or [cell.id for cell in code_cells(nb, "setup")] != [cells[0].id]:
        return ["notebook: the first code cell, and only it, is tagged setup"]
    first, found = cells[0], []
    if any(level == 2 and index < nb.cells.index(first) for index, level, _ in headings(nb)):
        found.append(f"{first.id}: the setup stands before the first section")
    if len(first.source.strip().splitlines()) > 10:
        found.append(f"{first.id}: the setup has more than 10 lines")
    for node in (parsed(first) or ast.Module([])).body:
        text = ast.unparse(node)
        if not isinstance(node, ast.Import | ast.ImportFrom) and not re.search(
            r"seed|rng|Generator|\.set_", text
        ):
            found.append(f"{first.id}: the setup holds imports and seeds only, not '{text.splitlines()[0]}'")
    return found


def _sections(nb: NotebookNode) -> list[tuple[str, list[NotebookNode]]]:
    """Heading and cells of each part between two headings of the second level."""
    marks = [(index, text) for index, level, text in headings(nb) if level == 2]
    ends = [*marks, (len(nb.cells), "")]
    return [(text, nb.cells[index:end]) for (index, text), (end, _) in pairwise(ends)]


def _is_ending(heading: str) -> bool:
    return heading.lower().startswith(tuple(name.lower() for name in ENDING))


def sections(nb: NotebookNode) -> list[str]:
    """Five to nine sections, each marked core or optional, which run something and say what happened."""
    parts = [(text, cells) for text, cells in _sections(nb) if not _is_ending(text)]
    found = [] if 5 <= len(parts) <= 9 else [f"notebook: {len(parts)} sections, not 5 to 9"]
    for text, cells in parts:
        below = cells[0].source.partition(text)[2].strip()
        marked = re.search(r"\b(core|optional)\b", text, re.I) or re.match(
            r"[*_(]*(core|optional)\b", below, re.I
        )
        if not marked:
            found.append(f"{cells[0].id}: the section '{text}' is not marked core or optional")
        kinds = [cell.cell_type for cell in cells]
        if "code" not in kinds:
            found.append(f"{cells[0].id}: the section '{text}' runs nothing")
        elif "markdown" not in kinds[kinds.index("code") :]:
            found.append(f"{cells[0].id}: the section '{text}' does not say what happened")
    return found


def ending(nb: NotebookNode) -> list[str]:
    """The parts after the sections are there, in order, and the failures and the measurements really run."""
    names = [text.lower() for _, level, text in headings(nb) if level in (2, 3)]
    found, at = [] if code_cells(nb, "panel") else ["notebook: no cell is tagged panel"], -1
    for name in ENDING:
        places = [index for index, text in enumerate(names) if text.startswith(name.lower())]
        if not places:
            found.append(f"notebook: the part '{name}' is missing")
        elif places[-1] < at:
            found.append(f"notebook: the part '{name}' stands too early (order: {', '.join(ENDING)})")
        at = max([at, *places[-1:]])
    for text, cells in _sections(nb):
        if text.lower().startswith(("when it goes wrong", "what we measured")) and not code_cells(
            nbformat.from_dict({"cells": cells})
        ):
            found.append(f"{cells[0].id}: '{text}' runs nothing")
    return found


def place(nb: NotebookNode, path: Path) -> list[str]:
    """The file bears one of the fixed names, its number stands in the title, and it is not too large."""
    found = [] if path.stem in CHAPTERS else [f"notebook: {path.stem} is not a chapter's name"]
    if nb.cells and not nb.cells[0].source.startswith(f"# {path.name[:2]} · "):
        found.append(f"{nb.cells[0].id}: the title does not bear the file's number {path.name[:2]}")
    if path.stat().st_size > MAX_BYTES:
        found.append(f"notebook: {path.stat().st_size / 2**20:.1f} MB, more than 1")
    return found


def faults(nb: NotebookNode, path: Path) -> list[str]:
    """The chapter has planted faults, in tests/faults_NN.py."""
    file = path.parent.parent / "tests" / f"faults_{path.name[:2]}.py"
    return [] if file.is_file() else [f"notebook: no planted faults (tests/{file.name})"]


Rule = Callable[[NotebookNode], list[str]]
RULES: list[Rule] = [
    *(ids, metadata, counts, lengths, title, builds_on, setup, sections, ending),
    *(form_learning.predictions, form_learning.tagged, form_learning.exercises, form_learning.exercise_count),
    *(form_text.words, form_text.python, form_text.language, form_outputs.stable, form_outputs.errors),
    *(form_outputs.claims, form_outputs.pictures, form_outputs.ignored),
]
# A concept test is no chapter: it keeps to the rules on cells, text and outputs.
CONCEPT_TEST_RULES: list[Rule] = [
    *(ids, metadata, counts, form_text.words, form_text.python, form_text.language),
    *(form_outputs.stable, form_outputs.errors, form_outputs.pictures, form_outputs.ignored),
]


def findings(path: Path) -> list[str]:
    """All that the notebook at ``path`` does not keep to, a sentence each; empty where all is well."""
    nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    if broken := valid(nb):
        return broken  # the other rules need ids and cells
    if path.stem.startswith("concepts_"):
        found = [finding for rule in CONCEPT_TEST_RULES for finding in rule(nb)]
        return found + form_text.links(nb, path.parent)
    excused = EXCUSED.get(path.name[:2], {})
    found = [finding for rule in RULES if rule.__name__ not in excused for finding in rule(nb)]
    for rule in (place, faults):
        found += [] if rule.__name__ in excused else rule(nb, path)
    return found + form_text.links(nb, path.parent)
