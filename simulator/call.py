"""The call of `run`: what it may be given, and how it is told to people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulator.elastic.policy import Policy
from simulator.elastic.policy import check as check_policy
from simulator.errors import UsageError

MAX_WORLD_SIZE = 64
CLOCKS = ("virtual", "real")
REDUCTIONS = ("stock", "rank_order")


def check_call(
    fn: Any,
    world_size: Any,
    rank_args: Sequence[Any] | None,
    *,
    reduction: str,
    clocks: str,
    jitter: float,
    memory_gib: Any,
    timeout_s: float,
    cpu_limit_s: float,
) -> None:
    """Raise `UsageError` for a call of `run` that cannot work."""
    if not callable(fn):
        raise UsageError(
            f"run needs a function as its first argument, got {type(fn).__name__}: "
            "write run(train), without the parentheses"
        )
    if isinstance(world_size, bool) or not isinstance(world_size, int) or not 1 <= world_size <= MAX_WORLD_SIZE:
        raise UsageError(f"world_size must be a whole number from 1 to {MAX_WORLD_SIZE}, got {world_size!r}")
    if rank_args is not None and len(rank_args) != world_size:
        raise UsageError(f"rank_args needs one tuple for each of the {world_size} ranks, got {len(rank_args)}")
    if reduction not in REDUCTIONS:
        raise UsageError(f"unknown reduction {reduction!r}: use {' or '.join(REDUCTIONS)}")
    if clocks not in CLOCKS:
        raise UsageError(f"unknown clocks {clocks!r}: use {' or '.join(CLOCKS)}")
    if not 0 <= jitter < 1:
        raise UsageError(f"jitter is a relative spread, from 0 to below 1, got {jitter!r}")
    for name, seconds in (("timeout_s", timeout_s), ("cpu_limit_s", cpu_limit_s)):
        if not 0 < seconds <= 1e9:
            raise UsageError(f"{name} is in seconds, more than 0 and at most a billion, got {seconds!r}")
    if memory_gib is not None and not (isinstance(memory_gib, int | float) and memory_gib > 0):
        raise UsageError(f"memory_gib is how many GiB a GPU has (math.inf for no limit), got {memory_gib!r}")


def check_debug_rank(debug_rank: Any, world_size: int) -> None:
    """Raise `UsageError` for a rank that is not there."""
    if debug_rank is not None and debug_rank not in range(world_size):
        raise UsageError(f"debug_rank is one of the ranks 0 to {world_size - 1}, got {debug_rank!r}")


def check_restarts(restarts: Any, policy: Any) -> None:
    """Raise `UsageError` for restarts that are no number, and a policy that is none."""
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise UsageError(f"restarts must be a whole number of 0 or more, got {restarts!r}")
    check_policy(policy)


def clocks_in_words(clocks: str | None) -> str:
    """What the ranks' own clocks are."""
    if clocks == "real":
        return " (the ranks' own clocks are real)"
    return " (so are time.time, perf_counter and sleep in the ranks; time.monotonic is real)"


def call_in_words(fn: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any], policy: Policy) -> str:
    """The call of `run`, as one would type it."""
    words = [getattr(fn, "__name__", "fn"), f"world_size={settings['world_size']}", f"seed={settings['seed']}"]
    if args:
        words.append(f"args=({', '.join(map(_short, args))},)")
    if settings["faults"]:
        words.append(f"faults={settings['faults']!r}")
    if settings.get("restarts"):
        words.append(f"restarts={settings['restarts']}")
        words += [f"policy={policy!r}" if isinstance(policy, str) else f"policy={_short(policy)}"] * (
            policy != "restart"
        )
    if settings["reduction"] != "stock":
        words.append(f"reduction={settings['reduction']!r}")
    return f"simulator.run({', '.join(words)})"


def _short(value: Any) -> str:
    """An argument as one would type it: functions by name, long values cut."""
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
