"""Start 4 ranks, one all_reduce, end: a warm run against torch.multiprocessing.spawn and torchrun doing the same."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import simulator


def main(*, quick: bool) -> bool:
    simulator.run(_all_reduce, 4, echo=False)  # warm
    ours = statistics.median(_seconds(lambda: simulator.run(_all_reduce, 4, echo=False)) for _ in range(20))
    spawn = statistics.median(_seconds(_spawn) for _ in range(1 if quick else 5))
    torchrun = statistics.median(_seconds(_torchrun) for _ in range(1 if quick else 5))
    for name, theirs in (("torch.multiprocessing.spawn", spawn), ("torchrun", torchrun)):
        print(f"warm run {ours:.3f} s, {name} {theirs:.2f} s: {theirs / ours:.0f} times faster")
    return min(spawn, torchrun) / ours >= 20


def _seconds(action: object) -> float:
    began = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - began


def _all_reduce() -> float:
    import torch
    import torch.distributed as dist

    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return float(tensor)


def _spawn() -> None:
    import torch.multiprocessing

    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        torch.multiprocessing.spawn(_spawned, args=(folder,), nprocs=4)


def _torchrun() -> None:
    module = (sys.executable, "-m", "torch.distributed.run")
    command = (*module, "--standalone", "--nproc-per-node", "4", "-m", "benchmarks.launch")
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}  # or torchrun warns
    subprocess.run(command, check=True, capture_output=True, env=environ)


def _spawned(rank: int, folder: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    _all_reduce()


def _worker() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    _all_reduce()
    dist.destroy_process_group()


if __name__ == "__main__":
    _worker()
