"""`lockstep grade` and the `lockstep nbgrader` steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from autograder import course
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder

if TYPE_CHECKING:
    from autograder.nbgrader_bridge.pipeline import Pipeline

DEFAULT_COURSE = Path("grading")
_COURSE = click.option(
    "--course",
    "course_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_COURSE,
    show_default=True,
    help="The course folder: gradebook, submissions, sealed results. Made when it is missing.",
)
_ASSIGNMENT = click.option("--assignment", metavar="LAB", help="The lab, for example lab2 [default: the only one].")
_STUDENT = click.option("--student", required=True, help="Who does this step.")
_HOME = click.option(
    "--home", type=click.Path(path_type=Path), default=Path(), help="Folder of the student [default: here]."
)


@click.command()
@click.argument("submissions", required=False, type=click.Path(path_type=Path))
@_COURSE
@_ASSIGNMENT
@click.option("--only", metavar="STUDENT", help="Grade this student only, also when nothing changed.")
@click.option("--seed-file", type=click.Path(path_type=Path), help="The grading seed [default: in the course folder].")
@click.pass_context
def grade(
    ctx: click.Context,
    submissions: Path | None,
    course_dir: Path,
    assignment: str | None,
    only: str | None,
    seed_file: Path | None,
) -> None:
    """Grade a folder of submissions with hidden cases and enter the points into nbgrader's gradebook.

    SUBMISSIONS holds STUDENT.ipynb, STUDENT/lab2.ipynb or STUDENT/lab2/lab2.ipynb. Without it, the submissions that
    `lockstep nbgrader collect` brought in are graded. What is graded already and unchanged is not graded again.

    Exit code: 0 all graded, 1 some could not be graded or interrupted, 2 nothing could be done.
    """
    try:
        failed = _grade(submissions, course_dir, assignment, only, seed_file)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: the same command continues where it stopped.", err=True)
        failed = True
    except OSError as error:
        place = error.filename or course_dir
        raise BridgeError(f"{place} cannot be read or written: {error.strerror}. Nothing is lost.") from error
    ctx.exit(1 if failed else 0)


def _grade(
    submissions: Path | None, course_dir: Path, assignment: str | None, only: str | None, seed_file: Path | None
) -> bool:
    """Grade and print; returns whether a submission could not be graded."""
    from autograder.nbgrader_bridge import batch, intake

    lab, folder = _lab(assignment), CourseFolder.at(course_dir, seed_file)
    if folder.exists:
        folder.check_writable()
    pipeline = _open(folder, lab)
    found = intake.find(submissions or folder.root / "submitted", lab)
    if only:
        found = [submission for submission in found if submission.student == only]
        if not found:
            raise BridgeError(f"There is no submission of {only}.")
    rows: list[batch.Row] = []
    try:
        rows.extend(batch.grade_all(folder, pipeline, lab, found, _say, again=only is not None))
    except KeyboardInterrupt:
        click.echo(f"\n{len(rows)} of {len(found)} are done.", err=True)
        raise
    click.echo()
    for line in batch.summary(rows, lab):
        click.echo(line)
    where = "" if course_dir == DEFAULT_COURSE else f" --course {course_dir}"
    click.echo(f"reports: {folder.root / 'reports'}")
    click.echo(f"next: lockstep nbgrader feedback{where}, lockstep nbgrader export{where}")
    return any(row.failed for row in rows)


@click.group()
def nbgrader() -> None:
    """nbgrader's steps for a course folder; `lockstep grade` is the autograde step."""


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def generate(course_dir: Path, assignment: str | None) -> None:
    """Make the assignment from solutions/ and enter it into the gradebook."""
    from autograder.nbgrader_bridge.pipeline import Pipeline

    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    folder.create()
    _generate(Pipeline(folder), lab)
    click.echo(f"{lab}: student version in {folder.released(lab)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def release(course_dir: Path, assignment: str | None) -> None:
    """Put the assignment into the exchange for students to fetch."""
    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    _open(folder, lab).release(lab)
    click.echo(f"{lab}: released to {folder.root / 'exchange'}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def fetch(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Copy a released assignment into a student's folder."""
    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    click.echo(f"{lab}: fetched to {_open(folder, lab).fetch(lab, student, home)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def submit(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Hand in an assignment from a student's folder."""
    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    _open(folder, lab).submit(lab, student, home)
    click.echo(f"{lab}: handed in for {student}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def collect(course_dir: Path, assignment: str | None) -> None:
    """Bring what students handed in into the course folder."""
    from autograder.nbgrader_bridge.batch import plural

    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    _open(folder, lab).collect(lab)
    count = len(list(folder.root.glob(f"submitted/*/{lab}")))
    click.echo(f"{lab}: {plural(count, 'submission')} in {folder.root / 'submitted'}. Next: lockstep grade")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def feedback(course_dir: Path, assignment: str | None) -> None:
    """Write the feedback pages and return them to everyone who handed in through the exchange."""
    from autograder.nbgrader_bridge.batch import plural

    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    pipeline = _open(folder, lab)
    pipeline.feedback(lab)
    released = pipeline.release_feedback(lab)
    by_file = len(list(folder.root.glob(f"feedback/*/{lab}"))) - released
    if released:
        click.echo(f"{lab}: {plural(released, 'page')} released to the exchange")
    if by_file:
        where = folder.root / "feedback"
        click.echo(f"{lab}: {plural(by_file, 'page')} in {where}, not sent: the submissions came as files")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def fetch_feedback(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Copy a student's released feedback into the student's folder."""
    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    click.echo(f"{lab}: feedback in {_open(folder, lab).fetch_feedback(lab, student, home)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), help="CSV file [default: LAB.csv].")
def export(course_dir: Path, assignment: str | None, to: Path | None) -> None:
    """Write the points of every graded cell as CSV."""
    lab, folder = _lab(assignment), CourseFolder.at(course_dir)
    path = to or Path(f"{lab}.csv")
    click.echo(f"{lab}: {_open(folder, lab).export(lab, path)} rows in {path}")


def _say(text: str, end: bool) -> None:
    click.echo(text, nl=end)


def _lab(assignment: str | None) -> str:
    labs = [lab.id for lab in course.load().labs() if lab.exercises]
    if assignment is None and len(labs) == 1:
        return labs[0]
    if assignment not in labs:
        raise BridgeError(f"Name a lab with --assignment. Labs with exercises: {', '.join(labs)}.")
    return assignment


def _open(folder: CourseFolder, lab: str) -> Pipeline:
    """The pipeline of a course folder in which the lab is generated; makes what is missing."""
    from autograder.nbgrader_bridge.pipeline import Pipeline

    if folder.create():
        click.echo(f"new course folder: {folder.root}")
    pipeline = Pipeline(folder)
    if not (folder.released(lab) / f"{lab}.ipynb").is_file():
        _generate(pipeline, lab)
    return pipeline


def _generate(pipeline: Pipeline, lab: str) -> None:
    from autograder.build import tree

    tree.nbgrader_source(course.find_root(), lab, pipeline.folder.root / "source")
    pipeline.generate(lab)
