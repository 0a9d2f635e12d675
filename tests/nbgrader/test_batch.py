"""`lockstep grade` on submissions that need no ranks: order, exit codes, resuming, what is said about broken files."""

from __future__ import annotations

import json
import re
import stat
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder import grading
from autograder.nbgrader_bridge import intake, seal
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.pipeline import Pipeline
from autograder.results import Finding, NotebookResult, Params
from tests.nbgrader import notebooks
from tests.nbgrader.conftest import Lockstep
from tests.nbgrader.notebooks import MAX_POINTS

pytestmark = [pytest.mark.nbgrader, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def graded(place: Path, course: Path, lockstep: Lockstep) -> Any:
    """A first grading of a folder of untouched, broken and missing notebooks."""
    submissions = place / "submissions"
    notebooks.write(submissions / "ana.ipynb", notebooks.released())
    notebooks.write(submissions / "ben" / "lab2.ipynb", "{not json")
    (submissions / "cleo").mkdir()
    notebooks.write(submissions / "d+d.ipynb", notebooks.released())
    notebooks.write(submissions / "eve.ipynb", notebooks.released())
    return lockstep("grade", submissions, "--course", course)


def _lines(output: str) -> dict[str, str]:
    """The progress lines by student."""
    rows = [line.split(maxsplit=2) for line in output.splitlines() if "/5 " in line]
    return {student: said for _, student, said in rows}


def _again(place: Path, lockstep: Lockstep, *args: str) -> Any:
    return lockstep("grade", place / "submissions", "--course", place / "course", *args)


def test_each_submission_has_one_line_and_the_broken_ones_are_explained(graded: Any) -> None:
    lines = _lines(graded.output)
    assert list(lines) == ["ana", "ben", "cleo", "d+d", "eve"]
    assert lines["ana"] == f"0 / {MAX_POINTS:g}  Not started yet"
    assert "no valid JSON" in lines["ben"]
    assert "No notebook was handed in" in lines["cleo"]
    assert lines["d+d"] == "not graded, see below"
    assert "d+d: 'd+d' cannot be a student's name" in graded.output
    assert lines["eve"] == f"0 / {MAX_POINTS:g}  Not started yet"
    assert graded.exit_code == 1


def test_the_summary_counts(graded: Any) -> None:
    assert "5 submissions of lab2: 4 graded now, 0 unchanged, 1 not graded" in graded.output
    assert re.search(r"lab2/ring-all-reduce +passed by 0 of 2, not started by 2\n", graded.output)
    assert "0 points unread, the reasons stand below: ben, cleo\n" in graded.output
    assert "missed by" not in graded.output


def test_a_submission_that_is_no_notebook_has_its_page_and_its_zero(graded: Any, place: Path) -> None:
    assert "no valid JSON" in (place / "course/reports/ben/lab2.html").read_text()
    assert json.loads((place / "course/sealed/ben/lab2.json").read_text())["result"]["points"] == 0


def test_the_seed_is_private_and_never_shown(graded: Any, place: Path) -> None:
    path = place / "course" / "grading_seed"
    seed = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(seed) == 64
    assert seed not in graded.output
    others = [p for p in (place / "course").rglob("*") if p.is_file() and p != path]
    assert others
    assert [p for p in others if seed.encode() in p.read_bytes()] == []


def test_a_second_grading_leaves_everything_alone(
    graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise AssertionError("an unchanged submission was graded again")

    monkeypatch.setattr(grading, "grade_notebook", refuse)
    monkeypatch.setattr(Pipeline, "autograde", refuse)
    lines = _lines(_again(place, lockstep).output)
    assert [student for student, said in lines.items() if "(unchanged)" in said] == ["ana", "ben", "cleo", "eve"]


def test_a_changed_submission_is_graded_again(graded: Any, place: Path, lockstep: Lockstep) -> None:
    changed = notebooks.released()
    notebooks.cell(changed, notebooks.EXERCISE)["source"] = "# exercise: lab2/ring-all-reduce\ndef broken(:\n"
    notebooks.write(place / "submissions" / "eve.ipynb", changed)
    lines = _lines(_again(place, lockstep).output)
    assert "not valid Python" in lines["eve"]
    assert "(unchanged)" in lines["ana"]
    notebooks.write(place / "submissions" / "eve.ipynb", notebooks.released())
    _again(place, lockstep)


def test_an_edited_seal_is_refused_and_replaced(graded: Any, place: Path, lockstep: Lockstep) -> None:
    path = place / "course/sealed/ana/lab2.json"
    honest = path.read_bytes()
    path.write_bytes(honest.replace(b'"points": 0.0', b'"points": 12.0'))
    assert _lines(_again(place, lockstep).output)["ana"].startswith(f"0 / {MAX_POINTS:g}")
    assert path.read_bytes() == honest


def test_one_student_can_be_graded_again(graded: Any, place: Path, lockstep: Lockstep) -> None:
    path = place / "course/sealed/ana/lab2.json"
    before = path.read_bytes()
    result = _again(place, lockstep, "--only", "ana")
    assert "1 submission of lab2: 1 graded now, 0 unchanged" in result.output
    assert path.read_bytes() == before
    assert result.exit_code == 0
    for changes_all in (["--new-seed"], ["--cases", "student"]):
        refused = _again(place, lockstep, "--only", "ana", *changes_all)
        assert "change the hidden cases of everybody" in str(refused.exception)
    unknown = _again(place, lockstep, "--only", "zoe")
    assert isinstance(unknown.exception, BridgeError)
    assert "no submission of zoe" in str(unknown.exception)


def test_an_interrupted_grading_continues(
    graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in ("ana", "eve"):
        (place / f"course/sealed/{student}/lab2.json").unlink()
        (place / f"course/autograded/{student}/lab2/lab2.ipynb").unlink()
    honest = Pipeline.autograde

    def interrupt(self: Pipeline, assignment: str, student: str) -> None:
        if student == "eve":
            raise KeyboardInterrupt
        honest(self, assignment, student)

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "autograde", interrupt)
        stopped = _again(place, lockstep)
    assert stopped.exit_code == 1
    assert "4 of 5 are done.\n\nInterrupted: the same command continues where it stopped." in stopped.output
    lines = _lines(_again(place, lockstep).output)
    assert lines["ana"] == f"0 / {MAX_POINTS:g}  (unchanged) Not started yet"
    assert lines["eve"] == f"0 / {MAX_POINTS:g}  Not started yet"


def test_when_the_grader_breaks_the_others_go_on_and_the_next_run_tries_again(
    graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "course/sealed/ana/lab2.json").unlink()

    def broken(*args: object, **named: object) -> None:
        raise RuntimeError("secret details")

    with monkeypatch.context() as patch:
        patch.setattr(grading, "grade_notebook", broken)
        result = _again(place, lockstep)
    lines = _lines(result.output)
    assert "The grader itself failed on this notebook (RuntimeError)" in lines["ana"]
    assert "5 submissions of lab2: 0 graded now, 3 unchanged, 2 not graded" in result.output
    first, second, *_ = result.output.splitlines()
    assert (first[:10], second) == ("1/5  ana  ", "grading ana/lab2 failed: please report this")
    assert result.exit_code == 1
    assert "(unchanged)" in lines["eve"]
    assert "secret details" not in (place / "course/reports/ana/lab2.html").read_text()
    assert _lines(_again(place, lockstep).output)["ana"] == f"0 / {MAX_POINTS:g}  Not started yet"


def test_a_folder_that_is_something_else_is_not_touched(tmp_path: Path, lockstep: Lockstep) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    result = lockstep("nbgrader", "generate", "--course", tmp_path)
    assert isinstance(result.exception, BridgeError)
    assert "is not a course folder" in str(result.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_seed_from_elsewhere_must_exist_and_be_private(
    graded: Any, place: Path, lockstep: Lockstep, tmp_path: Path
) -> None:
    seed = tmp_path / "seed"
    missing = _again(place, lockstep, "--seed-file", str(seed), "--only", "eve")
    assert "cannot be read" in missing.output
    assert not seed.exists()
    seed.write_text("not secret\n")
    seed.chmod(0o644)
    assert "chmod 600" in _again(place, lockstep, "--seed-file", str(seed), "--only", "eve").output


def test_a_result_from_another_seed_is_stale(graded: Any, place: Path, lockstep: Lockstep, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    seed.touch(mode=0o600)
    seed.write_text("another\n")
    path = place / "course/sealed/ana/lab2.json"
    before = path.read_bytes()
    assert "(unchanged)" not in _lines(_again(place, lockstep, "--seed-file", str(seed)).output)["ana"]
    assert path.read_bytes() != before
    _again(place, lockstep)
    assert path.read_bytes() == before


def test_a_wait_for_the_deadline_needs_a_look(
    graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(data: bytes, lab: str, params: Params, **named: object) -> NotebookResult:
        result = seal.nothing(lab, "")
        late = Finding(key="deadline", title="Stopped at the deadline", text="")
        return msgspec.structs.replace(
            result, exercises=[msgspec.structs.replace(each, findings=[late]) for each in result.exercises]
        )

    with monkeypatch.context() as patch:
        patch.setattr(grading, "grade_notebook", slow)
        result = _again(place, lockstep, "--only", "ana")
    assert "ana: Stopped at the deadline. If this machine was busy, grade it again: --only ana" in result.output
    assert result.exit_code == 0
    assert "Stopped at the deadline" not in _again(place, lockstep, "--only", "ana").output


def test_a_broken_file_is_graded_and_what_is_odd_about_a_notebook_needs_a_look(
    graded: Any, place: Path, lockstep: Lockstep
) -> None:
    broken = _again(place, lockstep, "--only", "ben")
    assert "needs a look:\n  ben: The file is not a notebook" in broken.output
    assert broken.exit_code == 0
    odd = notebooks.released()
    exercise = notebooks.cell(odd, notebooks.EXERCISE)
    odd["cells"].append({**notebooks.code(exercise["source"]), "id": "copy"})
    notebooks.write(place / "odd" / "ana.ipynb", odd)
    exercise["source"], exercise["metadata"] = "def other(:", {}
    odd["cells"].pop()
    notebooks.write(place / "odd" / "eve.ipynb", odd)
    result = lockstep("grade", place / "odd", "--course", place / "course")
    assert "ana: lab2/ring-all-reduce: 2 copies; number 1 (it has the metadata" in result.output
    assert "eve: lab2/ring-all-reduce: no exercise cell was found: no cell has the line" in result.output
    assert result.exit_code == 0
    assert "2 copies; number 1" in (place / "course/reports/ana/lab2.html").read_text()


@pytest.mark.parametrize("where", ["before", "while grading"])
def test_a_course_folder_that_cannot_be_written_is_one_sentence(
    where: str, graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", "the/file")

    if where == "before":
        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    else:
        monkeypatch.setattr(seal, "_store", refuse)
    result = _again(place, lockstep, "--only", "ana")
    assert isinstance(result.exception, BridgeError)  # the command line makes it one sentence and exit code 2
    assert str(result.exception).endswith(
        "course: Permission denied." if where == "before" else "written: Permission denied. Nothing is lost."
    )


def test_an_interruption_before_the_first_submission_is_said(
    graded: Any, place: Path, lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(intake, "find", interrupt)
    result = _again(place, lockstep)
    assert "the same command continues where it stopped" in result.output
    assert "Aborted" not in result.output
    assert result.exit_code == 1


def test_a_second_release_and_pages_that_are_not_sent_are_said(graded: Any, place: Path, lockstep: Lockstep) -> None:
    course = place / "course"
    assert lockstep("nbgrader", "release", "--course", course).exit_code == 0
    again = lockstep("nbgrader", "release", "--course", course).exception
    assert isinstance(again, BridgeError)
    assert str(again).startswith("lab2 is released already, in ")
    sent = lockstep("nbgrader", "feedback", "--course", course)
    assert f"lab2: 4 pages in {course / 'feedback'}, not sent: the submissions came as files" in sent.output
    assert "no page" not in sent.output
    (course / "submitted/zoe/lab2").mkdir(parents=True)
    without = lockstep("nbgrader", "feedback", "--course", course).output
    assert f"lab2: no page for zoe: not in the gradebook. Grade again: lockstep grade --course {course}\n" in without
    page = (course / "feedback/ana/lab2/lab2.html").read_text()
    assert "<p>Student: ana. Lab: lab2.</p>" in page
    assert "not passed, 0 of 12 points" in page


def test_an_archive_is_looked_into_before_a_course_folder_is_made(tmp_path: Path, lockstep: Lockstep) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("ana/notes.pdf", "")
    for submissions, said in ((tmp_path / "in.zip", "holds no notebook"), (tmp_path, "holds no notebook")):
        result = lockstep("grade", submissions, "--course", tmp_path / "course")
        assert said in str(result.exception)
    with zipfile.ZipFile(tmp_path / "in.zip", "a") as archive:
        archive.writestr("ben/lab2.ipynb", "{}")
    other = lockstep("grade", tmp_path / "in.zip", "--course", tmp_path / "course", "--only", "zoe")
    assert "no submission of zoe" in str(other.exception)
    assert not (tmp_path / "course").exists()


def test_what_was_handed_in_instead_and_names_with_apostrophes_reach_the_gradebook(
    graded: Any, place: Path, lockstep: Lockstep
) -> None:
    with zipfile.ZipFile(place / "moodle.zip", "w") as archive:
        archive.writestr("Ben O'Hara_2_assignsubmission_file_/lab2 (1).ipynb", json.dumps(notebooks.released()))
        archive.writestr("Dora Nix_4_assignsubmission_file_/notes.pdf", "")
        archive.writestr("README\x1b[2J.txt", "")
    result = lockstep("grade", place / "moodle.zip", "--course", place / "course")
    assert "1/2  Ben O'Hara     0 / 48  Not started yet\n" in result.output
    assert "2 submissions of lab2: 2 graded now, 0 unchanged, 0 not graded" in result.output
    assert "  Dora Nix: No notebook was handed in, but notes.pdf.\n" in result.output
    assert "  not taken: README\\x1b[2J.txt\n" in result.output
    assert (place / "course/autograded/Ben O'Hara/lab2/lab2.ipynb").is_file()
    assert result.exit_code == 0
