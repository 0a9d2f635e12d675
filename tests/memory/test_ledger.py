"""The ledger by itself: what is counted, when it goes, what it is called, and the limit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from simulator import errors
from simulator.memory import cycles
from simulator.memory.ledger import Ledger
from simulator.memory.limit import VirtualOutOfMemory
from simulator.memory.watch import watch

KIB = 1024


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with watch() as ledger:
        yield ledger


def kinds(ledger: Ledger, **options: bool) -> dict[str, int]:
    return {kind: n for kind, n in ledger.by_kind(**options).items() if n}


def test_storages_are_counted_once_and_freed_with_the_last_reference(ledger: Ledger) -> None:
    x = torch.zeros(256)
    assert ledger.live_bytes == KIB
    view, same = x.view(16, 16)[3:5], x.add_(1)
    assert ledger.live_bytes == KIB
    del x, same
    assert ledger.live_bytes == KIB, "a view keeps its whole storage"
    del view
    assert ledger.live_bytes == 0
    assert ledger.peak_bytes == KIB


def test_what_was_there_before_is_counted_when_it_is_used() -> None:
    before = torch.ones(256)
    with watch() as ledger:
        assert ledger.live_bytes == 0
        before.mul_(2)
        assert ledger.live_bytes == KIB


def test_several_outputs_resizes_and_out(ledger: Ledger) -> None:
    x = torch.zeros(256)
    values, indices = torch.sort(x)
    assert ledger.live_bytes == KIB + KIB + 2 * KIB
    del values, indices
    x.untyped_storage().resize_(0)
    assert ledger.live_bytes == 0, "as FSDP2 frees full parameters"
    x.untyped_storage().resize_(512)
    assert ledger.live_bytes == 512
    out = torch.empty(0)
    torch.add(torch.ones(256), 1, out=out)
    assert ledger.live_bytes == 512 + KIB, "an operator with out= gave it memory"
    assert ledger.peak_bytes == 4 * KIB


def test_tensors_without_memory_do_not_count(ledger: Ledger) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.empty(256, device="meta").add(1)
    with FakeTensorMode():
        torch.empty(256).add(1)
    assert ledger.peak_bytes == 0


def test_peak_can_start_again(ledger: Ledger) -> None:
    kept = torch.zeros(256)
    torch.zeros(1024)
    assert ledger.peak_bytes == 5 * KIB
    ledger.reset_peak()
    assert ledger.peak_bytes == KIB
    assert [h.num_bytes for h in ledger.holders(at_peak=True)] == [KIB]
    torch.zeros(512)
    assert ledger.peak_bytes == 3 * KIB
    assert kept is not None


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


def test_kinds_and_names_of_a_training_step(ledger: Ledger) -> None:
    net = model()
    size = sum(p.numel() * 4 for p in net.parameters())
    buffers = sum(b.numel() * b.element_size() for b in net.buffers())
    assert kinds(ledger) == {"parameters": size, "buffers": buffers}, "known before the first forward"
    optimizer = torch.optim.Adam(net.parameters())
    batch = torch.ones(32, 8)
    loss = net(batch).square().mean()
    forward = kinds(ledger)
    assert forward["other"] == batch.numel() * 4
    assert forward["activations"] > 32 * 16 * 4
    assert "gradients" not in forward
    loss.backward()
    assert kinds(ledger)["gradients"] == size
    optimizer.step()
    optimizer.zero_grad()
    steps = 4 * len(list(net.parameters()))  # Adam counts its steps in a tensor of four bytes for each parameter
    assert kinds(ledger)["optimizer_state"] == 2 * size + steps
    assert "gradients" not in kinds(ledger)
    names = {h.name: h for h in ledger.holders()}
    assert names["0.weight exp_avg"].module == "0"
    assert names["1.running_mean"].kind == "buffers"
    assert names["3.bias"].shape == (4,)
    assert sum(ledger.by_module().values()) == sum(ledger.by_kind().values()) == ledger.live_bytes


def test_modules_are_known_in_backward_and_in_recomputation(ledger: Ledger) -> None:
    inner = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
    outer = nn.Linear(64, 8)
    seen = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = inner, outer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.outer(checkpoint(self.inner, x, use_reentrant=False))

    def look(grad: torch.Tensor) -> None:
        record = ledger.records([grad])[0]
        seen.append((record.phase, record.module))

    net = Model()
    outer.weight.register_hook(look)
    inner[0].weight.register_hook(look)
    inner[1].register_forward_pre_hook(lambda *_: seen.append(ledger.places.here()))
    net(torch.ones(4, 8)).sum().backward()
    assert seen == [
        ("forward", "inner.1"),
        ("backward", "outer"),
        ("recompute", "inner.1"),
        ("backward", "inner.0"),
    ]
    assert ledger.places.phase() == ""


def test_two_models_have_two_names(ledger: Ledger) -> None:
    first, second = nn.Linear(2, 2, bias=False), nn.Sequential(nn.Linear(2, 2, bias=False))
    first(torch.ones(2))
    second(torch.ones(2))
    names = {h.name for h in ledger.holders() if h.kind == "parameters"}
    assert names == {"weight", "Sequential.0.weight"}


def test_collectives_say_what_buffers_are_for(ledger: Ledger) -> None:
    shard = nn.Parameter(torch.zeros(64))
    optimizer = torch.optim.SGD([shard], 0.1)
    ledger.adopt(optimizer)
    full, bucket, activation = torch.zeros(256), torch.zeros(32), nn.ReLU()(torch.zeros(16))
    ledger.collective("all_gather_into_tensor", [shard], [full])
    ledger.collective("all_reduce", [bucket], [bucket])
    ledger.collective("send", [activation], [])
    assert [ledger.records([t])[0].its_kind for t in (full, bucket, activation)] == [
        "gathered",
        "communication",
        "activations",
    ]


def test_too_much_memory_is_refused_at_the_allocation() -> None:
    with watch(limit_bytes=40 * KIB) as ledger:
        ledger.where = lambda: "rank 2, step 3"
        net = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU())
        small = net(torch.ones(8, 64))
        with pytest.raises(VirtualOutOfMemory) as caught:
            net(torch.ones(64, 64))
        assert isinstance(caught.value, torch.OutOfMemoryError)
        assert isinstance(caught.value, errors.VirtualOutOfMemory)
        text = str(caught.value)
        assert "on rank 2, step 3. Tried to allocate 16.00 KiB for mm in 0 (forward)" in text
        assert "The GPU has 40.00 KiB" in text
        assert "16.00 KiB parameters: 0.weight, float32[64, 64]" in text
        del caught
        assert ledger.peak_bytes <= 40 * KIB
        net(torch.ones(8, 64))  # a smaller batch fits, as after torch.cuda's error
        assert small is not None


def test_a_refused_resize_leaves_the_storage_as_it_was() -> None:
    with watch(limit_bytes=2 * KIB) as ledger:
        x = torch.zeros(256)
        with pytest.raises(VirtualOutOfMemory):
            x.untyped_storage().resize_(4 * KIB)
        assert x.untyped_storage().nbytes() == KIB
        x.add_(1)
        assert ledger.live_bytes == KIB


def test_hooks_are_gone_afterwards() -> None:
    before = nn.Module.__call__, torch.UntypedStorage.resize_
    with watch():
        assert nn.Module.__call__ is not before[0]
    assert (nn.Module.__call__, torch.UntypedStorage.resize_) == before


def test_cycles_die_where_they_are_collected() -> None:
    try:
        cycles.control()
        cycle: list[object] = [torch.zeros(8)]
        alive = weakref.ref(cycle[0].untyped_storage())  # type: ignore[attr-defined]
        cycle.append(cycle)
        del cycle
        for _ in range(100):
            [[] for _ in range(1000)]
        assert alive() is not None, "no collection of Python's own"
        cycles.collect()
        assert alive() is None
    finally:
        gc.unfreeze()
        gc.enable()
