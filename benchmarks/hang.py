"""All ranks receive first: wall-clock time to the diagnosis, though the virtual timeout is 30 minutes."""

from __future__ import annotations

import statistics
import time

import simulator


def main(*, quick: bool) -> bool:
    ok = True
    for world_size in (2, 3, 4, 8):
        simulator.run(_healthy, world_size, echo=False)  # warm
        hang = _median(_everyone_receives_first, world_size, 5 if quick else 15)
        healthy = _median(_healthy, world_size, 5 if quick else 15)
        ratio = hang / healthy
        print(
            f"{world_size} ranks: hang diagnosed in {hang:.3f} s, a healthy run takes {healthy:.3f} s ({ratio:.2f} x)"
        )
        ok &= ratio < 3
    return ok


def _everyone_receives_first() -> None:
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    dist.recv(torch.empty(1), (rank - 1) % size)
    dist.send(torch.ones(1), (rank + 1) % size)


def _healthy() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def _median(program: object, world_size: int, repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        run = simulator.run(program, world_size, echo=False)  # type: ignore[arg-type]
        times.append(time.perf_counter() - began)
        assert run.outcome.name == ("Completed" if program is _healthy else "CollectiveTimeout")
    return statistics.median(times)
