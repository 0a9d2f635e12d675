"""100 runs of the ring all-reduce reference under kill + slow, half of them on a busy machine: how many digests?"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator

import simulator
from benchmarks.reference import FAULTS, ring_program
from simulator import launch


def main(*, quick: bool) -> bool:
    runs = 10 if quick else 50
    program = ring_program()
    idle = _digests(program, runs)
    launch.shutdown()  # the second half in new helper processes
    with burners(3):
        busy = _digests(program, runs)
    found = sorted(idle | busy)
    print(f"{2 * runs} runs on 4 ranks under {FAULTS}: {len(found)} digest(s): {', '.join(d[:16] for d in found)}")
    return len(found) == 1


def _digests(program: object, runs: int) -> set[str]:
    found = set()
    for _ in range(runs):
        run = simulator.run(program, 4, faults=FAULTS, echo=False)  # type: ignore[arg-type]
        assert run.outcome.name == "PeerLost", run
        assert not run.inconclusive, run
        found.add(run.trace.digest + run.outcome.text)
    return found


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """Processes that use all the processor they get."""
    burners = [multiprocessing.get_context("fork").Process(target=_burn, daemon=True) for _ in range(count)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


def _burn() -> None:
    while True:
        pass
