"""From a notebook or a cell to a verdict. Student code runs only in the ranks of a child process with a deadline.

``check_exercise(source, exercise_id, params)`` and ``grade_notebook(path_or_bytes, lab_id, params)`` are the two
entrances; the notebook's ``check()``, ``lockstep check`` and the grader all go through the first.
"""

from __future__ import annotations

from autograder.grading.grade import check_exercise, grade_notebook
from autograder.grading.host import JobHost
from autograder.results import CheckResult, Finding, NotebookResult, Params

__all__ = ["CheckResult", "Finding", "JobHost", "NotebookResult", "Params", "check_exercise", "grade_notebook"]
