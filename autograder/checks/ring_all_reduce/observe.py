"""What the trusted side saw of one run of many cases: messages from the trace, bytes from the ranks.

What a rank returned is treated as data of unknown shape: a student may have changed the process it comes from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autograder.checks.ring_all_reduce.cases import Case

if TYPE_CHECKING:
    import numpy as np

    from simulator import Run
    from simulator.trace import Event

COLLECTIVES = frozenset(
    {"all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "barrier"}
    | {"reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"}
)


@dataclass(frozen=True)
class Seen:
    """One case: what each rank holds afterwards and what it sent. ``changed`` is by rank, empty if all is well."""

    case: Case
    outputs: list[np.ndarray[Any, Any]]
    changed: list[list[str]]
    returned: list[str]
    sent_bytes: list[int]
    load_bytes: list[int]
    messages: list[int]
    peers: list[set[int]]
    broken: str = ""


@dataclass(frozen=True)
class Batch:
    """One run. ``seen`` is empty unless the run completed; ``collectives`` are (op, rank, step, bytes) of any run."""

    cases: list[Case]
    run: Run
    seen: list[Seen] = field(default_factory=list)
    collectives: list[tuple[str, int, int, int]] = field(default_factory=list)

    @property
    def completed(self) -> bool:
        """All ranks returned, and every planned fault fired."""
        return bool(self.run.ok)


def batch(cases: list[Case], run: Run) -> Batch:
    """Read a run of ``cases``, all of one world size: one step each, or a single case without steps."""
    collectives = [(e.op, e.rank, e.step, e.bytes) for e in run.trace.events if e.op in COLLECTIVES]
    if not run.ok:
        return Batch(cases, run, [], collectives)
    of_case = [[e for e in run.trace.events if e.step == k or len(cases) == 1] for k in range(len(cases))]
    return Batch(cases, run, [_seen(case, k, run, of_case[k]) for k, case in enumerate(cases)], collectives)


def _seen(case: Case, k: int, run: Run, events: list[Event]) -> Seen:
    world_size = case.world_size
    sent, received, messages = Counter[int](), Counter[int](), Counter[int]()
    peers: list[set[int]] = [set() for _ in range(world_size)]
    for event in events:
        if event.op in ("send", "recv"):
            (sent if event.op == "send" else received)[event.rank] += event.bytes
            messages[event.rank] += 1
            peers[event.rank].add(event.peer)
    ranks = range(world_size)
    traffic = {
        "sent_bytes": [sent[r] for r in ranks],
        "load_bytes": [sent[r] + received[r] for r in ranks],
        "messages": [messages[r] for r in ranks],
    }
    said = [_said(run.results[r], k, case) for r in ranks]
    broken = next((f"rank {r} returned no usable result" for r in ranks if said[r] is None), "")
    good = [s if s is not None else _nothing(case) for s in said]
    outputs, changed, returned = [s[0] for s in good], [s[1] for s in good], [s[2] for s in good]
    return Seen(case, outputs, changed, returned, **traffic, peers=peers, broken=broken)


def _nothing(case: Case) -> tuple[np.ndarray[Any, Any], list[str], str]:
    import numpy as np

    return np.zeros(case.length, case.dtype), [], "NoneType"


def _said(result: Any, k: int, case: Case) -> tuple[np.ndarray[Any, Any], list[str], str] | None:
    """One rank's report on case ``k`` if it has the promised form, else None."""
    import numpy as np

    if not isinstance(result, list) or len(result) <= k or not isinstance(result[k], dict):
        return None
    data, changed, returned = (result[k].get(key) for key in ("data", "changed", "returned"))
    if not isinstance(data, bytes) or len(data) != case.length * case.itemsize:
        return None
    if not isinstance(changed, list) or not isinstance(returned, str):
        return None
    return np.frombuffer(data, case.dtype), [str(c)[:40] for c in changed], returned[:40]
