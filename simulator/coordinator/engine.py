"""The coordinator: who runs, who is blocked, and what happens next in virtual time.

It is told what ranks announce (`receive`, `closed`) and leaves replies in `outbox`; it does no input or output itself. A rank runs until it
says Block, Poll, StoreCall or Leave, so "nobody can move" is known exactly. Only then does it decide what depends on an order: the pending
decision with the lowest (virtual time, priority, rank) is taken, one at a time. So the order in which messages of different ranks arrive
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from simulator import wire
from simulator.cluster import Cluster, to_ns
from simulator.coordinator import words
from simulator.coordinator.matching import Matching, Meeting
from simulator.coordinator.prints import PrintQueue
from simulator.coordinator.state import BLOCKED, GONE, LEFT, RUNNING, OpState, RankState, Verdict
from simulator.coordinator.store import Store
from simulator.trace import Event

POLL_NS = 10_000  # virtual cost of one is_completed(), about what an event query costs


class Decision(NamedTuple):
    """Something that may happen when no rank can run. The lowest (at_ns, priority, rank) goes first."""

    at_ns: int
    priority: int
    rank: int
    act: Callable[[], None]


class Engine:
    """One run. `verdicts` are in the order in which they were decided."""

    def __init__(self, world_size: int, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ranks = [RankState(rank) for rank in range(world_size)]
        self.outbox: list[list[wire.Reply]] = [[] for _ in range(world_size)]
        self.matching = Matching(cluster)
        self.store = Store()
        self.prints = PrintQueue(self.ranks)
        self.verdicts: list[Verdict] = []
        self.all_ops: list[OpState] = []
        self._aborted: dict[str, Verdict] = {}
        self._doomed: list[Meeting] = []

    # ---- what ranks say ----
    def receive(self, rank: int, records: list[wire.Record]) -> None:
        """Take one frame of a rank. Its Leave, if any, counts before its last announcements: they may come too late to be served."""
        state = self.ranks[rank]
        state.num_words += 1
        for record in records:
            if isinstance(record, wire.Leave):
                self._leave(state, record)
        for record in records:
            self._record(state, record)

    def closed(self, rank: int) -> None:
        """The rank's connection ended; without a Leave before it, its process died on its own."""
        state = self.ranks[rank]
        state.status, state.waiting = GONE, None

    def _record(self, state: RankState, record: wire.Record) -> None:
        match record:
            case wire.Op():
                self._announce(state, record)
            case wire.Note():
                state.clock_ns = max(state.clock_ns, record.end_ns)
                state.step = record.step
                state.events.append(_note_event(state, record))
            case wire.Print():
                state.clock_ns = max(state.clock_ns, record.now_ns)
                self.prints.add(state.rank, record)
            case wire.Waited():
                state.clock_ns = max(state.clock_ns, record.now_ns)
                if op := state.ops.get(record.work):
                    op.wait_ns = record.now_ns
            case wire.Block() | wire.Poll():
                self._block(state, record)
            case wire.StoreSet():
                self.store.set(record.key, record.value)
            case wire.StoreCall():
                state.status, state.waiting, state.clock_ns = BLOCKED, record, max(state.clock_ns, record.now_ns)
            case wire.GroupDef():
                state.groups[record.key] = record

    def _announce(self, state: RankState, record: wire.Op) -> None:
        state.clock_ns, state.step = max(state.clock_ns, record.issue_ns), record.step
        op = OpState(state.rank, state.next_n(), record, state.groups[record.group])
        state.ops[record.work] = op
        self.all_ops.append(op)
        if verdict := self._aborted.get(record.group):
            self._fail(op, verdict, record.issue_ns)
        elif meeting := self.matching.announce(op):
            self._meet(meeting)
        elif verdict := self.matching.verdict_of_row(op):
            self._fail(op, verdict, record.issue_ns)

    def _meet(self, meeting: Meeting) -> None:
        """A meeting is complete: grant it, unless its members disagree, failed before, or one was killed before it could end."""
        failed = next((op.verdict for op in meeting.ops.values() if op.verdict), None)
        if failed:
            self._fail_meeting(meeting, failed, meeting.issue_ns)
        elif len(meeting.disagreement()) > 1:
            self._mismatch(meeting)
        else:
            self.matching.grant(meeting)
            self._doom(meeting)

    def _doom(self, meeting: Meeting) -> None:
        """A granted meeting that a member did not live to see ends as a loss: take its times back and let it be found missing."""
        dead = [r for r in meeting.ops if self.ranks[r].why == "killed" and meeting.end_ns > self.ranks[r].clock_ns]
        if not dead:
            return
        self.matching.granted.remove(meeting)
        for op in meeting.ops.values():
            op.status, op.start_ns, op.end_ns = "announced", -1, -1
        row = Meeting(meeting.members, {r: op for r, op in meeting.ops.items() if r not in dead})
        self._doomed.append(row)

    def _block(self, state: RankState, record: wire.Block | wire.Poll) -> None:
        op = state.ops[record.work]
        state.clock_ns = max(state.clock_ns, record.now_ns)
        state.status, state.waiting, state.polling = BLOCKED, op, isinstance(record, wire.Poll)
        if not state.polling and op.wait_ns < 0:
            op.wait_ns = record.now_ns
        if op.status == "released":  # its Go is already on the way
            state.resume()
        elif op.verdict:
            self._tell_failure(op)

    def _leave(self, state: RankState, leave: wire.Leave) -> None:
        state.status, state.waiting, state.leave = LEFT, None, leave
        state.clock_ns = max(state.clock_ns, leave.now_ns)
        for meeting in list(self.matching.granted):
            if state.rank in meeting.ops:
                self._doom(meeting)

    # ---- what happens next ----
    def settle(self) -> None:
        """Release and decide until a rank can run, or all have left."""
        self._release_ready()
        while not any(rank.status == RUNNING for rank in self.ranks):
            decision = min(self._decisions(), key=lambda d: d[:3], default=None)
            if decision is None:
                break
            decision.act()
            self._release_ready()

    @property
    def finished(self) -> bool:
        return all(rank.said_bye or rank.status == GONE for rank in self.ranks)

    def _decisions(self) -> Iterator[Decision]:
        yield from self._late_releases()
        yield from self._store_answers()
        for receive, channel in self.matching.any_source_choices():
            send = self.matching.sends[channel][0]
            at = max(send.op.issue_ns, receive.op.issue_ns)
            yield Decision(at, 2, channel[1], lambda r=receive, c=channel: self._meet(self.matching.take_any_source(r, c)))  # type: ignore[misc]
        for rank in self.ranks:
            if rank.polling and isinstance(rank.waiting, OpState):
                yield Decision(rank.clock_ns, 3, rank.rank, lambda r=rank: self._answer_poll(r))  # type: ignore[misc]
        for meeting in self._open_meetings():
            yield from self._failures(meeting)
        if all(rank.status in (LEFT, GONE) for rank in self.ranks):
            yield from (Decision(0, 9, r.rank, lambda r=r: self._bye(r)) for r in self.ranks if not r.said_bye and r.status == LEFT)  # type: ignore[misc]

    def _open_meetings(self) -> list[Meeting]:
        """Meetings without a member that somebody is blocked on."""
        waited = {id(rank.waiting) for rank in self.ranks if rank.status == BLOCKED and not rank.polling}
        meetings = self.matching.open_meetings() + self._doomed
        return [m for m in meetings if any(id(op) in waited for op in m.ops.values())]

    def _failures(self, meeting: Meeting) -> Iterator[Decision]:
        first = min(meeting.ops)
        lost = [self.ranks[r] for r in meeting.missing if self.ranks[r].is_lost]
        if any(op.op.peer < 0 and op.is_p2p for op in meeting.ops.values()):
            lost = []  # a receive from any rank can still be served by another one
        for dead in lost:
            at = max(meeting.issue_ns, dead.clock_ns + to_ns(self.cluster.failure_detection_s))
            yield Decision(at, 4, dead.rank, lambda m=meeting, d=dead, t=at: self._peer_lost(m, d, t))  # type: ignore[misc]
        if not meeting.ops[first].is_p2p and len(meeting.disagreement()) > 1:
            yield Decision(meeting.issue_ns, 5, first, lambda m=meeting: self._mismatch(m))  # type: ignore[misc]
        waiting = [op for op in meeting.ops.values() if self.ranks[op.rank].waiting is op]
        earliest = min(waiting, key=lambda op: (op.deadline_ns, op.rank))
        yield Decision(earliest.deadline_ns, 6, earliest.rank, lambda o=earliest: self._timeout(o))  # type: ignore[misc]

    # ---- releasing: the real operation may run once every member is in its message loop ----
    def _release_ready(self) -> None:
        """Answer store reads whose keys are there; release what cannot be overtaken: every member waits for it, is past its end, or left."""
        for rank in self.ranks:
            if isinstance(rank.waiting, wire.StoreCall) and self.store.is_ready(rank.waiting):
                self._answer_store(rank, rank.waiting)
        for meeting in list(self.matching.granted):
            if all(self._is_past(op) for op in meeting.ops.values()):
                self._release(meeting)

    def _is_past(self, op: OpState) -> bool:
        rank = self.ranks[op.rank]
        if rank.status == BLOCKED:
            return (rank.waiting is op and not rank.polling) or rank.clock_ns >= op.end_ns
        return rank.status == LEFT

    def _late_releases(self) -> Iterator[Decision]:
        """Granted work whose members are blocked elsewhere: nothing earlier can come any more once nobody runs."""
        for meeting in self.matching.granted:
            if all(self.ranks[rank].status in (BLOCKED, LEFT) for rank in meeting.ops):
                yield Decision(meeting.end_ns, 0, min(meeting.ops), lambda t=meeting.end_ns: self._release_until(t))  # type: ignore[misc]
            elif any(self.ranks[rank].status == GONE for rank in meeting.ops):
                dead = next(self.ranks[rank] for rank in sorted(meeting.ops) if self.ranks[rank].status == GONE)
                at = max(meeting.issue_ns, dead.clock_ns + to_ns(self.cluster.failure_detection_s))
                yield Decision(at, 4, dead.rank, lambda m=meeting, d=dead, t=at: self._peer_lost(m, d, t))  # type: ignore[misc]

    def _release_until(self, end_ns: int) -> None:
        for meeting in list(self.matching.granted):
            if meeting.end_ns <= end_ns and all(self.ranks[rank].status != GONE for rank in meeting.ops):
                self._release(meeting)

    def _release(self, meeting: Meeting) -> None:
        self.matching.granted.remove(meeting)
        source = meeting.members[0]
        for op in meeting.ops.values():
            op.status = "released"
            self.outbox[op.rank].append(wire.Go(op.op.work, op.end_ns, source if op.is_p2p else -1))
            rank = self.ranks[op.rank]
            if rank.waiting is op:
                rank.resume()

    # ---- answers ----
    def _answer_poll(self, rank: RankState) -> None:
        op = rank.waiting
        assert isinstance(op, OpState)
        rank.clock_ns += POLL_NS
        self.outbox[rank.rank].append(wire.Answer(now_ns=rank.clock_ns))
        rank.resume()

    def _store_answers(self) -> Iterator[Decision]:
        for rank in self.ranks:
            call = rank.waiting
            if not isinstance(call, wire.StoreCall):
                continue
            if self.store.is_ordered(call):
                yield Decision(call.now_ns, 1, rank.rank, lambda r=rank, c=call: self._answer_store(r, c))  # type: ignore[misc]
            else:
                yield Decision(call.now_ns + call.timeout_ns, 6, rank.rank, lambda r=rank, c=call: self._store_timeout(r, c))  # type: ignore[misc]

    def _answer_store(self, rank: RankState, call: wire.StoreCall) -> None:
        self.outbox[rank.rank].append(self.store.answer(call))
        rank.resume()

    def _store_timeout(self, rank: RankState, call: wire.StoreCall) -> None:
        text, at = words.store_timeout(rank, call), call.now_ns + call.timeout_ns
        self.verdicts.append(Verdict("CollectiveTimeout", text, (), call.now_ns, rank.step))
        self.outbox[rank.rank].append(wire.Answer(error=text, now_ns=at))
        rank.resume()

    def _bye(self, rank: RankState) -> None:
        rank.said_bye = True
        self.outbox[rank.rank].append(wire.Bye())

    # ---- failures ----
    def _mismatch(self, meeting: Meeting) -> None:
        first = meeting.ops[min(meeting.ops)]
        odd, _ = meeting.odd_ranks()
        text = words.mismatch(meeting)
        self._judge(meeting, "CollectiveMismatch", text, odd, first, meeting.issue_ns, meeting.issue_ns)

    def _peer_lost(self, meeting: Meeting, dead: RankState, at_ns: int) -> None:
        first = meeting.ops[min(meeting.ops.keys() - {dead.rank})]
        self._judge(meeting, "PeerLost", words.peer_lost(dead, meeting), (dead.rank,), first, dead.clock_ns, at_ns)

    def _timeout(self, op: OpState) -> None:
        """Fail everything that waits in the group: after a timeout a communicator is aborted as a whole."""
        text = words.timeout(self.ranks, op)
        verdict = self._verdict("CollectiveTimeout", text, self._absent(op), op, op.op.issue_ns)
        self._aborted[op.group.key] = verdict
        pending = [o for o in self.all_ops if o.group.key == op.group.key and o.status in ("announced", "granted")]
        self.matching.drop(pending)
        for other in pending:
            self._fail(other, verdict, op.deadline_ns)

    def _absent(self, op: OpState) -> tuple[int, ...]:
        """Who did not come to the operation that timed out."""
        if op.is_p2p:
            return (op.op.peer,) if op.op.peer >= 0 else ()
        row = self.matching.rows.get((op.group.key, op.op.seq))
        return row.missing if row else ()

    def _judge(self, meeting: Meeting, kind: str, text: str, culprits: tuple[int, ...], op: OpState, since_ns: int, at_ns: int) -> None:
        self._fail_meeting(meeting, self._verdict(kind, text, culprits, op, since_ns), at_ns)

    def _verdict(self, kind: str, text: str, culprits: tuple[int, ...], op: OpState, since_ns: int) -> Verdict:
        verdict = Verdict(kind, text, culprits, since_ns, op.op.step, op.group.name, op.op.seq)
        self.verdicts.append(verdict)
        return verdict

    def _fail_meeting(self, meeting: Meeting, verdict: Verdict, at_ns: int) -> None:
        ops = list(meeting.ops.values())
        self.matching.drop(ops)
        for op in ops:
            self._fail(op, verdict, at_ns)

    def _fail(self, op: OpState, verdict: Verdict, at_ns: int) -> None:
        if op.verdict or op.status == "released":
            return
        op.status, op.verdict, op.fail_ns = "failed", verdict, max(at_ns, op.op.issue_ns)
        if self.ranks[op.rank].waiting is op:
            self._tell_failure(op)

    def _tell_failure(self, op: OpState) -> None:
        assert op.verdict is not None
        self.outbox[op.rank].append(wire.Fail(op.op.work, op.verdict.kind, op.verdict.text, op.fail_ns))
        self.ranks[op.rank].resume()

    def events(self) -> list[Event]:
        """Everything that happened, in no particular order."""
        local = [event for rank in self.ranks for event in rank.events]
        return [*local, *(op.event for op in self.all_ops), *(_exit_event(rank) for rank in self.ranks)]


def _exit_event(rank: RankState) -> Event:
    now = rank.clock_ns
    return Event(rank=rank.rank, n=rank.num_records, op="exit", issue_ns=now, start_ns=now, end_ns=now, step=rank.step, status=rank.why)


def _note_event(state: RankState, note: wire.Note) -> Event:
    return Event(
        rank=state.rank, n=state.next_n(), op=note.op, issue_ns=note.start_ns, start_ns=note.start_ns, end_ns=note.end_ns, step=note.step,
        phase=note.phase, site=note.site, detail=note.detail, status="skipped" if note.op == "skip_collective" else "ok",
    )  # fmt: skip
