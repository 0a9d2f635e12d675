"""`time.time`, `perf_counter` and `sleep` of a rank read and move its virtual clock.

On threads that the run knows, and not in processes that the rank forks. `time.monotonic` stays real: data-loader
workers and the standard library's waits with a time-out depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from simulator.errors import UsageError
from simulator.rank import context, threads

EPOCH_NS = 1_767_225_600_000_000_000  # what time.time() says at virtual time 0: 2026-01-01 00:00:00 UTC


def install() -> None:
    """Patch the time module in this rank."""
    time.time = _reading(time.time, lambda ns: (EPOCH_NS + ns) / 1e9)
    time.time_ns = _reading(time.time_ns, lambda ns: EPOCH_NS + ns)
    time.perf_counter = _reading(time.perf_counter, lambda ns: ns / 1e9)
    time.perf_counter_ns = _reading(time.perf_counter_ns, lambda ns: ns)
    time.sleep = _sleeping(time.sleep)  # type: ignore[assignment]


def _reading(real: Callable[[], Any], convert: Callable[[int], Any]) -> Callable[[], Any]:
    def read() -> Any:
        thread = threads.registered()
        if thread is None:
            return real()
        thread.advance(thread.now_ns)  # as if the device had been synchronised before
        return convert(thread.host_ns)

    return read


def _sleeping(real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        if threads.registered() is None:
            return real(seconds)
        if not seconds >= 0:
            raise UsageError(f"sleep({seconds!r}): give 0 or more seconds")
        context.get().sleep(seconds)

    return sleep
