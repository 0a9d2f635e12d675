"""Check of lab2/sampler: each rank's part of a dataset in each epoch, and a shard that the contract does not allow.

A sampler is a function of (rank, world size, seed, epoch) alone, so one process asks for every rank's part.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import msgspec

from autograder.checks.check import Check, Property
from autograder.checks.lab2.sampler_cases import Case, drawn, manifests, visible
from autograder.checks.seen import Fault, Seen

EPOCHS = (0, 1, 2, 1)  # the last one again, to see whether an epoch can be repeated
REPEATED = 1  # the epoch that comes twice in EPOCHS
UNEVEN = "The ranks do not have equally many samples"
COVERAGE = "An epoch does not show the whole dataset"
PADDING = "Repeated samples are not declared"
TOUCHED = "The global random state changed"
MANY = 12  # from so many samples on, two equal orders are no accident


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


def on_rank(case: Case, shard_sampler: Any) -> Said:
    """Ask for every rank's part of some epochs; of an odd shard only whether it is accepted."""
    shard, contract = manifests(case)
    states = _random_states()

    def samplers(seed: int) -> list[Any]:
        return [shard_sampler(shard, contract, rank, case.ranks, seed=seed) for rank in range(case.ranks)]

    try:
        mine, others = samplers(case.seed), samplers(case.seed + 1)
    except Exception as error:
        if isinstance(error, NotImplementedError | NameError) or not case.is_odd:
            raise
        return Said([type(error).__name__, str(error)[:500]], [], [], [], [])
    if case.is_odd:
        return Said([], [], [], [], [])
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
        if counts != [seen.case.ranks] * len(EPOCHS):  # no honest rank says this
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
                text = f"in epoch {number} the ranks declare {epoch.padding} repeats at the end of their lists. "
                text += (
                    f"Without those, index {wrong} comes {kept[wrong]} times. In all, {seen.case.repeats} samples are "
                )
                text += "repeats."
                return Fault(text, "every index once", f"index {wrong} {kept[wrong]} times")
    return None


def _without(part: list[int], padding: int) -> list[int]:
    return part[: max(0, len(part) - max(0, padding))]


def same_order(seen: Seen[Case, Said]) -> Fault | None:
    """Epochs in the same order or with the same parts, an epoch that cannot be repeated, a seed without effect."""
    faults = (_same(seen.case, said, [epoch.indices for epoch in said.epochs]) for said in seen.said)
    return next(filter(None, faults), None)


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


def wrong_shard(seen: Seen[Case, Said]) -> Fault | None:
    """A stale shard that was accepted, or refused without saying what is wrong; a fresher one that was refused."""
    shard, contract = manifests(seen.case)
    for said in seen.said:
        if not seen.case.is_stale:
            if not said.refused:
                continue
            text = f"the shard was refused with {': '.join(said.refused)}. Its version is the contract's and its "
            text += (
                f"newest event of {shard.newest_event:%H:%M}, later than the declared {contract.newest_event:%H:%M}."
            )
            return Fault(text, "accepted", said.refused[0])
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


def _of_samples(case: Case) -> bool:
    return not case.is_odd


def _fills_up(case: Case) -> bool:
    return not case.is_odd and case.repeats > 0


def _divides(case: Case) -> bool:
    return not case.is_odd and not case.repeats


def _is_long(case: Case) -> bool:
    return not case.is_odd and case.num_samples >= MANY


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("uneven", UNEVEN, uneven, "reported", first=True, about=_of_samples),
        Property("coverage", COVERAGE, missing, "reported", first=True, about=_of_samples),
        Property("padding", PADDING, undeclared_padding, "reported", about=_fills_up),
        Property("padding", PADDING, undeclared_padding, "reported", about=_divides),
        Property("epoch", "The order does not follow the epoch", same_order, "reported", about=_is_long),
        Property("random-state", TOUCHED, touched_random_state, "reported", part="epoch", about=_of_samples),
        Property("stale", "The shard is not judged by the contract", wrong_shard, "reported", about=lambda c: c.is_odd),
    ),
)
