"""A student's notebook made ready for grading: its exercise cells, and what of the chapter they need to run.

Nothing of it is executed here. An answer is found by its cell's id, as the chapter has it; where that cell is
missing or as it was given, by the name that it defines. Whatever else the student changed does not count.
"""

import ast
import re
import symtable
from dataclasses import dataclass, field
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from course_utils.exercises.solution import statement_text
from course_utils.tools import student_file
from course_utils.tools.form_text import tags
from course_utils.tools.run import chapters, read
from course_utils.tools.student_file import Cell, Unreadable

NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # the last two: nested too deeply


@dataclass(frozen=True)
class Task:
    """One exercise as a student handed it in.

    Attributes:
        exercise: its id, such as "13.1".
        name: what the check cell passes to ``check``: a function, a class or a value.
        cells: the sources that define it, the student's cell last, each with the cell's id; none where the
            notebook has no cell that defines it.
    """

    exercise: str
    name: str
    cells: list[tuple[str, str]]


@dataclass
class Submission:
    """A notebook to grade. ``remarks`` says what is missing in it, or was not taken."""

    chapter: str
    tasks: list[Task] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def load(path: Path) -> Submission:
    """Read a submission. Raises Unreadable where it is too large, no notebook or of no chapter; OSError."""
    title, student = student_file.read(path)
    chapter = _chapter(title, path.name)
    submission = Submission(chapter.name[:2])
    original = [cell for cell in read(chapter).cells if cell.cell_type == "code"]
    program = []  # the chapter's code with the student's exercises in it, cell by cell
    absent, moved, unchecked = set(), {}, []
    for place, cell in enumerate(original):
        kind = set(tags(cell))
        if "exercise" in kind:
            name = _checked(next(later for later in original[place:] if "check" in tags(later)).source)[0][1]
            sources, by_id = _answer(cell, name, student, original)
            if not sources:
                absent.add(name)
                submission.remarks.append(f"cell '{cell.id}' is missing, and no other cell defines {name}")
            elif not by_id:
                moved[name] = cell.id
            program += [(cell.id, source, False) for source in sources or [cell.source]]
        elif "check" in kind:
            copies = [own.source.strip() for own in student if cell.id in own.ids]
            if copies and copies[-1] != cell.source.strip():
                submission.remarks.append(f"check cell '{cell.id}' was changed: the chapter's own is used")
            elif not copies and all(own.source.strip() != cell.source.strip() for own in student):
                unchecked.append(cell.id)
            for exercise, name in _checked(cell.source):
                needs = [] if name in absent else needed(program, name)
                submission.tasks.append(Task(exercise, name, needs))
        else:
            program.append((cell.id, cell.source, "setup" in kind))
    if moved:
        ids, names = ", ".join(moved.values()), ", ".join(moved)
        submission.remarks.append(f"not in {ids}, taken from the cells that define them: {names}")
    if unchecked:
        cells = ", ".join(unchecked)
        submission.remarks.append(f"check cells are missing, the chapter's own are used: {cells}")
    return submission


def _answer(
    stub: NotebookNode, name: str, student: list[Cell], original: list[NotebookNode]
) -> tuple[list[str], bool]:
    """The student's cells that are to stand for ``stub``, and whether that is the cell of its id.

    Where that cell is missing, as in a notebook saved without ids, as it was given, or does not define
    ``name``, the answer may stand in other cells: those that define it and are not the chapter's.
    """
    in_place = [cell.source for cell in student if stub.id in cell.ids][-1:]
    touched = [source for source in in_place if source.strip() != stub.source.strip()]
    if touched and _defines(touched[0], name):
        return touched, True
    given = {cell.source.strip() for cell in original}
    known = {cell.id for cell in original} if in_place else set()
    others = [cell for cell in student if not known & cell.ids and _defines(cell.source, name)]
    written = [cell.source for cell in others if cell.source.strip() not in given]
    if written:
        return touched + written, False
    untouched = [cell.source for cell in others if cell.source.strip() == stub.source.strip()]
    return in_place or untouched[-1:], bool(in_place)


def _defines(source: str, name: str) -> bool:
    try:
        return name in _names(TransformerManager().transform_cell(source))[0]
    except NO_PYTHON:  # running it will say so
        return bool(re.search(rf"^(?:(?:def|class)\s+{name}\b|{name}\s*=)", source, re.MULTILINE))


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


def _checked(check_cell: str) -> list[tuple[str, str]]:
    """Exercise and name for each ``check("13.1", name)`` of a check cell."""
    calls = [node for node in ast.walk(ast.parse(check_cell)) if isinstance(node, ast.Call)]
    return [
        (call.args[0].value, call.args[1].id)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "check"
    ]


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
        except NO_PYTHON:
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
