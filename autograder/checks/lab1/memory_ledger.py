"""Check of lab1/memory-ledger: bytes of parameters, gradients and optimizer state under DDP and ZeRO-1, 2, 3.

What is expected is counted on real ranks: the trusted process runs the course's own training step of that model and
compares what its tensors hold with what the student's function says.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.lab1.conventions import CONVENTIONS
from autograder.checks.seen import Fault, Seen

_Name = Literal["fp32", "8", "16", "18"]
KINDS = ("parameters", "gradients", "optimizer")
#: (ZeRO stage, convention) that a real run on a CPU can show; torch's fully_shard keeps no master copy.
COMBINATIONS: tuple[tuple[int, _Name], ...] = (
    (0, "fp32"),
    (0, "18"),
    (1, "16"),
    (1, "8"),
    (2, "18"),
    (2, "fp32"),
    (3, "fp32"),
    (3, "8"),
)
EVEN_RANKS, ODD_RANKS = (2, 3), (3, 4)
#: Rows that 2, 3 and 4 ranks divide.
DIVISIBLE = 12
NAMES = {0: "DDP", 1: "ZeRO-1", 2: "ZeRO-2", 3: "ZeRO-3"}
_Sizes = tuple[int, ...]


class Case(cases.Case, frozen=True):
    """Parameters by `rows` and `columns` (0: a vector), on so many ranks."""

    ranks: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
    zero: Annotated[int, msgspec.Meta(ge=0, le=3)] = 0
    convention: _Name = "fp32"
    rows: _Sizes = (24, 12, 12)
    columns: _Sizes = (12, 24, 0)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes as the student's function gets them."""
        pairs = zip(self.rows, self.columns, strict=True)
        return tuple((rows, columns) if columns else (rows,) for rows, columns in pairs)

    @property
    def divides(self) -> bool:
        """No rank holds more than another."""
        return all(rows % DIVISIBLE == 0 for rows in self.rows)

    @property
    def label(self) -> str:
        """The case in words."""
        shapes = " + ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{NAMES[self.zero]}, {self.ranks} ranks, convention {self.convention}, parameters {shapes}"


def visible() -> list[Case]:
    """Every combination where all divides, then where it does not: a vector shorter than the ranks, odd rows."""
    return _cases(((24, 12, 12), (12, 24, 0)), ((10, 5, 3), (5, 4, 0)), EVEN_RANKS[1:], ODD_RANKS[1:])


def drawn(rng: random.Random) -> list[Case]:
    """The same combinations with other shapes."""
    even = [DIVISIBLE * rng.randint(1, 3) for _ in range(3)]
    odd = [rng.choice((1, 3)), *(rng.choice([n for n in range(5, 30) if n % 2 and n % 3]) for _ in range(2))]
    columns = tuple(rng.randint(2, 9) for _ in range(2))
    return _cases((tuple(even), (*columns, 0)), (tuple(odd), (0, *columns)))


def _cases(
    even: tuple[_Sizes, _Sizes],
    odd: tuple[_Sizes, _Sizes],
    even_ranks: tuple[int, ...] = EVEN_RANKS,
    odd_ranks: tuple[int, ...] = ODD_RANKS,
) -> list[Case]:
    return [
        Case(ranks=ranks, zero=zero, convention=convention, rows=rows, columns=columns)
        for (rows, columns), numbers in ((even, even_ranks), (odd, odd_ranks))
        for ranks in numbers
        for zero, convention in COMBINATIONS
    ]


def on_rank(case: Case, ledger: Any) -> list[dict[str, int]]:
    """What the student's function says of every rank."""
    convention, shapes = CONVENTIONS[case.convention], [tuple(shape) for shape in case.shapes]
    found = []
    for rank in range(case.ranks):
        said = ledger(list(shapes), case.zero, case.ranks, rank, convention)
        found.append({str(kind)[:40]: int(number) for kind, number in dict(said).items()})
    return found


def real_step(shapes: Any, combinations: Any) -> Any:
    """In the ranks of the reference run."""
    from autograder.checks.lab1.zero import held_by

    return held_by(shapes, combinations)


@functools.cache
def measured(ranks: int, shapes: tuple[tuple[int, ...], ...]) -> dict[tuple[int, str], list[list[int]]]:
    """From a real run: by combination, for every rank, bytes by kind."""
    import simulator

    run = simulator.run(real_step, ranks, args=(shapes, list(COMBINATIONS)), echo=False).raise_for_outcome()
    return {pair: [of_rank[k] for of_rank in run.results] for k, pair in enumerate(COMBINATIONS)}


def _wrong_kind(case: Case, kind: str, ledgers: list[dict[str, int]]) -> Fault | None:
    """The first rank of which the function says another number of bytes than the run shows."""
    for rank, said in enumerate(ledgers):
        expected = measured(case.ranks, case.shapes)[case.zero, case.convention][rank][KINDS.index(kind)]
        if kind not in said:
            return Fault(f"the answer has no {kind!r}.", f"the keys {', '.join(KINDS)}", ", ".join(said), rank)
        if said[kind] != expected:
            text = f"rank {rank} of the real run holds {expected:,} bytes of {kind}, your ledger says "
            return Fault(f"{text}{said[kind]:,}.", f"{expected:,}", f"{said[kind]:,}", rank)
    return None


def wrong(kind: str) -> Callable[[Seen[Case, list[dict[str, int]]]], Fault | None]:
    """One kind, where the ranks divide every parameter."""
    return lambda seen: _wrong_kind(seen.case, kind, seen.said[0]) if seen.case.divides else None


def wrong_remainder(seen: Seen[Case, list[dict[str, int]]]) -> Fault | None:
    """Any kind, where they do not."""
    if seen.case.divides:
        return None
    return next(filter(None, (_wrong_kind(seen.case, kind, seen.said[0]) for kind in KINDS)), None)


CHECK = Check(
    case=Case,
    said=list[dict[str, int]],
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("parameters", "The parameters are counted wrong", wrong("parameters"), "reported"),
        Property("gradients", "The gradients are counted wrong", wrong("gradients"), "reported"),
        Property("optimizer", "The optimizer state is counted wrong", wrong("optimizer"), "reported"),
        Property("remainder", "Wrong where the ranks do not divide a parameter", wrong_remainder, "reported"),
    ),
)
