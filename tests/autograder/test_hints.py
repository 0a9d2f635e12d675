"""Hints open stage by stage: by a changed cell and a new check, or by the clock, which tests move by hand."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import msgspec
import pytest

from autograder import notebook, progress, record, report
from autograder.build import tree, validate
from autograder.checks import hint_keys
from autograder.course import HintSettings
from autograder.grading import CheckResult, JobHost, Params, grade_notebook
from autograder.grading.job import Request
from autograder.hints import Hint, Opened, next_hint
from autograder.progress import ExerciseProgress, HintProgress, Progress
from autograder.questions import Option, Question
from autograder.results import Finding, Part
from tests.autograder.small import COURSE, EXERCISE, write_course

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


HINTS = {"bytes": Hint("q", "i", "n", "e")}


def opened(stage: int, costs: float, accepted: bool) -> Opened:
    """What the next hint is after ``stage`` stages, long after the last."""
    known = ExerciseProgress(checks=1, findings=("bytes",), hints={"bytes": HintProgress(stage=stage)})
    return next_hint(HINTS, known, 1e9, WAIT_S, costs, accepted)


def test_a_last_stage_that_costs_is_opened_only_when_that_is_accepted() -> None:
    asked = opened(3, 1.0, False)
    assert (asked.asks, asked.progress) == (True, None)
    assert "costs 1 points. Nothing was opened." in asked.text
    paid = opened(3, 1.0, True)
    assert paid.progress is not None
    assert (paid.stage, paid.progress.cost_points) == (4, 1.0)
    early = opened(2, 1.0, False)
    assert early.progress is not None
    assert (early.stage, early.progress.cost_points, early.asks) == (3, 0.0, False)


def test_hint_costs_add_up() -> None:
    known = Progress()
    for name in ("homework/a", "homework/b"):
        done = ExerciseProgress(hints={"x": HintProgress(4, 0.0, "", 1.0), "y": HintProgress(2)})
        known = known.with_exercise(name, done)
    assert known.hint_costs() == 2.0


def test_what_a_notebook_claims_of_hints_and_answers_is_read_as_data() -> None:
    asked = {"why": Question("q", "s", (Option("a", "w"), Option("b", "w", right=True), Option("c", "w")))}

    def cell(source: str, *shown: object) -> dict[str, object]:
        return {"cell_type": "code", "source": source, "outputs": [{"data": {record.MIME: s}} for s in shown]}

    good = {"exercise": EXERCISE, "key": "bytes", "stage": 2}
    cells = [
        cell("hint()", good, good | {"stage": 99}, good | {"stage": "x"}, "nonsense", None),
        cell('answer("lab2/why", "a")'),
        cell('answer("lab2/why", " b ")'),
        cell('answer("lab2/why", "z")'),
        cell('answer("lab2/other", "a")'),
        cell("answer(" + "(" * 400),
        cell('answer(*["lab2/why", "a"])'),
        {"cell_type": "code", "source": 7, "outputs": 7},
    ]
    data = json.dumps({"cells": cells}).encode()
    assert record.opened_hints(data) == {EXERCISE: {"bytes": 4}}
    assert record.answers(data, "lab2", asked) == {"why": "B"}
    assert record.answered_right({"why": "B"}, asked) == 1
    for broken in (b"", b"[]", b'{"cells": 3}', b'{"cells": [1, {"cell_type": "code"}]}'):
        assert (record.opened_hints(broken), record.answers(broken, "lab2", asked)) == ({}, {})


def test_a_page_shows_the_stage_after_the_opened_ones_but_never_the_example() -> None:
    hints = {EXERCISE: HINTS}
    for stage, text in ((0, "q"), (1, "i"), (2, "n"), (3, "n"), (4, "n")):
        [shown] = record.with_next_hints([result("bytes")], {EXERCISE: {"bytes": stage}}, hints)
        assert shown.findings[0].hint == text


def _charged(opened: dict[str, dict[str, int]], points: dict[str, float]) -> list[tuple[float, float]]:
    results = [msgspec.structs.replace(result(), exercise=name, points=p) for name, p in points.items()]
    rules = HintSettings(wait_minutes=5, homework_cost_points=1, homework_cost_limit=5)
    return [(r.points, r.hint_cost) for r in record.with_hint_costs(results, opened, rules)]


def test_the_last_stages_of_homework_cost_points_up_to_the_limit_and_labs_cost_nothing() -> None:
    four, three = dict.fromkeys("abcd", 4), dict.fromkeys("abcd", 3)
    assert _charged({"lab2/x": four}, {"lab2/x": 8.0}) == [(8.0, 0.0)]
    assert _charged({"homework/x": three}, {"homework/x": 8.0}) == [(8.0, 0.0)]
    assert _charged({"homework/x": {**three, "e": 4}}, {"homework/x": 8.0, "homework/y": 3.0}) == [
        (7.0, 1.0),
        (3.0, 0.0),
    ]
    assert _charged({"homework/x": four, "homework/y": four}, {"homework/x": 8.0, "homework/y": 3.0}) == [
        (4.0, 4.0),
        (2.0, 1.0),
    ]
    assert _charged({"homework/x": four}, {"homework/x": 2.0}) == [(0.0, 2.0)]


def test_what_hints_cost_is_shown() -> None:
    charged = msgspec.structs.replace(result(), points=2.0, hint_cost=1.0)
    for said in (report.text(charged), report.fragment(charged, graded=True)):
        assert "the last stage of a hint was opened" in said
        assert "2 of 3 points" in said
    assert "hint" not in report.text(result())


class _AlwaysRight(JobHost):
    """Gives every exercise its points, and runs nothing."""

    def check(self, request: Request, deadline_s: float, progress: object) -> CheckResult:
        exercise = request.exercise
        parts = [Part(p.key, p.title, True, p.points, p.points) for p in exercise.parts]
        total = exercise.points
        return CheckResult(exercise=exercise.id, points=total, max_points=total, passed=True, parts=parts, findings=[])


def test_a_graded_homework_pays_for_the_hints_that_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "hint_keys", lambda exercise_id: hint_keys(EXERCISE))
    root = write_course(tmp_path, course=COURSE.replace("id: lab2", "id: homework"))
    (root / "solutions/lab2").rename(root / "solutions/homework")
    for path in (root / "solutions/homework").rglob("*.*"):
        path.write_text(path.read_text().replace("lab2/", "homework/"))
    tree.write(root, tree.generate(root))
    notebook_file = json.loads((root / "labs/homework/homework.ipynb").read_text())
    exercise, asked = (
        next(c for c in notebook_file["cells"] if word in c["source"][0]) for word in ("# exer", "check(")
    )
    exercise["source"] = "# exercise: homework/ring-all-reduce\ndef ring_all_reduce(tensor): ..."
    shown = [
        {"exercise": "homework/ring-all-reduce", "key": key, "stage": 4, "cost_points": 0} for key in ("hub", "bytes")
    ]
    asked["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": {record.MIME: s}} for s in shown]

    graded = grade_notebook(json.dumps(notebook_file).encode(), "homework", Params(), host=_AlwaysRight(), root=root)
    [one] = graded.exercises
    assert (graded.points, one.points, one.hint_cost, one.passed) == (1.0, 1.0, 2.0, True)
    page = report.page(graded, "ana")
    assert "1 of 3 points" in page
    assert "the last stage of a hint was opened</td><td>-2<" in page
