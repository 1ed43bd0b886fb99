"""A student's notebook, read for grading: its exercise cells, and what of the chapter they need to run.

Nothing of it is executed here. A cell is found by its id, as the chapter has it; whatever else the student
changed, added or removed does not count.
"""

import ast
import re
import symtable
from dataclasses import dataclass, field
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

from course_utils.exercises.solution import statement_text
from course_utils.tools.form_text import tags
from course_utils.tools.run import chapters, read

LARGEST = 10 * 2**20  # bytes: a chapter has at most 1 MB, with its outputs


class Unreadable(ValueError):
    """There is nothing to grade in this file; the message says why."""


@dataclass(frozen=True)
class Task:
    """One exercise as a student handed it in.

    Attributes:
        exercise: its id, such as "13.1".
        name: what the check cell passes to ``check``: a function, a class or a value.
        cells: the sources that define it, the student's cell last, each with the cell's id.
    """

    exercise: str
    name: str
    cells: list[tuple[str, str]]


@dataclass
class Submission:
    """A notebook to grade. ``remarks`` says what was found in it and not taken."""

    tasks: list[Task] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def find(paths: list[Path]) -> list[tuple[str, Path]]:
    """The notebooks in files and folders, sorted, each with a name: its path in the folder without ".ipynb".

    Where there are several, a folder's own name stands before, and a file's folder where names are alike.
    Raises ValueError for a path that does not exist, or where there is no notebook at all.
    """
    found = []
    stems = [path.stem for path in paths if path.is_file()]
    for path in paths:
        if path.is_dir():
            folder = path.resolve()
            base = folder.parent if len(paths) > 1 else folder
            inside = [file for file in folder.rglob("*.ipynb") if not _passed_over(file.relative_to(folder))]
            found += [(file.relative_to(base).with_suffix("").as_posix(), file) for file in sorted(inside)]
        elif path.is_file():
            alike = stems.count(path.stem) > 1
            found.append((f"{path.resolve().parent.name}/{path.stem}" if alike else path.stem, path))
        else:
            raise ValueError(f"{path}: there is no such file or folder")
    if not found:
        raise ValueError(f"no notebooks (*.ipynb) in {', '.join(map(str, paths))}")
    return found


def _passed_over(path: Path) -> bool:
    """Whether it is hidden, or a concept test, which has no exercises."""
    return any(part.startswith(".") for part in path.parts) or path.name.startswith("concepts_part_")


def load(path: Path) -> Submission:
    """Read a submission. Raises Unreadable where it is too large, no notebook, or of no chapter."""
    size = path.stat().st_size
    if size > LARGEST:
        raise Unreadable(f"{size / 2**20:.0f} MB: a submission has at most {LARGEST // 2**20} MB")
    try:
        student = read(path)
        title = str(student.metadata.get("title", ""))
        sources = {cell.get("id", ""): str(cell.source) for cell in student.cells if cell.cell_type == "code"}
    except (ValueError, KeyError, AttributeError) as error:
        raise Unreadable(f"not a notebook ({str(error)[:100]})") from error
    submission = Submission()
    original = [cell for cell in read(_chapter(title, path.name)).cells if cell.cell_type == "code"]
    program = []  # the chapter's code with the student's exercises in it, cell by cell
    for cell in original:
        kind = set(tags(cell))
        source = cell.source
        if "exercise" in kind:
            source = sources.get(cell.id)
            if source is None:
                submission.remarks.append(f"cell '{cell.id}' is missing")
                source = cell.source
        elif "check" in kind:
            if sources.get(cell.id, "").strip() != cell.source.strip():
                submission.remarks.append(f"check cell '{cell.id}' was changed: the chapter's own is used")
            submission.tasks += _tasks(cell.source, program)
            continue
        program.append((cell.id, source, "setup" in kind))
    return submission


def _chapter(*titles: str) -> Path:
    """The chapter that a notebook is a copy of: its title, or else its name, begins with the number."""
    for title in titles:
        if number := re.match(r"\d\d(?=\D)", title):
            try:
                return chapters([number.group()])[0]
            except ValueError:
                continue
    raise Unreadable(
        "it is none of the chapters: neither its title nor its name begins with a chapter's number"
    )


def _tasks(check_cell: str, program: list[tuple[str, str, bool]]) -> list[Task]:
    """A task for each ``check("13.1", name)`` of a check cell."""
    calls = [node for node in ast.walk(ast.parse(check_cell)) if isinstance(node, ast.Call)]
    found = []
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id == "check":
            exercise, answer = call.args
            found.append(Task(exercise.value, answer.id, needed(program, answer.id)))
    return found


def needed(program: list[tuple[str, str, bool]], name: str) -> list[tuple[str, str]]:
    """Of the cells (id, source, whether it is the setup) those statements that ``name`` needs to be defined.

    A chapter measures and draws for half a minute; what an exercise uses of it is a few functions. Kept are,
    in their order, the setup and the last definition of every name that something kept mentions. A cell that
    is no Python is kept whole, where it is the last: running it will say what is wrong with it.
    """
    statements = []  # (cell id, text, bound names, mentioned names, whether it is kept in any case)
    for cell, source, setup in program:
        text = TransformerManager().transform_cell(source)
        try:
            parts = [statement_text(text, node) for node in ast.parse(text).body]
            statements += [(cell, part, *_names(part), setup) for part in parts]
        except (SyntaxError, ValueError):
            statements.append((cell, source, {name} if cell == program[-1][0] else set(), set(), False))
    kept = {index for index, (*_, setup) in enumerate(statements) if setup}
    open_names, seen = [(name, len(statements))], set()
    for index in kept:
        open_names += [(used, len(statements)) for used in statements[index][3]]
    while open_names:
        wanted, before = open_names.pop()
        if (wanted, before) in seen:
            continue
        seen.add((wanted, before))
        definitions = [index for index in range(before) if wanted in statements[index][2]]
        if definitions:
            last = definitions[-1]
            kept.add(last)
            # x = x + 1 needs the x before it; everything else is looked up when it is called
            open_names += [
                (used, last if used == wanted else len(statements)) for used in statements[last][3]
            ]
    cells: dict[str, list[str]] = {}
    for index in sorted(kept):
        cells.setdefault(statements[index][0], []).append(statements[index][1])
    return [(cell, "\n\n\n".join(texts) + "\n") for cell, texts in cells.items()]


def _names(text: str) -> tuple[set[str], set[str]]:
    """The names that a statement of a notebook binds, and those that it or a function in it reads."""
    top = symtable.symtable(text, "cell", "exec")
    bound = {
        symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    used = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    inner = list(top.get_children())
    while inner:
        scope = inner.pop()
        symbols = scope.get_symbols()
        used |= {symbol.get_name() for symbol in symbols if symbol.is_global() and symbol.is_referenced()}
        inner += scope.get_children()
    return bound, used
