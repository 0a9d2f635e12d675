"""A second grading keeps what was before, says why it changed, and lowers nothing without a word."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder import grading
from autograder.nbgrader_bridge import regrades, seal
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.results import NotebookResult, Params
from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep
from tests.nbgrader.notebooks import LAB

pytestmark = [pytest.mark.nbgrader, pytest.mark.timeout(400)]


class _Graded:
    """Grading that gives what it is told; runs nothing."""

    points = 12.0
    whose = ""  # the student that the hidden cases of the last grading are for

    def __call__(self, data: bytes, lab: str, params: Params, **named: Any) -> NotebookResult:
        self.whose = params.student
        result = seal.nothing(lab, "")
        (first, *rest) = result.exercises
        first = msgspec.structs.replace(first, points=self.points)
        return msgspec.structs.replace(result, exercises=[first, *rest], points=self.points)


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> _Graded:
    made = _Graded()
    monkeypatch.setattr(grading, "grade_notebook", made)
    return made


def test_what_changed_and_why(place: Path, course: Path, lockstep: Lockstep, graded: _Graded) -> None:
    notebooks.write(place / "in" / "ana.ipynb", notebooks.released())
    folder = CourseFolder.at(course)

    def grade(*args: str) -> str:
        output: str = lockstep("grade", place / "in", "--course", course, *args).output
        return output

    assert "lowered" not in grade()
    assert regrades.read(folder, "ana", LAB) == []

    graded.points = 8.0
    said = grade("--only", "ana")
    assert "LOWER THAN BEFORE: ana" in said
    assert "ana: lowered from 12 to 8 points: the same submission, seed and grader gave another result" in said

    old_seed, graded.points = (course / "grading_seed").read_text(), 10.0
    said = grade("--new-seed")
    assert "ana: raised from 8 to 10 points: another grading seed" in said
    assert "LOWER" not in said
    kept = course / "grading_seed.1"
    assert kept.read_text() == old_seed != (course / "grading_seed").read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    graded.points = 3.0
    notebooks.write(place / "in" / "ana.ipynb", notebooks.released() | {"nbformat_minor": 4})
    assert "lowered from 10 to 3 points: another submission" in grade()
    assert [(change.before, change.now) for change in regrades.read(folder, "ana", LAB)] == [(12, 8), (8, 10), (10, 3)]
    assert json.loads(folder.sealed("ana", LAB).read_text())["result"]["points"] == 3


def test_an_edited_seal_is_no_grade_of_before_and_is_told(
    place: Path, course: Path, lockstep: Lockstep, graded: _Graded
) -> None:
    notebooks.write(place / "one" / "ben.ipynb", notebooks.released())
    graded.points = 5.0
    lockstep("grade", place / "one", "--course", course)
    path = course / "sealed" / "ben" / f"{LAB}.json"
    path.write_bytes(path.read_bytes().replace(b'"points": 5.0', b'"points": 9.0'))
    output = lockstep("grade", place / "one", "--course", course).output
    assert "5 / " in output
    assert "ben: lowered from 9 to 5 points: the earlier result was edited, or sealed with a seed" in output


def test_a_grader_that_fails_takes_no_grade_away(
    place: Path, course: Path, lockstep: Lockstep, graded: _Graded, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebooks.write(place / "two" / "cleo.ipynb", notebooks.released())
    graded.points = 7.0
    lockstep("grade", place / "two", "--course", course)
    before = (course / "sealed" / "cleo" / f"{LAB}.json").read_bytes()

    def broken(*args: object, **named: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(grading, "grade_notebook", broken)
    result = lockstep("grade", place / "two", "--course", course, "--only", "cleo")
    assert result.exit_code == 1
    assert "the result of before stays" in result.output
    assert (course / "sealed" / "cleo" / f"{LAB}.json").read_bytes() == before


def test_hidden_cases_of_each_student_are_kept_until_the_class_gets_its_own_again(
    place: Path, course: Path, lockstep: Lockstep, graded: _Graded
) -> None:
    notebooks.write(place / "three" / "dan.ipynb", notebooks.released())

    def grade(*args: str) -> str:
        output: str = lockstep("grade", place / "three", "--course", course, *args).output
        return output

    grade()
    assert graded.whose == ""
    graded.points = 9.0
    assert "dan: lowered from 12 to 9 points: other hidden cases" in grade("--cases", "student")
    assert graded.whose == "dan"
    assert "(unchanged)" in grade()
    assert "(unchanged)" not in grade("--cases", "class")
    assert graded.whose == ""
