"""Who meets whom: rows of collectives, queues of messages, and the virtual times of what was matched.

A row is one collective: (group, sequence number) and the operation that each member announced for it. Messages are
paired first in, first out for each (group, source, target, tag). Nothing here depends on the order in which
announcements of different ranks arrived.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.cluster import Cluster
from simulator.coordinator.state import OpState, Verdict

Channel = tuple[str, int, int, int]  # group key, source, target, tag


@dataclass(eq=False)
class Meeting:
    """Operations that run together: a row of a collective or the two ends of a message. `members`: global ranks it
    needs.
    """

    members: tuple[int, ...]
    ops: dict[int, OpState] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.ops) == len(self.members)

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank not in self.ops)

    @property
    def issue_ns(self) -> int:
        return max([op.op.issue_ns for op in self.ops.values()])

    @property
    def end_ns(self) -> int:
        return max([op.end_ns for op in self.ops.values()])

    @property
    def heals_ns(self) -> int:
        """When the network between its members is whole again: 0 if it is, -1 for never."""
        times = [op.op.heals_ns for op in self.ops.values() if op.op.cut]
        return -1 if -1 in times else max(times, default=0)

    @property
    def is_cut(self) -> bool:
        """No member will live to see it: a partition lasts longer than the first of them waits."""
        heals_ns = self.heals_ns
        return heals_ns != 0 and (heals_ns < 0 or heals_ns > min(op.deadline_ns for op in self.ops.values()))

    def disagreement(self) -> Counter[tuple[object, ...]]:
        """How many ranks announced each signature (one entry: they agree)."""
        with_shapes = all(op.op.match_shapes for op in self.ops.values())
        return Counter(_signature(op, with_shapes) for op in self.ops.values())

    @property
    def agrees(self) -> bool:
        """Whether every rank announced the same: `disagreement` without the counting, for the path that is taken
        always.
        """
        ops = [op.op for op in self.ops.values()]
        if ops[0].sent:
            return len(self.disagreement()) == 1 and not self.misfits()
        if len({(o.op, o.reduce, o.dtype, o.peer, o.shapes) for o in ops}) == 1:
            return True
        return len(self.disagreement()) == 1

    def misfits(self) -> list[tuple[int, int]]:
        """Pairs (sender, receiver) of an all_to_all_single whose parts differ in size."""
        members, sizes = self.members, {rank: (op.op.sent, op.op.expected) for rank, op in self.ops.items()}
        whole = all(len(part) == len(members) for parts in sizes.values() for part in parts)
        return [
            (source, target)
            for i, source in enumerate(members)
            for j, target in enumerate(members)
            if not whole or sizes[source][0][j] != sizes[target][1][i]
        ]

    def odd_ranks(self) -> tuple[tuple[int, ...], bool]:
        """The ranks outside the majority, and whether there is one; without a majority: every rank."""
        with_shapes = all(op.op.match_shapes for op in self.ops.values())
        top = self.disagreement().most_common(2)
        if len(top) > 1 and top[0][1] == top[1][1]:
            return tuple(sorted(self.ops)), False
        return tuple(sorted(r for r, op in self.ops.items() if _signature(op, with_shapes) != top[0][0])), True


def _signature(op: OpState, with_shapes: bool) -> tuple[object, ...]:
    o = op.op
    if op.is_p2p:
        return (o.dtype, o.shapes)
    return (o.op, o.reduce, o.dtype, o.peer, o.shapes if with_shapes else ())


class Matching:
    """Pending meetings and the times they get. `open` meetings wait for members; `granted` ones wait to be released."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rows: dict[tuple[str, int], Meeting] = {}
        self.sends: dict[Channel, deque[OpState]] = {}
        self.receives: dict[Channel, deque[OpState]] = {}
        self.any_source: list[OpState] = []
        self.granted: list[Meeting] = []
        self._free_ns: dict[object, int] = {}
        self._durations_ns: dict[tuple[str, int, tuple[int, ...]], int] = {}

    def announce(self, op: OpState) -> Meeting | None:
        """Add an operation; the meeting it completed, if it did."""
        if op.is_p2p:
            return self._announce_p2p(op)
        key = (op.group.key, op.op.seq)
        if (row := self.rows.get(key)) is None:
            row = self.rows[key] = Meeting(op.group.ranks)
        row.ops[op.rank] = op
        return self.rows.pop(key) if row.is_full else None

    def _announce_p2p(self, op: OpState) -> Meeting | None:
        if op.op.op == "recv" and op.op.peer < 0:
            self.any_source.append(op)
            return None
        ends = (op.rank, op.op.peer) if op.op.op == "send" else (op.op.peer, op.rank)
        channel = (op.group.key, *ends, op.op.tag)
        mine, theirs = (self.sends, self.receives) if op.op.op == "send" else (self.receives, self.sends)
        if waiting := theirs.get(channel):
            return Meeting(ends, {other.rank: other for other in (waiting.popleft(), op)})
        mine.setdefault(channel, deque()).append(op)
        return None

    def verdict_of_row(self, op: OpState) -> Verdict | None:
        """The verdict that the other members of an operation's row already got."""
        row = self.rows.get((op.group.key, op.op.seq)) if not op.is_p2p else None
        return next((other.verdict for other in row.ops.values() if other.verdict), None) if row else None

    def any_source_choices(self) -> list[tuple[OpState, Channel]]:
        """For each receive from any rank: the channels with a message for it."""
        return [
            (op, channel)
            for op in self.any_source
            for channel, queue in self.sends.items()
            if queue and channel[0] == op.group.key and channel[2] == op.rank and channel[3] == op.op.tag
        ]

    def take_any_source(self, receive: OpState, channel: Channel) -> Meeting:
        self.any_source.remove(receive)
        send = self.sends[channel].popleft()
        return Meeting((channel[1], channel[2]), {send.rank: send, receive.rank: receive})

    def grant(self, meeting: Meeting) -> None:
        """Give a full meeting its virtual start and end: after the last announcement, after what its stream did
        before, and once the network between its members is whole.
        """
        ops = list(meeting.ops.values())
        first = ops[0]
        if first.is_p2p:
            source, target = meeting.members
            stream: object = (first.group.key, source, target, first.op.tag)
            duration = self.cluster.p2p_ns(first.op.bytes, source, target)
        else:
            stream = first.group.key
            # uneven payloads (gather, all_to_all): the slowest member decides
            duration = self._duration_ns(first.op.op, max([op.op.bytes for op in ops]), meeting.members)
        if (slow := max([op.op.slow for op in ops])) != 1:
            duration = round(duration * slow)
        start = max(meeting.issue_ns, self._free_ns.get(stream, 0), meeting.heals_ns)
        self._free_ns[stream] = start + duration
        for op in ops:
            op.status, op.start_ns, op.end_ns = "granted", start, start + duration
        self.granted.append(meeting)

    def _duration_ns(self, op: str, num_bytes: int, members: tuple[int, ...]) -> int:
        key = (op, num_bytes, members)
        if (known := self._durations_ns.get(key)) is None:
            known = self._durations_ns[key] = self.cluster.collective_ns(_cost_name(op), num_bytes, members)
        return known

    def take_back(self, meeting: Meeting) -> None:
        """Undo `grant`."""
        self.granted.remove(meeting)
        for op in meeting.ops.values():
            op.status, op.start_ns, op.end_ns = "announced", -1, -1

    def open_meetings(self) -> list[Meeting]:
        """Meetings that lack a member, in a fixed order."""
        lonely = [
            Meeting((channel[1], channel[2]), {op.rank: op})
            for queues in (self.sends, self.receives)
            for channel, queue in sorted(queues.items())
            for op in queue
        ]
        anyone = [Meeting(op.group.ranks, {op.rank: op}) for op in self.any_source]
        return [row for _, row in sorted(self.rows.items())] + lonely + anyone

    def drop(self, ops: Sequence[OpState]) -> None:
        """Forget failed operations (a row stays, so that late members fail with it)."""
        gone = set(map(id, ops))
        for queues in (self.sends, self.receives):
            for channel, queue in queues.items():
                queues[channel] = deque(op for op in queue if id(op) not in gone)
        self.any_source = [op for op in self.any_source if id(op) not in gone]
        self.granted = [m for m in self.granted if not any(id(op) in gone for op in m.ops.values())]


def _cost_name(op: str) -> str:
    return op.removesuffix("_coalesced")
