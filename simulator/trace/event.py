"""One event of a trace: something that one rank did."""

from __future__ import annotations

import msgspec

#: Statuses of an operation that did not do what its rank asked.
FAILED = ("timeout", "mismatch", "lost")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of one rank. Times are integer virtual nanoseconds, -1 where it never happened.

    Attributes:
        incarnation: which start of the job this belongs to, 0 for the first.
        rank: global rank.
        n: position in the program of the thread.
        thread: "0" for the main thread, "0.1" for the first one that it started, ...
        step: training step (`simulator.steps`, else finished optimizer steps), -1 before the first.
        group: name of the process group, "" for local events.
        stream: "compute", "stream:1" (the first side stream), ..., or "comm:<group>".
        seq: the k-th collective of its group on this rank, -1 for point to point and local events.
        work: number of the operation in its thread, -1 for local events.
        op: torch's name (all_reduce, send, ...), or compute, stream_wait (the compute stream waits for another one),
            sleep, step, rendezvous, exit, or the kind of a fault that acts.
        reduce: reduce op (SUM, AVG, ...) or "".
        peer: global rank of the other side, or the root; -1 for none.
        bytes: payload as nccl-tests counts it: the whole vector that the collective works on (all_gather: the gathered
        output;
            reduce_scatter: the full input); for a message its size.
        issue_ns: the rank called it. start_ns: every member had. end_ns: done. wait_ns: the rank began to wait for it.
        site: where it was called, "file:line" or "In[3]:line"; not part of the digest.
        status: ok, timeout, mismatch, lost, skipped, pending (issued, never finished); for exit: done, error, killed,
            stopped, hung, ...
        flops: floating-point operations of the operators in a stretch of compute.
        live_bytes: tensor memory of the rank at the end of the event, -1 where it is not followed.
        detail: free text of local events.
    """

    rank: int
    n: int
    op: str
    issue_ns: int
    start_ns: int
    end_ns: int
    wait_ns: int = -1
    status: str = "ok"
    thread: str = "0"
    incarnation: int = 0
    step: int = -1
    phase: str = ""
    module: str = ""
    group: str = ""
    stream: str = "compute"
    seq: int = -1
    work: int = -1
    reduce: str = ""
    peer: int = -1
    tag: int = 0
    bytes: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    dtype: str = ""
    flops: int = 0
    live_bytes: int = -1
    site: str = ""
    detail: str = ""

    @property
    def is_communication(self) -> bool:
        return self.work >= 0

    @property
    def is_p2p(self) -> bool:
        return self.op in ("send", "recv")

    @property
    def is_collective(self) -> bool:
        return self.is_communication and not self.is_p2p

    @property
    def label(self) -> str:
        """How people speak of it: "all_reduce #3 on group dp", "send to rank 2"."""
        if self.is_p2p:
            peer = f"rank {self.peer}" if self.peer >= 0 else "any rank"
            return f"{self.op} {'to' if self.op == 'send' else 'from'} {peer}"
        if not self.is_communication:
            return self.op
        return f"{self.op} #{self.seq}" + ("" if self.group == "default" else f" on group {self.group}")
