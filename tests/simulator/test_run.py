"""`run` as a caller sees it: values, output, arguments, what it refuses."""

import os
import subprocess
import sys
import threading

import pytest
import torch

import simulator
from tests.simulator import programs


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_collectives_are_real(world_size):
    run = simulator.run(programs.all_reduce_rank, world_size, echo=False)
    assert run.ok
    total = float(sum(range(world_size)))
    assert [r.tolist() for r in run.results] == [[total] * 3] * world_size


def test_importing_the_simulator_does_not_import_torch():
    code = "import sys, simulator, simulator.show, simulator.launch; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_functions_of_no_module_travel():
    factor = 7
    namespace = {}
    exec(
        "def scaled(x):\n    import torch.distributed as dist\n    return x * FACTOR + dist.get_rank()",
        {"FACTOR": factor},
        namespace,
    )
    assert simulator.run(namespace["scaled"], 3, args=(2,), echo=False).results == [14, 15, 16]


def test_rank_args_are_private_to_a_rank():
    run = simulator.run(programs.seen_arguments, 3, args=("all",), rank_args=[(0,), (1,), (2,)], echo=False)
    assert run.results == [["all", 0], ["all", 1], ["all", 2]]


def test_output_comes_in_the_order_of_virtual_time(capsys):
    run = simulator.run(programs.prints_in_turn, 3)
    expected = [(rank, f"step {step}") for step in range(2) for rank in (2, 1, 0)]
    assert run.output == expected
    assert capsys.readouterr().out.splitlines() == [f"[rank {rank}] {text}" for rank, text in expected]


def test_huge_output_is_cut_and_says_so():
    run = simulator.run(programs.prints_a_lot, 2, echo=False)
    for wanted in (0, 1):
        first, second = [text for rank, text in run.output if rank == wanted]
        assert first == "x" * 600_000
        assert second.startswith("y" * 400_000 + " ... (a rank shows at most 10,000 lines or 1,000,000 characters")


def test_replay_lines_name_the_arguments():
    run = simulator.run(programs.seen_arguments, 2, args=(programs.train, "x" * 100), echo=False)
    assert run.replay.startswith("replay: simulator.run(seen_arguments, world_size=2, seed=0, args=(train, 'xxx")
    assert "...,)" in run.replay


def test_a_closed_stdin_is_no_problem():
    code = "import os; os.close(0); import simulator; from tests.simulator import programs\n"
    code += "print(simulator.run(programs.train, 2, args=(1,), echo=False).results)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert told.stdout == "[1.0, 1.0]\n"


def test_echo_false_prints_nothing(capsys):
    simulator.run(programs.fails_on_rank_1, 3, echo=False)
    assert capsys.readouterr() == ("", "")


def test_a_failure_is_told_without_asking(capsys):
    simulator.run(programs.fails_on_rank_1, 3)
    told = capsys.readouterr().out
    assert "Rank 1 failed" in told
    assert "bad data" in told
    assert "replay: simulator.run(fails_on_rank_1, world_size=3, seed=0)" in told


def test_seeds_are_set_and_shared():
    first, again = (simulator.run(programs.draws_random_numbers, 2, seed=5, echo=False).results for _ in range(2))
    assert first == again
    assert first[0] == first[1]
    assert simulator.run(programs.draws_random_numbers, 2, seed=6, echo=False).results != first


def test_point_to_point_and_subgroups():
    assert simulator.run(programs.ring_shift, 4, echo=False).results == [0.0, 1.0, 2.0, 3.0]
    run = simulator.run(programs.subgroups_and_objects, 3, echo=False)
    assert run.results == [(2.0, [0, 1, 2]), (2.0, [0, 1, 2]), (1.0, [0, 1, 2])]


def test_ddp_gives_the_same_parameters_everywhere():
    run = simulator.run(programs.ddp, 3, echo=False)
    assert run.ok
    for parameters in run.results[1:]:
        assert all(torch.equal(mine, first) for mine, first in zip(parameters, run.results[0], strict=True))


def test_rank_order_sums_do_not_depend_on_the_layout():
    def sums(reduction, bucket):
        return simulator.run(programs.sum_in_buckets, 3, args=(bucket,), reduction=reduction, echo=False).results[0]

    values = [torch.randn(1000, generator=torch.Generator().manual_seed(rank)) for rank in range(3)]
    in_order = values[0] + values[1] + values[2]
    assert torch.equal(sums("rank_order", 1000), in_order)
    assert torch.equal(sums("rank_order", 70), in_order)
    assert not torch.equal(
        sums("stock", 1000), sums("stock", 70)
    )  # gloo's order depends on the position: why rank_order exists


def test_nothing_a_rank_starts_survives_the_run():
    pids = simulator.run(programs.leaves_a_child, 2, echo=False).results
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: simulator.run(3, 2), "needs a function"),
        (lambda: simulator.run(programs.train, 0), "from 1 to"),
        (lambda: simulator.run(programs.train, 2, rank_args=[(1,)]), "one tuple for each of the 2 ranks"),
        (lambda: simulator.run(programs.train, 2, reduction="fast"), "use stock or rank_order"),
        (lambda: simulator.run(programs.train, 2, cluster="b200"), "unknown cluster"),
        (lambda: simulator.run(programs.train, 2, timeout_s=-1), "timeout_s is in seconds, more than 0"),
        (lambda: simulator.run(programs.train, 2, cpu_limit_s=float("nan")), "cpu_limit_s is in seconds, more than 0"),
        (lambda: simulator.run(programs.train, 2, faults="kill(rank=2, step=1)"), "no rank 2 in a world of 2"),
        (lambda: simulator.run(programs.train, 2, args=(threading.Lock(),)), "cannot be sent to the ranks"),
    ],
)
def test_bad_calls_are_refused_with_a_sentence(call, words):
    with pytest.raises(simulator.SimulatorError, match=words):
        call()


def test_results_that_cannot_travel_name_their_type():
    run = simulator.run(programs.returns_a_function, 2, echo=False)
    assert run.outcome.name == "RankFailed"
    assert "the result is a function" in run.outcome.text
    assert run.outcome.ranks == (0, 1)


def test_a_rank_has_no_keyboard():
    run = simulator.run(programs.reads_the_keyboard, 2, echo=False)
    assert "a rank has no keyboard" in run.outcome.text


def test_header_says_what_is_modelled():
    header = simulator.run(programs.train, 2, faults="slow(rank=0, factor=2)", echo=False).header
    assert "time is virtual" in header
    assert "time.monotonic is real" in header
    assert "slow(rank=0, factor=2)" in header


def test_a_single_rank_is_told_in_the_singular():
    run = simulator.run(programs.all_reduce_rank, 1, echo=False)
    assert run.outcome.text.startswith("1 rank finished after")
    assert run.header.startswith("1 rank: real processes")
