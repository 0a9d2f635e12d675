"""Check of lab1/tensor-attention: attention with its heads over the ranks, against the whole block on one rank.

Which rows and columns a rank has to hold is computed here; what the block gives comes from a run of the course's own
code on one rank. Where ranks share a key and value head, the gradients of its copies have to add up to the whole.
"""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab1.split_run import FREE
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, Any]

TOLERANCE = 1e-9
SEQUENCES, TOKENS, ITEM = 2, 5, 8
Count = Annotated[int, msgspec.Meta(ge=1, le=64)]


class Case(cases.Case, frozen=True):
    """A block of `heads` query heads and `kv_heads` key and value heads, `size` elements each."""

    heads: Count = 4
    kv_heads: Count = 4
    size: Count = 4

    @property
    def width(self) -> int:
        """Of the residual stream."""
        return self.heads * self.size

    def inputs(self) -> dict[str, Numbers]:
        """x, the factors of the loss, and the whole weights."""
        numbers, width = self.numbers(), self.width
        rows = (self.heads + 2 * self.kv_heads) * self.size
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("x", "factors"), (SEQUENCES, TOKENS, width))
        shapes |= {"norm": (width,), "qkv": (rows, width), "out": (width, width), "bias": (width,)}
        return {name: numbers.normal(size=shape) for name, shape in shapes.items()}

    def rows(self, rank: int) -> list[int]:
        """The rows of the whole qkv that rank `rank` holds: its query heads, then its keys, then its values."""
        mine, kv = self.heads // self.world_size, max(1, self.kv_heads // self.world_size)
        first = rank * self.kv_heads // self.world_size
        held = [*range(rank * mine, (rank + 1) * mine)]
        for start in (self.heads, self.heads + self.kv_heads):
            held += range(start + first, start + first + kv)
        return [head * self.size + i for head in held for i in range(self.size)]

    def columns(self, rank: int) -> slice:
        """The columns of the whole out that rank `rank` holds."""
        each = self.width // self.world_size
        return slice(rank * each, (rank + 1) * each)


class Said(msgspec.Struct):
    """A rank's slices, the bytes that each keeps alive, output, and gradients (of x, norm, qkv, out, bias)."""

    qkv: Array
    out: Array
    alive: list[int]
    output: Array
    gradients: list[Array]


def visible() -> list[Case]:
    """As many key and value heads as query heads, fewer, and fewer than ranks."""
    heads = {2: ((4, 4), (8, 4)), 3: ((6, 6), (6, 3), (3, 1)), 4: ((8, 8), (8, 4), (8, 2))}
    return [Case(world_size=w, heads=h, kv_heads=kv) for w, sizes in heads.items() for h, kv in sizes]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds with other numbers of heads and sizes."""
    found = []
    for w in (2, 3, 4):
        equal, fewer = w * rng.randint(1, 2), w * 2
        shared = rng.choice((1, 2)) if w == 4 else 1
        kinds = ((equal, equal), (fewer * rng.randint(2, 3), fewer), (w * rng.randint(1, 2), shared))
        found += [
            Case(world_size=w, draw=cases.number(rng), heads=h, kv_heads=kv, size=rng.randint(2, 5)) for h, kv in kinds
        ]
    return found


def _whole(case: Case) -> Any:
    import torch

    from autograder.checks.lab1.heads import Weights

    x, factors, norm, qkv, out, bias = (torch.from_numpy(values) for values in case.inputs().values())
    return x.requires_grad_(), factors, Weights(norm, qkv, out, bias, case.heads, case.kv_heads)


def _step(case: Case, part: Any, block: Any) -> tuple[Array, list[Array]]:
    """Output and gradients of forward and backward with these weights, which become leaves."""
    import torch

    import simulator

    x, factors, _ = _whole(case)
    leaves = [x, *(tensor.detach().clone().requires_grad_() for tensor in part[:4])]
    with simulator.annotate("forward"):
        out = block(x, part._replace(norm=leaves[1], qkv=leaves[2], out=leaves[3], bias=leaves[4]))
    with simulator.annotate("backward"):
        (out * factors).sum().backward()
    return array(out), [array(torch.zeros_like(t) if t.grad is None else t.grad) for t in leaves]


def on_rank(case: Case, cut: Any, attention_block: Any) -> Said:
    """Cut the whole weights, then one forward and backward with the slices."""
    import torch.distributed as dist

    whole = _whole(case)[2]
    part = cut(whole, dist.get_rank(), case.world_size)
    part = whole._replace(**{name: getattr(part, name) for name in whole._fields})
    alive = [int(tensor.untyped_storage().nbytes()) for tensor in (part.qkv, part.out)]
    slices = array(part.qkv), array(part.out)
    return Said(*slices, alive, *_step(case, part, attention_block))


def whole_run(case: dict[str, Any]) -> Any:
    """In the one rank of the reference run: output and gradients of the whole block."""
    from autograder.checks.lab1.heads import whole_block

    given = msgspec.convert(case, Case)
    weights = _whole(given)[2]
    return msgspec.to_builtins(list(_step(given, weights, whole_block)), builtin_types=(bytes,))


@functools.cache
def expected(case: Case) -> tuple[Array, list[Array]]:
    """The unsharded run."""
    import simulator

    run = simulator.run(whole_run, 1, args=(msgspec.to_builtins(case),), echo=False).raise_for_outcome()
    return msgspec.convert(run.results[0], tuple[Array, list[Array]])


def wrong_slices(seen: Seen[Case, Said]) -> Fault | None:
    """The first slice that holds other rows or columns than those of the rank's heads."""
    case, whole = seen.case, seen.case.inputs()
    for rank, said in enumerate(seen.said):
        mine = {"qkv": whole["qkv"][case.rows(rank)], "out": whole["out"][:, case.columns(rank)]}
        for name, array_ in (("qkv", said.qkv), ("out", said.out)):
            what = f"the slice of {name}"
            if fault := compare.wrong_array(what, rank, array_.numpy(), mine[name]):
                return fault
    return None


def whole_kept(seen: Seen[Case, Said]) -> Fault | None:
    """A slice that keeps more memory alive than it has elements."""
    case = seen.case
    for rank, said in enumerate(seen.said):
        sizes = (len(case.rows(rank)) * case.width * ITEM, case.width * case.width // case.world_size * ITEM)
        for name, size, alive in zip(("qkv", "out"), sizes, said.alive, strict=True):
            if alive > size:
                text = f"rank {rank}: the slice of {name} has {size} bytes, the memory that it keeps alive {alive}."
                return Fault(f"{text} A view keeps the whole matrix.", f"{size} bytes", f"{alive} bytes", rank)
    return None


def _far(what: str, rank: int, said: Numbers, wanted: Numbers) -> Fault | None:
    import numpy as np

    return compare.wrong_array(what, rank, said, wanted, TOLERANCE * (1 + np.abs(wanted)))


def wrong_output(seen: Seen[Case, Said]) -> Fault | None:
    """The output on the first rank where it is not that of the whole block."""
    wanted = expected(seen.case)[0].numpy()
    return next(filter(None, (_far("the output", r, s.output.numpy(), wanted) for r, s in enumerate(seen.said))), None)


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """The first gradient that is not that of the whole block, or this rank's part of it."""
    case = seen.case
    x, norm, qkv, out, bias = (g.numpy() for g in expected(case)[1])
    for rank, said in enumerate(seen.said):
        wanted = {"x": x, "norm": norm, "out": out[:, case.columns(rank)], "bias": bias}
        found = dict(zip(("x", "norm", "qkv", "out", "bias"), (g.numpy() for g in said.gradients), strict=True))
        for name, values in wanted.items():
            if fault := _far(f"the gradient of {name}", rank, found[name], values):
                return fault
    return _wrong_qkv_gradient(seen, qkv)


def _wrong_qkv_gradient(seen: Seen[Case, Said], wanted: Numbers) -> Fault | None:
    """Rows of the whole gradient, summed over the ranks that hold a copy of them."""
    import numpy as np

    case, total = seen.case, np.zeros_like(wanted)
    for rank, said in enumerate(seen.said):
        mine, rows = said.gradients[2].numpy(), case.rows(rank)
        if mine.shape != (len(rows), case.width):
            return _far("the gradient of qkv", rank, mine, wanted[rows])
        total[rows] += mine
    shared = " (summed over the ranks that share a key and value head)" if case.kv_heads < case.world_size else ""
    checks = (
        _far(f"the gradient of qkv{shared}", rank, total[case.rows(rank)], wanted[case.rows(rank)])
        for rank in range(case.world_size)
    )
    return next(filter(None, checks), None)


def other_traffic(seen: Seen[Case, Said]) -> Fault | None:
    """Anything but one all-reduce of the activations in forward, and one in backward."""
    size = SEQUENCES * TOKENS * seen.case.width * ITEM
    wanted = [("forward", "all_reduce", size), ("backward", "all_reduce", size)]
    for rank in range(seen.case.world_size):
        called = [(e.phase, e.op, e.bytes) for e in seen.of(rank) if e.is_communication]
        if called != wanted:
            words = ", ".join(f"{op} of {b} bytes ({phase or 'while cutting'})" for phase, op, b in called) or "nothing"
            text = f"rank {rank} communicated: {words}."
            return Fault(text, f"one all_reduce of {size} bytes forward, one backward", words, rank)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=lambda case: {"cluster": FREE},
    batched=True,
    properties=(
        Property("slices", "A rank holds other heads", wrong_slices, "reported"),
        Property("whole-weight", "A slice keeps the whole matrix", whole_kept, "reported", part="slices"),
        Property("output", "The block in slices is not the whole block", wrong_output, "reported"),
        Property("gradient", "The gradients are wrong", wrong_gradient, "reported"),
        Property("all-reduces", "The block communicates otherwise", other_traffic, "witnessed"),
    ),
)
