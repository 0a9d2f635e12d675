"""What can be wrong in a run that completed: two calls swapped without a trace but their lines, a slow rank, and
messages that nobody took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from statistics import median
from typing import Final, NamedTuple

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding
from simulator.diagnose.tape import Call, Group, Signature, Tapes, call_of
from simulator.trace import Event

SLOW_FACTOR: Final = 1.25  # a rank is slow when its own work takes this many times as long as the others' ...
SLOW_SHARE: Final = 0.8  # ... in this share of the rounds ...
SLOW_ROUNDS: Final = 4  # ... of at least this many: once is not slow
_BRANCH_LINES = 2  # lines of the branches of one if/else may alternate legally


class _Run(NamedTuple):
    """What one line called in one step, one call after the other; `start`: the number of its first collective."""

    start: int
    calls: tuple[Call, ...]

    @property
    def signatures(self) -> tuple[Signature, ...]:
        return tuple(call.signature for call in self.calls)

    @property
    def first(self) -> Call:
        return self.calls[0]


def crossed_calls(tapes: Tapes) -> Finding | None:
    """Two neighbouring lines, alike in everything they call, that a minority goes through the other way round."""
    found = [f for group, rows in tapes.groups.items() if len(rows) > 1 and (f := _crossed(group, rows))]
    return min(found, key=lambda f: (f.at_ns, f.group), default=None)


def _crossed(group: Group, rows: dict[int, list[Event]]) -> Finding | None:
    runs = {rank: _runs(events) for rank, events in rows.items()}
    for k in range(min(map(len, runs.values())) - 1):
        pairs = {rank: (mine[k], mine[k + 1]) for rank, mine in runs.items()}
        if odd := _reversed(pairs):
            is_tie = 2 * len(odd) == len(rows)
            calls = tuple(events[pairs[rank][0].start] for rank, events in sorted(rows.items()))
            at = min(event.issue_ns for event in calls)
            ranks = tuple(sorted(rows)) if is_tie else odd
            return Finding(d.SWAPPED, ranks, at, (), group.name, calls[0].seq, calls, is_tie=is_tie)
    return None


def _runs(events: list[Event]) -> list[_Run]:
    found, start = [], 0
    for _, calls in groupby(map(call_of, events), key=lambda call: (call.site, call.step)):
        found.append(_Run(start, tuple(calls)))
        start += len(found[-1].calls)
    return found


def _reversed(pairs: dict[int, tuple[_Run, _Run]]) -> tuple[int, ...]:
    """The ranks that go through the two lines the other way round, when every other rank agrees."""
    if len({run.signatures for pair in pairs.values() for run in pair}) > 1:
        return ()
    lines = {rank: (x.first.site, y.first.site) for rank, (x, y) in pairs.items()}
    counts = Counter(lines.values())
    usual = max(counts, key=lambda pair: (counts[pair], pair))
    if len(counts) != 2 or usual[0] == usual[1] or usual[::-1] not in counts:
        return ()
    x, y = (run.first for run in next(iter(pairs.values())))
    if x.file == y.file and abs(x.line - y.line) <= _BRANCH_LINES:
        return ()
    return tuple(sorted(rank for rank, pair in lines.items() if pair != usual))


def unmet_messages(tapes: Tapes) -> tuple[Event, ...]:
    """Messages of ranks that finished whose other end never came; nobody waited for them."""
    finished = [rank for rank in tapes.present if tapes.has_finished(rank)]
    return tuple(e for rank in finished for e in tapes.calls[rank] if e.is_p2p and e.status == "pending")


def slow_rank(tapes: Tapes) -> Finding | None:
    """A rank whose own work takes longer, round after round: the one that the others wait for.

    The rank with the largest collective times is not it: those are the ranks that wait.
    """
    groups = [(group, rows) for group, rows in tapes.groups.items() if len(rows) > 1]
    if not groups:
        return None
    group, rows = max(groups, key=lambda item: (len(item[1]), sum(map(len, item[1].values()))))
    work = {rank: list(_own_work(tapes, rank, events)) for rank, events in rows.items()}
    rounds = [
        {rank: ns for rank, (ns, _) in zip(work, parts, strict=True)}
        for parts in zip(*work.values(), strict=False)
        if len({site for _, site in parts}) == 1  # a rank that does something else (DDP's join) is not slower at it
    ]
    slow = tuple(rank for rank in work if _is_slow(rank, rounds))
    if not slow or 2 * len(slow) > len(work):
        return None
    factor = sum(r[slow[0]] for r in rounds) / max(1, sum(_others(r, slow[0]) for r in rounds))
    calls = tuple(events[0] for _, events in sorted(rows.items()) if events)
    return Finding(d.SLOW, slow, 0, group=group.name, calls=calls, why=f"{factor:.2g} times as long")


def _own_work(tapes: Tapes, rank: int, events: list[Event]) -> Iterator[tuple[int, str]]:
    """Nanoseconds of the rank's own work before each collective of a group, and the line of that; by step where there
    are steps.
    """
    blocked = sorted((e.wait_ns, e.end_ns) for e in tapes.calls[rank] if 0 <= e.wait_ns < e.end_ns)
    firsts = events[:1] + [event for before, event in pairwise(events) if before.step != event.step]
    for before, event in pairwise(firsts if len(firsts) > SLOW_ROUNDS else events):
        start, end = before.issue_ns, event.issue_ns
        yield end - start - sum(max(0, min(b, end) - max(a, start)) for a, b in blocked), event.site


def _is_slow(rank: int, rounds: list[dict[int, int]]) -> bool:
    if len(rounds) < SLOW_ROUNDS:
        return False
    late = sum(times[rank] > SLOW_FACTOR * _others(times, rank) for times in rounds)
    return late >= SLOW_SHARE * len(rounds)


def _others(times: dict[int, int], rank: int) -> float:
    return median(value for other, value in times.items() if other != rank)
