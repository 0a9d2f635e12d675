"""What a step costs in money, and what failures leave of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.errors import UsageError

#: Dubey et al. 2024, arXiv:2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days on 16384 GPUs.
GPU_HOURS_BETWEEN_FAILURES = 54 * 24 * 16384 / 419


@dataclass(frozen=True)
class Reliability:
    """How often a GPU fails (hours between failures of one GPU), what saving a checkpoint and restarting cost."""

    gpu_hours_between_failures: float = GPU_HOURS_BETWEEN_FAILURES
    checkpoint_s: float = 60.0
    restart_s: float = 600.0

    def seconds_between_failures(self, gpus: int) -> float:
        return self.gpu_hours_between_failures * 3600 / gpus

    def checkpoint_interval_s(self, gpus: int) -> float:
        """The interval that loses least: sqrt(2 * checkpoint * seconds between failures) (Young 1974)."""
        return math.sqrt(2 * self.checkpoint_s * self.seconds_between_failures(gpus))

    def goodput(self, gpus: int, interval_s: float | None = None) -> float:
        """Share of the time that ends up in the model: the rest saves, restarts and repeats lost steps.

        First order in the failure rate (Young 1974, Daly 2006): a failure loses half an interval on average. Raises
        `UsageError` for an interval that is not positive.
        """
        interval = self.checkpoint_interval_s(gpus) if interval_s is None else interval_s
        if interval <= 0:
            raise UsageError(f"a checkpoint interval of {interval} s: it must be positive")
        saving = self.checkpoint_s / (interval + self.checkpoint_s)
        lost = (interval / 2 + self.restart_s) / self.seconds_between_failures(gpus)
        return max(0.0, (1 - saving) * (1 - lost))


def usd_per_million_tokens(tokens_per_s_per_gpu: float, usd_per_gpu_hour: float) -> float:
    """Cost of training on a million tokens."""
    return usd_per_gpu_hour / 3600 / tokens_per_s_per_gpu * 1e6
