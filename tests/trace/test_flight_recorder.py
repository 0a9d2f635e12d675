"""Flight-recorder dumps, read by torch's own analyzer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simulator
from simulator.rank.operations import OPERATIONS
from simulator.trace import Trace, flight_recorder
from tests.simulator import programs as broken
from tests.trace import programs

ANALYZER = "torch.distributed.flight_recorder.fr_trace"


def analyze(trace: Trace, folder: Path, *arguments: str) -> str:
    """What `torchfrtrace FOLDER` says."""
    flight_recorder.save(trace, folder)
    command = [sys.executable, "-m", ANALYZER, str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_hang_names_the_missing_rank_and_the_line(tmp_path):
    run = simulator.run(programs.leaves_out_rank_2, 4, echo=False)
    assert run.outcome.name == "CollectiveTimeout"
    said = analyze(run.trace, tmp_path / "dumps")
    assert "Not all ranks joining collective, sequence number: 3" in said
    assert "missing ranks: {2}" in said
    assert "collective: gloo:all_reduce" in said
    assert "programs.py:" in said


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (broken.other_operation_on_rank_2, "Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH"),
        (broken.other_dtype_on_rank_2, "Culprit rank 2; Error type: COLLECTIVE_DTYPE_MISMATCH"),
    ],
)
def test_a_mismatch_names_its_kind(tmp_path, program, words):
    assert words in analyze(simulator.run(program, 4, echo=False).trace, tmp_path)


def test_a_healthy_run_with_subgroups_has_nothing_to_report(tmp_path):
    run = simulator.run(programs.train_with_group, 4, echo=False)
    assert run.ok
    said = analyze(run.trace, tmp_path)
    for words in ("Not all ranks", "rror", "mismatch"):
        assert words not in said


def test_a_killed_rank_is_the_missing_one(tmp_path):
    run = simulator.run(programs.train_with_group, 4, faults="kill(rank=1, step=1)", echo=False)
    assert run.outcome.name == "PeerLost"
    assert "missing ranks: {1}" in analyze(run.trace, tmp_path)


def test_every_operation_has_a_name_that_the_analyzer_knows():
    from torch.distributed.flight_recorder.components.types import COLLECTIVES

    collectives = {spec.op for spec in OPERATIONS.values()} - {"send", "recv"}
    assert {flight_recorder._NAMES.get(op, op) for op in collectives} <= COLLECTIVES


def test_the_dumps_are_the_same_bytes_every_time(tmp_path):
    trace = simulator.run(programs.train_with_group, 3, echo=False).trace
    one, other = (flight_recorder.save(trace, tmp_path / name) for name in ("one", "other"))
    assert [path.name for path in one] == ["rank_0", "rank_1", "rank_2"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
