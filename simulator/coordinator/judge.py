"""Verdicts: operations that fail, why, and the ranks that are told so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulator import wire
from simulator.coordinator import words
from simulator.coordinator.matching import Matching, Meeting
from simulator.coordinator.state import OpState, RankState, ThreadState, Verdict


class Judge:
    """`verdicts` are in the order in which they were decided."""

    def __init__(self, ranks: Sequence[RankState], matching: Matching, outbox: Sequence[list[wire.Reply]]) -> None:
        self._ranks, self._matching, self._outbox = ranks, matching, outbox
        self._aborted: dict[str, Verdict] = {}
        self.verdicts: list[Verdict] = []

    def standing(self, op: OpState) -> Verdict | None:
        """The verdict that already holds for a new operation: its group was aborted, or its row failed before."""
        if not self.verdicts:
            return None
        return self._aborted.get(op.group.key) or self._matching.verdict_of_row(op)

    def mismatch(self, meeting: Meeting) -> None:
        odd, _ = meeting.odd_ranks()
        first = meeting.ops[min(meeting.ops)]
        if len(meeting.disagreement()) == 1:
            odd = tuple(sorted({rank for pair in meeting.misfits() for rank in pair}))
        verdict = self._verdict("CollectiveMismatch", words.mismatch(meeting), odd, first, meeting.issue_ns)
        self.fail(meeting.ops.values(), verdict, meeting.issue_ns)

    def peer_lost(self, meeting: Meeting, dead: RankState, at_ns: int) -> None:
        if meeting.ops.keys() <= {dead.rank}:  # a group of one: nobody is left to be told
            return self._matching.drop(list(meeting.ops.values()))
        first = meeting.ops[min(meeting.ops.keys() - {dead.rank})]
        verdict = self._verdict("PeerLost", words.peer_lost(dead, meeting), (dead.rank,), first, dead.clock_ns)
        self.fail(meeting.ops.values(), verdict, at_ns)

    def timeout(self, op: OpState) -> None:
        """Fail everything that waits in the group: after a timeout a communicator is aborted as a whole."""
        text = words.timeout(self._ranks, op)
        verdict = self._verdict("CollectiveTimeout", text, self._absent(op), op, op.op.issue_ns)
        self._aborted[op.group.key] = verdict
        pending = [other for rank in self._ranks for other in rank.ops.values() if other.group.key == op.group.key]
        self.fail(pending, verdict, op.deadline_ns)

    def store_timeout(self, thread: ThreadState, call: wire.StoreCall) -> None:
        rank = self._ranks[thread.rank]
        text = words.store_timeout(rank, call)
        if not call.is_own:
            self.verdicts.append(Verdict("CollectiveTimeout", text, (), call.now_ns, rank.step))
            rank.events.append(thread.missed_rendezvous(call, rank.step))
        answer = wire.Answer(thread.name, error=text, now_ns=call.now_ns + call.timeout_ns)
        self._outbox[rank.rank].append(answer)
        thread.resume()

    def fail(self, ops: Iterable[OpState], verdict: Verdict, at_ns: int) -> None:
        """Give operations that may not have run yet a verdict; ranks that are blocked on them hear it now."""
        failing = [op for op in ops if op.verdict is None and op.status != "released"]
        self._matching.drop(failing)
        for op in failing:
            op.status, op.verdict, op.fail_ns = "failed", verdict, max(at_ns, op.op.issue_ns)
            if op.thread.waiting is op:
                self.tell(op)

    def tell(self, op: OpState) -> None:
        """Raise an operation's verdict in its rank, which waits for it."""
        assert op.verdict is not None
        self._outbox[op.rank].append(wire.Fail(op.op.work, op.verdict.kind, op.verdict.text, op.fail_ns))
        op.thread.resume()

    def _absent(self, op: OpState) -> tuple[int, ...]:
        """Who did not come to the operation that timed out."""
        if op.op.cut:
            return ()
        if op.is_p2p:
            return (op.op.peer,) if op.op.peer >= 0 else ()
        row = self._matching.rows.get((op.group.key, op.op.seq))
        return row.missing if row else ()

    def _verdict(self, kind: str, text: str, culprits: tuple[int, ...], op: OpState, since_ns: int) -> Verdict:
        verdict = Verdict(kind, text, culprits, since_ns, op.op.step, op.group.name, op.op.seq)
        self.verdicts.append(verdict)
        return verdict
