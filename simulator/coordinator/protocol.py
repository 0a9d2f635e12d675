"""What the caller and its coordinator process say to each other. Both are trusted; frames as in `simulator.wire`."""

from __future__ import annotations

from typing import Any

import msgspec

from simulator.trace import Event


class Job(msgspec.Struct, array_like=True, tag="job"):
    """One run, or one incarnation of it from `start_ns` on; the descriptors of the ranks' sockets come with it, in rank
    order. `pids` is for watching processor time; a rank that sends more than `limit_bytes` is cut off. `agent`: one
    watches, and stops all ranks when one has failed.
    """

    world_size: int
    cluster: Any
    pids: tuple[int, ...]
    cpu_limit_s: float
    limit_bytes: int = 1 << 30
    start_ns: int = 0
    agent: bool = False
    debug_rank: int = -1  # may ask the person at the terminal


class Lines(msgspec.Struct, array_like=True, tag="lines"):
    """Output of ranks, in the order of virtual time."""

    lines: tuple[tuple[int, str], ...]


class Spinning(msgspec.Struct, array_like=True, tag="spinning"):
    """These ranks used up their processor time without a word: end their processes."""

    ranks: tuple[int, ...]


class Silent(msgspec.Struct, array_like=True, tag="silent"):
    """A sign of life for people who wait: this rank has computed for so long without a word."""

    rank: int
    seconds: int


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    """The rank that is debugged wants a line: the caller answers with `Typed`."""

    rank: int
    prompt: str


class Typed(msgspec.Struct, array_like=True, tag="typed"):
    """What the person typed; None for the end of input."""

    rank: int
    line: str | None


class VerdictData(msgspec.Struct, array_like=True):
    kind: str
    text: str
    ranks: tuple[int, ...]
    at_ns: int
    step: int
    group: str
    seq: int


class RankReport(msgspec.Struct, array_like=True):
    """How one rank ended, as the coordinator saw it; `result`, `error` and `memory` are the rank's own bytes, not
    looked at.
    """

    why: str
    clock_ns: int
    step: int
    derived: bool
    result: bytes
    error: bytes
    memory: bytes


class Report(msgspec.Struct, array_like=True, tag="report"):
    """The end of a run. `groups`: name and global ranks of every process group that was used."""

    events: list[Event]
    verdicts: list[VerdictData]
    ranks: list[RankReport]
    groups: list[tuple[str, tuple[int, ...]]]


FromHost = Lines | Spinning | Silent | Ask | Report

decode_typed = msgspec.msgpack.Decoder(Typed).decode
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_from_host = msgspec.msgpack.Decoder(FromHost).decode
