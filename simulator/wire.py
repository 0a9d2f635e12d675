"""What travels between the ranks, the coordinator and the caller: framed msgpack of fixed shapes, never a pickle.

A rank is untrusted, so everything that comes from it is decoded into typed structs (`msgspec` refuses anything else).
Frames are a 4-byte length and a msgpack body. Times are integer virtual nanoseconds.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, Literal

import msgspec

HEADER = struct.Struct("!I")
MAX_FRAME_BYTES = 1 << 30


Why = Literal["done", "error", "killed", "hung", "stopped", "spinning", "crashed"]

#: Bounds keep sums of what ranks claim within the 64 bits of an event.
Ns = Annotated[int, msgspec.Meta(ge=-1, le=1 << 61)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


# ---- rank -> coordinator: a frame is a list of these, in program order ----
class GroupDef(msgspec.Struct, array_like=True, tag="group"):
    """Told once, before the first operation on a process group; `ranks` are global."""

    key: str
    name: str
    ranks: tuple[int, ...]


class Op(msgspec.Struct, array_like=True, tag="op"):
    """A communication operation announced at issue.

    `work` is unique in the rank, `number` counts the operations of its thread. `peer`: global rank of the other side or
    root, -1 for none or any. Of the fault plan: `slow`, a factor on its duration; `cut`, the partition between its
    ranks, and when that ends (-1: never). Of an all_to_all_single: `sent` to and `expected` from each member, in rows.
    """

    thread: str
    number: int
    work: int
    group: str
    seq: int
    op: str
    reduce: str
    dtype: str
    shapes: tuple[tuple[Size, ...], ...]
    match_shapes: bool
    peer: int
    tag: int
    bytes: Size
    timeout_ns: Ns
    issue_ns: Ns
    step: int
    phase: str
    site: str
    slow: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 1.0
    cut: str = ""
    heals_ns: Ns = 0
    sent: tuple[Size, ...] = ()
    expected: tuple[Size, ...] = ()


class Note(msgspec.Struct, array_like=True, tag="note"):
    """Something that needs nobody else: compute, a stream that waits, a step that begins, a fault that acts.

    `flops`: of the operators in it; `live_bytes`: tensor memory at its end, -1 where it is not followed.
    """

    thread: str
    op: str
    start_ns: Ns
    end_ns: Ns
    step: int
    phase: str
    site: str
    detail: str = ""
    stream: str = "compute"
    flops: int = 0
    live_bytes: int = -1


class Spawn(msgspec.Struct, array_like=True, tag="spawn"):
    """A registered thread begins, or (idle) a task that a thread pool will run later: `simulator.rank.threads`."""

    thread: str
    now_ns: Ns
    idle: bool


class End(msgspec.Struct, array_like=True, tag="end"):
    """A registered thread has nothing more to do."""

    thread: str
    now_ns: Ns


class Idle(msgspec.Struct, array_like=True, tag="idle"):
    """A registered thread waits for another one of its rank, which will declare it Busy."""

    thread: str
    now_ns: Ns


class Busy(msgspec.Struct, array_like=True, tag="busy"):
    thread: str
    now_ns: Ns


class Doom(msgspec.Struct, array_like=True, tag="doom"):
    """This rank will be killed at this virtual time if it is still there: the end of a preemption's grace."""

    at_ns: Ns


class Waited(msgspec.Struct, array_like=True, tag="waited"):
    """A thread waited for a work that was already done when it asked; `aside`: in a side stream."""

    thread: str
    work: int
    now_ns: Ns
    aside: bool = False


class Print(msgspec.Struct, array_like=True, tag="print"):
    """Lines that the rank wrote to stdout or stderr."""

    thread: str
    text: str
    now_ns: Ns


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    """The rank that is debugged wants a line from the person at the terminal. It counts as running meanwhile."""

    thread: str
    prompt: str
    now_ns: Ns


class StoreSet(msgspec.Struct, array_like=True, tag="set"):
    key: str
    value: bytes


class Block(msgspec.Struct, array_like=True, tag="block"):
    """A thread waits for this work; it runs again after a Go or Fail for it. `aside`: in a side stream, so that
    neither its compute nor the host waits in virtual time. `patience_ns`: then it gets an Answer (0: it waits on).
    """

    thread: str
    work: int
    now_ns: Ns
    aside: bool = False
    patience_ns: Ns = 0


class Poll(msgspec.Struct, array_like=True, tag="poll"):
    """`is_completed()`: answered with a Go, a Fail, or Answer(False) when nobody else can move."""

    thread: str
    work: int
    now_ns: Ns


class Sleep(msgspec.Struct, array_like=True, tag="sleep"):
    """A thread sleeps until a virtual time: it runs again after an Answer, when nothing earlier can happen."""

    thread: str
    until_ns: Ns
    now_ns: Ns


class StoreCall(msgspec.Struct, array_like=True, tag="store"):
    """A store call that needs an answer: get, wait (blocking), add, check, compare_set, delete, num_keys (ordered).
    `is_own`: the time-out is user code's, whose affair it is when it runs out.
    """

    thread: str
    call: str
    keys: tuple[str, ...]
    values: tuple[bytes, ...]
    amount: int
    timeout_ns: Ns
    now_ns: Ns
    site: str
    is_own: bool = False


class Leave(msgspec.Struct, array_like=True, tag="leave"):
    """The rank's last words. why: done, error, killed, hung, stopped, spinning. `result`: encoded value; `error`: JSON
    of the exception; `memory`: its report, where memory is followed.
    """

    why: Why
    now_ns: Ns
    result: bytes = b""
    error: bytes = b""
    derived: bool = False
    memory: bytes = b""


Lifecycle = Spawn | End | Idle | Busy
Record = (
    GroupDef | Op | Note | Doom | Waited | Print | StoreSet | Block | Poll | Sleep | Ask | StoreCall | Lifecycle | Leave
)


# ---- coordinator -> rank ----
class Go(msgspec.Struct, array_like=True, tag="go"):
    """Launch the real operation of `work` now; its virtual end; `source`: who sends (for a receive from any rank)."""

    work: int
    end_ns: int
    source: int


class Fail(msgspec.Struct, array_like=True, tag="fail"):
    work: int
    kind: str
    text: str
    now_ns: int


class Answer(msgspec.Struct, array_like=True, tag="answer"):
    """To the Poll or StoreCall of a thread. `error`: why a store call failed."""

    thread: str
    values: tuple[bytes, ...] = ()
    amount: int = 0
    error: str = ""
    now_ns: int = 0


class Bye(msgspec.Struct, array_like=True, tag="bye"):
    """Nothing more will be asked of this rank."""


class Die(msgspec.Struct, array_like=True, tag="die"):
    """To a rank whose main thread waits: it ends now. why: killed (its grace is over), stopped (by the agent)."""

    why: Literal["killed", "stopped"]
    now_ns: int


Reply = Go | Fail | Answer | Bye | Die

_encoder = msgspec.msgpack.Encoder()
_records = msgspec.msgpack.Decoder(list[Record])
_replies = msgspec.msgpack.Decoder(list[Reply])


def frame(messages: Any) -> bytes:
    body = _encoder.encode(messages)
    return HEADER.pack(len(body)) + body


def decode_records(body: bytes) -> list[Record]:
    return _records.decode(body)


def decode_replies(body: bytes) -> list[Reply]:
    return _replies.decode(body)


class FrameBuffer:
    """Cuts a byte stream into frame bodies."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """The frames completed by `data`. Raises ValueError for one over the limit: the other side is broken."""
        if not self._bytes and len(data) >= HEADER.size and HEADER.unpack_from(data)[0] == len(data) - HEADER.size:
            return [bytes(data[HEADER.size :])]  # nearly always: one frame, whole
        self._bytes += data
        frames = []
        while len(self._bytes) >= HEADER.size:
            (size,) = HEADER.unpack_from(self._bytes)
            if size > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {size} bytes is over the limit")
            if len(self._bytes) < HEADER.size + size:
                break
            frames.append(bytes(self._bytes[HEADER.size : HEADER.size + size]))
            del self._bytes[: HEADER.size + size]
        return frames
