"""The list of what is covered: programs register themselves with the row of docs/coverage.md that they show.

Every rank imports this: nothing heavy here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Program = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A program and where it runs. `needs_folder`: it gets an empty folder as its argument. `xfail`: why it does not
    work yet.
    """

    program: Program
    section: str
    row: str
    worlds: tuple[int, ...]
    slow_worlds: tuple[int, ...] = ()
    needs_folder: bool = False
    xfail: str = ""

    @property
    def name(self) -> str:
        return self.program.__name__


CASES: list[Case] = []


def covers(
    section: str,
    row: str,
    *,
    worlds: tuple[int, ...] = (3,),
    slow: tuple[int, ...] = (),
    folder: bool = False,
    xfail: str = "",
) -> Callable[[Program], Program]:
    """Register a program: it runs at `worlds` always and at `slow` in the slow tests."""

    def register(program: Program) -> Program:
        CASES.append(Case(program, section, row, worlds, slow, folder, xfail))
        return program

    return register
