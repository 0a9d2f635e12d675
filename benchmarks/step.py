"""What recording, coordination, virtual time and memory cost: a tiny-GPT DDP step and a 1-element all_reduce, beside
plain gloo, in turn; and the same beside a notebook kernel that is busy.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import simulator
from simulator import values
from simulator.cluster import NO_GPU, get_cluster
from tests.coverage.plain import Plain

#: world size -> the largest ratio promised
STEP_LIMITS = {2: 1.5, 4: 1.15, 8: 1.15}
ALL_REDUCE_LIMIT = 2.0
EVERYTHING_LIMIT = 1.6  # with virtual time and memory, 4 ranks

#: What is on beside recording and coordination.
COORDINATED = {"cluster": replace(get_cluster("a100-80gb"), gpu=NO_GPU)}
TIMED: dict[str, Any] = {}
FOLLOWED = {"memory_gib": math.inf}


def main(*, quick: bool) -> bool:
    rounds = 3 if quick else 9
    with Plain() as plain, tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        bench = _Bench(plain, Path(folder), rounds)
        ok = [
            bench.compare(f"tiny-GPT DDP step, {size} ranks", ddp_step, size, {"coordinated": (COORDINATED, limit)})
            for size, limit in STEP_LIMITS.items()
        ]
        way = {"coordinated": (COORDINATED, ALL_REDUCE_LIMIT)}
        ok.append(bench.compare("1-element all_reduce, 4 ranks", one_element, 4, way))
        parts = {
            "coordinated": (COORDINATED, STEP_LIMITS[4]),
            "and timed": (TIMED, None),
            "and memory followed": (FOLLOWED, EVERYTHING_LIMIT),
        }
        ok.append(bench.compare("what each part costs, tiny-GPT DDP step, 4 ranks", ddp_step, 4, parts))
        with _busy_kernel():
            name = "beside a busy notebook kernel, tiny-GPT DDP step, 4 ranks"
            ok.append(bench.compare(name, ddp_step, 4, {"coordinated": (COORDINATED, STEP_LIMITS[4])}))
    return all(ok)


class _Bench:
    def __init__(self, plain: Plain, folder: Path, rounds: int) -> None:
        self.plain, self.folder, self.rounds, self.count = plain, folder, rounds, 0

    def compare(
        self, name: str, program: Callable[[], float], size: int, ways: dict[str, tuple[dict[str, Any], float | None]]
    ) -> bool:
        """Take every way and plain gloo in turn, and the median of each: the machine's speed drifts."""
        seconds: dict[str, list[float]] = {way: [] for way in (*ways, "plain gloo")}
        for _ in range(self.rounds):
            for way, (options, _) in ways.items():
                run = simulator.run(program, size, echo=False, **options).raise_for_outcome()
                seconds[way].append(max(run.results))
            self.count += 1
            (place := self.folder / str(self.count)).mkdir()
            results = self.plain.run(program, size, place, deadline_s=300)
            seconds["plain gloo"].append(max(values.decode(result.value) for result in results))
        base = statistics.median(seconds["plain gloo"])
        ok = True
        print(f"{name}: plain gloo {base * 1e3:.2f} ms", flush=True)
        for way, (_, limit) in ways.items():
            ratio = statistics.median(seconds[way]) / base
            promise = "" if limit is None else f" (promised: at most {limit} x)"
            print(f"  {way}: {ratio * base * 1e3:.2f} ms, {ratio:.2f} x{promise}", flush=True)
            ok &= limit is None or ratio <= limit
        return ok


@contextmanager
def _busy_kernel() -> Iterator[None]:
    """Another thread of this process, which runs the caller's side, computes without pause."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(10_000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


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
