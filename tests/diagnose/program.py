"""Generated programs as data: what one rank calls, line by line, and the code of each call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import simulator
from tests.diagnose.interpreter import Line, run_lines

ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all_reduce", "reduce", "reduce_scatter_tensor")
COLLECTIVES = (
    "all_reduce",
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "gather",
    "scatter",
    "all_to_all_single",
    "barrier",
    "all_gather_object",
)

_CODE = {
    "all_reduce": "dist.all_reduce(t, op=dist.ReduceOp.{reduce}{tail})",
    "broadcast": "dist.broadcast(t, {root}{tail})",
    "reduce": "dist.reduce(t, {root}, op=dist.ReduceOp.{reduce}{tail})",
    "all_gather": "dist.all_gather([torch.empty_like(t) for _ in range({size})], t{tail})",
    "all_gather_into_tensor": "dist.all_gather_into_tensor(full({shape}, '{dtype}', {size}), t{tail})",
    "reduce_scatter_tensor": (
        "dist.reduce_scatter_tensor(t, full({shape}, '{dtype}', {size}), op=dist.ReduceOp.{reduce}{tail})"
    ),
    "gather": "dist.gather(t, [torch.empty_like(t) for _ in range({size})] if rank == {root} else None, {root}{tail})",
    "scatter": "dist.scatter(t, [t.clone() for _ in range({size})] if rank == {root} else None, {root}{tail})",
    "all_to_all_single": (
        "dist.all_to_all_single(full({shape}, '{dtype}', {size}), full({shape}, '{dtype}', {size}){tail})"
    ),
    "barrier": "dist.barrier({tail})",
    "all_gather_object": "dist.all_gather_object([None] * {size}, [rank, 'x' * rank]{tail})",
}


@dataclass(frozen=True)
class Op:
    """One line of one rank. `op`: a collective, "wait" for an async one, or "code" for anything else."""

    op: str
    line: int
    step: int = -1
    shape: tuple[int, ...] = (4,)
    dtype: str = "float32"
    reduce: str = "SUM"
    root: int = 0
    group: str = "default"
    is_async: bool = False
    code: str = ""

    @property
    def is_collective(self) -> bool:
        return self.op not in ("wait", "code")

    def render(self, groups: dict[str, tuple[int, ...]]) -> str:
        if self.op == "code":
            return self.code
        if self.op == "wait":
            return f"works.pop('{self.line - 1}/{self.step}').wait()"
        tail = f", group=groups['{self.group}']" if self.group != "default" else ""
        tail += ", async_op=True" if self.is_async else ""
        call = _CODE[self.op].format(
            shape=self.shape,
            dtype=self.dtype,
            reduce=self.reduce,
            root=self.root,
            size=len(groups[self.group]),
            tail=tail,
        )
        call = call.replace("(, ", "(")
        made = f"t = full({self.shape}, '{self.dtype}'); out[key] = t; "
        return made + (f"works[key] = {call}" if self.is_async else call)


@dataclass(frozen=True)
class Program:
    """What every rank runs. `groups`: members by name; each rank makes them all, in this order."""

    world_size: int
    groups: dict[str, tuple[int, ...]]
    ranks: tuple[tuple[Op, ...], ...]
    faults: str = ""
    notes: tuple[str, ...] = field(default=())

    def arguments(self) -> list[tuple[dict[str, tuple[int, ...]], list[Line]]]:
        """`rank_args` for `run_lines`."""
        return [(self.groups, [(op.step, op.line, op.render(self.groups)) for op in ops]) for ops in self.ranks]

    def with_rank(self, rank: int, ops: list[Op]) -> Program:
        ranks = list(self.ranks)
        ranks[rank] = tuple(ops)
        return replace(self, ranks=tuple(ranks))

    def listing(self) -> str:
        """For a person who looks at a program that was diagnosed wrongly."""
        lines = []
        for rank, ops in enumerate(self.ranks):
            lines.append(f"rank {rank}")
            lines += [f"  step {op.step} line {op.line}: {op.render(self.groups)}" for op in ops]
        return "\n".join([f"groups {self.groups} faults {self.faults!r} {self.notes}", *lines])


def run_program(program: Program) -> simulator.Run:
    return simulator.run(
        run_lines, program.world_size, rank_args=program.arguments(), faults=program.faults, echo=False
    )
