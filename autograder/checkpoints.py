"""``answer``, ``predict`` and ``reveal`` in the notebook: recorded in the local progress file, never graded."""

from __future__ import annotations

import math
from collections.abc import Callable

from autograder import course as course_file
from autograder import lab_file, progress, questions
from autograder.errors import UnknownExerciseError
from autograder.progress import Prediction, Progress
from autograder.views import MarkdownView


def answer(question_id: str, letter: str) -> MarkdownView:
    """Answer a checkpoint question: why the letter is right, or why it tempts and what to read again.

    Raises:
        UnknownExerciseError: the lab has no such question.
    """
    root = course_file.find_root()
    lab_id, _, key = question_id.partition("/")
    known = lab_file.load(root, course_file.load(root).lab(lab_id).id).questions
    if key not in known:
        names = ", ".join(f"{lab_id}/{name}" for name in known) or "none"
        raise UnknownExerciseError(f"there is no question {question_id!r}; the questions are {names}")
    right, said = questions.reply(known[key], letter)
    clean = letter.strip().upper()
    if clean not in known[key].letters():
        return MarkdownView(said)
    return MarkdownView(_record(said, lambda before: before.with_answer(question_id, clean, right)))


def predict(key: str, value: float | None, unit: str = "") -> MarkdownView:
    """Commit to a number. It may be changed until the number has been revealed."""
    before = progress.load(course_file.find_root()).predictions.get(key)
    if before is not None and before.seen is not None:
        return MarkdownView(f"You committed {_number(before.value, before.unit)} before it was revealed; that stays.")
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return MarkdownView("Put a number of your own in place of `None`, then run this cell: a guess is fine.")
    said = f"Committed: {_number(value, unit)}. Now run the next cell."
    return MarkdownView(_record(said, lambda p: p.with_prediction(key, Prediction(float(value), unit))))


def reveal(key: str, value: float) -> MarkdownView:
    """Compare ``value`` with the prediction; without one, ask for it and say nothing of ``value``."""
    before = progress.load(course_file.find_root()).predictions.get(key)
    if before is None:
        return MarkdownView("First commit a number in the `predict` cell above and run it, then run this cell again.")
    seen = float(value)
    said = f"You said {_number(before.value, before.unit)}. It is **{_number(seen, before.unit)}**: "
    said += _difference(before.value, seen)
    after = Prediction(before.value, before.unit, seen)
    return MarkdownView(_record(said, lambda p: p.with_prediction(key, after)))


def _difference(said: float, seen: float) -> str:
    if math.isclose(said, seen, rel_tol=0.005):
        return "exactly so."
    if said == 0 or seen == 0 or (said < 0) != (seen < 0):
        return f"{abs(said - seen):.4g} away."
    ratio = max(said / seen, seen / said)
    return f"your number is {ratio:.3g} times {'too large' if abs(said) > abs(seen) else 'too small'}."


def _number(value: float, unit: str) -> str:
    return f"{value:.6g} {unit}".strip()


def _record(said: str, change: Callable[[Progress], Progress]) -> str:
    """Record something in the progress file; the text, with a sentence more if that does not work."""
    root = course_file.find_root()
    unsaved = progress.save(root, change(progress.load(root)))
    return f"{said}\n\n{unsaved}" if unsaved else said
