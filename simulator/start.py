"""The first frame that a rank receives from its caller: everything about the run that is not in the environment."""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from simulator import wire


class Start(msgspec.Struct, array_like=True, kw_only=True):
    """`payload` is a cloudpickle of (function, args): trusted code sends it, a rank loads it, never the other way
    round.

    `restart_count`: which incarnation of the job this is; it begins at `start_ns`. `healing`: partitions of an earlier
    incarnation by their text, and the virtual time at which they end (-1: never).
    """

    world_size: int
    seed: int
    timeout_s: float
    cpu_limit_s: float
    reduction: str
    sys_path: list[str]
    cwd: str
    environ: dict[str, str]
    clocks: str
    debug_rank: int = -1
    ranks_per_node: int = 1 << 30
    restart_count: int = 0
    max_restarts: int = 0
    start_ns: int = 0
    healing: dict[str, int] = {}
    gpu: Any = None
    memory_bytes: int = -1  # -1: memory is not followed, 0: without a limit
    jitter: float = 0.0
    rank: int = -1
    faults: list[Any] = []
    labels: dict[str, str] = {}
    payload: bytes = b""


_decoder = msgspec.msgpack.Decoder(Start)


def receive_start(sock: socket.socket) -> Start:
    return _decoder.decode(_exactly(sock, wire.HEADER.unpack(_exactly(sock, wire.HEADER.size))[0]))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            raise SystemExit(0)  # the caller changed its mind
        data += part
    return bytes(data)
