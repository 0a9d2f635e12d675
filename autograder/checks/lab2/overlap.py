"""Check of lab2/overlap: buckets that are reduced while backward is still at work.

Each layer charges a known time in backward and nothing else costs compute, so the trace says at which gradient each
bucket was issued. Ranks start with equal weights and see different data.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.lab2 import gradients
from autograder.checks.seen import Fault, Seen

if TYPE_CHECKING:
    from simulator.trace import Event

STEPS = 2
BATCH = 3
MS = 1_000_000  # virtual nanoseconds


class Case(cases.Case, frozen=True):
    """``layers`` Linear layers with a bias, in buckets of ``per_bucket`` layers.

    ``model``: a chain; a chain whose layers are registered in another order than they are used; two branches which odd
    ranks compute in the other order. ``plan``: as gradients become ready; the late bucket first; weights before biases.
    """

    model: Literal["chain", "shuffled", "branches"] = "chain"
    plan: Literal["ready-order", "late-first", "split"] = "ready-order"
    layers: int = 4
    per_bucket: int = 1

    def order(self, rank: int) -> list[int]:
        """Layers in the order in which their gradients become ready on that rank."""
        backwards = list(reversed(range(self.layers)))
        if self.model == "branches" and rank % 2:  # the last two layers are the branches
            backwards[0], backwards[1] = backwards[1], backwards[0]
        return backwards

    def duration_ns(self, layer: int) -> int:
        """Virtual time of that layer's backward."""
        return (layer + 2) * MS

    def buckets(self) -> list[list[str]]:
        """The plan: names of parameters, by bucket."""
        order, size = self.order(0), self.per_bucket
        names = [
            [f"layer{i}.{kind}" for i in order[k : k + size] for kind in ("bias", "weight")]
            for k in range(0, len(order), size)
        ]
        if self.plan == "split":
            flat = [name for bucket in names for name in bucket]
            return [[n for n in flat if n.endswith(end)] for end in ("weight", "bias")]
        if self.plan == "late-first":
            return [names[1], names[0], *names[2:]]
        return names

    def ready_ns(self, rank: int) -> dict[str, int]:
        """When each gradient is ready on that rank, after the begin of backward."""
        found: dict[str, int] = {}
        now = 0
        for layer in self.order(rank):
            now += self.duration_ns(layer)
            found |= {f"layer{layer}.weight": now, f"layer{layer}.bias": now}
        return found

    def issue_ns(self, rank: int) -> list[int]:
        """The earliest time at which each bucket can be issued: complete, and after those before it."""
        ready, found = self.ready_ns(rank), [0]
        for bucket in self.buckets():
            found.append(max(found[-1], *(ready[name] for name in bucket)))
        return found[1:]

    def sizes(self) -> list[int]:
        """Bytes of each bucket."""
        return [
            sum(
                4 * (out * (inner if name.endswith("weight") else 1))
                for name in bucket
                for inner, out in [self.shape(name)]
            )
            for bucket in self.buckets()
        ]

    def shape(self, name: str) -> tuple[int, int]:
        """(inputs, outputs) of the layer of a parameter; layers differ, so that buckets do."""
        k = int(name.removeprefix("layer").split(".")[0])
        if self.model == "branches" and k == self.layers - 1:
            k -= 1  # branches have the same inputs and outputs ...
        return 3 + k, 4 + k


class Said(msgspec.Struct):
    """Gradients by step."""

    steps: list[gradients.Gradients]


def visible() -> list[Case]:
    """One bucket a layer, two layers a bucket, other registration order, a late bucket, branches by rank."""
    return [
        Case(world_size=2),
        Case(world_size=3, layers=6, per_bucket=2),
        Case(world_size=3, plan="late-first"),
        Case(world_size=3, model="branches"),
        Case(world_size=4, model="shuffled"),
        Case(world_size=4, plan="split", layers=3),
    ]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds with other sizes."""
    draw = cases.number(rng)
    return [
        Case(world_size=w, model=model, plan=plan, layers=rng.randint(4, 7), per_bucket=rng.choice(sizes), draw=draw)
        for w, model, plan, sizes in _kinds()
    ]


def _kinds() -> list[tuple[int, Any, Any, tuple[int, ...]]]:
    return [
        (2, "chain", "ready-order", (1, 2)),
        (3, "chain", "ready-order", (1, 2, 3)),
        (3, "shuffled", "split", (1,)),
        (4, "shuffled", "ready-order", (1, 2)),
        (4, "chain", "late-first", (1, 2)),
        (4, "branches", "ready-order", (1,)),
    ]


def options(case: Case) -> dict[str, Any]:
    """Only `simulator.compute` and the network take time, and a bucket needs longer than a layer: waits show."""
    from simulator.cluster import NO_GPU, Cluster, Link

    slow = Link(latency_us=3000, bandwidth_gbytes_per_s=1.0)
    return {"cluster": Cluster("slow network", gpus_per_node=8, intra=slow, inter=slow, gpu=NO_GPU)}


def build(case: Case, rank: int, *, timed: bool) -> Any:
    """The model; equal weights on all ranks. ``timed``: backward takes virtual time."""
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Linear(*case.shape(f"layer{k}")) for k in range(case.layers)]
            for k in range(0, case.layers, 2) if case.model == "shuffled" else ():
                self.add_module(f"layer{k}", layers[k])
            for k in range(case.layers):
                self.add_module(f"layer{k}", layers[k])

        def layer(self, k: int, x: Any) -> Any:
            y = self.get_submodule(f"layer{k}")(x)
            return gradients.timed(y, case.duration_ns(k) / 1e9) if timed else y

        def forward(self, x: Any) -> Any:
            chain = case.layers - 2 if case.model == "branches" else case.layers
            for k in range(chain):
                x = self.layer(k, x).tanh()
            outputs = [
                self.layer(k, x) * (k + 1) for k in reversed(case.order(rank)) if k >= chain
            ]  # no equal gradients
            return sum(outputs) if outputs else x

    torch.manual_seed(int(case.numbers().integers(2**31)))
    return Model()


def on_rank(case: Case, overlapped: Any) -> Said:
    """Wrap, then two training steps."""
    import torch
    import torch.distributed as dist

    import simulator

    rank = dist.get_rank()
    model, twin = build(case, rank, timed=True), build(case, rank, timed=False)
    replica = overlapped(model, case.buckets())
    steps = []
    for step in range(STEPS):
        torch.manual_seed(1000 * step + 10 * case.draw + rank)
        batch = torch.randn(BATCH, 3)
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
            p.grad = None
    return Said(steps)


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not the mean over ranks after backward."""
    return gradients.not_the_mean([[said.steps[s] for said in seen.said] for s in range(STEPS)])


def _calls(seen: Seen[Case, Said], rank: int, step: int) -> list[Event]:
    return [e for e in seen.collectives(rank) if e.phase in (f"forward {step}", f"backward {step}")]


def other_collectives(seen: Seen[Case, Said]) -> Fault | None:
    """Anything but one all-reduce a bucket, in the plan's order, with the bucket's bytes."""
    want = seen.case.sizes()
    for step in range(STEPS) if seen.run.ok else ():  # what broke the run is told by its outcome
        for rank in range(seen.case.world_size):
            calls = _calls(seen, rank, step)
            have = [e.bytes for e in calls]
            if (strange := [e.op for e in calls if e.op != "all_reduce"]) or have != want:
                said = f"called {strange[0]}" if strange else f"made {len(have)} all-reduces of {have} bytes"
                text = f"in step {step} rank {rank} {said}. The plan has {len(want)} buckets of {want} bytes."
                if not strange and sorted(have) == sorted(want):
                    text += (
                        " These are the plan's buckets in another order; all ranks must launch 0, 1, 2, ... in turn."
                    )
                return Fault(text, f"{len(want)} all-reduces of {want} bytes", f"{have} bytes", rank, step)
    return None


def _backward(seen: Seen[Case, Said], rank: int, step: int) -> tuple[int, int]:
    """Begin and end of the compute of a backward pass, virtual nanoseconds."""
    work = [e for e in seen.of(rank) if e.op == "compute" and e.phase == f"backward {step}"]
    return min((e.start_ns for e in work), default=0), max((e.end_ns for e in work), default=0)


def stands_still(seen: Seen[Case, Said]) -> Fault | None:
    """A backward pass that takes longer than its layers: the rank waited for something inside it."""
    want = sum(seen.case.duration_ns(layer) for layer in range(seen.case.layers))
    for step in range(STEPS):
        for rank in range(seen.case.world_size):
            begin, end = _backward(seen, rank, step)
            if end - begin > want:
                text = f"in step {step} the backward of rank {rank} takes {(end - begin) / MS:.1f} ms, its layers "
                text += f"{want / MS:g} ms. In between it stands still, waiting for an all-reduce."
                return Fault(text, f"{want / MS:g} ms", f"{(end - begin) / MS:.1f} ms", rank, step)
    return None


def issued_late(seen: Seen[Case, Said]) -> Fault | None:
    """A bucket that was issued later than it could have been."""
    plan = seen.case.buckets()
    for step in range(STEPS):
        for rank in range(seen.case.world_size):
            begin, end = _backward(seen, rank, step)
            for k, (e, want) in enumerate(zip(_calls(seen, rank, step), seen.case.issue_ns(rank), strict=False)):
                if e.issue_ns - begin > want:
                    text = f"in step {step} rank {rank} issues bucket {k} ({', '.join(plan[k])}) at "
                    text += (
                        f"{(e.issue_ns - begin) / MS:.1f} ms of its backward. It and all before it were complete at "
                    )
                    text += f"{want / MS:g} ms; the last gradient of all was ready at {(end - begin) / MS:.1f} ms."
                    return Fault(
                        text, f"issued at {want / MS:g} ms", f"at {(e.issue_ns - begin) / MS:.1f} ms", rank, step
                    )
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=options,
    batched=True,
    properties=(
        Property(
            "collectives", "The collectives are not those of the plan", other_collectives, "witnessed", always=True
        ),
        Property("gradient", "The gradients are not the mean", wrong_gradient, "reported", first=True),
        Property("waits", "Backward stands still for a collective", stands_still, "witnessed"),
        Property("overlap", "A bucket is issued later than it could be", issued_late, "witnessed", after="collectives"),
    ),
)
