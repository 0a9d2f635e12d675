"""The grader graded: every mutant is rejected for the intended reason, every right solution gets full points."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from autograder import course, lab_file
from autograder.build import source as build_source
from autograder.build import tree
from autograder.grading import CheckResult, JobHost, Params, check_exercise, grade_notebook
from autograder.matrix import matrix, table, validate
from autograder.matrix.solutions import Solution, reference, solutions
from autograder.matrix.validate import solution_lines

ROOT = Path(__file__).resolve().parents[2]
COURSE = course.load(ROOT)
EXERCISES = [exercise.id for exercise in COURSE.exercises()]
MUTANTS, VARIANTS = solutions(ROOT, "mutants"), solutions(ROOT, "variants")
ALL = [*MUTANTS, *VARIANTS]
SEEDS = ("2026-spring", "2026-autumn", "7", "an-autumn-with-rain", "11")


def sample(chosen: list[Solution], per_exercise: int) -> list[Solution]:
    """A few solutions of every exercise that end quickly, spread over the alphabet."""
    found: list[Solution] = []
    for exercise in EXERCISES:
        quick = [s for s in chosen if s.exercise == exercise and s.finding not in ("deadline", "endless-loop")]
        found += quick[:: max(1, len(quick) // per_exercise)][:per_exercise]
    return found


FAST = {s.name for s in sample(MUTANTS, 1)}


def describe(result: CheckResult) -> str:
    """What a failed assertion should show of a result."""
    said = [f"{f.key}: {f.title}. {f.text} (expected {f.expected}, seen {f.seen}, {f.case})" for f in result.findings]
    return f"{result.points} of {result.max_points}\n" + "\n".join(said)


@pytest.mark.parametrize(
    "solution",
    [pytest.param(s, id=s.name, marks=() if s.name in FAST else pytest.mark.slow) for s in ALL],
)
def test_the_matrix_says_what_is_intended(solution: Solution, host: JobHost) -> None:
    row = matrix.row(ROOT, solution, host)
    assert not row.problem, f"{row.problem}: {row.seen}, {row.points}"


def test_the_matrix_has_no_gaps() -> None:
    assert list(matrix.gaps(ROOT, COURSE)) == []


def test_the_published_matrix_is_the_one_of_the_sources() -> None:
    assert (ROOT / table.PAGE).read_bytes() == table.page(ROOT, COURSE), "run lockstep mutants --write"


def test_a_gap_and_a_wrong_intention_are_problems(tmp_path: Path, host: JobHost) -> None:
    folder = tmp_path / "tests/mutants/lab2_ring_all_reduce"
    folder.mkdir(parents=True)
    body = "\ndef ring_all_reduce(tensor):\n    tensor.zero_()\n"
    header = "# exercise: lab2/ring-all-reduce\n# finding: hub\n# hint: hub\n# wrong: all of it"
    (folder / "zero.py").write_text(header + body)
    said = list(matrix.gaps(tmp_path, COURSE))
    assert "lab2/ring-all-reduce has 1 mutants, an exercise needs 4" in said
    assert "lab2/ring-all-reduce has 0 variants, an exercise needs 2" in said
    assert "lab2/ring-all-reduce: no mutant is meant for the finding value" in said
    assert not [text for text in said if text.endswith("finding hub")]
    [mutant] = solutions(tmp_path, "mutants")
    assert matrix.row(ROOT, mutant, host).problem == "rejected for another reason than hub"
    (folder / "zero.py").write_text(header.replace("hub", "value").replace("hint: value", "hint: none") + body)
    [mutant] = solutions(tmp_path, "mutants")
    assert matrix.row(ROOT, mutant, host).problem == "the hint that opens is value, intended is none"


@pytest.mark.slow  # at the first seed the solved notebooks below show it, too
@pytest.mark.parametrize("seed", ["", *SEEDS])
@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_reference_gets_full_points(exercise: str, seed: str, host: JobHost) -> None:
    params = Params("hidden", seed) if seed else Params()
    result = check_exercise(reference(ROOT, exercise), exercise, params, host=host, root=ROOT)
    assert result.passed, describe(result)
    assert result.points == result.max_points == COURSE.exercise(exercise).points
    assert (result.findings, all(part.passed for part in result.parts)) == ([], True)


@pytest.mark.parametrize(
    "exercise", [pytest.param(e, marks=() if i % 4 == 0 else pytest.mark.slow) for i, e in enumerate(EXERCISES)]
)
def test_the_starter_gets_nothing_and_is_told_why(exercise: str, host: JobHost) -> None:
    starter = lab_file.load(ROOT, exercise.split("/")[0]).exercises[exercise].starter
    ast.parse(starter)
    for source in (starter, f"{starter}\n_touched = 1\n"):  # the second one is run
        result = check_exercise(source, exercise, host=host, root=ROOT)
        assert (result.points, result.passed) == (0.0, False)
        assert [finding.key for finding in result.findings] == ["unfinished"]


@pytest.mark.parametrize("lab", [lab.id for lab in COURSE.labs() if lab.exercises])
def test_the_grader_gives_the_untouched_notebook_nothing_and_the_reference_everything(lab: str) -> None:
    params = Params("hidden", SEEDS[0])
    untouched = grade_notebook(ROOT / "labs" / lab / f"{lab}.ipynb", lab, params, root=ROOT)
    assert untouched.points == 0.0
    assert all("still the starter" in exercise.findings[0].text for exercise in untouched.exercises)
    solved = grade_notebook(tree.solution_notebook(ROOT, lab), lab, params, root=ROOT)
    assert solved.points == solved.max_points == COURSE.lab(lab).max_points
    assert solved.notes == []


def test_the_lines_of_a_solution_are_those_that_students_do_not_get() -> None:
    name = "solutions/lab2/ring-all-reduce/cells.py"
    lines = solution_lines(build_source.read(ROOT / name, name, []))
    assert "chunks = tensor.tensor_split(world_size)" in lines
    assert not [line for line in lines if line.startswith(("#", "def ring_all_reduce", "rank, world_size"))]


def test_what_students_get_of_a_finished_lab_holds_no_solution() -> None:
    for lab in COURSE.labs():
        if lab.exercises:
            assert validate.problems(ROOT, COURSE, lab, run=False, say=lambda text: None) == []


def test_a_solution_that_slipped_into_a_lesson_or_a_hint_is_found(tmp_path: Path) -> None:
    for name in ("course.yaml", "solutions", "labs", "tests"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    here = tmp_path / "solutions/lab2/ring-all-reduce"
    line = "chunks[incoming].add_(exchange((rank - step) % world_size, incoming))"
    lesson = f"\n# %% [markdown]\n# A ring adds with `{line}`.\n"
    (here / "cells.py").write_text((here / "cells.py").read_text() + lesson)
    lines = solution_lines(build_source.read(here / "cells.py", "cells.py", []))
    hints = (here / "hints.yaml").read_text()
    answer = "\n".join(f"    {line}" for line in lines)
    (here / "hints.yaml").write_text(hints.replace("  example: |\n", f"  example: |\n{answer}\n", 1))
    tree.write(tmp_path, tree.generate(tmp_path))
    course_here = course.load(tmp_path)
    said = validate.problems(tmp_path, course_here, course_here.lab("lab2"), run=False, say=lambda text: None)
    assert len(said) == 2, said
    assert "lab2.ipynb contains a line of the solution of lab2/ring-all-reduce: chunks[incoming].add_(" in said[0]
    assert "the hints for unfinished contain" in said[1]
