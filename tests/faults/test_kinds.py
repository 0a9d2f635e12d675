"""What each kind of fault does to a run of real ranks."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simulator
from simulator.cluster import Cluster, Link
from tests.simulator import programs

EASY = Cluster("easy", 2, intra=Link(1.0, 1.0), inter=Link(1.0, 1.0))


def run(fn, world_size, faults, **options):
    done = simulator.run(fn, world_size, faults=faults, echo=False, **options)
    assert not done.inconclusive, done
    return done


def sums(num_steps: int = 3) -> list[float]:
    """All-reduce ones; the last result."""
    tensor = torch.ones(3)
    for _ in simulator.steps(num_steps):
        simulator.compute(1e-3)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
    return tensor.tolist()


def test_a_hang_is_the_timeout_of_the_others():
    hung = run(sums, 3, "hang(rank=1, step=2)")
    assert hung.outcome.name == "CollectiveTimeout"
    assert hung.outcome.ranks == (1,)
    assert "rank 1 hangs at step 2 since the fault plan stopped it" in hung.outcome.text
    assert "1,800 virtual seconds" in hung.outcome.text
    assert hung.results == [None] * 3
    assert simulator.diagnose(hung.trace).ranks == (1,)


def test_a_hang_that_nobody_waits_for_never_ends():
    def alone():
        return list(simulator.steps(3))

    hung = run(alone, 2, "hang(rank=1, step=2)")
    assert hung.outcome.name == "NoProgress"
    assert hung.outcome.ranks == (1,)
    assert hung.results == [[0, 1, 2], None]


@pytest.mark.parametrize(
    ("where", "expected"),
    [("result", [[3, 3, 3], [3, 3, -3], [3, 3, 3]]), ("payload", [[3, 3, 1]] * 3)],
)
def test_corruption_flips_the_bit_and_tells_nobody(where, expected):
    """Bit 31 of a float32 is its sign: 3 becomes -3 at one rank, or 1 + 1 + -1 at all."""
    wrong = run(sums, 3, f"corrupt(rank=1, collective=2, bits=31, element=2, where={where})")
    assert wrong.outcome.name == "Completed"
    assert wrong.results == expected


def test_a_corrupted_payload_is_wrong_on_the_way_only():
    def gather():
        mine, parts = torch.full((2,), 1.0), [torch.empty(2) for _ in range(2)]
        dist.all_gather(parts, mine)
        return [mine.tolist(), torch.cat(parts).tolist()]

    wrong = run(gather, 2, "corrupt(rank=1, collective=0, bits=31, where=payload)")
    assert wrong.results == [[[1, 1], [1, 1, -1, 1]]] * 2


def test_corruption_of_what_a_rank_does_not_send_never_fires():
    def broadcast():
        dist.broadcast(torch.ones(1), src=0)

    quiet = simulator.run(broadcast, 2, faults="corrupt(rank=1, collective=0, bits=0, where=payload)", echo=False)
    assert quiet.inconclusive
    assert not quiet.ok


def test_corruption_says_which_elements_there_are():
    wrong = simulator.run(sums, 2, faults="corrupt(rank=1, collective=0, bits=32)", echo=False)
    assert "3 elements of 32 bits" in wrong.outcome.text


def test_a_partition_for_ever_is_a_timeout_without_a_culprit():
    cut = run(sums, 4, "partition(sets=((0, 1), (2, 3)), step=1)")
    assert cut.outcome.name == "CollectiveTimeout"
    assert cut.outcome.ranks == ()
    assert "cut for ever by the fault plan" in cut.outcome.text
    found = simulator.diagnose(cut.trace)
    assert (found.kind, found.ranks, found.seq) == ("network", (0, 1, 2, 3), 1)


def test_a_message_over_a_cut_is_a_timeout_at_both_ends():
    cut = run(programs.ring_shift, 3, "partition(sets=((0,), (1, 2)), step=1)")
    assert cut.outcome.name == "CollectiveTimeout"
    assert simulator.diagnose(cut.trace).kind == "network"


def test_a_partition_that_heals_delays():
    cut = run(sums, 4, "partition(sets=((0, 1), (2, 3)), step=1, duration_s=5)", cluster=EASY)
    assert cut.results == [[4, 4, 4]] * 4
    reduces = [e for e in cut.trace.of_rank(0) if e.op == "all_reduce"]
    assert reduces[1].start_ns == reduces[0].end_ns + 5_000_000_000  # from the beginning of step 1


def test_a_partition_leaves_the_groups_within_a_side_alone():
    def within_sides():
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        tensor = torch.ones(1)
        for step in simulator.steps(3):
            dist.all_reduce(tensor, group=pairs[dist.get_rank() // 2])
            if step == 0:
                dist.barrier()
        return float(tensor)

    quiet = simulator.run(within_sides, 4, faults="partition(sets=((0, 1), (2, 3)), step=1)", echo=False)
    assert quiet.results == [8.0] * 4
    assert quiet.inconclusive  # it cut nothing that anybody used


@pytest.mark.parametrize("link", ["ranks=(0, 1)", "nodes=(0, 1)"])
def test_a_slow_link_multiplies_what_crosses_it(link):
    slow = run(sums, 4, f"slow_link({link}, factor=10, steps=(1, 2))", cluster=EASY)
    took = [e.end_ns - e.start_ns for e in slow.trace.of_rank(0) if e.op == "all_reduce"]
    assert took == [took[0], 10 * took[0], took[0]]


def test_a_message_that_does_not_cross_the_slow_link_is_not_slow():
    slow = run(programs.ring_shift, 3, "slow_link(ranks=(1, 2), factor=7)", cluster=EASY)
    took = {(e.rank, e.peer): e.end_ns - e.start_ns for e in slow.trace if e.op == "send"}
    assert took[1, 2] == 7 * took[0, 1]
    assert took[2, 0] == took[0, 1]


def test_preemption_without_a_handler_is_death_by_sigterm():
    gone = run(sums, 3, "preempt(rank=1, step=1, grace_s=30)")
    assert gone.outcome.name == "PeerLost"
    assert gone.killed == (1,)


def notices() -> list[object]:
    """Ranks agree to stop as soon as one of them was told to."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("SIGTERM"))
    for step in simulator.steps(10):
        stop = torch.tensor(float(bool(told)))
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
        if stop:
            return [step, told]
    return []


def test_a_preempted_rank_can_save_itself():
    saved = run(notices, 3, "preempt(rank=1, step=3, grace_s=30)")
    assert saved.results == [[3, []], [3, ["SIGTERM"]], [3, []]]


def ignores() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    for _ in simulator.steps(10):
        simulator.compute(1.0 + 10 * dist.get_rank())
        dist.barrier()


def test_the_grace_ends_in_the_middle_of_a_wait():
    """Rank 0 is told at the start of step 1 (t = 21.000...), and waits for rank 2 when its 5 seconds are over."""
    gone = run(ignores, 3, "preempt(rank=0, step=1, grace_s=5)", cluster=EASY)
    assert gone.outcome.name == "PeerLost"
    assert gone.outcome.ranks == (0,)
    (told,) = [e for e in gone.trace if e.op == "preempt"]
    (end,) = [e for e in gone.trace.of_rank(0) if e.op == "exit"]
    assert (end.end_ns - told.start_ns, end.status) == (5_000_000_000, "killed")


def trains_and_saves(folder: str) -> None:
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = os.path.join(folder, "model.pt")
    for _ in simulator.steps(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path + ".tmp")
            os.replace(path + ".tmp", path)
    dist.barrier()
    torch.load(path)


@pytest.mark.parametrize(
    ("phase", "calls", "files"),
    [
        ("init", 0, {}),
        ("forward", 3, {}),
        ("backward", 3, {}),
        ("optimizer", 4, {}),
        ("save-write", 4, {"model.pt.tmp": "half"}),
        ("save-rename", 4, {"model.pt.tmp": "whole"}),
        ("load", 8, {"model.pt": "whole"}),
        ("teardown", 8, {"model.pt": "whole"}),
    ],
)
def test_phases_are_known_without_a_word_in_the_program(phase, calls, files, tmp_path):
    gone = run(trains_and_saves, 2, f"kill(rank=0, phase={phase})", args=(str(tmp_path),))
    assert gone.killed == (0,)
    assert len([e for e in gone.trace.of_rank(0) if e.is_collective]) >= calls
    found = {}
    for file in tmp_path.iterdir():
        try:
            torch.load(file)
            found[file.name] = "whole"
        except (RuntimeError, EOFError):
            found[file.name] = "half"
    assert found == files


def test_a_phase_may_be_named_by_the_program_and_tied_to_a_step():
    def evaluates():
        for _ in simulator.steps(3):
            with simulator.annotate("eval"):
                dist.barrier()
            dist.barrier()

    gone = run(evaluates, 2, "kill(rank=1, step=1, phase=eval)")
    assert gone.outcome.step == 1
    assert [e.phase for e in gone.trace.of_rank(0) if e.is_collective] == ["eval", "", "eval"]


def test_a_file_operation_is_a_point(tmp_path):
    gone = run(trains_and_saves, 2, "kill(rank=0, file=3)", args=(str(tmp_path),))  # write, rename, write | rename
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.pt", "model.pt.tmp"]
    assert gone.outcome.step == 1


@pytest.mark.parametrize(
    ("fn", "faults"),
    [
        (sums, "partition(sets=((0, 1), (2, 3)), collective=1, duration_s=1); slow_link(ranks=(2, 3), factor=3)"),
        (ignores, "preempt(rank=0, step=1, grace_s=5); slow(rank=2, factor=2); hang(rank=3, collective=5)"),
    ],
)
def test_five_runs_one_digest(fn, faults):
    runs = [simulator.run(fn, 4, faults=faults, echo=False) for _ in range(5)]
    assert len({(one.trace.digest, one.outcome.explain()) for one in runs}) == 1
