"""Torchrun's scripts, unmodified, in the simulator; slow: with the results that torchrun gets."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import simulator
from autograder.cli import cli
from simulator.errors import UsageError
from tests.scripts.torchrun import FOLDER, torchrun

DDP, FSDP2, RESUME = (Path(FOLDER) / f"train_{name}.py" for name in ("ddp", "fsdp2", "resume"))


def lines(run, pattern):
    return [line for _, line in run.output if re.search(pattern, line)]


def printed(said, pattern):
    return [line for line in said.splitlines() if re.search(pattern, line)]


def write(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    return path


# ---- a script is __main__, with torchrun's environment ----
LOOKS = """
import os, sys, torch
import torch.distributed as dist
from beside import WORD

if __name__ == "__main__":
    assert not torch.cuda.is_available()
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    said = [os.environ[name] for name in names]
    dist.init_process_group(init_method="env://", device_id=None)
    assert os.environ["TORCHELASTIC_RUN_ID"] and dist.is_torchelastic_launched()
    print(*said, *sys.argv[1:], WORD, os.path.basename(__file__), sys.modules["__main__"].WORD)
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    dist.barrier()
    sys.exit()
"""


def test_a_script_sees_what_torchrun_gives_it(tmp_path):
    (tmp_path / "beside.py").write_text("WORD = 'sibling'")
    run = simulator.run_script(write(tmp_path, LOOKS), ["--lr", "0.5"], 2, echo=False)
    assert run.outcome.name == "Completed", run.outcome.explain()
    rest = "--lr 0.5 sibling script.py sibling"
    assert sorted(run.output) == [(r, f"{r} {r} 2 2 127.0.0.1 29500 {rest}") for r in range(2)]
    assert run.results == [None, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys\nsys.exit(3)", r"line 2: `sys.exit\(3\)`\) with SystemExit: sys.exit\(3\) ended the rank"),
        ("x = 1\nx / 0", r"in <module> \(script.py, line 2: `x / 0`\) with ZeroDivisionError"),
        (
            "import torch.distributed as dist\ndist.init_process_group('nccl')",
            "ranks talk over gloo, there is no other backend",
        ),
        (
            "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=0)",
            "the script spawns 0 processes, as many as it sees GPUs, and this run has 1 rank",
        ),
    ],
)
def test_a_script_that_fails_says_where(tmp_path, text, words):
    run = simulator.run_script(write(tmp_path, text), world_size=1, echo=False)
    assert run.outcome.name == "RankFailed"
    assert re.search(words, run.outcome.text), run.outcome.text


def test_spawned_processes_are_the_ranks(tmp_path):
    text = "import torch.multiprocessing as mp\nmp.spawn(lambda rank, word: print(rank, word), ('hi',), nprocs=2)"
    run = simulator.run_script(write(tmp_path, text), world_size=2, echo=False)
    assert sorted(run.output) == [(0, "0 hi"), (1, "1 hi")]


def test_what_cannot_be_a_script(tmp_path):
    for text, words in (("def main(): ...", "as a script it does nothing: say which function"), ("1 +", "not Python")):
        with pytest.raises(UsageError, match=words):
            simulator.run_script(write(tmp_path, text))
    with pytest.raises(UsageError, match="there is no file"):
        simulator.run_script(tmp_path / "nothing.py")
    with pytest.raises(UsageError, match="the words for the script are its argv"):
        simulator.run_script(DDP, args=(1,))
    with pytest.raises(UsageError, match="argv must be a list of strings"):
        simulator.run_script(DDP, "--steps 3")


# ---- training scripts ----
def test_ddp_from_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", str(DDP), "-n", "2", "--faults", "kill(rank=1, step=1)", "--", "--steps", "2", "--lr", "0.2"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "PeerLost" in said
    assert "--ranks 2 --seed 0 --faults 'kill(rank=1, step=1)' -- --steps 2 --lr 0.2" in said
    refused = CliRunner().invoke(cli, ["run", f"{DDP}:main", "--", "--steps", "2"])
    assert refused.exit_code == 2
    assert "those after -- are for a script" in refused.output


def test_a_killed_script_goes_on_from_its_checkpoint(tmp_path):
    plain = simulator.run_script(RESUME, [str(tmp_path / "plain.pt")], 2, echo=False)
    options = {"faults": "kill(rank=1, step=2)", "restarts": 1, "echo": False}
    killed = simulator.run_script(RESUME, [str(tmp_path / "killed.pt")], 2, **options)
    assert (plain.ok, killed.ok) == (True, True)
    assert len(killed.incarnations) == 2
    losses = [dict(re.findall(r"step (\d) loss (\S+)", " ".join(lines(run, "loss")))) for run in (plain, killed)]
    assert losses[0] == losses[1]
    assert lines(killed, "incarnation 1 step 3")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_ddp_as_under_torchrun(ranks):
    run = simulator.run_script(DDP, ["--steps", "4"], ranks, echo=False)
    assert run.ok, run.outcome.explain()
    assert len(lines(run, "loss")) == 4
    assert lines(run, "loss") == printed(torchrun(DDP, "--steps", "4", ranks=ranks), "^step . loss")


@pytest.mark.slow
def test_fsdp2_as_under_torchrun(tmp_path):
    run = simulator.run_script(FSDP2, [str(tmp_path / "here")], 2, echo=False)
    assert run.ok, run.outcome.explain()
    assert len(lines(run, "sum of")) == 1
    assert lines(run, "sum of") == printed(torchrun(FSDP2, tmp_path / "there"), "^sum of")


@pytest.mark.slow
def test_a_restart_as_under_torchrun(tmp_path):
    options = {"faults": "kill(rank=1, step=2)", "restarts": 1, "echo": False}
    run = simulator.run_script(RESUME, [str(tmp_path / "here.pt")], 2, **options)
    assert run.ok, run.outcome.explain()
    real = torchrun(RESUME, tmp_path / "there.pt", "--die", restarts=1)
    assert lines(run, "loss") == printed(real, "^incarnation . step")
