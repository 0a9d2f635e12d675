"""What the memory of one rank was: the answer of its ledger, as it travels to the caller.

Reported by the rank, not witnessed: code that wants to can lie here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from simulator.memory.units import size

if TYPE_CHECKING:
    from simulator.memory.ledger import Ledger


class MemoryReport(msgspec.Struct, frozen=True):
    """Bytes of live tensor storages of one rank.

    Attributes:
        peak_bytes, live_bytes: the most at one time, and at the end.
        by_kind, by_module: bytes at the peak (see `simulator.memory.record.KINDS`; "" for no module).
        largest: the largest holders at the peak, in words.
    """

    peak_bytes: int
    live_bytes: int
    by_kind: dict[str, int]
    by_module: dict[str, int]
    largest: tuple[str, ...]

    def __str__(self) -> str:
        kinds = ", ".join(f"{size(n)} {kind.replace('_', ' ')}" for kind, n in self.by_kind.items() if n)
        return f"peak {size(self.peak_bytes)}: {kinds or 'nothing'}"


def encode(ledger: Ledger) -> bytes:
    """The report of a ledger."""
    from simulator.memory.holders import largest

    held = ledger.holders(at_peak=True)
    report = MemoryReport(
        ledger.peak_bytes,
        ledger.live_bytes,
        ledger.by_kind(at_peak=True),
        ledger.by_module(at_peak=True),
        tuple(largest(held)),
    )
    return msgspec.msgpack.encode(report)


def decode(data: bytes) -> MemoryReport | None:
    """The report in a rank's bytes; None where memory was not followed, or the bytes are no report."""
    try:
        return _decoder.decode(data) if data else None
    except msgspec.DecodeError:
        return None


_decoder = msgspec.msgpack.Decoder(MemoryReport)
