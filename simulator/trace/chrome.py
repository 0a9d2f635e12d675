"""A trace as Chrome / Perfetto JSON: open it in ui.perfetto.dev or chrome://tracing.

One process a rank; its threads are the steps, the program (compute and waiting), and one for each communication
stream. Arrows lead from a send to its receive, faults and ends of ranks are instants. What overlaps on one stream gets
a further thread, because slices of a thread must nest. Times are virtual: 1 microsecond there is 1 virtual microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from simulator.faults import KINDS
from simulator.trace.event import Event
from simulator.trace.trace import Trace

_STEPS, _PROGRAM = "steps", "program"
#: Process number of rank 0. Perfetto shows numbers beside names and keeps process 0 for an idle processor.
_FIRST_PID = 1000
#: Not told again for every slice: they are its place, name and length.
_UNTOLD = frozenset({"rank", "op", "stream", "start_ns", "end_ns", "detail"})


class _Slice(NamedTuple):
    """A bar on a thread of a rank, in virtual nanoseconds."""

    thread: str
    start_ns: int
    end_ns: int
    name: str
    event: Event


def export(trace: Trace) -> bytes:
    """The JSON document; the same trace gives the same bytes."""
    told: list[dict[str, Any]] = []
    for rank in range(trace.world_size):
        events = trace.of_rank(rank)
        told += _process(rank)
        starts = sorted({event.incarnation for event in events})
        parts = [tuple(event for event in events if event.incarnation == number) for number in starts]
        told += _threads(rank, [piece for part in parts for piece in _slices(part, trace.end_ns)])
        told += [_instant(event) for event in events if event.op == "exit" or event.op in KINDS]
    places = {_place(e["pid"], e["args"], e["cat"]): e["tid"] for e in told if e["ph"] == "X"}
    told += _arrows(trace, places)
    document = {"traceEvents": told, "displayTimeUnit": "ns", "otherData": trace.header}
    return msgspec.json.encode(document, order="sorted")


def save(trace: Trace, path: str | Path) -> Path:
    """Write `export` to a file. Returns the path."""
    path = Path(path)
    path.write_bytes(export(trace))
    return path


def _slices(events: tuple[Event, ...], last_ns: int) -> Iterator[_Slice]:
    begins = [event for event in events if event.op == "step"]
    ends = [event.issue_ns for event in (*begins[1:], *events[-1:])]
    for event, end in zip(begins, ends, strict=False):
        yield _Slice(_STEPS, event.issue_ns, end, f"step {event.step}", event)
    for event in events:
        if event.is_communication:
            yield from _communication(event, last_ns)
        elif event.end_ns > event.start_ns:
            yield _Slice(_PROGRAM, event.start_ns, event.end_ns, event.phase or _name(event), event)


def _communication(event: Event, last_ns: int) -> Iterator[_Slice]:
    """The transfer on its stream (for what failed: from the call to the failure), and how long the program waited."""
    end = event.end_ns if event.end_ns >= 0 else last_ns
    begin = event.start_ns if event.start_ns >= 0 else event.issue_ns
    name = _name(event)
    yield _Slice(event.stream, min(begin, end), end, name, event)
    if 0 <= event.wait_ns < end:
        yield _Slice(_PROGRAM, event.wait_ns, end, f"wait for {name}", event)


def _name(event: Event) -> str:
    return event.label if event.status == "ok" else f"{event.label} [{event.status}]"


def _threads(rank: int, slices: list[_Slice]) -> Iterator[dict[str, Any]]:
    """The slices with a thread each that is free when they begin; the threads' names."""
    slices.sort(key=lambda s: (s.thread not in (_STEPS, _PROGRAM), s.thread != _STEPS, s.thread, s[1:3], s.event.n))
    free_ns: dict[str, int] = {}
    tids: dict[str, int] = {}
    for piece in slices:
        lane, thread = 1, piece.thread
        while free_ns.get(thread, 0) > piece.start_ns:
            lane += 1
            thread = f"{piece.thread} ({lane})"
        free_ns[thread] = piece.end_ns
        if thread not in tids:
            pid = _FIRST_PID + rank
            tids[thread] = pid if thread == _PROGRAM else 100 * pid + len(tids)  # tid == pid: the main thread
            yield _metadata(rank, "thread_name", tids[thread], name=thread)
            yield _metadata(rank, "thread_sort_index", tids[thread], sort_index=len(tids))
        yield {
            "ph": "X",
            "pid": _FIRST_PID + rank,
            "tid": tids[thread],
            "ts": _us(piece.start_ns),
            "dur": _us(piece.end_ns - piece.start_ns),
            "name": piece.name,
            "cat": "program" if piece.thread == _PROGRAM else "steps" if piece.thread == _STEPS else "communication",
            "args": _details(piece.event),
        }


def _process(rank: int) -> Iterator[dict[str, Any]]:
    yield _metadata(rank, "process_name", 0, name=f"rank {rank}")
    yield _metadata(rank, "process_sort_index", 0, sort_index=rank)


def _metadata(rank: int, what: str, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": _FIRST_PID + rank, "tid": tid, "name": what, "args": args}


def _instant(event: Event) -> dict[str, Any]:
    name = event.detail or {"done": "finished", "error": "raised"}.get(event.status, event.status)
    return {
        "ph": "i",
        "s": "p",
        "pid": _FIRST_PID + event.rank,
        "tid": _FIRST_PID + event.rank,
        "ts": _us(event.issue_ns),
        "name": name,
        "cat": "fault" if event.op in KINDS else "exit",
        "args": _details(event),
    }


def _place(pid: int, args: dict[str, Any], category: str) -> tuple[int, int, int, str]:
    return pid, args.get("incarnation", 0), args["n"], category


def _arrows(trace: Trace, places: dict[tuple[int, int, int, str], int]) -> Iterator[dict[str, Any]]:
    """A pair of flow events for each message that arrived."""
    for number, (send, receive) in enumerate(messages(trace)):
        for event, phase in ((send, {"ph": "s"}), (receive, {"ph": "f", "bp": "e"})):
            pid = _FIRST_PID + event.rank
            place = {"pid": pid, "tid": places[pid, event.incarnation, event.n, "communication"]}
            yield {**phase, **place, "id": number, "ts": _us(event.start_ns), "name": "message", "cat": "message"}


def messages(trace: Trace) -> Iterator[tuple[Event, Event]]:
    """(send, receive) of every message that arrived: both ends have the same times; receives from any rank fit too."""
    sends: dict[tuple[object, ...], list[Event]] = {}
    for event in trace:
        if event.op == "send" and event.status == "ok":
            sends.setdefault((event.group, event.tag, event.peer, event.start_ns, event.end_ns), []).append(event)
    receives = [event for event in trace if event.op == "recv" and event.status == "ok"]
    for event in sorted(receives, key=lambda e: e.peer < 0):  # receives from a named rank choose first
        waiting = sends.get((event.group, event.tag, event.rank, event.start_ns, event.end_ns), [])
        if found := next((send for send in waiting if event.peer in (-1, send.rank)), None):
            waiting.remove(found)
            yield found, event


def _details(event: Event) -> dict[str, Any]:
    """The fields that say something, as they are in the trace."""
    fields = {f.name: getattr(event, f.name) for f in msgspec.structs.fields(Event) if f.name not in _UNTOLD}
    nothing = ("", (), -1)
    said = {name: value for name, value in fields.items() if name == "n" or value not in nothing}
    return {name: value for name, value in said.items() if name != "incarnation" or value}


def _us(ns: int) -> float:
    return ns / 1000
