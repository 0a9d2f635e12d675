"""Fault plans as data."""

import pytest

from simulator import FaultPlan, FaultPlanError

PLAN = FaultPlan(7).kill(rank=2, step=7).slow(rank=1, factor=3, steps=range(4, 8)).skip_collective(rank=0, collective=2)


def test_plans_print_and_parse():
    assert (
        str(PLAN) == "kill(rank=2, step=7); slow(rank=1, factor=3, steps=(4, 8)); skip_collective(rank=0, collective=2)"
    )
    assert FaultPlan.parse(str(PLAN), seed=7) == PLAN
    assert FaultPlan.parse("slow(rank=1, factor=2, steps=range(4, 8))") == FaultPlan().slow(
        rank=1, factor=2, steps=range(4, 8)
    )
    assert FaultPlan.parse(" ; ") == FaultPlan()


def test_plans_do_not_change():
    plan = FaultPlan()
    plan.kill(rank=0, step=1)
    assert plan.faults == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kill rank 2", "write it as"),
        ("explode(rank=2)", "unknown fault 'explode'"),
        ("kill(rank=2)", "needs one point"),
        ("kill(rank=2, step=1, collective=2)", "needs one point"),
        ("kill(step=1)", "needs rank"),
        ("kill(rank=2, step=1, when=3)", "does not take when"),
        ("slow(rank=1)", "needs factor"),
        ("slow(rank=1, factor=0.5)", "at least 1"),
        ("slow(rank=1, factor='x')", "is not a number"),
        ("kill(rank=-1, step=1)", "0 or more"),
        ("kill(rank=__import__('os').getpid(), step=1)", "is not a number"),
        ("skip_collective(rank=1, collective=-1)", "counted from 0"),
    ],
)
def test_mistakes_are_explained(text, words):
    with pytest.raises(FaultPlanError, match=words):
        FaultPlan.parse(text)
