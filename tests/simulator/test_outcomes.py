"""Every way a run can end, with the culprits named: on three and four ranks, never only two."""

import re

import pytest

import simulator
from tests.simulator import programs


def outcome(program, world_size, **options):
    return simulator.run(program, world_size, echo=False, **options).outcome


@pytest.mark.parametrize("world_size", [3, 4])
@pytest.mark.parametrize(
    ("program", "name", "ranks", "words"),
    [
        (programs.everyone_receives_first, "CollectiveTimeout", (), "Everyone receives and nobody sends"),
        (programs.everyone_sends_first, "CollectiveTimeout", (), "Everyone sends and nobody receives"),
        (programs.uneven_end, "CollectiveTimeout", (0,), "rank 0 has finished"),
        (programs.skips_new_group_on_rank_1, "CollectiveTimeout", (), "another rank never came"),
        (programs.other_shape_on_rank_2, "CollectiveMismatch", (2,), "float32\\[4\\]"),
        (programs.other_dtype_on_rank_2, "CollectiveMismatch", (2,), "float64\\[3\\]"),
        (programs.other_reduce_op_on_rank_2, "CollectiveMismatch", (2,), "MAX"),
        (programs.other_root_on_rank_2, "CollectiveMismatch", (2,), "src=1"),
        (programs.other_operation_on_rank_2, "CollectiveMismatch", (2,), "broadcast"),
        (programs.fails_on_rank_1, "RankFailed", (1,), "ValueError: bad data"),
        (programs.exits_on_rank_1, "RankFailed", (1,), "exit status 3"),
        (programs.calls_sys_exit_on_rank_1, "RankFailed", (1,), "sys.exit"),
    ],
)
def test_outcomes_name_class_and_culprit(program, name, ranks, words, world_size):
    found = outcome(program, world_size)
    assert found.name == name
    if name != "CollectiveTimeout" or ranks:
        assert found.ranks == ranks
    assert re.search(words, found.text), found.text


def test_a_tie_blames_everybody():
    found = outcome(programs.shapes_without_majority, 4)
    assert found.name == "CollectiveMismatch"
    assert found.ranks == (0, 1, 2, 3)
    assert "without a majority" in found.text


def test_a_skipped_collective_pairs_the_next_one_and_hangs_later():
    run = simulator.run(programs.three_all_reduces, 3, faults="skip_collective(rank=2, collective=1)", echo=False)
    assert run.outcome.name == "CollectiveTimeout"
    assert run.outcome.ranks == (2,)
    assert run.fired == ("skip_collective(rank=2, collective=1)",)
    assert "rank 2 has finished" in run.outcome.text


def test_a_planned_kill_is_a_lost_peer():
    run = simulator.run(programs.train, 4, faults="kill(rank=2, step=3)", echo=False)
    assert run.outcome.name == "PeerLost"
    assert run.outcome.ranks == run.killed == (2,)
    assert run.outcome.step == 3
    assert "killed at step 3" in run.outcome.text
    assert [e.status for e in run.trace.of_rank(0) if e.op == "all_reduce"] == ["ok", "ok", "ok", "lost"]


def test_survivors_that_go_on_complete_the_run():
    run = simulator.run(programs.survives_a_lost_peer, 3, faults="kill(rank=1, step=1)", echo=False)
    assert run.ok
    assert run.killed == (1,)
    assert run.results == ["PeerLost", None, "PeerLost"]
    assert "killed by the plan" in run.outcome.text


def test_a_fault_that_never_acts_makes_the_run_inconclusive():
    run = simulator.run(programs.train, 3, faults="kill(rank=2, step=99)", echo=False)
    assert run.outcome.name == "Completed"
    assert run.inconclusive
    assert not run.ok
    assert run.not_fired == ("kill(rank=2, step=99)",)
    with pytest.raises(simulator.UsageError, match="inconclusive"):
        run.raise_for_outcome()


def test_a_spinning_rank_is_found_by_its_processor_time():
    found = outcome(programs.spins_on_rank_1, 3, cpu_limit_s=0.5)
    assert found.name == "NoProgress"
    assert found.ranks == (1,)
    assert "while True" in found.text or "pass" in found.text


@pytest.mark.parametrize("program", [programs.everyone_receives_first, programs.everyone_sends_first])
def test_a_ring_of_messages_blames_everybody(program):
    found = simulator.diagnose(simulator.run(program, 3, echo=False).trace)
    assert (found.kind, found.ranks) == ("deadlock point to point", (0, 1, 2))


def test_a_hang_costs_virtual_half_an_hour():
    run = simulator.run(programs.everyone_receives_first, 4, echo=False)
    exits = [e.end_ns for e in run.trace if e.op == "exit"]
    assert exits == [1_800_000_000_000] * 4


def test_explain_has_diagnosis_tape_stacks_and_replay_line():
    found = outcome(programs.uneven_end, 3)
    told = found.explain().splitlines()
    assert " ".join(told).count(f"Diagnosis, {simulator.diagnose(found.trace)}") == 1
    assert told[-5] == "  rank 0: all_reduce #0 -> all_reduce #1 -> finished"
    assert told[-2].startswith("  ranks 1 and 2 in uneven_end (programs.py:")
    assert told[-1] == "replay: simulator.run(uneven_end, world_size=3, seed=0)"


def test_the_exception_class_is_torchs():
    with pytest.raises(simulator.PeerLost, match="killed at step 1"):
        simulator.run(programs.train, 3, faults="kill(rank=0, step=1)", echo=False).raise_for_outcome()


def test_a_wait_with_a_time_out_of_its_own_ends_then_and_the_operation_goes_on():
    def late() -> list[object]:
        import datetime
        import time

        import torch
        import torch.distributed as dist

        tensor, said = torch.ones(2), ""
        if dist.get_rank() == 1:
            simulator.compute(10.0)
        work = dist.all_reduce(tensor, async_op=True)
        try:
            work.wait(datetime.timedelta(seconds=3))
        except RuntimeError as error:
            said = str(error)
        gave_up_s = round(time.perf_counter())
        work.wait()
        return [said.partition("!")[0], gave_up_s, round(time.perf_counter()), tensor.tolist()]

    run = simulator.run(late, 3, echo=False)
    assert run.ok
    patient, hasty = ["", 10, 10, [3.0, 3.0]], ["Operation timed out", 3, 10, [3.0, 3.0]]
    assert run.results == [hasty, patient, hasty]
    assert simulator.run(late, 3, echo=False).trace.digest == run.trace.digest


def test_an_exception_whose_text_cannot_be_made_keeps_its_class_and_line():
    def program():
        class Odd(ValueError):
            def __str__(self):
                return self.missing

        raise Odd

    outcome = simulator.run(program, 3, echo=False).outcome
    assert outcome.name == "RankFailed"
    assert "with Odd: (its text cannot be made: AttributeError)" in outcome.text
    assert outcome.error["frames"]


def test_two_ranks_in_one_place_of_a_group_are_told():
    def program():
        import torch
        import torch.distributed as dist

        pairs = [[0, 2], [0, 1]]
        made = {}
        for pair in reversed(pairs) if dist.get_rank() == 1 else pairs:
            made[pair[1]] = dist.new_group(pair)
        for pair in pairs:
            if dist.get_rank() in pair:
                dist.all_reduce(torch.ones(2), group=made[pair[1]])

    runs = [simulator.run(program, 4, echo=False) for _ in range(2)]
    assert runs[0].outcome.name == "RankFailed"
    assert "the ranks make their groups in different orders" in runs[0].outcome.text
    assert runs[0].trace.digest == runs[1].trace.digest


def test_words_of_a_rank_cannot_move_a_cursor():
    def program():
        odd = type("\x1b[1AE\n", (Exception,), {})
        raise odd("\x1b[2K\u202e" + "\n" * 500 + "end")

    outcome = simulator.run(program, 3, echo=False).outcome
    assert outcome.error["type"] == "\\x1b[1AE"
    assert outcome.error["message"] == "\\x1b[2K\\u202e" + "\n" * 40 + "..."
    assert all(character.isprintable() or character == "\n" for character in outcome.explain())


def test_a_process_that_a_rank_forks_is_told_that_it_is_none():
    def program() -> str:
        import os

        import torch
        import torch.distributed as dist

        out, into = os.pipe()
        if (child := os.fork()) == 0:
            try:
                dist.all_reduce(torch.ones(1))
            except BaseException as error:
                os.write(into, f"{type(error).__name__}: {error}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        return os.read(out, 1000).decode()

    results = simulator.run(program, 3, echo=False).raise_for_outcome().results
    told = "UsageError: this process was started by a rank and is none: call collectives in the rank itself"
    assert results == [told] * 3


def test_a_store_wait_with_a_time_out_of_its_own_is_user_codes_affair():
    def lonely() -> tuple[str, int]:
        import datetime
        import time

        import torch.distributed as dist

        store = dist.PrefixStore("mine", dist.distributed_c10d._get_default_store())
        try:
            store.wait(["nobody sets it"], datetime.timedelta(seconds=5))
        except dist.DistStoreError as error:
            return str(error).partition(",")[0], round(time.perf_counter())
        return "came", 0

    run = simulator.run(lonely, 3, echo=False)
    assert run.ok
    assert run.results == [("wait timeout after 5000 ms (of virtual time)", 5)] * 3
    assert simulator.diagnose(run.trace).is_healthy


def test_parts_of_all_to_all_single_that_do_not_fit():
    def exchange():
        import torch
        import torch.distributed as dist

        rank, size = dist.get_rank(), dist.get_world_size()
        sent = [rank + 1] * size
        expected = [source + 1 for source in range(size)]
        if rank == 1:
            expected[2] = 1  # rank 2 sends 3
        dist.all_to_all_single(torch.empty(sum(expected)), torch.ones(sum(sent)), expected, sent)

    runs = [simulator.run(exchange, 3, echo=False) for _ in range(2)]
    assert runs[0].outcome.name == "CollectiveMismatch"
    assert runs[0].outcome.ranks == (1, 2)
    assert "rank 2 sends 3 rows to rank 1, which expects 1" in runs[0].outcome.text
    assert runs[0].trace.digest == runs[1].trace.digest
