"""Check of lab1/split-it: a block in tensor slices, and the order of a pipeline stage, both on real ranks.

What is right is computed by runs of the course's own code on one rank (`split_run`).
"""

from __future__ import annotations

import random
from typing import Any

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab1.split_run import FREE, Case, Said, expected, incomplete, on_rank
from autograder.checks.seen import Array, Fault, Seen

#: Of a forward and its backward, which takes twice as long.
BOTH_MS = 3.0
TOLERANCE = 1e-9
GRADIENTS = ("x", "norm", "up", "down", "bias")


def visible() -> list[Case]:
    """Blocks, then pipelines: more micro-batches than stages, and fewer."""
    blocks = [Case(world_size=w) for w in (2, 3, 4)]
    pipes = [Case(world_size=w, ask="pipeline", micro_batches=m) for w, m in ((2, 4), (3, 5), (4, 6), (4, 2))]
    return blocks + pipes


def drawn(rng: random.Random) -> list[Case]:
    """The same with other sizes."""
    blocks = [
        Case(world_size=w, draw=cases.number(rng), width=rng.randint(4, 12), inside=rng.randint(2, 6))
        for w in (2, 3, 4)
    ]
    numbers = ((2, rng.randint(1, 6)), (3, rng.randint(3, 7)), (4, rng.randint(4, 8)), (4, rng.randint(1, 3)))
    return blocks + [
        Case(world_size=w, draw=cases.number(rng), ask="pipeline", layers=rng.randint(1, 2), micro_batches=m)
        for w, m in numbers
    ]


def wrong_output(seen: Seen[Case, Said]) -> Fault | None:
    """The block's output on the first rank where it is not that of the whole block."""
    if seen.case.ask != "block":
        return None
    wanted = expected(seen.case).output
    assert wanted is not None
    for rank, said in enumerate(seen.said):
        if said.output is None:
            return Fault(f"rank {rank} reported no output.", rank=rank)
        if fault := _far("the output", rank, said.output, wanted.numpy()):
            return fault
    return None


def _far(what: str, rank: int, said: Array, wanted: Any) -> Fault | None:
    import numpy as np

    return compare.wrong_array(what, rank, said.numpy(), wanted, TOLERANCE * (1 + np.abs(wanted)))


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """The first gradient of the block that is not that of the whole block, or this rank's slice of it."""
    case = seen.case
    if case.ask != "block":
        return None
    for rank, said in enumerate(seen.said):
        for name, mine, full in zip(GRADIENTS, said.gradients, expected(case).gradients, strict=True):
            wanted, cut = full.numpy(), slice(rank * case.inside, (rank + 1) * case.inside)
            wanted = wanted[cut] if name == "up" else wanted[:, cut] if name == "down" else wanted
            if fault := _far(f"the gradient of {name}", rank, mine, wanted):
                return fault
    return None


def other_reductions(seen: Seen[Case, Said]) -> Fault | None:
    """More or fewer all-reduces than one in each direction, or other collectives."""
    if seen.case.ask != "block":
        return None
    for rank in range(seen.case.world_size):
        called = [e.op for e in seen.collectives(rank)]
        if called != ["all_reduce", "all_reduce"]:
            text = f"rank {rank} communicated {len(called)} times ({', '.join(called) or 'never'})."
            return Fault(text, "one all-reduce forward, one backward", ", ".join(called) or "nothing", rank)
    return None


def wrong_order(seen: Seen[Case, Said]) -> Fault | None:
    """A stage whose order is not complete."""
    if seen.case.ask != "pipeline":
        return None
    for stage, order in enumerate(seen.said[0].orders):
        if problem := incomplete(order, seen.case.micro_batches):
            return Fault(f"the order of stage {stage} is {' '.join(order) or 'empty'}: {problem}.", rank=stage)
    return None


def wrong_loss(seen: Seen[Case, Said]) -> Fault | None:
    """Another loss or other gradients than the unsharded run."""
    if seen.case.ask != "pipeline" or wrong_order(seen):
        return None
    full = expected(seen.case)
    last = seen.case.world_size - 1
    if fault := compare.wrong_number("the mean loss", last, seen.said[last].loss, full.loss, TOLERANCE):
        return fault
    faults = (
        _far("the gradient of its stage", rank, said.gradients[0], full.gradients[rank].numpy())
        for rank, said in enumerate(seen.said)
    )
    return next(filter(None, faults), None)


def long_step(seen: Seen[Case, Said]) -> Fault | None:
    """A step that takes longer than filling, m micro-batches, and draining."""
    if seen.case.ask != "pipeline" or wrong_order(seen):
        return None
    p, m = seen.case.world_size, seen.case.micro_batches
    ends = [e.end_ns for e in seen.events if e.op == "compute"]
    taken, predicted = max(ends, default=0) / 1e6, (m + p - 1) * BOTH_MS
    if taken <= predicted * (1 + 1e-6):
        return None
    orders = "; ".join(f"stage {s}: {' '.join(order)}" for s, order in enumerate(seen.said[0].orders))
    text = f"the step took {taken:g} virtual ms. With a forward of 1 ms and a backward of 2 ms, {m} micro-batches need "
    text += f"(m + p - 1) x 3 = {predicted:g} ms. The orders were {orders}."
    return Fault(text, f"{predicted:g} ms", f"{taken:g} ms")


def too_many_in_flight(seen: Seen[Case, Said]) -> Fault | None:
    """A stage that keeps the activations of more micro-batches than stages follow it, itself included."""
    case = seen.case
    if case.ask != "pipeline" or wrong_order(seen):
        return None
    for stage, order in enumerate(seen.said[0].orders):
        held = [sum(1 if word[0] == "F" else -1 for word in order[: k + 1]) for k in range(len(order))]
        most, bound = max(held), min(case.world_size - stage, case.micro_batches)
        if most > bound:
            text = f"stage {stage} keeps the activations of {most} micro-batches at once ({' '.join(order)}); {bound} "
            return Fault(text + "suffice for the same time.", f"at most {bound}", str(most), stage)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=lambda case: {"cluster": FREE},
    properties=(
        Property("output", "The block in slices is not the whole block", wrong_output, "reported"),
        Property("gradient", "The block's gradients are wrong", wrong_gradient, "reported"),
        Property("all-reduces", "The block communicates otherwise", other_reductions, "witnessed"),
        Property("order", "A stage's order is not complete", wrong_order, "reported"),
        Property("loss", "The pipeline's loss or gradients differ", wrong_loss, "reported", after="order"),
        Property("bubble", "The bubble is larger than it must be", long_step, "witnessed", after="order"),
        Property("in-flight", "A stage keeps too many activations", too_many_in_flight, "reported", after="order"),
    ),
)
