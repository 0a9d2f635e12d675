"""The story of how one rank's calls became another's: pure functions, no processes."""

from __future__ import annotations

import pytest

from simulator.diagnose.align import align
from simulator.diagnose.clusters import Member, split
from simulator.diagnose.tape import Call, Signature


def calls(text: str, *, steps: bool = False) -> tuple[Call, ...]:
    """ "A B C2": calls of one shape at lines A, B and C; a digit is another shape. `steps`: every A begins a step."""
    found, step = [], -1
    for word in text.split():
        step += steps and word[0] == "A"
        shape = int(word[1:] or 1)
        found.append(Call(f"train.py:{ord(word[0])}", step, Signature("all_reduce", ((shape,),), "float32", "SUM", -1)))
    return tuple(found)


def edits(reference: str, other: str, *, steps: bool = False, is_open: bool = False) -> list[tuple[str, int, int]]:
    _, found = align(
        calls(reference, steps=steps), calls(other, steps=steps), reference_open=is_open, other_open=is_open
    )
    return [tuple(edit) for edit in found if edit.is_divergence]


@pytest.mark.parametrize(
    ("reference", "other", "expected"),
    [
        ("A B C D", "A B C D", []),
        ("A B C D", "A C D", [("left out", 1, 1)]),
        ("A B C D", "A B C", [("left out", 3, 3)]),
        ("A B C D", "A B X C D", [("added", 2, 2)]),
        ("A B C D", "A C B D", [("swapped", 1, 1)]),
        ("A B C D", "A B2 C D", [("argument", 1, 1)]),
        ("A B A B A B", "A B B A B", [("left out", 2, 2)]),
        ("A A A A A", "A A A", [("left out", 3, 3), ("left out", 4, 3)]),
    ],
)
def test_the_cheapest_story(reference, other, expected):
    assert edits(reference, other) == expected


def test_steps_tell_which_call_of_a_loop_is_missing():
    whole = calls("A A A A A", steps=True)
    _, found = align(whole, whole[:2] + whole[3:], reference_open=False, other_open=False)
    assert [edit for edit in found if edit.is_divergence] == [("left out", 2, 2)]


def test_the_end_of_a_stopped_rank_is_no_evidence():
    assert edits("A B C D", "A B", is_open=True) == []
    assert edits("A B C D", "A B") == [("left out", 2, 2), ("left out", 3, 2)]


def test_another_line_that_only_one_rank_visits_is_a_branch():
    assert edits("A B A B", "A X A X") == []


def test_a_loop_that_ends_early_is_left_before_a_call_that_is_like_its_first():
    [(_, i, j), *_] = edits("A B2 A B2 A B2", "A B2 A B2 X Y3", steps=True, is_open=True)
    assert (i, j) == (4, 4)


def test_long_sequences_are_compared_from_where_they_part():
    long = " ".join(["A B C"] * 2000)
    assert edits(f"{long} D E F", f"{long} E F") == [("left out", 6000, 6000)]


def test_the_majority_is_a_plurality_of_those_who_decided():
    done, longer = Member(calls("A B"), False), Member(calls("A B C"), True)
    stopped = Member(calls("A B"), True)
    parted = split({0: stopped, 1: done, 2: longer}, {0: [2]})  # rank 0 waits for rank 2: it sides with rank 1
    assert parted is not None
    assert not parted.is_tie
    assert parted.odd == {longer: (2,)}
    undecided = split({0: stopped, 1: done, 2: longer}, {})
    assert undecided is not None
    assert undecided.is_tie
    assert split({0: stopped, 1: done, 2: done}, {}) is None
