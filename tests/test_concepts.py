"""The concept tests: right keys, fair questions, honest points."""

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from concept_keys import COMPUTED, Key

from course_utils.concepts import ConceptTest, concept_review, concept_test
from course_utils.concepts.question import PARTS, SITTINGS, points, questions, sitting
from course_utils.tools.run import NOTEBOOKS

EACH_PART = pytest.mark.parametrize("part", PARTS)
EACH_SITTING = pytest.mark.parametrize("when", SITTINGS)
KEYS = [
    pytest.param(part, find, id=f"{part}-{find.__name__}") for part, all_ in COMPUTED.items() for find in all_
]


@pytest.fixture(autouse=True)
def nothing_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_utils.concepts._handed_in", {})


@pytest.fixture
def my_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's copy of the course, the working folder."""
    folder = tmp_path / "my_course"
    folder.mkdir()
    (folder / ".manifest.json").write_text("{}")
    monkeypatch.chdir(folder)
    return folder


def cells(chapter: str) -> dict[str, dict]:
    found = json.loads((NOTEBOOKS / f"{chapter}.ipynb").read_text("utf-8"))["cells"]
    return {cell["id"]: {**cell, "source": "".join(cell["source"])} for cell in found}


def choose(test: ConceptTest, right: int) -> None:
    """Choose rightly in the first ``right`` items, wrongly in the others."""
    for n, (item, buttons) in enumerate(zip(test.items, test.choices, strict=True)):
        wrong = next(choice for choice in item.choices if choice != item.right)
        buttons.value = item.right if n < right else wrong


# Keys


@pytest.mark.parametrize(("part", "find"), KEYS)
def test_the_key_is_what_a_computation_says(part: int, find: Callable[[], Key]) -> None:
    name = find.__name__.replace("_", "-")
    question = next(question for question in questions(part) if question.name == name)
    computed = find()
    keys = tuple(question.form(when)[1][0] for when in SITTINGS)
    assert keys == (computed if isinstance(computed, tuple) else (computed, computed))


@EACH_PART
def test_what_is_not_computed_rests_on_a_claim(part: int) -> None:
    computed = {find.__name__.replace("_", "-") for find in COMPUTED[part]}
    assert computed <= {question.name for question in questions(part)}
    for question in questions(part):
        chapter, section, name = question.read
        found = cells(chapter)
        headings = re.findall(r"(?m)^##+ (.*)$", "\n".join(cell["source"] for cell in found.values()))
        assert section in headings, question.name
        assert name in found, question.name
        if question.name not in computed:
            assert "claim" in found[name]["metadata"]["tags"], question.name


# Questions


@EACH_PART
@EACH_SITTING
def test_ten_fair_questions(part: int, when: str) -> None:
    items = sitting(part, when)
    assert len({item.question.name for item in items}) == len(items) == 10
    for item in items:
        assert len(set(item.choices)) == 4, item.question.name
        assert item.choices.count(item.right) == 1, item.question.name
        assert max(map(len, item.choices)) <= 80, f"{item.question.name}: a radio button's text does not wrap"
        assert item.question.why.endswith(".")
    positions = Counter(item.choices.index(item.right) for item in items)
    assert sorted(positions.values()) == [2, 2, 3, 3]
    longest = [
        item for item in items if all(len(c) < len(item.right) for c in item.choices if c != item.right)
    ]
    assert len(longest) <= 3, [item.question.name for item in longest]
    assert all(2 <= count <= 5 for count in Counter(item.question.group for item in items).values())


@EACH_PART
def test_the_second_sitting_is_another_one(part: int) -> None:
    before, after = (sitting(part, when) for when in SITTINGS)
    names = [[item.question.name for item in items] for items in (before, after)]
    assert names[0] != names[1]
    assert sorted(names[0]) == sorted(names[1])
    shown = {item.question.name: item.choices for item in before}
    same = [item.question.name for item in after if item.choices == shown[item.question.name]]
    assert len(same) <= 2, same


def test_no_two_questions_are_alike() -> None:
    asked = [question for part in PARTS for question in questions(part)]
    assert len({question.name for question in asked}) == len(asked) == 60
    for one, other in combinations(asked, 2):
        ratio = difflib.SequenceMatcher(None, one.ask, other.ask, autojunk=False)
        if ratio.quick_ratio() > 0.8:
            assert ratio.ratio() < 0.8, (one.name, other.name)


def test_the_order_is_the_same_on_every_machine() -> None:
    first = sitting(4, "before")[0]
    assert (first.question.name, first.choices.index(first.right)) == ("ring-growth", 1)


def test_a_part_or_sitting_that_does_not_exist_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="the course has the parts 1, 2, 3, 4, 5, 6, not 7"):
        concept_test(7, "before")
    with pytest.raises(ValueError, match="'before' or 'after' its part, not 'during'"):
        concept_test(1, "during")


# A sitting


@EACH_PART
def test_before_the_part_no_answer_is_told(part: int) -> None:
    test = concept_test(part, "before")
    assert all(buttons.value is None for buttons in test.choices), "nothing is chosen beforehand"
    choose(test, right=4)
    test.button.click()
    told = test.result.value
    assert "<td>4 of 10</td>" in told
    assert [item.right for item in test.items if f">{item.right}<" in told] == []
    assert [item.question.why for item in test.items if item.question.why in told] == []
    assert all(widget.disabled for widget in (*test.choices, test.button))
    assert repr(concept_review(part)) == "Hand in the test after the part, then run this cell again."


def test_nothing_chosen_is_nothing_handed_in() -> None:
    test = concept_test(2, "before")
    test.button.click()
    assert "Choose first" in test.result.value
    assert not test.button.disabled
    test.choices[3].value = test.items[3].right
    test.button.click()
    assert "counted as not known: 1, 2, 3, 5, 6, 7, 8, 9, 10." in test.result.value
    assert "<td>1 of 10</td>" in test.result.value


def test_the_points_by_group_stand_beside_the_first_ones() -> None:
    for when, right in (("before", 3), ("after", 8)):
        test = concept_test(3, when)
        choose(test, right)
        test.button.click()
    assert "<td>3 of 10</td><td>8 of 10</td>" in test.result.value
    groups = {question.group for question in questions(3)}
    assert [group for group in groups if group not in test.result.value] == []


def test_after_the_part_each_wrong_one_has_its_answer_and_its_section(
    my_course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # under it nothing is noted
    test = concept_test(1, "after")
    choose(test, right=8)
    test.button.click()
    monkeypatch.setattr("course_utils.concepts._handed_in", {})  # a new kernel, some days later
    review = concept_review(1)
    assert [n for n, _ in review.wrong] == [9, 10]
    for _, item in review.wrong:
        for part in (item.ask, item.right, item.question.why):
            assert part in repr(review)
        chapter, section, name = item.question.read
        assert f'href="{chapter}.ipynb#cell-id={name}"' in review._repr_html_()
        assert f"chapter {chapter[:2]}, {section}" in repr(review)
    assert test.items[0].ask not in repr(review)


def test_all_right() -> None:
    test = concept_test(5, "after")
    choose(test, right=10)
    test.button.click()
    assert repr(concept_review(5)) == "All 10 are right."


def test_the_first_time_counts(my_course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    for right in (2, 10):
        test = concept_test(6, "before")
        assert ("handed this in before" in test.result.value) == (right == 10)
        choose(test, right)
        test.button.click()
    noted = json.loads((my_course / "progress.json").read_text("utf-8"))
    assert points(6, "before", noted["concepts"]["part 6, before"])["All"] == (2, 10)


@pytest.mark.parametrize("broken", ["", "[]", '{"concepts": 3}', '{"concepts": {"part 1, after": [1]}}'])
def test_notes_that_are_none(my_course: Path, broken: str) -> None:
    (my_course / "progress.json").write_text(broken)
    assert "Hand in" in repr(concept_review(1))
    concept_test(1, "after")


def test_what_the_notes_hold_is_escaped(my_course: Path) -> None:
    said = {"state-bytes": "<script>alert(1)</script>"}
    (my_course / "progress.json").write_text(json.dumps({"concepts": {"part 1, after": said}}))
    assert "<script>" not in concept_review(1)._repr_html_()


@EACH_PART
@EACH_SITTING
def test_a_page_without_a_kernel_has_the_questions(part: int, when: str) -> None:
    bundle = concept_test(part, when)._repr_mimebundle_()
    assert bundle["text/plain"].count("○") == 40
    assert bundle["text/html"].count("<li>") == 50
    assert "application/vnd.jupyter.widget-view+json" in bundle


# Notebooks


@EACH_PART
def test_the_notebook_of_a_part(part: int) -> None:
    found = cells(f"concepts_part_{part}")
    code = [cell for cell in found.values() if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code] == [
        "from course_utils.concepts import concept_review, concept_test",
        f'concept_test({part}, "before")',
        f'concept_test({part}, "after")',
        f"concept_review({part})",
    ]
    shown = [
        ("".join(output["data"]["text/plain"]), set(output["data"])) for c in code for output in c["outputs"]
    ]
    kinds = {"text/plain", "text/html"}
    asked = [(repr(concept_test(part, when)), kinds) for when in SITTINGS]
    assert shown == [*asked, (repr(concept_review(part)), kinds)]
