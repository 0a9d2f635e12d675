"""Proof that a trace allows another reading: a healthy program that one defect of that reading turns into this trace.

Ranks stop where they part, so what the program says after that is free. The proof is two runs: the healthy program
completes and is not accused, and with the defect, one edit of one rank, the trace is event for event the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, combinations

import simulator
from simulator.diagnose import diagnose
from simulator.diagnose import diagnosis as d
from tests.diagnose.places import Faulty, without
from tests.diagnose.program import Op, Program, run_program


def is_proven(case: Faulty, trace: simulator.Trace, kind: str) -> bool:
    """Whether one defect of class `kind`, on one of the ranks involved, leaves the trace of `case`, too."""
    stops = [_stop(trace.of_rank(rank), case.program.ranks[rank]) for rank in range(case.program.world_size)]
    tried: set[tuple[str, str]] = set()
    for healthy, faulty in _candidates(case, stops, kind):
        texts = (healthy.listing(), faulty.listing())
        if texts in tried:
            continue
        tried.add(texts)
        if _leaves(trace, healthy, faulty):
            return True
    return False


def _leaves(trace: simulator.Trace, healthy: Program, faulty: Program) -> bool:
    well = run_program(healthy)
    if well.outcome.name != "Completed" or not diagnose(well.trace).is_healthy:
        return False
    return list(run_program(faulty).trace) == list(trace)


def _stop(events: list, ops: tuple[Op, ...]) -> int:
    """Index of the last line that a rank came to."""
    if events[-1].status == "done":
        return len(ops)
    calls = [e for e in events if e.is_communication]
    lines = [int(e.site.rpartition(":")[2]) for e in calls]
    came = [k for k, op in enumerate(ops) for e, line in zip(calls, lines, strict=True) if _is_of(op, e, line)]
    waited = [
        k
        for k, op in enumerate(ops)
        for e, line in zip(calls, lines, strict=True)
        if e.wait_ns > e.issue_ns and op.op == "wait" and _is_of(replace(op, line=op.line - 1), e, line)
    ]
    return max([*came, *waited], default=-1)


def _is_of(op: Op, event, line: int) -> bool:
    return op.line == line and op.step in (-1, event.step)


def _same_until(stops: list[int], a: Program, b: Program) -> bool:
    return all(
        _in_steps(x[: stop + 1]) == _in_steps(y[: stop + 1]) for stop, x, y in zip(stops, a.ranks, b.ranks, strict=True)
    )


def _in_steps(ops: Sequence[Op]) -> list[Op]:
    """A line outside of steps counts to the step before it, as in a trace."""
    steps = accumulate((op.step for op in ops), max)
    return [replace(op, step=step) for op, step in zip(ops, steps, strict=True)]


def _without_work(ops: Iterable[Op]) -> list[Op]:
    return [op for op in ops if not op.code.startswith("compute")]


def _with_work_of(like: Sequence[Op], lines: Sequence[Op]) -> list[Op]:
    """`lines`, each after the own work before it in `like`, where it may be in a step instead of after the loop."""
    work: dict[tuple[Op, int], list[Op]] = {}
    counts: Counter[Op] = Counter()
    before: list[Op] = []
    for op in like:
        if op.code.startswith("compute"):
            before.append(op)
        else:
            work[op, counts[op]], before = before, []
            counts[op] += 1
    counts.clear()
    found: list[Op] = []
    for op, in_step in zip(lines, _in_steps(lines), strict=True):
        found += [*(work.get((op, counts[op])) or work.get((in_step, counts[op]), ())), op]
        counts[op] += 1
    return found


def _candidates(case: Faulty, stops: list[int], kind: str) -> Iterator[tuple[Program, Program]]:
    """Pairs of a program that may be healthy, and the same with one defect of this class on one rank."""
    ranks = sorted(case.ranks | case.also_ranks)
    for healthy in _bases(case, stops, ranks):
        for rank in ranks:
            lines = _without_work(healthy.ranks[rank])
            stop = len(_without_work(case.program.ranks[rank][: stops[rank] + 1])) - 1
            for edited in _edits(lines, _without_work(case.program.ranks[rank]), stop, kind):
                ops = _with_work_of(case.program.ranks[rank], edited)
                faulty = healthy.with_rank(rank, ops)
                if _same_until(stops, faulty, case.program):
                    yield healthy.with_rank(rank, _with_work_of(ops, lines)), faulty


def _bases(case: Faulty, stops: list[int], ranks: list[int]) -> Iterator[Program]:
    """The program without its defect, or mended the other way round: what one did is done by everybody, or by nobody;
    or what one did is done by everybody after the loop, whether or not it is also done in the loop.
    """
    yield case.healthy
    for rank in ranks:
        mine = case.program.ranks[rank]
        stop = min(stops[rank], len(mine) - 1)
        called = next((op for op in mine[stop::-1] if op.is_collective), None)
        if called is None:
            continue
        members = case.program.groups[called.group]
        yield _with_everybody(case, members, rank, called)
        yield _after_the_loop(case.healthy, members, called)
        yield _after_the_loop(_with_no_line(case.healthy, members, called), members, called)
        for base in (case.healthy, case.program):
            yield _with_nobody(base, members, called)


def _with_everybody(case: Faulty, members: tuple[int, ...], rank: int, call: Op) -> Program:
    """`call` of `rank` is made by all members, after the same line as there."""
    found, mine = case.program, list(case.program.ranks[rank])
    at = mine.index(call)
    for other in members:
        ops = list(found.ranks[other])
        missing = mine.count(call) - ops.count(call)
        if missing > 0:
            place = _after(ops, mine[:at])
            ops[place:place] = [call] * missing
            found = found.with_rank(other, ops)
    return found


def _after(ops: list[Op], before: list[Op]) -> int:
    """The place in `ops` after the last line of `before` that is there, too."""
    for earlier in reversed(before):
        if not earlier.code.startswith("compute") and earlier in ops:
            return len(ops) - ops[::-1].index(earlier)
    return next((k for k, op in enumerate(ops) if not op.code.startswith("compute")), 0)


def _with_nobody(program: Program, members: tuple[int, ...], call: Op) -> Program:
    for member in members:
        ops = list(program.ranks[member])
        if call in ops:
            program = program.with_rank(member, without(ops, ops.index(call)))
    return program


def _with_no_line(program: Program, members: tuple[int, ...], call: Op) -> Program:
    for member in members:
        for op in (op for op in program.ranks[member] if op.line == call.line and op.is_collective):
            program = _with_nobody(program, (member,), op)
    return program


def _after_the_loop(program: Program, members: tuple[int, ...], call: Op) -> Program:
    for member in members:
        ops = list(program.ranks[member])
        end = max((k for k, op in enumerate(ops) if op.step >= 0), default=-1) + 1
        program = program.with_rank(member, [*ops[:end], replace(call, step=-1), *ops[end:]])
    return program


def _edits(ops: list[Op], seen: list[Op], stop: int, kind: str) -> Iterator[list[Op]]:
    """One defect of this class in the lines of a rank that stopped at `seen[stop]`, near that place."""
    near = range(max(0, stop - 12), min(len(ops), stop + 13))
    if kind == d.OMITTED:
        yield from (without(ops, k) for k in near if ops[k].is_collective)
    if kind in (d.EXTRA, d.BRANCH) and stop < len(seen):
        yield from ([*ops[:k], seen[stop], *ops[k:]] for k in near)
    if kind in (d.SWAPPED, d.DEADLOCK_GROUPS):
        for i, j in combinations((k for k in near if ops[k].is_collective), 2):
            if (ops[i].group == ops[j].group) == (kind == d.SWAPPED):
                end = j + 1 + (ops[j].is_async and ops[j + 1 : j + 2] == [_wait_of(ops[j])])  # a call and its wait
                for stop in {j + 1, end}:
                    yield [*ops[:i], *ops[j:stop], *ops[i + 1 : j], ops[i], *ops[stop:]]
    if kind == d.UNEVEN:
        yield from ([op for op in ops if op.step <= last] for last in sorted({op.step for op in ops}))


def _wait_of(op: Op) -> Op:
    return Op("wait", op.line + 1, op.step)
