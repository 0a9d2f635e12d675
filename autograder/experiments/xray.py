"""An X-ray of two iterations of DDP: when gradients are ready, and when their buckets leave and arrive, rank by rank.

It reads a run whose ranks return their gradients as ``(step, name, bytes, ready_ns)``, times in virtual nanoseconds
from the start of the run; buckets come from the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from simulator import Run, Trace
from simulator.show import units
from simulator.show.timeline import Timeline, timeline
from simulator.show.widget import Notes

ITERATIONS = (0, 1)
"""DDP rebuilds its buckets before the second iteration, in the order in which gradients were ready in the first."""


def xray(run: Run) -> Timeline:
    """Both iterations on one time axis that starts with each; every gradient that is ready is marked."""
    run.raise_for_outcome()
    parts = [iteration(run.trace, step) for step in ITERATIONS]
    begins = [_begin(run.trace, step) for step in ITERATIONS]
    points = [
        [(rank, ns - begins[step], f"gradient of {name} is ready") for rank, name, _, ns in _ready(run, step)]
        for step in ITERATIONS
    ]
    notes = Notes("a gradient is ready", points)
    return timeline(parts[0], compare=parts[1], names=("iteration 1", "iteration 2"), notes=notes)


def xray_text(run: Run) -> str:
    """The same as a table: ready times of rank 0, then issue, start and finish of each bucket on every rank."""
    lines: list[str] = []
    for step in ITERATIONS:
        begin = _begin(run.trace, step)
        lines += ["", f"iteration {step + 1}", "  ready       gradient (rank 0)"]
        for rank, name, size, ns in sorted(_ready(run, step), key=lambda ready: ready[3]):
            if rank == 0:
                lines.append(f"  {units.duration(ns - begin):10}  {name}, {size / 1e6:.2f} MB")
        lines.append("  bucket  MB      rank  issued      started     finished")
        reduces = [e for e in iteration(run.trace, step) if e.op == "all_reduce"]
        first = min(event.seq for event in reduces)
        for e in sorted(reduces, key=lambda event: (event.seq, event.rank)):
            times = "  ".join(f"{units.duration(ns):10}" for ns in (e.issue_ns, e.start_ns, e.end_ns))
            lines.append(f"  {e.seq - first:6}  {e.bytes / 1e6:6.2f}  {e.rank:4}  {times.rstrip()}")
    return "\n".join(lines[1:])


def iteration(trace: Trace, step: int) -> Trace:
    """The events of one step; virtual time counts from where its first rank began it."""
    begin = _begin(trace, step)
    events = []
    for event in trace:
        if event.step == step and event.op != "exit":
            times: dict[str, Any] = {
                name: max(0, at - begin)
                for name in ("issue_ns", "start_ns", "end_ns", "wait_ns")
                if (at := getattr(event, name)) >= 0
            }
            events.append(msgspec.structs.replace(event, **times))
    return Trace({key: value for key, value in trace.header.items() if key != "version"}, events)


def _begin(trace: Trace, step: int) -> int:
    return min(event.issue_ns for event in trace if event.step == step)


def _ready(run: Run, step: int) -> Iterator[tuple[int, str, int, int]]:
    """(rank, name, bytes, ns) of the gradients of a step."""
    for rank, gradients in enumerate(run.results):
        for of_step, name, size, ns in gradients:
            if of_step == step:
                yield rank, name, size, ns
