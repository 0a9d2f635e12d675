"""Plans by rule, and the smallest plan that still fails."""

import pytest

import simulator
from simulator import FaultPlan, FaultPlanError
from simulator.faults import PHASES, by_mtbf, during_recovery, phases_by_ranks, shrink, two_faults
from tests.simulator import programs


def test_failures_by_mtbf_are_as_many_as_expected_and_the_same_every_time():
    plan = by_mtbf(64, 1000, step_s=1.0, mtbf_s=6400.0, seed=1)
    assert plan == by_mtbf(64, 1000, step_s=1.0, mtbf_s=6400.0, seed=1)
    assert plan != by_mtbf(64, 1000, step_s=1.0, mtbf_s=6400.0, seed=2)
    counts = [len(by_mtbf(64, 1000, step_s=1.0, mtbf_s=6400.0, seed=seed).faults) for seed in range(200)]
    assert sum(counts) / len(counts) == pytest.approx(10, rel=0.1)  # 64 ranks x 1000 s / 6400 s
    assert [f.step for f in plan.faults] == sorted(f.step for f in plan.faults)
    with pytest.raises(FaultPlanError, match="above 0"):
        by_mtbf(4, 10, step_s=1.0, mtbf_s=0.0)


def test_phases_by_ranks_has_every_pair():
    plans = phases_by_ranks(3, step=2)
    assert len({(f.phase, f.rank) for plan in plans for f in plan.faults}) == 3 * len(PHASES)
    assert str(plans[4]) == "kill(rank=1, step=2, phase='forward')"
    assert str(plans[0]) == "kill(rank=0, phase='init')"


def test_two_faults_hit_two_ranks():
    plans = two_faults(4, 5, count=50, seed=3)
    assert all(len({fault.rank for fault in plan.faults}) == 2 for plan in plans)
    assert len({plan.faults[0].step == plan.faults[1].step for plan in plans}) == 2
    with pytest.raises(FaultPlanError, match="two ranks"):
        two_faults(1, 5)


def test_faults_during_recovery_are_in_the_next_incarnation():
    assert str(during_recovery(2, rank=1, step=4)[3]) == (
        "kill(rank=1, step=4); kill(rank=1, phase='load', incarnation=1)"
    )


def test_shrinking_finds_the_one_fault_at_its_earliest_point():
    asked = []

    def fails(plan):
        asked.append(str(plan))
        return any(fault.kind == "kill" and fault.step >= 5 for fault in plan.faults)

    plan = FaultPlan.parse("slow(rank=2, factor=2); kill(rank=3, step=40); hang(rank=0, step=9); kill(rank=1, step=7)")
    assert str(shrink(plan, fails)) == "kill(rank=3, step=5)"
    first = list(asked)
    asked.clear()
    shrink(plan, fails)
    assert asked == first  # deterministic
    assert len(set(asked)) == len(asked)  # never asked twice


def test_shrinking_keeps_what_is_needed():
    def two_deaths(plan):
        return len([fault for fault in plan.faults if fault.kind in ("kill", "hang")]) >= 2

    plan = FaultPlan.parse("kill(rank=1, step=7); slow(rank=2, factor=2); kill(rank=3, step=40); hang(rank=0, step=9)")
    assert str(shrink(plan, two_deaths)) == "kill(rank=3, step=0); kill(rank=3, step=0)"


def test_shrinking_a_partition_leaves_one_rank_a_side():
    plan = FaultPlan().partition(sets=((0, 1), (2, 3), (4, 5)), step=6)

    def separates_1_and_4(plan):
        sides = [part for fault in plan.faults for part in fault.sets if {1, 4} & set(part)]
        return len(sides) == 2

    assert str(shrink(plan, separates_1_and_4)) == "partition(sets=((1,), (4,)), step=0)"


def test_a_program_that_fails_by_itself_shrinks_to_no_fault():
    assert shrink(FaultPlan().kill(rank=0, step=1), lambda plan: True) == FaultPlan()


def test_a_plan_that_does_not_fail_is_not_shrunk():
    with pytest.raises(FaultPlanError, match="does not fail"):
        shrink(FaultPlan().kill(rank=0, step=1), lambda plan: False)


def test_shrinking_against_real_runs():
    """Three faults, of which a kill at any step is enough to lose a peer."""

    def loses_a_peer(plan):
        return simulator.run(programs.train, 3, faults=plan, echo=False).outcome.name == "PeerLost"

    plan = FaultPlan.parse("slow(rank=0, factor=2); kill(rank=2, step=3); corrupt(rank=1, step=1, bits=3)")
    assert str(shrink(plan, loses_a_peer)) == "kill(rank=2, step=0)"
