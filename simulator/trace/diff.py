"""The first place where two traces part, in words, and what usually makes two runs of one program differ.

Events are compared rank by rank, in each rank's program order. The difference that is told is the earliest one that a
rank made itself; a rank that only waited longer because of another rank comes second. Call sites are not compared: the
digest leaves them out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import msgspec

from simulator.show import units
from simulator.trace.event import Event
from simulator.trace.trace import Trace

#: Fields of an event as people name them, in the order in which they are told.
_FIELDS = {
    "op": "operation",
    "group": "group",
    "seq": "number in its group",
    "reduce": "reduce op",
    "peer": "peer or root",
    "tag": "tag",
    "shapes": "shapes",
    "dtype": "dtype",
    "bytes": "bytes",
    "step": "step",
    "phase": "phase",
    "module": "module",
    "detail": "detail",
    "work": "work handle",
    "stream": "stream",
    "live_bytes": "live bytes",
    "incarnation": "incarnation",
    "status": "status",
    "issue_ns": "called at",
    "start_ns": "started at",
    "wait_ns": "waited from",
    "end_ns": "ended at",
}
#: What other ranks and the network decide about a communication, not the rank that called it.
_EFFECTS = frozenset({"status", "start_ns", "wait_ns", "end_ns"})
_SETTINGS = ("world_size", "seed", "faults", "cluster", "reduction", "timeout_ns", "clock")
_CAUSES = {
    "order": "the order of a set, or of a dict made from one: it changes with PYTHONHASHSEED. Use sorted(...).",
    "random": "randomness without a seed: os.urandom, uuid, random.SystemRandom, numpy's default_rng() without a seed.",
    "clock": "the wall clock: time.time() in a condition, or given to simulator.compute().",
    "float": "a branch that depends on a float: compare with a tolerance, or run with reduction='rank_order'.",
    "thread": "threads of your own: whichever comes first calls its collective first.",
}
_LIKELY = {
    "times": ("clock", "random", "float", "order", "thread"),
    "payload": ("random", "order", "float", "clock", "thread"),
    "program": ("order", "random", "thread", "float", "clock"),
}


@dataclass(frozen=True)
class Difference:
    """Event `position` of the program of `rank`, as each trace has it; None where that trace has no such event.

    `is_reordered`: the rank makes the same calls in both traces, in another order.
    """

    rank: int
    position: int
    one: Event | None
    other: Event | None
    is_reordered: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that differ; only ("op",) where the two are not comparable."""
        if self.one is None or self.other is None:
            return ("op",)
        return tuple(name for name in _FIELDS if getattr(self.one, name) != getattr(self.other, name))

    @property
    def is_effect(self) -> bool:
        """The rank called the same thing at the same time; only how it went differs."""
        return self.one is not None and self.one.is_communication and _EFFECTS.issuperset(self.fields)

    @property
    def key(self) -> tuple[bool, int, int]:
        """What comes first: what a rank did itself, then virtual time, then rank."""
        issued = min(event.issue_ns for event in (self.one, self.other) if event is not None)
        return self.is_effect, issued, self.rank

    @property
    def kind(self) -> str:
        fields = set(self.fields)
        if self.is_reordered:
            return "program"
        if fields <= {"issue_ns", "start_ns", "end_ns", "wait_ns"}:
            return "times"
        return "payload" if fields & {"shapes", "dtype", "bytes"} and "op" not in fields else "program"


@dataclass(frozen=True)
class TraceDiff:
    """What `Trace.diff` found; false if the traces are the same. ``print(diff)`` tells it.

    Attributes:
        settings: (name, one, other) of what the two runs were asked for, where that differs.
        first: the first event that differs, None for none.
        further: how many more events differ, by rank.
        outcomes: how the two runs ended.
    """

    settings: tuple[tuple[str, Any, Any], ...]
    first: Difference | None
    further: dict[int, int]
    outcomes: tuple[str, str]
    num_events: int
    names: tuple[str, str] = ("the first", "the second")
    is_timed: bool = True

    def __bool__(self) -> bool:
        return bool(self.settings) or self.first is not None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        if not self:
            untimed = "" if self.is_timed else " A clock is real: times and computing were not compared."
            return f"The traces are the same: all {self.num_events} events of all ranks.{untimed}"
        a, b = self.names
        lines = [f"{name}: {one!r} in {a}, {two!r} in {b}" for name, one, two in self.settings]
        if lines:
            lines.insert(0, "The two runs were asked for different things:")
        if self.first is None:
            return "\n  ".join(lines)
        parts = ["\n  ".join(lines), self._first_text(self.first), self._further_text()]
        if not self.settings:
            parts.append(self._causes_text(self.first))
        return "\n".join(filter(None, parts))

    def _first_text(self, first: Difference) -> str:
        lines = [f"The traces differ, first at {_place(first)}:"]
        labels = [name.removeprefix("the ") for name in self.names]
        width = max(map(len, labels)) + 1
        for name, event in zip(labels, (first.one, first.other), strict=True):
            lines.append(f"  {name + ':':<{width}} {_describe(event)}")
        if told := list(_field_words(first)):
            lines.append(f"  differs in {'; '.join(told)}")
        if first.is_effect:
            lines.append("  Every rank called the same things: only when or how they ended differs.")
        if first.is_reordered:
            lines.append(f"  Rank {first.rank} makes the same calls in both, in another order.")
        return "\n".join(lines)

    def _further_text(self) -> str:
        a, b = self.names
        a = f"T{a[1:]}" if a.startswith("the ") else a  # a file keeps its name
        ended = f" {a} ended with {self.outcomes[0]}, {b} with {self.outcomes[1]}."
        ended = ended if self.outcomes[0] != self.outcomes[1] else ""
        if not self.further:
            return f"No other event differs.{ended}"
        total = sum(self.further.values())
        counts = ", ".join(f"rank {rank}: {count}" for rank, count in sorted(self.further.items()))
        noun = "event differs" if total == 1 else "events differ"
        return f"{total} more {noun} ({counts}), most of them because of the first.{ended}"

    def _causes_text(self, first: Difference) -> str:
        return "\n".join(["What usually causes this:", *(f"  - {_CAUSES[key]}" for key in _LIKELY[first.kind])])


def diff(one: Trace, other: Trace, names: tuple[str, str] = ("the first", "the second")) -> TraceDiff:
    """Compare two traces; `names` are what the text calls them."""
    is_timed = all(trace.header.get("clock") != "wall" for trace in (one, other))
    if not is_timed:
        one, other = _calls_only(one), _calls_only(other)
    settings = tuple(
        (name, one.header.get(name), other.header.get(name))
        for name in (_SETTINGS if is_timed else ("world_size",))
        if one.header.get(name) != other.header.get(name)
    )
    differences = list(_differences(one, other, is_timed))
    first = min((of_rank[0] for of_rank in differences), key=lambda d: d.key, default=None)
    further = {of_rank[0].rank: len(of_rank) - (of_rank[0] is first) for of_rank in differences}
    further = {rank: count for rank, count in further.items() if count}
    if first is not None and not first.is_effect:
        calls, others = (Counter(map(_call, trace.of_rank(first.rank))) for trace in (one, other))
        first = replace(first, is_reordered=first.kind != "times" and calls == others)
    return TraceDiff(settings, first, further, (one.outcome_name, other.outcome_name), len(one), names, is_timed)


def _calls_only(trace: Trace) -> Trace:
    """Communication, steps and ends."""
    return Trace(trace.header, [e for e in trace if e.is_communication or e.op in ("step", "exit")])


def _differences(one: Trace, other: Trace, is_timed: bool) -> Iterator[list[Difference]]:
    """The differences of each rank that has any, by position in its program."""
    same = _siteless if is_timed else _timeless
    for rank in range(max(one.world_size, other.world_size)):
        pairs = enumerate(zip_longest(one.of_rank(rank), other.of_rank(rank)))
        if found := [Difference(rank, position, a, b) for position, (a, b) in pairs if same(a) != same(b)]:
            yield found


def _call(event: Event) -> tuple[object, ...]:
    """What was asked for, wherever it stands in the program."""
    e = event
    return e.op, e.group, e.reduce, e.peer, e.tag, e.shapes, e.dtype, e.detail


def _siteless(event: Event | None) -> Event | None:
    return event and msgspec.structs.replace(event, site="")


def _timeless(event: Event | None) -> Event | None:
    return event and msgspec.structs.replace(
        event, site="", n=0, issue_ns=0, start_ns=0, end_ns=0, wait_ns=0, phase="", stream="", flops=0, live_bytes=-1
    )


def _place(first: Difference) -> str:
    events = [event for event in (first.one, first.other) if event is not None]
    step = events[0].step
    sites = sorted({event.site for event in events if event.site})
    where = f", in {' and '.join(sites)}" if sites else ""
    return f"rank {first.rank}{f', step {step}' if step >= 0 else ''}, event {first.position} of its program{where}"


def _describe(event: Event | None) -> str:
    if event is None:
        return "nothing: the program of this rank has ended"
    shapes = " ".join(f"{event.dtype}[{', '.join(map(str, shape))}]" for shape in event.shapes)
    words = ", ".join(filter(None, [event.reduce, shapes]))
    call = event.label + (f" ({words})" if words else "")
    if event.op == "compute":
        return f"compute for {units.duration(event.end_ns - event.issue_ns)} from {units.duration(event.issue_ns)}"
    return f"{call} at {units.duration(event.issue_ns)}, {event.status}"


def _field_words(first: Difference) -> Iterator[str]:
    """The fields that differ; not the times that follow from another difference."""
    if first.one is None or first.other is None:
        return
    own = [name for name in first.fields if name not in _EFFECTS and name != "issue_ns"]
    for name in own or first.fields:
        one, other = (_value(name, getattr(event, name)) for event in (first.one, first.other))
        yield f"{_FIELDS[name]}: {one} / {other}"


def _value(name: str, value: Any) -> str:
    if name.endswith("_ns"):
        return f"{value:,} ns" if value >= 0 else "never"
    if name == "shapes":
        return " ".join(str(list(shape)) for shape in value) or "none"
    return str(value) if value not in ("", -1) else "none"
