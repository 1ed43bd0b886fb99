"""Planted faults: the machinery, the chapters' lists, and (with the marker all) every fault run."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from ahead import ahead
from nbformat import v4

from course_utils.tools.faults import Fault, load, noticed, noticed_in_turn, planted, problems
from course_utils.tools.form import EXCUSED
from course_utils.tools.refresh import text_of
from course_utils.tools.run import ROOT, CellFailure, chapters, read

CHAPTERS = [path for path in chapters([]) if "faults" not in EXCUSED.get(path.name[:2], {})]
HAVE = [path for path in CHAPTERS if (ROOT / "tests" / f"faults_{path.name[:2]}.py").is_file()]
PLANTED = [(path, fault) for path in HAVE for fault in load(path)]


def code(name: str, source: str, *tags: str, prints: str = "") -> dict:
    outputs = [v4.new_output("stream", name="stdout", text=prints)] if prints else []
    return v4.new_code_cell(source, id=name, metadata={"tags": list(tags)}, outputs=outputs)


@pytest.fixture
def chapter(tmp_path: Path) -> Path:
    """A notebook with one claim, a slow figure and a cell that fails where the divisor is zero."""
    cells = [
        code("setup", "ranks = 4", "setup"),
        code("figure", "raise RuntimeError('never needed')", "figure"),
        code("average", "mean = sum([1, 2, 3, 4]) / ranks"),
        code("after", "half = mean / ranks"),
        code("claim", "print(f'the mean is 2.5: {mean == 2.5}')", "claim", prints="the mean is 2.5: True\n"),
        code("later", "raise RuntimeError('after the claim')"),
    ]
    path = tmp_path / "01_small.ipynb"
    path.write_text(text_of(v4.new_notebook(cells=cells)), "utf-8")
    return path


SUM_ONLY = Fault("forgot_to_divide", "average", " / ranks", "", "claim")
OTHER = ("average", " / ranks", "", "claim")


def test_claim_notices_a_wrong_mean(chapter: Path) -> None:
    before = chapter.read_bytes()
    assert noticed(chapter, SUM_ONLY) == (True, "the mean is 2.5: False\n")
    assert chapter.read_bytes() == before


def test_harmless_fault_is_not_noticed(chapter: Path) -> None:
    harmless = Fault("doubles_both", "average", "/ ranks", "/ ranks * 2 / 2", "claim")
    assert noticed(chapter, harmless) == (False, "the mean is 2.5: True\n")


def test_faults_are_noticed_in_turn_and_leave_the_claim_true(chapter: Path) -> None:
    harmless = Fault("doubles_both", "average", "/ ranks", "/ ranks * 2 / 2", "claim")
    other = Fault("adds_a_rank", "average", "[1, 2, 3, 4]", "[1, 2, 3, 4, 5]", "claim")
    printed = {"forgot_to_divide": "the mean is 2.5: False\n", "adds_a_rank": "the mean is 2.5: False\n"}
    assert noticed_in_turn(chapter, [SUM_ONLY, harmless, other]) == printed


def test_faults_of_one_claim_in_several_cells_do_not_meet(chapter: Path) -> None:
    halves = Fault("halves_the_half", "after", "mean /", "mean / 2 /", "half-claim")
    fewer = Fault("adds_three_ranks", "average", "3, 4]", "3]", "half-claim")
    nb = read(chapter)
    nb.cells.insert(5, code("half-claim", "print(f'half is {half}: {half == 0.625}')", "claim"))
    chapter.write_text(text_of(nb), "utf-8")
    printed = {"halves_the_half": "half is 0.3125: False\n", "adds_three_ranks": "half is 0.375: False\n"}
    assert noticed_in_turn(chapter, [halves, fewer]) == printed


def test_a_fault_that_cannot_be_run_in_turn_is_left_to_a_run_of_its_own(chapter: Path) -> None:
    loud = Fault("no_ranks", "setup", "4", "0", "claim")
    stays = Fault(
        "ranks_stay_wrong", "average", " / ranks", "; globals().update(ranks=9); mean = 10", "claim"
    )
    assert noticed_in_turn(chapter, [loud, SUM_ONLY]) == {}
    assert noticed_in_turn(chapter, [stays, SUM_ONLY]) == {}
    assert noticed(chapter, stays)[0]


def test_loud_fault_is_a_failure_not_a_false_claim(chapter: Path) -> None:
    loud = Fault("no_ranks", "setup", "4", "0", "claim")
    with pytest.raises(CellFailure, match="cell 'average': ZeroDivisionError"):
        noticed(chapter, loud)


def test_only_what_a_claim_needs_is_run(chapter: Path) -> None:
    nb = planted(read(chapter), SUM_ONLY)
    assert [cell.id for cell in nb.cells] == ["setup", "average", "after", "claim"]
    assert nb.cells[1].source == "mean = sum([1, 2, 3, 4])"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault("x", "averages", "a", "b", "claim"), "no code cell 'averages'"),
        (Fault("x", "average", "ranks / 2", "b", "claim"), "stands 0 times"),
        (Fault("x", "average", "m", "n", "claim"), "stands 2 times"),
        (Fault("x", "average", "/ ranks", "", "after"), "not a cell tagged claim"),
        (Fault("x", "later", "after", "", "claim"), "not a cell tagged claim after"),
    ],
)
def test_faults_that_cannot_be_planted(chapter: Path, fault: Fault, message: str) -> None:
    others = [SUM_ONLY, Fault("another", *OTHER)]
    found = problems(read(chapter), [fault, *others])
    assert message in found[0]
    assert all(line.startswith("x: ") for line in found)


def test_too_few_faults_same_names_and_false_claims(chapter: Path) -> None:
    nb = read(chapter)
    assert problems(nb, [SUM_ONLY, SUM_ONLY]) == [
        "2 faults, at least 3 are due",
        "forgot_to_divide: two faults of this name",
    ]
    nb.cells[4].outputs[0].text += "the mean is 3: False\n"
    assert "forgot_to_divide: 'claim' does not print True without the fault" in problems(nb, [SUM_ONLY])


def test_chapter_without_its_file(chapter: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"write faults_01\.py in tests/"):
        load(chapter, chapter.parent)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_faults_of_a_chapter_can_be_planted(path: Path) -> None:
    assert problems(read(path), load(path)) == []


def in_turn(path: Path) -> dict[str, str]:
    """One run of the chapter with all its faults, which is several times as fast as a run for each."""
    return noticed_in_turn(path, load(path))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[tuple[Path], Future[dict[str, str]]]]:
    # Three: ranks mostly wait, and a claim that load makes False without its fault gets another run, below.
    test = "test_chapter_contradicts_itself"
    with ahead(request.session, test, in_turn, lambda case: (case["path"],), at_a_time=3) as all_runs:
        yield all_runs


@pytest.mark.all
@pytest.mark.parametrize(
    ("path", "fault"), PLANTED, ids=[f"{path.name[:2]}-{fault.name}" for path, fault in PLANTED]
)
def test_chapter_contradicts_itself(
    runs: dict[tuple[Path], Future[dict[str, str]]], path: Path, fault: Fault
) -> None:
    if fault.name in runs[(path,)].result():
        return
    false, printed = noticed(path, fault)
    assert false, f"with the fault {fault.name} the claim still printed: {printed}"
