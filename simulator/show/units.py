"""Virtual durations as people read them.

Everything in a trace is integer virtual nanoseconds; pictures and texts choose ns, us, ms or s by size. Three
significant digits are kept, which is more than any cost model deserves.
"""

from __future__ import annotations

UNITS: tuple[tuple[str, int], ...] = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))


def unit_of(ns: int) -> tuple[str, int]:
    """Returns (name, nanoseconds per unit) of the largest unit that does not exceed a duration."""
    return next(((name, size) for name, size in UNITS if abs(ns) >= size), UNITS[-1])


def duration(ns: int) -> str:
    """Formats a duration given in virtual nanoseconds, such as ``3.0 ms`` or ``1,800 s``."""
    name, size = unit_of(ns)
    value = ns / size
    if size == 1 or abs(value) >= 100:
        return f"{value:,.0f} {name}"
    if abs(value) >= 10:
        return f"{value:.1f}".removesuffix(".0") + f" {name}"
    digits = f"{value:.2f}"
    return f"{digits.removesuffix('0')} {name}"


def percent(part: int, whole: int) -> str:
    """Formats a share with one decimal; a share of nothing is ``0.0 %``."""
    return f"{100 * part / whole if whole else 0:.1f} %"


def ranks(numbers: list[int] | tuple[int, ...]) -> str:
    """Names ranks in a sentence: ``rank 1``, ``ranks 0 and 2``, ``ranks 0-5 and 7``."""
    names = _runs(sorted(set(numbers)))
    word = "rank" if len(set(numbers)) == 1 else "ranks"
    return f"{word} {names[0]}" if len(names) == 1 else f"{word} {', '.join(names[:-1])} and {names[-1]}"


def _runs(numbers: list[int]) -> list[str]:
    """Writes three or more consecutive numbers as first-last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    names: list[str] = []
    for run in runs:
        names += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return names or ["none"]
