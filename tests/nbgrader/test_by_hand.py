"""What stays nbgrader's: answers graded by hand, comments, late penalties, and points that an instructor changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import LateSubmissionPlugin

from autograder.nbgrader_bridge.folder import CONFIG_NAME, CourseFolder
from autograder.nbgrader_bridge.pipeline import Pipeline
from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep
from tests.nbgrader.dangers import dangers
from tests.nbgrader.notebooks import LAB, MAX_POINTS, SCRIPT

pytestmark = [pytest.mark.nbgrader, pytest.mark.timeout(400)]

CHECK = "check-overlap"  # of a core exercise of 12 points
WHY = "why"
ANSWER = f"A ring sends **less**. {SCRIPT}"


class OnePoint(LateSubmissionPlugin):  # type: ignore[misc]
    """Takes one point off whatever is late."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        return 1.0


def _answer_cell(text: str) -> dict[str, object]:
    metadata = {"grade": True, "solution": True, "locked": False, "task": False, "points": 3, "schema_version": 3}
    return {"cell_type": "markdown", "id": WHY, "metadata": {"nbgrader": metadata | {"grade_id": WHY}}, "source": text}


def _notebook(answer: str | None) -> notebooks.Notebook:
    notebook = notebooks.released()
    if answer is not None:
        notebook["cells"].append(_answer_cell(answer))
    return notebook


@pytest.fixture(scope="module")
def folder(place: Path, course: Path, lockstep: Lockstep) -> CourseFolder:
    """An assignment with a written question, due before ana handed in; ben deleted the question."""
    folder = CourseFolder.at(course)
    with (folder.root / CONFIG_NAME).open("a") as file:
        file.write(f'c.AssignLatePenalties.plugin_class = "{OnePoint.__module__}.OnePoint"\n')
    notebooks.write(folder.root / "source" / LAB / f"{LAB}.ipynb", _notebook("Why is a ring faster?"))
    Pipeline(folder).generate(LAB)
    with _gradebook(folder) as gradebook:
        gradebook.update_or_create_assignment(LAB, duedate="2026-01-01 12:00:00")
    notebooks.write(place / "in" / "ana" / LAB / f"{LAB}.ipynb", _notebook(ANSWER))
    (place / "in" / "ana" / LAB / "timestamp.txt").write_text("2026-01-02 12:00:00.0 UTC")
    notebooks.write(place / "in" / "ben.ipynb", _notebook(None))
    assert lockstep("grade", place / "in", "--course", folder.root).exit_code == 0
    return folder


def _gradebook(folder: CourseFolder) -> Gradebook:
    return Gradebook(f"sqlite:///{folder.root / 'gradebook.db'}", "lockstep")


def test_an_answer_waits_for_its_grade_and_a_deleted_one_is_zero(folder: CourseFolder) -> None:
    rows = {(row["student"], row["cell"]): row for row in Pipeline(folder).scores(LAB)}
    assert rows["ana", WHY]["needs_manual_grade"] is True
    assert rows["ben", WHY]["needs_manual_grade"] is False
    assert rows["ben", WHY]["score"] == 0
    assert rows["ana", CHECK]["needs_manual_grade"] is False


def test_grades_by_hand_reach_the_feedback(folder: CourseFolder, place: Path, lockstep: Lockstep) -> None:
    with _gradebook(folder) as gradebook:
        gradebook.find_grade(WHY, LAB, LAB, "ana").manual_score = 2
        gradebook.find_grade(CHECK, LAB, LAB, "ana").manual_score = 5
        gradebook.find_comment(WHY, LAB, LAB, "ana").manual_comment = f"Say *how much* less. {SCRIPT}"
        gradebook.db.commit()
    assert lockstep("grade", place / "in", "--course", folder.root, "--only", "ana").exit_code == 0
    assert lockstep("nbgrader", "feedback", "--course", folder.root).exit_code == 0
    page = (folder.feedback("ana", LAB) / f"{LAB}.html").read_text()
    assert f"lab2: 6 of {MAX_POINTS + 3:g} points" in page
    assert "Taken off because it was handed in late: 1." in page
    assert "2 of 3 points" in page
    assert "Your instructor changed this to 5 of 12 points." in page
    assert "<strong>less</strong>" in page
    assert "<em>how much</em>" in page
    assert dangers(page) == []


def test_a_grading_by_hand_survives_the_next_grading(folder: CourseFolder, place: Path, lockstep: Lockstep) -> None:
    assert "2 unchanged" in lockstep("grade", place / "in", "--course", folder.root).output
    rows = {(row["student"], row["cell"]): row for row in Pipeline(folder).scores(LAB)}
    assert rows["ana", WHY]["score"] == 2
    assert rows["ana", CHECK]["score"] == 5


def test_a_new_time_of_hand_in_is_entered(folder: CourseFolder, place: Path, lockstep: Lockstep) -> None:
    (place / "in" / "ana" / LAB / "timestamp.txt").write_text("2026-01-01 11:00:00.0 UTC")
    assert "1 graded now, 1 unchanged" in lockstep("grade", place / "in", "--course", folder.root).output
    with _gradebook(folder) as gradebook:
        assert gradebook.find_submission(LAB, "ana").late_submission_penalty in (None, 0)
        assert gradebook.find_submission(LAB, "ana").score == 7
    assert json.loads(folder.sealed("ana", LAB).read_text())["result"]["points"] == 0
