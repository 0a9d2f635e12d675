"""Cases: flat structs whose name says all of them, so that one case can be run again by its name alone.

A name is ``field=value`` for every field that is not at its default: ``world_size=3,length=7,dtype=float32``. Hidden
and fresh cases carry numbers drawn from a seed, never the seed.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from autograder.errors import LabError
from autograder.results import Params

if TYPE_CHECKING:
    import numpy as np

Ranks = Annotated[int, msgspec.Meta(ge=1, le=8)]
_DRAWS = 10**6


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case. A check adds fields: numbers, words, truth values, and tuples of whole numbers, all with a default.

    Attributes:
        world_size: ranks; 1 for a function that needs none.
        draw: makes the numbers of a drawn case differ from those of another; 0 for visible cases.
    """

    world_size: Ranks = 1
    draw: int = 0

    @property
    def name(self) -> str:
        """What ``lockstep check --case`` takes."""
        fields = sorted(msgspec.structs.fields(type(self)), key=lambda f: f.name not in Case.__struct_fields__)
        said = [(f.name, getattr(self, f.name)) for f in fields if getattr(self, f.name) != f.default]
        return ",".join(f"{name}={_text(value)}" for name, value in said) or "plain"

    @property
    def label(self) -> str:
        """The check's own fields, for people."""
        names = [f.name for f in msgspec.structs.fields(type(self)) if f.name not in Case.__struct_fields__]
        said = [(name, getattr(self, name)) for name in names]
        return ", ".join(f"{name.replace('_', ' ')} {_text(v)}" for name, v in said if _is_said(v))

    def numbers(self) -> np.random.Generator:
        """A numpy generator that depends on the case and on nothing else."""
        import numpy as np

        return np.random.default_rng(int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big"))


C = TypeVar("C", bound=Case)
Draw = Callable[[random.Random], Sequence[C]]


def _is_said(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _text(value: Any) -> str:
    return "+".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def parse(kind: type[C], name: str) -> C:
    """The case of that name; LabError says how names look."""
    known = {f.name: f for f in msgspec.structs.fields(kind)}
    said: dict[str, Any] = {}
    try:
        for piece in [] if name == "plain" else name.split(","):
            key, _, text = piece.partition("=")
            many = isinstance(known[key].default, tuple)
            said[key] = [p for p in text.split("+") if p] if many else text
        return msgspec.convert(said, kind, strict=False)
    except (KeyError, msgspec.ValidationError):
        example = kind(world_size=3).name if "world_size" in known else "plain"
        raise LabError(f"there is no case {name!r}: copy it from a finding's replay line (like {example})") from None


def select(kind: type[C], exercise_id: str, params: Params, visible: Sequence[C], drawn: Draw[C]) -> list[C]:
    """The cases that ``params`` asks for: one by its name, the visible ones, or drawn ones (hidden, fresh).

    Drawn cases depend on HMAC-SHA256(seed, exercise id), and on the student where ``params.student`` is set.
    """
    if params.case is not None:
        return [parse(kind, params.case)]
    if params.kind == "visible":
        return list(visible)
    if not params.seed:
        raise LabError(f"{params.kind} cases need a seed")
    return list(drawn(random.Random(_key(params, exercise_id))))


def _key(params: Params, exercise_id: str) -> bytes:
    words = [exercise_id, *([params.student] if params.student else []), *(["fresh"] if params.kind == "fresh" else [])]
    return hmac.new(params.seed.encode(), "\0".join(words).encode(), hashlib.sha256).digest()


def number(rng: random.Random) -> int:
    """A value for ``Case.draw``."""
    return rng.randrange(1, _DRAWS)
