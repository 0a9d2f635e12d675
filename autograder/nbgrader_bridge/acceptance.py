"""Cells that reach beyond their exercise and that a person has read: `lockstep grade --accept STUDENT[/EXERCISE]`.

One JSON file a submission, beside its seal: exercise id -> digest of the cell. It stays when the submission is graded
again; another cell of the same exercise is held again.
"""

from __future__ import annotations

import os
import shlex

import msgspec

from autograder import course, progress
from autograder.grading import extract
from autograder.nbgrader_bridge import terminal
from autograder.nbgrader_bridge.errors import BridgeError
from autograder.nbgrader_bridge.folder import CourseFolder
from autograder.results import HELD, NotebookResult


def read(folder: CourseFolder, student: str, assignment: str) -> dict[str, str]:
    """What was accepted; nothing where the file is missing or is none of ours."""
    try:
        return msgspec.json.decode(folder.accepted(student, assignment).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return {}


def accept(folder: CourseFolder, assignment: str, who: str) -> str:
    """Record that a person has read the held cells of a submission; what was accepted, in words.

    Args:
        who: `STUDENT`, or `STUDENT/EXERCISE` for one of the cells.

    Raises:
        BridgeError: nothing of that is held.
    """
    student, _, name = who.partition("/")
    held = _held(folder, student, assignment)
    named = {exercise for exercise in held if name in ("", exercise, exercise.split("/")[1])}
    if not named:
        waits = f"; held are {', '.join(sorted(held))}" if held else ""
        raise BridgeError(f"--accept {who}: nothing of that is held in {assignment}{waits}.")
    path = folder.submitted(student, assignment) / f"{assignment}.ipynb"
    cells = extract.exercise_cells(extract.read(path), course.load().lab(assignment)).cells
    known = read(folder, student, assignment)
    known |= {exercise: progress.digest(cells[exercise]) for exercise in named if exercise in cells}
    file = folder.accepted(student, assignment)
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(known, order="deterministic")) + b"\n")
    os.replace(part, file)
    return f"accepted: {', '.join(sorted(named))} of {student}, as handed in"


def _held(folder: CourseFolder, student: str, assignment: str) -> set[str]:
    """Exercises whose points are held; BridgeError where the submission is not graded yet."""
    from autograder.nbgrader_bridge import seal

    try:
        result = seal.fresh(folder, student, assignment).result
    except BridgeError as error:
        raise BridgeError(f"--accept {student}: grade this submission first, then accept ({error})") from None
    return {exercise.exercise for exercise in result.exercises if exercise.held}


def waits(result: NotebookResult, student: str, course: str) -> list[str]:
    """What a person should read, one line a held cell."""
    lines = []
    for exercise in (each for each in result.exercises if each.held):
        uses = next((finding.seen for finding in exercise.findings if finding.key == HELD), "")
        name = exercise.exercise.split("/")[1]
        points = "badge points" if exercise.tier == "stretch" else "points"
        lines.append(
            f"{exercise.held:g} {points} of {name} are held: the cell uses {terminal.one_line(uses)}. Read it, then: "
            f"lockstep grade{course} --accept {shlex.quote(f'{student}/{name}')}"
        )
    return lines
