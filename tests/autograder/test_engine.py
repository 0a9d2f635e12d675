"""What all checks share, on small checks of this module: cases and names, points, findings, functions without ranks."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder import checks
from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen
from autograder.checks.student import Assembly
from autograder.errors import CourseFileError, LabError
from autograder.exercise import Exercise, PartSpec
from autograder.results import CheckResult, Params

SETUP = "import torch\nimport torch.distributed as dist"


class Case(cases.Case, frozen=True):
    length: int = 4
    shape: tuple[int, ...] = ()
    slow: bool = False
    rank: int | None = None


def on_rank(case: Case, mean: Any) -> dict[str, Any]:
    """Call the student's function on as many ones as the case says."""
    import torch

    tensor = torch.ones(case.length)
    returned = mean(tensor)
    return {"tensor": array(tensor), "returned": float(returned)}


class Said(msgspec.Struct):
    tensor: Array
    returned: float


def wrong_value(seen: Seen[Case, Said]) -> Fault | None:
    for rank, said in enumerate(seen.said):
        if said.returned != 1.0:
            return Fault(f"rank {rank} returned {said.returned:g}.", "1", f"{said.returned:g}", rank)
    return None


def too_many_calls(seen: Seen[Case, Said]) -> Fault | None:
    count = len(seen.collectives(0))
    return Fault(f"rank 0 made {count} collectives.", rank=0) if count > 1 else None


PROPERTIES = (
    Property("value", "The value is wrong", wrong_value, "reported", first=True),
    Property("calls", "Too many collectives", too_many_calls, "witnessed"),
)


def a_check(**changed: Any) -> Check[Case, Said]:
    described: dict[str, Any] = {
        "case": Case,
        "said": Said,
        "on_rank": on_rank,
        "visible": lambda: [Case(world_size=w) for w in (2, 3)],
        "drawn": lambda rng: [Case(world_size=2, length=rng.randint(5, 90), draw=cases.number(rng))],
        "properties": PROPERTIES,
    }
    return Check(**(described | changed))


def an_exercise(*parts: str, forbidden: tuple[str, ...] = ()) -> Exercise:
    specs = tuple(PartSpec(key, key.title(), 1.0) for key in parts)
    return Exercise("lab2/mean", "Mean", "core", 10, float(len(parts)), ("mean",), specs, forbidden)


def run(check: Check[Case, Said], body: str, params: Params | None = None, **exercise: Any) -> CheckResult:
    source = f"def mean(tensor):\n    {body}\n"
    described = an_exercise("value", "calls", "terminates", **exercise)
    return check.run(Assembly("lab2/mean", SETUP, source, ""), described, params or Params(), lambda text: None)


MEAN = "dist.all_reduce(tensor)\n    return tensor.mean() / dist.get_world_size()"


def test_a_name_holds_the_whole_case() -> None:
    case = Case(world_size=3, draw=7, length=0, shape=(3, 2), slow=True, rank=1)
    assert case.name == "world_size=3,draw=7,length=0,shape=3+2,slow=True,rank=1"
    assert (cases.parse(Case, case.name), cases.parse(Case, "plain")) == (case, Case())
    assert case.label == "length 0, shape 3+2, slow True, rank 1"
    assert Case(shape=()).name == "plain"
    for wrong in ("length=x", "size=3", "world_size=9", "length", ""):
        with pytest.raises(LabError, match="copy it from a finding's replay line"):
            cases.parse(Case, wrong)


def test_the_numbers_of_a_case_depend_on_it_alone() -> None:
    def first(case: Case) -> float:
        return float(case.numbers().normal())

    assert first(Case(draw=1)) == first(Case(draw=1))
    assert len({first(Case(draw=n)) for n in range(5)}) == 5


def test_drawn_cases_depend_on_seed_exercise_student_and_purpose() -> None:
    def drawn(exercise: str = "lab2/mean", **params: Any) -> str:
        return a_check().cases(exercise, Params(**({"kind": "hidden", "seed": "s"} | params)))[0].name

    names = [
        drawn(),
        drawn("lab2/sum"),
        drawn(seed="t"),
        drawn(student="ada"),
        drawn(student="bob"),
        drawn(kind="fresh"),
    ]
    assert len(set(names)) == len(names)
    assert names[0] == drawn()
    with pytest.raises(LabError, match="fresh cases need a seed"):
        drawn(kind="fresh", seed="")


def test_a_right_solution_passes_and_a_wasteful_one_loses_one_part() -> None:
    right = run(a_check(), MEAN)
    assert (right.passed, right.points, right.cases) == (True, 3.0, {"2": 1, "3": 1})
    wasteful = run(a_check(), f"dist.barrier()\n    {MEAN}")
    assert [(p.key, p.passed) for p in wasteful.parts] == [("value", True), ("calls", False), ("terminates", True)]
    [finding] = wasteful.findings
    assert finding.text == "On 2 ranks (length 4): rank 0 made 2 collectives. The same in 2 of 2 cases here."
    assert finding.replay == "lockstep check lab2/mean --case world_size=2"
    assert finding.picture_svg is not None


def test_where_nothing_is_right_nothing_else_counts() -> None:
    wrong = run(a_check(), "return 2.0")
    assert (wrong.points, [f.key for f in wrong.findings]) == (0.0, ["value"])
    assert {p.note for p in wrong.parts if p.key != "value"} == {
        "not looked at: no number of ranks gives the right result yet"
    }
    half = run(a_check(), "return 1.0 if dist.get_world_size() == 2 else 2.0")
    assert [(p.key, p.passed) for p in half.parts] == [("value", False), ("calls", True), ("terminates", True)]


def test_what_comes_after_another_property_waits_for_it() -> None:
    calls = Property("calls", "Too many collectives", too_many_calls, "witnessed")
    late = Property("late", "Too late", lambda seen: None, "witnessed", after="calls")
    check = a_check(properties=(PROPERTIES[0], calls, late), visible=lambda: [Case(world_size=2)])
    body = f"def mean(tensor):\n    dist.barrier()\n    {MEAN}\n"
    exercise = an_exercise("value", "calls", "late")
    result = check.run(Assembly("lab2/mean", SETUP, body, ""), exercise, Params(), lambda text: None)
    assert {p.key: p.note for p in result.parts} == {
        "value": "",
        "calls": "",
        "late": "not looked at: 'Calls' comes first",
    }
    assert result.points == 1.0


def test_a_batched_check_says_the_same_and_runs_less() -> None:
    many = {"visible": lambda: [Case(world_size=2, length=n) for n in (1, 2, 3)]}
    body = "return 1.0 if len(tensor) < 3 else 2.0"
    alone, batched = run(a_check(**many), body), run(a_check(**many, batched=True), body)
    assert [f.text for f in alone.findings] == [f.text for f in batched.findings]
    assert alone.parts == batched.parts
    assert "(length 3)" in alone.findings[0].text


def test_until_stops_at_the_finding_that_is_looked_for() -> None:
    assert run(a_check(), "return 2.0", Params(until="value")).cases == {"2": 1}
    assert run(a_check(), f"dist.barrier()\n    {MEAN}", Params(until="calls")).cases == {"2": 1}


def test_a_stress_case_is_filed_under_its_own_finding() -> None:
    check = a_check(
        visible=lambda: [Case(world_size=2), Case(world_size=2, slow=True, length=9)],
        under=lambda case: ("slow-rank", "Slow") if case.slow else None,
        stress_keys=("slow-rank",),
    )
    assert check.own_keys == ("value", "calls", "slow-rank")
    body = "return 1.0 if len(tensor) == 4 else 2.0"
    assert [f.key for f in run(check, body).findings] == ["slow-rank"]
    assert [f.key for f in run(check, "raise ValueError").findings] == ["crash"]
    only_then = "if len(tensor) == 9: raise ValueError\n    return 1.0"
    for one in (check, dataclasses.replace(check, batched=True)):  # a plain case and a stress case share no run
        assert [f.key for f in run(one, only_then).findings] == ["slow-rank"]


def test_a_function_without_ranks_runs_in_a_process_of_its_own() -> None:
    check = a_check(visible=lambda: [Case(), Case(length=6)], needs_ranks=False)
    assert run(check, "import os, sys\n    sys.modules['autograder.checks.engine'] = None\n    return 1.0").passed
    [finding] = run(check, "return float(len(tensor))").findings
    assert finding.text.startswith("With length 4: ")
    assert finding.picture_svg is None
    [crash] = run(check, "raise ValueError('no')").findings
    assert (crash.key, crash.picture_svg, crash.rank) == ("crash", None, None)
    assert crash.text == "With length 4: it raised ValueError: no, in line 2 of your cell: `raise ValueError('no')`."
    assert "deadlock" not in check.hint_keys


@pytest.mark.parametrize("wrong", ["return 2.0", "raise ValueError"])
def test_without_ranks_one_wrong_case_hides_only_what_it_alone_can_show(wrong: str) -> None:
    properties = (
        PROPERTIES[0],
        Property("short", "Short", lambda seen: None, "reported", about=lambda case: case.length < 5),
        Property("long", "Long", lambda seen: None, "reported", about=lambda case: case.length > 5),
    )
    cases_of_both = {"visible": lambda: [Case(length=6), Case(length=4)], "properties": properties}
    check = a_check(needs_ranks=False, batched=True, **cases_of_both)
    source = f"def mean(tensor):\n    if len(tensor) > 5:\n        {wrong}\n    return 1.0\n"
    exercise = an_exercise("value", "short", "long")
    result = check.run(Assembly("lab2/mean", SETUP, source, ""), exercise, Params(), lambda text: None)
    assert [(p.key, p.passed) for p in result.parts] == [("value", False), ("short", True), ("long", False)]
    assert (result.parts[2].note, result.cases) == ("not looked at: the result is not right yet", {"1": 2})
    assert len(result.findings) == 1


@pytest.mark.parametrize("body", ["return 'a word'", "class A: pass\n    return A()", "return None"])
def test_what_a_rank_returns_is_data_of_the_promised_form_or_nothing(body: str) -> None:
    result = run(a_check(on_rank=returns_it), body)
    assert (result.points, [f.key for f in result.findings]) == (0.0, ["crash"])


def returns_it(case: Case, mean: Any) -> Any:
    """Pass on whatever the student's function returned."""
    return {"tensor": {"dtype": "float32", "shape": [1], "data": b"1234"}, "returned": mean(None)}


def test_an_array_whose_shape_and_bytes_disagree_is_empty() -> None:
    assert Array("float32", [2], b"12345678").numpy().shape == (2,)
    assert Array("float32", [3], b"12345678").numpy().shape == (0,)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"dtype": "object", "shape": [1], "data": b""}, Array)


def test_what_the_exercise_is_to_write_is_refused_by_name() -> None:
    body = "return torch.nn.functional.softmax(tensor, 0).sum()"
    result = run(a_check(), body, forbidden=("torch.nn.functional.softmax",))
    assert [f.key for f in result.findings] == ["forbidden"]
    assert "used torch.nn.functional.softmax, in line 2 of your cell" in result.findings[0].text
    assert result.points == 0.0


def test_a_fault_that_never_acts_is_never_passed() -> None:
    check = a_check(options=lambda case: {"faults": "kill(rank=1, step=5)"})
    [finding] = run(check, MEAN).findings
    assert (finding.title, "kill(rank=1, step=5)" in finding.text) == ("The planned fault never acted", True)


def test_checks_are_found_by_the_id_of_the_exercise() -> None:
    assert checks.find("lab2/ring-all-reduce").case.__name__ == "Case"
    with pytest.raises(CourseFileError, match=r"write autograder/checks/lab2/a_tree\.py"):
        checks.find("lab2/a-tree")


@pytest.mark.parametrize("exercise", ["lab2/ring-all-reduce"])
def test_two_draws_of_a_seed_are_the_same(exercise: str, tmp_path: Path) -> None:
    check = checks.find(exercise)
    assert check.drawn(random.Random(5)) == check.drawn(random.Random(5))
