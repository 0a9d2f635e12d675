"""Part of a trace: the events of some ranks, steps, operations, groups, statuses or phases."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from simulator.errors import UsageError
from simulator.trace.trace import Trace

#: What can be asked for, and the field of an event that it looks at.
FIELDS = {"ranks": "rank", "steps": "step", "ops": "op", "groups": "group", "status": "status", "phases": "phase"}


def select(trace: Trace, **wanted: Any) -> Trace:
    """The events that match everything in `wanted` (see `FIELDS`; a value or a collection, None for all).

    The header says what was selected. Raises `UsageError` for a rank that the run does not have.
    """
    chosen = {name: _collection(value) for name, value in wanted.items() if value is not None}
    for rank in chosen.get("ranks", ()):
        if rank not in range(trace.world_size):
            raise UsageError(
                f"there is no rank {rank} in this trace of {trace.world_size} ranks (0 to {trace.world_size - 1})"
            )
    events = [e for e in trace.events if all(getattr(e, FIELDS[name]) in values for name, values in chosen.items())]
    header = dict(trace.header)
    if chosen:
        header["selected"] = {name: list(values) for name, values in chosen.items()}
    return Trace(header, events)


def _collection(value: Any) -> Collection[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return value if isinstance(value, range) else tuple(value)
