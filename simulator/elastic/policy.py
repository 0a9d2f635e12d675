"""What happens after a failure: restart, with fewer or more ranks, or give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.errors import UsageError
from simulator.outcome import Outcome

CHOICES = ("restart", "shrink", "grow", "give_up")


@dataclass(frozen=True)
class Exit:
    """How one rank ended. `why`: done, error, killed, crashed, spinning, hung, or stopped by the agent.

    Attributes:
        step: the last step that it entered, -1 before the first. time_s: virtual seconds since the job began.
        is_culprit: it failed by itself; the others are victims.
    """

    rank: int
    why: str
    step: int
    time_s: float
    is_culprit: bool


@dataclass(frozen=True)
class Progress:
    """Where the job stands when an incarnation has failed.

    Attributes:
        incarnation: the one that failed, from 0. restarts_left: how many more there may be.
        world_size: of the incarnation that failed. first_world_size: that the job began with.
        step: the last step that every rank finished, -1 for none. What of it survives, the checkpoints know.
        lost: steps that earlier incarnations computed and later ones had to compute again.
        time_s: virtual seconds since the job began. outcome: how the incarnation ended.
    """

    incarnation: int
    restarts_left: int
    world_size: int
    first_world_size: int
    step: int
    lost: tuple[int, ...]
    time_s: float
    outcome: Outcome


Choice = str | tuple[str, int]
Policy = str | Callable[[tuple[Exit, ...], Progress], Choice]


def check(policy: object) -> None:
    """Raise `UsageError` for what is no policy."""
    if not callable(policy) and policy not in ("restart", "shrink"):
        raise UsageError(f"policy must be 'restart', 'shrink' or a function decide(exits, progress), got {policy!r}")


def decide(policy: Policy, exits: tuple[Exit, ...], progress: Progress, largest: int) -> tuple[str, int]:
    """What the policy wants: one of `CHOICES` and the next world size.

    "shrink" goes on without as many ranks as failed by themselves (as before if nobody is to blame), "grow" goes back
    to the first world size; ``("shrink", 3)`` and ``("grow", 6)`` name the size.

    Raises:
        UsageError: an answer that is none of these, or a size outside 1 to `largest`.
    """
    choice = policy(exits, progress) if callable(policy) else policy
    word, size = choice if isinstance(choice, tuple) and len(choice) == 2 else (choice, None)
    if word not in CHOICES or not (size is None or (isinstance(size, int) and word in ("shrink", "grow"))):
        raise UsageError(f"the policy answered {choice!r}: use {', '.join(CHOICES)}, or a pair such as ('shrink', 3)")
    if size is None:
        size = {
            "shrink": progress.world_size - sum(exit.is_culprit for exit in exits),
            "grow": progress.first_world_size,
        }.get(str(word), progress.world_size)
        if size < 1:
            return "give_up", 0
    if not 1 <= size <= largest:
        raise UsageError(f"the policy answered {choice!r}: a job can have 1 to {largest} ranks here")
    return str(word), size
