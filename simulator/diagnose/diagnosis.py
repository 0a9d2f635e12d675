"""What `diagnose` returns, and the classes it knows."""

from __future__ import annotations

from typing import Final

import msgspec

NONE: Final = "none"
OMITTED: Final = "omitted"
EXTRA: Final = "extra"
BRANCH: Final = "rank-only branch"
UNEVEN: Final = "uneven loop end"
SWAPPED: Final = "swapped"
SHAPE: Final = "shape"
DTYPE: Final = "dtype"
OPERATION: Final = "operation"
REDUCE_OP: Final = "reduce op"
ROOT: Final = "root"
GROUP: Final = "group"
DEAD: Final = "dead rank"
SLOW: Final = "slow rank"
DEADLOCK_GROUPS: Final = "deadlock across groups"
DEADLOCK_P2P: Final = "deadlock point to point"
NETWORK: Final = "network"

#: Every class, with what it means in a few words.
KINDS: dict[str, str] = {
    NONE: "nothing wrong in the order of communication",
    OMITTED: "a rank left out a call that the others make",
    EXTRA: "a rank makes a call once more than the others",
    BRANCH: "a call in a branch that only some ranks enter (`if rank == 0:`)",
    UNEVEN: "a loop ran more often on some ranks than on others",
    SWAPPED: "two calls in the other order",
    SHAPE: "the same call with another shape",
    DTYPE: "the same call with another dtype",
    OPERATION: "another collective in the same place",
    REDUCE_OP: "the same call with another reduce op",
    ROOT: "the same call with another source or destination",
    GROUP: "a call on another process group, or a group that not every rank made",
    DEAD: "a rank died, raised, spins, or left no trace",
    SLOW: "a rank takes longer for its own work than the others, again and again, or once until they gave up",
    DEADLOCK_GROUPS: "ranks wait for each other in different groups",
    DEADLOCK_P2P: "ranks wait for messages of each other",
    NETWORK: "every rank made the same call, and it never completed",
}


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that went wrong.

    Attributes:
        kind: one of `KINDS`. also: other classes that leave the very same trace, most likely first.
        ranks: who did it: the minority; in a tie every rank that is involved.
        group, seq: the process group and the number of the collective in it where ranks part; "" and -1 for none.
        step: training step, -1 for none. site: "file:line" of the call, of the culprit where it made one.
        text: one paragraph: what happened, the other reading if there is one, what to do next.
        advice: its last sentence.
    """

    kind: str
    ranks: tuple[int, ...] = ()
    also: tuple[str, ...] = ()
    group: str = ""
    seq: int = -1
    step: int = -1
    site: str = ""
    text: str = ""
    advice: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.kind == NONE

    @property
    def is_suspicion(self) -> bool:
        """Order alone cannot tell a swap from a legal program: look at the values."""
        return self.kind == SWAPPED

    @property
    def readings(self) -> tuple[str, ...]:
        """The class and the others that the trace allows."""
        return (self.kind, *self.also)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"
