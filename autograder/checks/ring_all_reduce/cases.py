"""The inputs of the ring all-reduce check: named, so that one case can be run again by its name alone.

A case's name holds all of it (``w3-n7-float32-ramp``, ``w4-n18-int64-random51-slow1``). Hidden cases carry a number
drawn from the grading seed, never the seed.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import re
from typing import TYPE_CHECKING, Any

import msgspec

from autograder.errors import LabError
from autograder.results import Params

if TYPE_CHECKING:
    import numpy as np

WORLD_SIZES = (2, 3, 4, 5)
DTYPES = ("float32", "float64", "int64")
SLOW_WORLD_SIZE = 3
SLOW_RANK = 1
_NAME = re.compile(r"w([2-8])-n(\d{1,6})-(float32|float64|int64)-(ramp|random|wide)(\d*)(?:-slow(\d))?")


class Case(msgspec.Struct, frozen=True):
    """``length`` elements on each of ``world_size`` ranks; ``slow`` is a rank that computes slowly, or None."""

    world_size: int
    length: int
    dtype: str
    pattern: str
    number: int = 0
    slow: int | None = None

    @property
    def name(self) -> str:
        """The name by which ``lockstep check --case`` runs this case again."""
        number = "" if self.pattern == "ramp" else str(self.number)
        slow = "" if self.slow is None else f"-slow{self.slow}"
        return f"w{self.world_size}-n{self.length}-{self.dtype}-{self.pattern}{number}{slow}"

    @property
    def label(self) -> str:
        """Short description for people."""
        slow = "" if self.slow is None else f", rank {self.slow} slow"
        return f"W={self.world_size}, n={self.length}, {self.dtype}{slow}"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return 4 if self.dtype == "float32" else 8

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """One 1-D array a rank. ``ramp``: 10 * (rank + 1) + index; ``random``; ``wide``: sums depend on their order."""
        import numpy as np

        shape = (self.world_size, self.length)
        generator = np.random.default_rng([self.number, self.world_size, self.length])
        if self.pattern == "ramp":
            values: Any = 10 * np.arange(1, self.world_size + 1)[:, None] + np.arange(self.length)
        elif self.dtype == "int64":
            values = generator.integers(-(10**9), 10**9, shape)
        elif self.pattern == "random":
            values = generator.normal(size=shape)
        else:
            values = generator.normal(size=shape) * 10.0 ** generator.uniform(-3, 4, shape)
        return list(np.ascontiguousarray(values.astype(self.dtype)))


def parse(name: str) -> Case:
    """The case of that name; LabError says how names look."""
    found = _NAME.fullmatch(name)
    if not found or (found[6] and int(found[6]) >= int(found[1])) or int(found[2]) > 100_000:
        raise LabError(f"there is no case {name!r}: copy it from a finding's replay line (like w3-n7-float32-ramp)")
    slow = int(found[6]) if found[6] else None
    return Case(int(found[1]), int(found[2]), found[3], found[4], int(found[5] or 0), slow)


def draw(exercise_id: str, params: Params) -> list[Case]:
    """All cases of ``params`` by world size; the plainest first, as the first that fails is shown; slow ones last."""
    if params.case is not None:
        return [parse(params.case)]
    if params.kind == "hidden" and not params.seed:
        raise LabError("hidden cases need a grading seed")
    rng = random.Random(hmac.new(params.seed.encode(), exercise_id.encode(), hashlib.sha256).digest())
    make = _hidden if params.kind == "hidden" else _visible
    cases = [case for world_size in WORLD_SIZES for case in make(world_size, rng)]
    slow = [msgspec.structs.replace(c, slow=SLOW_RANK) for c in cases if c.world_size == SLOW_WORLD_SIZE and c.length]
    return cases + slow


def _visible(world_size: int, rng: random.Random) -> list[Case]:
    """Fixed cases: empty, one element, shorter than the world, divisible and not, the three dtypes."""
    w = world_size
    return [
        Case(w, 2 * w, "float32", "ramp"),
        Case(w, 2 * w + 1, "float32", "ramp"),
        *([Case(w, w - 1, "int64", "ramp")] if w > 2 else []),
        Case(w, 1, "float32", "ramp"),
        Case(w, 0, "float32", "ramp"),
        Case(w, 5 * w - 1, "int64", "random", w),
        Case(w, 6 * w, "float64", "wide", w),
        Case(w, 10 * w + 3, "float32", "wide", w),
    ]


def _hidden(world_size: int, rng: random.Random) -> list[Case]:
    """Drawn cases of the same kinds as the visible ones."""
    w = world_size
    lengths = [w * rng.randint(1, 3), w * rng.randint(1, 4) + rng.randint(1, w - 1), rng.randint(1, w - 1), 1, 0]
    lengths += [w * rng.randint(5, 6), w * rng.randint(7, 9) + rng.randint(1, w - 1), w * 10 + rng.randint(1, w - 1)]
    dtypes = [*DTYPES, "float32", *rng.choices(DTYPES, k=3), "float32"]
    patterns = [*rng.choices(("random", "wide"), k=7), "wide"]
    drawn = zip(lengths, dtypes, patterns, strict=True)
    return [Case(w, n, dtype, pattern, rng.randrange(1, 10**6)) for n, dtype, pattern in drawn]
