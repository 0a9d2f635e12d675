"""Ending a process with everything it started, also what left its session or lost its parent.

On Linux the job process adopts orphans (``PR_SET_CHILD_SUBREAPER``), so that every process a student's rank leaves
behind stays in its tree and is found in /proc. Elsewhere only the simulator's own parent-death handling works.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_KILL_LIMIT_S = 10.0  # for processes that the kernel cannot end at once


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def close_to_others() -> None:
    """Keep other processes of this user from reading our memory and from opening our pipes through /proc (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, parents first; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """The processes that ``pid``'s threads started and that are not reaped yet (Linux); empty when it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(word) for word in file.read().split()]
    return found


def family(pid: int) -> list[int]:
    """As `descendants`, by the kernel's own lists: far quicker on a machine with many processes."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):  # a kernel without such lists
        return descendants(pid)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def kill_tree(pid: int) -> None:
    """Stop ``pid``, then kill it and everything below it, until nothing new appears."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing while we look
    _kill_all(pid, ())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_strays(keep: Collection[int]) -> None:
    """Kill every process below this one except ``keep``, and reap what ended."""
    _kill_all(os.getpid(), keep)
    with contextlib.suppress(ChildProcessError):
        while _reap_one(keep):
            pass


def _kill_all(pid: int, keep: Collection[int]) -> None:
    """Kill until two looks in a row find nothing: one look can miss a child whose parent ends while we look."""
    until = time.monotonic() + _KILL_LIMIT_S
    clean = 0
    while clean < 2 and time.monotonic() < until:
        below = [p for p in descendants(pid) if p not in keep]
        clean = 0 if below else clean + 1
        for child in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)


def _reap_one(keep: Collection[int]) -> bool:
    """Reap one ended child that is not in ``keep`` (their owners wait for those)."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            pid = int(folder.name)
            if fields[0] == "Z" and int(fields[1]) == os.getpid() and pid not in keep:
                return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False
