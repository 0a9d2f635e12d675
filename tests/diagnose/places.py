"""A program with one defect, and how a place for it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.diagnose.generator import Writer
from tests.diagnose.program import Op, Program


@dataclass(frozen=True)
class Faulty:
    """`kind`, `ranks`: the exact diagnosis; `healthy`: the program without the defect."""

    seed: int
    program: Program
    healthy: Program
    kind: str
    ranks: frozenset[int]
    also_ranks: frozenset[int] = frozenset()  # in a group of two: the one that did it

    def accepts_ranks(self, ranks: tuple[int, ...]) -> bool:
        return set(ranks) == self.ranks or (bool(self.also_ranks) and set(ranks) == self.also_ranks)


class Unfit(Exception):
    """The program has no place for this defect."""


def places(
    writer: Writer, program: Program, fits: Callable[[Op], bool] = lambda op: True
) -> tuple[int, int, list[Op], Op]:
    """A random rank and a random collective of it: (rank, index, its lines, the call)."""
    places = [
        (rank, index)
        for rank, ops in enumerate(program.ranks)
        for index, op in enumerate(ops)
        if op.is_collective and fits(op)
    ]
    if not places:
        raise Unfit
    rank, index = writer.random.choice(places)
    ops = list(program.ranks[rank])
    return rank, index, ops, ops[index]


def blamed(program: Program, rank: int, group: str) -> frozenset[int]:
    members = program.groups[group]
    return frozenset(members) if len(members) == 2 else frozenset({rank})


def tie(program: Program, group: str) -> bool:
    return len(program.groups[group]) == 2


def with_defect(program: Program, healthy: Program, kind: str, rank: int, group: str) -> Faulty:
    return Faulty(0, program, healthy, kind, blamed(program, rank, group), frozenset({rank}))


def without(ops: list[Op], index: int) -> list[Op]:
    """The lines without one call, and without its wait."""
    gone = ops[index]
    rest = ops[:index] + ops[index + 1 :]
    wait = ("wait", gone.line + 1, gone.step)
    return [op for op in rest if not gone.is_async or (op.op, op.line, op.step) != wait]
