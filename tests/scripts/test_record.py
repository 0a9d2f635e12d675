"""`python -m simulator.record` under a real torchrun: the trace, what it leaves alone, and what survives a kill."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import simulator
from autograder.cli import cli
from simulator.errors import TraceError, UsageError
from simulator.record import merge
from simulator.record.log import Log
from simulator.trace import Trace
from tests.scripts.torchrun import FOLDER, torchrun

DDP, FSDP2, RESUME = (Path(FOLDER) / f"train_{name}.py" for name in ("ddp", "fsdp2", "resume"))
RECORD = ("-m", "simulator.record")


def printed(said, pattern):
    return [line for line in said.splitlines() if re.search(pattern, line)]


def shape(trace, rank):
    """What a rank did, without times."""
    return [
        (e.op, e.step, e.group, e.seq, e.reduce, e.peer, e.bytes, e.shapes, e.dtype, e.site, e.status)
        for e in trace.of_rank(rank)
        if e.is_communication or e.op in ("step", "exit")
    ]


def check_times(trace):
    for event in trace:
        assert 0 <= event.issue_ns <= event.start_ns <= event.end_ns, event
        assert event.is_communication <= (event.wait_ns >= event.issue_ns), event
    for event in trace.select(ops=("all_reduce", "broadcast")):
        members = [e for e in trace if (e.op, e.seq) == (event.op, event.seq)]
        assert event.start_ns == min(max(e.issue_ns for e in members), event.end_ns)


def call(*words, code):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_recorded_job_is_what_the_simulator_runs(tmp_path):
    said = torchrun(*RECORD, DDP, "--steps", "3", ranks=2, cwd=tmp_path)
    run = simulator.run_script(DDP, ["--steps", "3"], 2, echo=False)
    assert printed(said, "^step . loss") == [line for _, line in run.output]
    assert "record: trace.jsonl: 2 ranks" in said
    assert os.listdir(tmp_path) == ["trace.jsonl"]
    trace = Trace.load(tmp_path / "trace.jsonl")
    assert (trace.header["clock"], trace.outcome_name) == ("wall", "Completed")
    assert trace.header["groups"] == [["default", [0, 1]]]
    for rank in range(2):
        assert shape(trace, rank) == shape(run.trace, rank)
        assert {e.phase for e in trace.of_rank(rank)} == {"", "forward", "backward"}
    check_times(trace)
    assert "The traces are the same" in str(trace.diff(run.trace))
    other = simulator.run_script(DDP, ["--steps", "2"], 2, echo=False).trace
    assert "differs in operation" in str(trace.diff(other)) or "nothing: the program" in str(trace.diff(other))
    found = simulator.diagnose(trace)
    assert found.is_healthy or found.kind == "slow rank"  # on a busy machine one may really be
    assert str(found)[:60] in call("diagnose", tmp_path / "trace.jsonl", code=int(not found.is_healthy))
    shown = call("trace", "show", tmp_path / "trace.jsonl", code=0)
    assert "of wall-clock time (clocks are real)" in shown
    assert "virtual" not in shown


@pytest.mark.slow
def test_recording_changes_no_result(tmp_path):
    plain = torchrun(FSDP2, tmp_path / "plain", ranks=3)  # names of one length: DCP sends them
    said = torchrun(*RECORD, "--trace", tmp_path / "t.jsonl", FSDP2, tmp_path / "under", ranks=3)
    assert printed(said, "^sum of") == printed(plain, "^sum of") != []
    run = simulator.run_script(FSDP2, [str(tmp_path / "alone")], 3, echo=False)
    trace = Trace.load(tmp_path / "t.jsonl")
    for rank in range(3):
        assert shape(trace, rank) == shape(run.trace, rank)
    check_times(trace)


@pytest.mark.slow
def test_a_killed_job_can_be_read(tmp_path):
    torchrun(*RECORD, RESUME, tmp_path / "ck.pt", "--die", ranks=3, cwd=tmp_path, code=1)
    assert not (tmp_path / "trace.jsonl").exists()
    merged = call("trace", "merge", tmp_path / "trace.jsonl.ranks", tmp_path / "t.jsonl", code=0)
    assert "3 ranks" in merged
    trace = Trace.load(tmp_path / "t.jsonl")
    assert [e.op for e in trace.of_rank(1)][-1] != "exit"
    assert max(e.step for e in trace.of_rank(1)) == 2
    assert "Rank 1 fell silent" in call("diagnose", tmp_path / "t.jsonl", code=1)


@pytest.mark.slow
def test_a_restarted_job_is_one_trace(tmp_path):
    said = torchrun(*RECORD, RESUME, tmp_path / "ck.pt", "--die", restarts=1, cwd=tmp_path)
    assert len(printed(said, "^incarnation 1")) == 2
    trace = Trace.load(tmp_path / "trace.jsonl")
    assert (trace.num_incarnations, trace.header["world_sizes"], trace.outcome_name) == (2, [2, 2], "Completed")
    assert {e.status for e in trace.incarnation(1)} == {"ok", "done"}


# ---- the files of ranks ----
def make_log(folder, rank=0, size=2, incarnation=0):
    return Log(folder, rank, size, incarnation, "2.13.0")


def test_what_is_written_is_written_at_once(tmp_path):
    log = make_log(tmp_path)
    log.begin_step()
    with (tmp_path / "rank0.0.jsonl").open("ab") as file:
        file.write(b'{"rank":0,"n":1,"op":"all_red')  # killed within a write
    trace = merge(tmp_path)
    assert [(e.op, e.step) for e in trace] == [("step", 1)]
    assert trace.outcome_name == "RankFailed"


def test_files_that_are_no_record(tmp_path):
    with pytest.raises(TraceError, match="no files of recorded ranks"):
        merge(tmp_path)
    make_log(tmp_path).close("done")
    with pytest.raises(UsageError, match="holds what another job left"):
        make_log(tmp_path)
    (tmp_path / "rank1.0.jsonl").write_text('{"version": 1}\n{}\n')
    with pytest.raises(TraceError, match=r"rank1.0.jsonl, line 1, is no line of a recorded rank"):
        merge(tmp_path)


def test_nothing_to_record_is_a_sentence(tmp_path):
    command = [sys.executable, "-m", "simulator.record", "nothing.py"]
    environ = {**os.environ, "PYTHONPATH": str(Path(FOLDER).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there is no file nothing.py" in done.stderr
    assert os.listdir(tmp_path) == []
