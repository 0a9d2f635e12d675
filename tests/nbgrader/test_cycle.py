"""The whole way through the real nbgrader, with real ranks: generate, release, fetch, submit, collect, grade, feedback,
export, for a right, a wrong, an empty and a hostile submission.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nbconvert.exporters import HTMLExporter

from autograder.checks import find
from autograder.nbgrader_bridge import config
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.results import Params
from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep
from tests.nbgrader.dangers import dangers
from tests.nbgrader.notebooks import EXERCISE, LAB, MAX_POINTS

pytestmark = [pytest.mark.nbgrader, pytest.mark.slow, pytest.mark.timeout(400)]

STUDENTS = ("hal", "rita", "una", "wim")  # hostile, right, untouched, wrong


class Cycle(NamedTuple):
    """A course after one round, and what the commands said."""

    place: Path
    course: Path
    graded: str

    def seal(self, student: str) -> bytes:
        return (self.course / "sealed" / student / "lab2.json").read_bytes()

    def result(self, student: str) -> Any:
        return json.loads(self.seal(student))["result"]

    def feedback(self, student: str) -> str:
        """The page that the student fetched."""
        (page,) = (self.place / "homes" / student / "lab2" / "feedback").rglob("lab2.html")
        return page.read_text()


@pytest.fixture(scope="module")
def cycle(place: Path, course: Path, lockstep: Lockstep) -> Cycle:
    wrong = notebooks.mutant("wrong_at_three_ranks")
    handed_in = {"hal": notebooks.hostile(), "rita": notebooks.reference(), "wim": wrong, "una": notebooks.released()}

    def step(*args: object) -> str:
        result = lockstep(*args, "--course", course)
        assert result.exit_code == 0, (args, result.output, result.exception)
        return result.output

    step("nbgrader", "release")
    for student in STUDENTS:
        home = place / "homes" / student
        home.mkdir(parents=True)
        step("nbgrader", "fetch", "--student", student, "--home", home)
        assert json.loads((home / "lab2" / "lab2.ipynb").read_text())["cells"]
        notebooks.write(home / "lab2" / "lab2.ipynb", handed_in[student])
        step("nbgrader", "submit", "--student", student, "--home", home)
    assert "4 submissions" in step("nbgrader", "collect")
    graded = step("grade")
    step("nbgrader", "feedback")
    for student in STUDENTS:
        step("nbgrader", "fetch-feedback", "--student", student, "--home", place / "homes" / student)
    step("nbgrader", "export", "--to", place / "points.csv")
    return Cycle(place, course, graded)


def _points(cycle: Cycle) -> dict[str, float]:
    with (cycle.place / "points.csv").open(newline="") as file:
        points = dict.fromkeys(STUDENTS, 0.0)
        for row in csv.DictReader(file):  # one for every graded cell
            points[row["student"]] += float(row["score"])
        return points


def test_the_gradebook_holds_the_sealed_points(cycle: Cycle) -> None:
    assert _points(cycle) == {student: cycle.result(student)["points"] for student in STUDENTS}


def test_right_full_wrong_partial_untouched_none(cycle: Cycle) -> None:
    points = _points(cycle)
    assert points["rita"] == MAX_POINTS
    [ring] = [e for e in cycle.result("wim")["exercises"] if e["exercise"] == f"{LAB}/{EXERCISE}"]
    assert 0 < ring["points"] < 12
    assert points["wim"] == 0  # what is wrong is a stretch exercise: a badge, no grade
    assert points["una"] == 0


def test_a_hostile_notebook_gets_what_its_code_is_worth(cycle: Cycle) -> None:
    """Its exercise is the reference; the helper cell that would end a kernel and the claimed points do not matter."""
    assert _points(cycle)["hal"] == MAX_POINTS
    assert any("metadata is lost" in note for note in cycle.result("hal")["notes"])


def test_nothing_needs_a_manual_grade(cycle: Cycle) -> None:
    with (cycle.place / "points.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["student"] for row in rows} == set(STUDENTS)
    assert {row["needs_manual_grade"] for row in rows} == {"False"}


def test_feedback_says_what_was_found(cycle: Cycle) -> None:
    findings = [f for exercise in cycle.result("wim")["exercises"] for f in exercise["findings"]]
    page = cycle.feedback("wim")
    assert findings
    assert all(finding["title"] in page for finding in findings)
    assert "0 of 12 points" in cycle.feedback("una")
    assert "The cell is still the starter" in cycle.feedback("una")


@pytest.mark.parametrize("student", STUDENTS)
def test_no_script_and_no_request_in_any_page(cycle: Cycle, student: str) -> None:
    report = (cycle.course / "reports" / student / "lab2.html").read_text()
    for page in (cycle.feedback(student), report, _formgrader_page(cycle, student)):
        assert "ring-all-reduce" in page
        assert dangers(page) == []


def _formgrader_page(cycle: Cycle, student: str) -> str:
    """The submission as formgrader shows it inside the instructor's Jupyter, without formgrader's own frame."""
    settings = config.load(CourseFolder.at(cycle.course))
    settings.HTMLExporter.template_name = "formgrade"
    path = cycle.course / "autograded" / student / "lab2" / "lab2.ipynb"
    names = {
        "submission_id": "s",
        "notebook_id": "lab2",
        "assignment_id": "lab2",
        "base_url": "",
        "index": 0,
        "total": 4,
    }
    page: str = HTMLExporter(config=settings).from_filename(str(path), resources=names)[0]
    assert "cdnjs" not in page
    return page[page.index('<div class="container" id="notebook-container">') :]


def test_neither_seed_nor_hidden_cases_are_given_away(cycle: Cycle) -> None:
    """A finding names the one case that it shows; nothing else of the hidden cases is in any text."""
    seed = (cycle.course / "grading_seed").read_text().strip()
    drawn = find(f"{LAB}/{EXERCISE}").cases(f"{LAB}/{EXERCISE}", Params(kind="hidden", seed=seed))
    hidden = {case.name for case in drawn if case.length > 1}
    for student in STUDENTS:
        findings = [f for exercise in cycle.result(student)["exercises"] for f in exercise["findings"]]
        shown = {str(finding["replay"]).split()[-1] for finding in findings}
        for text in (cycle.feedback(student), cycle.seal(student).decode(), cycle.graded):
            assert seed[:16] not in text
            assert [name for name in hidden - shown if name in text] == []


def test_fake_outputs_are_gone(cycle: Cycle) -> None:
    page = cycle.feedback("hal")
    assert "12 of 12 points" in page
    autograded = json.loads((cycle.course / "autograded/hal/lab2/lab2.ipynb").read_text())
    outputs = [output for cell in autograded["cells"] for output in cell.get("outputs", [])]
    assert ["".join(output["data"]["text/plain"]) for output in outputs] == [
        str(e["max_points"] if e["tier"] == "core" else 0.0) for e in cycle.result("hal")["exercises"]
    ]


def test_a_second_grading_from_nothing_gives_the_same_bytes(cycle: Cycle, lockstep: Lockstep) -> None:
    """Another course folder, another layout of the submissions, the same seed: the same result file."""
    source = cycle.course / "submitted" / "wim" / "lab2" / "lab2.ipynb"
    notebooks.write(cycle.place / "loose" / "wim.ipynb", source.read_text())
    other, seed = cycle.place / "other", cycle.course / "grading_seed"  # `grade` makes the new course folder
    result = lockstep("grade", cycle.place / "loose", "--course", other, "--seed-file", seed)
    assert result.exit_code == 0, result.output
    assert not (other / "grading_seed").exists()
    assert (other / "sealed" / "wim" / "lab2.json").read_bytes() == cycle.seal("wim")
