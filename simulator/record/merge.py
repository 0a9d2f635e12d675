"""The files of all ranks as one trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from simulator.errors import TraceError
from simulator.outcome import COMPLETED
from simulator.trace import Event, Trace

_Members = tuple[str, tuple[int, ...]]


class _RankFile(msgspec.Struct):
    header: dict[str, Any]
    groups: dict[str, tuple[int, ...]]
    events: list[Event]

    @property
    def end(self) -> str:
        """How the program ended, "" if nobody wrote that down."""
        return next((event.status for event in self.events if event.op == "exit"), "")


def merge(folder: str | Path) -> Trace:
    """The trace of a recorded job from the files that its ranks wrote into `folder`, also of a job that was killed.

    Times are wall-clock nanoseconds since the first rank began. A collective starts when its last member called it;
    across machines that is as good as their clocks agree. A rank that was killed has no exit.

    Raises:
        TraceError: no files of ranks in the folder, or a file that is none.
    """
    folder = Path(folder)
    files = [file for path in sorted(folder.glob("rank*.jsonl")) if (file := _read(path)) is not None]
    if not files:
        raise TraceError(f"{folder} has no files of recorded ranks (rank0.0.jsonl, ...)")
    origin_ns = min(int(file.header["origin_ns"]) for file in files)
    sizes = _world_sizes(files)
    last = [file for file in files if file.header["incarnation"] == len(sizes) - 1]
    is_done = len(last) == sizes[-1] and all(file.end == "done" for file in last)
    header = {
        "clock": "wall",
        "world_size": max(sizes),
        "torch": files[0].header["torch"],
        "outcome": COMPLETED if is_done else "RankFailed",
        "groups": [[name, list(ranks)] for name, ranks in sorted({g for file in last for g in file.groups.items()})],
        **({"world_sizes": sizes} if len(sizes) > 1 else {}),
    }
    arrivals = _arrivals(files)
    events = [_since(event, origin_ns) for file in files for event in _started(file, arrivals)]
    return Trace(header, events)


def has_ended(folder: Path, incarnation: int, world_size: int) -> list[str]:
    """How every rank ended, in this incarnation; empty while one of them has not."""
    files = [_read(path) for path in folder.glob(f"rank*.{incarnation}.jsonl")]
    ends = [file.end for file in files if file is not None and file.end]
    return ends if len(ends) == world_size else []


def _read(path: Path) -> _RankFile | None:
    """None for a file without its first line: the process died before it was written."""
    lines = path.read_bytes().split(b"\n")
    del lines[-1]  # nothing, or a line that was cut off
    if not lines:
        return None
    groups: dict[str, tuple[int, ...]] = {}
    events: dict[tuple[str, int], Event] = {}
    number = 0
    try:
        header = msgspec.json.decode(lines[0], type=dict[str, Any])
        header["incarnation"], header["origin_ns"], header["torch"], header["world_size"]
        for number in range(1, len(lines)):
            line = lines[number]
            if line.startswith(b"["):
                name, ranks = msgspec.json.decode(line, type=_Members)
                groups[name] = ranks
            else:
                event = msgspec.json.decode(line, type=Event)
                events[event.thread, event.n] = event  # a later line knows more
    except (msgspec.DecodeError, KeyError) as error:
        raise TraceError(f"{path}, line {number + 1}, is no line of a recorded rank: {error}") from None
    return _RankFile(header, groups, list(events.values()))


def _world_sizes(files: list[_RankFile]) -> list[int]:
    """By incarnation; one in which no rank came to its first line had as many as the one before."""
    known = {file.header["incarnation"]: file.header["world_size"] for file in files}
    sizes: list[int] = []
    for number in range(max(known) + 1):
        sizes.append(known.get(number, sizes[-1] if sizes else max(known.values())))
    return sizes


def _key(file: _RankFile, event: Event) -> tuple[Any, ...]:
    return event.incarnation, event.group, file.groups.get(event.group, ()), event.seq


def _arrivals(files: list[_RankFile]) -> dict[tuple[Any, ...], list[int]]:
    """When the members of every collective called it."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for file in files:
        for event in file.events:
            if event.is_collective:
                found.setdefault(_key(file, event), []).append(event.issue_ns)
    return found


def _started(file: _RankFile, arrivals: dict[tuple[Any, ...], list[int]]) -> list[Event]:
    """The events, with the start of every collective that was done."""
    events = []
    for event in file.events:
        if event.is_collective and event.status == "ok":
            start_ns = min(max(arrivals[_key(file, event)]), event.end_ns)
            event = msgspec.structs.replace(event, start_ns=start_ns)
        elif event.is_communication and event.status != "ok":
            event = msgspec.structs.replace(event, start_ns=-1)
        events.append(event)
    return events


def _since(event: Event, origin_ns: int) -> Event:
    def shift(at_ns: int) -> int:
        return at_ns if at_ns < 0 else at_ns - origin_ns

    return msgspec.structs.replace(
        event,
        issue_ns=shift(event.issue_ns),
        start_ns=shift(event.start_ns),
        end_ns=shift(event.end_ns),
        wait_ns=shift(event.wait_ns),
    )
