"""The same programs on plain gloo: what would ranks see without the coordinator?

One helper process imports torch once and forks the ranks of each program; it is a session of its own, every process in
it dies with its parent and by an alarm, and the caller kills the whole session at the end: nothing can stay behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

TIMEOUT_S = 2.0  # of a gloo operation
LIMIT_S = 20  # of a whole program
_PR_SET_PDEATHSIG = 1


def observe(names: list[str]) -> Iterator[list[str]]:
    """For each taxonomy case, by name: what each rank ended with ("=3.0", "SIGABRT", or an error's text)."""
    command = [sys.executable, "-m", "benchmarks.gloo", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as helper:
        try:
            assert helper.stdout is not None
            for line in helper.stdout:
                yield json.loads(line)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(helper.pid, signal.SIGKILL)


def _serve(names: list[str]) -> None:
    _die_with_parent()
    import torch
    import torch._dynamo  # what DDP and the optimizers would import in every rank

    from tests.diagnose.taxonomy import CASES

    torch.set_num_threads(1)
    cases = {case.name: case for case in CASES}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
            print(json.dumps(_run(cases[name].program, cases[name].world_size, Path(folder))), flush=True)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(program: object, world_size: int, folder: Path) -> list[str]:
    pids = [_fork(program, rank, world_size, folder) for rank in range(world_size)]
    deadline = time.monotonic() + LIMIT_S
    statuses: dict[int, int] = {}
    while len(statuses) < world_size and time.monotonic() < deadline:
        for rank, pid in enumerate(pids):
            if rank not in statuses and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                statuses[rank] = ended[1]
        time.sleep(0.01)
    for rank in set(range(world_size)) - set(statuses):
        os.kill(pids[rank], signal.SIGKILL)
        os.waitpid(pids[rank], 0)
    return [_ended(folder / str(rank), statuses.get(rank)) for rank in range(world_size)]


def _ended(file: Path, status: int | None) -> str:
    if status is None:
        return f"still waits after {LIMIT_S} s"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return file.read_text() if file.exists() else f"exit {os.WEXITSTATUS(status)}"


def _fork(program: object, rank: int, world_size: int, folder: Path) -> int:
    if pid := os.fork():
        return pid
    _die_with_parent()
    signal.alarm(LIMIT_S + 5)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    (folder / str(rank)).write_text(_result(program, rank, world_size, folder))
    os._exit(0)


def _result(program: object, rank: int, world_size: int, folder: Path) -> str:
    import torch.distributed as dist

    store = dist.FileStore(str(folder / "store"), world_size)
    limit = timedelta(seconds=TIMEOUT_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)
    try:
        return f"={program()}"  # type: ignore[operator]
    except BaseException as error:  # sys.exit too: it is a result
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    _serve(sys.argv[1:])
