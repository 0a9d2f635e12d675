"""The same trace as somebody else would have recorded it: without a rank, with other rank numbers, without exits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from simulator.trace import Trace


def without_rank(trace: Trace, rank: int) -> Trace:
    """As if the rank's recording were lost."""
    return Trace(dict(trace.header), [event for event in trace if event.rank != rank])


def renumbered(trace: Trace, numbers: Sequence[int]) -> Trace:
    """Rank r becomes `numbers[r]`, as a rank, as a peer and in every group."""
    header = dict(trace.header)
    header["groups"] = [[name, sorted(numbers[rank] for rank in ranks)] for name, ranks in header.get("groups", [])]
    events = [
        replace(event, rank=numbers[event.rank], peer=numbers[event.peer] if event.peer >= 0 else -1) for event in trace
    ]
    return Trace(header, events)


def foreign(trace: Trace) -> Trace:
    """Only what any recorder knows: ranks, groups and calls; no clock, no outcome, no exits."""
    header = {"world_size": trace.world_size, "groups": trace.header["groups"]}
    return Trace(header, [event for event in trace if event.op != "exit"])
