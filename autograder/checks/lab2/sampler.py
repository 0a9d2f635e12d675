"""Check of lab2/sampler: each rank's part of a dataset in each epoch, and a shard that the contract does not allow.

A sampler is a function of (rank, world size, seed, epoch) alone, so one process asks for every rank's part.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.seen import Fault, Seen

EPOCHS = (0, 1, 2, 1)  # the last one again, to see whether an epoch can be repeated
REPEATED = 1  # the epoch that comes twice in EPOCHS
MANY = 12  # from so many samples on, two equal orders are no accident
MIDNIGHT = datetime.datetime(2026, 3, 14, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
VERSIONS = {"older": "2026-03-12", "newer": "2026-03-14"}
VERSION = "2026-03-13"


class Case(cases.Case, frozen=True):
    """``ranks`` share ``num_samples``. ``shard`` says how the shard on the node differs from the contract."""

    ranks: Annotated[int, msgspec.Meta(ge=1, le=8)] = 4
    num_samples: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 24
    seed: int = 0
    shard: Literal["as-declared", "fresher", "older", "newer", "cut"] = "as-declared"

    @property
    def per_rank(self) -> int:
        """Samples of each rank in an epoch, padding included."""
        return -(-self.num_samples // self.ranks)

    @property
    def is_stale(self) -> bool:
        """The contract does not allow this shard."""
        return self.shard in ("older", "newer", "cut")


class Manifest(msgspec.Struct, frozen=True):
    """The fields of the lab's ``Manifest``."""

    dataset: str
    version: str
    owner: str
    num_samples: int
    newest_event: datetime.datetime
    available: datetime.datetime


class Epoch(msgspec.Struct):
    """One epoch, by rank: the indices, what ``len`` says, what ``padding`` says."""

    indices: list[list[int]]
    lengths: list[int]
    padding: list[int]


class Said(msgspec.Struct):
    """``refused`` is the type of the exception and its message, empty where there was none."""

    refused: list[str]
    epochs: list[Epoch]
    other_seed: list[list[int]]
    twice: list[list[int]]
    changed: list[str]


def visible() -> list[Case]:
    """W divides the dataset or not, fewer samples than ranks, one rank; then the shards."""
    sizes = ((4, 24), (3, 24), (2, 25), (3, 25), (4, 26), (5, 33), (8, 3), (1, 12), (8, 100))
    found = [Case(ranks=ranks, num_samples=n, seed=n) for ranks, n in sizes]
    return found + [Case(ranks=3, shard=shard) for shard in ("fresher", "older", "newer", "cut")]


def drawn(rng: random.Random) -> list[Case]:
    """Cases of the same kinds as the visible ones."""
    found = []
    for ranks in (2, 3, 4, 5, 8):
        sizes = (ranks * rng.randint(6, 12), ranks * rng.randint(6, 12) + rng.randint(1, ranks - 1))
        found += [Case(ranks=ranks, num_samples=n, seed=rng.randint(1, 10**6), draw=cases.number(rng)) for n in sizes]
    found.append(Case(ranks=rng.randint(4, 8), num_samples=rng.randint(1, 3), seed=rng.randint(1, 99)))
    shards: list[Any] = ["fresher", "older", "newer", "cut"]
    return found + [Case(ranks=rng.randint(2, 4), num_samples=rng.randint(12, 50), shard=s) for s in shards]


def _manifests(case: Case) -> tuple[Manifest, Manifest]:
    """What stands on the node, and what the contract declares."""
    declared = Manifest("clicks", VERSION, "data platform", case.num_samples, MIDNIGHT - HOUR, MIDNIGHT + HOUR)
    change: dict[str, Any] = {
        "as-declared": {},
        "fresher": {"newest_event": declared.newest_event + HOUR / 2},
        "cut": {"newest_event": declared.newest_event - 5 * HOUR},
    }.get(case.shard) or ({"version": VERSIONS[case.shard]} if case.shard in VERSIONS else {})
    return msgspec.structs.replace(declared, **change), declared


def on_rank(case: Case, shard_sampler: Any) -> Said:
    """Ask for every rank's part of some epochs."""
    shard, contract = _manifests(case)
    states = _random_states()

    def samplers(seed: int) -> list[Any]:
        return [shard_sampler(shard, contract, rank, case.ranks, seed=seed) for rank in range(case.ranks)]

    try:
        mine, others = samplers(case.seed), samplers(case.seed + 1)
    except Exception as error:
        if isinstance(error, NotImplementedError | NameError) or not case.is_stale:
            raise
        return Said([type(error).__name__, str(error)[:500]], [], [], [], [])
    limit = 2 * case.per_rank + 2
    twice = [_indices(s, limit) for s in mine]
    epochs = []
    for epoch in EPOCHS:
        for sampler in (*mine, *others):
            sampler.set_epoch(epoch)
        indices = [_indices(s, limit) for s in mine]
        epochs.append(Epoch(indices, [len(s) for s in mine], [int(s.padding) for s in mine]))
    changed = [name for name, state in _random_states().items() if state != states[name]]
    return Said([], epochs, [_indices(s, limit) for s in others], twice, changed)


def _indices(sampler: Any, limit: int) -> list[int]:
    return [int(i) for i in itertools.islice(sampler, limit)]


def _random_states() -> dict[str, str]:
    import numpy as np
    import torch

    generator = np.random.get_state()
    return {
        "torch": str(torch.get_rng_state().tolist()),
        "numpy": f"{generator[1].tolist()} {generator[2]}",  # type: ignore[index]
        "random": str(random.getstate()),
    }


def uneven(seen: Seen[Case, Said]) -> Fault | None:
    """A rank whose number of samples is not ceil(n / W)."""
    want = seen.case.per_rank
    for said in seen.said:
        counts = [len(epoch.indices) for epoch in said.epochs]
        if not said.refused and counts != [seen.case.ranks] * len(EPOCHS):  # no honest rank says this
            return Fault("the check did not hear of every rank's samples in every epoch.")
        for number, epoch in zip(EPOCHS, said.epochs, strict=False):
            for rank, (indices, length) in enumerate(zip(epoch.indices, epoch.lengths, strict=False)):
                if len(indices) != want:
                    text = f"in epoch {number} rank {rank} yields {_at_most(len(indices), want)} samples, expected "
                    text += f"{want} = ceil({seen.case.num_samples} / {seen.case.ranks}) on every rank."
                    return Fault(text, f"{want} samples", f"{len(indices)} samples", rank)
                if length != want:
                    text = f"len(sampler) on rank {rank} is {length}, but iterating yields {want} samples."
                    return Fault(text, str(want), str(length), rank)
    return None


def _at_most(count: int, want: int) -> str:
    return f"{count} or more" if count == 2 * want + 2 else str(count)


def missing(seen: Seen[Case, Said]) -> Fault | None:
    """An index of the dataset that no rank sees in an epoch, or one that the dataset does not have."""
    n = seen.case.num_samples
    for said in seen.said:
        for number, epoch in zip(EPOCHS, said.epochs, strict=False):
            times = Counter(i for part in epoch.indices for i in part)
            if strange := sorted(times.keys() - set(range(n))):
                text = f"in epoch {number} the index {strange[0]} comes up; the dataset has 0 to {n - 1}."
                return Fault(text, f"0 to {n - 1}", str(strange[0]))
            if absent := sorted(set(range(n)) - times.keys()):
                twice = max(times, key=lambda i: times[i], default=0)
                text = f"in epoch {number} no rank sees index {absent[0]} ({len(absent)} of {n} are missing); "
                text += f"index {twice} comes {times[twice]} times."
                return Fault(text, f"all {n} indices", f"{n - len(absent)} of them", None)
    return None


def undeclared_padding(seen: Seen[Case, Said]) -> Fault | None:
    """Without the last ``padding`` samples of every rank, an index is missing or comes twice."""
    n = seen.case.num_samples
    for said in seen.said:
        for number, epoch in zip(EPOCHS, said.epochs, strict=False):
            kept = Counter(i for part, k in zip(epoch.indices, epoch.padding, strict=False) for i in _without(part, k))
            wrong = next((i for i in range(n) if kept[i] != 1), None)
            if wrong is not None:
                repeats = seen.case.per_rank * seen.case.ranks - n
                text = (
                    f"in epoch {number} the ranks declare {epoch.padding} repeats at the end of their lists. Without "
                )
                text += f"those, index {wrong} comes {kept[wrong]} times. In all {repeats} samples are repeats."
                return Fault(text, "every index once", f"index {wrong} {kept[wrong]} times")
    return None


def _without(part: list[int], padding: int) -> list[int]:
    return part[: max(0, len(part) - max(0, padding))]


def same_order(seen: Seen[Case, Said]) -> Fault | None:
    """Epochs in the same order or with the same parts, an epoch that cannot be repeated, a seed without effect."""
    if seen.case.num_samples < MANY:
        return None
    for said in seen.said:
        orders = [epoch.indices for epoch in said.epochs]
        if not orders:
            continue
        if fault := _same(seen.case, said, orders):
            return fault
    return None


def _same(case: Case, said: Said, orders: list[list[list[int]]]) -> Fault | None:
    again = EPOCHS.index(REPEATED)
    first = f"rank 0 sees {orders[0][0][:4]}..."
    if orders[0] == orders[1] or orders[1] == orders[2]:
        text = f"epochs {0 if orders[0] == orders[1] else 1} and {1 if orders[0] == orders[1] else 2} have the same "
        return Fault(f"{text}order: {first} each time, after set_epoch, too.", "another order", "the same")
    if orders[-1] != orders[again] or said.twice != orders[0]:
        text = f"epoch {REPEATED} asked for twice gives two orders" if orders[-1] != orders[again] else ""
        text = text or "before any set_epoch the order is not that of epoch 0"
        return Fault(f"{text}. A run that resumes could not go on in the same order.", "the same order", "another one")
    if said.other_seed == orders[-1]:
        return Fault(f"seeds {case.seed} and {case.seed + 1} give the same order.", "another order", "the same")
    if case.ranks > 1 and sorted(orders[0][0]) == sorted(orders[1][0]) == sorted(orders[2][0]):
        text = "rank 0 sees the same samples in every epoch, only in another order. Shuffle first, then divide: "
        return Fault(text + "a rank's part must change, too.", "other samples", "the same samples", 0)
    return None


def touched_random_state(seen: Seen[Case, Said]) -> Fault | None:
    """A global random state that is not as it was."""
    for said in seen.said:
        if said.changed:
            text = (
                f"the global random state of {said.changed[0][:10]} changed: dropout masks and augmentation now depend"
            )
            return Fault(f"{text} on the sampler.", "unchanged", "changed")
    return None


def accepted_stale(seen: Seen[Case, Said]) -> Fault | None:
    """A stale shard that was accepted, or refused without saying what is wrong."""
    shard, contract = _manifests(seen.case)
    for said in seen.said if seen.case.is_stale else []:
        cut = seen.case.shard == "cut"
        have, want = (shard.newest_event, contract.newest_event) if cut else (shard.version, contract.version)
        what = (
            f"its newest event is of {have:%H:%M}, the contract asks for {want:%H:%M}"
            if cut
            else (f"it has version {have}, the contract asks for {want}")
        )
        if not said.refused:
            return Fault(f"the shard was accepted, but {what}.", "ValueError", "accepted")
        kind, message = said.refused
        if kind != "ValueError":
            return Fault(f"the shard was refused with {kind}: {message}. Expected a ValueError.", "ValueError", kind)
        if not cut and not (shard.version in message and contract.version in message):
            text = f"the ValueError says {message!r}. Whoever reads it at 3 am needs both versions: {what}."
            return Fault(text, f"{have} and {want} in the message", message)
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
        Property("uneven", "The ranks do not have equally many samples", uneven, "reported", first=True),
        Property("coverage", "An epoch does not show the whole dataset", missing, "reported", first=True),
        Property("padding", "Repeated samples are not declared", undeclared_padding, "reported"),
        Property("epoch", "The order does not follow the epoch", same_order, "reported"),
        Property("random-state", "The global random state changed", touched_random_state, "reported", part="epoch"),
        Property("stale", "A stale shard gets through", accepted_stale, "reported"),
    ),
)
