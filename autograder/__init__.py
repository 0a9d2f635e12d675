"""Checks, hints and grading of the Lockstep course.

Students use two names, in the notebook: ``check("lab2/ring-all-reduce")`` and ``hint("lab2/ring-all-reduce")``.
Importing this package is cheap, because the setup code of a lab imports it in every rank: what the two need is loaded
when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.notebook import CheckView, HintView, Interrupted

__all__ = ["check", "hint"]


def check(exercise_id: str) -> CheckView | Interrupted:
    """Check an exercise, for example ``check("lab2/ring-all-reduce")``. As often as you like."""
    from autograder import notebook

    return notebook.check(exercise_id)


def hint(exercise_id: str) -> HintView:
    """Show the next hint for what the last check found."""
    from autograder import notebook

    return notebook.hint(exercise_id)
