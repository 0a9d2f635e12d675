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


ONE_OF_EACH = [
    "kill(rank=2, step=7)",
    "kill(rank=1, step=2, phase='save-write', incarnation=1)",
    "hang(rank=0, file=3)",
    "preempt(rank=1, collective=4, grace_s=1.5)",
    "slow(rank=1, factor=3, steps=(4, 8))",
    "skip_collective(rank=0, collective=2)",
    "corrupt(rank=1, collective=3, bits=(30, 31), element=5, where='payload')",
    "partition(sets=((0, 1), (2, 3)), step=3, duration_s=5)",
    "slow_link(ranks=(0, 5), factor=10)",
    "slow_link(nodes=(0, 1), factor=2.5, steps=(2, 4))",
]


@pytest.mark.parametrize("text", [*ONE_OF_EACH, "; ".join(ONE_OF_EACH)])
def test_every_kind_is_one_line_that_reads_back(text):
    assert str(FaultPlan.parse(text)) == text


def test_words_need_no_quotes_and_lists_are_as_good_as_pairs():
    assert FaultPlan.parse("kill(rank=1, phase=save-write)") == FaultPlan().kill(rank=1, phase="save-write")
    assert FaultPlan.parse("corrupt(rank=1, step=0, bits=[3])") == FaultPlan().corrupt(rank=1, step=0, bits=3)
    assert FaultPlan.parse("partition(sets=[[0], [1, 2]])") == FaultPlan().partition(sets=((0,), (1, 2)))


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
        ("kill(rank=1, phase=3)", "is not a word"),
        ("hang(rank=1)", "hang needs one point"),
        ("preempt(rank=1, step=2)", "needs grace_s"),
        ("preempt(rank=1, step=2, grace_s=-1)", "grace_s of 0 or more"),
        ("corrupt(rank=1, collective=2)", "needs bits"),
        ("corrupt(rank=1, collective=2, bits=1, where=disk)", "where='payload'"),
        ("partition(sets=((0, 1),))", "two or more sets"),
        ("partition(sets=((0, 1), (1, 2)))", "different ranks"),
        ("partition(sets=(0, 1))", "is not sets of ranks"),
        ("slow_link(factor=2)", "two ends"),
        ("slow_link(ranks=(0, 1, 2), factor=2)", "is not a pair"),
        ("kill(rank=1, step=1.5)", "whole number"),
    ],
)
def test_mistakes_are_explained(text, words):
    with pytest.raises(FaultPlanError, match=words):
        FaultPlan.parse(text)
