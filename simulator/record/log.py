"""What one process recorded: JSON lines of events with wall clocks, each written when it happens.

A line is one `write` to the file, so what was written survives the process by whatever death. An operation has a line
when it is issued (pending) and another one when it is done; the last line of an event counts.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from simulator.errors import UsageError
from simulator.trace import Event

#: How long the end of the process waits for operations that are still under way.
_LAST_CALLBACKS_S = 0.5


def file_name(rank: int, incarnation: int) -> str:
    return f"rank{rank}.{incarnation}.jsonl"


class Clock:
    """Nanoseconds since 1970 that never go back within the process."""

    def __init__(self) -> None:
        self._origin_ns = time.time_ns() - time.perf_counter_ns()

    def now_ns(self) -> int:
        return self._origin_ns + time.perf_counter_ns()


class Log:
    """The file of one rank in one incarnation. Methods may be called from any thread.

    Raises:
        UsageError: the folder already has such a file, from another job.
    """

    def __init__(self, folder: Path, rank: int, world_size: int, incarnation: int, torch: str) -> None:
        self.rank, self.incarnation, self.clock = rank, incarnation, Clock()
        self.step, self.phase = -1, ""
        self.num_open = 0  # operations that gloo still works on
        self._threads: dict[int, str] = {threading.get_ident(): "0"}
        self._counts: dict[str, int] = {}
        self._num_works: dict[str, int] = {}
        self._groups: dict[str, tuple[int, ...]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(folder / file_name(rank, incarnation), flags, 0o644)
        except FileExistsError:
            raise UsageError(
                f"{folder} holds what another job left: `lockstep trace merge {folder}` makes a trace of it; remove "
                "the folder, or give this job another --trace"
            ) from None
        self._pid = os.getpid()
        self._write(
            {
                "version": 1,
                "clock": "wall",
                "world_size": world_size,
                "rank": rank,
                "incarnation": incarnation,
                "torch": torch,
                "origin_ns": self.clock.now_ns(),
            }
        )

    def _write(self, line: Any) -> None:
        if self._pid == os.getpid():  # a forked data-loader worker is not the rank
            os.write(self._file, msgspec.json.encode(line) + b"\n")

    def group(self, name: str, ranks: tuple[int, ...], other_name: str) -> str:
        """The name under which a group is recorded; `other_name` where another group has the first one."""
        if self._groups.get(name, ranks) != ranks:
            name = other_name
        if name not in self._groups:
            self._groups[name] = ranks
            self._write([name, ranks])
        return name

    def event(self, op: str, **fields: Any) -> Event:
        """A new event of this thread that begins now; write it with `write`."""
        thread = self._thread()
        n = self._counts[thread] = self._counts.get(thread, -1) + 1
        now = self.clock.now_ns()
        return Event(
            rank=self.rank,
            incarnation=self.incarnation,
            n=n,
            thread=thread,
            op=op,
            issue_ns=now,
            start_ns=fields.pop("start_ns", now),
            end_ns=fields.pop("end_ns", now),
            step=self.step,
            phase=self.phase,
            **fields,
        )

    def next_work(self) -> int:
        """The number of the operation that this thread begins now."""
        thread = self._thread()
        self._num_works[thread] = self._num_works.get(thread, -1) + 1
        return self._num_works[thread]

    def _thread(self) -> str:
        return self._threads.setdefault(threading.get_ident(), f"0.{len(self._threads)}")

    def write(self, event: Event) -> None:
        self._write(event)

    def begin_step(self, site: str = "") -> None:
        """An optimizer has finished a step at `site`: the next one begins, as `simulator.run` counts them."""
        self.step, self.phase = max(self.step, 0) + 1, ""
        self.write(self.event("step", site=site))

    def close(self, status: str) -> None:
        """The last line: how the program ended. Nobody may be about to call back when the interpreter goes."""
        until = time.monotonic() + _LAST_CALLBACKS_S
        while self.num_open > 0 and time.monotonic() < until:
            time.sleep(0.001)
        self.write(self.event("exit", status=status))
