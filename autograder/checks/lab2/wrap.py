"""Check of lab2/wrap: replicas that start equal and average their gradients in backward.

Ranks start with different weights and buffers and see different data. Traffic is judged from the witnessed trace.
"""

from __future__ import annotations

import random
from typing import Any, Literal

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab2 import gradients
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen
from simulator.cluster.algorithms import bytes_sent

STEPS = 2
BATCH = 3
RATE = 0.1
UNDER = {
    "tied": ("tied", "A tied parameter breaks it"),
    "frozen": ("frozen", "A frozen parameter breaks it"),
    "unused": ("unused", "A parameter without gradient breaks it"),
    "empty": ("unused", "A parameter without elements breaks it"),
}


class Case(cases.Case, frozen=True):
    """A model of ``width``; ``model`` says what is special about its parameters."""

    model: Literal["plain", "tied", "frozen", "unused", "empty"] = "plain"
    width: int = 24


class Said(msgspec.Struct):
    """State before and after wrapping by name (parameters, then buffers), and gradients by step."""

    names: list[str]
    num_parameters: int
    before: list[Array]
    after: list[Array]
    steps: list[gradients.Gradients]
    trained_bytes: int


def visible() -> list[Case]:
    """A plain model at three world sizes, then the special ones."""
    plain = [Case(world_size=w) for w in (2, 3, 4)]
    special: list[Any] = [(3, "tied"), (4, "frozen"), (3, "unused"), (3, "empty")]
    return plain + [Case(world_size=w, model=model) for w, model in special]


def drawn(rng: random.Random) -> list[Case]:
    """Other widths and numbers."""
    kinds: list[Any] = ["plain", "plain", "plain", "tied", "frozen", "unused", "empty"]
    odd = rng.choice((3, 4))  # unused and empty share a run
    sizes = (2, 3, 4, rng.choice((3, 4)), rng.choice((3, 4)), odd, odd)
    return [
        Case(world_size=w, model=model, width=rng.randint(16, 32), draw=cases.number(rng))
        for w, model in zip(sizes, kinds, strict=True)
    ]


def build(case: Case, rank: int) -> Any:
    """The model of one rank; every rank has other numbers."""
    import torch
    from torch import nn

    n = case.width

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(n, n), nn.BatchNorm1d(n), nn.Linear(n, n)
            self.register_buffer("scale", torch.rand(n) + 0.5)
            if case.model == "tied":
                self.last.weight = self.first.weight
            if case.model == "frozen":
                self.first.weight.requires_grad_(False)
                self.last.bias.requires_grad_(False)
            if case.model == "unused":
                self.odd, self.never = nn.Linear(n, n), nn.Linear(n, 2)
            if case.model == "empty":
                self.empty = nn.Parameter(torch.zeros(0, n))

        def forward(self, x: Any) -> Any:
            x = self.norm(self.first(x).relu()) * self.scale
            if case.model == "unused" and rank % 2:
                x = x + self.odd(x)
            return self.last(x) + (self.empty.sum() if case.model == "empty" else 0.0)

    generator = case.numbers()
    torch.manual_seed(int(generator.integers(2**31)) + rank)
    model = Model()
    model.norm.get_buffer("running_mean").uniform_(-1, 1)
    model.norm.get_buffer("num_batches_tracked").fill_(rank + 1)
    return model


def on_rank(case: Case, replicated: Any) -> Said:
    """Wrap, then two training steps."""
    import torch
    import torch.distributed as dist

    import simulator

    rank = dist.get_rank()
    model, twin = build(case, rank), build(case, rank)
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    before = [array(t.clone()) for t in state.values()]
    with simulator.annotate("wrap"):
        replica = replicated(model)
    after = [array(t.clone()) for t in state.values()]
    steps = []
    for step in range(STEPS):
        torch.manual_seed(1000 * step + 10 * case.draw + rank)
        batch = torch.randn(BATCH, case.width)
        mine = gradients.local(twin, model, batch)
        with simulator.annotate(f"forward {step}"):
            loss = replica(batch).square().mean()
        with simulator.annotate(f"backward {step}"):
            loss.backward()
        trained = gradients.trainable(model)
        steps.append(
            gradients.Gradients([name for name, _ in trained], mine, [gradients.gradient(p) for _, p in trained])
        )
        for _, p in trained:
            p.data -= RATE * (0.0 if p.grad is None else p.grad)
            p.grad = None
    size = sum(p.numel() * p.element_size() for _, p in gradients.trainable(model))
    return Said(list(state), len(dict(model.named_parameters())), before, after, steps, size)


def _not_rank_0s(seen: Seen[Case, Said], *, buffers: bool) -> Fault | None:
    source = seen.said[0]
    for k, name in enumerate(source.names):
        if (k >= source.num_parameters) != buffers:
            continue
        for rank, said in enumerate(seen.said):
            want, have = source.before[k].numpy(), said.after[k].numpy()
            kind = "buffer" if buffers else "parameter"
            if fault := compare.wrong_array(f"the {kind} {name} after wrapping", rank, have, want):
                more = " Expected are the values of rank 0."
                if rank and have.tobytes() == said.before[k].data:
                    more += " This rank still has its own."
                return msgspec.structs.replace(fault, text=fault.text + more)
    return None


def different_parameters(seen: Seen[Case, Said]) -> Fault | None:
    """A parameter that is not rank 0's after wrapping."""
    return _not_rank_0s(seen, buffers=False)


def different_buffers(seen: Seen[Case, Said]) -> Fault | None:
    """A buffer that is not rank 0's after wrapping."""
    return _not_rank_0s(seen, buffers=True)


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not the mean over ranks after backward."""
    return gradients.not_the_mean([[said.steps[s] for said in seen.said] for s in range(STEPS)])


def too_much_traffic(seen: Seen[Case, Said]) -> Fault | None:
    """More or fewer bytes in the steps than the gradients have, as what an all-reduce of them makes a rank send."""
    w, size = seen.case.world_size, seen.said[0].trained_bytes
    want = STEPS * bytes_sent("all_reduce", size, w)
    slack = STEPS * 8 * (w + 1) * (len(seen.said[0].names) + 2)  # padding, and a note of which gradients there are
    for rank in range(w):
        events = [e for e in seen.collectives(rank) if e.phase.startswith(("forward", "backward"))]
        have = gradients.sent(events, w)
        if abs(have - want) > slack or (have < want - 1 and seen.case.model != "unused"):
            calls = ", ".join(sorted({e.op for e in events})) or "none"
            text = f"in {STEPS} steps the collectives of rank {rank} ({len(events)} calls: {calls}) make it send "
            text += f"{have:.0f} bytes; an all-reduce of its gradients ({size} bytes) once a step: {want:.0f}."
            return Fault(text, f"{want:.0f} bytes", f"{have:.0f} bytes", rank)
    return None


def tied_twice(seen: Seen[Case, Said]) -> Fault | None:
    """Too much traffic of a model with a tied parameter."""
    return too_much_traffic(seen) if seen.case.model == "tied" else None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    under=lambda case: UNDER.get(case.model),
    stress_keys=("tied", "frozen", "unused"),
    batched=True,
    properties=(
        Property("parameters", "The replicas do not start equal", different_parameters, "reported", first=True),
        Property("gradient", "The gradients are not the mean", wrong_gradient, "reported", first=True),
        Property("buffers", "The buffers are not those of rank 0", different_buffers, "reported"),
        Property("traffic", "The collectives carry other bytes than the gradients", too_much_traffic, "witnessed"),
        Property("tied", "A tied parameter is averaged twice", tied_twice, "witnessed"),
    ),
)
