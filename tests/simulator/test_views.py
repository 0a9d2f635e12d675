"""Views pass by the mode that charges operators, until somebody else needs to see them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import simulator
from simulator.rank.charge import VIEW, _kind
from simulator.rank.views import VIEWS


def test_what_is_hidden_would_cost_nothing() -> None:
    for name in VIEWS:
        packet, _, overload = name.partition(".")
        assert _kind(getattr(getattr(torch.ops.aten, packet), overload or "default")) == VIEW, name


def calls_by_ours(make: Any) -> list[list[str]]:
    """The operators that the charging mode sees of the same lines, before and after `make` did something."""
    from simulator.rank.charge import Charging

    seen: list[str] = []
    dispatch = Charging.__torch_dispatch__

    def spy(self: Any, func: Any, *args: Any) -> Any:
        seen.append(func._schema.name)
        return dispatch(self, func, *args)

    Charging.__torch_dispatch__ = spy  # type: ignore[method-assign, assignment]
    found = []
    for act in (lambda: None, make):
        act()
        seen.clear()
        torch.ones(4, 4).t().reshape(2, 8).unsqueeze(0) + 1
        found.append(list(seen))
    return found


def a_parameter() -> None:
    torch.nn.Linear(2, 2)


def a_mode() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        x = torch.ones(2, 3)
        x.t() @ x
        assert counter.get_total_flops() == 2 * 3 * 2 * 3


def a_dtensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    sharded = distribute_tensor(torch.arange(8.0).view(2, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
    assert sharded.t().to_local().shape == (4, 2)  # type: ignore[attr-defined]


def a_fake_tensor() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode().from_tensor(torch.ones(3, 5))
    assert fake.t().shape == (5, 3)


def a_subclass() -> None:
    class Mine(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            names.append(func._schema.name)
            with torch._C._DisableTorchDispatch():
                return func(*args, **kwargs or {})

    names: list[str] = []
    torch.ones(2, 2).as_subclass(Mine).t()
    assert "aten::t" in names


@pytest.mark.parametrize("make", [a_parameter, a_mode, a_dtensor, a_fake_tensor, a_subclass])
def test_who_needs_views_gets_them(make: Any) -> None:
    run = simulator.run(calls_by_ours, 1, args=(make,), echo=False).raise_for_outcome()
    hidden, after = run.results[0]
    assert "aten::add" in hidden
    assert "aten::t" not in hidden
    assert ("aten::t" in after) == (make is not a_parameter)
