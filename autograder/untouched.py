"""What is said of an exercise cell that is still the starter."""

from __future__ import annotations

from autograder.course import Exercise
from autograder.results import NOT_STARTED, Finding

_LONGEST_LINE = 80  # characters of a cell's first line that are shown


def finding(exercise: Exercise, elsewhere: str) -> Finding:
    """Nothing was written yet, or it was written into a cell without marks: ``elsewhere`` is the text of that cell."""
    names = " and ".join(exercise.defines)
    if not elsewhere.strip():
        text = f"The cell is still the starter. Write {names}, run the cell, and check again."
        return Finding(key="unfinished", title=NOT_STARTED, text=text)
    first = next(line.strip() for line in elsewhere.splitlines() if line.strip())[:_LONGEST_LINE]
    text = (
        f"The cell with the line '# exercise: {exercise.id}' is still the starter, and that cell is what counts. "
        f"Another cell defines {names}, too; it begins with `{first}`. Move your code into the marked cell, then check."
    )
    return Finding(key="unfinished", title="Your code is in another cell", text=text)
