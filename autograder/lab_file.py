"""labs/<lab>/lab.json: what checks and hints need of a lab besides its notebook.

Generated, and trusted: the setup code that a check runs comes from here, never from a notebook that a student edited.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.errors import CourseFileError
from autograder.hints import Hint


class LabExercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The untouched exercise cell and the hints by finding key."""

    starter: str
    hints: dict[str, Hint]


class LabFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file; ``setup`` is the given code, ``exercises`` goes by exercise id."""

    format: int = 1
    lab: str
    setup: str
    exercises: dict[str, LabExercise]

    def exercise(self, exercise_id: str) -> LabExercise:
        """The exercise of that id; CourseFileError if the file is older than course.yaml."""
        if exercise_id not in self.exercises:
            raise CourseFileError(f"labs/{self.lab}/lab.json does not know {exercise_id}: get it back from the course")
        return self.exercises[exercise_id]


def load(root: Path, lab_id: str) -> LabFile:
    """Read the lab file below the course folder ``root``."""
    name = f"labs/{lab_id}/lab.json"
    try:
        return msgspec.json.decode((root / name).read_bytes(), type=LabFile)
    except FileNotFoundError:
        raise CourseFileError(f"{name} is missing: get it back from the course, or run lockstep build") from None
    except msgspec.MsgspecError as error:
        raise CourseFileError(f"{name} is damaged ({error}): get it back from the course") from None
