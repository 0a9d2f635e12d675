"""Sizes and rates as people read them: 1 KiB is 1024 bytes."""

from __future__ import annotations

_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_COUNTS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def size(num_bytes: float) -> str:
    """Bytes in the largest unit that fits, such as ``12.50 MiB``; below one KiB exactly, ``96 B``."""
    for unit, scale in _SIZES:
        if abs(num_bytes) >= scale:
            return f"{num_bytes / scale:,.2f} {unit}"
    return f"{num_bytes:.0f} B"


def count(number: float, unit: str) -> str:
    """A number of `unit` with a decimal prefix, such as ``3.1 GFLOP``."""
    for prefix, scale in _COUNTS:
        if abs(number) >= scale:
            return f"{number / scale:,.1f} {prefix}{unit}"
    return f"{number:,.0f} {unit}"
