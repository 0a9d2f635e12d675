"""The twelve programs whose digests are committed: what they cover is what the promise was tested on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import simulator
from tests.simulator import programs

DIGESTS = Path(__file__).with_name("digests.json")


class Case(NamedTuple):
    """A program, its fault plan, whether it needs a new folder for each run, and how it ends."""

    program: Callable[..., Any]
    faults: str = ""
    needs_folder: bool = False
    outcome: str = "Completed"


CASES = {
    "data-parallel loop, killed and slow rank": Case(
        programs.train, "kill(rank=2, step=3); slow(rank=1, factor=3)", outcome="PeerLost"
    ),
    "ring by isend and recv, killed and slow rank": Case(
        programs.ring_shift, "kill(rank=2, step=3); slow(rank=1, factor=3)", outcome="PeerLost"
    ),
    "DDP, slow rank": Case(programs.ddp, "slow(rank=1, factor=3)"),
    "DDP, killed in backward": Case(programs.ddp, "kill(rank=2, collective=9)", outcome="PeerLost"),
    "FSDP2": Case(programs.fsdp2),
    "pipeline 1F1B": Case(programs.pipeline),
    "receive from any source": Case(programs.receives_from_anyone),
    "polling": Case(programs.polls_until_done),
    "subgroups and object collectives": Case(programs.subgroups_and_objects),
    "thread pool beside training": Case(programs.works_in_a_pool),
    "asynchronous checkpoint": Case(programs.saves_asynchronously, needs_folder=True),
    "a skipped collective": Case(
        programs.three_all_reduces, "skip_collective(rank=2, collective=1)", outcome="CollectiveTimeout"
    ),
}


def trace(name: str, folder: Path) -> simulator.Trace:
    """The trace of a run on 4 ranks, with time and memory; `folder` must be empty for cases that need one."""
    case = CASES[name]
    args = (str(folder),) if case.needs_folder else ()
    run = simulator.run(case.program, 4, args=args, faults=case.faults, memory_gib=math.inf, echo=False)
    assert not run.inconclusive, run
    assert run.outcome.name == case.outcome, run.outcome.explain()
    return run.trace


def digest(name: str, folder: Path) -> str:
    """The digest of such a run."""
    return trace(name, folder).digest


def committed() -> dict[str, str]:
    """The digests by name of the case."""
    digests: dict[str, str] = json.loads(DIGESTS.read_text())
    return digests


if __name__ == "__main__":  # python -m tests.simulator.catalogue: write them anew, after a change that is meant
    import tempfile

    with tempfile.TemporaryDirectory(prefix="lockstep-") as scratch:
        found = {name: digest(name, Path(scratch) / str(i)) for i, name in enumerate(CASES)}
    DIGESTS.write_text(json.dumps(found, indent=2) + "\n")
