"""500 launches in a row: is anything left? Processes, ports, temporary files, shared memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

import simulator


def main(*, quick: bool) -> bool:
    simulator.run(_all_reduce, 4, echo=False)  # starts the helpers
    before = _left()
    failed = 0
    launches = 50 if quick else 500
    for i in range(launches):
        failed += not simulator.run(_all_reduce, 2 + i % 3, echo=False).ok
    new = {kind: sorted(things - before[kind]) for kind, things in _left().items() if things - before[kind]}
    print(f"{launches} launches of 2 to 4 ranks: {failed} failed, left behind: {new or 'nothing'}")
    return not failed and not new


def _all_reduce() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def _left() -> dict[str, set[str]]:
    """What this process and its descendants hold now."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    temporary = Path(tempfile.gettempdir())
    return {
        "processes": {str(process.pid) for process in family},
        "ports": {str(c.laddr) for process in family for c in process.net_connections() if c.status == "LISTEN"},
        "temporary files": {path.name for path in temporary.iterdir() if path.name.startswith("lockstep-")},
        "shared memory": set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set(),
    }
