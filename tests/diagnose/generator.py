"""Healthy programs from a seed: collectives in groups, async works, messages, barriers, objects, uneven compute."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.diagnose.program import COLLECTIVES, REDUCING, ROOTED, Op, Program

REDUCE_OPS = ("SUM", "MAX", "MIN", "AVG")
DTYPES = ("float32", "float64", "int64", "bfloat16")


class Writer:
    """Writes one program: the same lines for every rank, and what only some ranks do (messages, branches, compute)."""

    def __init__(self, seed: int, *, for_defect: bool = False) -> None:
        self.random = random.Random(seed)
        self.world_size = self.random.choice([2, 3, 3, 3, 4, 4, 4, 5])
        self.groups = self._make_groups()
        self.for_defect = for_defect
        self.ranks: list[list[Op]] = [[] for _ in range(self.world_size)]
        self.line = 0

    def _make_groups(self) -> dict[str, tuple[int, ...]]:
        groups = {"default": tuple(range(self.world_size))}
        for k in range(self.random.choice([0, 1, 1, 2]) if self.world_size > 2 else self.random.choice([0, 1])):
            size = self.random.randint(2, self.world_size)
            groups[f"g{k}"] = tuple(sorted(self.random.sample(range(self.world_size), size)))
        return groups

    def write(self, *, min_steps: int = 2) -> Program:
        """Some lines, a loop in steps, some lines."""
        self._block([-1], self.random.randint(1, 3))
        self._block(list(range(self.random.randint(min_steps, min_steps + 2))), self.random.randint(2, 4))
        self._block([-1], self.random.randint(1, 3))
        return Program(self.world_size, self.groups, tuple(map(tuple, self.ranks)))

    def _block(self, steps: list[int], length: int) -> None:
        """A body of `length` elements, for every step."""
        body = []
        for _ in range(length):
            self.line += 10
            body.append(self._element(self.line))
        open_works = [self.random.random() < 0.5 for _ in body]
        for step in steps:
            late: list[tuple[Op, tuple[int, ...]]] = []
            for element, stays_open in zip(body, open_works, strict=True):
                self._compute(step)
                for op, ranks in element:
                    self._emit(op, ranks, step)
                    if op.is_async:
                        wait = (Op("wait", op.line + 1), ranks)
                        if stays_open:
                            late.append(wait)
                        else:
                            self._emit(*wait, step)
            if self.random.random() < 0.5:
                late.reverse()
            for wait_op, ranks in late:
                self._emit(wait_op, ranks, step)

    def _emit(self, op: Op, ranks: tuple[int, ...], step: int) -> None:
        for rank in ranks:
            self.ranks[rank].append(replace(op, step=step))

    def _compute(self, step: int) -> None:
        """Own work before an element: a little different on each rank, and now and then much longer on one."""
        base = self.random.choice([5e-5, 1e-4, 2e-4])
        odd = self.random.randrange(self.world_size) if self.random.random() < 0.1 else -1
        for rank in range(self.world_size):
            seconds = base * self.random.uniform(0.92, 1.08) * (3 if rank == odd else 1)
            self.ranks[rank].append(Op("code", 1, step, code=f"compute({seconds:.9f})"))

    def _element(self, line: int) -> list[tuple[Op, tuple[int, ...]]]:
        """One thing that ranks do together."""
        chance = self.random.random()
        everyone = tuple(range(self.world_size))
        if chance < 0.12:
            return self._messages(line)
        if chance < 0.2 and not self.for_defect:
            return [(Op("code", line, code=self.random.choice(LEGAL)), everyone)]
        if chance < 0.28 and not self.for_defect:
            return self._broadcast_in_branches(line)
        group = self.random.choice(list(self.groups)) if self.random.random() < 0.4 else "default"
        return [(self.collective(line, group), self.groups[group])]

    def collective(self, line: int, group: str) -> Op:
        op = self.random.choice(COLLECTIVES)
        dtype = self.random.choice(DTYPES)
        reduce = self.random.choice(REDUCE_OPS if dtype.startswith(("float", "bf")) else REDUCE_OPS[:3])
        if op == "all_to_all_single" and dtype == "bfloat16":
            dtype = "float32"
        shape = self.random.choice([(1,), (4,), (8,), (3, 2)])
        if op == "all_to_all_single" and self.for_defect:
            shape = (4,)  # the coordinator does not compare the splits of different ranks: gloo would abort
        return Op(
            op,
            line,
            shape=shape,
            dtype=dtype,
            reduce=reduce if op in REDUCING else "SUM",
            root=self.random.choice(self.groups[group]) if op in ROOTED else 0,
            group=group,
            is_async=op not in ("all_gather_object",) and self.random.random() < 0.25,
        )

    def _messages(self, line: int) -> list[tuple[Op, tuple[int, ...]]]:
        """A ring, or a pair that answers: always one side first."""
        tag = self.random.randrange(3)
        if self.world_size > 2 and self.random.random() < 0.5:
            return [(Op("code", line, code=RING.format(tag=tag)), tuple(range(self.world_size)))]
        a, b = self.random.sample(range(self.world_size), 2)
        there = (f"dist.send(full((2,), 'float32'), {b}, tag={tag})", f"dist.recv(torch.empty(2), {a}, tag={tag})")
        back = (f"dist.recv(torch.empty(3), {b}, tag={tag})", f"dist.send(torch.ones(3), {a}, tag={tag})")
        return [
            (Op("code", line, code=there[0]), (a,)),
            (Op("code", line + 1, code=there[1]), (b,)),
            (Op("code", line + 2, code=back[0]), (a,)),
            (Op("code", line + 3, code=back[1]), (b,)),
        ]

    def _broadcast_in_branches(self, line: int) -> list[tuple[Op, tuple[int, ...]]]:
        """`for src: if src == rank: broadcast(mine) else: broadcast(theirs)`."""
        ops = []
        for root in range(self.world_size):
            call = f"t = full((2,), 'float32'); dist.broadcast(t, {root})"
            ops.append((Op("code", line, code=call), (root,)))
            ops.append((Op("code", line + 2, code=call), tuple(r for r in range(self.world_size) if r != root)))
        return ops


RING = (
    "w = dist.isend(full((2,), 'float32'), (rank + 1) % world_size, tag={tag}); "
    "dist.recv(torch.empty(2), (rank - 1) % world_size, tag={tag}); w.wait()"
)

#: Legal things that a careless reader of traces would accuse.
LEGAL = (
    # uneven all_to_all: every rank passes other shapes
    "dist.all_to_all_single(torch.empty(world_size * (rank + 1)), torch.ones(sum(r + 1 for r in range(world_size))), "
    "[rank + 1] * world_size, [r + 1 for r in range(world_size)])",
    # a receive from anyone, with a tag that no other message has: it may take whatever comes
    "[dist.recv(torch.empty(1), tag=7) for _ in range(world_size - 1)] if rank == 0 else "
    "dist.send(torch.ones(1), 0, tag=7)",
    # works waited for in the other order on half of the ranks
    "ws = [dist.all_reduce(full((k + 1,), 'float32'), async_op=True) for k in range(3)]; "
    "[w.wait() for w in (ws[::-1] if rank % 2 else ws)]",
    # a pipeline: what arrives from the left goes to the right
    "t = torch.ones(2); (dist.recv(t, rank - 1) if rank else None); "
    "(dist.send(t, rank + 1) if rank + 1 < world_size else None)",
    "b = [{'rank': rank}]; dist.broadcast_object_list(b, 0)",
    "dist.monitored_barrier()",
    "[w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(1), (rank + 1) % world_size), "
    "dist.P2POp(dist.irecv, torch.empty(1), (rank - 1) % world_size)])]",
)
