"""`refresh`: one normal form, nothing written without need, and nbval's own opinion of what is stored."""

import ast
import base64
import inspect
import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode, v4
from nbval.plugin import IPyNbFile
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from course_utils.tools import form, refresh, run

SANITIZERS = refresh.sanitizers  # the fixture below takes its place
PATTERNS = {r"⟨[^⟩]*⟩": "⟨⟩"}
MEASURED = "import time\nprint(f'took ⟨{time.perf_counter_ns()} ns⟩')"
PICTURE = (  # another one at each run
    "import os\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.plot([{}, 1])\n"
    "_ = ax.set_title(str(os.getpid()))\nplt.show()"
)
UPDATED = (
    "from IPython.display import HTML, display\n"
    "shown = display(HTML('<b>{0}</b>'), display_id=True)\nshown.update(HTML('<b>{1}</b>'))"
)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of its own, and no rules of form but where a test is on them."""
    monkeypatch.setattr(refresh, "SEEN", tmp_path / "build" / "refreshed.json")
    monkeypatch.setattr(refresh, "sanitizers", lambda: PATTERNS)
    monkeypatch.setattr(form, "findings", lambda path: [])


def write(path: Path, *sources: str, tags: list[str] | None = None) -> Path:
    cells = [
        v4.new_code_cell(source, id=f"cell-{chr(97 + i)}", metadata={"tags": tags or []})
        for i, source in enumerate(sources)
    ]
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def outputs(path: Path) -> list[list[NotebookNode]]:
    return [cell.outputs for cell in nbformat.read(path, as_version=4).cells]


def nbval(path: Path) -> subprocess.CompletedProcess[str]:
    """Strict nbval, as the test command runs it."""
    rules = path.with_name("sanitize.cfg")
    rules.write_text("".join(f"regex: {old}\nreplace: {new}\n" for old, new in PATTERNS.items()), "utf-8")
    options = ["--nbval", "--nbval-sanitize-with", str(rules), "-p", "no:cacheprovider", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(path.parent), *options, str(path)]
    return subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=120, check=False)


def test_a_second_refresh_changes_no_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "one.ipynb", MEASURED, PICTURE.format(0), "6 * 7")
    assert refresh.main([str(path)]) == 0
    first = path.read_bytes()
    assert refresh.main([str(path)]) == 0
    assert path.read_bytes() == first
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[0] for line in printed] == ["one.ipynb: updated", "one.ipynb: unchanged"]
    assert refresh.main(["--force", str(path)]) == 0
    assert path.read_bytes() != first


def test_nbval_accepts_what_is_stored(tmp_path: Path) -> None:
    widget = "import ipywidgets\nbar = ipywidgets.IntProgress(value=0, max=3)\nbar"
    streams = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('0 %\\r50 %\\r100 %')"
    sources = (
        MEASURED,
        PICTURE.format(0),
        widget,
        "bar.value = 3",
        streams,
        UPDATED.format("⟨1⟩", "⟨2⟩"),
    )
    path = write(tmp_path / "one.ipynb", *sources)
    assert refresh.main([str(path)]) == 0
    result = nbval(path)
    assert result.returncode == 0, result.stdout
    assert "6 passed" in result.stdout
    stored = outputs(path)
    assert list(stored[2][0].data) == ["text/plain"]  # no widget view
    assert stored[4][-1].text == "100 %\n" or stored[4][0].text == "out\n100 %\n"


def test_a_changed_picture_is_stored_although_nbval_compares_none(tmp_path: Path) -> None:
    path = write(tmp_path / "one.ipynb", PICTURE.format(0))
    assert refresh.main([str(path)]) == 0
    before = outputs(path)[0][0].data["image/png"]
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source = PICTURE.format(5)
    path.write_text(refresh.text_of(nb), "utf-8")
    assert refresh.main([str(path)]) == 0
    assert outputs(path)[0][0].data["image/png"] != before


def test_committed_sources_count_where_nothing_is_recorded(tmp_path: Path) -> None:
    path = write(tmp_path / "one.ipynb", MEASURED)
    assert refresh.main([str(path)]) == 0
    first = path.read_bytes()
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", path.name], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True, timeout=60)
    refresh.SEEN.unlink()
    assert refresh.main([str(path)]) == 0
    assert path.read_bytes() == first


def test_check_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "one.ipynb", "print(1)")
    before = path.read_bytes()
    assert refresh.main(["--check", str(path)]) == 1
    assert "outdated" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_cell_leaves_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "one.ipynb", "print(1)", "{}['missing']")
    before = path.read_bytes()
    assert refresh.main([str(path)]) == 1
    printed = capsys.readouterr().out
    assert "one.ipynb: failed" in printed
    assert "cell 'cell-b': KeyError: 'missing'" in printed
    assert "left as it was" in printed
    assert path.read_bytes() == before


def test_an_updated_display_needs_brackets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "one.ipynb", UPDATED.format("0 of 2", "2 of 2"))
    assert refresh.main([str(path)]) == 1
    assert "first state of a display" in capsys.readouterr().out


def test_findings_of_form_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(form, "findings", lambda path: ["cell-a: no slide type"])
    assert refresh.main([str(write(tmp_path / "one.ipynb", "1"))]) == 1
    assert "    cell-a: no slide type\n" in capsys.readouterr().out


def test_normal_form() -> None:
    nb = v4.new_notebook(metadata={"language_info": {"name": "python"}, "title": "T", "widgets": {}, "x": 1})
    stream = [v4.new_output("stream", name="stdout", text=text) for text in ("a", "b\n")]
    stderr = v4.new_output("stream", name="stderr", text="e\n")
    both = {"text/plain": "B", refresh.WIDGET_VIEW: {"model_id": "1"}}
    shown = [v4.new_output("display_data", data) for data in (both, {refresh.WIDGET_VIEW: {}})]
    result = v4.new_output("execute_result", {"text/plain": "1"}, execution_count=9)
    meta = {"tags": ["claim"], "execution": {}, "collapsed": True, "slideshow": {"slide_type": "slide"}}
    meta["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
    nb.cells = [
        v4.new_markdown_cell("t", id="title", metadata={"tags": []}),
        v4.new_code_cell("1", id="cell", outputs=[*stream, stderr, *shown, result], metadata=meta),
    ]
    normal = refresh.normalize(nb)
    assert normal.metadata == {"kernelspec": refresh.KERNEL, "title": "T"}
    title, cell = normal.cells
    assert (title.metadata, cell.execution_count) == ({}, 1)
    assert sorted(cell.metadata) == ["jupyter", "slideshow", "tags"]
    assert cell.metadata.jupyter == {"source_hidden": True}
    assert [output.get("text") or dict(output.data) for output in cell.outputs] == [
        "ab\n",
        "e\n",
        {"text/plain": "B"},
        {"text/plain": "1"},
    ]
    assert cell.outputs[-1].execution_count == 1
    assert refresh.normalize(normal) == normal
    text = refresh.text_of(normal)
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_old_notebooks_are_converted() -> None:
    nb = v4.new_notebook(cells=[v4.new_code_cell("1")])
    nb.nbformat_minor = 4
    del nb.cells[0]["id"]
    normal = refresh.normalize(nb)
    assert (normal.nbformat, normal.nbformat_minor) == (4, 5)
    assert normal.cells[0].id


def test_tracebacks_lose_the_folders_of_this_machine() -> None:
    path = "File \x1b[32m/home/x/.venv/lib/python3.11/site-packages/torch/nn.py:7\x1b[39m, in f"
    error = v4.new_output(
        "error", ename="E", evalue="v", traceback=[path, "File /usr/lib/python3.12/json.py:1"]
    )
    (normal,) = refresh.normal_outputs([error], 1)
    assert normal.traceback == ["File \x1b[32mtorch/nn.py:7\x1b[39m, in f", "File json.py:1"]


def test_png_loses_its_texts_and_keeps_its_picture() -> None:
    info = PngInfo()
    info.add_text("Software", "drawn at noon")
    stream = io.BytesIO()
    picture = Image.new("RGB", (3, 2), (10, 20, 30))
    picture.save(stream, "png", pnginfo=info, dpi=(93, 93))
    plain = base64.b64decode(refresh.plain_png(base64.b64encode(stream.getvalue()).decode()))
    assert b"noon" in stream.getvalue()
    assert b"noon" not in plain
    loaded = Image.open(io.BytesIO(plain))
    assert (loaded.tobytes(), round(loaded.info["dpi"][0])) == (picture.tobytes(), 93)
    assert refresh.plain_png("bm90IGEgcG5n") == "bm90IGEgcG5n"


@pytest.mark.parametrize(
    ("stored", "new", "verdict"),
    [
        ("took ⟨1 ms⟩", "took ⟨2 ms⟩", True),
        ("took ⟨1 ms⟩", "takes ⟨2 ms⟩", False),
        ("a", "b", False),
        ("", "b", False),
    ],
)
def test_comparison_is_nbvals(stored: str, new: str, verdict: bool) -> None:
    pair = [[v4.new_output("stream", name="stdout", text=text)] if text else [] for text in (stored, new)]
    assert refresh.accepts(*pair, PATTERNS) is verdict
    data = [[v4.new_output("display_data", {"text/html": text, "image/png": text})] for text in (stored, new)]
    assert refresh.accepts(*data, PATTERNS) is verdict
    assert [output.text for outs in pair for output in outs] == [text for text in (stored, new) if text]


def test_what_is_not_compared_is_as_nbval_has_it() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(IPyNbFile.__init__)))
    lists = [
        n for n in ast.walk(tree) if isinstance(n, ast.Assign) and "skip_compare" in ast.unparse(n.targets[0])
    ]
    words = {n.value for found in lists for n in ast.walk(found.value) if isinstance(n, ast.Constant)}
    assert words == set(refresh.NOT_COMPARED)


def test_sanitizers_come_from_the_options_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-q'\n")
    with pytest.raises(ValueError, match="no --nbval-sanitize-with"):
        SANITIZERS(tmp_path)
    (tmp_path / "rules.cfg").write_text("regex: a+\nreplace: b\n")
    for options in ('"-q --nbval-sanitize-with=rules.cfg"', '["--nbval-sanitize-with", "rules.cfg"]'):
        (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\naddopts = {options}\n")
        assert SANITIZERS(tmp_path) == {"a+": "b"}


def test_interrupt_is_an_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(refresh, "execute", interrupted)
    path = write(tmp_path / "one.ipynb", "1")
    before = path.read_bytes()
    assert refresh.main([str(path)]) == 130
    assert path.read_bytes() == before
    assert run.main(["no_such"]) == refresh.main(["no_such"]) == 2
