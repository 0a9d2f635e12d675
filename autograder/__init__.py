"""Checks, hints and grading of the Lockstep course.

Students use five names, in the notebook: ``check`` and ``hint`` for exercises, ``answer`` for checkpoint questions,
``predict`` and ``reveal`` for numbers that are committed before a cell shows them.
Importing this package is cheap, because the setup code of a lab imports it in every rank: what they need is loaded when
they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.notebook import CheckView, Interrupted
    from autograder.views import MarkdownView

__all__ = ["answer", "check", "hint", "predict", "reveal"]


def check(exercise_id: str, *, fresh: bool = False) -> CheckView | Interrupted:
    """Check an exercise, for example ``check("lab2/ring-all-reduce")``; ``fresh`` draws new cases. Never throttled."""
    from autograder import notebook

    return notebook.check(exercise_id, fresh=fresh)


def hint(exercise_id: str, accept_cost: bool = False) -> MarkdownView:
    """Show the next hint for what the last check found. One that costs points is opened with ``accept_cost`` only."""
    from autograder import notebook

    return notebook.hint(exercise_id, accept_cost)


def answer(question_id: str, letter: str) -> MarkdownView:
    """Answer a checkpoint question, for example ``answer("lab2/who-waits", "B")``. As often as you like."""
    from autograder import checkpoints

    return checkpoints.answer(question_id, letter)


def predict(key: str, value: float | None, unit: str = "") -> MarkdownView:
    """Commit to a number before the next cell shows it: ``predict("lab2/hub-megabytes", 40, "MB")``."""
    from autograder import checkpoints

    return checkpoints.predict(key, value, unit)


def reveal(key: str, value: float) -> MarkdownView:
    """Compare what was seen with what was predicted. Says nothing of ``value`` before there is a prediction."""
    from autograder import checkpoints

    return checkpoints.reveal(key, value)
