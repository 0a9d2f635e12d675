"""What the processes of a room use, read from /proc by the trusted side, and the end of a room that uses too much.

The kernel limits every process (`limits.apply`) and the room's disk; only their sum needs a reader. It decides nothing
but whether a room ends, so its clock reaches no result of a room that stays within its limits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from autograder.sandbox.limits import Limits
from autograder.sandbox.processes import family

_PERIOD_S = 0.2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Looks at a room until `stop`; `why` says why it had to end, or is ""."""

    def __init__(self, pid: int, limits: Limits, end: Callable[[], None]) -> None:
        self.pid, self.limits, self.end, self.why = pid, limits, end, ""
        self._base_bytes = _private_bytes(pid)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._stopped.wait(_PERIOD_S):
            if why := self._too_much():
                self.why = why
                self.end()
                return

    def _too_much(self) -> str:
        below = family(self.pid)
        used = sum(max(0, _private_bytes(pid) - self._base_bytes) for pid in below)
        if used > self.limits.memory_bytes:
            return f"its processes took more than {self.limits.memory_bytes >> 20} MiB of memory together"
        if _available_bytes() < self.limits.free_memory_bytes:
            return "this machine was running out of memory while it ran"
        return ""


def _private_bytes(pid: int) -> int:
    """Resident memory of a process without what belongs to files; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
        return (int(resident) - int(shared)) * _PAGE_BYTES
    return 0


def _available_bytes() -> int:
    """Memory that the machine can still give; unlimited where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024
    return 1 << 62


def kill(pid: int) -> None:
    """SIGKILL; no matter if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
