"""DistributedDataParallel and its options."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.coverage.catalogue import covers
from tests.coverage.programs.models import Block, batch, blocks, train, weights

SECTION = "DDP"
Result = dict[str, object]
_CAP_MB = 0.004  # several buckets


def _trained(model: nn.Module, **options: Any) -> Result:
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB, **options)
    losses = train(wrapped, torch.optim.AdamW(wrapped.parameters(), 1e-2))
    return {"losses": losses, "weights": weights(model)}


@covers(SECTION, "`DistributedDataParallel` with one and with several buckets", worlds=(2, 3), slow=(4,))
def ddp_plain() -> Result:
    one_bucket = blocks()
    wrapped = DDP(one_bucket)
    train(wrapped, torch.optim.SGD(wrapped.parameters(), 0.1))
    return {**_trained(blocks()), "one bucket": weights(one_bucket)}


@covers(SECTION, "`gradient_as_bucket_view`, `static_graph`, `find_unused_parameters`")
def ddp_options() -> Result:
    return {
        "view": _trained(blocks(), gradient_as_bucket_view=True),
        "static": _trained(blocks(), static_graph=True),
        "unused": _trained(_Branches(), find_unused_parameters=True),
    }


class _Branches(nn.Module):
    """Every rank uses another branch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.branches = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.branches[0], self.branches[1 + dist.get_rank() % 3]
        result: torch.Tensor = second(first(x))
        return result


@covers(SECTION, "BatchNorm buffers, broadcast from rank 0; `SyncBatchNorm` is CUDA only in torch")
def ddp_buffers() -> Result:
    model = blocks(2)
    model.insert(1, nn.BatchNorm1d(16))
    return _trained(model)


@covers(SECTION, "`no_sync()`: gradients accumulated over micro-batches", worlds=(2,), slow=(3,))
def ddp_no_sync() -> Result:
    model = blocks()
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
    for step in range(3):
        with wrapped.no_sync():
            wrapped(batch(2 * step)).pow(2).mean().backward()
        wrapped(batch(2 * step + 1)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"weights": weights(model)}


@covers(SECTION, "`join()`: ranks with unequal numbers of batches", worlds=(3,), slow=(2, 4))
def ddp_join() -> Result:
    from torch.distributed.algorithms.join import Join

    model = blocks()
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
    with Join([wrapped]):
        for step in range(2 + dist.get_rank()):
            wrapped(batch(step)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {"weights": weights(model)}


@covers(SECTION, "a parameter that one rank does not use: torch's own error")
def ddp_unused_error() -> Result:
    model = _Branches()
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB)
    try:
        for step in range(2):
            wrapped(batch(step)).pow(2).mean().backward()
    except RuntimeError as error:
        return {"error": str(error)[:60]}
    return {}


def _hooked(register: Any) -> Result:
    model = blocks()
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB)
    register(wrapped)
    losses = train(wrapped, torch.optim.SGD(wrapped.parameters(), 0.1), steps=5)
    return {"losses": losses, "weights": weights(model)}


def _chained_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer().div_(dist.get_world_size())
    work = dist.all_reduce(buffer, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def _waiting_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer().div_(dist.get_world_size())
    dist.all_reduce(buffer)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future


@covers(SECTION, "communication hooks: own (waiting, `.then`), `allreduce_hook`, `fp16_compress_hook`", slow=(2,))
def ddp_hooks() -> Result:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    group = dist.group.WORLD
    hooks = {
        "chained": (None, _chained_hook),
        "waiting": (None, _waiting_hook),
        "allreduce": (group, default_hooks.allreduce_hook),
        "fp16": (group, default_hooks.fp16_compress_hook),
        "fp16 wrapper": (None, default_hooks.fp16_compress_wrapper(_chained_hook)),
    }
    return {
        name: _hooked(lambda wrapped, state=state, hook=hook: wrapped.register_comm_hook(state, hook))
        for name, (state, hook) in hooks.items()
    }


def _power_sgd(wrapped: DDP) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


@covers(SECTION, "`powerSGD_hook` with one bucket", worlds=(2,), slow=(3,))
def ddp_power_sgd() -> Result:
    model = blocks()
    wrapped = DDP(model)
    _power_sgd(wrapped)
    train(wrapped, torch.optim.SGD(wrapped.parameters(), 0.1), steps=4)
    return {"weights": weights(model)}


def ddp_power_sgd_in_buckets() -> Result:
    """Hangs on plain gloo: it starts collectives inside callbacks of futures, which run in gloo's threads."""
    return _hooked(_power_sgd)


@covers(SECTION, "`ZeroRedundancyOptimizer`; DDP weights stay equal on all ranks", slow=(4,))
def zero_optimizer() -> Result:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = blocks()
    wrapped = DDP(model, bucket_cap_mb=_CAP_MB)
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.AdamW, lr=1e-2)
    losses = train(wrapped, optimizer)
    optimizer.consolidate_state_dict(0)
    state = optimizer.state_dict()["state"] if dist.get_rank() == 0 else {}
    return {"losses": losses, "weights": weights(model), "state": {k: v["exp_avg"] for k, v in state.items()}}


@covers(SECTION, "local SGD: `PostLocalSGDOptimizer`, `PeriodicModelAverager`", worlds=(2,))
def local_sgd() -> Result:
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = blocks()
    wrapped = DDP(model)
    state = PostLocalSGDState(
        process_group=None,
        subgroup=dist.new_group([dist.get_rank()], use_local_synchronization=True),
        start_localSGD_iter=1,
    )
    wrapped.register_comm_hook(state, post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(wrapped.parameters(), 0.1), averager)
    return {"losses": train(wrapped, optimizer, steps=4), "weights": weights(model)}
