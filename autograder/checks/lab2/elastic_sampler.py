"""Check of lab2/elastic-sampler: a global order that survives a restart and another world size in mid-epoch."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.seen import Fault, Seen

EPOCHS = 2
MANY = 12  # from so many samples on, two equal orders are no accident


class Case(cases.Case, frozen=True):
    """Batches of ``batch`` out of ``num_samples``; after each ``cut`` steps a restart with the next of ``worlds``."""

    num_samples: Annotated[int, msgspec.Meta(ge=1, le=500)] = 24
    batch: Annotated[int, msgspec.Meta(ge=1, le=100)] = 6
    worlds: tuple[Annotated[int, msgspec.Meta(ge=1, le=8)], ...] = (4, 3)
    cut: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    seed: int = 0

    @property
    def steps(self) -> int:
        """Steps of one epoch; the last batch may be shorter."""
        return -(-self.num_samples // self.batch)

    @property
    def label(self) -> str:
        """For people."""
        worlds = ", then ".join(str(w) for w in self.worlds)
        sizes = f"{self.num_samples} samples, batches of {self.batch}"
        return f"{sizes}, a restart after each {self.cut} steps, {worlds} ranks"


class Said(msgspec.Struct):
    """Of every step the parts of all ranks; the order without restarts; states that are not the same on all ranks."""

    whole: list[list[int]]
    parts: list[list[list[int]]]
    odd_states: list[str]


def visible() -> list[Case]:
    """One restart and several, at an epoch's end and across it, batches that do not divide by W."""
    return [
        Case(),
        Case(num_samples=25, batch=5, worlds=(3, 4, 2), cut=2),
        Case(num_samples=24, batch=6, worlds=(4, 3), cut=4),
        Case(num_samples=26, batch=8, worlds=(2, 4), cut=5, seed=3),
        Case(num_samples=13, batch=4, worlds=(4, 1, 3), cut=1),
    ]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds with other numbers."""
    found = []
    for _ in range(5):
        batch, n = rng.randint(3, 9), rng.randint(20, 60)
        worlds = tuple(rng.randint(2, 5) for _ in range(rng.randint(2, 3)))
        cut = rng.choice((1, 2, 3, -(-n // batch)))
        found.append(Case(num_samples=n, batch=batch, worlds=worlds, cut=cut, seed=rng.randint(1, 10**6)))
    return found


def _samplers(case: Case, elastic: Any, world_size: int, state: Any) -> list[Any]:
    found = [elastic(case.num_samples, case.batch, rank, world_size, seed=case.seed) for rank in range(world_size)]
    for sampler in found if state is not None else []:
        sampler.load_state_dict(json.loads(state))
    return found


def _steps(samplers: list[Any], count: int) -> list[list[list[int]]]:
    """Up to ``count`` steps, epoch after epoch; an epoch that yields nothing ends it."""
    found: list[list[list[int]]] = []
    while len(found) < count:
        before, parts = len(found), iter(_epoch(samplers))
        while len(found) < count and (step := next(parts, None)) is not None:
            found.append(step)
        if len(found) == before:
            break
    return found


def _epoch(samplers: list[Any]) -> Iterator[list[list[int]]]:
    """The steps of one epoch; at its end every rank has come to the end, not only the first."""
    iterators = [iter(sampler) for sampler in samplers]
    while any(parts := [next(iterator, None) for iterator in iterators]) or None not in parts:
        yield [[int(i) for i in part or ()] for part in parts]


def on_rank(case: Case, elastic: Any) -> Said:
    """Two epochs without a restart on one rank, then with restarts."""
    total = EPOCHS * case.steps
    whole = [step[0] for step in _steps(_samplers(case, elastic, 1, None), total)]
    parts: list[list[list[int]]] = []
    odd: list[str] = []
    state = None
    for k, world_size in enumerate(case.worlds):
        samplers = _samplers(case, elastic, world_size, state)
        last = k == len(case.worlds) - 1
        parts += _steps(samplers, total - len(parts) if last else min(case.cut, total - len(parts)))
        states = [json.dumps(sampler.state_dict(), sort_keys=True) for sampler in samplers]
        odd += sorted(set(states))[:2] if len(set(states)) > 1 else []
        state = states[0]
    return Said(whole, parts, odd)


def wrong_epoch(seen: Seen[Case, Said]) -> Fault | None:
    """Without a restart: an epoch that is not the whole dataset in batches, or two equal ones."""
    case = seen.case
    sizes = [min(case.batch, case.num_samples - k * case.batch) for k in range(case.steps)] * EPOCHS
    for said in seen.said:
        if (have := [len(batch) for batch in said.whole]) != sizes:
            text = f"on one rank, without a restart, two epochs have batches of {have}."
            return Fault(text, f"batches of {sizes}", str(have))
        epochs = [[i for b in said.whole[k * case.steps : (k + 1) * case.steps] for i in b] for k in range(EPOCHS)]
        for number, indices in enumerate(epochs):
            if sorted(indices) != list(range(case.num_samples)):
                text = f"on one rank, without a restart, epoch {number} is {indices[:6]}..., not every index once."
                return Fault(text, f"0 to {case.num_samples - 1}, each once", str(indices[:6]))
        if case.num_samples >= MANY and epochs[0] == epochs[1]:
            return Fault("both epochs have the same order.", "another order", "the same order")
    return None


def other_order(seen: Seen[Case, Said]) -> Fault | None:
    """A step whose ranks together do not have the samples which that step has without a restart."""
    case = seen.case
    for said in seen.said:
        if said.odd_states:
            text = (
                f"the ranks' states differ: {said.odd_states[0][:60]} and {said.odd_states[1][:60]}. Only one is saved."
            )
            return Fault(text, "one state", "two")
        for step, (want, parts) in enumerate(zip(said.whole, said.parts, strict=False)):
            have = sorted(i for part in parts for i in part)
            if have != sorted(want):
                text = (
                    f"in step {step} (of {case.steps} an epoch) the ranks have {parts}; without a restart the step has "
                )
                text += f"{want}, in any division."
                return Fault(text, str(sorted(want)), str(have), step=step)
        if len(said.parts) != len(said.whole):
            text = f"with restarts there are {len(said.parts)} steps, without {len(said.whole)}."
            return Fault(text, f"{len(said.whole)} steps", f"{len(said.parts)} steps")
    return None


def uneven_parts(seen: Seen[Case, Said]) -> Fault | None:
    """A step in which one rank has two samples more than another."""
    for said in seen.said:
        for step, parts in enumerate(said.parts):
            sizes = [len(part) for part in parts]
            if max(sizes) - min(sizes) > 1:
                text = f"in step {step} the ranks have {sizes} samples: all wait for the largest part."
                return Fault(text, "parts that differ by one at most", str(sizes), step=step)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("epoch", "An epoch is not the whole dataset in a new order", wrong_epoch, "reported", first=True),
        Property("resume", "The order changes at a restart", other_order, "reported"),
        Property("uneven", "The parts of a step are uneven", uneven_parts, "reported"),
    ),
)
