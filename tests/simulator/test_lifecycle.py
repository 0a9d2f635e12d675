"""Nothing is left: after a run, an interrupt, a dead caller."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

import simulator
from simulator import launch
from tests.simulator import programs

_CALLER = """
import sys
sys.path.insert(0, {root!r})
import simulator
from simulator import launch
from tests.simulator import programs
simulator.run(programs.all_reduce_rank, 3, echo=False)
print(*launch.world_pids(), flush=True)
{then}
"""
_HANG = "simulator.run(programs.spins_on_rank_1, 3, cpu_limit_s=1000)"


def _caller(then: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A process that uses the simulator, and its helper processes."""
    code = _CALLER.format(root=os.getcwd(), then=then)
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    return caller, [psutil.Process(int(pid)) for pid in caller.stdout.readline().split()]


def _wait_for_ranks(zygote: psutil.Process, count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 30
    while len(ranks := zygote.children()) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(ranks) == count
    return ranks


@pytest.mark.parametrize("then", ["import time; time.sleep(600)", _HANG])
def test_a_killed_caller_leaves_nothing(then):
    caller, helpers = _caller(then)
    processes = [*helpers, *(_wait_for_ranks(helpers[0], 3) if then == _HANG else [])]
    caller.kill()
    caller.wait()
    assert caller.stdout is not None
    caller.stdout.close()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []


def test_a_caller_that_ends_takes_its_helpers_along():
    caller, helpers = _caller("")
    assert caller.wait(30) == 0
    assert caller.stdout is not None
    caller.stdout.close()
    assert psutil.wait_procs(helpers, timeout=20)[1] == []


def test_a_killed_forkserver_takes_its_ranks_along():
    caller, helpers = _caller(_HANG)
    ranks = _wait_for_ranks(helpers[0], 3)
    helpers[0].kill()
    assert psutil.wait_procs(ranks, timeout=20)[1] == []
    assert caller.wait(30) == 1
    assert caller.stdout is not None
    caller.stdout.close()


def _interrupt_when_ranks_run() -> None:
    ranks = _wait_for_ranks(psutil.Process(launch.world_pids()[0]), 3)
    while max(rank.cpu_times().user for rank in ranks) < 0.5:  # not while they start: that may cost the helpers
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_stops_the_ranks_and_the_next_run_works():
    simulator.run(programs.all_reduce_rank, 3, echo=False)
    pids = launch.world_pids()
    interrupter = threading.Thread(target=_interrupt_when_ranks_run)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        simulator.run(programs.spins_on_rank_1, 3, cpu_limit_s=1000, echo=False)
    interrupter.join()
    assert psutil.Process(pids[0]).children() == []
    assert simulator.run(programs.all_reduce_rank, 3, echo=False).ok
    assert launch.world_pids() == pids  # the warm helpers survived


def test_a_dead_helper_is_replaced():
    simulator.run(programs.all_reduce_rank, 3, echo=False)
    before = launch.world_pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid) for pid in before if psutil.pid_exists(pid)], timeout=10)
    assert simulator.run(programs.all_reduce_rank, 3, echo=False).ok
    assert set(launch.world_pids()).isdisjoint(before)


def test_shutdown_ends_the_helpers():
    simulator.run(programs.all_reduce_rank, 3, echo=False)
    pids = launch.world_pids()
    launch.shutdown()
    assert launch.world_pids() == ()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_many_ranks():
    run = simulator.run(programs.all_reduce_rank, 16, echo=False)
    assert run.ok
    assert run.results[0].tolist() == [120.0] * 3
