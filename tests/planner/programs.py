"""A tiny decoder whose shapes a `Transformer` describes, and one step of it under each parallelism."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from simulator.planner import Transformer

TINY = Transformer("tiny", layers=2, d_model=32, heads=4, kv_heads=2, d_ffn=80, vocab=50, seq_len=8, gated=True)
PLAIN = Transformer("plain", layers=4, d_model=64, heads=4, kv_heads=4, d_ffn=256, vocab=128, seq_len=32)

MEDIUM = Transformer("medium", layers=6, d_model=128, heads=4, kv_heads=4, d_ffn=512, vocab=512, seq_len=128)


class Sum(torch.autograd.Function):
    """Forward sums over the group, backward passes on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x := x.clone())
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Copy(torch.autograd.Function):
    """Forward passes on, backward sums over the group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        dist.all_reduce(grad := grad.clone())
        return grad


class Layer(nn.Module):
    """One of `tp` slices of a decoder layer."""

    def __init__(self, model: Transformer, tp: int = 1) -> None:
        super().__init__()
        self.tp, self.size = tp, model.d_model // model.heads
        self.queries, self.pairs = model.heads // tp, model.kv_heads // tp
        width, inside = model.d_model, model.d_ffn // tp
        self.norm1, self.norm2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(width, (self.queries + 2 * self.pairs) * self.size, bias=False)
        self.out = nn.Linear(self.queries * self.size, width, bias=False)
        self.gate = nn.Linear(width, inside, bias=False) if model.gated else None
        self.up = nn.Linear(width, inside, bias=False)
        self.down = nn.Linear(inside, width, bias=False)

    def enter(self, x: Tensor) -> Tensor:
        return Copy.apply(x) if self.tp > 1 else x

    def leave(self, x: Tensor) -> Tensor:
        return Sum.apply(x) if self.tp > 1 else x

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(self.enter(self.norm1(x))).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = heads.split([self.queries, self.pairs, self.pairs], dim=1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.pairs < self.queries)
        x = x + self.leave(self.out(attended.transpose(1, 2).flatten(2)))
        y = self.enter(self.norm2(x))
        inside = F.silu(self.gate(y)) * self.up(y) if self.gate is not None else F.gelu(self.up(y))
        return x + self.leave(self.down(inside))


class Decoder(nn.Module):
    def __init__(self, model: Transformer, tp: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(model.vocab, model.d_model)
        self.layers = nn.ModuleList(Layer(model, tp) for _ in range(model.layers))
        self.norm = nn.LayerNorm(model.d_model, bias=False)
        self.head = nn.Linear(model.d_model, model.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def held(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[int]:
    """Bytes of parameters, gradients, Adam's moments on this rank."""

    def local(tensor: Tensor | None) -> int:
        if tensor is None:
            return 0
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        return tensor.numel() * tensor.element_size()

    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    parameters = list(module.parameters())
    return [
        sum(map(local, parameters)),
        sum(local(p.grad) for p in parameters),
        sum(map(local, moments)),
    ]


def step(module: nn.Module, model: Transformer, micro_batch: int, accumulation: int) -> list[int]:
    """One optimizer step on made-up tokens; what the rank holds after it, gradients included."""
    optimizer = torch.optim.AdamW(module.parameters(), 1e-3)
    for _ in range(accumulation):
        tokens = torch.randint(model.vocab, (micro_batch, model.seq_len))
        loss = F.cross_entropy(module(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
    optimizer.step()
    return held(module, optimizer)


def data_parallel(model: Transformer) -> list[int]:
    return step(nn.parallel.DistributedDataParallel(Decoder(model)), model, 2, 1)


def fully_sharded(model: Transformer, reshard: bool, accumulation: int) -> list[int]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    decoder = Decoder(model)
    for layer in decoder.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(decoder, mesh=mesh, reshard_after_forward=False)
    return step(decoder, model, 2, accumulation)


def tensor_parallel(model: Transformer) -> list[int]:
    torch.manual_seed(0)
    return step(Decoder(model, tp=dist.get_world_size()), model, 2, 1)


class Stage(nn.Module):
    """The part of a decoder that pipeline stage `index` of `stages` runs."""

    def __init__(self, model: Transformer, index: int, stages: int) -> None:
        super().__init__()
        whole = Decoder(model)
        each = model.layers // stages
        self.embedding = whole.embedding if index == 0 else None
        self.layers = whole.layers[index * each : (index + 1) * each]
        self.norm, self.head = (whole.norm, whole.head) if index == stages - 1 else (None, None)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x) if self.embedding is not None else x
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def pipelined(model: Transformer, micro_batch: int, accumulation: int) -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(Stage(model, rank, size), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(
        stage,
        n_microbatches=accumulation,
        loss_fn=lambda out, target: F.cross_entropy(out.flatten(0, 1), target.flatten()),
    )
    tokens = torch.zeros(micro_batch * accumulation, model.seq_len, dtype=torch.long)
    if rank == 0:
        schedule.step(tokens)
    elif rank == size - 1:
        schedule.step(target=tokens, losses=[])
    else:
        schedule.step()


def peak(model: Transformer, sharding: str, micro_batch: int) -> tuple[int, dict[str, int]]:
    """Bytes at the peak of the second step, after the optimizer has its state, and their kinds."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from simulator.memory.watch import watch

    with watch() as ledger:
        decoder: nn.Module = Decoder(model)
        if sharding == "ddp":
            decoder = nn.parallel.DistributedDataParallel(decoder, gradient_as_bucket_view=True)
        else:
            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            for layer in decoder.layers:
                fully_shard(layer, mesh=mesh)
            fully_shard(decoder, mesh=mesh)
        optimizer = torch.optim.AdamW(decoder.parameters(), 1e-3, foreach=False)
        for _ in range(2):
            ledger.reset_peak()
            tokens = torch.randint(model.vocab, (micro_batch, model.seq_len))
            loss = F.cross_entropy(decoder(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()
        return ledger.peak_bytes, ledger.by_kind(at_peak=True)


def seconds(model: Transformer, kind: str, micro_batch: int, accumulation: int) -> float:
    """Virtual seconds of forward and backward of the second step: the first makes DDP's buckets and pipeline shapes."""
    import time

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    tokens = torch.zeros(micro_batch * accumulation, model.seq_len, dtype=torch.long)

    def loss(out: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(out.flatten(0, 1), target.flatten())

    if kind == "pp":
        stage = PipelineStage(Stage(model, rank, size), rank, size, torch.device("cpu"))
        schedule = Schedule1F1B(stage, n_microbatches=accumulation, loss_fn=loss)

        def run() -> None:
            schedule.step(*([tokens] if rank == 0 else []), **({"target": tokens} if rank == size - 1 else {}))

    else:
        decoder: nn.Module = Decoder(model, tp=size if kind == "tp" else 1)
        if kind == "ddp":
            decoder = nn.parallel.DistributedDataParallel(decoder, bucket_cap_mb=0.4)
        elif kind == "fsdp":
            for part in (*decoder.layers, decoder):
                fully_shard(part, mesh=init_device_mesh("cpu", (size,)))

        def run() -> None:
            loss(decoder(tokens), tokens).backward()

    run()
    dist.barrier()
    begin = time.perf_counter()
    run()
    dist.barrier()
    return time.perf_counter() - begin
