"""Student code inside a rank: the given setup code, then the exercise cell, in a fresh namespace.

This module is imported by name in the ranks. The trusted process never calls ``load``.
"""

from __future__ import annotations

import linecache
from typing import Any

import msgspec


class Assembly(msgspec.Struct, frozen=True):
    """What a check runs: given code, the student's cell, and the untouched cell to compare with."""

    exercise: str
    setup: str
    source: str
    starter: str

    @property
    def file(self) -> str:
        """The file name that frames and call sites of the student's cell carry."""
        return f"<{self.exercise}>"


class MissingNameError(Exception):
    """The cell ran but did not define a name that the exercise asks for."""


def load(assembly: Assembly, name: str) -> Any:
    """Run the assembled source in this process and return the object called ``name``."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for file, text in (("<setup>", assembly.setup), (assembly.file, assembly.source)):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), namespace)
    if name not in namespace:
        raise MissingNameError(name)
    return namespace[name]
