"""Cases of lab2/sampler: datasets and ranks, and shards that differ from the contract."""

from __future__ import annotations

import datetime
import random
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases

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
    def is_odd(self) -> bool:
        """It is about the shard, not about its samples."""
        return self.shard != "as-declared"

    @property
    def is_stale(self) -> bool:
        """The contract does not allow this shard."""
        return self.shard in ("older", "newer", "cut")

    @property
    def repeats(self) -> int:
        """Samples that fill up the parts of all ranks."""
        return self.per_rank * self.ranks - self.num_samples


class Manifest(msgspec.Struct, frozen=True):
    """The fields of the lab's ``Manifest``."""

    dataset: str
    version: str
    owner: str
    num_samples: int
    newest_event: datetime.datetime
    available: datetime.datetime


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


def manifests(case: Case) -> tuple[Manifest, Manifest]:
    """What stands on the node, and what the contract declares."""
    declared = Manifest("clicks", VERSION, "data platform", case.num_samples, MIDNIGHT - HOUR, MIDNIGHT + HOUR)
    change: dict[str, Any] = {
        "as-declared": {},
        "fresher": {"newest_event": declared.newest_event + HOUR / 2},
        "cut": {"newest_event": declared.newest_event - 5 * HOUR},
    }.get(case.shard) or ({"version": VERSIONS[case.shard]} if case.shard in VERSIONS else {})
    return msgspec.structs.replace(declared, **change), declared
