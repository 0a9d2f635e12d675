"""What recording and coordination cost: a tiny-GPT DDP step and a 1-element all_reduce, against plain gloo, in turn."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import simulator
from simulator import values
from tests.coverage.plain import Plain

#: world size -> the largest ratio promised
STEP_LIMITS = {2: 1.5, 4: 1.15, 8: 1.15}
ALL_REDUCE_LIMIT = 2.0


def main(*, quick: bool) -> bool:
    rounds = 3 if quick else 9
    ok = True
    with Plain() as plain, tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        for world_size, limit in STEP_LIMITS.items():
            ok &= _compare(f"tiny-GPT DDP step, {world_size} ranks", ddp_step, world_size, limit, plain, folder, rounds)
        ok &= _compare("1-element all_reduce, 4 ranks", one_element, 4, ALL_REDUCE_LIMIT, plain, folder, rounds)
    return ok


def _compare(name: str, program: object, world_size: int, limit: float, plain: Plain, folder: str, rounds: int) -> bool:
    """Alternate the two and take the median of each: the machine's speed drifts."""
    ours, theirs = [], []
    for i in range(rounds):
        (place := Path(folder) / f"{world_size}-{i}-{program.__name__}").mkdir()  # type: ignore[attr-defined]
        run = simulator.run(program, world_size, echo=False).raise_for_outcome()  # type: ignore[arg-type]
        ours.append(max(run.results))
        results = plain.run(program, world_size, place, deadline_s=300)  # type: ignore[arg-type]
        theirs.append(max(values.decode(result.value) for result in results))
    ratio = statistics.median(ours) / statistics.median(theirs)
    times = f"{statistics.median(ours) * 1e3:.2f} ms against {statistics.median(theirs) * 1e3:.2f} ms on plain gloo"
    print(f"{name}: {times}: {ratio:.2f} x (promised: at most {limit} x)", flush=True)
    return ratio <= limit


def ddp_step() -> float:
    """Median seconds of a training step of a GPT with 4 layers, width 128, 64 tokens, batch 4."""
    import time

    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, length, width = x.shape
            q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norms[1](x))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(256, 128), *(Block(128) for _ in range(4)), nn.Linear(128, 256))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), 1e-3)
    tokens = torch.randint(256, (4, 65))
    seconds = []
    for _ in range(14):
        began = time.monotonic()
        logits = ddp(tokens[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds[4:])


def one_element() -> float:
    """Mean seconds of an all_reduce of one element."""
    import time

    import torch
    import torch.distributed as dist

    tensor = torch.ones(1)
    for _ in range(20):
        dist.all_reduce(tensor)
    began = time.monotonic()
    for _ in range(200):
        dist.all_reduce(tensor)
    return (time.monotonic() - began) / 200
