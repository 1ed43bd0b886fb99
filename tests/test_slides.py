"""`slides`: what is put into a deck; how it looks is for tests/browser."""

import re
from pathlib import Path

import pytest
from nbformat import v4

from course_utils.tools import slides
from course_utils.tools.run import chapters


def test_formulas_become_mathml_and_code_stays() -> None:
    text = slides.with_mathml("a cost of $2(W-1)$ and `$HOME` for $3.50\n\n$$x^2$$\n\n```\necho $A $B\n```")
    assert text.count("<math") == 2
    assert 'display="block"' in text
    assert "`$HOME` for $3.50" in text
    assert "echo $A $B" in text


@pytest.mark.parametrize("chapter", chapters([]), ids=lambda path: path.stem)
def test_the_speaker_sees_the_guide_beside_every_section_and_exercise(chapter: Path) -> None:
    notes = slides.guide_notes(chapter.name[:2], slides.GUIDE.read_text("utf-8"))
    deck = slides.slides_of(slides.read(chapter), notes)
    spoken = [cell.source for cell in deck.cells if cell.metadata.get("slideshow") == {"slide_type": "notes"}]
    without_numbers = [re.sub(r" \(In \[\d+\]\)", "", text) for text in spoken]
    assert all(note in without_numbers for note in notes.values())
    headings = [cell.source for cell in deck.cells if cell.cell_type == "markdown"]
    sections = [text for text in headings if re.match(r"##+ (\d|\d\d\.\d) · ", text)]
    assert len(notes) >= len(sections)


def test_the_speaker_finds_a_cell_by_its_number() -> None:
    nb = v4.new_notebook(cells=[v4.new_code_cell("1 + 1", id="sum-run", execution_count=7)])
    assert slides.numbered("run `sum-run`, not `sum`", nb) == "run `sum-run` (In [7]), not `sum`"


def test_a_deck_loads_nothing_from_elsewhere_and_replaces_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "deck").mkdir()
    (tmp_path / "deck" / "old.html").write_text("")
    page = slides.write(chapters(["02"])[0], tmp_path / "deck")
    assert not (tmp_path / "deck" / "old.html").exists()
    for file in (tmp_path / "deck").rglob("*"):
        if file.suffix in (".css", ".html"):
            text = file.read_text("utf-8")
            assert 'src="http' not in text
            assert "url(http" not in text
            assert "@import" not in text
    assert ".ipynb" not in page.read_text("utf-8")
    assert {"index.html", "deck.css", "deck.js", "reveal"} == {file.name for file in page.parent.iterdir()}


def test_an_unknown_chapter(capsys: pytest.CaptureFixture[str]) -> None:
    assert slides.main(["77"]) == 2
    assert "no chapter '77'" in capsys.readouterr().err


def test_what_is_no_notebook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.ipynb").write_text("{")
    assert slides.main([str(tmp_path / "mine.ipynb")]) == 2
    assert "mine.ipynb is not a readable notebook" in capsys.readouterr().err
