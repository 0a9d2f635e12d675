"""Student code inside a rank: the given setup code, then the exercise cell, in a fresh namespace.

This module is imported by name in the ranks. The trusted process never calls ``load``.
"""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Sequence
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


class ForbiddenError(BaseException):
    """The cell used what the exercise asks to write. No Exception, so that a broad ``except`` does not hide it."""


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


def load(assembly: Assembly, *names: str) -> list[Any]:
    """Run the assembled source in this process and return the objects called ``names``."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for file, text in (("<setup>", assembly.setup), (FILE, assembly.source)):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), namespace)
    for name in names:
        if name not in namespace:
            raise MissingNameError(name)
    return [namespace[name] for name in names]


def forbid(names: Sequence[str]) -> None:
    """Put a function that raises ForbiddenError in place of every dotted name (``torch.nn.parallel.X``).

    A reminder, no lock: what a determined program does all the same is for the trace and the values to show.
    """
    for dotted in names:
        module, _, name = dotted.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            raise LookupError(f"{dotted} is not there, so it cannot be forbidden")
        setattr(importlib.import_module(module), name, _refusal(dotted))


def _refusal(dotted: str) -> type:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ForbiddenError(dotted)

    return type(dotted.rpartition(".")[2], (), {"__new__": refuse})
