"""The checks: one module an exercise, found by the exercise's id (lab2/ring-all-reduce: lab2/ring_all_reduce.py).

A check's module has one constant ``CHECK`` (`autograder.checks.check.Check`); docs/lab_anatomy.md has the recipe. The
modules beside the labs' folders are what checks share.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from autograder.checks.check import Check
from autograder.errors import CourseFileError


def find(exercise_id: str) -> Check[Any, Any]:
    """The check of an exercise; CourseFileError if there is none."""
    lab, _, name = exercise_id.replace("-", "_").partition("/")
    folder = Path(__file__).parent / lab
    if not (folder / f"{name}.py").is_file() and not (folder / name / "__init__.py").is_file():
        raise CourseFileError(f"there is no check of {exercise_id}: write autograder/checks/{lab}/{name}.py")
    found = getattr(importlib.import_module(f"{__name__}.{lab}.{name}"), "CHECK", None)
    if not isinstance(found, Check):
        raise CourseFileError(f"autograder/checks/{lab}/{name}.py must define CHECK, a Check")
    return found


def hint_keys(exercise_id: str) -> tuple[str, ...]:
    """The finding keys for which the check of an exercise wants hints."""
    return find(exercise_id).hint_keys
