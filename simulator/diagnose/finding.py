"""What the parts of diagnosis hand to each other: a class with its evidence, before it is put into words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from simulator.trace import Event

MAKE_IN_ONE_ORDER: Final = (
    "Let every rank call new_group for every group in the same order, for those that it is no member of, too."
)


@dataclass(frozen=True)
class Finding:
    """`calls`: what to show, by rank: the calls where ranks part or wait. `at_ns`: when the trouble began.

    `why`: the evidence in a sentence, for classes whose calls do not say it themselves. `what` and `advice`: the words
    of this case, where those of its class do not fit.
    """

    kind: str
    ranks: tuple[int, ...]
    at_ns: int
    also: tuple[str, ...] = ()
    group: str = ""
    seq: int = -1
    calls: tuple[Event, ...] = ()
    why: str = ""
    is_tie: bool = False
    what: str = ""
    advice: str = ""

    @property
    def culprit_call(self) -> Event | None:
        """A call of a culprit, else of anybody."""
        mine = [e for e in self.calls if e.rank in self.ranks]
        return next(iter(mine or self.calls), None)


def ranks_text(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0, 1 and 3"."""
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def departure_text(ranks: tuple[int, ...]) -> str:
    """What speaks against some ranks of a tie."""
    return f"{ranks_text(ranks)} {'departs' if len(ranks) == 1 else 'depart'} from what was done earlier in the run"
