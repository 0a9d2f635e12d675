"""Every program gives the bits of plain gloo inside the simulator, completes, and has one digest in two runs."""

from pathlib import Path
from typing import Any

import pytest

import simulator
from simulator import values
from tests.coverage.catalogue import CASES, Case
from tests.coverage.plain import Plain
from tests.coverage.programs import ddp, load_all
from tests.coverage.table import DOCUMENT, document

load_all()


def parameters(case: Case) -> list[Any]:
    """One a world size."""
    marks = [pytest.mark.xfail(reason=case.xfail, strict=False)] if case.xfail else []
    return [
        pytest.param(case, world, id=f"{case.name}-{world}", marks=[*marks, *extra])
        for worlds, extra in ((case.worlds, []), (case.slow_worlds, [pytest.mark.slow]))
        for world in worlds
    ]


@pytest.mark.parametrize(("case", "world_size"), [p for case in CASES for p in parameters(case)])
def test_same_bits_as_plain_gloo_and_one_digest(case: Case, world_size: int, plain: Plain, tmp_path: Path) -> None:
    def arguments(name: str) -> tuple[str, ...]:
        folder = tmp_path / name
        folder.mkdir()
        return (str(folder),) if case.needs_folder else ()

    runs = [simulator.run(case.program, world_size, args=arguments(name), echo=False) for name in ("run-1", "run-2")]
    for run in runs:
        assert run.ok, run.outcome.explain()
    found = simulator.diagnose(runs[0].trace)
    assert found.is_healthy, found
    expected = plain.run(case.program, world_size, tmp_path, args=arguments("plain"))
    assert [result.error or result.status for result in expected] == ["ok"] * world_size
    for rank, result in enumerate(expected):
        for run in runs:
            assert values.encode(run.results[rank]) == result.value, difference(run.results[rank], result.value)
    assert runs[0].trace.digest == runs[1].trace.digest


def difference(ours: object, theirs: bytes) -> str:
    """Where two results differ, by dictionary key if there are any."""
    plain = values.decode(theirs)
    if not (isinstance(ours, dict) and isinstance(plain, dict)):
        return f"simulator: {ours}\nplain gloo: {plain}"
    keys = [key for key in {**ours, **plain} if values.encode(ours.get(key)) != values.encode(plain.get(key))]
    return "\n".join(f"{key}\n  simulator: {ours.get(key)}\n  plain gloo: {plain.get(key)}" for key in keys)


def test_the_document_shows_these_programs_and_sentences() -> None:
    assert DOCUMENT.read_text() == document(), "write it again: python -m tests.coverage.table"


def test_power_sgd_with_several_buckets_runs_where_plain_gloo_hangs() -> None:
    """The hook starts collectives inside callbacks of futures; here those run in the thread that waits."""
    runs = [simulator.run(ddp.ddp_power_sgd_in_buckets, 2, echo=False) for _ in range(2)]
    for run in runs:
        assert run.ok, run.outcome.explain()
        assert values.encode(run.results[0]["weights"]) == values.encode(run.results[1]["weights"])
    assert runs[0].trace.digest == runs[1].trace.digest
    assert values.encode(runs[0].results) == values.encode(runs[1].results)
