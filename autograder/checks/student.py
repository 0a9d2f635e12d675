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


FILE = "your cell"  # the file name that frames and call sites of the student's cell carry


class MissingNameError(Exception):
    """The cell ran but did not define a name that the exercise asks for."""


class EndlessExchangeError(BaseException):
    """A rank sends and receives without end. No Exception, so that a broad ``except`` does not swallow it."""


class OperationLimit:
    """Ends this rank with EndlessExchangeError at its ``limit``-th communication since the last ``reset``.

    An endless loop that communicates never runs out of the processor time between two coordination points; counting is
    exact and the same on every machine.
    """

    def __init__(self, limit: int) -> None:
        from simulator.rank import context

        rank = context.get()
        self._limit, self._left, self._next_work = limit, limit, rank.next_work
        rank.next_work = self._count  # type: ignore[method-assign]

    def reset(self) -> None:
        """Count from zero again."""
        self._left = self._limit

    def _count(self) -> int:
        self._left -= 1
        if self._left < 0:
            raise EndlessExchangeError(str(self._limit))
        return self._next_work()


def load(assembly: Assembly, name: str) -> Any:
    """Run the assembled source in this process and return the object called ``name``."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for file, text in (("<setup>", assembly.setup), (FILE, assembly.source)):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), namespace)
    if name not in namespace:
        raise MissingNameError(name)
    return namespace[name]
