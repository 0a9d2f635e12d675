"""One defect, at a random place of a healthy program, with what an exact diagnosis of it is.

In a group of two nobody has a majority, so both are named. Several defects can leave one and the same trace, because
ranks that call synchronously stop where they part; `witness.py` proves it case by case. Swapping two equal calls in one
line changes nothing but values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from simulator.diagnose import diagnosis as d
from tests.diagnose.generator import DTYPES, Writer
from tests.diagnose.places import Faulty, Unfit, places, tie, with_defect, without
from tests.diagnose.program import REDUCING, ROOTED, Op, Program


def faulty(seed: int) -> Faulty:
    """The faulty program of a seed: classes in turn, so that each is met equally often."""
    kind, inject = INJECTIONS[seed % len(INJECTIONS)]
    for attempt in range(200):
        writer = Writer(1_000_000 + 1000 * seed + attempt, for_defect=True)
        healthy = writer.write(min_steps=5 if kind == d.SLOW else 2)
        try:
            found = inject(writer, healthy)
        except Unfit:
            continue
        return replace(found, seed=seed)
    raise AssertionError(f"no program for {kind} in 200 attempts")


# ---- the defects ----
def _omit(writer: Writer, program: Program) -> Faulty:
    rank, index, ops, op = places(writer, program)
    found = program.with_rank(rank, without(ops, index))
    return with_defect(found, program, d.OMITTED, rank, op.group)


def _repeat(writer: Writer, program: Program) -> Faulty:
    rank, index, ops, op = places(writer, program, lambda op: not op.is_async)
    found = program.with_rank(rank, [*ops[: index + 1], op, *ops[index + 1 :]])
    return with_defect(found, program, d.EXTRA, rank, op.group)


def _branch(writer: Writer, program: Program) -> Faulty:
    rank, index, ops, op = places(writer, program)
    group = writer.random.choice([name for name, members in program.groups.items() if rank in members])
    more = replace(writer.collective(op.line + 5, group), step=op.step, is_async=False)
    if any(o.op == "wait" and o.line == op.line + 1 for o in ops[index + 1 :]):
        raise Unfit
    found = program.with_rank(rank, [*ops[: index + 1], more, *ops[index + 1 :]])
    return with_defect(found, program, d.BRANCH, rank, group)


def _uneven(writer: Writer, program: Program) -> Faulty:
    rank = writer.random.randrange(program.world_size)
    last = max(op.step for op in program.ranks[rank])
    body = [op for op in program.ranks[rank] if op.step == last]
    calls = [op for op in body if op.is_collective]
    if not calls or any(op.op == "code" and not op.code.startswith("compute") for op in body):
        raise Unfit
    ops = list(program.ranks[rank])
    end = max(k for k, op in enumerate(ops) if op.step == last)
    if writer.random.random() < 0.5:
        kept = [op for op in ops if op.step != last]
    else:
        kept = [*ops[: end + 1], *(replace(op, step=last + 1) for op in body), *ops[end + 1 :]]
    members = {len(program.groups[op.group]) == 2 for op in calls}
    pair = frozenset(program.groups[calls[0].group])
    found = program.with_rank(rank, kept)
    blamed = pair if tie(program, calls[0].group) else frozenset({rank})
    also = frozenset({rank}) if True in members else frozenset()
    return Faulty(0, found, program, d.UNEVEN, blamed, also)


def _swap(writer: Writer, program: Program) -> Faulty:
    return _exchange(writer, program, same_group=True)


def _deadlock_groups(writer: Writer, program: Program) -> Faulty:
    return _exchange(writer, program, same_group=False)


def _exchange(writer: Writer, program: Program, *, same_group: bool) -> Faulty:
    """Swap two neighbouring synchronous calls on one rank."""
    pairs = []
    for rank, ops in enumerate(program.ranks):
        kept = [k for k, op in enumerate(ops) if not op.code.startswith("compute")]
        for a, b in pairwise(kept):
            x, y = ops[a], ops[b]
            fits = x.is_collective and y.is_collective and not x.is_async and not y.is_async and x.step == y.step
            shared = set(program.groups[x.group]) & set(program.groups[y.group]) if fits else set()
            if fits and (x.group == y.group) == same_group and len(shared) > 1 and x.line != y.line:
                pairs.append((rank, a, b, shared))
    if not pairs:
        raise Unfit
    rank, a, b, shared = writer.random.choice(pairs)
    ops = list(program.ranks[rank])
    first = ops[a]
    ops[a], ops[b] = ops[b], ops[a]
    found = program.with_rank(rank, ops)
    if same_group:
        return with_defect(found, program, d.SWAPPED, rank, first.group)
    blamed = frozenset(shared) if len(shared) == 2 else frozenset({rank})
    return Faulty(0, found, program, d.DEADLOCK_GROUPS, blamed, frozenset({rank}))


def _change(
    kind: str, fits: Callable[[Op], bool], change: Callable[[Writer, Program, Op], Op]
) -> Callable[[Writer, Program], Faulty]:
    """A defect that changes one call of one rank, in the same line."""

    def inject(writer: Writer, program: Program) -> Faulty:
        rank, index, ops, op = places(writer, program, fits)
        ops[index] = change(writer, program, op)
        return with_defect(program.with_rank(rank, ops), program, kind, rank, op.group)

    return inject


def _other(writer: Writer, values: tuple[object, ...], old: object) -> object:
    return writer.random.choice([value for value in values if value != old])


def _with_shape(writer: Writer, program: Program, op: Op) -> Op:
    return replace(op, shape=_other(writer, ((2,), (4,), (6,), (5, 2)), op.shape))  # type: ignore[arg-type]


def _with_dtype(writer: Writer, program: Program, op: Op) -> Op:
    return replace(op, dtype=_other(writer, DTYPES, op.dtype))  # type: ignore[arg-type]


def _with_reduce(writer: Writer, program: Program, op: Op) -> Op:
    return replace(op, reduce=_other(writer, ("SUM", "MAX", "MIN"), op.reduce))  # type: ignore[arg-type]


def _with_root(writer: Writer, program: Program, op: Op) -> Op:
    return replace(op, root=_other(writer, program.groups[op.group], op.root))  # type: ignore[arg-type]


def _with_op(writer: Writer, program: Program, op: Op) -> Op:
    names = ("all_reduce", "broadcast", "all_gather", "barrier")
    name = str(_other(writer, names, op.op))
    return replace(op, op=name, root=program.groups[op.group][0], reduce="SUM", shape=(3,))


_SHAPED = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor")


def _group(writer: Writer, program: Program) -> Faulty:
    rank, index, ops, op = places(writer, program, lambda op: op.op not in (*ROOTED, "all_gather_object"))
    others = [name for name, members in program.groups.items() if name != op.group and rank in members]
    if not others:
        raise Unfit
    other = writer.random.choice(others)
    ops[index] = replace(op, group=other)
    shared = frozenset(program.groups[op.group]) & frozenset(program.groups[other])
    blamed = frozenset({rank})
    found = program.with_rank(rank, ops)
    return Faulty(0, found, program, d.GROUP, blamed, shared if len(shared) == 2 else frozenset())


def _kill(writer: Writer, program: Program) -> Faulty:
    rank = writer.random.randrange(program.world_size)
    calls = sum(op.is_collective for op in program.ranks[rank])
    faults = f"kill(rank={rank}, collective={writer.random.randrange(calls)})" if calls else ""
    if not faults:
        raise Unfit
    return Faulty(0, replace(program, faults=faults), program, d.DEAD, frozenset({rank}))


def _raise(writer: Writer, program: Program) -> Faulty:
    rank, index, ops, op = places(writer, program)
    code = writer.random.choice(["raise ValueError('bad batch')", "os._exit(3)", "[][0]"])
    ops.insert(index, Op("code", op.line - 3, op.step, code=code))
    return Faulty(0, program.with_rank(rank, ops), program, d.DEAD, frozenset({rank}))


def _slow(writer: Writer, program: Program) -> Faulty:
    rank = writer.random.randrange(program.world_size)
    in_steps = [op for op in program.ranks[rank] if op.step >= 0]
    if not any(op.is_collective and op.group == "default" for op in in_steps):
        raise Unfit
    factor = writer.random.choice([3, 5])
    found = replace(program, faults=f"slow(rank={rank}, factor={factor})")
    return Faulty(0, found, program, d.SLOW, frozenset({rank}))


def _messages(writer: Writer, program: Program) -> Faulty:
    """Two ranks send first, or all ranks of a ring receive first."""
    _, _, _, op = places(writer, program, lambda op: op.group == "default" and not op.is_async)
    if writer.random.random() < 0.5:
        members = tuple(range(program.world_size))
        code = "dist.recv(torch.empty(1), (rank - 1) % world_size); dist.send(torch.ones(1), (rank + 1) % world_size)"
    else:
        a, b = writer.random.sample(range(program.world_size), 2)
        members = (a, b)
        code = f"q = {a} if rank == {b} else {b}; dist.send(torch.ones(1), q); dist.recv(torch.empty(1), q)"
    found = program
    for rank in members:
        ops = list(found.ranks[rank])
        at = next(k for k, o in enumerate(ops) if (o.line, o.step) == (op.line, op.step))
        ops.insert(at, Op("code", op.line - 3, op.step, code=code))
        found = found.with_rank(rank, ops)
    return Faulty(0, found, program, d.DEADLOCK_P2P, frozenset(members))


INJECTIONS: tuple[tuple[str, Callable[[Writer, Program], Faulty]], ...] = (
    (d.OMITTED, _omit),
    (d.EXTRA, _repeat),
    (d.BRANCH, _branch),
    (d.UNEVEN, _uneven),
    (d.SWAPPED, _swap),
    (d.SHAPE, _change(d.SHAPE, lambda op: op.op in _SHAPED, _with_shape)),
    (d.DTYPE, _change(d.DTYPE, lambda op: op.op in _SHAPED, _with_dtype)),
    (d.OPERATION, _change(d.OPERATION, lambda op: op.op in (*_SHAPED, "barrier"), _with_op)),
    (d.REDUCE_OP, _change(d.REDUCE_OP, lambda op: op.op in REDUCING, _with_reduce)),
    (d.ROOT, _change(d.ROOT, lambda op: op.op in ROOTED, _with_root)),
    (d.GROUP, _group),
    (d.DEAD, _kill),
    (d.DEAD, _raise),
    (d.SLOW, _slow),
    (d.DEADLOCK_GROUPS, _deadlock_groups),
    (d.DEADLOCK_P2P, _messages),
)
