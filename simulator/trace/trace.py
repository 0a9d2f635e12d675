"""A whole trace: header and events, with a digest that is the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from simulator.errors import TraceError
from simulator.trace.event import Event

if TYPE_CHECKING:
    from simulator.trace.diff import TraceDiff

FORMAT_VERSION = 1
#: Header entries that the digest covers: what was asked for, not where it ran.
_DIGESTED = ("version", "clock", "world_size", "seed", "faults", "cluster", "reduction", "timeout_ns")
_DIGESTED_IF_THERE = ("restarts", "world_sizes")


class Trace:
    """Events in the order (issue time, rank, position); `header` says what was run and on which clock."""

    def __init__(self, header: dict[str, Any], events: list[Event]) -> None:
        self.header = {"version": FORMAT_VERSION, **header}
        self.events: tuple[Event, ...] = tuple(
            sorted(events, key=lambda e: (e.incarnation, e.issue_ns, e.rank, e.thread, e.n))
        )

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        clock = self.header.get("clock", "virtual")
        size = f"{self.world_size} ranks, {len(self)} events, {self.end_ns / 1e6:g} {clock} ms"
        return f"<Trace: {size}, digest {self.digest[:12]}>"

    @property
    def world_size(self) -> int:
        return int(self.header["world_size"])

    @property
    def outcome_name(self) -> str:
        return str(self.header.get("outcome", ""))

    @property
    def end_ns(self) -> int:
        return max((max(e.end_ns, e.issue_ns) for e in self.events), default=0)

    def of_rank(self, rank: int) -> tuple[Event, ...]:
        """What one rank did, in its program order."""
        return tuple(sorted((e for e in self.events if e.rank == rank), key=lambda e: (e.incarnation, e.thread, e.n)))

    @property
    def num_incarnations(self) -> int:
        """How often the job was started."""
        return len(self.header.get("world_sizes", (0,)))

    def incarnation(self, number: int) -> Trace:
        """What happened in one start of the job (-1: the last one), as a trace of its own world size.

        The header of a whole trace names the process groups of the last incarnation only.
        """
        count = self.num_incarnations
        if not -count <= number < count:
            raise TraceError(f"there is no incarnation {number} in a trace of {count}")
        if count == 1:
            return self
        number %= count
        header = {key: value for key, value in self.header.items() if key != "world_sizes"}
        header["world_size"] = self.header["world_sizes"][number]
        if number < count - 1:
            del header["groups"], header["outcome"]
        return Trace(header, [event for event in self.events if event.incarnation == number])

    def select(
        self,
        *,
        ranks: int | Iterable[int] | None = None,
        steps: int | Iterable[int] | None = None,
        ops: str | Iterable[str] | None = None,
        groups: str | Iterable[str] | None = None,
        status: str | Iterable[str] | None = None,
        phases: str | Iterable[str] | None = None,
    ) -> Trace:
        """The events that match all that is given: ``trace.select(ranks=(0, 1), ops="all_reduce", status=FAILED)``."""
        from simulator.trace.filters import select

        return select(self, ranks=ranks, steps=steps, ops=ops, groups=groups, status=status, phases=phases)

    def diff(self, other: Trace) -> TraceDiff:
        """Where this trace and another first differ, in words; false if they are the same."""
        from simulator.trace.diff import diff

        return diff(self, other)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over header and events: no wall clock, pid, path, call site or value is in it."""
        asked = {key: self.header.get(key) for key in _DIGESTED}
        asked |= {key: self.header[key] for key in _DIGESTED_IF_THERE if key in self.header}
        sha = hashlib.sha256(msgspec.json.encode(asked, order="sorted"))
        for event in self.events:
            sha.update(msgspec.json.encode(msgspec.structs.replace(event, site="")))
        return sha.hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write JSON lines: the header, then one event a line. Returns the path."""
        path = Path(path)
        lines = [msgspec.json.encode(self.header, order="sorted"), *map(msgspec.json.encode, self.events)]
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote. Raises `TraceError` with the line that cannot be read."""
        try:
            lines = Path(path).read_bytes().splitlines()
        except OSError as error:
            raise TraceError(f"cannot read the trace {path}: {error.strerror}") from None
        number = 1
        try:
            header = msgspec.json.decode(lines[0], type=dict[str, Any])
            if header.get("version") != FORMAT_VERSION:
                raise TraceError(
                    f"{path} is a trace of version {header.get('version')}, this program reads {FORMAT_VERSION}"
                )
            size = msgspec.convert(header.get("world_size"), Annotated[int, msgspec.Meta(ge=1)])
            events = []
            for number, line in enumerate(lines[1:], start=2):
                event = msgspec.json.decode(line, type=Event)
                if not 0 <= event.rank < size:
                    raise TraceError(f"{path}, line {number}: there is no rank {event.rank} in a world of {size}")
                events.append(event)
        except (IndexError, msgspec.DecodeError) as error:
            raise TraceError(f"{path}, line {number}, is not a trace: {error}") from None
        return cls(header, events)
