"""Rules of form for what the student does: predictions, exercises, and the tags of such cells.

A rule takes a notebook and returns its findings, each a sentence that begins with the cell's id.
"""

import ast
import re

import nbformat
from nbformat import NotebookNode

from course_utils.tools.form_text import code_cells, parsed, tags

NO_STUB = "no stub: a function that raises NotImplementedError, or answer = ..."


def predictions(nb: NotebookNode) -> list[str]:
    """Each prediction is compared with a computed value, before another one takes its name."""
    found, open_guesses = [], {}
    for cell in code_cells(nb):
        for node in ast.walk(parsed(cell) or ast.Module([])):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "compare"
            ):
                name = ast.unparse(node.func.value)
                open_guesses.pop(name, None)
                if node.args and isinstance(node.args[0], ast.Constant):
                    found.append(f"{cell.id}: {name}.compare takes the computed value, not a literal")
            elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("predict("):
                name = ast.unparse(node.targets[0])
                if name in open_guesses:
                    found.append(f"{open_guesses[name]}: nothing compares this prediction")
                open_guesses[name] = cell.id
    return found + [f"{cell}: nothing compares this prediction" for cell in open_guesses.values()]


def tagged(nb: NotebookNode) -> list[str]:
    """Cells that predict, check or show a panel bear that tag, and no others do."""
    found = []
    for cell in code_cells(nb):
        nodes = ast.walk(parsed(cell) or ast.Module([]))
        calls = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        names = ("predict", "check", "panel")
        found += [
            f"{cell.id}: calls {n}, so it is tagged {n}" for n in names if n in calls and n not in tags(cell)
        ]
        found += [
            f"{cell.id}: tagged {n}, but calls no {n}" for n in names if n in tags(cell) and n not in calls
        ]
    return found


def exercises(nb: NotebookNode) -> list[str]:
    """Each exercise: cells ex-N-..., a typed stub with a docstring or `answer = ...`, then ex-N-check."""
    number = re.match(r"# (\d\d) ", nb.cells[0].source) if nb.cells else None
    groups: dict[int, list[NotebookNode]] = {}
    found = []
    for cell in code_cells(nb, "exercise"):
        if match := re.match(r"ex-(\d+)(-|$)", cell.id):
            groups.setdefault(int(match[1]), []).append(cell)
        else:
            found.append(f"{cell.id}: the id of an exercise is ex-N-...")
    if list(groups) != list(range(1, len(groups) + 1)):
        found.append(f"notebook: the exercises are numbered {', '.join(map(str, groups))}, not from 1 up")
    for n, cells in groups.items():
        problems = [problem for cell in cells for problem in _stub(cell)]
        if len(cells) == len([problem for problem in problems if problem == NO_STUB]):
            found.append(f"{cells[0].id}: {NO_STUB}")
        found += [f"{cells[0].id}: {problem}" for problem in problems if problem != NO_STUB]
        after = code_cells(nbformat.from_dict({"cells": nb.cells[nb.cells.index(cells[-1]) + 1 :]}))
        call = f'check("{number[1] if number else "NN"}.{n}",'
        if not after or after[0].id != f"ex-{n}-check" or call not in after[0].source:
            found.append(f"{cells[0].id}: the next code cell is ex-{n}-check, with {call} ...)")
    return found


def _stub(cell: NotebookNode) -> list[str]:
    nodes = list(ast.walk(parsed(cell) or ast.Module([])))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    stubs = [function for function in functions if "raise NotImplementedError" in ast.unparse(function)]
    if not stubs:
        values = [node.value for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign)]
        return [] if any(isinstance(v, ast.Constant) and v.value is ... for v in values) else [NO_STUB]
    documented = any(ast.get_docstring(n) for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef))
    found = [] if documented else ["the stub has no docstring"]
    for stub in stubs:
        untyped = [a.arg for a in stub.args.args if a.annotation is None and a.arg != "self"]
        if untyped or (stub.returns is None and stub.name != "__init__"):
            found.append(f"the stub {stub.name} is not typed ({', '.join(untyped) or 'what it returns'})")
    return found


def exercise_count(nb: NotebookNode) -> list[str]:
    """Two to four exercises."""
    count = len({cell.id.split("-")[1] for cell in code_cells(nb, "exercise") if cell.id.count("-")})
    return [] if 2 <= count <= 4 else [f"notebook: {count} exercises, not 2 to 4"]
