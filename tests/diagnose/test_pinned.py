"""Programs that were once explained wrongly, or with words or advice that did not fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import permutations

import pytest
import torch
import torch.distributed as dist

import simulator
from simulator.diagnose import Diagnosis, diagnose
from simulator.diagnose import diagnosis as d
from tests.diagnose.edits import renumbered, without_rank
from tests.diagnose.wrong_calls import my_rank, ones


# ---- calls through a function ----
def reduce_all(size: int = 4, group: dist.ProcessGroup | None = None) -> None:
    dist.all_reduce(ones(size), group=group)


def barrier_in_a_branch() -> None:
    reduce_all()
    if my_rank() == 0:
        dist.barrier()
    reduce_all()


def logs_in_a_branch() -> None:
    for step in range(3):
        reduce_all(16)
        if my_rank() == 0 and step == 1:
            reduce_all(1)


# ---- groups ----
def makes_groups_in_another_order() -> None:
    """Rank 0 makes the two in another order; the first wait is not its own."""
    pairs = [[0, 1], [0, 2]] if my_rank() == 0 else [[0, 2], [0, 1]]
    groups = {tuple(pair): dist.new_group(pair) for pair in pairs}
    for pair in ((0, 1), (0, 2)):
        if my_rank() in pair:
            reduce_all(group=groups[pair])


def another_member_makes_groups_in_another_order() -> None:
    pairs = [[0, 1], [0, 2]] if my_rank() != 1 else [[0, 2], [0, 1]]
    groups = {tuple(pair): dist.new_group(pair) for pair in pairs}
    for pair in ((0, 1), (0, 2)):
        if my_rank() in pair:
            reduce_all(group=groups[pair])


def makes_groups_of_other_sizes() -> None:
    dist.new_group([0, 1] if my_rank() == 0 else [0, 1, 2])


def circle_of_groups() -> None:
    rank, size = my_rank(), dist.get_world_size()
    groups = [dist.new_group(sorted({k, (k + 1) % size})) for k in range(size)]
    for group in (groups[rank], groups[rank - 1]):
        dist.all_reduce(ones(), group=group)


# ---- time, sizes and messages ----
def comes_too_late() -> None:
    dist.all_reduce(ones())
    if my_rank() == 1:
        time.sleep(5000)
    dist.all_reduce(ones())


def splits_do_not_fit() -> None:
    size = dist.get_world_size()
    sent = [2 if my_rank() == 1 and k == 0 else 1 for k in range(size)]
    dist.all_to_all_single(torch.zeros(size), torch.zeros(sum(sent)), [1] * size, sent)


def other_tag() -> None:
    if my_rank() == 0:
        dist.send(ones(), 1, tag=3)
    elif my_rank() == 1:
        dist.recv(ones(), 0, tag=4)


def one_send_too_few() -> None:
    rank, last = my_rank(), dist.get_world_size() - 1
    for batch in range(3):
        if rank > 0:
            dist.recv(ones(), rank - 1)
        if rank < last and not (batch == 2 and rank == 0):
            dist.send(ones(), rank + 1)


def isend_to_nobody() -> None:
    if my_rank() == 0:
        dist.isend(ones(), 1)


ORDER = "in another order than the others, or left one out (group 1 is ranks 0 and 1 for some, ranks 0 and 2"
PINNED = (
    (barrier_in_a_branch, 4, d.BRANCH, (0,), ("Only rank 0 comes to this call", "omitted")),
    (logs_in_a_branch, 4, d.SHAPE, (0,), ("could also come from: omitted, extra, rank-only branch",)),
    (makes_groups_in_another_order, 3, d.GROUP, (0,), ("Rank 0 made", ORDER, "new_group for every group in")),
    (another_member_makes_groups_in_another_order, 3, d.DEAD, (2,), ("raised an exception",)),  # which says the rest
    (makes_groups_of_other_sizes, 3, d.GROUP, (0, 1, 2), ("wait for each other", "in the same order")),
    (circle_of_groups, 3, d.DEADLOCK_GROUPS, (0, 1, 2), ("wait for each other in different groups", "from: group")),
    (circle_of_groups, 4, d.DEADLOCK_GROUPS, (0, 1, 2, 3), ("wait for each other in different groups", "from: group")),
    (comes_too_late, 4, d.SLOW, (1,), ("Rank 1 came 3,200 virtual seconds too late at collective #1", "timeout")),
    (splits_do_not_fit, 3, d.SHAPE, (0, 1, 2), ("do not fit each other", "The trace holds no split sizes")),
    (other_tag, 3, d.DEADLOCK_P2P, (0, 1), ("rank 0 sends with tag 3", "Pass the same tag")),
    (one_send_too_few, 3, d.OMITTED, (0, 1), ("rank 0 finished with 2 sends to rank 1", "one more send on rank 0")),
    (isend_to_nobody, 2, d.NONE, (), ("1 message was never received: rank 0: send to rank 1",)),
)


@pytest.mark.parametrize(
    ("program", "world_size", "kind", "ranks", "words"),
    PINNED,
    ids=[f"{case[0].__name__}-{case[1]}" for case in PINNED],
)
def test_class_ranks_and_words(
    program: Callable[[], None], world_size: int, kind: str, ranks: tuple[int, ...], words: tuple[str, ...]
) -> None:
    trace = simulator.run(program, world_size, echo=False).trace
    found = diagnose(trace)
    assert (found.kind, found.ranks) == (kind, ranks), found
    assert all(word in found.text for word in words), found
    assert found.text.endswith(found.advice)
    _other_recordings(trace, found)


def _other_recordings(trace: simulator.Trace, found: Diagnosis) -> None:
    """With other rank numbers the same; without an innocent rank the culprits, or that this rank left nothing."""
    for numbers in permutations(range(trace.world_size)):
        again = diagnose(renumbered(trace, numbers))
        assert (again.kind, again.ranks) == (found.kind, tuple(sorted(numbers[rank] for rank in found.ranks))), numbers
    for rank in set(range(trace.world_size)) - set(found.ranks):
        again = diagnose(without_rank(trace, rank))
        assert set(found.ranks) <= set(again.ranks) or again.ranks == (rank,), f"without rank {rank}: {again}"
