"""Check of lab2/bucketed-ddp: a wrapper whose gradients have the bits of torch's DistributedDataParallel.

torch's own wrapper makes the same steps in the same run, on a copy of the model: it is what bits, buckets and times are
compared with, so nothing here knows a layout. Backward takes virtual time and every bucket needs longer than a layer.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab2 import gradients
from autograder.checks.seen import Array, Fault, Seen

if TYPE_CHECKING:
    from simulator.trace import Event

STEPS, BATCH, RATE = 3, 3, 0.1
MS = 1_000_000  # virtual nanoseconds
NOTE_BYTES = 4096  # in a whole run, for broadcasts that agree on an order


class Case(cases.Case, frozen=True):
    """``layers`` of drawn widths in buckets of ``cap`` bytes; ``model`` says what is special about them."""

    model: Literal["chain", "shuffled", "branches", "tied", "shared", "frozen", "float64", "unused"] = "chain"
    layers: Annotated[int, msgspec.Meta(ge=3, le=8)] = 4
    cap: Annotated[int, msgspec.Meta(ge=1)] = 1500

    def widths(self) -> list[int]:
        """Inputs of each layer, then the outputs of the last."""
        drawn = [int(n) for n in self.numbers().integers(12, 24, self.layers + 1)]
        square = self.model in ("tied", "shared", "branches", "unused")
        return [drawn[0]] * (self.layers + 1) if square else drawn


class Step(msgspec.Struct):
    """Gradients of one step: torch's and the student's."""

    torch: list[Array]
    own: list[Array]


class Said(msgspec.Struct):
    """Names of the trained parameters, and the steps."""

    names: list[str]
    steps: list[Step]


def visible() -> list[Case]:
    """One special thing at a time; parameters that a rank does not use come last."""
    plain: list[Any] = [(2, "chain"), (3, "shuffled"), (3, "branches"), (3, "frozen")]
    plain += [(4, "chain"), (4, "tied"), (4, "float64")]
    found = [Case(world_size=w, model=model) for w, model in plain]
    return [*found, Case(world_size=3, model="unused"), Case(world_size=4, model="unused", cap=10**6)]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds, shared layers, and other numbers."""
    kinds: list[Any] = [(2, rng.choice(("chain", "shuffled"))), (3, "chain"), (3, "branches"), (3, "shared")]
    kinds += [(4, "shuffled"), (4, rng.choice(("tied", "frozen"))), (4, "float64"), (3, "unused"), (4, "unused")]
    return [
        Case(world_size=w, model=model, layers=rng.randint(4, 6), cap=rng.randint(1100, 3000), draw=cases.number(rng))
        for w, model in kinds
    ]


def options(case: Case) -> dict[str, Any]:
    """Only `simulator.compute` and the network take time, and a bucket needs longer than a layer: waits show."""
    from simulator.cluster import NO_GPU, Cluster, Link

    slow = Link(latency_us=3000, bandwidth_gbytes_per_s=1.0)
    return {"cluster": Cluster("slow network", gpus_per_node=8, intra=slow, inter=slow, gpu=NO_GPU)}


def build(case: Case, rank: int) -> Any:
    """The model, with equal weights on all ranks; the backward of layer k takes k + 2 ms."""
    import torch
    from torch import nn

    widths, last = case.widths(), case.layers - 1

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            layers = [nn.Linear(widths[k], widths[k + 1]) for k in range(case.layers)]
            for k in (*range(0, case.layers, 2), *range(case.layers)) if case.model == "shuffled" else range(last + 1):
                self.add_module(f"layer{k}", layers[k])
            if case.model == "tied":
                layers[last].weight = layers[0].weight
            if case.model == "frozen":
                layers[1].weight.requires_grad_(False)
                layers[last].bias.requires_grad_(False)
            if case.model == "unused":
                self.odd, self.never = nn.Linear(widths[0], widths[0]), nn.Linear(widths[0], 7)

        def layer(self, k: int, x: Any) -> Any:
            return gradients.timed(self.get_submodule(f"layer{k}")(x), (k + 2) * MS / 1e9)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            for k in range(case.layers - 2):
                x = self.layer(k, x).tanh()
            if case.model == "branches":  # in an order that differs between ranks and from step to step
                first, second = (last, last - 1) if (rank + self.calls) % 2 else (last - 1, last)
                return self.layer(first, x) * (first + 1) + self.layer(second, x) * (second + 1)
            if case.model == "unused" and rank % 2:
                x = x + self.odd(x)
            x = self.layer(last, self.layer(last - 1, x).tanh())
            return self.layer(1, x) if case.model == "shared" else x

    torch.manual_seed(int(case.numbers().integers(2**31)))
    return Model().double() if case.model == "float64" else Model()


def on_rank(case: Case, bucketed: Any) -> Said:
    """Three steps of torch's wrapper and of the student's, from equal weights with equal data."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel.distributed import DistributedDataParallel

    import simulator

    rank, find_unused = dist.get_rank(), case.model == "unused"
    models = [build(case, rank), build(case, rank)]
    with simulator.annotate("torch wrap"):
        limits: Any = {"bucket_cap_mb": case.cap / 2**20, "find_unused_parameters": find_unused}
        replicas = [DistributedDataParallel(models[0], broadcast_buffers=False, **limits)]
    with simulator.annotate("own wrap"):
        replicas.append(bucketed(models[1], case.cap, find_unused))
    trained = [[p for _, p in gradients.trainable(model)] for model in models]
    steps = []
    for step in range(STEPS):
        torch.manual_seed(1000 * step + 10 * case.draw + rank)
        batch = torch.randn(BATCH, case.widths()[0], dtype=trained[0][0].dtype)
        for who, replica in zip(("torch", "own"), replicas, strict=True):
            with simulator.annotate(f"{who} forward {step}"):
                loss = replica(batch).square().mean()
            with simulator.annotate(f"{who} backward {step}"):
                loss.backward()
        steps.append(Step(*([gradients.gradient(p) for p in parameters] for parameters in trained)))
        for theirs, own in zip(*trained, strict=True):
            theirs.data -= RATE * (0.0 if theirs.grad is None else theirs.grad)
            own.data.copy_(theirs.data)  # a difference in one step says nothing about the next
            theirs.grad = own.grad = None
    return Said([name for name, _ in gradients.trainable(models[0])], steps)


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not that of torch's wrapper, even up to rounding."""
    import numpy as np

    for step, rank, name, theirs, own in _pairs(seen):
        tolerance = 1e-4 * np.abs(theirs).max(initial=1e-6)
        if fault := compare.wrong_array(
            f"the gradient of {name[: gradients.NAME_LENGTH]}", rank, own, theirs, tolerance
        ):
            return msgspec.structs.replace(fault, text=f"step {step}, {fault.text}")
    return None


def _pairs(seen: Seen[Case, Said]) -> list[tuple[int, int, str, Any, Any]]:
    """(step, rank, name, torch's gradient, the student's) of every parameter."""
    return [
        (step, rank, name, said.steps[step].torch[k].numpy(), said.steps[step].own[k].numpy())
        for step in range(STEPS)
        for rank, said in enumerate(seen.said)
        for k, name in enumerate(said.names)
    ]


def other_bits(seen: Seen[Case, Said]) -> Fault | None:
    """Gradients that are right up to rounding and do not have the bits of torch's wrapper."""
    for step in range(STEPS):
        differ, total, first = 0, 0, None
        for _, rank, name, theirs, own in (p for p in _pairs(seen) if p[:2] == (step, 0)):
            wrong = compare.far(own, theirs) if own.shape == theirs.shape else [0]
            differ, total = differ + len(wrong), total + theirs.size
            if wrong and first is None:
                first = (name, wrong[0], repr(theirs.flat[wrong[0]].item()), repr(own.flat[wrong[0]].item()), rank)
        if first:
            name, i, theirs, own, rank = first
            text = f"step {step}: {differ} of {total} elements differ from torch's in their last bits. The first is "
            text += f"element {i} of {name}: {own}, torch has {theirs}. Bits depend on the elements of each bucket, on "
            text += "their order in it, and on where and how you divide."
            return Fault(text, "no bit differs", f"{differ} elements differ", rank)
    return None


def _calls(seen: Seen[Case, Said], rank: int, phase: str) -> list[Event]:
    return [e for e in seen.collectives(rank) if e.phase == phase]


def other_buckets(seen: Seen[Case, Said]) -> Fault | None:
    """Anything but the all-reduces that torch makes in the same step; broadcasts are notes and may be small."""
    for step in range(STEPS):
        for rank in range(seen.case.world_size):
            theirs = [e.bytes for e in _calls(seen, rank, f"torch backward {step}")]
            calls = [e for e in _calls(seen, rank, f"own backward {step}") if e.op != "broadcast"]
            strange = next((e.op for e in calls if e.op != "all_reduce"), "")
            if strange or [e.bytes for e in calls] != theirs:
                own = f"calls {strange}" if strange else f"all-reduces {_listed([e.bytes for e in calls])} bytes"
                text = f"in step {step} rank {rank} {own}. torch's DDP all-reduces {_listed(theirs)} bytes."
                return Fault(text, f"{_listed(theirs)} bytes", own, rank)
    notes = sum(e.bytes for e in seen.collectives(0) if e.op == "broadcast" and e.phase.startswith("own"))
    text = f"rank 0 broadcasts {notes} bytes. The replicas start equal: only the order of gradients has to be told."
    return Fault(text, f"at most {NOTE_BYTES} bytes", f"{notes} bytes", 0) if notes > NOTE_BYTES else None


def _listed(sizes: list[int]) -> str:
    return " + ".join(str(n) for n in sizes) or "no"


def late(seen: Seen[Case, Said]) -> Fault | None:
    """A bucket that is issued later than torch issues it, counted from the begin of backward."""
    for step in range(STEPS):
        for rank in range(seen.case.world_size):
            theirs, own = (_issued(seen, rank, f"{who} backward {step}") for who in ("torch", "own"))
            for k, (want, have) in enumerate(zip(theirs, own, strict=False)):
                if have > want:
                    text = f"in step {step} rank {rank} issues bucket {k} {have / MS:.1f} ms after its backward began, "
                    text += f"torch's DDP after {want / MS:.1f} ms. The last gradient of all is ready at "
                    text += f"{max(_ended(seen, rank, f'own backward {step}'), default=0) / MS:.1f} ms."
                    return Fault(text, f"issued at {want / MS:.1f} ms", f"at {have / MS:.1f} ms", rank)
    return None


def _begin(seen: Seen[Case, Said], rank: int, phase: str) -> int:
    return min((e.start_ns for e in seen.of(rank) if e.op == "compute" and e.phase == phase), default=0)


def _ended(seen: Seen[Case, Said], rank: int, phase: str) -> list[int]:
    """When the layers of a backward pass ended, since its begin."""
    begin = _begin(seen, rank, phase)
    return [e.end_ns - begin for e in seen.of(rank) if e.op == "compute" and e.phase == phase]


def _issued(seen: Seen[Case, Said], rank: int, phase: str) -> list[int]:
    begin = _begin(seen, rank, phase)
    return [e.issue_ns - begin for e in _calls(seen, rank, phase) if e.op == "all_reduce"]


def unused(seen: Seen[Case, Said]) -> Fault | None:
    """With parameters that a rank does not use: other bits than torch's, or more bytes."""
    if seen.case.model != "unused":
        return None
    if fault := other_bits(seen):
        return fault
    for step in range(STEPS):
        theirs, own = (sum(e.bytes for e in _calls(seen, 0, f"{who} backward {step}")) for who in ("torch", "own"))
        if own > theirs + NOTE_BYTES // STEPS:
            text = f"in step {step} the collectives of rank 0 carry {own} bytes, those of torch's DDP {theirs}."
            return Fault(text, f"about {theirs} bytes", f"{own} bytes", 0)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=options,
    under=lambda case: ("unused", "Parameters that a rank does not use break it") if case.model == "unused" else None,
    stress_keys=("unused",),
    batched=True,
    cpu_limit_s=6.0,  # two wrappers, of which torch's does much before its first collective
    properties=(
        Property("gradient", "The gradients are not those of torch's DDP", wrong_gradient, "reported", first=True),
        Property("buckets", "The buckets are not those of torch's DDP", other_buckets, "witnessed"),
        Property("bits", "The gradients do not have the bits of torch's DDP", other_bits, "reported"),
        Property("overlap", "A bucket is issued later than by torch's DDP", late, "witnessed"),
        Property("unused", "Other bits or bytes with unused parameters", unused, "both"),
    ),
)
