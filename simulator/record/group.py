"""The process group of a recorded job: torch's gloo group, with a note of every operation on its way.

As `simulator.rank.group` it is a Python `ProcessGroup` around gloo, so it sees what DDP's C++ reducer, FSDP2, DTensor
and checkpoints call. It decides nothing: every call goes to gloo at once, with the caller's own arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo, Store, Work
from torch.distributed import distributed_c10d

from simulator.rank.operations import OPERATIONS, dtype_name, num_bytes, options, peer_of, reduce_name, tensors
from simulator.rank.sites import call_site
from simulator.record.log import Log

_log: Log | None = None
#: See `simulator.rank.group`: freeing the last reference to a group can deadlock in C++.
_alive: list[RecordedGroup] = []


class Call:
    """One operation: its event, written again whenever more of it is known."""

    def __init__(self, log: Log, op: str, **fields: Any) -> None:
        self._log = log
        self.event = log.event(op, work=log.next_work(), start_ns=-1, end_ns=-1, status="pending", **fields)
        self._end_ns, self._is_waiting = -1, False
        log.write(self.event)

    def seen_done(self) -> None:
        """gloo has finished it: told on gloo's thread, or by a look of the program."""
        if self._end_ns < 0:
            self._end_ns = self._log.clock.now_ns()
            if not self._is_waiting:
                self._told("ok")

    def wait(self, wait: Callable[[], Any]) -> Any:
        """Run `wait`, which returns when the operation is done or raises."""
        self._is_waiting = True
        if self.event.wait_ns < 0:
            self.event = msgspec.structs.replace(self.event, wait_ns=self._log.clock.now_ns())
        try:
            result = wait()
        except RuntimeError as error:
            self._told("timeout" if "timed out" in str(error).lower() else "lost")
            raise
        self._told("ok")
        return result

    def _told(self, status: str) -> None:
        if self._end_ns < 0:
            self._end_ns = self._log.clock.now_ns()
        self.event = msgspec.structs.replace(
            self.event, status=status, start_ns=self.event.issue_ns, end_ns=self._end_ns
        )
        self._log.write(self.event)

    def follow(self, work: Work) -> None:
        """Hear when gloo is done with it. Messages have no future: their end is the end of the wait."""
        try:
            future = work.get_future()
        except RuntimeError:
            return
        log = self._log
        log.num_open += 1

        def done(_: Any) -> None:
            self.seen_done()
            log.num_open -= 1

        future.add_done_callback(done)


class RecordedWork(Work):
    """What the caller holds in place of gloo's work."""

    def __init__(self, work: Work, call: Call) -> None:
        super().__init__()
        self._work, self.call = work, call

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return bool(self.call.wait(lambda: self._work.wait(timeout)))

    def synchronize(self) -> None:
        self.call.wait(self._work.synchronize)

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def is_success(self) -> bool:
        return self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def result(self) -> list[torch.Tensor]:
        return self._work.result()

    def source_rank(self) -> int:
        return self._work._source_rank()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """gloo's own. DDP waits for it in C++; the wait before that, at the end of backward, is the one recorded."""
        _wait_at_the_end_of_backward(self)
        return self._work.get_future()


_in_backward: list[RecordedWork] = []


def _wait_at_the_end_of_backward(work: RecordedWork) -> None:
    if not _in_backward:
        try:
            torch.autograd.Variable._execution_engine.queue_callback(_wait_for_all)
        except RuntimeError:
            return  # not inside backward: whoever waits for the future is not seen, its end is
    _in_backward.append(work)


def _wait_for_all() -> None:
    works = _in_backward.copy()
    _in_backward.clear()
    for work in works:
        work.wait()


class RecordedGroup(dist.ProcessGroup):
    """One group of this process; `_inner` holds the gloo backend and does the work."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # the stub lacks this overload
        self._inner = dist.ProcessGroup(store, rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._size, self._num_collectives, self._key = size, 0, ""
        _alive.append(self)
        for group in (self, self._inner):
            group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
            group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self) -> str:
        return "gloo"

    @property
    def options(self) -> Any:
        return self._gloo.options

    @property
    def ranks(self) -> tuple[int, ...]:
        """Global ranks by rank in the group."""
        try:
            return tuple(dist.get_process_group_ranks(self))
        except (ValueError, KeyError):
            return tuple(range(self._size))  # the default group, while it is being made

    def describe(self, log: Log) -> str:
        if not self._key:
            name = "default" if self.group_desc in ("", "default_pg") else self.group_desc
            name = self.group_name if name == "undefined" else name
            self._key = log.group(name, self.ranks, self.group_name)
        return self._key

    def next_seq(self) -> int:
        self._num_collectives += 1
        return self._num_collectives - 1


def _begin(group: RecordedGroup, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    assert _log is not None
    spec = OPERATIONS[method]
    is_p2p = spec.op in ("send", "recv")
    parts = tensors(args[spec.shard]) if len(args) > spec.shard else []
    name, said = group.describe(_log), options(args, kwargs)
    return Call(
        _log,
        spec.op,
        group=name,
        stream=f"comm:{name}",
        seq=-1 if is_p2p else group.next_seq(),
        reduce=reduce_name(said.reduce_op),
        peer=peer_of(method, args, said.root, group.ranks),
        tag=int(args[-1]) if is_p2p else 0,
        bytes=num_bytes(parts) * (group._size if spec.scale else 1),
        shapes=tuple(tuple(part.shape) for part in parts),
        dtype=dtype_name(parts),
        site=call_site(),
    )


def _make(method: str) -> Callable[..., RecordedWork]:
    def issue(self: RecordedGroup, *args: Any, **kwargs: Any) -> RecordedWork:
        call = _begin(self, method, args, kwargs)
        work = getattr(self._inner, method)(*args, **kwargs)
        call.follow(work)
        return RecordedWork(work, call)

    issue.__name__ = method
    return issue


def _monitored_barrier(self: RecordedGroup, timeout: timedelta, wait_all_ranks: bool = False) -> None:
    call = _begin(self, "monitored_barrier", (), {})
    call.wait(lambda: self._inner.monitored_barrier(timeout, wait_all_ranks))  # type: ignore[attr-defined]


for _method in OPERATIONS:
    setattr(RecordedGroup, _method, _make(_method))
setattr(RecordedGroup, "monitored_barrier", _monitored_barrier)  # noqa: B010 - the stub does not know it


def install(log: Log, tell: Callable[[str], None]) -> None:
    """Record every group on gloo that torch makes from now on; `tell` hears of groups on something else."""
    global _log
    _log = log
    make = distributed_c10d._new_process_group_helper

    def make_group(size: int, rank: int, ranks: Any, backend: Any, *args: Any, **kwargs: Any) -> Any:
        backends = set(distributed_c10d.BackendConfig(backend).get_device_backend_map().values())
        if backends != {"gloo"}:
            tell(f"a group on {', '.join(sorted(backends))} is not recorded: only groups on gloo alone are")
            return make(size, rank, ranks, backend, *args, **kwargs)
        # torch makes the group by calling this name, which elsewhere must stay the class of the real backend
        distributed_c10d.ProcessGroupGloo = RecordedGroup  # type: ignore[misc, assignment]
        try:
            return make(size, rank, ranks, backend, *args, **kwargs)
        finally:
            distributed_c10d.ProcessGroupGloo = ProcessGroupGloo  # type: ignore[misc]

    distributed_c10d._new_process_group_helper = make_group  # type: ignore[assignment]
