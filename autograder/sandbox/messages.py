"""What the owner of a building and its nursery say to each other; frames as in `simulator.wire`. Both are trusted."""

from __future__ import annotations

import msgspec

from autograder.sandbox.limits import Limits


class Open(msgspec.Struct, array_like=True, tag="open"):
    """`apart`: in namespaces of its own. Without it the room's processes are only limited."""

    limits: Limits
    apart: bool
    alone: bool  # nothing else runs with this user id here


class Opened(msgspec.Struct, array_like=True, tag="opened"):
    """`problem` is "" when there is a room."""

    problem: str


decode_open = msgspec.msgpack.Decoder(Open).decode
decode_opened = msgspec.msgpack.Decoder(Opened).decode
