"""Hints open stage by stage: by a changed cell and a new check, or by the clock, which tests move by hand."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from autograder import notebook, progress
from autograder.grading import CheckResult
from autograder.progress import ExerciseProgress, HintProgress, Progress
from autograder.results import Finding, Part
from tests.autograder.small import EXERCISE

WAIT_S = 300.0


def result(*keys: str) -> CheckResult:
    """A check that found ``keys``; none means passed."""
    findings = [Finding(key=key, title=key, text=key) for key in keys]
    points = 0.0 if keys else 3.0
    parts = [Part("value", "The sum", not keys, points, 3.0)]
    return CheckResult(
        exercise=EXERCISE, points=points, max_points=3.0, passed=not keys, parts=parts, findings=findings
    )


def checked(root: Path, source: str, *keys: str) -> None:
    """Record a check of ``source`` that found ``keys``."""
    progress.save(root, progress.load(root).after_check(result(*keys), source))


def test_hints_need_a_check_first(small: Path) -> None:
    assert f"`lockstep check {EXERCISE}`" in notebook.open_hint(small, EXERCISE, 0.0).text


def test_the_next_stage_waits_for_the_clock(small: Path) -> None:
    checked(small, "a", "bytes")
    assert "Hint 1 of 4 for the finding 'bytes'" in notebook.open_hint(small, EXERCISE, 1000.0).text
    again = notebook.open_hint(small, EXERCISE, 1000.0 + WAIT_S - 1).text
    assert "Hint 1 of 4" in again
    assert "change the cell and check again, or in about 1 min" in again
    assert "Hint 2 of 4" in notebook.open_hint(small, EXERCISE, 1000.0 + WAIT_S).text
    assert "Hint 2 of 4" in notebook.open_hint(small, EXERCISE, 1000.0 + WAIT_S + 1).text


def test_the_next_stage_opens_after_a_changed_cell_and_a_new_check(small: Path) -> None:
    checked(small, "a", "bytes")
    notebook.open_hint(small, EXERCISE, 0.0)
    checked(small, "a  \n\n", "bytes")  # the same code
    assert "Hint 1 of 4" in notebook.open_hint(small, EXERCISE, 1.0).text
    for stage, source in ((2, "b"), (3, "c"), (4, "d")):
        checked(small, source, "bytes")
        assert f"Hint {stage} of 4" in notebook.open_hint(small, EXERCISE, 1.0).text
    checked(small, "e", "bytes")
    last = notebook.open_hint(small, EXERCISE, 1e9).text
    assert "the example" in last
    assert "This was the last stage" in last


def test_each_finding_has_its_own_stages_and_the_first_that_fits_is_answered(small: Path) -> None:
    checked(small, "a", "syntax", "hub", "bytes")
    assert "for the finding 'hub'" in notebook.open_hint(small, EXERCISE, 0.0).text
    checked(small, "b", "bytes")
    assert "Hint 1 of 4 for the finding 'bytes'" in notebook.open_hint(small, EXERCISE, 0.0).text


def test_no_fitting_hint_says_so_and_a_passed_check_needs_none(small: Path) -> None:
    checked(small, "a", "syntax")
    assert "No hint fits" in notebook.open_hint(small, EXERCISE, 0.0).text
    checked(small, "b")
    assert "nothing left to hint at" in notebook.open_hint(small, EXERCISE, 0.0).text


def test_a_clock_that_went_back_opens_nothing_and_promises_no_more_than_the_wait(small: Path) -> None:
    checked(small, "a", "bytes")
    notebook.open_hint(small, EXERCISE, 10_000.0)
    assert "Hint 1 of 4" in notebook.open_hint(small, EXERCISE, 0.0).text


def test_progress_remembers_the_best_and_that_it_passed_once(small: Path) -> None:
    checked(small, "a")
    checked(small, "b", "bytes", "bytes", "hub")
    done = progress.load(small).of(EXERCISE)
    assert (done.checks, done.passed, done.ever_passed, done.best_points) == (2, False, True, 3.0)
    assert done.findings == ("bytes", "hub")


def test_progress_is_one_readable_file_that_is_replaced_whole(small: Path) -> None:
    opened = HintProgress(2, 5.0, "abc")
    progress.save(small, Progress().with_exercise(EXERCISE, ExerciseProgress().with_hint("bytes", opened)))
    files = list((small / ".lockstep").iterdir())
    assert [f.name for f in files] == ["progress.json"]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert json.loads(files[0].read_text())["exercises"][EXERCISE]["hints"]["bytes"]["stage"] == 2
    assert progress.load(small).of(EXERCISE).hints["bytes"] == opened


def test_a_broken_progress_file_is_set_aside(small: Path) -> None:
    checked(small, "a", "bytes")
    file = small / progress.FILE
    file.write_text("{not json")
    assert progress.load(small) == Progress()
    assert file.with_name("progress.json.broken").read_text() == "{not json"
    checked(small, "a", "bytes")
    assert progress.load(small).of(EXERCISE).checks == 1
