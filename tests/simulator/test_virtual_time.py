"""Virtual time by hand: compute, the alpha-beta model, waiting."""

import simulator
from simulator.cluster import NO_GPU, Cluster
from tests.simulator import programs
from tests.simulator.layers import EASY


def test_all_reduce_costs_the_ring_formula():
    run = simulator.run(programs.all_reduce_rank, 4, cluster=EASY, echo=False)
    (event,) = [e for e in run.trace.of_rank(0) if e.op == "all_reduce"]
    # 12 bytes on 4 ranks: 6 steps of 1000 ns, 2 * 3/4 * 12 bytes of 1 ns
    assert (event.issue_ns, event.start_ns, event.end_ns, event.bytes) == (0, 0, 6018, 12)


def test_groups_across_nodes_use_the_slower_link():
    two_nodes = Cluster("two nodes", 2, intra=EASY.intra, inter=EASY.inter, gpu=NO_GPU)
    run = simulator.run(programs.all_reduce_rank, 4, cluster=two_nodes, echo=False)
    assert run.trace.end_ns == 6 * 10_000 + 18 * 10


def test_everyone_waits_for_the_slow_rank():
    run = simulator.run(programs.train, 3, args=(1,), cluster=EASY, faults="slow(rank=1, factor=3)", echo=False)
    events = {e.rank: e for e in run.trace if e.op == "all_reduce"}
    assert [events[r].issue_ns for r in range(3)] == [1_000_000, 3_000_000, 1_000_000]
    assert {e.start_ns for e in events.values()} == {3_000_000}


def test_slow_acts_only_in_its_steps():
    run = simulator.run(
        programs.train, 2, args=(4,), cluster=EASY, faults="slow(rank=1, factor=3, steps=(1, 3))", echo=False
    )
    durations = [e.end_ns - e.start_ns for e in run.trace.of_rank(1) if e.op == "compute"]
    assert durations == [1_000_000, 3_000_000, 3_000_000, 1_000_000]


def test_messages_start_when_both_ends_are_there():
    run = simulator.run(programs.receives_from_anyone, 3, cluster=EASY, echo=False)
    receives = [e for e in run.trace.of_rank(0) if e.op == "recv"]
    assert [(e.start_ns, e.end_ns) for e in receives] == [(1_000_000, 1_001_004), (2_000_000, 2_001_004)]


def test_overlap_of_async_work():
    def overlapped():
        import torch
        import torch.distributed as dist

        tensor = torch.ones(1000)
        work = dist.all_reduce(tensor, async_op=True)
        simulator.compute(1e-6)
        work.wait()
        dist.barrier()

    run = simulator.run(overlapped, 2, cluster=EASY, echo=False)
    reduce, barrier = [e for e in run.trace.of_rank(0) if e.is_communication]
    assert (reduce.issue_ns, reduce.wait_ns, reduce.end_ns) == (0, 1000, 2000 + 4000)
    assert barrier.issue_ns == 6000


def test_polling_moves_virtual_time():
    run = simulator.run(programs.polls_until_done, 2, cluster=EASY, echo=False)
    assert run.results == [11, 1]  # rank 1 comes 100 us later and finds it done after one look
    assert run.ok


def test_works_nobody_waits_for_are_pending_or_done_but_never_wrong():
    def forgets_to_wait():
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.ones(1), async_op=True)
        return dist.get_rank()

    run = simulator.run(forgets_to_wait, 3, echo=False)
    assert run.ok
    assert {e.wait_ns for e in run.trace if e.op == "all_reduce"} == {-1}


def test_compute_refuses_to_go_back():
    def back():
        simulator.compute(-1.0)

    assert "virtual time only moves forward" in simulator.run(back, 1, echo=False).outcome.text


def test_helpers_do_nothing_outside_a_run():
    simulator.compute(1.0)
    assert list(simulator.steps(range(3, 6))) == [3, 4, 5]
