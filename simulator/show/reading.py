"""One line that says what a trace shows: who was late and who waited, or what failed and who caused it.

This is a reading of the picture and no diagnosis: it uses only what the events say and names a cause only where they
do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.show import units, words
from simulator.show.totals import is_blank, is_open, totals, world_size

if TYPE_CHECKING:
    from simulator.trace import Event, Trace

NOTICEABLE = 0.01
"""Waiting below this share of all counted time is not worth a sentence."""


def reading(trace: Trace) -> str:
    """Returns one sentence about a trace, without a capital letter or a full stop."""
    if not trace.events:
        return "nothing happened: the trace has no events, so there is nothing to draw"
    open_events = [event for event in trace.events if is_open(event)]
    failures = _failures(trace, open_events) if open_events or any(map(_went_wrong, trace.events)) else ""
    if is_blank(trace):
        return "; ".join(filter(None, [failures, "no rank communicated, so there is nothing to draw"]))
    return failures or _waiting(trace)


def _went_wrong(event: Event) -> bool:
    """Says whether a rank ended by itself, and not well."""
    return event.op == "exit" and event.status in words.WENT_WRONG


def _failures(trace: Trace, open_events: list[Event]) -> str:
    killed = [event for event in trace.events if event.op == "kill"]
    sentences = [f"rank {event.rank} was {words.fault(trace, event)}" for event in killed]
    stuck = {event.rank for event in open_events}
    for status, said in words.WENT_WRONG.items():
        ranks = sorted({e.rank for e in trace.events if e.op == "exit" and e.status == status} - stuck)
        sentences += [f"{units.ranks(ranks)} {said}"] if ranks else []
    collectives = [event for event in open_events if event.is_collective]
    keys = dict.fromkeys((event.group, event.seq) for event in collectives)
    sentences += [_collective(trace, [e for e in collectives if (e.group, e.seq) == key]) for key in keys]
    sentences += _point_to_point(trace, [event for event in open_events if event.is_p2p])
    left_out = len(sentences) - 4
    return "; ".join(sentences[:4]) + (f"; and {left_out} more" if left_out > 0 else "")


def _collective(trace: Trace, group: list[Event]) -> str:
    """Tells one collective's failure; all events have the same process group and number."""
    if any(event.status == "mismatch" for event in group):
        calls: dict[str, list[int]] = {}
        for event in group:
            calls.setdefault(_call(event, group), []).append(event.rank)
        told = ", ".join(f"{call} on {units.ranks(ranks)}" for call, ranks in _rarest_first(calls))
        same = f"{group[0].label} on every rank, but " if len({event.op for event in group}) == 1 else ""
        return f"the calls of collective #{group[0].seq} do not match: {same}{told}"
    first = group[0]
    stuck = [event.rank for event in group]
    verb = {"timeout": "timed out in", "lost": "lost a peer in"}.get(first.status, "never finished")
    absent = _absent(trace, first)
    return f"{units.ranks(stuck)} {verb} {first.label}" + (f"; {absent}" if absent else "")


def _rarest_first(calls: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    return sorted(calls.items(), key=lambda call: (len(call[1]), call[1]))


def _call(event: Event, group: list[Event]) -> str:
    """Names what tells a call from the other calls: its operation or, where that is the same, a detail."""
    details = {
        "reduce": event.reduce,
        "shapes": ", ".join(str(list(shape)) for shape in event.shapes),
        "dtype": event.dtype,
        "root": str(event.peer),
    }
    if len({other.op for other in group}) > 1:
        return event.label
    for attribute, said in (("reduce", "reduce"), ("shapes", "shapes"), ("dtype", "dtype"), ("peer", "root")):
        if len({getattr(other, attribute) for other in group}) > 1:
            return f"{said} {details[said]}"
    return event.label


def _absent(trace: Trace, failed: Event) -> str:
    """Says which members of the group never called a collective, and why if the trace knows."""
    default = failed.group in ("", "default")
    members = {e.rank for e in trace.events if e.group == failed.group and e.is_collective}
    members = set(range(world_size(trace))) if default else members
    called = {
        e.rank
        for e in trace.events
        if e.is_collective and (e.group, e.seq) == (failed.group, failed.seq) and e.status != "skipped"
    }
    told = {e.rank for e in trace.events if e.op == "kill" or _went_wrong(e)}
    missing = sorted(members - called - told)
    if not missing:
        return ""
    skipped = {event.rank for event in trace.events if event.op == "skip_collective"} & set(missing)
    why = " (the fault plan made it skip a collective)" if skipped else ""
    return f"{units.ranks(missing)} never called it{why}"


def _point_to_point(trace: Trace, failed: list[Event]) -> list[str]:
    if len({event.rank for event in failed}) == world_size(trace) > 1 and len({event.op for event in failed}) == 1:
        waits, nobody = ("receive", "sends") if failed[0].op == "recv" else ("send", "receives")
        return [f"every rank waits to {waits} and none {nobody}"]
    pairs = sorted({(min(e.rank, e.peer), max(e.rank, e.peer)) for e in failed if e.status == "mismatch"})
    between = " and between ".join(units.ranks(pair) for pair in pairs)
    what, do = ("messages", "do") if len(pairs) > 1 else ("message", "does")
    return [f"the {what} between {between} {do} not fit"] * bool(pairs) + [
        f"rank {event.rank}: {event.label} " + {"lost": "lost its peer"}.get(event.status, words.status(event))
        for event in failed
        if event.status != "mismatch"
    ]


def _waiting(trace: Trace) -> str:
    """Names the operation that cost the most waiting, and who was late at it."""
    if not any(event.is_communication for event in trace.events):
        return "no rank communicated"
    counted = totals(trace)
    waited, whole = sum(t.waiting_ns for t in counted), sum(t.counted_ns for t in counted)
    if waited <= NOTICEABLE * whole:
        return f"no rank waited noticeably for another ({units.percent(waited, whole)} of the time)"
    instances: dict[tuple[str, int, int, str], list[Event]] = {}
    for event in trace.events:
        if event.start_ns >= 0 and event.is_collective:
            instances.setdefault((event.group, event.seq, 0, event.op), []).append(event)
        elif event.start_ns >= 0 and event.is_p2p:
            instances[("", event.rank, event.n, event.op)] = [event]
    worst = max(instances.values(), key=lambda group: sum(map(waiting_ns, group)))
    if worst[0].is_p2p:
        event = worst[0]
        return f"the longest wait: rank {event.rank} waited {units.duration(waiting_ns(event))} in {event.label}"
    return _late(worst, [group for group in instances.values() if group[0].is_collective and len(group) > 1])


def waiting_ns(event: Event) -> int:
    """Returns for how long a rank was blocked before an operation began, in virtual nanoseconds."""
    return max(0, event.start_ns - event.wait_ns) if event.wait_ns >= 0 and event.start_ns >= 0 else 0


def late_ranks(group: Iterable[Event]) -> list[int]:
    """Returns who called a collective last: all within a tenth of the spread of the last one."""
    issued = {event.rank: event.issue_ns for event in group}
    first, last = min(issued.values()), max(issued.values())
    return sorted(rank for rank, ns in issued.items() if last - ns <= (last - first) / 10)


def _late(worst: list[Event], collectives: list[list[Event]]) -> str:
    late = late_ranks(worst)
    by = max(event.issue_ns for event in worst) - min(event.issue_ns for event in worst)
    waited = [event.rank for event in worst if waiting_ns(event) > 0 and event.rank not in late]
    times = sum(late_ranks(group) == late for group in collectives)
    often = f" (last at {times} of {len(collectives)} collectives)" if len(collectives) > 1 else ""
    was = "was" if len(late) == 1 else "were"
    where = worst[0].label + words.step(worst[0])
    return f"{units.ranks(late)} {was} late at {where} by {units.duration(by)}; {units.ranks(waited)} waited{often}"
