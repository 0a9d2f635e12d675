"""Life in a Jupyter kernel: interrupt, restart, kill, cells and lines in errors. A real ipykernel runs each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_SETUP = """
import simulator
import torch
import torch.distributed as dist
from simulator import launch

def add():
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return float(tensor)

def spin():
    while dist.get_rank() == 1:
        pass
    dist.barrier()

simulator.run(add, 3, echo=False)
print(*launch.world_pids())
"""
_SPIN = "print('spinning', flush=True); simulator.run(spin, 3, cpu_limit_s=1000, echo=False)"


class Kernel:
    """A kernel with the simulator imported; `helpers` are its forkserver and coordinator."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env={**os.environ, "PYTHONPATH": os.getcwd()})
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.helpers = [psutil.Process(int(pid)) for pid in self.run(_SETUP)[0].split()]

    def run(self, code: str) -> tuple[str, dict[str, str]]:
        """Printed text and the reply of one cell."""
        message = self.client.execute(code)
        return self.finish(message)

    def finish(self, message: str) -> tuple[str, dict[str, str]]:
        text = ""
        while True:
            told = self.client.get_iopub_msg(timeout=90)
            if told["parent_header"].get("msg_id") != message:
                continue
            if told["msg_type"] == "stream":
                text += told["content"]["text"]
            if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
                break
        while (reply := self.client.get_shell_msg(timeout=90))["parent_header"].get("msg_id") != message:
            pass
        return text, reply["content"]

    def start_spinning(self) -> str:
        """Begin a run that never ends; returns when its three ranks are there."""
        message = self.client.execute(_SPIN)
        while len(self.ranks) < 3:
            psutil.wait_procs([], timeout=0.05)
        return str(message)

    @property
    def ranks(self) -> list[psutil.Process]:
        return list(self.helpers[0].children())

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self.manager.context.destroy(0)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.close()
    assert psutil.wait_procs(kernel.helpers, timeout=20)[1] == []


def test_an_interrupt_stops_the_ranks_and_leaves_the_kernel_usable(kernel: Kernel) -> None:
    message = kernel.start_spinning()
    kernel.manager.interrupt_kernel()
    _, reply = kernel.finish(message)
    assert reply["ename"] == "KeyboardInterrupt"
    assert kernel.ranks == []
    assert kernel.run("print(simulator.run(add, 3, echo=False).results)")[0] == "[3.0, 3.0, 3.0]\n"


@pytest.mark.slow
def test_a_restart_leaves_nothing(kernel: Kernel) -> None:
    kernel.start_spinning()
    ranks = kernel.ranks
    kernel.manager.restart_kernel(now=True)
    assert psutil.wait_procs([*kernel.helpers, *ranks], timeout=20)[1] == []


def test_a_killed_kernel_leaves_nothing(kernel: Kernel) -> None:
    kernel.start_spinning()
    ranks = kernel.ranks
    psutil.Process(kernel.manager.provisioner.process.pid).kill()  # type: ignore[union-attr]
    assert psutil.wait_procs([*kernel.helpers, *ranks], timeout=20)[1] == []


@pytest.mark.slow
def test_errors_name_the_cell_and_the_line(kernel: Kernel) -> None:
    code = "def broken():\n    dist.barrier()\n    return 1 / 0\nsimulator.run(broken, 2)"
    text, reply = kernel.run(code)
    assert reply["status"] == "ok"  # the cell shows an explanation, not a traceback
    assert "In[2], line 3: `return 1 / 0`" in text
    assert "ZeroDivisionError" in text


def test_call_sites_of_a_hang_name_the_cell(kernel: Kernel) -> None:
    code = "def hang():\n    if dist.get_rank():\n        dist.barrier()\nsimulator.run(hang, 3)"
    assert "ranks 1 and 2 in hang (In[2]:3)" in kernel.run(code)[0]
