"""labs/<lab>/lab.json: what checks and hints need of a lab besides its notebook.

Generated, and trusted: the setup code that a check runs comes from here, never from a notebook that a student edited.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.errors import CourseFileError
from autograder.exercise import Exercise
from autograder.hints import Hint
from autograder.questions import Question


class LabExercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What exercise.yaml says, the exercise's own given code, its untouched cell, and the hints by finding key."""

    entry: Exercise
    setup: str
    starter: str
    hints: dict[str, Hint]


class LabFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file; ``setup`` is the lab's given code, ``exercises`` and ``questions`` go by their ids."""

    format: int = 2
    lab: str
    setup: str
    exercises: dict[str, LabExercise]
    questions: dict[str, Question] = {}

    def exercise(self, exercise_id: str) -> LabExercise:
        """The exercise of that id; CourseFileError if the file is older than course.yaml."""
        if exercise_id not in self.exercises:
            raise CourseFileError(f"labs/{self.lab}/lab.json does not know {exercise_id}: get it back from the course")
        return self.exercises[exercise_id]

    def setup_of(self, exercise_id: str) -> str:
        """The given code that a check runs before the exercise cell: the lab's and the exercise's own."""
        return "\n\n".join(text for text in (self.setup, self.exercise(exercise_id).setup) if text)


def load(root: Path, lab_id: str) -> LabFile:
    """Read the lab file below the course folder ``root``."""
    name = f"labs/{lab_id}/lab.json"
    try:
        return msgspec.json.decode((root / name).read_bytes(), type=LabFile)
    except FileNotFoundError:
        raise CourseFileError(f"{name} is missing: get it back from the course, or run lockstep build") from None
    except msgspec.MsgspecError as error:
        raise CourseFileError(f"{name} is damaged ({error}): get it back from the course") from None


def entries(root: Path, lab_id: str) -> dict[str, Exercise]:
    """What the lab file says of its exercises, by exercise id; none where there is no such file (a planned lab)."""
    if not (root / f"labs/{lab_id}/lab.json").is_file():
        return {}
    return {exercise_id: facts.entry for exercise_id, facts in load(root, lab_id).exercises.items()}
