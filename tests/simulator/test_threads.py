"""Helper threads of a rank: own clocks, one digest, hangs that are found."""

import select
from concurrent.futures import ThreadPoolExecutor

import pytest

import simulator
from tests.simulator import programs
from tests.simulator.layers import EASY


@pytest.mark.parametrize(
    ("program", "result"),
    [
        (programs.works_in_a_thread, (3.0, 1.0)),
        (programs.works_in_a_pool, [0.0, 3.0, 6.0]),
        (programs.produces_and_consumes, [0, 1, 2, 3, 4]),
    ],
)
def test_threads_are_deterministic(program, result):
    runs = [simulator.run(program, 3, echo=False) for _ in range(5)]
    assert [run.results for run in runs] == [[result] * 3] * 5
    assert len({run.trace.digest for run in runs}) == 1


def test_a_thread_has_its_own_clock_and_join_merges_it():
    run = simulator.run(programs.works_in_a_thread, 3, cluster=EASY, echo=False)
    (helper,) = [e for e in run.trace.of_rank(0) if e.thread == "0.1" and e.op == "all_reduce"]
    main = [e for e in run.trace.of_rank(0) if e.thread == "0" and e.op == "all_reduce"]
    assert helper.issue_ns == 5_000_000
    assert main[2].end_ns < 4_000_000  # the training loop did not wait for the helper
    assert main[3].issue_ns == helper.end_ns + 1_000_000  # after the join


def test_tasks_of_one_worker_run_one_after_the_other():
    run = simulator.run(programs.works_in_a_pool, 3, echo=False)
    tasks = sorted(e.issue_ns for e in run.trace.of_rank(0) if e.is_communication and e.group != "default")
    assert [issue // 1_000_000 for issue in tasks] == [5, 10, 15]


def test_a_hang_of_a_helper_thread_is_found():
    outcome = simulator.run(programs.hangs_in_a_helper_thread, 3, echo=False).outcome
    assert outcome.name == "CollectiveTimeout"
    assert "thread 0.1 of rank 0 waits in all_reduce #0" in outcome.text
    assert "  rank 0, thread 0.1: all_reduce #0 on group" in outcome.explain()


def test_asynchronous_checkpoints(tmp_path):
    runs = [
        simulator.run(programs.saves_asynchronously, 3, args=(str(tmp_path / str(i)),), echo=False) for i in range(3)
    ]
    assert all(run.ok for run in runs), runs[0].outcome
    assert len({run.trace.digest for run in runs}) == 1


@pytest.mark.parametrize("task_s", [0.0, 2e-3])
def test_whether_a_thread_really_had_to_wait_does_not_show(task_s):
    traces = [simulator.run(_waits_for_a_task, 1, args=(task_s, is_late), echo=False).trace for is_late in (0, 1)]
    assert traces[0].digest == traces[1].digest, traces[0].diff(traces[1])


def _waits_for_a_task(task_s: float, is_late: int) -> None:
    """The main thread asks for a result that is not there yet, or (late) has been there for a while in real time."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_task, task_s, 0.0 if is_late else 0.3)
        simulator.compute(1e-3)
        select.select([], [], [], 0.3 if is_late else 0.0)  # sleeps in real time
        future.result()
        simulator.compute(1e-3)


def _task(task_s: float, real_s: float) -> None:
    select.select([], [], [], real_s)
    simulator.compute(task_s)
