"""The text twin of a timeline: what the picture shows, for a terminal or a screen reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.show import units, words
from simulator.show.reading import reading, waiting_ns
from simulator.show.totals import FAULTS, is_blank, is_open, totals

if TYPE_CHECKING:
    from simulator.trace import Event, Trace

MAX_ROWS = 40
"""Rows of the table when nothing failed; failures and faults are listed in any case."""


def text(trace: Trace, outcome_name: str) -> str:
    """Describes a trace: header, totals of each rank, operations in order of virtual time, and a reading."""
    provenance = words.provenance(trace)
    is_real = trace.header.get("clock") == "wall"
    lines = [f"{words.headline(trace, outcome_name)} (clocks are {'real' if is_real else 'virtual'})"]
    lines += [provenance] if provenance else []
    lines += [] if is_blank(trace) else ["", *_totals(trace), "", *_operations(trace)]
    lines += ["", f"Reading: {reading(trace)}."]
    return "\n".join(lines)


def alternative(trace: Trace, outcome_name: str) -> str:
    """Describes a trace in one sentence, as alternative text of its picture."""
    return (
        f"Timeline of {words.time(trace)}, one lane per rank. {words.headline(trace, outcome_name)}; {reading(trace)}."
    )


def _totals(trace: Trace) -> list[str]:
    """The table of totals; shares of the time only where no rank was stuck, because they would hide it."""
    counted = totals(trace)
    is_any_stuck = any(of.is_stuck for of in counted)
    rows = [["", "compute", "waiting", "transfer", "overlapped", "stuck"]]
    for of in counted:
        parts = (of.compute_ns, of.waiting_ns, of.transfer_ns)
        shares = ["" if is_any_stuck else f" ({units.percent(part, of.counted_ns)})" for part in parts]
        cells = [units.duration(part) + share for part, share in zip(parts, shares, strict=True)]
        rows.append([f"rank {of.rank}", *cells, units.duration(of.overlapped_ns), words.stuck(of)])
    has_compute = trace.header.get("clock") != "wall"  # a recorded job tells its communication only
    for column, is_needed in ((5, is_any_stuck), (4, any(of.overlapped_ns for of in counted)), (1, has_compute)):
        if not is_needed:
            for row in rows:
                del row[column]
    return _aligned(rows)


def _operations(trace: Trace) -> list[str]:
    shown = [event for event in trace.events if event.is_communication or event.op in ("compute", *FAULTS)]
    keep = _kept(shown)
    rows = [["at", "rank", "step", "operation", "waited", "took", "ended"]]
    gaps: dict[int, int] = {}
    for index, event in enumerate(shown):
        if index in keep:
            rows.append(_row(trace, event))
        else:
            gaps[len(rows)] = gaps.get(len(rows), 0) + 1
    lines = _aligned(rows)
    for position, count in sorted(gaps.items(), reverse=True):
        lines.insert(position, f"... {count:,} {'event' if count == 1 else 'events'} left out ...")
    return lines


def _kept(shown: list[Event]) -> set[int]:
    """Returns the indices of the rows to show: both ends, and all failures and faults."""
    if len(shown) <= MAX_ROWS:
        return set(range(len(shown)))
    half = MAX_ROWS // 2
    important: set[int] = set()
    slowed: set[int] = set()
    for index, event in enumerate(shown):
        # A slowed rank is slowed again at every step: the first time tells it.
        if is_open(event) or (event.op in FAULTS and not (event.op == "slow" and event.rank in slowed)):
            important.add(index)
        slowed |= {event.rank} if event.op == "slow" else set()
    return {*range(half), *range(len(shown) - half, len(shown)), *important}


def _row(trace: Trace, event: Event) -> list[str]:
    step = str(event.step) if event.step >= 0 else "-"
    at = [units.duration(event.issue_ns), str(event.rank), step]
    if event.op in FAULTS:
        return [*at, f"FAULT: {words.fault(trace, event)}", "-", "-", "-"]
    if is_open(event):
        return [*at, event.label, "-", "-", f"FAILED: {words.status(event)}"]
    waited = units.duration(waiting_ns(event)) if event.wait_ns >= 0 and event.is_communication else "-"
    took = units.duration(event.end_ns - event.start_ns) if min(event.start_ns, event.end_ns) >= 0 else "-"
    name = f"compute ({event.phase})" if event.op == "compute" and event.phase else event.label
    return [*at, name, waited, took, words.status(event)]


def _aligned(rows: list[list[str]]) -> list[str]:
    """Pads the columns of a table."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
