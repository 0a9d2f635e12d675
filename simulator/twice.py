"""`run_twice`: does a program do the same thing again? Once more in new processes, with another hash seed.

It finds what depends on set order, the wall clock, or randomness without a seed, as far as two runs show it: a
difference is certain, the absence of one is not a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator import launch
from simulator.run import Run, run

if TYPE_CHECKING:
    from simulator.trace.diff import TraceDiff

#: The first run has hash seed 0, as every run.
_SECOND_HASH_SEED = "1"


def run_twice(
    fn: Callable[..., Any], world_size: int = 4, *, echo: bool = True, **options: Any
) -> tuple[Run, TraceDiff]:
    """Run as `simulator.run` does, run again silently in a new forkserver with another PYTHONHASHSEED, and compare.

    Args:
        options: those of `simulator.run`.

    Returns:
        The first run, and where the second one differs from it (false if nowhere).
    """
    first = run(fn, world_size, echo=echo, **options)
    found = run_again(first, fn, world_size, **options)
    if echo:
        print(found, flush=True)
    return first, found


def run_again(first: Run, fn: Callable[..., Any], world_size: int, **options: Any) -> TraceDiff:
    """The second half of `run_twice`: run `fn` as `first` was run, silently, and compare."""
    from simulator.trace.diff import diff

    with launch.new_world({"PYTHONHASHSEED": _SECOND_HASH_SEED}):
        second = run(fn, world_size, **options, echo=False)
    return diff(first.trace, second.trace, ("the first run", "the second run"))
