"""`site`: what becomes a page, what Sphinx makes of it, and that what is broken replaces nothing.

The whole course as a site is for tests/browser.
"""

import base64
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from course_utils.tools import site, site_check, site_sphinx

README = """# A small course

[![Try it](https://badges.example/try.svg)](https://try.example/course)

Read [the words](GLOSSARY.md#ring) first, and [the program](notebooks/scripts/hello.py);
a file: [.ci/run](.ci/run).

| | Chapter | Its question | |
|---|---|---|---|
| **Part 1** | **The beginning** | | |
| 00 | [One](notebooks/00_one.ipynb) | Why? | ready |
| 01 | [Two](notebooks/01_two.ipynb) | How? | ready |
"""
# Sphinx says what myst-parser will have to call otherwise
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning:myst_parser")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


def notebook(path: Path, *cells: nbformat.NotebookNode) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(v4.new_notebook(cells=[*cells], metadata={"kernelspec": kernel, "title": path.stem}), path)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of two chapters, an appendix, a glossary and a program."""
    root = tmp_path / "course"
    notebooks = root / "notebooks"
    for name in (".ci", "notebooks/scripts"):
        (root / name).mkdir(parents=True)
    (root / "README.md").write_text(README)
    (root / "GLOSSARY.md").write_text(
        "# Glossary\n\n## Ring\n\nSee [chapter 01](notebooks/01_two.ipynb).\n<a id='rank'></a>\n"
    )
    (root / "INSTRUCTORS.md").write_text(
        "# Guide\n\n`plot` is no cell here.\n\n## 00 · One\n\nRun `plot`, `ask()`.\n"
    )
    (root / ".ci" / "run").write_text("true\n")
    (notebooks / "scripts" / "hello.py").write_text("print('hello')\n")
    alt = {"image/png": {"alt": "A line that falls & rises"}}
    plot = v4.new_output("display_data", {"image/png": PIXEL, "text/plain": "a plot"}, metadata=alt)
    asked = "<div><b>Predict.</b> How many?<ul><li>1</li></ul></div>"
    shown = v4.new_output("display_data", {"text/html": asked, "text/plain": "Predict."})
    hidden = {"jupyter": {"source_hidden": True}}
    notebook(
        notebooks / "00_one.ipynb",
        v4.new_markdown_cell(
            "# 00 · One\n\n[Two](01_two.ipynb#sums), a [rank](../GLOSSARY.md#rank), [all](../README.md)."
        ),
        v4.new_code_cell("plot()", id="plot", outputs=[plot], execution_count=7, metadata=hidden),
        v4.new_code_cell("ask()", outputs=[shown], execution_count=8, metadata={"tags": ["predict"]}),
    )
    notebook(
        notebooks / "01_two.ipynb",
        v4.new_markdown_cell(
            "# 01 · Two\n\nThe [program](scripts/hello.py).\n\n## Sums\n\nIt is $2(W-1)$ for $3."
        ),
    )
    notebook(notebooks / "quiz.ipynb", v4.new_markdown_cell("# A quiz\n\nTen questions."))
    return root


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.html")}


def test_a_small_course(course: Path) -> None:
    before = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    index = site.build(course, course / "build" / "site")
    found = texts(index.parent)
    assert sorted(found) == [
        "GLOSSARY.html",
        "INSTRUCTORS.html",
        "index.html",
        "notebooks/00_one.html",
        "notebooks/01_two.html",
        "notebooks/quiz.html",
        "notebooks/scripts.html",
        "search.html",
    ]
    one, two = found["notebooks/00_one.html"], found["notebooks/01_two.html"]
    assert 'href="01_two.html#sums"' in one
    assert 'href="../index.html"' in one
    assert 'href="../GLOSSARY.html#rank"' in one
    assert 'alt="A line that falls &amp; rises"' in one
    assert 'id="cell-plot"' in one
    assert '<div class="cell-name">In [7] · plot</div>' in one
    assert found["INSTRUCTORS.html"].count('href="notebooks/00_one.html#cell-plot"') == 1
    assert one.count("<details class=") == 1  # the hidden code is folded, the other is not
    assert "<b>Predict.</b> How many?" in one
    assert 'href="scripts.html#hello-py"' in two
    assert two.count("<math ") == 1
    assert "for $3." in two
    assert "next" in re.search(r'<a class="right-next"\s+href="01_two.html"', one)[0]
    for page in found.values():
        sidebar = page[page.index('aria-label="Chapters"') :]
        parts = [
            "Part 1 · The beginning",
            "00 · One",
            "01 · Two",
            "To look up",
            "Glossary",
            "A quiz",
            "Programs",
            "Guide",
        ]
        places = [sidebar.index(name) for name in parts]
        assert places == sorted(places)
    assert "badges.example" not in found["index.html"]
    assert 'href="https://try.example/course">Try it</a>' in found["index.html"]
    assert (index.parent / ".nojekyll").is_file()
    assert not [path for path in index.parent.rglob("*") if path.suffix in (".map", ".ipynb", ".pickle")]
    after = {path: path.read_bytes() for path in before}
    assert after == before
    assert [path.name for path in (course / "build").iterdir()] == ["site"]

    again = site.build(course, course / "build" / "again")
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (index.parent, again.parent)
    )
    assert first == second


@pytest.mark.parametrize(
    ("markdown", "says"),
    [
        ("[gone](02_gone.ipynb)", "notebooks/quiz.ipynb, cell 1: 'myst' cross-reference target not found"),
        ("[gone](01_two.ipynb#products)", "01_two.html#products (there is no such anchor)"),
        ("[gone](scripts/gone.py)", "scripts/gone.py"),
        (r"$\unheard x$", r"no MathML for \unheard"),
    ],
)
def test_what_is_broken_is_named_and_replaces_nothing(course: Path, markdown: str, says: str) -> None:
    (course / "build" / "site").mkdir(parents=True)
    (course / "build" / "site" / "index.html").write_text("the site that worked")
    notebook(course / "notebooks" / "quiz.ipynb", v4.new_markdown_cell(f"# A quiz\n\nSee {markdown}."))
    with pytest.raises(site.SiteError) as caught:
        site.build(course, course / "build" / "site")
    named = [problem for problem in caught.value.problems if says in problem]
    assert named
    assert all(problem.startswith("notebooks/quiz.") for problem in caught.value.problems)
    assert (course / "build" / "site" / "index.html").read_text() == "the site that worked"
    assert [path.name for path in (course / "build").iterdir()] == ["site"]


def test_the_command_lists_what_is_broken(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site, "ROOT", course)
    problems = ["notebooks/quiz.html: gone.html (there is no such file)"]

    def fail(*_: Path) -> Path:
        raise site.SiteError(problems)

    monkeypatch.setattr(site, "build", fail)
    assert site.main([]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == problems
    monkeypatch.setattr(site, "build", lambda root, folder: folder / "index.html")
    assert site.main([]) == 0
    said = capsys.readouterr().out
    assert str(course / "build" / "site" / "index.html") in said
    assert "python3 -m http.server --bind 127.0.0.1 -d build/site" in said


def test_formulas() -> None:
    assert 'display="inline"' in site_sphinx.mathml(r"\frac{p-1}{m}")
    assert 'display="block"' in site_sphinx.mathml("x^2", block=True)
    for tex in (r"\unheard{x}", r"\begin{aligned}a&=b\end{aligned}", r"\frac{"):
        with pytest.raises(ValueError, match="no MathML for"):
            site_sphinx.mathml(tex)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="b.html">', "b.html (there is no such file)"),
        ('<a href="sub/">', "sub/ (there is no such file)"),
        ('<a href="#nowhere">', "#nowhere (there is no such anchor)"),
        ('<a href="sub/c.html#nowhere">', "sub/c.html#nowhere (there is no such anchor)"),
        ('<a href="/index.html">', "/index.html (works only at the root of a server)"),
        (
            '<script src="https://cdn.example/x.js">',
            "https://cdn.example/x.js (would be fetched from elsewhere)",
        ),
        ('<link href="//fonts.example/a">', "//fonts.example/a (would be fetched from elsewhere)"),
        ('<img src="data:image/png;base64,">', "data:image/png;base64, (a picture without alternative text)"),
    ],
)
def test_the_check_finds(tmp_path: Path, page: str, problem: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.html").write_text('<h1 id="there">')
    works = '<p id="top"><a href="sub/c.html#there"><a href="#top"><a href="index.html?q=1"><a href="https://x.y">'
    (tmp_path / "index.html").write_text(works)
    assert site_check.check(tmp_path) == []
    (tmp_path / "index.html").write_text(works + page)
    assert site_check.check(tmp_path) == [f"index.html: {problem}"]


def test_the_check_reads_style_sheets(tmp_path: Path) -> None:
    (tmp_path / "here.woff2").write_bytes(base64.b64decode(PIXEL))
    works = "@import 'b.css'; a{src:url('here.woff2') url(data:font/woff2;base64,) url(#part)}"
    (tmp_path / "b.css").write_text("")
    (tmp_path / "a.css").write_text(works)
    assert site_check.check(tmp_path) == []
    (tmp_path / "a.css").write_text(works + '@import url("https://x.y/z.css"); b{src:url(gone.woff2)}')
    assert site_check.check(tmp_path) == [
        "a.css: https://x.y/z.css (would be fetched from elsewhere)",
        "a.css: gone.woff2 (there is no such file)",
    ]
