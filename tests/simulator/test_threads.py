"""Helper threads of a rank: own clocks, one digest, hangs that are found."""

import queue
import select
import threading
import time
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
@pytest.mark.parametrize(
    "how", ["future", "event", "queue", "stack", "by priority", "full queue", "semaphore", "bounded", "barrier"]
)
def test_whether_a_thread_really_had_to_wait_does_not_show(how, task_s):
    runs = [simulator.run(_WAITS[how], 1, args=(task_s, is_late), echo=False) for is_late in (0, 1)]
    assert runs[0].trace.digest == runs[1].trace.digest, runs[0].trace.diff(runs[1].trace)
    assert runs[0].results == runs[1].results == [1_000_000 + max(1_000_000, round(task_s * 1e9))]


def test_an_item_keeps_its_time_whatever_the_order_of_the_queue():
    def program() -> list[int]:
        items: queue.PriorityQueue[int] = queue.PriorityQueue()

        def put_late() -> None:
            simulator.compute(1e-3)
            items.put(1)

        items.put(2)
        helper = threading.Thread(target=put_late)
        helper.start()
        while items.qsize() < 2:  # a look carries no clock
            select.select([], [], [], 0.01)
        began = time.perf_counter_ns()
        return [items.get(), time.perf_counter_ns() - began, items.get(), time.perf_counter_ns() - began]

    assert simulator.run(program, 1, echo=False).results == [[1, 1_000_000, 2, 1_000_000]]


def test_a_semaphore_that_is_released_too_often_stays_as_it_was():
    def program() -> str:
        places = threading.BoundedSemaphore(1)
        try:
            places.release()
        except ValueError as error:
            assert places.acquire(blocking=False)
            assert not places.acquire(blocking=False)
            return str(error)
        return "nothing"

    assert simulator.run(program, 1, echo=False).results == ["Semaphore released too many times"]


def _waits_for_a_task(task_s: float, is_late: int) -> int:
    """The main thread asks for a result that is not there yet, or (late) has been there for a while in real time."""
    began = time.perf_counter_ns()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_task, task_s, 0.0 if is_late else 0.1)
        simulator.compute(1e-3)
        select.select([], [], [], 0.1 if is_late else 0.0)  # sleeps in real time
        future.result()
        simulator.compute(1e-3)
        return time.perf_counter_ns() - began


def _task(task_s: float, real_s: float) -> None:
    select.select([], [], [], real_s)
    simulator.compute(task_s)


def _waits_in(wait, tell, task_s: float, is_late: int) -> int:
    """The same with a thread that tells and a main thread that waits for it."""

    def work() -> None:
        _task(task_s, 0.0 if is_late else 0.1)
        tell()

    began, helper = time.perf_counter_ns(), threading.Thread(target=work)
    helper.start()
    simulator.compute(1e-3)
    select.select([], [], [], 0.1 if is_late else 0.0)
    wait()
    simulator.compute(1e-3)
    lasted_ns = time.perf_counter_ns() - began
    helper.join()
    return lasted_ns


def _waits_for_an_event(task_s: float, is_late: int) -> int:
    event = threading.Event()
    return _waits_in(event.wait, event.set, task_s, is_late)


def _waits_for_an_item(task_s: float, is_late: int) -> int:
    items: queue.Queue[int] = queue.Queue()
    return _waits_in(items.get, lambda: items.put(1), task_s, is_late)


def _waits_for_the_last_item(task_s: float, is_late: int) -> int:
    items: queue.LifoQueue[int] = queue.LifoQueue()
    items.put(0)
    items.get()
    return _waits_in(items.get, lambda: items.put(1), task_s, is_late)


def _waits_for_the_first_item(task_s: float, is_late: int) -> int:
    items: queue.PriorityQueue[int] = queue.PriorityQueue()
    items.put(2)
    items.get()
    return _waits_in(items.get, lambda: items.put(1), task_s, is_late)


def _waits_for_a_semaphore(task_s: float, is_late: int) -> int:
    places = threading.Semaphore(0)
    return _waits_in(places.acquire, places.release, task_s, is_late)


def _waits_for_a_bounded_semaphore(task_s: float, is_late: int) -> int:
    places = threading.BoundedSemaphore(2)
    with places:
        places.acquire()
        return _waits_in(places.acquire, places.release, task_s, is_late)


def _meets_at_a_barrier(task_s: float, is_late: int) -> int:
    barrier = threading.Barrier(2)
    return _waits_in(barrier.wait, barrier.wait, task_s, is_late)


def _waits_for_a_place(task_s: float, is_late: int) -> int:
    items: queue.Queue[int] = queue.Queue(maxsize=1)
    items.put(0)
    return _waits_in(lambda: items.put(1), items.get, task_s, is_late)


_WAITS = {
    "future": _waits_for_a_task,
    "event": _waits_for_an_event,
    "queue": _waits_for_an_item,
    "stack": _waits_for_the_last_item,
    "by priority": _waits_for_the_first_item,
    "full queue": _waits_for_a_place,
    "semaphore": _waits_for_a_semaphore,
    "bounded": _waits_for_a_bounded_semaphore,
    "barrier": _meets_at_a_barrier,
}
