"""The lesson of the plain restart: everything is saved, and the bits are other ones all the same.

DDP learns the order in which gradients become ready in its first iteration and packs its buckets anew; a new process
begins with the first layout again. gloo adds in a ring whose order depends on the position in the bucket, so from three
ranks on the same gradients give other bits. With two ranks there is only one order, and with `rank_order` the layout
does not matter.
"""

from pathlib import Path

import pytest
import torch

import simulator
from tests.restarts import programs


def weights(world_size: int, reduction: str, folder: Path, faults: str = "") -> list[torch.Tensor]:
    folder.mkdir()
    run = simulator.run(
        programs.trains,
        world_size,
        args=(str(folder),),
        faults=faults,
        restarts=1,
        reduction=reduction,
        echo=False,
    )
    assert run.ok, run
    assert len(run.incarnations) == 1 + bool(faults)
    assert run.lost == ()  # everything was saved: nothing was computed twice
    found: list[torch.Tensor] = run.results[0]
    return found


@pytest.mark.parametrize(
    ("world_size", "reduction", "same_bits"),
    [
        pytest.param(2, "stock", True, marks=pytest.mark.slow),
        (3, "stock", False),
        pytest.param(4, "stock", False, marks=pytest.mark.slow),
        (3, "rank_order", True),
        pytest.param(4, "rank_order", True, marks=pytest.mark.slow),
    ],
)
def test_a_plain_restart_of_ddp(world_size: int, reduction: str, same_bits: bool, tmp_path: Path) -> None:
    straight = weights(world_size, reduction, tmp_path / "straight")
    resumed = weights(world_size, reduction, tmp_path / "resumed", faults="kill(rank=1, step=3)")
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(straight, resumed, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True)) == same_bits
