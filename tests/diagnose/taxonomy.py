"""How distributed programs go wrong: for each way what a run and its diagnosis must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.diagnose import diagnosis as d
from tests.diagnose import wrong_calls as c
from tests.diagnose import wrong_programs as w


@dataclass(frozen=True)
class Case:
    """One way to go wrong: `right` is what every rank would return if nothing were wrong (None: not looked at)."""

    program: Callable[[], float]
    outcome: str
    kind: str
    ranks: tuple[int, ...]
    right: float | None = None
    world_size: int = 4

    @property
    def name(self) -> str:
        words = self.program.__name__.replace("_", " ")
        return words if self.world_size == 4 else f"{words}, {self.world_size} ranks"


TIMEOUT, MISMATCH, FAILED, COMPLETED = "CollectiveTimeout", "CollectiveMismatch", "RankFailed", "Completed"
EVERYBODY = (0, 1, 2, 3)

CASES = (
    Case(
        c.skips_one_in_the_middle, TIMEOUT, d.UNEVEN, (2,), 101_010.0
    ),  # one line in a loop: which one is not to be seen
    Case(c.skips_a_line, TIMEOUT, d.OMITTED, (2,), 100_010.0),
    Case(c.skips_the_last, TIMEOUT, d.OMITTED, (2,), 10.0),
    Case(c.logs_on_rank_0_only, MISMATCH, d.BRANCH, (0,), 10.0),
    Case(c.logs_on_rank_0_only, MISMATCH, d.OMITTED, (0, 1), None, 2),
    Case(c.evaluates_on_rank_0_only, TIMEOUT, d.BRANCH, (0,), 10.0),
    Case(c.saves_on_rank_0_with_a_barrier, MISMATCH, d.BRANCH, (0,), 10.0),
    Case(c.calls_twice, MISMATCH, d.EXTRA, (2,), 1.0),
    Case(c.swaps_two, COMPLETED, d.SWAPPED, (1,), 10.0),
    Case(c.swaps_two, COMPLETED, d.SWAPPED, (0, 1), 3.0, 2),
    Case(c.swaps_two_in_branches, COMPLETED, d.NONE, (), 10.0),  # found by values only
    Case(c.other_shape, MISMATCH, d.SHAPE, (2,), 10.0),
    Case(c.far_larger_shape, MISMATCH, d.SHAPE, (2,), 10.0),
    Case(c.other_dtype, MISMATCH, d.DTYPE, (2,), 10.0),
    Case(c.integers_on_one_rank, MISMATCH, d.DTYPE, (2,), 10.0),
    Case(c.other_operation, MISMATCH, d.OPERATION, (2,), 10.0),
    Case(c.barrier_for_all_reduce, MISMATCH, d.OPERATION, (2,), 10.0),
    Case(c.other_reduce_op, MISMATCH, d.REDUCE_OP, (2,), 10.0),
    Case(c.other_root, MISMATCH, d.ROOT, (2,), 1.0),
    Case(c.own_rank_as_root, MISMATCH, d.ROOT, EVERYBODY, 1.0),
    Case(w.other_group, MISMATCH, d.GROUP, (2,)),
    Case(w.never_makes_the_group, TIMEOUT, d.GROUP, (2,), 1.0),
    Case(w.groups_in_another_order, TIMEOUT, d.DEADLOCK_GROUPS, (3,)),
    Case(w.everyone_receives_first, TIMEOUT, d.DEADLOCK_P2P, EVERYBODY),
    Case(w.everyone_sends_first, TIMEOUT, d.DEADLOCK_P2P, EVERYBODY, 1.0),
    Case(w.receives_while_others_reduce, TIMEOUT, d.OMITTED, (0,)),
    Case(w.other_tag, TIMEOUT, d.DEADLOCK_P2P, (0, 1)),
    Case(w.message_of_another_size, MISMATCH, d.SHAPE, (0, 1), 1.0),
    Case(w.fewer_batches, TIMEOUT, d.UNEVEN, (1,)),
    Case(w.fewer_batches_under_ddp, TIMEOUT, d.UNEVEN, (1,), 1.0),
    Case(w.no_sync_on_one_rank, TIMEOUT, d.OMITTED, (2,), 1.0),
    Case(w.extra_forward_with_batch_norm, MISMATCH, d.BRANCH, (0,), 1.0),
    Case(w.killed, FAILED, d.DEAD, (2,)),
    Case(w.raises, FAILED, d.DEAD, (2,), 10.0),
    Case(w.leaves_early, FAILED, d.DEAD, (2,), 10.0),
    Case(w.slow, COMPLETED, d.SLOW, (2,), 2.5),
    Case(w.broadcasts_in_branches, COMPLETED, d.NONE, (), 10.0),
    Case(w.broadcasts_in_branches, COMPLETED, d.NONE, (), 3.0, 2),
    Case(w.waits_the_other_way_round, COMPLETED, d.NONE, (), 10.0),
)
