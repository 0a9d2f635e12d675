"""`lockstep plan`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from simulator.planner.command import plan


def lockstep_plan(*arguments: str) -> Result:
    return CliRunner().invoke(plan, arguments)


def test_ranked_plans_with_reasons():
    result = lockstep_plan("--model", "7b", "--gpus", "8", "--batch", "32")
    assert result.exit_code == 0
    assert "Predicted, not measured" in result.output
    assert "why it loses" in result.output
    assert "Does not fit:\n  DDP: needs" in result.output
    assert "Goodput of 1: 99.8 %, with a failure every 6335 hours" in result.output


def test_frequent_failures_and_slow_checkpoints_leave_less():
    result = lockstep_plan("--failure-hours", "1000", "--checkpoint", "300")
    assert "Goodput of 1: 9" in result.output
    assert "with a failure every 125 hours, a checkpoint of 300 s every 274 minutes" in result.output
    assert lockstep_plan("--checkpoint", "0").exit_code == 2


@pytest.mark.parametrize(
    "given", ["--seq -5", "--seq 0", "--top 0", "--gpus 1000000000", "--price nan", "--checkpoint inf", "--batch -1"]
)
def test_numbers_that_mean_nothing_are_refused(given: str):
    assert lockstep_plan(*given.split()).exit_code == 2


def test_infeasible_is_exit_code_1():
    result = lockstep_plan("--model", "70b", "--gpus", "8", "--cluster", "a100-80gb-hdr")
    assert result.exit_code == 1
    assert "Infeasible. Binding constraint: memory" in result.output
    assert "  16 GPUs" in result.output


def test_json():
    found = json.loads(lockstep_plan("--json", "--seq", "4096").output)
    assert found["model"]["seq_len"] == 4096
    assert found["plans"][0]["memory_gib"]["total"] < 79.15
    assert 0 < found["plans"][0]["goodput"] < 1


def test_brief():
    output = lockstep_plan("--brief").output
    assert output.count("nearest published measurement") == 3
    assert "0.5 of a sequence" in output
    assert "grey zone" in output
    assert len(json.loads(lockstep_plan("--brief", "--json").output)) == 3


def test_unknown_names_are_a_sentence():
    result = lockstep_plan("--model", "9b")
    assert result.exit_code == 2
    assert "unknown model '9b'" in result.output
