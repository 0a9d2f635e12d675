"""Everything that a finished lab must have, checked for its authors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from autograder import lab_file
from autograder.build import source as build_source
from autograder.build import tree
from autograder.course import Course, Exercise, Lab
from autograder.errors import LabError, SolutionMarkerError
from autograder.grading import JobHost, check_exercise
from autograder.hints import STAGES
from autograder.matrix.matrix import gaps
from autograder.matrix.solutions import reference
from autograder.results import Params

SEEDS = ("validate 1", "validate 2", "validate 3")
LONGEST_CORE_REFERENCE = 25  # new lines of a core exercise
FEWEST_QUESTIONS = 8  # of a lab that is ready
_SHARED_WITH_A_HINT = 2  # lines
_LONG_ENOUGH = 30  # characters: a shorter line of a solution may stand in a lesson by chance


def problems(root: Path, course: Course, lab: Lab, *, run: bool, say: Callable[[str], None]) -> list[str]:
    """What is wrong with a lab; ``run`` also runs the starter and the reference of every exercise."""
    try:
        found = tree.differences(root, tree.generate(root, lab.id))
    except SolutionMarkerError as error:
        return list(error.problems)
    if found:
        return [*found, "run lockstep build: everything else is judged by what it makes"]
    found += [text for exercise in lab.exercises for text in gaps(root, course, exercise.id)]
    found += [text for exercise in lab.exercises for text in _reference_length(root, exercise)]
    found += _shown_solutions(root, lab)
    if lab.state == "ready" and (count := len(lab_file.load(root, lab.id).questions)) < FEWEST_QUESTIONS:
        found.append(f"{lab.id} has {count} checkpoint questions, a ready lab needs {FEWEST_QUESTIONS}")
    if run:
        with JobHost() as host:
            for exercise in lab.exercises:
                found += _runs(root, exercise, host, say)
    return found


def solution_lines(cells: build_source.SourceFile) -> list[str]:
    """The lines inside the solution regions, without stubs, markers and comments."""
    lines = []
    for cell in cells.of_kind("exercise"):
        kept = set(build_source.starter(cell.source).split("\n"))
        lines += [t.strip() for t in build_source.solved(cell.source).split("\n") if t not in kept]
    return [line for line in lines if line and not line.startswith("#")]


def _cells(root: Path, exercise: Exercise) -> build_source.SourceFile:
    name = f"solutions/{exercise.id}/cells.py"
    return build_source.read(root / name, name, [])


def _reference_length(root: Path, exercise: Exercise) -> Iterator[str]:
    count = len(solution_lines(_cells(root, exercise)))
    if exercise.tier == "core" and count > LONGEST_CORE_REFERENCE:
        yield f"{exercise.id}: the reference has {count} new lines, a core exercise at most {LONGEST_CORE_REFERENCE}"


def _shown_solutions(root: Path, lab: Lab) -> Iterator[str]:
    """Markers, reasons and lines of a solution in what students get; a hint may share a line or two with one."""
    notebook, facts = root / f"labs/{lab.id}/{lab.id}.ipynb", lab_file.load(root, lab.id)
    text = notebook.read_text(encoding="utf-8")
    for marker in ("BEGIN SOLUTION", "END SOLUTION", "# stub:", "# why:"):
        if marker in text:
            yield f"labs/{lab.id}/{notebook.name} contains {marker!r}"
    for exercise in lab.exercises:
        lines = {line for line in solution_lines(_cells(root, exercise)) if len(line) >= _LONG_ENOUGH}
        for line in sorted(lines):
            if json.dumps(line, ensure_ascii=False)[1:-1] in text:
                yield f"labs/{lab.id}/{notebook.name} contains a line of the solution of {exercise.id}: {line}"
        for key, hint in facts.exercise(exercise.id).hints.items():
            shared = [line for line in lines if any(line in getattr(hint, stage) for stage in STAGES)]
            if len(shared) > _SHARED_WITH_A_HINT:
                yield f"{exercise.id}: the hints for {key} contain {len(shared)} lines of the solution"


def _runs(root: Path, exercise: Exercise, host: JobHost, say: Callable[[str], None]) -> Iterator[str]:
    starter = lab_file.load(root, exercise.id.split("/")[0]).exercise(exercise.id).starter
    touched = f"{starter}\n_touched = True\n"  # so that it is run
    solved = reference(root, exercise.id)
    try:
        say(f"{exercise.id}: starter")
        result = check_exercise(touched, exercise.id, host=host, root=root)
        if result.passed or not result.findings or not result.findings[0].text:
            yield f"{exercise.id}: the starter does not fail with a reason"
        if result.points:
            yield f"{exercise.id}: the starter gets {result.points:g} points"
        for params in (Params(), *(Params("hidden", seed) for seed in SEEDS)):
            say(f"{exercise.id}: reference, {params.kind} {params.seed}")
            result = check_exercise(solved, exercise.id, params, host=host, root=root)
            if not result.passed or result.points != exercise.points:
                keys = ", ".join(f.key for f in result.findings) or "no finding"
                where = f"{params.kind} cases" + (f" of seed {params.seed!r}" if params.seed else "")
                yield f"{exercise.id}: the reference gets {result.points:g} of {exercise.points:g} on {where} ({keys})"
    except LabError as error:
        yield f"{exercise.id}: {error}"
