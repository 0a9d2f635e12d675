"""500 launches in a row: is anything left? Processes, ports, temporary files, shared memory."""

from __future__ import annotations

import os
import sys
import tempfile
import time

import psutil

import simulator
from simulator import launch

_TORCH_CACHE = "torchinductor_"  # torch's own: one folder for each user of a machine, however many launches
_GRACE_S = 3.0  # a process that has ended needs a moment to be gone; a leaked one stays


def main(*, quick: bool) -> bool:
    launches = 50 if quick else 500
    with tempfile.TemporaryDirectory(prefix="lst-") as folder, launch.new_world({"TMPDIR": folder}):
        before_ours, tempfile.tempdir = tempfile.tempdir, folder
        try:
            failed, new = _launch(launches)
        finally:
            tempfile.tempdir = before_ours
    print(f"{launches} launches of 2 to 4 ranks: {failed} failed, left behind: {new or 'nothing'}")
    return not failed and not new


def _launch(launches: int) -> tuple[int, dict[str, list[str]]]:
    """How many runs failed, and what is there afterwards that was not there before."""
    simulator.run(_all_reduce, 4, echo=False)  # starts the helpers
    before, failed = _left(), 0
    for i in range(launches):
        run = simulator.run(_all_reduce, 2 + i % 3, echo=False)
        if not run.ok:
            failed += 1
            print(f"launch {i}: {run.outcome}", flush=True)
        if i % 50 == 49:
            print(f"{i + 1} launches", file=sys.stderr, flush=True)
    deadline = time.monotonic() + _GRACE_S
    while (new := _new(before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return failed, new


def _new(before: dict[str, set[str]]) -> dict[str, list[str]]:
    return {kind: sorted(things - before[kind]) for kind, things in _left().items() if things - before[kind]}


def _all_reduce() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def _left() -> dict[str, set[str]]:
    """What this process and its descendants hold now; shared memory: of the whole machine."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {
        "processes": {str(process.pid) for process in family},
        "ports": {str(c.laddr) for process in family for c in process.net_connections() if c.status == "LISTEN"},
        "temporary files": {name for name in os.listdir(tempfile.gettempdir()) if not name.startswith(_TORCH_CACHE)},
        "shared memory": set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set(),
    }
