"""The life of one rank, from fork to exit: set up, run the function, report, serve peers, leave by `os._exit`."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import json
import os
import pickle
import random
import signal
import socket
import sys
import traceback
from types import FrameType
from typing import Any, NoReturn

import msgspec

from simulator import values, wire
from simulator.cluster import NO_GPU, Gpu
from simulator.faults import Fault
from simulator.rank import context, sites, stdio, threads
from simulator.start import Start, receive_start

_PR_SET_PDEATHSIG = 1


def prepare_process() -> None:
    """A session of its own (so that everything it starts can be ended), no Ctrl-C, death with the parent."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def live(sock: socket.socket) -> NoReturn:
    """Be a rank. Never returns."""
    start = receive_start(sock)
    ctx = _make_context(start, sock)
    stream = stdio.redirect(ctx, has_keyboard=start.rank == start.debug_rank)
    _watch_budget(ctx, start.cpu_limit_s)
    try:
        keep = _initialise(start, ctx)  # noqa: F841 - the default group must outlive user code, see group.initialise
        with ctx.charging():
            result = _call(start.payload)
        result = values.encode(result)
    except BaseException as error:
        stream.close_line()
        ctx.leave(_failed(ctx, error))
        os._exit(1)
    stream.close_line()
    ctx.leave(wire.Leave("done", ctx.now_ns, result=result))
    os._exit(0)


def _make_context(start: Start, sock: socket.socket) -> context.Context:
    sys.path[:] = start.sys_path
    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.environ)
    names = {  # as torchrun gives them to the ranks of one node
        "RANK": start.rank,
        "LOCAL_RANK": start.rank,
        "GROUP_RANK": 0,
        "ROLE_RANK": start.rank,
        "ROLE_NAME": "default",
        "WORLD_SIZE": start.world_size,
        "LOCAL_WORLD_SIZE": start.world_size,
        "GROUP_WORLD_SIZE": 1,
        "ROLE_WORLD_SIZE": start.world_size,
        "MASTER_ADDR": "127.0.0.1",  # for programs that look: the group needs no address
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RESTART_COUNT": start.restart_count,
        "TORCHELASTIC_MAX_RESTARTS": start.max_restarts,
        "TORCHELASTIC_RUN_ID": "lockstep",
    }
    os.environ.update({name: str(value) for name, value in names.items()})
    faults = tuple(msgspec.convert(fault, Fault) for fault in start.faults)
    threads.MAIN.host_ns = start.start_ns
    ctx = context.Context(
        start.rank,
        sock,
        faults,
        timeout_ns=int(start.timeout_s * 1e9),
        reduction=start.reduction,
        healing=start.healing,
        ranks_per_node=start.ranks_per_node,
        jitter=start.jitter,
        jitter_seed=f"{start.seed}:{start.rank}",
    )
    context.current = ctx
    return ctx


def _initialise(start: Start, ctx: context.Context) -> Any:
    """Seeds, one thread, the process group."""
    import multiprocessing

    import numpy
    import torch
    import typing_extensions
    from torch._C._distributed_c10d import set_debug_level_from_env
    from torch.optim import optimizer

    from simulator.rank import charge, clocks, group, handovers, phases, store, streams, threads, views, work

    faulthandler.enable(file=os.fdopen(os.dup(2), "w"))
    hidden = tuple(
        os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (torch, numpy, multiprocessing)
    )
    wrappers = str(typing_extensions.__file__)  # torch marks functions as deprecated with it
    sites.configure(start.labels, (*hidden, wrappers, os.path.dirname(os.__file__) + os.sep))
    multiprocessing.set_start_method(
        "fork", force=True
    )  # data-loader workers: a nested forkserver would outlive a killed rank
    torch.set_num_threads(1)
    random.seed(start.seed)
    numpy.random.seed(start.seed % 2**32)
    torch.manual_seed(start.seed)
    set_debug_level_from_env()
    work.patch_future_wait()
    threads.install()
    handovers.install()
    phases.install()
    streams.install(threads.current, ctx.on_stall)
    if start.memory_bytes >= 0:
        _follow_memory(ctx, start.memory_bytes)
    if start.gpu is not None or ctx.ledger is not None:
        ctx.sees_operators = True
        charge.optimizers_as_on_a_gpu()
        views.hide_views(lambda mode: isinstance(mode, charge.Charging))
        gpu = NO_GPU if start.gpu is None else msgspec.convert(start.gpu, Gpu)
        ctx.charging = functools.partial(charge.Charging, ctx, gpu)
    if start.clocks == "virtual":
        clocks.install()
    optimizer.register_optimizer_step_post_hook(_count_step)
    return group.initialise(store.RunStore(), start.rank, start.world_size, start.timeout_s)


def _follow_memory(ctx: context.Context, limit_bytes: int) -> None:
    from simulator.memory import cycles
    from simulator.memory.ledger import Ledger
    from simulator.memory.places import Places

    def where() -> str:
        return f"rank {ctx.rank}" + (f", step {ctx.step}" if ctx.step >= 0 else "")

    ctx.ledger = Ledger(Places().install(), limit_bytes=limit_bytes or float("inf"), where=where).install()
    cycles.control()


def _call(payload: bytes) -> Any:
    from simulator.rank import phases

    function, args = pickle.loads(payload)
    phases.begin("init")
    result = function(*args)
    phases.begin("teardown")
    return result


def _count_step(*_: Any) -> None:
    """Without `simulator.steps`, a finished optimizer step begins the next training step."""
    ctx = context.get()
    if not ctx.explicit_steps:
        ctx.begin_step(max(ctx.step, 0) + 1)


def _failed(ctx: context.Context, error: BaseException) -> wire.Leave:
    from simulator.rank.failures import is_derived

    try:
        words = str(error)
    except Exception as another:  # user code's __str__
        words = f"(its text cannot be made: {type(another).__name__})"
    if isinstance(error, SystemExit):
        words = f"sys.exit({error.code!r}) ended the rank"
    data = {"rank": ctx.rank, "type": type(error).__name__, "message": words, "frames": _frames(error)}
    return wire.Leave("error", ctx.now_ns, error=json.dumps(data).encode(), derived=is_derived(error))


def _frames(error: BaseException) -> list[dict[str, Any]]:
    """The user's part of the traceback, outermost first."""
    summary = traceback.walk_tb(error.__traceback__)
    frames = [(frame, line) for frame, line in summary if sites.is_user_code(frame.f_code)]
    return [_frame_data(frame, line) for frame, line in frames]


def _frame_data(frame: FrameType, line: int) -> dict[str, Any]:
    import linecache

    filename = frame.f_code.co_filename
    text = linecache.getline(filename, line).strip()
    return {
        "file": sites.label(filename),
        "path": filename,
        "line": line,
        "function": frame.f_code.co_name,
        "text": text,
    }


def _watch_budget(ctx: context.Context, limit_s: float) -> None:
    """End the rank when its main thread came to no coordination point for `limit_s` of processor time (up to a quarter
    more). A timer that only looks costs a point nothing; setting one anew would be a system call each.
    """
    seen, num_looks = -1, 0

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal seen, num_looks
        seen, num_looks = ctx.num_points, num_looks + 1 if seen == ctx.num_points else 0
        if num_looks == 4:
            _out_of_budget(ctx, frame)

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, limit_s / 4, limit_s / 4)


def _out_of_budget(ctx: context.Context, frame: FrameType | None) -> NoReturn:
    """The processor-time budget is used up: leave with the place where the rank spins."""
    frames = []
    while frame is not None:
        if sites.is_user_code(frame.f_code):
            frames.append(_frame_data(frame, frame.f_lineno))
        frame = frame.f_back
    data = {"rank": ctx.rank, "type": "NoProgress", "message": "", "frames": frames[::-1]}
    ctx.leave(wire.Leave("spinning", ctx.now_ns, error=json.dumps(data).encode()))
    os._exit(1)
