"""The commands run, trace and diagnose: what they say, exit codes, and sentences for unusable input."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import simulator
from autograder.cli import cli
from simulator.trace import Trace
from tests.trace import programs
from tests.trace.test_diff import small

PROGRAM = """
import torch
import torch.distributed as dist
import simulator
from beside import FACTOR

def fine():
    tensor = torch.ones(2) * FACTOR
    dist.all_reduce(tensor)
    return float(tensor[0])

def hang():
    for step in simulator.steps(2):
        if step == 0 or dist.get_rank() != 1:
            dist.all_reduce(torch.ones(1))

def by_name():
    for name in {"embedding", "attention", "mlp", "norm", "head"}:
        dist.all_reduce(torch.ones(len(name)))

def needs(path):
    pass
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and a module that it imports."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("beside", "lockstep_program"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def call(*arguments: str, code: int) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_run_says_what_came_back_and_saves_the_trace(here):
    said = call("run", "train.py:fine", "-n", "3", "--save", "fine.jsonl", "--timeline", "fine.svg", code=0).output
    assert "rank 2 returned 9.0\nCompleted: 3 ranks finished" in said
    assert "time is virtual" in said
    trace = Trace.load("fine.jsonl")
    assert [event.op for event in trace.of_rank(0) if event.op != "compute"] == ["all_reduce", "exit"]
    assert trace.select(ops="all_reduce").events[0].site == "train.py:9"
    assert (here / "fine.svg").read_text().count("</svg>") == 1


def test_run_fails_with_the_explanation_of_a_hang(here):
    said = call("run", "train.py:hang", code=1).output
    assert "CollectiveTimeout" in said
    assert "train.py:15" in said
    assert "rank 1: all_reduce #0 -> finished" in said
    assert "\nreplay: lockstep run train.py:hang --ranks 4 --seed 0\n" in said


def test_the_replay_line_is_the_command_with_what_was_chosen(here):
    plan = "kill(rank=1, collective=0)"
    said = call("run", "train.py:fine", "-n", "2", "--seed", "3", "--timeout", "5", "--faults", plan, code=1).output
    line = f"lockstep run train.py:fine --ranks 2 --seed 3 --faults '{plan}' --timeout 5.0"
    assert f"replay: {line}\n" in said
    again = call(*shlex.split(line)[1:], code=1).output
    assert again == said


def test_an_interrupt_is_one_sentence(here, monkeypatch):
    def interrupted(session):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.session.Session.run", interrupted)
    assert (
        "lockstep: the run was interrupted; all its ranks were ended\n" in call("run", "train.py:fine", code=130).output
    )


def test_run_is_inconclusive_when_a_fault_never_acts(here):
    said = call("run", "train.py:fine", "--faults", "kill(rank=1, step=9)", code=3).output
    assert "inconclusive: the run ended before kill(rank=1, step=9) could act" in said


def test_run_twice_finds_the_order_of_a_set(here):
    said = call("run", "train.py:by_name", "-n", "2", "--twice", code=1).output
    assert "The traces differ, first at rank" in said
    assert "in train.py:19" in said
    assert "first run: " in said
    assert "PYTHONHASHSEED" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing.py:main",), "there is no file nothing.py"),
        (("train.py",), "say which function to run, train.py:FUNCTION; train.py has fine, hang"),
        (("train.py:main",), "there is no function 'main' to run; train.py has fine"),
        (("train.py:needs",), "needs is called without arguments, but: missing a required argument: 'path'"),
        (("broken.py:main",), "broken.py, line 2, is not Python"),
        (("raises.py:main",), "raises.py cannot be imported, line 2: ZeroDivisionError"),
        (("train.py:fine", "--faults", "kil(rank=1)"), "unknown fault 'kil'"),
        (("train.py:fine", "--faults", "kill(rank=9, step=1)"), "there is no rank 9 in a world of 4"),
        (("train.py:fine", "-n", "0"), "world_size must be a whole number from 1 to"),
        (("train.py:fine", "--cluster", "abacus"), "unknown cluster 'abacus'"),
        (("train.py:fine", "--timeline", "picture.gif"), "ends in .svg or .png"),
        (("train.py:fine", "--save", "none/trace.jsonl"), "there is no folder none"),
    ],
)
def test_unusable_input_is_a_sentence(here, arguments, words):
    (here / "broken.py").write_text("x = 1\ndef main(:\n")
    (here / "raises.py").write_text("def main(): ...\n1 / 0\n")
    assert words in " ".join(call("run", *arguments, code=2).output.split())


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small().trace().save("one.jsonl")
    small(slow_rank=2).trace().save("slow.jsonl")
    return tmp_path


def test_trace_show_and_its_filters(saved):
    everything = call("trace", "show", "one.jsonl", code=0).output
    part = call("trace", "show", "one.jsonl", "--rank", "1", "--step", "0", "--op", "all_reduce", code=0).output
    assert "all_reduce #0" in everything
    assert "all_reduce #1" in everything
    assert "all_reduce #0" in part
    assert "all_reduce #1" not in part
    none = call("trace", "show", "one.jsonl", "--op", "allreduce", code=0).output
    assert none == "No event of one.jsonl fits ops allreduce. Its operations: all_reduce, compute, step.\n"
    assert "no rank 7" in call("trace", "show", "one.jsonl", "--rank", "7", code=2).output


def test_trace_diff(saved):
    assert "the same" in call("trace", "diff", "one.jsonl", "one.jsonl", code=0).output
    said = call("trace", "diff", "one.jsonl", "slow.jsonl", code=1).output
    assert "one.jsonl:  compute for 1.0 µs" in said
    assert "slow.jsonl: compute for 2.0 µs" in said
    small(seed=2).trace().save("seed.jsonl")
    assert "seed: 0 in one.jsonl, 2 in seed.jsonl" in call("trace", "diff", "one.jsonl", "seed.jsonl", code=1).output


def test_trace_export(saved):
    said = call("trace", "export", "one.jsonl", "--chrome", "c.json", "--flight-recorder", "dumps", code=0).output
    assert "ui.perfetto.dev" in said
    assert "torchfrtrace dumps" in said
    assert json.loads((saved / "c.json").read_text())["traceEvents"]
    assert sorted(path.name for path in (saved / "dumps").iterdir()) == ["rank_0", "rank_1", "rank_2"]
    call("trace", "export", "one.jsonl", "--timeline", "picture.png", code=0)
    assert (saved / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "say what to export" in call("trace", "export", "one.jsonl", code=2).output


def test_unusable_traces_are_a_sentence(saved):
    (saved / "noise.jsonl").write_text("no trace\n")
    (saved / "rank.jsonl").write_text((saved / "one.jsonl").read_text().replace('"rank":2', '"rank":5'))
    (saved / "group.jsonl").write_text((saved / "one.jsonl").read_text().replace('"group":"default"', '"group":"tp"'))
    assert "line 1, is not a trace" in call("trace", "show", "noise.jsonl", code=2).output
    assert "cannot read the trace none" in call("trace", "diff", "one.jsonl", "none", code=2).output
    assert "there is no rank 5 in a world of 3" in call("diagnose", "rank.jsonl", code=2).output
    export = ("trace", "export", "group.jsonl", "--flight-recorder", "dumps")
    assert "does not name the ranks of group tp" in call(*export, code=2).output


def test_diagnose_names_the_rank(tmp_path):
    pytest.importorskip("simulator.diagnose", reason="diagnosis is not built yet")
    hang = simulator.run(programs.leaves_out_rank_2, 4, echo=False).save(tmp_path / "hang.jsonl")
    said = call("diagnose", str(hang), code=1).output
    assert "CollectiveTimeout: 4 ranks" in said
    assert "Rank 2 is the odd one out." in " ".join(said.split())
    fine = simulator.run(programs.sums_named_gradients_sorted, 2, echo=False).save(tmp_path / "fine.jsonl")
    call("diagnose", str(fine), code=0)
