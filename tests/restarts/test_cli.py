"""`lockstep run --restarts`: what it says about each start, and the command that replays it."""

import pytest
from click.testing import CliRunner

from autograder.cli import cli

PROGRAM = """
import torch.distributed as dist
import simulator

def main():
    for _ in simulator.steps(3):
        dist.barrier()
    return dist.get_world_size()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
def test_restarts_from_a_terminal():
    words = ["run", "train.py:main", "-n", "3", "--faults", "kill(rank=1, step=1)", "--restarts", "1"]
    result = CliRunner().invoke(cli, [*words, "--policy", "shrink"])
    assert result.exit_code == 0, result.output
    assert "Rank 1 was killed at step 1 by the fault plan" in result.output
    assert "The agent starts 2 ranks again (shrink)." in result.output
    assert "rank 1 returned 2" in result.output
    assert "1 restart; finished steps that were computed again: 0" in result.output


@pytest.mark.usefixtures("here")
def test_the_replay_line_has_the_restarts():
    plan = "kill(rank=1, step=1); kill(rank=1, step=1)"
    result = CliRunner().invoke(cli, ["run", "train.py:main", "-n", "2", "--faults", plan, "--restarts", "1"])
    assert result.exit_code == 1
    line = f"replay: lockstep run train.py:main --ranks 2 --seed 0 --faults '{plan}' --restarts 1"
    assert line in result.output
