"""`lockstep grade` and the `lockstep nbgrader` steps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autograder import course
from autograder.nbgrader_bridge import terminal
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.sandbox import bubblewrap

if TYPE_CHECKING:
    from autograder.nbgrader_bridge.folder import Cases
    from autograder.nbgrader_bridge.intake import HandIn
    from autograder.nbgrader_bridge.pipeline import Pipeline
    from autograder.sandbox.limits import Isolation

DEFAULT_COURSE = Path("grading")
_COURSE = click.option(
    "--course",
    "course_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_COURSE,
    show_default=True,
    help="The course folder: gradebook, submissions, sealed results. Made when it is missing.",
)
_ASSIGNMENT = click.option(
    "--assignment", metavar="LAB", help="The lab, for example lab2 [default: the only one that it can be]."
)
_STUDENT = click.option("--student", required=True, help="Who does this step.")
_HOME = click.option(
    "--home", type=click.Path(path_type=Path), default=Path(), help="Folder of the student [default: here]."
)


@click.command()
@click.argument("submissions", required=False, type=click.Path(path_type=Path))
@_COURSE
@_ASSIGNMENT
@click.option("--only", metavar="STUDENT", help="Grade this student only, also when nothing changed.")
@click.option(
    "--accept",
    metavar="STUDENT[/EXERCISE]",
    multiple=True,
    help="Count the points of cells that were held because they reach beyond their exercise: you have read them.",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Submissions at the same time.")
@click.option("--seed-file", type=click.Path(path_type=Path), help="The grading seed [default: in the course folder].")
@click.option(
    "--new-seed", is_flag=True, help="Draw other hidden cases and grade everything again; keeps the old seed."
)
@click.option(
    "--cases",
    type=click.Choice(["class", "student"]),
    help="Hidden cases: the same for everybody, or each student's own. Kept for the course folder [default: class].",
)
@click.option(
    "--isolation",
    type=click.Choice(["bubblewrap", "limits"]),
    default="bubblewrap",
    show_default=True,
    help="What is around a submission's code. `limits` does not protect your files: docs/instructors.md.",
)
@click.pass_context
def grade(ctx: click.Context, /, submissions: Path | None, course_dir: Path, **options: Any) -> None:
    """Grade submissions with hidden cases and enter the points into nbgrader's gradebook.

    SUBMISSIONS is a folder or a zip archive (as learning platforms make it) with STUDENT.ipynb, STUDENT/lab2.ipynb or
    STUDENT/lab2/lab2.ipynb. Without it, the submissions that `lockstep nbgrader collect` brought in are graded. What is
    graded already and unchanged is not graded again.

    Exit code: 0 all graded, 1 some could not be graded or interrupted, 2 nothing could be done.
    """
    try:
        failed = _grade(submissions, course_dir, _Options(**options))
    except KeyboardInterrupt:
        click.echo("\nInterrupted: the same command continues where it stopped.", err=True)
        failed = True
    except OSError as error:
        place = error.filename or course_dir
        raise BridgeError(f"{place} cannot be read or written: {error.strerror}. Nothing is lost.") from error
    ctx.exit(1 if failed else 0)


@dataclass(frozen=True)
class _Options:
    """The options of `lockstep grade`."""

    assignment: str | None
    only: str | None
    accept: tuple[str, ...]
    jobs: int
    seed_file: Path | None
    new_seed: bool
    cases: Cases | None
    isolation: Isolation


def _grade(submissions: Path | None, course_dir: Path, options: _Options) -> bool:
    """Grade and print; returns whether a submission could not be graded."""
    from autograder.nbgrader_bridge import acceptance, intake

    if options.only and (options.new_seed or options.cases):
        raise BridgeError("--new-seed and --cases change the hidden cases of everybody: leave out --only.")
    submissions = submissions and submissions.resolve()  # nbgrader's applications change the working folder
    folder = CourseFolder.at(course_dir.resolve(), options.seed_file)
    intake.check_any(submissions, folder)
    bubblewrap.require(options.isolation)
    lab = intake.lab_of(options.assignment, folder, submissions)
    if folder.exists:
        folder.check_writable()
    with intake.opened(submissions or folder.root / "submitted", lab) as found:
        if options.only:
            found = found.only(options.only)
        pipeline = _open(folder, lab)
        for who in options.accept:
            terminal.say(acceptance.accept(folder, lab, who))
        if options.new_seed:
            folder.draw_new_seed()
        if options.cases:
            folder.choose_cases(options.cases)
        return _grade_found(found, lab, pipeline, options, course_dir)


def _grade_found(found: HandIn, lab: str, pipeline: Pipeline, options: _Options, course_dir: Path) -> bool:
    from autograder.nbgrader_bridge import batch
    from autograder.nbgrader_bridge.workers import Sealing

    folder, rows = pipeline.folder, list[batch.Row]()
    sealing = Sealing(folder, lab, options.isolation, options.jobs, again=options.only is not None)
    with terminal.HeldLog() as log:
        try:
            for row in batch.grade_all(sealing, pipeline, found.submissions, terminal.say):
                rows.append(row)
                log.tell()
        except KeyboardInterrupt:
            click.echo(f"\n{len(rows)} of {len(found.submissions)} are done.", err=True)
            raise
    where = _course_option(course_dir)
    for line in ("", *batch.summary(rows, lab, where, found.not_taken)):
        terminal.say(line)
    click.echo(f"reports: {folder.root / 'reports'}")
    click.echo(f"next: lockstep nbgrader feedback{where}, lockstep nbgrader export{where}")
    return any(row.failed for row in rows)


def _course_option(course_dir: Path) -> str:
    """What the next command for this course folder must say."""
    return "" if course_dir == DEFAULT_COURSE else f" --course {shlex.quote(str(course_dir))}"


@click.group()
def nbgrader() -> None:
    """nbgrader's steps for a course folder; `lockstep grade` is the autograde step."""


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def generate(course_dir: Path, assignment: str | None) -> None:
    """Make the assignment from solutions/ and enter it into the gradebook."""
    from autograder.nbgrader_bridge.pipeline import Pipeline

    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    folder.create()
    _generate(Pipeline(folder), lab)
    click.echo(f"{lab}: student version in {folder.released(lab)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def release(course_dir: Path, assignment: str | None) -> None:
    """Put the assignment into the exchange for students to fetch."""
    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    _open(folder, lab).release(lab)
    click.echo(f"{lab}: released to {folder.root / 'exchange'}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def fetch(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Copy a released assignment into a student's folder."""
    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    click.echo(f"{lab}: fetched to {_open(folder, lab).fetch(lab, student, home)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def submit(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Hand in an assignment from a student's folder."""
    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    _open(folder, lab).submit(lab, student, home)
    click.echo(f"{lab}: handed in for {student}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def collect(course_dir: Path, assignment: str | None) -> None:
    """Bring what students handed in into the course folder."""
    from autograder.nbgrader_bridge.batch import plural

    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    _open(folder, lab).collect(lab)
    count = len(list(folder.root.glob(f"submitted/*/{lab}")))
    where = folder.root / "submitted"
    click.echo(f"{lab}: {plural(count, 'submission')} in {where}. Next: lockstep grade{_course_option(course_dir)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
def feedback(course_dir: Path, assignment: str | None) -> None:
    """Write the feedback pages and return them to everyone who handed in through the exchange."""
    from autograder.nbgrader_bridge.batch import plural

    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    pipeline = _open(folder, lab)
    pipeline.feedback(lab)
    released = pipeline.release_feedback(lab)
    by_file = len(list(folder.root.glob(f"feedback/*/{lab}"))) - released
    if released:
        click.echo(f"{lab}: {plural(released, 'page')} released to the exchange")
    if by_file:
        where = folder.root / "feedback"
        click.echo(f"{lab}: {plural(by_file, 'page')} in {where}, not sent: the submissions came as files")
    if missing := folder.without_feedback(lab):
        names = ", ".join(terminal.name(student) for student in missing)
        terminal.say(
            f"{lab}: no page for {names}: not in the gradebook. Grade again: lockstep grade{_course_option(course_dir)}"
        )


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@_STUDENT
@_HOME
def fetch_feedback(course_dir: Path, assignment: str | None, student: str, home: Path) -> None:
    """Copy a student's released feedback into the student's folder."""
    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    click.echo(f"{lab}: feedback in {_open(folder, lab).fetch_feedback(lab, student, home)}")


@nbgrader.command()
@_COURSE
@_ASSIGNMENT
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), help="CSV file [default: LAB.csv].")
def export(course_dir: Path, assignment: str | None, to: Path | None) -> None:
    """Write the points of every graded cell as CSV."""
    folder = CourseFolder.at(course_dir)
    lab = _lab(assignment, folder)
    path = to or Path(f"{lab}.csv")
    click.echo(f"{lab}: {_open(folder, lab).export(lab, path)} rows in {path}")


def _lab(assignment: str | None, folder: CourseFolder) -> str:
    from autograder.nbgrader_bridge import intake

    return intake.lab_of(assignment, folder)


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
