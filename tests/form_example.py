"""A small chapter that keeps to all rules of form, and changes that make it break one."""

from collections.abc import Callable

from nbformat import NotebookNode, from_dict, v4

from course_utils.tools.refresh import normalize

Change = Callable[[NotebookNode], None]
PNG = {"image/png": "aWNvbg=="}
SVG = '<div role="img" aria-label="four ranks"><svg></svg></div>'
TITLE = """# 13 · Ring all-reduce

**How can everybody get the sum while nobody sends more than twice the data?**

Afterwards you can
- explain the two halves of a ring
- count the bytes a rank sends
- say when a tree is faster

Builds on [the picture](picture.svg). 75 minutes, 60 of them core. Needs a CPU with 2 cores."""
STUB = '''def reduce_scatter(chunk: list[float], rank: int) -> list[float]:
    """Return the sum of this rank's chunk."""
    raise NotImplementedError'''


def words(name: str, source: str) -> NotebookNode:
    return v4.new_markdown_cell(source, id=name, metadata={"slideshow": {"slide_type": "slide"}})


def code(name: str, source: str, *tags: str, prints: str = "", shows: dict | None = None) -> NotebookNode:
    outputs = [v4.new_output("stream", name="stdout", text=prints)] if prints else []
    if shows:
        outputs.append(
            v4.new_output("display_data", shows, metadata={"image/png": {"alt": "a line that falls"}})
        )
    meta = {"slideshow": {"slide_type": "slide"}, "tags": list(tags)}
    return v4.new_code_cell(source, id=name, metadata=meta, outputs=outputs)


def section(n: str) -> list[NotebookNode]:
    return [
        words(
            f"{n}-idea",
            f"## {n.title()} (core)\n\nA ring sends `S/W` bytes a step. See [above](#First-(core)).",
        ),
        code(f"{n}-predict", 'guess = predict("How many?", 1, 2)', "predict", prints="Predict.\n"),
        code(f"{n}-run", "guess.compare(sum([1, 1]))", prints="measured: 2\n"),
        words(f"{n}-happened", "Each rank sent two chunks."),
    ]


def chapter() -> NotebookNode:
    """A chapter that keeps to all rules."""
    cells = [
        words("title", TITLE),
        code("setup", "import torch\n\nfrom course_utils import launch\n\ntorch.manual_seed(0)", "setup"),
        *(cell for n in ("first", "second", "third", "fourth", "fifth") for cell in section(n)),
        words("wrong", "## When it goes wrong"),
        code("wrong-run", "print('sum', 3)", prints="sum 3\n"),
        words("explore", "## Explore"),
        code("explore-panel", "panel(draw, p=(1, 8, 4))", "panel", shows={"text/html": SVG}),
        words("exercises", "## Exercises"),
        code("ex-1-stub", STUB, "exercise"),
        code("ex-1-check", 'check("13.1", reduce_scatter)', "check", prints="not attempted yet\n"),
        words("ex-2-task", "### Count the steps"),
        code("ex-2-answer", "answer = ...", "exercise"),
        code("ex-2-check", 'check("13.2", answer)', "check", prints="not attempted yet\n"),
        words("measured", "## What we measured"),
        code("measured-table", "show(fig, alt='falls')", "figure", prints="⟨3 ms⟩\n", shows=PNG),
        code("measured-claim", "print(f'bytes: {sent == 2}')", "claim", prints="bytes: True\n"),
        words("practice", "## In practice\n\nNCCL does this on GPUs."),
        words("sources", "## Sources\n\n[A paper](https://example.org/paper)"),
        words("next", "## Next\n\nHow long will it take?"),
    ]
    return normalize(v4.new_notebook(cells=cells))


def cell(nb: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in nb.cells if cell.id == name)


def source(name: str, old: str, new: str) -> Change:
    """A change of one cell's source; everything is replaced where ``old`` is empty."""

    def change(nb: NotebookNode) -> None:
        found = cell(nb, name)
        assert old in found.source
        found.source = found.source.replace(old, new) if old else new

    return change


def prints(name: str, text: str) -> Change:
    def change(nb: NotebookNode) -> None:
        cell(nb, name).outputs.insert(0, v4.new_output("stream", name="stdout", text=text))

    return change


def data(name: str, mime: str, text: str) -> Change:
    def change(nb: NotebookNode) -> None:
        cell(nb, name).outputs.append(v4.new_output("display_data", {mime: text}))

    return change


def meta(name: str, key: str, value: object) -> Change:
    def change(nb: NotebookNode) -> None:
        target = cell(nb, name).metadata if name else nb.metadata
        target[key] = from_dict(value)

    return change


def tagged(name: str, *tags: str) -> Change:
    return meta(name, "tags", list(tags))


def renamed(name: str, new: str) -> Change:
    def change(nb: NotebookNode) -> None:
        cell(nb, name)["id"] = new

    return change


def without(*names: str) -> Change:
    def change(nb: NotebookNode) -> None:
        assert {cell.id for cell in nb.cells} >= set(names)
        nb.cells = [cell for cell in nb.cells if cell.id not in names]
        for count, kept in enumerate((cell for cell in nb.cells if cell.cell_type == "code"), 1):
            kept.execution_count = count

    return change


def moved(name: str, before: str) -> Change:
    def change(nb: NotebookNode) -> None:
        mover = cell(nb, name)
        nb.cells.remove(mover)
        nb.cells.insert(nb.cells.index(cell(nb, before)), mover)

    return change


def both(*changes: Change) -> Change:
    def change(nb: NotebookNode) -> None:
        for one in changes:
            one(nb)

    return change


def error(nb: NotebookNode) -> None:
    cell(nb, "wrong-run").outputs = [v4.new_output("error", ename="E", evalue="v", traceback=["E: v"])]


def count(nb: NotebookNode) -> None:
    cell(nb, "setup").execution_count = None


def widget_state(nb: NotebookNode) -> None:
    nb.metadata["widgets"] = {}


def kernel(nb: NotebookNode) -> None:
    nb.metadata.kernelspec.name = "my-env"


def many_words(n: int) -> str:
    return "\n\n" + "a word here " * (n // 3)


def lines(n: int) -> str:
    return "\n".join(f"value_{i} = {i}" for i in range(n))


def ignored(name: str) -> Change:
    def change(nb: NotebookNode) -> None:
        cell(nb, name).source += "  # the reason"
        cell(nb, name).metadata["tags"] = ["nbval-ignore-output"]

    return change
