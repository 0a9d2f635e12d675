"""The reference of the ring exercise in the deterministic world: a kill and a slow rank, one digest."""

from __future__ import annotations

import simulator
from benchmarks.reference import FAULTS, ring_program


def test_ten_runs_of_the_reference_under_faults_have_one_digest() -> None:
    runs = [simulator.run(ring_program(), 4, faults=FAULTS, echo=False) for _ in range(10)]
    assert len({run.trace.digest for run in runs}) == 1
    assert {run.outcome.name for run in runs} == {"PeerLost"}
    assert not any(run.inconclusive for run in runs)
