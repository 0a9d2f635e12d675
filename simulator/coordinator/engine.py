"""The coordinator: who runs, who is blocked, and what happens next in virtual time.

It is told what ranks announce (`receive`, `closed`) and leaves replies in `outbox`; it does no input or output itself.
A thread runs until it says Block, Poll, StoreCall, Idle or Leave, so "nobody can move" is known exactly. Only then does
it decide what depends on an order: the pending decision with the lowest (virtual time, priority, rank) is taken, one at
a time. So the order in which messages of different ranks arrive decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from simulator import wire
from simulator.cluster import Cluster, to_ns
from simulator.coordinator.decision import ANY_SOURCE, BYE, LOSS, MISMATCH, POLL, RELEASE, STORE, TIMEOUT, Decision
from simulator.coordinator.judge import Judge
from simulator.coordinator.matching import Channel, Matching, Meeting
from simulator.coordinator.prints import PrintQueue
from simulator.coordinator.records import ProtocolError, change_thread, known_op, known_thread, note_event
from simulator.coordinator.state import BLOCKED, GONE, LEFT, RUNNING, OpState, RankState, ThreadState
from simulator.coordinator.stops import Stops
from simulator.coordinator.store import Store
from simulator.trace import Event

POLL_NS = 10_000  # virtual cost of one is_completed(), about what an event query costs


class Engine:
    """One run, or one incarnation of it, from `start_ns` on. `agent`: see `simulator.coordinator.stops`."""

    def __init__(self, world_size: int, cluster: Cluster, *, start_ns: int = 0, agent: bool = False) -> None:
        self.ranks = [RankState(rank, start_ns=start_ns) for rank in range(world_size)]
        self.outbox: list[list[wire.Reply]] = [[] for _ in range(world_size)]
        self.matching = Matching(cluster)
        self.judge = Judge(self.ranks, self.matching, self.outbox)
        self.store = Store()
        self.prints = PrintQueue(self.ranks)
        self._detection_ns = to_ns(cluster.failure_detection_s)
        self.stops = Stops(self.ranks, self.outbox, self._detection_ns, agent)
        self._anybody_dies = False  # a rank has left, or will when its grace is over
        self._doomed: list[Meeting] = []
        self._cut: list[Meeting] = []
        self._store_waits: list[ThreadState] = []

    # ---- what ranks say ----
    def receive(self, rank: int, records: list[wire.Record]) -> None:
        """Take one frame of a rank. Its Leave, if any, counts before its last announcements: they may come too late.

        Raises ProtocolError; the caller then treats the rank as gone.
        """
        state = self.ranks[rank]
        state.num_words += 1
        if records and type(last := records[-1]) is wire.Leave:
            self._leave(state, last)
        for record in records:
            self._record(state, record)

    def closed(self, rank: int) -> None:
        """The rank's connection ended; without a Leave before it, its process died on its own."""
        self.ranks[rank].is_gone = True

    def _record(self, state: RankState, record: wire.Record) -> None:
        match record:
            case wire.Op():
                self._announce(state, record)
            case wire.Block() | wire.Poll():
                self._block(state, record)
            case wire.Note():
                thread = known_thread(state, record.thread)
                thread.advance(record.end_ns)
                state.step = max(state.step, record.step)
                state.events.append(note_event(thread, record))
            case wire.Print():
                known_thread(state, record.thread).advance(record.now_ns)
                self.prints.add(state.rank, record)
            case wire.Doom():
                state.dies_ns, self._anybody_dies = record.at_ns, True
                self._doom_granted(state)
            case wire.Waited():
                known_thread(state, record.thread).advance(record.now_ns)
                known_op(state, record.work).begin_wait(record.now_ns, record.aside)
            case wire.StoreSet():
                self.store.set(record.key, record.value)
            case wire.Sleep():
                known_thread(state, record.thread).block(record, record.now_ns)
            case wire.StoreCall():
                thread = known_thread(state, record.thread)
                self.store.accept(record)
                thread.block(record, record.now_ns)
                self._store_waits.append(thread)
            case wire.Spawn() | wire.End() | wire.Idle() | wire.Busy():
                change_thread(state, record)
            case wire.GroupDef():
                if state.rank not in record.ranks or not set(record.ranks) <= set(range(len(self.ranks))):
                    raise ProtocolError(f"rank {state.rank} named a group of ranks {record.ranks}")
                state.groups[record.key] = record

    def _announce(self, state: RankState, record: wire.Op) -> None:
        group = state.groups.get(record.group)
        if group is None or not -1 <= record.peer < len(self.ranks) or record.work in state.ops:
            raise ProtocolError(f"rank {state.rank} announced {record}")
        thread = known_thread(state, record.thread)
        thread.advance(record.issue_ns)
        state.step = max(state.step, record.step)
        op = OpState(thread, thread.next_n(), record, group)
        state.ops[record.work] = op
        if verdict := self.judge.standing(op):
            self.judge.fail([op], verdict, record.issue_ns)
        elif meeting := self.matching.announce(op):
            self._meet(meeting)

    def _meet(self, meeting: Meeting) -> None:
        """A meeting is complete: grant it, unless its members disagree or one was killed before it could end."""
        if not meeting.agrees:
            self.judge.mismatch(meeting)
        elif meeting.is_cut:
            self._cut.append(meeting)
        else:
            self.matching.grant(meeting)
            if self._anybody_dies:
                self._doom(meeting)

    def _doom(self, meeting: Meeting) -> None:
        """Take back the times of a meeting whose end a member did not live to see: it ends as a loss."""
        dead = [rank for rank in meeting.ops if meeting.end_ns > self.ranks[rank].dead_at_ns]
        if dead:
            self.matching.take_back(meeting)
            self._doomed.append(Meeting(meeting.members, {r: op for r, op in meeting.ops.items() if r not in dead}))

    def _block(self, state: RankState, record: wire.Block | wire.Poll) -> None:
        op = known_op(state, record.work)
        thread = known_thread(state, record.thread)
        thread.block(op, record.now_ns, polling=isinstance(record, wire.Poll))
        if isinstance(record, wire.Block):
            op.begin_wait(record.now_ns, record.aside)
            thread.until_ns = record.now_ns + record.patience_ns if record.patience_ns else -1
        if op.status == "released":  # its Go is already on the way
            thread.resume()
        elif op.verdict and thread is op.thread:
            self.judge.tell(op)

    def _leave(self, state: RankState, leave: wire.Leave) -> None:
        state.main.advance(leave.now_ns)
        state.leave, self._anybody_dies = leave, True
        self._doom_granted(state)

    def _doom_granted(self, state: RankState) -> None:
        for meeting in list(self.matching.granted):
            if state.rank in meeting.ops:
                self._doom(meeting)

    # ---- what happens next ----
    def settle(self) -> None:
        """Release and decide until a rank can run, or all have left."""
        self._serve_ready()
        while RUNNING not in [rank.status for rank in self.ranks]:
            decision = min(self._decisions(), key=lambda d: d[:3], default=None)
            if decision is None:
                break
            decision.act()
            self._serve_ready()

    @property
    def finished(self) -> bool:
        return all(rank.said_bye or rank.status == GONE for rank in self.ranks)

    def _decisions(self) -> Iterator[Decision]:
        """Everything that could happen next; called when no rank runs."""
        yield from self._late_releases()
        yield from self._waits_for_the_store()
        for receive, channel in self.matching.any_source_choices():
            at = max(self.matching.sends[channel][0].op.issue_ns, receive.op.issue_ns)
            yield Decision(at, ANY_SOURCE, channel[1], partial(self._serve_any_source, receive, channel))
        for thread in self._blocked():
            if thread.polling:
                yield Decision(thread.clock_ns, POLL, thread.rank, partial(self._answer_poll, thread))
            elif (until_ns := thread.until_ns) >= 0:
                yield Decision(until_ns, POLL, thread.rank, partial(self._wake, thread, until_ns))
        for meeting in self._open_meetings():
            yield from self._failures(meeting)
        yield from self.stops.decisions()
        if all(rank.status in (LEFT, GONE) for rank in self.ranks):
            for rank in self.ranks:
                if rank.status == LEFT and not rank.said_bye:
                    yield Decision(rank.clock_ns, BYE, rank.rank, partial(self._bye, rank))

    def _blocked(self) -> list[ThreadState]:
        return [thread for rank in self.ranks for thread in rank.blocked]

    def _open_meetings(self) -> list[Meeting]:
        """Meetings without a member that somebody is blocked on."""
        meetings = self.matching.open_meetings() + self._doomed + self._cut
        return [m for m in meetings if any(self._is_waited_for(op) for op in m.ops.values())]

    def _is_waited_for(self, op: OpState) -> bool:
        return op.is_waited_for and self.ranks[op.rank].is_here

    def _failures(self, meeting: Meeting) -> Iterator[Decision]:
        """How a meeting that lacks a member can end: the member is lost, the others disagree, or time runs out."""
        first = meeting.ops[min(meeting.ops)]
        if first.op.peer >= 0 or not first.is_p2p:  # a receive from any rank can still be served by another one
            for rank in meeting.missing:
                if self.ranks[rank].is_lost:
                    yield self._loss(meeting, self.ranks[rank])
        if not first.is_p2p and len(meeting.disagreement()) > 1:
            yield Decision(meeting.issue_ns, MISMATCH, first.rank, partial(self.judge.mismatch, meeting))
        waiting = [op for op in meeting.ops.values() if self._is_waited_for(op)]
        earliest = min(waiting, key=lambda op: (op.deadline_ns, op.rank))
        yield Decision(earliest.deadline_ns, TIMEOUT, earliest.rank, partial(self.judge.timeout, earliest))

    def _loss(self, meeting: Meeting, dead: RankState) -> Decision:
        at = max(meeting.issue_ns, dead.clock_ns + self._detection_ns)
        return Decision(at, LOSS, dead.rank, partial(self.judge.peer_lost, meeting, dead, at))

    # ---- releasing: the real operation may run once every member is in its message loop ----
    def _serve_ready(self) -> None:
        """Do what cannot be overtaken: store reads whose keys are there, and work that every member waits for, is
        past, or has left behind.
        """
        for thread in self._store_waits:
            if isinstance(thread.waiting, wire.StoreCall) and self.store.is_ready(thread.waiting):
                self._answer_store(thread, thread.waiting)
        self._store_waits = [t for t in self._store_waits if isinstance(t.waiting, wire.StoreCall)]
        for meeting in list(self.matching.granted):
            if all(map(self._is_past, meeting.ops.values())):
                self._release(meeting)

    def _is_past(self, op: OpState) -> bool:
        """Its rank is in its message loop, and neither its thread nor the main thread (whose death would undo it) can
        still do something before the operation ends.
        """
        rank, thread = self.ranks[op.rank], op.thread
        if (status := rank.status) != BLOCKED:
            return status == LEFT
        is_over = op.is_waited_for or thread.clock_ns >= op.end_ns
        return is_over and (thread is rank.main or rank.main.clock_ns >= op.end_ns)

    def _late_releases(self) -> Iterator[Decision]:
        """Granted work whose members are blocked elsewhere: once nobody runs, nothing earlier can come any more."""
        for meeting in self.matching.granted:
            gone = [self.ranks[rank] for rank in sorted(meeting.ops) if self.ranks[rank].status == GONE]
            if gone:
                yield self._loss(meeting, gone[0])
            else:
                release = partial(self._release_until, meeting.end_ns)
                yield Decision(meeting.end_ns, RELEASE, min(meeting.ops), release)

    def _release_until(self, end_ns: int) -> None:
        for meeting in list(self.matching.granted):
            if meeting.end_ns <= end_ns and all(self.ranks[rank].status != GONE for rank in meeting.ops):
                self._release(meeting)

    def _release(self, meeting: Meeting) -> None:
        self.matching.granted.remove(meeting)
        for rank, op in meeting.ops.items():
            op.status = "released"
            self.outbox[rank].append(wire.Go(op.op.work, op.end_ns, meeting.members[0] if op.is_p2p else -1))
            if op.thread.waiting is op:
                op.thread.resume()

    # ---- answers ----
    def _serve_any_source(self, receive: OpState, channel: Channel) -> None:
        self._meet(self.matching.take_any_source(receive, channel))

    def _answer_poll(self, thread: ThreadState) -> None:
        self._wake(thread, thread.clock_ns + POLL_NS)

    def _wake(self, thread: ThreadState, now_ns: int) -> None:
        thread.advance(now_ns)
        self.outbox[thread.rank].append(wire.Answer(thread.name, now_ns=thread.clock_ns))
        thread.resume()

    def _waits_for_the_store(self) -> Iterator[Decision]:
        for thread in self._blocked():
            call = thread.waiting
            if not isinstance(call, wire.StoreCall):
                continue
            if self.store.is_ordered(call):
                yield Decision(call.now_ns, STORE, thread.rank, partial(self._answer_store, thread, call))
            else:
                late = call.now_ns + call.timeout_ns
                yield Decision(late, TIMEOUT, thread.rank, partial(self.judge.store_timeout, thread, call))

    def _answer_store(self, thread: ThreadState, call: wire.StoreCall) -> None:
        self.outbox[thread.rank].append(self.store.answer(call))
        thread.resume()

    def _bye(self, rank: RankState) -> None:
        rank.said_bye = True
        self.outbox[rank.rank].append(wire.Bye())

    def groups(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and global ranks of every process group that was used, in a fixed order."""
        return sorted({(group.name, group.ranks) for rank in self.ranks for group in rank.groups.values()})

    def events(self) -> list[Event]:
        """Everything that happened, in no particular order."""
        ranks = self.ranks
        return [event for rank in ranks for event in (*rank.events, *rank.op_events(), rank.exit_event())]
