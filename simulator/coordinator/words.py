"""The sentences of outcomes: what happened, on which rank and step, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from simulator import wire
from simulator.coordinator.matching import Meeting
from simulator.coordinator.state import OpState, RankState, ThreadState, ranks_text

_SAME_ORDER = "Every rank must call the same collectives in the same order, with the same operation, shape and dtype."


def mismatch(meeting: Meeting) -> str:
    """Who called what in one collective or message."""
    if len(meeting.disagreement()) == 1:
        return _misfit(meeting)
    odd, majority = meeting.odd_ranks()
    first = meeting.ops[min(meeting.ops)]
    calls: dict[str, list[int]] = {}
    for rank, op in sorted(meeting.ops.items()):
        calls.setdefault(f"{op.signature}{_at(op.op.site)}", []).append(rank)
    said = "; ".join(f"{ranks_text(ranks)} called {call}" for call, ranks in calls.items())
    if first.is_p2p:
        source, target = meeting.members
        ends = f"from rank {source} to rank {target}"
        return f"The message {ends} does not fit: {said}. Send and receive the same shape and dtype."
    blame = (
        f"{ranks_text(odd)} differ{'s' if len(odd) == 1 else ''} from the others"
        if majority
        else "the ranks disagree, without a majority"
    )
    return f"In collective #{first.op.seq}{_on(first)} {blame}: {said}. {_SAME_ORDER}"


def _misfit(meeting: Meeting) -> str:
    """Every rank called the same all_to_all_single, with parts that do not fit."""
    first = meeting.ops[min(meeting.ops)]
    pairs = [
        f"rank {source} sends {_part(meeting, source, target, 'sent')} rows to rank {target}, which expects "
        f"{_part(meeting, target, source, 'expected')}"
        for source, target in meeting.misfits()
    ]
    more = f"; and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return (
        f"In collective #{first.op.seq}{_on(first)} the parts do not fit: {'; '.join(pairs[:3])}{more}"
        f"{_at(first.op.site)}. What a rank sends to another one (input_split_sizes) is what that one expects from it "
        "(output_split_sizes)."
    )


def _part(meeting: Meeting, rank: int, other: int, side: str) -> int:
    sizes: tuple[int, ...] = getattr(meeting.ops[rank].op, side)
    position = meeting.members.index(other)
    return sizes[position] if position < len(sizes) else 0


def timeout(ranks: Sequence[RankState], op: OpState) -> str:
    """No rank can move: what each of them waits for."""
    if op.op.cut:
        return _cut(op)
    stuck = [thread for rank in ranks for thread in rank.blocked]
    waits = "; ".join(f"{_thread_text(thread)} waits in {waiting_text(thread)}" for thread in stuck)
    gone = [f"rank {r.rank} {left_text(r)}" for r in ranks if r.why]
    seconds = op.op.timeout_ns / 1e9
    op_text = f"After {seconds:,g} virtual seconds {op.label} on rank {op.rank} timed out"
    told = f"{op_text}, because no rank could move any more: {waits}"
    return "; ".join([told, *gone]) + f". {_advice(stuck)}"


def _cut(op: OpState) -> str:
    waited = f"After {op.op.timeout_ns / 1e9:,g} virtual seconds {op.label} on rank {op.rank} timed out"
    until = "for ever" if op.op.heals_ns < 0 else f"until {op.op.heals_ns / 1e9:,g} virtual seconds"
    return (
        f"{waited}: its ranks called it, but the network between them is cut {until} by the fault plan, {op.op.cut}. "
        "No rank is to blame; what can be chosen is the timeout, and what is saved before it."
    )


def _thread_text(thread: ThreadState) -> str:
    return f"rank {thread.rank}" if thread.is_main else f"thread {thread.name} of rank {thread.rank}"


def _advice(stuck: Sequence[ThreadState]) -> str:
    ops = {r.waiting.op.op for r in stuck if isinstance(r.waiting, OpState)}
    if ops and ops <= {"send"}:
        return "Everyone sends and nobody receives: let some ranks receive first, or use isend."
    if ops and ops <= {"recv"}:
        return "Everyone receives and nobody sends: let some ranks send first, or use isend before recv."
    return "Find the first operation that one rank called and another did not."


def peer_lost(lost: RankState, meeting: Meeting) -> str:
    waiting = ranks_text(meeting.ops.keys() - {lost.rank})
    op = meeting.ops[min(meeting.ops.keys() - {lost.rank})]
    verb = "waits" if len(meeting.ops.keys() - {lost.rank}) == 1 else "wait"
    return f"Rank {lost.rank} {left_text(lost)}; {waiting} {verb} in {op.label}{_at(op.op.site)}, which needs it."


def left_text(rank: RankState) -> str:
    """ "has finished", "was killed at step 3 by the fault plan", ..."""
    step = f" at step {rank.step}" if rank.step >= 0 else ""
    return {
        "done": "has finished and will not call anything more",
        "error": f"failed{step} with an exception",
        "killed": f"was killed{step} by the fault plan",
        "stopped": f"was stopped{step} by the agent",
        "hung": f"hangs{step} since the fault plan stopped it",
        "spinning": f"made no progress{step}",
        "crashed": f"ended{step} without returning (its process exited or was killed)",
    }[rank.why]


def waiting_text(thread: ThreadState) -> str:
    waiting = thread.waiting
    assert waiting is not None
    if isinstance(waiting, OpState):
        return f"{waiting.label}{_at(waiting.op.site)}"
    if isinstance(waiting, wire.Sleep):
        return f"time.sleep, until {waiting.until_ns / 1e9:,g} virtual seconds"
    return f"the rendezvous of a process group (store {waiting.call}){_at(waiting.site)}"


def store_timeout(rank: RankState, call: wire.StoreCall) -> str:
    if call.is_own:
        keys = ", ".join(call.keys)
        return f"wait timeout after {call.timeout_ns / 1e6:g} ms (of virtual time), keys: {keys}"
    waited = f"{call.timeout_ns / 1e9:,g} virtual seconds for the rendezvous of a process group{_at(call.site)}"
    return (
        f"Rank {rank.rank} waited {waited}: another rank never came. Every rank must call init_process_group and "
        "new_group in the same order, also ranks outside the new group."
    )


def _at(site: str) -> str:
    return f" ({site})" if site else ""


def _on(op: OpState) -> str:
    return "" if op.group.name == "default" else f" of group {op.group.name}"
