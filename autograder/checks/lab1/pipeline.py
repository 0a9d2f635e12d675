"""Check of lab1/pipeline: GPipe and 1F1B from send and recv, on real ranks.

Values are compared with the unsharded run. How long a step takes and how many micro-batches a stage keeps comes from
the trace, in which forwards and backwards of the given stage are marked.
"""

from __future__ import annotations

import random
from typing import Any, Literal

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab1 import split_run
from autograder.checks.lab1.split_run import FORWARD_S, FREE, Count
from autograder.checks.seen import Array, Fault, Seen

TOLERANCE = 1e-9
BOTH_MS = 3.0


class Case(cases.Case, frozen=True):
    """A pipeline of `layers` a stage."""

    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    layers: Count = 1
    micro_batches: Count = 4

    @property
    def whole(self) -> split_run.Case:
        """The same for the unsharded run."""
        return split_run.Case(
            world_size=self.world_size,
            draw=self.draw,
            ask="pipeline",
            layers=self.layers,
            micro_batches=self.micro_batches,
        )


class Said(msgspec.Struct):
    """The mean loss (0 on all stages but the last) and the gradients of the stage in one vector."""

    loss: float
    gradient: Array


def visible() -> list[Case]:
    """Both schedules; more micro-batches than stages, and fewer."""
    sizes = ((2, 3), (3, 5), (4, 6), (4, 2))
    return [Case(world_size=w, schedule=s, micro_batches=m) for w, m in sizes for s in ("1f1b", "gpipe")]


def drawn(rng: random.Random) -> list[Case]:
    """The same with other sizes."""
    sizes = ((2, rng.randint(1, 6)), (3, rng.randint(4, 7)), (4, rng.randint(5, 8)), (4, rng.randint(1, 3)))
    return [
        Case(world_size=w, draw=cases.number(rng), schedule=s, layers=rng.randint(1, 2), micro_batches=m)
        for w, m in sizes
        for s in ("1f1b", "gpipe")
    ]


def on_rank(case: Case, run_pipeline: Any) -> Said:
    """One step with the student's runner."""
    from autograder.checks.lab1.stage import Stage

    decoder, batches = split_run.decoder(case.whole)
    stage = Stage(decoder, batches, case.whole.model.d_model, FORWARD_S)
    loss = run_pipeline(stage, case.schedule, case.micro_batches)
    return Said(0.0 if loss is None else float(loss), split_run.flat_gradient(stage.parameters))


def wrong_value(seen: Seen[Case, Said]) -> Fault | None:
    """Another loss or other gradients than the unsharded run."""
    import numpy as np

    full, last = split_run.expected(seen.case.whole), seen.case.world_size - 1
    if fault := compare.wrong_number("the mean loss", last, seen.said[last].loss, full.loss, TOLERANCE):
        return fault
    for rank, said in enumerate(seen.said):
        wanted = full.gradients[rank].numpy()
        what = "the gradients of its stage in one vector"
        if fault := compare.wrong_array(what, rank, said.gradient.numpy(), wanted, TOLERANCE * (1 + np.abs(wanted))):
            return fault
    return None


def a_collective(seen: Seen[Case, Said]) -> Fault | None:
    """Anything but messages."""
    called = [e for rank in range(seen.case.world_size) for e in seen.collectives(rank)]
    if not called:
        return None
    text = f"rank {called[0].rank} called {called[0].op}: a pipeline sends to neighbours only."
    return Fault(text, "send, recv, isend, irecv", called[0].op, called[0].rank)


def long_step(seen: Seen[Case, Said]) -> Fault | None:
    """A step that takes longer than filling, m micro-batches, and draining."""
    p, m = seen.case.world_size, seen.case.micro_batches
    taken = max((e.end_ns for e in seen.events if e.op == "compute"), default=0) / 1e6
    predicted = (m + p - 1) * BOTH_MS
    if taken <= predicted * (1 + 1e-6):
        return None
    text = (
        f"the step took {taken:g} virtual ms; {m} micro-batches in {p} stages need (m + p - 1) x 3 = {predicted:g} ms."
    )
    return Fault(text, f"{predicted:g} ms", f"{taken:g} ms")


def kept(seen: Seen[Case, Said], rank: int) -> int:
    """The most micro-batches that a rank had forwarded and not yet taken back, from its trace."""
    now, most = 0, 0
    for event in sorted((e for e in seen.of(rank) if e.op == "compute"), key=lambda e: e.start_ns):
        milliseconds = round((event.end_ns - event.start_ns) / 1e6)
        now += milliseconds if event.phase == "forward" else -milliseconds // 2 if event.phase == "backward" else 0
        most = max(most, now)
    return most


def other_schedule(seen: Seen[Case, Said]) -> Fault | None:
    """A stage that keeps more than 1F1B needs, or fewer than GPipe means."""
    case = seen.case
    for rank in range(case.world_size):
        m, most = case.micro_batches, kept(seen, rank)
        wanted = m if case.schedule == "gpipe" else min(case.world_size - rank, m)
        if most != wanted:
            text = (
                f"stage {rank} keeps the activations of {most} micro-batches at once; {case.schedule} keeps {wanted}."
            )
            return Fault(text, str(wanted), str(most), rank)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=lambda case: {"cluster": FREE},
    properties=(
        Property("value", "The loss or the gradients differ from one GPU's", wrong_value, "reported", first=True),
        Property("messages-only", "A collective was called", a_collective, "witnessed", part="value"),
        Property("bubble", "The bubble is larger than it must be", long_step, "witnessed"),
        Property("schedule", "The stage keeps other activations", other_schedule, "witnessed"),
    ),
)
