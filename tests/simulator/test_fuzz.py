"""A hostile rank says anything: the engine goes on or refuses, never breaks, and never answers for ever."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from simulator import values, wire
from simulator.cluster import get_cluster
from simulator.coordinator.engine import Engine
from simulator.coordinator.records import ProtocolError
from simulator.errors import ResultError

#: What fields hold most of the time, so that most records mean something.
LIKELY: dict[str, tuple[Any, ...]] = {
    "thread": ("0",),
    "group": ("pg",),
    "op": ("send", "recv", "all_reduce", "barrier"),
    "call": ("get", "wait", "add", "check", "delete", "num_keys", "append", "compare_set"),
    "keys": (["a"], ["a", "b"]),
    "values": ([b"1"], [b"1", b"2"]),
    "peer": (-1, 0, 1),
    "shapes": ([[2]], []),
    "bytes": (8,),
    "ranks": ([0, 1],),
    "work": tuple(range(12)),
    "slow": (1.0, 2.5),
    "cut": ("", "partition(sets=((0,), (1,)))"),
}
WORDS = ("", "0", "1", "pg", "send", "recv", "all_reduce", "barrier", "get", "add", "compare_set", "compute", "SUM")
NUMBERS = (-(1 << 63), -2, -1, 0, 1, 2, 3, 99, 1 << 31, 1 << 61, (1 << 64) - 1)
RECORDS = tuple(wire.Record.__args__)


def _value(kind: Any, chance: random.Random) -> Any:
    """Something that a field of that type may hold, or, now and then, may not."""
    if chance.random() < 0.01:
        return chance.choice((None, [], {}, b"\xff", 1.5))
    name = str(kind)
    if "tuple" in name:
        inner = "bytes" if "bytes" in name else "str" if "str" in name else "int"
        return [_value(inner, chance) for _ in range(chance.randrange(4))] if "tuple[tuple" not in name else []
    if "bool" in name:
        return chance.random() < 0.5
    if "bytes" in name:
        return chance.choice((b"", b"1", b"x" * 30))
    if "Literal" in name:
        return chance.choice(("done", "error", "killed", "hung", "stopped", "spinning", "else"))
    if "int" in name or name in ("Ns", "Size"):
        return chance.choice(NUMBERS) if chance.random() < 0.3 else chance.randrange(-1, 4)
    return chance.choice(WORDS)


def _field(field: Any, chance: random.Random) -> Any:
    if field.name in LIKELY and chance.random() < 0.95:
        return chance.choice(LIKELY[field.name])
    return _value(field.type, chance)


def _frame(chance: random.Random) -> bytes:
    """One record, rarely a Leave: after it nothing that a rank says matters."""
    kind = chance.choice(RECORDS)
    if kind is wire.Leave and chance.random() < 0.9:
        kind = wire.Op
    fields = [_field(field, chance) for field in msgspec.structs.fields(kind)]
    return msgspec.msgpack.encode([[kind.__struct_config__.tag, *fields]])


@pytest.mark.parametrize("seed", range(30))
def test_the_engine_survives_any_words(seed: int) -> None:
    """Rank 0 and rank 1 talk nonsense until they are cut off; then the run is over and can be told."""
    chance, engine = random.Random(seed), Engine(2, get_cluster("a100-80gb"))
    for rank in (0, 1):
        group = wire.GroupDef("pg", "pg", (0, 1))
        engine.receive(rank, [group])
    alive = {0, 1}
    for _ in range(100):
        for rank in sorted(alive):
            try:
                engine.receive(rank, wire.decode_records(_frame(chance)))
            except (msgspec.MsgspecError, ProtocolError):
                if chance.random() < 0.02:
                    engine.closed(rank)
                    alive.discard(rank)
        engine.settle()
    for rank in alive:
        engine.closed(rank)
    engine.settle()
    assert engine.finished
    msgspec.msgpack.encode(engine.events())


@pytest.mark.parametrize("seed", range(20))
def test_results_that_no_rank_of_ours_sends_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    honest = values.encode([{"a": 1, "b": (2.5, b"x")}, "text"])
    for _ in range(500):
        data = bytearray(honest)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            values.decode(bytes(data))
        except ResultError:
            continue
