"""The promise: same function, plan and seed, same trace; whatever else the machine does."""

import multiprocessing
import os
import subprocess
import sys

import pytest

import simulator
from tests.simulator import programs

FAULTS = "kill(rank=2, step=3); slow(rank=1, factor=3)"
CASES = [
    (programs.train, FAULTS),
    (programs.ring_shift, FAULTS),
    (programs.ddp, "slow(rank=1, factor=3)"),
    (programs.ddp, "kill(rank=2, collective=9)"),
    *(
        pytest.param(program, "", marks=pytest.mark.slow)
        for program in (programs.receives_from_anyone, programs.polls_until_done, programs.adds_in_the_store)
    ),
]
RUNS = 10


@pytest.mark.parametrize(("program", "faults"), CASES)
def test_ten_runs_one_digest(program, faults):
    runs = [simulator.run(program, 4, faults=faults, echo=False) for _ in range(RUNS)]
    assert len({run.trace.digest for run in runs}) == 1
    assert len({run.outcome.explain() for run in runs}) == 1
    assert not runs[0].inconclusive


def _burn() -> None:
    while True:
        pass


def test_load_changes_nothing():
    idle = simulator.run(programs.ring_shift, 4, faults=FAULTS, echo=False)
    burners = [multiprocessing.get_context("fork").Process(target=_burn, daemon=True) for _ in range(3)]
    for burner in burners:
        burner.start()
    try:
        busy = [simulator.run(programs.ring_shift, 4, faults=FAULTS, echo=False) for _ in range(3)]
    finally:
        for burner in burners:
            burner.kill()
            burner.join()
    assert {run.trace.digest for run in busy} == {idle.trace.digest}


_CHILD = """
import os, sys
sys.path[:0] = [{root!r}]
os.chdir({folder!r})
import simulator
from tests.simulator import programs
print(simulator.run(programs.train, 4, faults={faults!r}, echo=False).trace.digest)
"""


def test_another_process_folder_and_hash_seed_give_the_same_digest(tmp_path):
    here = simulator.run(programs.train, 4, faults=FAULTS, echo=False).trace.digest
    code = _CHILD.format(root=os.getcwd(), folder=str(tmp_path), faults=FAULTS)
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    assert there.stdout.strip() == here


def test_any_source_receives_take_the_earliest_message_first():
    assert simulator.run(programs.receives_from_anyone, 4, echo=False).results[0] == [3, 2, 1]


def test_store_counters_follow_virtual_time():
    assert simulator.run(programs.adds_in_the_store, 4, echo=False).results == [4, 3, 2, 1]


def test_another_plan_or_seed_is_another_digest():
    digests = {
        simulator.run(programs.train, 3, faults=faults, seed=seed, echo=False).trace.digest
        for faults, seed in (("", 0), ("", 1), ("slow(rank=1, factor=2)", 0))
    }
    assert len(digests) == 3
