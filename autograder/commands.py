"""``lockstep check``, ``hint`` and ``status``: what the notebook offers, from a terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autograder import course as course_file
from autograder import progress, report
from autograder.course import Course, Exercise, Lab
from autograder.errors import NotebookFileError
from autograder.results import Params, to_json

if TYPE_CHECKING:
    from autograder.grading.extract import Extracted


@click.command()
@click.argument("exercise")
@click.option("--notebook", type=click.Path(path_type=Path), help="Notebook to read (default: the lab's own).")
@click.option("--case", help="Run this one case, as a replay line names it. Not recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def check(exercise: str, notebook: Path | None, case: str | None, as_json: bool) -> None:
    """Check EXERCISE (for example lab2/ring-all-reduce) of your saved notebook. Exits with 0 only if it passes."""
    from autograder.grading import check_exercise
    from autograder.notebook import hint_offer

    root = course_file.find_root()
    course = course_file.load(root)
    lab_id = course.exercise(exercise).id.split("/")[0]
    found = _cells(notebook or root / "labs" / lab_id / f"{lab_id}.ipynb", course.lab(lab_id))
    source = found.cells.get(exercise)
    result = check_exercise(source, exercise, Params(case=case), progress=_say, root=root)
    _say("")
    if as_json:
        click.echo(to_json(result), nl=False)
    else:
        offer = hint_offer(root, result)
        notes = [f"note: {note}" for note in found.notes if note.startswith(exercise)]
        click.echo("\n\n".join([*notes, report.text(result), *([_in_terminal(offer)] if offer else [])]))
    if case is None and (unsaved := progress.save(root, progress.load(root).after_check(result, source or ""))):
        click.echo(f"\n{unsaved}", err=True)
    sys.exit(0 if result.passed else 1)


@click.command()
@click.argument("exercise")
def hint(exercise: str) -> None:
    """Show the next hint for what the last check of EXERCISE found."""
    from autograder.notebook import open_hint

    click.echo(open_hint(course_file.find_root(), exercise, time.time()))


@click.command()
def status() -> None:
    """Show what is done and what is next."""
    root = course_file.find_root()
    course = course_file.load(root)
    known = progress.load(root)
    for stage in course.stages:
        click.echo(stage.title)
        for lab in stage.labs:
            click.echo(f"  {lab.id}: {lab.title}" + (" (planned)" if lab.state == "planned" else ""))
            saved = _saved_cells(root, lab)
            for exercise in lab.exercises:
                click.echo(f"    {_line(exercise, known.of(exercise.id), saved.get(exercise.id))}")
    is_new = not any(done.checks for done in known.exercises.values())
    click.echo("\n" + ("begin with labs/start.ipynb, 15 minutes; then\n" if is_new else "") + _next(course, known))


def _cells(path: Path, lab: Lab) -> Extracted:
    """The exercise cells of a notebook; NotebookFileError names the whole path and the way to a fresh copy."""
    from autograder.grading import extract

    try:
        return extract.exercise_cells(extract.read(path), lab)
    except NotebookFileError as error:
        name = f"labs/{lab.id}/{lab.id}.ipynb"
        fresh = f"For a fresh copy, move this file away and run `git checkout -- {name}` in the course folder."
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
        state = "✓ passed"
    elif done.checks:
        state = f"… checked {done.checks} times, best {done.best_points:g} of {exercise.points:g}"
    else:
        state = "· not checked yet"
    return f"{state}: {exercise.id}, {exercise.title} ({exercise.tier}, {exercise.minutes} minutes)"


def _next(course: Course, known: progress.Progress) -> str:
    lab: Lab
    for lab in course.labs():
        for exercise in lab.exercises:
            if not known.of(exercise.id).ever_passed:
                return f"next: {exercise.id}, in labs/{lab.id}/{lab.id}.ipynb"
    return "Everything that is here so far is done."


def _in_terminal(offer: str) -> str:
    """The notebook's offer of a hint, with the command in place of the call."""
    return offer.replace('hint("', "`lockstep hint ").replace('")', "`")


def _say(text: str) -> None:
    """One line of progress on the terminal, replaced by the next; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
