"""Which mistakes could have closed a circle of waits: pure functions, no processes."""

from __future__ import annotations

from simulator.diagnose import diagnosis as d
from simulator.diagnose.finding import Finding
from simulator.diagnose.repair import Waits
from simulator.trace import Event


def at(rank: int, op: str, *, group: str = "default", seq: int = 0, peer: int = -1) -> Event:
    return Event(
        rank=rank, n=seq, op=op, issue_ns=rank, start_ns=-1, end_ns=-1, group=group, seq=seq, peer=peer, work=1
    )


#: A ring of messages, and rank 3 alone in a call of group "a" before its own messages; rank 1 is a step ahead.
AHEAD = Waits(
    {
        0: at(0, "recv", peer=3, seq=-1),
        1: at(1, "all_gather", seq=3),
        2: at(2, "send", peer=3, seq=-1),
        3: at(3, "all_reduce", group="a"),
    },
    {0: (3,), 1: (0, 2, 3), 2: (3,), 3: (0, 1, 2)},
)
#: Two ranks in two groups that both belong to.
CROSSED = Waits({0: at(0, "all_reduce", group="a"), 1: at(1, "all_reduce", group="b")}, {0: (1,), 1: (0,)})


def finding(kind: str, *ranks: int, is_tie: bool = False) -> Finding:
    return Finding(kind, ranks, 0, is_tie=is_tie)


def test_the_rank_that_is_ahead_could_not_have_freed_the_others():
    assert AHEAD.circle() == (0, 1, 2, 3)
    assert AHEAD.admit(finding(d.OMITTED, 1)) is None
    assert AHEAD.admit(finding(d.EXTRA, 1)) is None
    assert AHEAD.admit(finding(d.BRANCH, 3)) == finding(d.BRANCH, 3)


def test_of_a_tie_those_remain_who_could_have_done_it_alone():
    assert AHEAD.admit(finding(d.OMITTED, 1, 3, is_tie=True)) == finding(d.OMITTED, 3)
    tie = finding(d.DEADLOCK_GROUPS, 0, 1, is_tie=True)
    assert CROSSED.admit(tie) == tie


def test_a_rank_that_left_out_several_calls_frees_all_who_wait_for_it_alone():
    waits = Waits(
        {0: at(0, "send", peer=1, seq=-1), 1: at(1, "all_reduce"), 2: at(2, "recv", peer=1, seq=-1)},
        {0: (1,), 1: (0, 2), 2: (1,)},
    )
    assert waits.admit(finding(d.OMITTED, 1)) == finding(d.OMITTED, 1)
    assert waits.admit(finding(d.OMITTED, 0)) is None


def test_ranks_that_wait_for_no_circle_are_in_none():
    assert Waits({0: at(0, "recv", peer=1, seq=-1)}, {0: (1,)}).circle() == ()
