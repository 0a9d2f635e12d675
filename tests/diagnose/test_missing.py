"""One rank's recording is lost: what the others show without it. Traces made by hand, no processes."""

from __future__ import annotations

import pytest

from simulator.diagnose import diagnose
from simulator.diagnose import diagnosis as d
from simulator.trace import Event, Trace

GROUPS = [["default", [0, 1, 2, 3]], ["pair", [0, 2]]]


def calls(rank: int, *lines: tuple[int, int, str]) -> list[Event]:
    """Collectives of a rank, given as (line, step, group): all completed but the last, in which it waited in vain."""
    made: list[Event] = []
    for n, (line, step, group) in enumerate(lines):
        seq = sum(e.group == group for e in made)
        status = "timeout" if n == len(lines) - 1 else "ok"
        at = 100 * step + line
        made.append(
            Event(
                rank=rank,
                n=n,
                op="all_reduce",
                issue_ns=at,
                wait_ns=at,
                start_ns=-1,
                end_ns=at + 1 if status == "ok" else 1000,
                status=status,
                group=group,
                seq=seq,
                work=n,
                step=step,
                shapes=((line,),),
                site=f"train.py:{line}",
            )
        )
    return made


def lost_rank_2(*of_rank_0: tuple[int, int, str]) -> Trace:
    """Ranks 1 and 3 wait for ranks 0 and 2 in line 50 of step 1."""
    common = [(50, 0, "default"), (50, 1, "default")]
    events = [*calls(0, *of_rank_0), *calls(1, *common), *calls(3, *common)]
    return Trace({"world_size": 4, "groups": GROUPS}, events)


def test_a_rank_that_is_past_the_others_is_blamed_and_not_the_lost_one():
    found = diagnose(lost_rank_2((50, 0, "default"), (60, 0, "pair"), (60, 1, "pair")))
    assert (found.kind, found.ranks) == (d.DEADLOCK_GROUPS, (0,))
    assert d.DEAD in found.also
    assert "rank 0: all_reduce(group pair) at train.py:60; ranks 1 and 3: all_reduce() at train.py:50" in found.text


def test_a_rank_that_is_on_its_way_to_the_others_only_waits_for_the_lost_one():
    found = diagnose(lost_rank_2((40, 0, "pair"), (50, 0, "default"), (40, 1, "pair")))
    assert (found.kind, found.ranks) == (d.DEAD, (2,))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_who_all_wait_for_is_gone_where_it_left_nothing(rank):
    others = [r for r in range(4) if r != rank]
    events = [e for r in others for e in calls(r, (50, 0, "default"), (50, 1, "default"))]
    found = diagnose(Trace({"world_size": 4, "groups": GROUPS}, events))
    assert (found.kind, found.ranks) == (d.DEAD, (rank,))
