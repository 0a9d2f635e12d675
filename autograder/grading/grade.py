"""Source to verdict, notebook to verdict: assembly, what can be said without running anything, then the job."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from autograder import course as course_file
from autograder import lab_file, record, untouched
from autograder.checks import names
from autograder.checks.student import Assembly
from autograder.course import Course, Exercise
from autograder.grading import extract
from autograder.grading.hold import hold
from autograder.grading.host import JobHost, Progress, zero
from autograder.grading.job import Request
from autograder.progress import digest
from autograder.results import CheckResult, Finding, NotebookResult, Params

MAX_LINE = 200  # characters of a line that are shown
_NOTHING: Mapping[str, str] = {}


def _quiet(text: str) -> None:
    """Progress that nobody watches."""


def check_exercise(
    source: str | None,
    exercise_id: str,
    params: Params | None = None,
    *,
    host: JobHost | None = None,
    progress: Progress = _quiet,
    root: Path | None = None,
    room: str = "",
    elsewhere: str = "",
    deadline_s: float | None = None,
    accepted: bool = False,
) -> CheckResult:
    """Check one exercise cell.

    Args:
        source: text of the exercise cell; None if there is none.
        exercise_id: for example "lab2/ring-all-reduce".
        params: visible cases by default.
        host: a warm job process to use; without one a fresh one is started and ended.
        progress: called with a few words while the check runs.
        root: the course folder (default: the one found from here).
        room: whose code it is, where `host` has a sandbox: two names never share a process or a file.
        elsewhere: text of an unmarked cell that defines the exercise's function, too.
        deadline_s: wall-clock seconds (default: those of course.yaml).
        accepted: a person has read the cell, so that nothing of it is held (`autograder.grading.hold`).
    """
    root = root or course_file.find_root()
    course = course_file.load(root)
    exercise = course.exercise(exercise_id)
    facts = lab_file.load(root, exercise_id.split("/")[0])
    given = facts.exercise(exercise_id)
    said = _without_running(source, exercise, given.starter, elsewhere)
    if said is not None:
        return zero(exercise, said, "not looked at")
    assert source is not None
    assembly = Assembly(exercise_id, facts.setup_of(exercise_id), source, given.starter)
    request = Request(secrets.token_hex(16), assembly, exercise, params or Params(), room)
    limit_s = course.grading.deadline_s if deadline_s is None else deadline_s
    if host is not None:
        result = host.check(request, limit_s, progress)
    else:
        with JobHost() as fresh:
            result = fresh.check(request, limit_s, progress)
    return result if accepted else hold(result, source, (assembly.setup, given.starter))


def grade_notebook(
    path_or_bytes: Path | bytes,
    lab_id: str,
    params: Params,
    *,
    host: JobHost | None = None,
    root: Path | None = None,
    progress: Progress = _quiet,
    accepted: Mapping[str, str] = _NOTHING,
) -> NotebookResult:
    """Grade every exercise of a lab in one notebook. Nothing of the notebook runs in this process.

    Args:
        host: where its code runs. Every call gets a room of its own there, so one host serves a whole class. Without
            one: a new one beside this process, for notebooks of one's own.
        accepted: exercise id -> digest (`autograder.progress.digest`) of a cell that a person has read: not held.

    Raises:
        NotebookFileError: the file is missing, or is no notebook, or no notebook of that lab.
    """
    if host is None:
        with JobHost() as fresh:
            return grade_notebook(
                path_or_bytes, lab_id, params, host=fresh, root=root, progress=progress, accepted=accepted
            )
    root = root or course_file.find_root()
    course: Course = course_file.load(root)
    lab = course.lab(lab_id)
    facts = lab_file.load(root, lab_id)
    data = extract.read(path_or_bytes)
    extract.check_is_of(data, lab)
    found = extract.exercise_cells(data, lab)
    room = secrets.token_hex(8)
    results = [
        check_exercise(
            found.cells.get(e.id),
            e.id,
            params,
            host=host,
            progress=progress,
            root=root,
            room=room,
            elsewhere=found.elsewhere.get(e.id, ""),
            accepted=accepted.get(e.id) == digest(found.cells.get(e.id, "")),
        )
        for e in lab.exercises
    ]
    opened = record.opened_hints(data)
    results = record.with_hint_costs(results, opened, course.grading.hints)
    return NotebookResult(
        lab=lab_id,
        notebook=f"{lab_id}.ipynb",
        exercises=record.with_next_hints(results, opened, {key: e.hints for key, e in facts.exercises.items()}),
        notes=found.notes,
        points=sum(r.grade for r in results),
        max_points=lab.max_points,
        hints=opened,
        questions_asked=len(facts.questions),
        questions_right=record.answered_right(record.answers(data, lab_id, facts.questions), facts.questions),
    )


def _without_running(source: str | None, exercise: Exercise, starter: str, elsewhere: str) -> Finding | None:
    """A finding that needs no run: no cell, the untouched starter, or no valid Python."""
    if source is None:
        text = (
            f"There is no exercise cell of {exercise.id}. Its first line is '# exercise: {exercise.id}': put that line "
            "back, or copy the cell from a fresh notebook."
        )
        return Finding(key="missing", title="The exercise cell is missing", text=text)
    if digest(source) == digest(starter):
        return untouched.finding(exercise, elsewhere)
    return _syntax(source)


def _syntax(source: str) -> Finding | None:
    try:
        names.parse(source)
    except SyntaxError as error:
        if error.lineno is None:  # null bytes, for example
            return Finding(key="syntax", title="The cell is not valid Python", text=f"Python says: {error.msg}.")
        line = (error.text or "").strip()[:MAX_LINE]
        text = f"Line {error.lineno} of your cell is not valid Python: {error.msg}: `{line}`."
        if line.startswith(("%", "!")):
            text += " Lines that start with % or ! are for the notebook only: move them to another cell."
        return Finding(key="syntax", title="The cell is not valid Python", text=text)
    except (ValueError, RecursionError, MemoryError):
        text = "Python cannot read the cell: it is nested too deeply, or holds characters that no program may hold."
        return Finding(key="syntax", title="The cell is not valid Python", text=text)
    return None
