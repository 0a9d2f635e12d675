"""``lockstep check``, ``hint`` and ``status``: what the notebook offers, from a terminal."""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autograder import course as course_file
from autograder import progress, report
from autograder.course import Course, Exercise, Lab
from autograder.errors import LabError, NotebookFileError
from autograder.results import CheckResult, Params, badges, to_json

if TYPE_CHECKING:
    from autograder.grading import JobHost
    from autograder.grading.extract import Extracted


@click.command()
@click.argument("name")
@click.option("--notebook", type=click.Path(path_type=Path), help="Notebook to read (default: the lab's own).")
@click.option("--case", help="Run this one case, as a replay line names it. Not recorded.")
@click.option("--fresh", is_flag=True, help="Draw new cases of the kinds that grading draws.")
@click.option("--seed", help="With --fresh: draw the same cases again.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def check(name: str, notebook: Path | None, case: str | None, fresh: bool, seed: str | None, as_json: bool) -> None:
    """Check the exercise or lab NAME (lab2/ring-all-reduce, lab2) of your saved notebook. Exits with 0 if all pass."""
    from autograder.grading import JobHost

    root = _root()
    course = course_file.load(root)
    lab = course.lab(name.split("/")[0]) if name in {lab.id for lab in course.labs()} else None
    exercises = list(lab.exercises) if lab else [course.exercise(name)]
    if case and lab:
        raise LabError("--case goes with one exercise: copy the whole replay line of a finding")
    params = _params(case, fresh, seed)
    lab = lab or course.lab(exercises[0].id.split("/")[0])
    found = _cells(notebook or root / "labs" / lab.id / f"{lab.id}.ipynb", lab)
    try:
        with JobHost() as host:
            results = [_check(root, found, exercise, params, host, as_json) for exercise in exercises]
    except KeyboardInterrupt:
        _say("")
        click.echo("interrupted: the check was stopped with everything it had started", err=True)
        sys.exit(1)
    if "/" not in name and not as_json:
        click.echo("\n" + _summary(lab, results))
    sys.exit(0 if all(result.passed for result in results) else 1)


def _root() -> Path:
    """The course folder; said where it is not the one we stand in: notebooks and progress are read there."""
    root = course_file.find_root()
    if not Path.cwd().resolve().is_relative_to(root):
        click.echo(f"This folder is not in a course; the one in {root} is used.", err=True)
    return root


def _params(case: str | None, fresh: bool, seed: str | None) -> Params:
    if not fresh:
        if seed:
            raise LabError("--seed goes with --fresh")
        return Params(case=case)
    drawn = seed or secrets.token_hex(4)
    click.echo(f"fresh cases; the same again: --fresh --seed {drawn}", err=True)
    return Params(kind="fresh", seed=drawn, case=case)


def _check(
    root: Path, found: Extracted, exercise: Exercise, params: Params, host: JobHost, as_json: bool
) -> CheckResult:
    """Check one exercise, print what was found, and record it (a single case is not recorded)."""
    from autograder.grading import check_exercise
    from autograder.notebook import hint_offer

    source, elsewhere = found.cells.get(exercise.id), found.elsewhere.get(exercise.id, "")
    result = check_exercise(source, exercise.id, params, host=host, progress=_say, root=root, elsewhere=elsewhere)
    _say("")
    if as_json:
        click.echo(to_json(result), nl=False)
    else:
        offer = hint_offer(root, result)
        notes = [f"note: {note}" for note in found.notes if note.startswith(exercise.id)]
        click.echo("\n\n".join([*notes, report.text(result), *([_in_terminal(offer)] if offer else [])]))
    unsaved = ""
    if params.case is None:
        unsaved = progress.save(root, progress.load(root).after_check(result, source or ""))
    if unsaved:
        click.echo(f"\n{unsaved}", err=True)
    return result


def _summary(lab: Lab, results: list[CheckResult]) -> str:
    """One line an exercise."""
    lines = [f"{lab.id}: {lab.title}"]
    for exercise, result in zip(lab.exercises, results, strict=True):
        mark = "✓" if result.passed else "✗"
        lines.append(f"  {mark} {result.points:g} of {result.max_points:g}  {exercise.id} ({exercise.tier})")
    lines.append(f"{sum(r.grade for r in results):g} of {lab.max_points:g} points")
    return "\n".join([*lines, *filter(None, [badges(results)])])


@click.command()
@click.argument("exercise")
@click.option("--accept-cost", is_flag=True, help="Open a hint that costs points.")
def hint(exercise: str, accept_cost: bool) -> None:
    """Show the next hint for what the last check of EXERCISE found."""
    from autograder.notebook import open_hint

    opened = open_hint(_root(), exercise, time.time(), accept_cost)
    more = f" To open it: lockstep hint {exercise} --accept-cost" if opened.asks else ""
    click.echo(opened.text + more)


@click.command()
def status() -> None:
    """Show what is done and what is next."""
    root = _root()
    course = course_file.load(root)
    known = progress.load(root)
    for stage in course.stages:
        click.echo(stage.title)
        for lab in stage.labs:
            click.echo(f"  {lab.id}: {lab.title}" + (" (planned)" if lab.state == "planned" else ""))
            saved = _saved_cells(root, lab)
            for exercise in lab.exercises:
                click.echo(f"    {_line(exercise, known.of(exercise.id), saved.get(exercise.id))}")
            if questions := _questions(root, lab, known):
                click.echo(f"    {questions}")
    is_new = not any(done.checks for done in known.exercises.values())
    click.echo("\n" + ("begin with labs/start.ipynb, 15 minutes; then\n" if is_new else "") + _next(course, known))


def _questions(root: Path, lab: Lab, known: progress.Progress) -> str:
    """How many of the lab's checkpoint questions are answered right; "" if it has none."""
    from autograder import lab_file

    asked = lab_file.load(root, lab.id).questions if lab.exercises else {}
    right = sum(known.answers[f"{lab.id}/{key}"].right for key in asked if f"{lab.id}/{key}" in known.answers)
    return f"{right} of {len(asked)} checkpoint questions answered right" if asked else ""


def _cells(path: Path, lab: Lab) -> Extracted:
    """The exercise cells of a notebook; NotebookFileError names the whole path and the way to a fresh copy."""
    from autograder.grading import extract

    try:
        data = extract.read(path)
        found = extract.exercise_cells(data, lab)
        if lab.exercises and not found.cells:
            extract.check_is_of(data, lab)
        return found
    except NotebookFileError as error:
        name = f"labs/{lab.id}/{lab.id}.ipynb"
        fresh = f"For a fresh copy, move it away and take {name} from the course's archive again."
        said = str(error) if str(path.absolute()) in str(error) else f"{path.absolute()}: {error}"
        raise NotebookFileError(f"{said}. {fresh}") from None


def _saved_cells(root: Path, lab: Lab) -> dict[str, str]:
    """The exercise cells of the lab's own notebook; none where it cannot be read."""
    if not lab.exercises:
        return {}
    try:
        return _cells(root / "labs" / lab.id / f"{lab.id}.ipynb", lab).cells
    except NotebookFileError:
        return {}


def _line(exercise: Exercise, done: progress.ExerciseProgress, saved: str | None) -> str:
    passed = done.passed_cell or (done.cell if done.passed else "")
    if done.ever_passed and saved is not None and passed and progress.digest(saved) != passed:
        state = "✓ passed earlier; the cell has changed since"
    elif done.ever_passed:
        state = "✓ passed" if exercise.tier == "core" else "✓ badge"
    elif done.checks:
        state = f"… checked {done.checks} times, best {done.best_points:g} of {exercise.points:g}"
    else:
        state = "· not checked yet"
    return f"{state}: {exercise.id}, {exercise.title} ({exercise.tier}, {exercise.minutes} minutes)"


def _next(course: Course, known: progress.Progress) -> str:
    """The first exercise that is not passed: of the core in the order of the labs, then of the stretch exercises."""
    for exercise in sorted(course.exercises(), key=lambda e: e.tier):
        if not known.of(exercise.id).ever_passed:
            lab_id = exercise.id.split("/")[0]
            badge = ", for a badge" if exercise.tier == "stretch" else ""
            return f"next: {exercise.id}, in labs/{lab_id}/{lab_id}.ipynb{badge}"
    return "Everything that is here so far is done."


def _in_terminal(offer: str) -> str:
    """The notebook's offer of a hint, with the command in place of the call."""
    return offer.replace('hint("', "`lockstep hint ").replace('")', "`")


def _say(text: str) -> None:
    """One line of progress on the terminal, replaced by the next; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
