"""The checks: one package an exercise, found by the name that course.yaml gives.

A check module has ``HINT_KEYS`` (the findings that need hints) and ``run(assembly, exercise, params, progress)``.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from autograder.errors import CourseFileError

# What every check may find, whatever it is about: autograder/checks/runs.py.
OUTCOME_HINT_KEYS = ("unfinished", "name-only-in-kernel", "deadlock", "mismatch", "endless-loop", "crash")


def module(name: str) -> ModuleType:
    """The check module called ``name``; CourseFileError if there is none."""
    known = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.ispkg)
    if name not in known:
        raise CourseFileError(f"there is no check {name!r} in autograder/checks (known: {', '.join(known)})")
    return importlib.import_module(f"{__name__}.{name}")


def hint_keys(name: str) -> tuple[str, ...]:
    """The finding keys for which the check ``name`` wants hints."""
    keys: tuple[str, ...] = module(name).HINT_KEYS
    return keys
