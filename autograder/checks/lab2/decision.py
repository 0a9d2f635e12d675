"""Check of lab2/decision: the numbers that operators and product owner watch during the night."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.seen import Fault, Seen

NEARLY = 1e-6  # relative; a number that is rounded to one digit is wrong
UNITS = {
    "minutes": "minutes",
    "dollars": "$",
    "capacity_samples": "samples",
    "latest_start_minutes": "minutes",
    "alarm_samples_per_s": "samples a second",
    "falls_back": "",
}


class Case(cases.Case, frozen=True):
    """One night: what the brief of the lab says, in other numbers."""

    samples: int = 40_000_000
    one_gpu_per_s: int = 1400
    speedup: float = 4.5
    gpus: int = 8
    dollars_per_gpu_hour: float = 2.0
    window_minutes: int = 240

    def expected(self) -> dict[str, float]:
        """The six answers."""
        per_s = self.one_gpu_per_s * self.speedup
        minutes = self.samples / per_s / 60
        return {
            "minutes": minutes,
            "dollars": minutes / 60 * self.gpus * self.dollars_per_gpu_hour,
            "capacity_samples": per_s * self.window_minutes * 60,
            "latest_start_minutes": self.window_minutes - minutes,
            "alarm_samples_per_s": self.samples / (self.window_minutes * 60),
            "falls_back": float(minutes > self.window_minutes),
        }


class Said(msgspec.Struct):
    """The answers that are finite numbers, and the keys of the others."""

    numbers: dict[str, float]
    unusable: list[str]


def visible() -> list[Case]:
    """The night of the brief; a busier one with a slower job; one that cannot be made."""
    return [
        Case(),
        Case(samples=25_000_000, one_gpu_per_s=900, speedup=2.5, gpus=4, dollars_per_gpu_hour=3.5, window_minutes=300),
        Case(samples=90_000_000, speedup=3.0),
    ]


def drawn(rng: random.Random) -> list[Case]:
    """Nights that can be made with some reserve, and one that cannot."""
    found = []
    for share in (rng.uniform(0.3, 0.6), rng.uniform(0.6, 0.9), rng.uniform(1.2, 2.0)):
        gpus, rate, window = rng.choice((2, 4, 16)), rng.randint(500, 3000), rng.randint(100, 400)
        speedup = round(gpus * rng.uniform(0.4, 0.9), 2)
        samples = int(share * rate * speedup * window * 60)
        dollars = round(rng.uniform(1, 5), 2)
        found.append(
            Case(
                samples=samples,
                one_gpu_per_s=rate,
                speedup=speedup,
                gpus=gpus,
                dollars_per_gpu_hour=dollars,
                window_minutes=window,
            )
        )
    return found


def on_rank(case: Case, decide: Any) -> Said:
    """Ask for the night's numbers; what is no finite number, or missing, is only named."""
    fields = msgspec.to_builtins(case)
    answers = decide(**{name: value for name, value in fields.items() if name not in ("world_size", "draw")})
    numbers, unusable = {}, []
    for key in UNITS:
        try:
            numbers[key] = float(answers[key])
        except (KeyError, TypeError, ValueError):
            unusable.append(key)
    bad = [key for key, number in numbers.items() if not math.isfinite(number)]
    return Said({key: n for key, n in numbers.items() if key not in bad}, unusable + bad)


def wrong(*keys: str) -> Callable[[Seen[Case, Said]], Fault | None]:
    """Whether one of these answers is missing or wrong."""

    def look(seen: Seen[Case, Said]) -> Fault | None:
        expected = seen.case.expected()
        for said in seen.said:
            for key in keys:
                what = f'"{key}"' + (f" (in {UNITS[key]})" if UNITS[key] else " (0 is False, 1 is True)")
                if key not in said.numbers:
                    return Fault(f"{what} is missing or no number.", f"{expected[key]:.9g}", "no number")
                if fault := compare.wrong_number(what, None, said.numbers[key], expected[key], NEARLY):
                    return fault
        return None

    return look


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("latency", "The time of the training is wrong", wrong("minutes"), "reported"),
        Property("cost", "The cost of the training is wrong", wrong("dollars"), "reported"),
        Property("capacity", "The capacity of the window is wrong", wrong("capacity_samples"), "reported"),
        Property("fallback", "The fallback is wrong", wrong("latest_start_minutes", "falls_back"), "reported"),
        Property("alarm", "The alarm is set at another rate", wrong("alarm_samples_per_s"), "reported"),
    ),
)
