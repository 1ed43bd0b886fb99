"""The reference solutions' sources, shown one at a time."""

import ast
import re
from importlib import import_module
from pathlib import Path

from IPython.display import Markdown


def solution(exercise: str) -> Markdown:
    """The solution of ``exercise``, after what it uses of its file."""
    return Markdown(f"```python\n{solution_source(exercise)}\n```")


def solution_source(exercise: str) -> str:
    """The source of the solution, after what it uses of its file: imports, constants, functions."""
    module = import_module(f"course_utils.exercises.solutions_{exercise.split('.')[0]}")
    source = Path(module.__file__).read_text(encoding="utf-8")
    statements = {name: node for node in ast.parse(source).body for name in _defines(node)}
    used: dict[int, str] = {}  # first line of a statement → its text
    names = [module.SOLUTIONS[exercise].__name__]
    while names:
        node = statements.pop(names.pop(), None)
        if node is not None:
            used[node.lineno] = statement_text(source, node)
            names += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    text = "\n\n\n".join(used[first] for first in sorted(used))
    return re.sub(r"(?m)^((?:from|import) .*)\n+(?=from|import)", r"\1\n", text)


def statement_text(source: str, node: ast.stmt) -> str:
    """The lines of a statement of ``source``, those of its decorators too."""
    first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _defines(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]
