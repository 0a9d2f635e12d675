"""`debug_rank`: pdb and input() of one rank at the caller's terminal."""

import builtins
import subprocess
import sys

import pytest

import simulator


def answers(monkeypatch, *lines):
    """What the person will type, and the prompts that they saw."""
    prompts, left = [], list(lines)

    def typed(prompt=""):
        prompts.append(prompt)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr(builtins, "input", typed)
    return prompts


def asks():
    import torch
    import torch.distributed as dist

    name = input("name? ") if dist.get_rank() == 1 else "nobody"
    number = torch.tensor([float(len(name))])
    dist.all_reduce(number)
    return name, float(number)


def stops():
    import torch
    import torch.distributed as dist

    value = torch.ones(1) * dist.get_rank()
    if dist.get_rank() == 2:
        breakpoint()
    dist.all_reduce(value)
    return float(value)


def test_input_of_the_debugged_rank(monkeypatch):
    prompts = answers(monkeypatch, "Ada")
    run = simulator.run(asks, 3, debug_rank=1, echo=False)
    assert run.results == [("nobody", 15.0), ("Ada", 15.0), ("nobody", 15.0)]
    assert prompts == ["[rank 1] name? "]


def test_pdb_sees_and_changes_the_rank(monkeypatch, capsys):
    prompts = answers(monkeypatch, "p value", "value += 10", "c")
    run = simulator.run(stops, 3, debug_rank=2)
    assert run.results == [13.0] * 3
    assert prompts == ["[rank 2] (Pdb) "] * 3
    assert "[rank 2] tensor([2.])" in capsys.readouterr().out


def test_debugging_changes_no_digest(monkeypatch):
    answers(monkeypatch, "Ada", "Eve")
    runs = [simulator.run(asks, 3, debug_rank=1, echo=False) for _ in range(2)]
    assert runs[0].trace.digest == runs[1].trace.digest


def test_end_of_input(monkeypatch):
    answers(monkeypatch)
    outcome = simulator.run(asks, 3, debug_rank=1, echo=False).outcome
    assert outcome.name == "RankFailed"
    assert "EOFError" in outcome.explain()


def test_other_ranks_are_told_about_it():
    outcome = simulator.run(asks, 3, debug_rank=0, echo=False).outcome
    assert "debug_rank" in outcome.explain()


def test_there_is_no_such_rank():
    with pytest.raises(simulator.SimulatorError, match="ranks 0 to 2"):
        simulator.run(asks, 3, debug_rank=3)


def test_on_the_command_line(tmp_path):
    program = tmp_path / "asks.py"
    lines = (
        "import torch.distributed as dist",
        "def main():",
        "    if dist.get_rank() == 1:",
        "        print('hello', input('name? '))",
    )
    program.write_text("\n".join(lines))
    command = [sys.executable, "-m", "autograder.cli", "run", f"{program}:main", "-n", "2", "--debug-rank", "1"]
    answered = subprocess.run(command, input="Ada\n", capture_output=True, text=True, timeout=300)
    assert answered.returncode == 0, answered.stderr
    assert "[rank 1] hello Ada" in answered.stdout
