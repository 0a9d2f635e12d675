"""Check of lab2/no-sync: gradient accumulation under torch DDP, weighted by tokens over uneven micro-batches."""

from __future__ import annotations

import random
from typing import Annotated, Any

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab2 import gradients
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen

LENGTH, WIDTH = 5, 6
SLACK_BYTES = 64  # for counts of tokens, in whatever form


class Case(cases.Case, frozen=True):
    """``micro_batches`` a step on every rank, each with its own number of tokens; ``empty``: one of rank 0 has none."""

    micro_batches: Annotated[int, msgspec.Meta(ge=1, le=8)] = 3
    empty: bool = False

    def tokens(self, rank: int) -> list[int]:
        """How many of the LENGTH positions of each micro-batch are tokens."""
        counts = self.numbers().integers(1, LENGTH + 1, (self.world_size, self.micro_batches))
        if self.empty:
            counts[0, 0] = 0
        return [int(n) for n in counts[rank]]


class Said(msgspec.Struct):
    """Names and gradients of the summed loss on this rank alone, and what the parameters hold afterwards."""

    names: list[str]
    local: list[Array]
    held: list[Array]
    gradient_bytes: int


def visible() -> list[Case]:
    """2 to 4 ranks, one to four micro-batches, one without tokens."""
    counts = ((2, 3), (3, 2), (3, 1), (4, 4))
    found = [Case(world_size=w, micro_batches=k) for w, k in counts]
    return [*found[:3], Case(world_size=3, empty=True), found[3]]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds with other numbers."""
    sizes = ((2, 2), (3, 1), (3, rng.randint(2, 4)), (4, rng.randint(2, 4)))
    plain = [Case(world_size=w, micro_batches=k, draw=cases.number(rng)) for w, k in sizes]
    return [*plain, Case(world_size=4, micro_batches=2, empty=True, draw=cases.number(rng))]


def _micro_batches(case: Case, rank: int) -> list[tuple[Any, Any, Any]]:
    import torch

    generator = torch.Generator().manual_seed(int(case.numbers().integers(2**31)) + rank)
    found = []
    for count in case.tokens(rank):
        x, y = torch.randn(LENGTH, WIDTH, generator=generator), torch.randn(LENGTH, generator=generator)
        found.append((x, y, (torch.arange(LENGTH) < count).float()))
    return found


def on_rank(case: Case, accumulate: Any) -> Said:
    """One step of torch DDP, accumulated by the student's function."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import simulator

    rank = dist.get_rank()
    batches = _micro_batches(case, rank)

    def model() -> Any:
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 1))

    twin, replica = model(), nn.parallel.DistributedDataParallel(model())
    for x, y, mask in batches:
        ((twin(x).squeeze(-1) - y).square() * mask).sum().backward()
    with simulator.annotate("accumulate"):
        accumulate(replica, batches)
    held = gradients.trainable(replica.module)
    size = sum(p.numel() * p.element_size() for _, p in held)
    local = [array(p.grad) for _, p in gradients.trainable(twin)]
    return Said([name for name, _ in held], local, [gradients.gradient(p) for _, p in held], size)


def disagreement(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not the same on all ranks."""
    for k, name in enumerate(seen.said[0].names):
        if fault := compare.different_bits(f"the gradient of {name[:40]}", [s.held[k].numpy() for s in seen.said]):
            return fault
    return None


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not that of the mean loss over all tokens of all ranks."""
    total = sum(sum(seen.case.tokens(rank)) for rank in range(seen.case.world_size))
    for k, name in enumerate(seen.said[0].names):
        summed, tolerance = compare.sum_of([s.local[k].numpy() for s in seen.said])
        tolerance = tolerance * 4 * gradients.SLACK * seen.case.micro_batches / total
        for rank, said in enumerate(seen.said):
            what = f"the gradient of {name[:40]}"
            if fault := compare.wrong_array(what, rank, said.held[k].numpy(), summed / total, tolerance):
                tokens = ", ".join(str(seen.case.tokens(r)) for r in range(seen.case.world_size))
                more = f" The micro-batches of the ranks have {tokens} tokens."
                return msgspec.structs.replace(fault, text=fault.text + more)
    return None


def other_traffic(seen: Seen[Case, Said]) -> Fault | None:
    """Gradients that travel more than once a step, or never."""
    want = seen.said[0].gradient_bytes
    for rank in range(seen.case.world_size):
        events = [e for e in seen.collectives(rank) if e.phase == "accumulate"]
        have = sum(e.bytes for e in events)
        if not want <= have <= want + SLACK_BYTES:
            text = (
                f"in a step of {seen.case.micro_batches} micro-batches rank {rank} makes {len(events)} collectives of "
            )
            text += f"{have} bytes. Its gradients have {want} bytes and need to travel once."
            return Fault(text, f"{want} bytes and a few for counts", f"{have} bytes", rank, 0)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    batched=True,
    properties=(
        Property("agreement", "The ranks hold different gradients", disagreement, "reported", first=True),
        Property(
            "gradient", "The gradient is not that of the mean over tokens", wrong_gradient, "reported", first=True
        ),
        Property("traffic", "The gradients travel more than once", other_traffic, "witnessed"),
    ),
)
