"""Check of lab2/uneven: an epoch of ranks with different numbers of batches, whose gradients are means over samples.

The student's function calls ``step()`` after every round; that is where the check looks at the gradients. What this
rank's own batch gives comes from a copy of the model that the student never sees.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.lab2 import gradients
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen
from simulator.cluster.algorithms import bytes_sent

WIDTH, MOST_SAMPLES = 6, 5
RATE = 0.05
SLACK_BYTES = 64  # a round, for counts and flags in whatever form


class Case(cases.Case, frozen=True):
    """``batches`` of each rank, each with its own number of samples."""

    batches: tuple[Annotated[int, msgspec.Meta(ge=0, le=9)], ...] = (1,)

    @property
    def rounds(self) -> int:
        """Rounds in which at least one rank has a batch."""
        return max(self.batches)

    def samples(self, rank: int) -> list[int]:
        """Samples of that rank in each round; 0 where it has no batch."""
        drawn = self.numbers().integers(1, MOST_SAMPLES + 1, (self.world_size, self.rounds))
        return [int(n) if k < self.batches[rank] else 0 for k, n in enumerate(drawn[rank])]


class Round(msgspec.Struct):
    """At one call of ``step``: the summed gradient of this rank's batch, and what the parameters hold."""

    local: list[Array]
    held: list[Array]


class Said(msgspec.Struct):
    """Rounds, and the parameters at the end of the epoch."""

    names: list[str]
    rounds: list[Round]
    weights: list[Array]
    gradient_bytes: int


def visible() -> list[Case]:
    """Rank 0 longest, rank 0 shortest, a rank without any batch, equally many batches."""
    chosen = ((3, 1), (1, 3), (2, 4, 1), (0, 2, 3), (1, 3, 3, 2), (3, 3, 3, 3))
    return [Case(world_size=len(batches), batches=batches) for batches in chosen]


def drawn(rng: random.Random) -> list[Case]:
    """The same kinds with other numbers; some rank is alone at the end."""
    found = []
    for w, has_empty in ((2, False), (3, False), (3, True), (4, False), (4, True)):
        batches = [rng.randint(1, 3) for _ in range(w)]
        longest, shortest = rng.sample(range(w), 2)
        batches[longest] = max(batches) + 1
        batches[shortest] = 0 if has_empty else 1
        found.append(Case(world_size=w, batches=tuple(batches), draw=cases.number(rng)))
    return found


def _batches(case: Case, rank: int) -> list[tuple[Any, Any]]:
    import torch

    generator = torch.Generator().manual_seed(int(case.numbers().integers(2**31)) + rank)
    return [
        (torch.randn(n, WIDTH, generator=generator), torch.randn(n, generator=generator))
        for n in case.samples(rank)
        if n
    ]


def _model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(WIDTH, 12), nn.Tanh(), nn.Linear(12, 1))


def on_rank(case: Case, train_epoch: Any) -> Said:
    """One epoch; ``step`` notes the gradients, then makes a step of SGD."""
    import torch.distributed as dist

    batches = _batches(case, dist.get_rank())
    module, twin, rounds = _model(), _model(), list[Round]()
    parameters = [p for _, p in gradients.trainable(module)]

    def step() -> None:
        twin.load_state_dict(module.state_dict())
        twin.zero_grad()
        if len(rounds) < len(batches):
            x, y = batches[len(rounds)]
            (twin(x).squeeze(-1) - y).square().sum().backward()
        local = [gradients.gradient(p) for _, p in gradients.trainable(twin)]
        rounds.append(Round(local, [gradients.gradient(p) for p in parameters]))
        for p in parameters:
            p.data -= RATE * (0.0 if p.grad is None else p.grad)
            p.grad = None

    train_epoch(module, iter([(x.clone(), y.clone()) for x, y in batches]), step)
    size = sum(p.numel() * p.element_size() for p in parameters)
    names = [name for name, _ in gradients.trainable(module)]
    return Said(names, rounds, [array(p) for p in parameters], size)


def wrong_rounds(seen: Seen[Case, Said]) -> Fault | None:
    """A rank with more or fewer steps than there are rounds."""
    want, counts = seen.case.rounds, [len(said.rounds) for said in seen.said]
    for rank, have in enumerate(counts):
        if have != want:
            text = f"the ranks have {_listed(seen.case.batches)} batches, so there are {want} rounds. "
            text += f"Rank {rank} called step() {have} times; calls by rank: {_listed(counts)}."
            return Fault(text, f"{want} steps on every rank", f"{have} steps on rank {rank}", rank)
    return None


def _listed(numbers: Any) -> str:
    return ", ".join(str(n) for n in numbers)


def wrong_gradient(seen: Seen[Case, Said]) -> Fault | None:
    """A gradient that is not the mean over all samples of its round."""
    for k in range(seen.case.rounds if not wrong_rounds(seen) else 0):
        samples = [seen.case.samples(rank)[k] for rank in range(seen.case.world_size)]
        for number, name in enumerate(seen.said[0].names):
            if fault := _wrong_in_round(seen, k, number, samples):
                more = f" In round {k} the ranks have {_listed(samples)} samples."
                text = f"round {k}, {fault.text}{more}{_like_join(seen, k, number, samples, fault.rank or 0)}"
                return msgspec.structs.replace(fault, text=text.replace("@", name))
    return None


def _wrong_in_round(seen: Seen[Case, Said], k: int, number: int, samples: list[int]) -> Fault | None:
    total, tolerance = compare.sum_of([said.rounds[k].local[number].numpy() for said in seen.said])
    tolerance = tolerance * 4 * gradients.SLACK / sum(samples)
    for rank, said in enumerate(seen.said):
        held = said.rounds[k].held[number].numpy()
        if fault := compare.wrong_array("the gradient of @", rank, held, total / sum(samples), tolerance):
            return fault
    return None


def _like_join(seen: Seen[Case, Said], k: int, number: int, samples: list[int], rank: int) -> str:
    """Whether a wrong gradient is the one of a division by the number of ranks."""
    import numpy as np

    locals_ = [said.rounds[k].local[number].numpy() for said in seen.said]
    means: Any = sum(part / n for part, n in zip(locals_, samples, strict=True) if n)
    held = seen.said[rank].rounds[k].held[number].numpy()
    if held.shape == means.shape and np.allclose(held, means / seen.case.world_size, rtol=1e-4, atol=1e-7):
        return " That is the sum of the ranks' mean gradients, divided by all ranks, as torch's Join does."
    return ""


def different_bits(seen: Seen[Case, Said]) -> Fault | None:
    """Parameters that are not the same on all ranks at the end."""
    for k, name in enumerate(seen.said[0].names):
        weights = [said.weights[k].numpy() for said in seen.said]
        if fault := compare.different_bits(f"after the epoch the parameter {name}", weights):
            more = " Replicas that differ in one bit drift apart."
            return msgspec.structs.replace(fault, text=fault.text + more)
    return None


def other_traffic(seen: Seen[Case, Said]) -> Fault | None:
    """Fewer bytes than the gradients of all rounds, or more than those of one round more."""
    w, rounds, size = seen.case.world_size, seen.case.rounds, seen.said[0].gradient_bytes
    least = rounds * bytes_sent("all_reduce", size, w)
    most = (rounds + 1) * bytes_sent("all_reduce", size + SLACK_BYTES, w)
    for rank in range(w):
        events = seen.collectives(rank)
        have = gradients.sent(events, w)
        if not least - 1 <= have <= most:
            calls = ", ".join(sorted({e.op for e in events})) or "none"
            text = f"the collectives of rank {rank} ({len(events)} calls: {calls}) make it send {have:.0f} bytes in "
            text += f"{rounds} rounds. An all-reduce of its gradients ({size} bytes) once a round is {least:.0f} bytes."
            return Fault(text, f"{least:.0f} to {most:.0f} bytes", f"{have:.0f} bytes", rank)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    batched=True,
    properties=(
        Property("rounds", "Not every rank makes every round", wrong_rounds, "reported", first=True),
        Property("gradient", "The gradient is not the mean over samples", wrong_gradient, "reported", first=True),
        Property("agreement", "The replicas are not equal", different_bits, "reported"),
        Property("traffic", "The gradients travel more than once a round", other_traffic, "witnessed"),
    ),
)
