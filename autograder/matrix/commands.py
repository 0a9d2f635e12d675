"""``lockstep mutants`` and ``lockstep validate``, for authors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from autograder import course as course_file
from autograder.course import Course
from autograder.errors import CourseFileError


@click.command()
@click.argument("exercise", default="")
@click.option("--jobs", type=int, default=0, help="Check processes at a time (default: half the processors).")
@click.option("--write", is_flag=True, help="Also write docs/mutation_matrix.md, if all is well.")
def mutants(exercise: str, jobs: int, write: bool) -> None:
    """Run the wrong and the right solutions of EXERCISE (default: of all): what rejects them, and which hint opens."""
    from autograder.matrix import matrix, table
    from autograder.matrix.solutions import solutions

    root, course = _authors(exercise)
    chosen = [*solutions(root, "mutants", exercise), *solutions(root, "variants", exercise)]
    rows = matrix.run(root, chosen, jobs or max(1, (os.cpu_count() or 2) // 2), _say)
    _say("")
    gaps = list(matrix.gaps(root, course, exercise))
    wrong = sum(bool(row.problem) for row in rows) + len(gaps)
    click.echo("\n".join([table.terminal(rows), *(f"✗ {gap}" for gap in gaps)]))
    click.echo(f"{len(rows)} solutions, {wrong} problems")
    if write and not wrong:
        (root / table.PAGE).write_bytes(table.page(root, course))
        click.echo(f"wrote {table.PAGE}")
    sys.exit(1 if wrong else 0)


@click.command()
@click.argument("lab", default="")
@click.option("--quick", is_flag=True, help="Run no check: only what the files say.")
def validate(lab: str, quick: bool) -> None:
    """Say what is missing or does not agree in LAB (default: in all): sources, starter, reference, hints, points."""
    from autograder.matrix import validate as rules

    root, course = _authors(lab)
    labs = [course.lab(lab)] if lab else [found for found in course.labs() if found.exercises]
    problems = [text for found in labs for text in rules.problems(root, course, found, run=not quick, say=_say)]
    _say("")
    for text in problems:
        click.echo(f"✗ {text}")
    names = ", ".join(found.id for found in labs) or "no lab"
    click.echo(f"{names}: {len(problems)} problems" + (" (no check was run)" if quick else ""))
    sys.exit(1 if problems else 0)


def _authors(name: str) -> tuple[Path, Course]:
    root = course_file.find_root()
    if not (root / "solutions").is_dir():
        raise CourseFileError("there is no solutions/ here: this command is for authors of the course")
    course = course_file.load_sources(root, name.split("/")[0])
    if "/" in name:
        course.exercise(name)
    return root, course


def _say(text: str) -> None:
    """One line of progress on the terminal, replaced by the next; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
