"""What single records of a rank mean for its state; records that no rank of ours sends are refused."""

from __future__ import annotations

from simulator import wire
from simulator.coordinator.state import ENDED, IDLE, RUNNING, OpState, RankState, ThreadState
from simulator.trace import Event


class ProtocolError(Exception):
    """A rank said something that no rank of ours says: user code spoke on its socket."""


def known_op(state: RankState, work: int) -> OpState:
    if work not in state.ops:
        raise ProtocolError(f"rank {state.rank} waits for work {work}, which it never announced")
    return state.ops[work]


def known_thread(state: RankState, name: str) -> ThreadState:
    if name not in state.threads:
        raise ProtocolError(f"rank {state.rank} speaks of a thread {name!r} that never began")
    return state.threads[name]


def change_thread(state: RankState, record: wire.Lifecycle) -> None:
    if isinstance(record, wire.Spawn):
        state.threads[record.thread] = ThreadState(state.rank, record.thread)
    thread = known_thread(state, record.thread)
    thread.advance(record.now_ns)
    match record:
        case wire.Spawn():
            thread.status = IDLE if record.idle else RUNNING
        case wire.End():
            thread.status = ENDED
        case wire.Idle():
            thread.status = IDLE
        case wire.Busy() if thread.status == IDLE:
            thread.status = RUNNING


def note_event(thread: ThreadState, note: wire.Note) -> Event:
    return Event(
        rank=thread.rank,
        n=thread.next_n(),
        thread=thread.name,
        op=note.op,
        stream=note.stream,
        flops=note.flops,
        live_bytes=note.live_bytes,
        issue_ns=note.start_ns,
        start_ns=note.start_ns,
        end_ns=note.end_ns,
        step=note.step,
        phase=note.phase,
        site=note.site,
        detail=note.detail,
        status="skipped" if note.op == "skip_collective" else "ok",
    )
