"""The grader graded: every mutant is rejected for the intended reason, every right solution gets full points."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autograder import course, lab_file
from autograder.build import source as build_source
from autograder.build import tree
from autograder.grading import CheckResult, JobHost, Params, check_exercise, grade_notebook
from autograder.hints import STAGES
from tests.course.harness import ROOT, Solution, solutions

MUTANTS = solutions("mutants")
VARIANTS = solutions("variants")
PARAMS = [Params("visible"), *(Params("hidden", seed) for seed in ("2026-spring", "2026-autumn", "7"))]
SLOW = [pytest.param(params, marks=pytest.mark.slow) for params in PARAMS[2:]]  # two seeds more, with the slow tests
SHORT_DEADLINE_S = 10.0


def describe(result: CheckResult) -> str:
    """What a failed assertion should show of a result."""
    said = [f"{f.key}: {f.title}. {f.text} (expected {f.expected}, seen {f.seen}, {f.case})" for f in result.findings]
    return f"{result.points} of {result.max_points}\n" + "\n".join(said)


def assert_full_points(result: CheckResult) -> None:
    assert result.passed, describe(result)
    assert result.points == result.max_points
    assert not result.findings
    assert all(part.passed for part in result.parts)
    assert set(result.cases) == {"2", "3", "4", "5"}


def reference(exercise: str) -> str:
    """The exercise cell of the reference notebook."""
    problems: list[str] = []
    file = build_source.read(ROOT / "solutions" / exercise / "cells.py", f"{exercise}/cells.py", problems)
    assert not problems
    [cell] = [cell for cell in file.of_kind("exercise") if cell.exercise == exercise]
    return build_source.solved(cell.source)


def root_with_short_deadline(folder: Path) -> Path:
    """A course folder whose checks are stopped early, for solutions that never come to an end."""
    text = (ROOT / "course.yaml").read_text(encoding="utf-8")
    deadline = f"deadline_s: {course.load(ROOT).grading.deadline_s:g}"
    assert deadline in text
    (folder / "course.yaml").write_text(text.replace(deadline, f"deadline_s: {SHORT_DEADLINE_S:g}"))
    (folder / "labs").symlink_to(ROOT / "labs")
    return folder


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_mutant_is_rejected_in_the_intended_finding(mutant: Solution, host: JobHost, tmp_path: Path) -> None:
    if mutant.finding == "deadline":  # in a process of its own, because the deadline ends that
        result = check_exercise(mutant.source, mutant.exercise, root=root_with_short_deadline(tmp_path))
    else:
        result = check_exercise(mutant.source, mutant.exercise, host=host, root=ROOT)
    assert not result.passed
    assert result.points < result.max_points
    assert result.findings, describe(result)
    first = result.findings[0]
    assert first.key == mutant.finding, describe(result)
    assert "Traceback" not in first.text
    assert first.title
    assert first.text


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_intended_hint_of_a_mutant_exists(mutant: Solution) -> None:
    hints = lab_file.load(ROOT, mutant.exercise.split("/")[0]).exercises[mutant.exercise].hints
    if mutant.hint == "none":
        assert mutant.finding not in hints
    else:
        assert mutant.hint == mutant.finding
        assert all(getattr(hints[mutant.hint], stage).strip() for stage in STAGES)


@pytest.mark.parametrize("params", [*PARAMS[:2], *SLOW], ids=lambda p: f"{p.kind}{p.seed}")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_a_right_variant_gets_full_points(variant: Solution, params: Params, host: JobHost) -> None:
    assert_full_points(check_exercise(variant.source, variant.exercise, params, host=host, root=ROOT))


@pytest.mark.parametrize("params", [*PARAMS[:2], *SLOW], ids=lambda p: f"{p.kind}{p.seed}")
@pytest.mark.parametrize("exercise", [e.id for e in course.load(ROOT).exercises()])
def test_the_reference_gets_full_points(exercise: str, params: Params, host: JobHost) -> None:
    assert_full_points(check_exercise(reference(exercise), exercise, params, host=host, root=ROOT))


@pytest.mark.parametrize("exercise", [e.id for e in course.load(ROOT).exercises()])
def test_the_starter_gets_nothing_and_is_told_why(exercise: str, host: JobHost) -> None:
    starter = lab_file.load(ROOT, exercise.split("/")[0]).exercises[exercise].starter
    ast.parse(starter)
    result = check_exercise(starter, exercise, host=host, root=ROOT)
    assert (result.points, result.passed) == (0.0, False)
    assert [finding.key for finding in result.findings] == ["unfinished"]


@pytest.mark.parametrize("lab", [lab.id for lab in course.load(ROOT).labs() if lab.exercises])
def test_the_grader_gives_the_untouched_notebook_nothing_and_the_reference_everything(lab: str) -> None:
    untouched = grade_notebook(ROOT / "labs" / lab / f"{lab}.ipynb", lab, PARAMS[1], root=ROOT)
    assert untouched.points == 0.0
    assert all("still the starter" in exercise.findings[0].text for exercise in untouched.exercises)
    solved = grade_notebook(tree.solution_notebook(ROOT, lab), lab, PARAMS[1], root=ROOT)
    assert solved.points == solved.max_points == course.load(ROOT).lab(lab).max_points
    assert solved.notes == []


def test_there_are_enough_mutants_and_variants() -> None:
    for exercise in course.load(ROOT).exercises():
        assert sum(m.exercise == exercise.id for m in MUTANTS) >= 8
        assert sum(v.exercise == exercise.id for v in VARIANTS) >= 3
