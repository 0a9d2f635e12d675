"""Held points: 0 until a person accepts the cell; the acceptance stays over regrades, and is for that cell only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.course import Exercise
from autograder.grading import grade
from autograder.grading.hold import hold
from autograder.results import CheckResult, Part
from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep

pytestmark = [pytest.mark.nbgrader, pytest.mark.timeout(400)]
NAME = "sampler"
CELL = f"# exercise: lab2/{NAME}\nimport {{}}\n\nclass ShardSampler: pass\n"


def _all_right(source: str | None, exercise_id: str, *args: object, accepted: bool, **named: Any) -> CheckResult:
    """In place of a check that runs: every cell that was begun earns everything."""
    exercise: Exercise = grade.course_file.load().exercise(exercise_id)
    points = 1.0 if source and "import" in source else 0.0
    parts = [Part(p.key, p.title, bool(points), p.points * points, p.points) for p in exercise.parts]
    result = CheckResult(
        exercise=exercise_id,
        points=exercise.points * points,
        max_points=exercise.points,
        passed=bool(points),
        parts=parts,
        findings=[],
        tier=exercise.tier,
    )
    return result if accepted else hold(result, source or "", ("",))


def _hand_in(place: Path, module: str) -> None:
    notebook = notebooks.released()
    notebooks.cell(notebook, NAME)["source"] = CELL.format(module)
    notebooks.write(place / "submissions" / "ana.ipynb", notebook)


def test_held_points_count_after_a_person_accepted_the_cell(
    place: Path, course: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grade, "check_exercise", _all_right)
    points = grade.course_file.load().exercise(f"lab2/{NAME}").points

    def run(*args: str) -> str:
        return str(lockstep("grade", place / "submissions", "--course", course, *args).output)

    def entered() -> float:
        return float(json.loads((course / "sealed/ana/lab2.json").read_text())["result"]["points"])

    _hand_in(place, "os")
    first = run()
    assert f"{points:g} points held" in first
    assert f"ana: {points:g} points of {NAME} are held: the cell uses os. Read it, then: " in first
    assert f"lockstep grade --course {course} --accept ana/{NAME}" in first
    assert entered() == 0
    page = (course / "reports/ana/lab2.html").read_text()
    assert "The cell uses `os` (line 2), which the exercise does not need" in page
    assert "… held" in page
    assert "nothing of that is held in lab2; held are lab2/sampler" in _refusal(lockstep, place, course, "ana/wrap")

    accepted = run("--accept", f"ana/{NAME}")
    assert f"accepted: lab2/{NAME} of ana, as handed in" in accepted
    assert f"raised from 0 to {points:g} points: held points were accepted" in accepted
    assert entered() == points
    again = run("--only", "ana")
    assert entered() == points
    assert "held" not in again

    _hand_in(place, "socket")  # another cell than the one that was read
    assert "the cell uses socket" in run()
    assert entered() == 0


def _refusal(lockstep: Lockstep, place: Path, course: Path, who: str) -> str:
    return str(lockstep("grade", place / "submissions", "--course", course, "--accept", who).exception)


def test_a_notebook_of_another_lab_and_one_of_none_are_said_in_one_line(
    place: Path, course: Path, lockstep: Lockstep
) -> None:
    other = {"cells": [notebooks.code("# exercise: lab1/choose\nx = 1")], "metadata": {}, "nbformat": 4}
    notebooks.write(place / "others" / "ben.ipynb", {**other, "nbformat_minor": 5})
    notebooks.write(place / "others" / "cleo.ipynb", "{no json")
    result = lockstep("grade", place / "others", "--course", course)
    assert result.exit_code == 0
    assert "The file is a notebook of lab1, not of lab2. Hand in lab2.ipynb as JupyterLab saves it." in result.output
    assert "0 points unread, the reasons stand below: ben, cleo" in result.output
    assert "missed" not in result.output
    page = (course / "reports/ben/lab2.html").read_text()
    assert page.count("The file is a notebook of lab1") == 1
    assert "<article" not in page


def test_what_is_missing_is_said_before_a_lab_is_asked_for(tmp_path: Path, lockstep: Lockstep) -> None:
    (tmp_path / "empty").mkdir()
    for given, said in (("none", "does not exist"), ("empty", "is empty")):
        result = lockstep("grade", tmp_path / given, "--course", tmp_path / "course", "--assignment", "lab99")
        assert said in str(result.exception)
    result = lockstep("grade", "--course", tmp_path / "course", "--assignment", "lab99")
    assert "There is nothing to grade" in str(result.exception)
    assert not (tmp_path / "course").exists()
