"""Traces as the bytes that the interactive timeline reads: gzip of a JSON header and columns of numbers.

What a rank's thread did comes from the same `stretches` as the static picture, so both say the same. Columns are
little-endian arrays: 16 ranks with 10,000 events each are a few megabytes. The same traces give the same bytes.
"""

from __future__ import annotations

import gzip
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from simulator.show import units, words
from simulator.show.axis import TimeAxis, build_axis
from simulator.show.lanes import KINDS, Stretch, messages, stretches
from simulator.show.reading import reading
from simulator.show.style import LOOKS, MARKS
from simulator.show.timeline import timeline
from simulator.show.totals import by_rank, is_open
from simulator.show.widget.places import Place, places
from simulator.trace import Event, Trace

WIDTH = 1000.0
"""The whole time axis, in the units of the axis that Python lays out and the browser scales."""

_TIMES = ("issue_ns", "start_ns", "end_ns", "wait_ns")
_WORDS = ("label", "op", "phase", "module", "group", "reduce", "status", "site", "detail", "thread", "stream")
_NUMBERS = {"rank": "i", "step": "i", "seq": "i", "peer": "i", "incarnation": "i", "bytes": "d", "flops": "d"}


class _Columns:
    """Arrays of numbers one after the other, each starting at a multiple of 8 bytes."""

    def __init__(self) -> None:
        self.index: dict[str, tuple[str, int, int]] = {}
        self.parts: list[bytes] = []
        self.size = 0
        self.strings: dict[str, int] = {}

    def add(self, name: str, code: str, values: Iterable[float]) -> None:
        """`code` is one of array's: d float64, i int32, I uint32, B uint8."""
        column = array(code, values)
        if sys.byteorder == "big":
            column.byteswap()
        data = column.tobytes()
        self.index[name] = (code, self.size, len(column))
        data += bytes(-len(data) % 8)
        self.parts.append(data)
        self.size += len(data)

    def add_words(self, name: str, values: Iterable[str]) -> None:
        """Words as numbers in the table of all strings."""
        self.add(name, "I", [self.strings.setdefault(value, len(self.strings)) for value in values])


@dataclass(frozen=True)
class Notes:
    """Points of a rank's time that the trace does not have, such as "a gradient is ready"; ``words`` say what they are.

    ``points``: for each trace a list of (rank, ns, what).
    """

    words: str
    points: Sequence[Sequence[tuple[int, int, str]]]

    def text(self, number: int) -> str:
        """The notes of one trace as lines, for the text twin."""
        lines = [f"{units.duration(ns):>10}  rank {rank}  {what}" for rank, ns, what in self.points[number]]
        return "\n".join([f"Notes ({self.words}):", *lines])


def pack(
    traces: Sequence[Trace], names: Sequence[str], extra: Sequence[Place] = (), notes: Notes | None = None
) -> bytes:
    """Packs one trace, or two to be compared on one time axis.

    Args:
        traces: one or two traces.
        names: what to call each; shown only where there are two.
        extra: places to offer before those that are found in the traces.
        notes: points of time to mark beside what the traces say.
    """
    lanes = [{rank: stretches(events) for rank, events in by_rank(trace).items()} for trace in traces]
    axis = _axis(traces, [stretch for of_trace in lanes for of_rank in of_trace.values() for stretch in of_rank])
    columns = _Columns()
    told = [_trace(columns, k, trace, names[k], lanes[k]) for k, trace in enumerate(traces)]
    for k, of_trace in enumerate(told):
        of_trace["notes"] = notes.points[k] if notes else []
        of_trace["text"] += f"\n\n{notes.text(k)}" if notes else ""
    header = {
        "traces": told,
        "columns": columns.index,
        "strings": list(columns.strings),
        "places": [place.told() for place in (*extra, *places(traces, names))],
        "kinds": KINDS,
        "looks": {kind: msgspec.to_builtins(look) for kind, look in LOOKS.items()},
        "marks": {op: mark.words for op, mark in MARKS.items()},
        "noted": notes.words if notes else "",
        "axis": [(p.t0, p.t1, p.x0, p.x1, p.is_cut) for p in axis.pieces],
        "edge": axis.edge,
    }
    start = msgspec.json.encode(header)
    start += b" " * (-(len(start) + 8) % 8)
    return gzip.compress(b"".join([len(start).to_bytes(8, "little"), start, *columns.parts]), 6, mtime=0)


def _axis(traces: Sequence[Trace], drawn: list[Stretch]) -> TimeAxis:
    events = [event for trace in traces for event in trace.events]
    times = {ns for e in events for ns in (e.issue_ns, e.start_ns, e.wait_ns, e.end_ns) if ns >= 0}
    active = [(s.t0, s.t1) for s in drawn if s.t1 is not None and s.kind not in ("waiting", "failed")]
    return build_axis(sorted(times), active, WIDTH, needs_tail=any(map(is_open, events)))


def _trace(columns: _Columns, k: int, trace: Trace, name: str, lanes: dict[int, list[Stretch]]) -> dict[str, Any]:
    shown = timeline(trace)
    line = reading(trace)
    numbers = {id(event): n for n, event in enumerate(trace.events)}
    _events(columns, f"{k}.", trace)
    rows, bars = _rows(trace, lanes)
    columns.add(f"{k}.bar.t0", "d", (bar.t0 for bar in bars))
    columns.add(f"{k}.bar.t1", "d", (-1 if bar.t1 is None else bar.t1 for bar in bars))
    columns.add(f"{k}.bar.kind", "B", (KINDS.index(bar.kind) for bar in bars))
    columns.add(f"{k}.bar.event", "I", (numbers[id(bar.event)] for bar in bars))
    pairs = messages(trace.events)
    columns.add(f"{k}.message", "I", (numbers[id(event)] for event in chain.from_iterable(pairs)))
    return {
        "name": name,
        "headline": words.headline(trace, shown.outcome_name),
        "alt": shown.alt,
        "reading": f"{line[0].upper()}{line[1:]}.",
        "text": shown.text(),
        "provenance": words.provenance(trace),
        "clock": words.time(trace),
        "rows": [*rows, *_memory(columns, k, trace)],
        "steps": _steps(columns, k, trace),
        "faults": [(numbers[id(e)], e.op, words.fault(trace, e)) for e in _faults(trace)],
    }


def _events(columns: _Columns, prefix: str, trace: Trace) -> None:
    """What is told of an event when the pointer or the keyboard is on it."""
    events = trace.events
    for name in _TIMES:
        columns.add(prefix + name, "d", [getattr(event, name) for event in events])
    for name, code in _NUMBERS.items():
        columns.add(prefix + name, code, [getattr(event, name) for event in events])
    for name in _WORDS:
        columns.add_words(prefix + name, [getattr(event, name) for event in events])


def _rows(trace: Trace, lanes: dict[int, list[Stretch]]) -> tuple[list[dict[str, Any]], list[Stretch]]:
    """The rows of every rank, threads before streams, and their bars one row after the other in order of time."""
    rows: list[dict[str, Any]] = []
    bars: list[Stretch] = []
    events = by_rank(trace)
    for rank, of_rank in lanes.items():
        threads: dict[str, list[Stretch]] = {"0": []}
        for stretch in of_rank:
            if not stretch.behind:
                threads.setdefault(stretch.event.thread, []).append(stretch)
        streams = {stretch.event.stream: list[Stretch]() for stretch in of_rank if stretch.behind}
        for stretch in _whole(of_rank, events[rank]):
            if stretch.event.stream in streams:
                streams[stretch.event.stream].append(stretch)
        for kind, group in (("thread", threads), ("stream", streams)):
            for name, row in sorted(group.items()):
                rows.append({"rank": rank, "kind": kind, "name": name, "first": len(bars), "count": len(row)})
                bars += sorted(row, key=lambda bar: bar.t0)
    return rows, bars


def _whole(of_rank: list[Stretch], events: list[Event]) -> Iterable[Stretch]:
    """What ran in streams beside the threads, from its start to its end, also while a thread waited for it."""
    for stretch in of_rank:
        if stretch.behind and (not stretch.event.is_communication or is_open(stretch.event)):
            yield stretch
    for event in events:
        if event.is_communication and not is_open(event) and min(event.start_ns, event.end_ns) >= 0:
            yield Stretch("collective" if event.is_collective else event.op, event.start_ns, event.end_ns, event, True)


def _memory(columns: _Columns, k: int, trace: Trace) -> list[dict[str, Any]]:
    """A row for the tensor memory of each rank, where it was followed: times (ns) and bytes, in the order of time."""
    rows = []
    times: list[int] = []
    held: list[int] = []
    for rank, events in by_rank(trace).items():
        points = sorted((max(e.end_ns, e.issue_ns), e.n, e.live_bytes) for e in events if e.live_bytes >= 0)
        if any(live for *_, live in points):
            row = {"rank": rank, "kind": "memory", "name": "memory", "first": len(times), "count": len(points)}
            rows.append({**row, "peak": max(live for *_, live in points)})
        times += [at for at, *_ in points]
        held += [live for *_, live in points]
    columns.add(f"{k}.memory.t", "d", times)
    columns.add(f"{k}.memory.bytes", "d", held)
    return rows


def _steps(columns: _Columns, k: int, trace: Trace) -> list[tuple[int, int]]:
    """(first, count) of each rank in the columns that say when (ns) a rank enters which step."""
    places: list[tuple[int, int]] = []
    times: list[int] = []
    numbers: list[int] = []
    for events in by_rank(trace).values():
        before = len(times)
        step = -1
        for event in events:
            if event.step >= 0 and event.step != step:
                step = event.step
                times.append(event.issue_ns)
                numbers.append(step)
        places.append((before, len(times) - before))
    columns.add(f"{k}.step.t", "d", times)
    columns.add(f"{k}.step.number", "i", numbers)
    return places


def _faults(trace: Trace) -> list[Event]:
    """Faults that acted; a rank that is slowed at every step is told once."""
    found: list[Event] = []
    slowed: set[int] = set()
    for event in trace.events:
        if event.op in MARKS and not (event.op == "slow" and event.rank in slowed):
            found.append(event)
        slowed |= {event.rank} if event.op == "slow" else set()
    return found
