"""The ring all-reduce check on real ranks: what it accepts, what it finds, and that it says the same twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.checks import find
from autograder.checks.cases import parse
from autograder.checks.lab2 import ring_all_reduce
from autograder.errors import LabError, UnknownExerciseError
from autograder.grading import CheckResult, JobHost, Params, check_exercise, grade_notebook
from autograder.results import to_json
from tests.autograder.small import EXERCISE, RIGHT, cell
from tests.autograder.test_extract import notebook

HIDDEN = Params("hidden", "a seed")


def check(source: str | None, host: JobHost, root: Path, params: Params | None = None) -> CheckResult:
    return check_exercise(source, EXERCISE, params, host=host, root=root)


@pytest.mark.parametrize("params", [Params(), HIDDEN], ids=["visible", "hidden"])
def test_a_right_solution_gets_full_points_and_the_same_bytes_twice(params: Params, host: JobHost, built: Path) -> None:
    first = check(RIGHT, host, built, params)
    assert (first.passed, first.points, first.findings) == (True, 3.0, [])
    assert set(first.cases) == {"2", "3", "4", "5"}
    assert to_json(check(RIGHT, host, built, params)) == to_json(first)


def test_a_wrong_solution_gives_the_same_bytes_in_a_fresh_process(host: JobHost, built: Path) -> None:
    source = RIGHT.replace("chunks[into].copy_(arriving)", "pass")
    with JobHost() as fresh:
        assert to_json(check(source, fresh, built)) == to_json(check(source, host, built))


def test_a_finding_says_what_was_seen_where(host: JobHost, built: Path) -> None:
    [finding] = check(RIGHT.replace("chunks[into].copy_(arriving)", "pass"), host, built).findings
    assert finding.key == "value"
    assert finding.text.startswith(
        "On 2 ranks (length 4, dtype float32, pattern ramp): rank 0: element 0 of the tensor is 10, "
    )
    assert "expected 30. 2 of 4 elements are wrong." in finding.text
    assert (finding.expected, finding.seen, finding.rank, finding.world_size) == (
        "[30, 32, 34, 36]",
        "[10, 11, 34, 36]",
        0,
        2,
    )
    assert finding.case == "length 4, dtype float32, pattern ramp"
    assert finding.picture_svg is not None
    assert "<svg" in finding.picture_svg
    assert "step 0" not in finding.picture_svg
    assert finding.picture_text is not None
    assert "rank 1" in finding.picture_text
    assert finding.replay == f"lockstep check {EXERCISE} --case world_size=2,length=4"


def test_of_a_long_tensor_both_ends_are_shown(host: JobHost, built: Path) -> None:
    [finding] = check(cell("tensor.zero_()"), host, built, Params(case="world_size=2,length=20,dtype=int64")).findings
    assert finding.expected == "[30, 32, 34, 36, 38, 40, ..., 58, 60, 62, 64, 66, 68]"
    assert finding.seen == "[0, 0, 0, 0, 0, 0, ..., 0, 0, 0, 0, 0, 0]"
    [hidden] = check(cell("tensor.zero_()"), host, built, HIDDEN).findings
    assert hidden.expected.count(", ") >= 1
    assert HIDDEN.seed not in hidden.text + hidden.expected + hidden.seen


def test_a_misspelled_function_or_name_is_met_with_the_likeliest_one(host: JobHost, built: Path) -> None:
    [finding] = check(RIGHT.replace("def ring_all_reduce", "def ring_allreduce"), host, built).findings
    assert finding.text == (
        "The exercise cell does not define ring_all_reduce. It defines ring_allreduce: did you mean ring_all_reduce?"
    )
    assert (finding.expected, finding.seen) == ("the cell defines ring_all_reduce", "it defines ring_allreduce")
    assert (finding.case, finding.replay) == ("", None)
    [finding] = check(RIGHT.replace("add_(arriving)", "add_(ariving)"), host, built).findings
    assert "): did you mean 'arriving'? The name 'ariving' is not defined, in line" in finding.text
    assert finding.title.endswith("did you mean 'arriving'?")


@pytest.mark.parametrize(
    "body",
    ["dist.recv(tensor, (dist.get_rank() - 1) % dist.get_world_size())", "dist.send(tensor, 1 - dist.get_rank() % 2)"],
)
def test_a_deadlock_is_described_and_its_remedy_left_to_the_hints(body: str, host: JobHost, built: Path) -> None:
    [finding] = check(cell(body), host, built).findings
    assert finding.key == "deadlock"
    assert "rank 1 waits in" in finding.text
    assert "step 0" not in finding.text
    assert "Everyone" not in finding.text
    assert "isend" not in finding.text


def test_the_replay_line_shows_the_same_finding(host: JobHost, built: Path) -> None:
    source = RIGHT.replace("size - 1:", "size - 1 and size != 3:")
    for params in (Params(), HIDDEN):
        [whole] = check(source, host, built, params).findings
        assert whole.replay is not None
        again = check(source, host, built, Params(case=whole.replay.split()[-1]))
        assert not again.passed
        assert (again.findings[0].seen, again.findings[0].case) == (whole.seen, whole.case)
        assert again.cases == {"3": 1}
    assert check(RIGHT, host, built, Params(case="world_size=3,length=7,slow=2")).passed


BROKEN = {
    "starter": ('# About one line.\nraise NotImplementedError("to do")', "unfinished", "still the starter"),
    "unfinished": ("raise NotImplementedError", "unfinished", "in line 3 of your cell: `raise NotImplementedError`"),
    "unknown name": ("helper(tensor)", "name-only-in-kernel", "'helper' is not defined, in line 3 of your cell"),
    "exception": ("tensor[10**6] = 1", "crash", "IndexError"),
    "sys.exit": ("raise SystemExit(0)", "crash", "sys.exit"),
    "os._exit": ("import os\nos._exit(0)", "crash", "exit status 0"),
    "deadlock": ("dist.recv(tensor, 1 - dist.get_rank() % 2)", "deadlock", "nobody can go on"),
    "collective": ("dist.all_reduce(tensor)", "point-to-point-only", "called all_reduce"),
    "in a copy": ("return tensor * 2", "value", "the function returned a Tensor"),
    "magic": ("%time pass", "syntax", "for the notebook only"),
}


@pytest.mark.parametrize("case", BROKEN, ids=list(BROKEN))
def test_what_stops_a_solution_is_the_only_finding_and_gives_nothing(case: str, host: JobHost, built: Path) -> None:
    body, key, said = BROKEN[case]
    result = check(cell(body), host, built)
    assert (result.points, result.passed) == (0.0, False)
    assert [f.key for f in result.findings] == [key]
    assert said in result.findings[0].text
    assert "Traceback" not in result.findings[0].text


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (None, "missing"),
        (f"# exercise: {EXERCISE}\nx = 1", "missing"),
        ("def ring_all_reduce(tensor:\n", "syntax"),
        ("\0", "syntax"),
        (f"# exercise: {EXERCISE}\nprint(undefined_here)\ndef ring_all_reduce(tensor): pass", "name-only-in-kernel"),
    ],
)
def test_a_cell_without_the_function_gets_a_helpful_finding(
    source: str | None, key: str, host: JobHost, built: Path
) -> None:
    result = check(source, host, built)
    assert [f.key for f in result.findings] == [key]
    assert (result.points, len(result.parts)) == (0.0, 2)


IMPATIENT = """\
        receiving = dist.irecv(arriving, (rank - 1) % size)
        for _ in range(100):
            if receiving.is_completed():
                break
            simulator.compute(1e-6)
        else:
            raise TimeoutError("too slow")
        receiving.wait()
"""


def test_giving_up_on_a_slow_rank_is_found(host: JobHost, built: Path) -> None:
    source = RIGHT.replace("        dist.recv(arriving, (rank - 1) % size)\n", IMPATIENT)
    source = source.replace("rank, size =", "import simulator\n    rank, size =")
    result = check(source, host, built)
    assert [f.key for f in result.findings] == ["slow-rank"]
    assert result.findings[0].text.startswith(
        "In the plain cases nothing like this is seen. On 3 ranks (length 6, dtype float32, pattern ramp, slow 1)"
    )
    assert not result.passed


def test_hidden_cases_depend_on_the_seed_and_do_not_show_it() -> None:
    drawn = find(EXERCISE).cases(EXERCISE, HIDDEN)
    assert drawn == find(EXERCISE).cases(EXERCISE, HIDDEN)
    assert drawn != find(EXERCISE).cases(EXERCISE, Params("hidden", "another"))
    assert drawn != find(EXERCISE).cases("lab2/other", HIDDEN)
    assert not any("seed" in case.name for case in drawn)
    for world_size in ring_all_reduce.WORLD_SIZES:
        lengths = [c.length for c in drawn if c.world_size == world_size]
        assert 0 in lengths
        assert any(0 < n < world_size for n in lengths)
        assert any(n % world_size for n in lengths)
    for case in (*drawn, *find(EXERCISE).cases(EXERCISE, Params())):
        assert parse(ring_all_reduce.Case, case.name) == case
        assert len({array.tobytes() for array in case.inputs()}) == (case.world_size if case.length else 1)


def test_a_case_that_does_not_exist_and_a_missing_seed_are_errors_of_the_user(host: JobHost, built: Path) -> None:
    with pytest.raises(LabError, match="copy it from a finding's replay line"):
        check(RIGHT, host, built, Params(case="world_size=9,length=7"))
    with pytest.raises(LabError, match="hidden cases need a seed"):
        check(RIGHT, host, built, Params("hidden"))
    with pytest.raises(UnknownExerciseError):
        check_exercise(RIGHT, "lab2/tree", host=host, root=built)
    assert check(RIGHT, host, built, Params(case="world_size=2,length=1,dtype=int64")).passed


def test_a_notebook_is_graded_from_its_cells_alone(built: Path) -> None:
    data = notebook(("raise SystemExit", None), (RIGHT, None), ("def ring_all_reduce(tensor): pass", None))
    graded = grade_notebook(data, "lab2", HIDDEN, root=built)
    assert (graded.points, graded.max_points, graded.lab) == (3.0, 3.0, "lab2")
    assert graded.notes == [f"{EXERCISE}: the cell's metadata is lost; it was found by its '# exercise:' line"]
    empty = grade_notebook((built / "labs/lab2/lab2.ipynb"), "lab2", HIDDEN, root=built)
    assert (empty.points, [f.key for f in empty.exercises[0].findings]) == (0.0, ["unfinished"])
