"""A trace as each rank's tape of calls: the only view of a trace that diagnosis has.

Nothing here comes from a coordinator: a trace that was recorded elsewhere, without an outcome and without one of its
ranks, has the same tapes.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from simulator.trace import FAILED, Event, Trace

#: Collectives in which ranks may pass different shapes.
UNEVEN_OPS: Final = frozenset({"reduce_scatter", "all_to_all", "all_to_all_single"})


class Signature(NamedTuple):
    """What ranks must agree on in one collective."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    reduce: str
    root: int


class Group(NamedTuple):
    """A process group; `members` are global ranks."""

    name: str
    members: tuple[int, ...]


class Call(NamedTuple):
    """One collective of one rank, as far as ranks are compared by it."""

    site: str
    step: int
    signature: Signature

    @property
    def key(self) -> tuple[str, Signature]:
        """The call without its step: the same in every iteration of a loop."""
        return self.site, self.signature

    @property
    def file(self) -> str:
        return self.site.rpartition(":")[0]

    @property
    def line(self) -> int:
        number = self.site.rpartition(":")[2]
        return int(number) if number.isdigit() else -1


def call_of(event: Event) -> Call:
    shapes = () if event.op in UNEVEN_OPS else event.shapes
    return Call(event.site, event.step, Signature(event.op, shapes, event.dtype, event.reduce, event.peer))


class Tapes:
    """All ranks' tapes, each cut where its rank was first told of a failure: later calls are consequences."""

    def __init__(self, trace: Trace) -> None:
        last = max((event.incarnation for event in trace), default=0)
        self._all = {rank: [e for e in trace.of_rank(rank) if e.incarnation == last] for rank in _ranks(trace)}
        self.header = trace.header
        self.present = tuple(rank for rank, events in self._all.items() if events)
        self.missing = tuple(rank for rank, events in self._all.items() if not events)
        self.told = {rank: _told(events) for rank, events in self._all.items()}
        self.events = {rank: _until(events, self.told[rank]) for rank, events in self._all.items()}
        self.ends = {e.rank: e for rank in self.present for e in self._all[rank] if e.op == "exit"}

    @cached_property
    def calls(self) -> dict[int, list[Event]]:
        """Communication of each rank, in its program order."""
        return {rank: [e for e in events if e.is_communication] for rank, events in self.events.items()}

    @cached_property
    def groups(self) -> dict[Group, dict[int, list[Event]]]:
        """Collectives of every group, by member: those without a call have an empty list; members whose trace is
        missing have none.
        """
        found: dict[Group, dict[int, list[Event]]] = {}
        for rank in self.present:
            for event in self.calls[rank]:
                group = self.group_of(event)
                row = found.setdefault(group, {r: [] for r in group.members if r in self.present})
                if event.is_collective:
                    row[rank].append(event)
        return dict(sorted(found.items()))

    def group_of(self, event: Event) -> Group:
        """The group of a call: by name and rank, because the groups of a device mesh share one name."""
        return self._group_by_rank[event.group, event.rank]

    @cached_property
    def told_groups(self) -> list[Group]:
        """The process groups that the recorder names; where ranks mean different ones by a name, all of them."""
        return [Group(str(name), tuple(ranks)) for name, ranks in self.header.get("groups", ())]

    @cached_property
    def _group_by_rank(self) -> dict[tuple[str, int], Group]:
        told = sorted(self.told_groups, reverse=True)
        found = {(group.name, rank): group for group in told for rank in group.members}
        callers: defaultdict[str, set[int]] = defaultdict(set)
        for rank in self.present:
            for event in self.calls[rank]:
                if (event.group, rank) not in found:
                    callers[event.group].add(rank)
        for name, ranks in callers.items():  # not told: everybody who ever called it
            group = Group(name, tuple(self._all) if name == "default" else tuple(sorted(ranks)))
            found.update({(name, rank): group for rank in group.members})
        return found

    def with_stand_in(self, rank: int, at: Event) -> Tapes:
        """The same with a tape for a `rank` that has none: the collectives of its groups that completed, for it was in
        them, and then the call `at` that somebody waits for it in.
        """
        mine = {
            (group, e.seq): e
            for group, rows in self.groups.items()
            if rank in group.members
            for events in rows.values()
            for e in events
            if e.status == "ok" or e == at
        }
        order = sorted(mine.values(), key=lambda e: (e == at, e.issue_ns, e.group, e.seq))
        stand_in = [replace(e, rank=rank, n=n, thread="0") for n, e in enumerate(order)]
        events = [e for tape in self._all.values() for e in tape]
        return Tapes(Trace(self.header, [*events, *stand_in]))

    @cached_property
    def has_exits(self) -> bool:
        """Whether the recorder wrote how ranks ended."""
        return bool(self.ends)

    def has_finished(self, rank: int) -> bool:
        """The rank reached its end: what it did not call, it never calls."""
        if rank not in self.present or self.told[rank] is not None:
            return False
        if rank in self.ends:
            return self.ends[rank].status == "done"
        return not self.has_exits and self.blocked_on(rank) is None

    def blocked_on(self, rank: int) -> Event | None:
        """The call in which the rank failed or is stuck."""
        if (told := self.told[rank]) is not None:
            return told if told.is_communication else None
        pending = [e for e in self.calls[rank] if e.status == "pending" and (e.wait_ns >= 0 or not self.has_exits)]
        return pending[0] if pending and rank not in self.ends else None

    def waits_for(self, event: Event) -> tuple[int, ...]:
        """The ranks without which a call cannot complete."""
        if event.is_p2p and event.peer >= 0:
            return (event.peer,)
        group = self.group_of(event)
        if event.is_p2p:
            return tuple(rank for rank in group.members if rank != event.rank)
        rows = self.groups[group]
        return tuple(rank for rank in group.members if rank not in rows or len(rows[rank]) <= event.seq)

    def is_after_whole_step(self, event: Event) -> bool:
        """Whether its rank, before `event`, called and waited for as much in the last training step as in the one
        before; in a first step, as much as some other rank that went on to the second; True where nothing compares.
        Not, in any case, when somebody still waits in this step for its message, or waits for it in a collective and
        did not come to `event`.
        """
        waiting = (self.blocked_on(rank) for rank in self.present if rank != event.rank)
        if any(e and 0 <= e.step == event.step and self._is_elsewhere(e, event) for e in waiting):
            return False
        mine = self._by_step(event.rank, event)
        if not mine:
            return True
        *earlier, last = sorted(mine)
        done = _done_by(event.issue_ns, mine[last])
        if earlier:
            return done >= _done_by(mine[last][0].issue_ns, mine[earlier[-1]])
        others = [self._by_step(rank) for rank in self.present if rank != event.rank]
        wholes = [
            _done_by(calls[last + 1][0].issue_ns, [e for e in calls[last] if self._is_shared(e, event.rank)])
            for calls in others
            if {last, last + 1} <= set(calls)
        ]
        return done >= min(wholes, default=0)

    def _is_elsewhere(self, stuck: Event, event: Event) -> bool:
        """Whether a rank that is `stuck` waits for the one of `event`, and not because it went on from there."""
        if stuck.is_p2p:
            return stuck.peer == event.rank
        rows = self.groups[self.group_of(event)]
        missed = stuck.rank in rows and event.is_collective and len(rows[stuck.rank]) <= event.seq
        return missed and event.rank in self.waits_for(stuck)

    def _is_shared(self, event: Event, rank: int) -> bool:
        return event.is_collective and rank in self.group_of(event).members

    def _by_step(self, rank: int, until: Event | None = None) -> dict[int, list[Event]]:
        found: defaultdict[int, list[Event]] = defaultdict(list)
        for event in self.calls[rank]:
            if event.step >= 0 and (until is None or event.n < until.n):
                found[event.step].append(event)
        return dict(found)

    @cached_property
    def is_checked(self) -> bool:
        """Recorded by the coordinator: whatever completed did agree."""
        return self.header.get("clock") == "virtual"


def _done_by(now_ns: int, events: list[Event]) -> int:
    """Calls made, and waits begun, by that time."""
    return len(events) + sum(0 <= e.wait_ns <= now_ns for e in events)


def _ranks(trace: Trace) -> range:
    return range(max(trace.world_size, max((e.rank for e in trace), default=-1) + 1))


def _told(events: list[Event]) -> Event | None:
    """The first failed call that the rank waited for: there it heard of the failure."""
    failed = [e for e in events if e.status in FAILED and e.wait_ns >= 0]
    return min(failed, key=lambda e: (e.end_ns, e.n), default=None)


def _until(events: list[Event], told: Event | None) -> list[Event]:
    if told is None:
        return events
    return [e for e in events if e.issue_ns < told.end_ns or e.issue_ns <= told.wait_ns or e.n <= told.n]
