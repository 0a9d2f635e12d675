"""The same function on plain gloo, without the simulator: what every coverage test and benchmark compares with.

One server process imports torch once and forks the ranks of each run from itself, so that a run starts in milliseconds.
Ranks meet in a FileStore in the caller's folder and talk over loopback. A run has a hard deadline of wall time, after
which its ranks are killed: plain gloo may hang. Everything ends with the caller, which holds the server's only socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import Pipe, set_start_method
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle

from simulator import values

_ROOT = str(Path(__file__).parents[2])
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
_PR_SET_PDEATHSIG = 1


@dataclass
class RankResult:
    """How one rank ended: "ok" with the encoded return value, "error" with type and words, or "hung" or "died"."""

    status: str
    value: bytes = b""
    error: str = ""
    wall_s: float = 0.0


@dataclass
class Job:
    payload: bytes
    world_size: int
    folder: str
    seed: int
    deadline_s: float


class Plain:
    """A warm server; use it as a context manager."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        code = f"import sys; sys.path.insert(0, {_ROOT!r}); from tests.coverage.plain import serve; "
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"{code}serve({theirs.fileno()})"],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT, **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})},
        )
        theirs.close()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.wait(30)

    def run(
        self,
        fn: Callable[..., Any],
        world_size: int,
        folder: Path,
        *,
        args: tuple[Any, ...] = (),
        seed: int = 0,
        deadline_s: float = 60.0,
    ) -> list[RankResult]:
        """Run ``fn(*args)`` in every rank; `folder` must exist and is used for the rendezvous."""
        payload = cloudpickle.dumps((fn, args))
        self._connection.send(Job(payload, world_size, str(folder), seed, deadline_s))
        results: list[RankResult] = self._connection.recv()
        return results


def serve(fd: int) -> NoReturn:
    """The server's main loop; ends when the caller's end of the socket closes."""
    from simulator.rank.preload import LATER  # the modules that a rank of the simulator finds imported, too

    for module in LATER:
        importlib.import_module(module)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(fd)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            os._exit(0)
        connection.send(_run(job, connection))


def _run(job: Job, caller: Connection) -> list[RankResult]:
    ours: list[Connection] = []
    pids = []
    for rank in range(job.world_size):
        mine, theirs = Pipe()
        pid = os.fork()
        if not pid:
            for other in (caller, mine, *ours):
                other.close()
            _be_rank(job, rank, theirs)
        theirs.close()
        ours.append(mine)
        pids.append(pid)
    try:
        return _collect(ours, time.monotonic() + job.deadline_s)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _collect(connections: list[Connection], deadline: float) -> list[RankResult]:
    """Wait for every rank's result; a rank that reported stays until all did, so that nobody loses a peer."""
    results = [RankResult("hung") for _ in connections]
    pending = dict(zip(connections, range(len(connections)), strict=True))
    while pending and (left := deadline - time.monotonic()) > 0:
        for ready in wait(list(pending), left):
            assert isinstance(ready, Connection)
            rank = pending.pop(ready)
            try:
                results[rank] = ready.recv()
            except EOFError:
                results[rank] = RankResult("died")
    return results


def _be_rank(job: Job, rank: int, connection: Connection) -> NoReturn:
    try:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        start = time.monotonic()
        result = _call(job, rank)
        result.wall_s = time.monotonic() - start
        connection.send(result)
        connection.recv()  # until killed: peers may still need this rank
    finally:
        os._exit(1)


def _call(job: Job, rank: int) -> RankResult:
    """As `simulator.rank.main` sets a rank up: seeds, one thread, variables of torchrun."""
    import numpy
    import torch
    import torch.distributed as dist

    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", job.world_size)):
        os.environ[name] = str(value)
    set_start_method("fork", force=True)
    torch.set_num_threads(1)
    random.seed(job.seed)
    numpy.random.seed(job.seed)
    torch.manual_seed(job.seed)
    store = dist.FileStore(f"{job.folder}/rendezvous", job.world_size)
    try:
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=job.world_size, timeout=timedelta(seconds=job.deadline_s)
        )
        keep = dist.group.WORLD  # noqa: F841 - freeing the last reference to a group can deadlock in C++
        function, args = pickle.loads(job.payload)
        return RankResult("ok", values.encode(function(*args)))
    except BaseException as error:
        return RankResult("error", error=f"{type(error).__name__}: {error}")
