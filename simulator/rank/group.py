"""The process group that torch.distributed uses in a rank: a Python `ProcessGroup` around gloo.

It sees every operation, also those of DDP's C++ reducer, FSDP2, DTensor and DCP. Each is announced to the coordinator
at issue; the real gloo call runs when the coordinator says that every member came (`simulator.rank.work`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions, PrefixStore, ProcessGroupGloo, Store
from torch.distributed import distributed_c10d

from simulator import wire
from simulator.errors import UsageError
from simulator.rank import context, corruption, payloads, refusals, threads
from simulator.rank.failures import Unsupported
from simulator.rank.operations import (
    OPERATIONS,
    dtype_name,
    num_bytes,
    options,
    outputs,
    peer_of,
    reduce_name,
    splits,
    tensors,
)
from simulator.rank.reduction import rank_order
from simulator.rank.sites import call_site
from simulator.rank.work import Launch, RankWork, SkippedWork

BACKEND = "gloo"  # the name torch and user code ask for: see `initialise`
_NO_TIME = timedelta(0)
_GLOO_TIMEOUT = timedelta(seconds=120)  # real time; the coordinator lets gloo run only when every member is there

#: Freeing the last reference to a group can deadlock in C++ (pytorch issue 56297): after destroy_process_group() too,
#: groups live as long as the rank.
_alive: list[RankGroup] = []


class RankGroup(dist.ProcessGroup):
    """One group of this rank. `_inner` is the C++ group that holds the same gloo backend and does the work."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta = timedelta(0)) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # the stub lacks this overload
        self._inner = dist.ProcessGroup(store, rank, size)
        self._size, self._timeout_ns, self._num_collectives = size, _ns(timeout), 0
        self._key = ""
        self._ranks: tuple[int, ...] | None = None
        _take_place(store, rank, size)
        settings = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        settings._timeout, settings._threads = _GLOO_TIMEOUT, 1
        settings._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        self._gloo = ProcessGroupGloo(PrefixStore("data", store), rank, size, settings)
        # Nobody goes on before all are connected: a rank that died here would leave the others in gloo's handshake,
        # for real minutes.
        store.set(f"connected/{rank}", "")
        store.wait([f"connected/{member}" for member in range(size)])
        _alive.append(self)
        for group in (self, self._inner):
            group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
            group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self) -> str:
        return BACKEND

    @property
    def options(self) -> Any:
        """Of the real backend; torch writes the group's name and ranks into them."""
        return self._gloo.options

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree on: the coordinator counts."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Global ranks by rank in the group."""
        if self._ranks is None:
            try:
                self._ranks = tuple(dist.get_process_group_ranks(self))
            except (ValueError, KeyError):
                return tuple(range(self._size))  # the default group, while it is being made
        return self._ranks

    def describe(self) -> str:
        """The group's key, told to the coordinator at first use."""
        if not self._key:
            name = "default" if self.group_desc in ("", "default_pg") else self.group_desc
            name = self.group_name if name == "undefined" else name  # two groups of the same ranks have two names
            self._key = f"{self.group_name}|{','.join(map(str, self.ranks))}"
            context.get().link.note(wire.GroupDef(self._key, name, self.ranks))
        return self._key

    def next_seq(self) -> int:
        self._num_collectives += 1
        return self._num_collectives - 1


def _take_place(store: Store, rank: int, size: int) -> None:
    """Wait until every place of a group that is being made is taken, each by one rank. Two that take one, or groups of
    two sizes under one name, would wait for each other in gloo's handshake, in real time.
    """
    mine = str(context.get().rank)
    holder = store.compare_set(f"place {rank} of {size}", "", mine).decode()
    if holder != mine:
        raise UsageError(
            f"rank {mine} makes a process group in which it is member {rank}, and rank {holder} one of the same name "
            f"in which it is member {rank}: the ranks make their groups in different orders. Let every rank call "
            "new_group for every group in the same order, also for those that it is no member of."
        )
    store.wait([f"place {member} of {size}" for member in range(size)])


def _issue(group: RankGroup, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RankWork:
    """Announce an operation; nothing is launched yet."""
    ctx, spec = context.get(), OPERATIONS[method]
    thread = threads.current()
    is_p2p = spec.op in ("send", "recv")
    result = outputs(method, args)
    faults = ctx.points.at_collective() if ctx.faults and not is_p2p else []
    if skips := [fault for fault in faults if fault.kind == "skip_collective"]:
        ctx.note("skip_collective", ctx.now_ns, str(skips[0]))
        return SkippedWork(result)
    key, ranks = group._key or group.describe(), group.ranks
    parts = tensors(args[spec.shard]) if len(args) > spec.shard else []
    launch = _launcher(group, method, args, kwargs, parts)
    for fault in faults:
        if targets := corruption.touched(fault, method, args, kwargs, group.rank()):
            launch = corruption.corrupted(launch, fault, targets, result)
    work = RankWork(ctx.next_work(), launch, result, holds_host=spec.op.endswith("barrier"))
    ctx.works[work.number] = work
    said = options(args, kwargs)
    peer = peer_of(method, args, said.root, ranks)
    op = wire.Op(
        thread=thread.name,
        number=thread.next_number(),
        work=work.number,
        group=key,
        seq=-1 if is_p2p else group.next_seq(),
        op=spec.op,
        reduce=reduce_name(said.reduce_op),
        dtype=dtype_name(parts),
        shapes=tuple([tuple(t.shape) for t in parts]),
        match_shapes=not spec.uneven,
        peer=peer,
        tag=int(args[-1]) if is_p2p else 0,
        bytes=num_bytes(parts) * (group._size if spec.scale else 1),
        timeout_ns=_ns(said.timeout) or group._timeout_ns or ctx.timeout_ns,
        issue_ns=thread.now_ns,
        step=thread.step,
        phase=ctx.phase,
        site=call_site(),
    )
    if ctx.faults:
        op.slow, op.cut, op.heals_ns = ctx.points.on_the_wire((ctx.rank, peer) if is_p2p else ranks)
    if spec.op == "all_to_all_single":
        op.sent, op.expected = splits(args, group._size)
    ctx.link.note(op)
    if ctx.ledger is not None:
        ctx.ledger.collective(spec.op, parts, result)
    return work


def _ns(timeout: timedelta | None) -> int:
    """0 for none: torch says so with a negative one, too."""
    return int(timeout.total_seconds() * 1e9) if timeout is not None and timeout > _NO_TIME else 0


def _launcher(
    group: RankGroup, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], parts: list[torch.Tensor]
) -> Launch:
    """What starts the real gloo operation, and gives back what finishes it. `parts`: this rank's payload."""
    ctx = context.get()
    args = payloads.aliases(args) if ctx.sees_operators else args
    start = _on_gloo(group, method, args, kwargs, is_strided=not parts or parts[0].layout is torch.strided)
    if ctx.reduction == "rank_order":
        start = rank_order(group._inner, group._size, group.rank(), method, args, kwargs) or start
    num_references = payloads.num_references(args) if ctx.sees_operators else 0

    def launch(source: int) -> Callable[[], object]:
        try:
            pending = [start(source)]
        except RuntimeError as error:
            raise _in_plain_words(error, method, args) from None

        def finish() -> None:
            try:
                with payloads.unseen():
                    pending.pop()()
            except RuntimeError as error:
                raise _in_plain_words(error, method, args) from None
            if ctx.sees_operators:
                payloads.wait_released(args, num_references)

        return finish

    return launch


def _on_gloo(
    group: RankGroup, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_strided: bool
) -> Launch:
    name = "barrier" if method == "monitored_barrier" else method

    def start(source: int) -> Callable[[], object]:
        if method == "recv_anysource":
            return cast("Callable[[], object]", group._inner.recv(args[0], group.ranks.index(source), args[-1]).wait)
        # Straight to gloo where nobody looks on: dispatch modes want to see torch's operator for it, and torch's
        # dispatcher knows what to do with sparse tensors.
        is_seen = torch._C._len_torch_dispatch_stack() or not is_strided
        call = None if is_seen else getattr(group._gloo, name, None)
        call = call or getattr(group._inner, name)
        return cast("Callable[[], object]", call(*args, **kwargs).wait)

    return start


def _in_plain_words(error: RuntimeError, method: str, args: tuple[Any, ...]) -> Exception:
    """An error of gloo's own, with our sentence where we have one."""
    parts = [part for arg in args for part in tensors(arg)]
    return refusals.explained(error, OPERATIONS[method].op, dtype_name(parts))


def _make(method: str) -> Callable[..., RankWork]:
    def issue(self: RankGroup, *args: Any, **kwargs: Any) -> RankWork:
        return _issue(self, method, args, kwargs)

    issue.__name__ = method
    return issue


def _monitored_barrier(self: RankGroup, timeout: timedelta, wait_all_ranks: bool = False) -> None:
    """An ordinary barrier with its own timeout: the coordinator names every rank that did not come."""
    options = BarrierOptions()
    options.timeout = timeout
    _issue(self, "monitored_barrier", (options,), {}).wait()


for _method in OPERATIONS:
    setattr(RankGroup, _method, _make(_method))
setattr(RankGroup, "monitored_barrier", _monitored_barrier)  # noqa: B010 - the stub does not know it


def initialise(store: Store, rank: int, world_size: int, timeout_s: float) -> Any:
    """Make the default group. Keep what it returns alive: C++ holds only its half of a store that is written in
    Python.
    """
    # torch makes a group for the backend "gloo" by calling this name: so get_backend(), new_group(backend="gloo"),
    # device meshes and whatever else asks for gloo see gloo, and get a group of ours.
    distributed_c10d.ProcessGroupGloo = RankGroup  # type: ignore[misc, assignment]
    make = dist.init_process_group
    make(BACKEND, store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout_s))
    refusals.install()
    dist.init_process_group = distributed_c10d.init_process_group = _reinitialise(make, store, rank, world_size)
    return store


def _reinitialise(make: Callable[..., None], store: Store, rank: int, world_size: int) -> Callable[..., None]:
    """The `init_process_group` that user code sees: a script's own first call finds the group already there."""
    num_calls = 0

    def init_process_group(
        backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, **_: Any
    ) -> None:
        nonlocal num_calls
        num_calls += 1
        if backend is not None and BACKEND not in str(backend):
            raise Unsupported(refusals.ONLY_GLOO.format(call="init_process_group"))
        if num_calls == 1 and isinstance(dist.group.WORLD, RankGroup):
            dist.group.WORLD._timeout_ns = _ns(timeout) or dist.group.WORLD._timeout_ns
            return
        again = PrefixStore(f"call {num_calls}", store)  # after destroy_process_group, or torch refuses
        make(BACKEND, store=again, rank=rank, world_size=world_size, timeout=timeout)

    return init_process_group
