"""One toy transformer in four lanes on real ranks: replicated, fully sharded, in tensor slices, as a pipeline.

The shapes are those of `simulator.planner.Transformer` (plain feed-forward, no biases), so that what the planner says
of a model can be held against the trace of its run. Imported in ranks only: it imports torch.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import simulator
from simulator.planner import Transformer

LANES = ("ddp", "zero3", "tp", "pp")


class SumForward(torch.autograd.Function):
    """Forward sums over the ranks, backward passes the gradient on (Megatron-LM's g)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The sum of all ranks' `x`."""
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The gradient as it is."""
        return grads[0]


class SumBackward(torch.autograd.Function):
    """Forward passes `x` on, backward sums the gradient over the ranks (Megatron-LM's f)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """`x` as it is."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The sum of all ranks' gradients."""
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


class Layer(nn.Module):
    """A decoder layer, or one of `tp` slices of it: whole heads, and columns of the feed-forward."""

    def __init__(self, model: Transformer, tp: int = 1) -> None:
        super().__init__()
        self.tp, self.heads, self.size = tp, model.heads // tp, model.d_model // model.heads
        width, inside = model.d_model, model.d_ffn // tp
        self.norm1, self.norm2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * self.heads * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, width, bias=False)
        self.up = nn.Linear(width, inside, bias=False)
        self.down = nn.Linear(inside, width, bias=False)

    def _enter(self, x: Tensor) -> Tensor:
        return SumBackward.apply(x) if self.tp > 1 else x  # type: ignore[no-untyped-call]

    def _leave(self, x: Tensor) -> Tensor:
        return SumForward.apply(x) if self.tp > 1 else x  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """(sequences, tokens, width) to the same shape."""
        heads = self.qkv(self._enter(self.norm1(x))).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = heads.split(self.heads, dim=1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self._leave(self.out(attended.transpose(1, 2).flatten(2)))
        return x + self._leave(self.down(F.gelu(self.up(self._enter(self.norm2(x))))))


class Decoder(nn.Module):
    """Embedding, layers, last norm and output matrix; or, after `cut`, a part of them."""

    def __init__(self, model: Transformer, tp: int = 1) -> None:
        super().__init__()
        self.embedding: nn.Embedding | None = nn.Embedding(model.vocab, model.d_model)
        self.layers = nn.ModuleList(Layer(model, tp) for _ in range(model.layers))
        self.norm: nn.LayerNorm | None = nn.LayerNorm(model.d_model, bias=False)
        self.head: nn.Linear | None = nn.Linear(model.d_model, model.vocab, bias=False)

    def cut(self, stage: int, stages: int) -> Decoder:
        """Keep what pipeline stage `stage` of `stages` holds; they must divide the layers."""
        each = len(self.layers) // stages
        self.layers = nn.ModuleList(self.layers[stage * each : (stage + 1) * each])
        if stage > 0:
            self.embedding = None
        if stage < stages - 1:
            self.norm = self.head = None
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (or the activations of the stage before) to logits (or the activations for the stage behind)."""
        x = self.embedding(x) if self.embedding is not None else x
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy; the toy predicts the token itself, which is enough to have gradients."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def one_step(lane: str, model: Transformer, batch: int, micro_batches: int, steps: int = 1) -> dict[str, int]:
    """`steps` training steps of a global batch of `batch` sequences; what this rank holds afterwards, in bytes by kind,
    and under "virtual_ns" how long forward and backward of the last step took.

    `lane` is one of LANES. `micro_batches` is for "pp": the others take their share of the batch at once.
    """
    torch.manual_seed(0)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    module = _wrapped(lane, model)
    optimizer = torch.optim.AdamW(module.parameters(), 1e-3, foreach=False)
    share = batch if lane in ("tp", "pp") else batch // world_size
    tokens = torch.randint(model.vocab, (share, model.seq_len))
    begin = end = 0
    for _ in simulator.steps(steps):
        optimizer.zero_grad()
        begin = time.perf_counter_ns()
        if lane == "pp":
            order = one_f_one_b(rank, world_size, micro_batches)
            run_stage(module, order, list(tokens.chunk(micro_batches)), model.d_model)
        else:
            next_token_loss(module(tokens), tokens).backward()  # type: ignore[no-untyped-call]
        end = time.perf_counter_ns()
        optimizer.step()
    return {**held(module, optimizer), "virtual_ns": end - begin}


def _wrapped(lane: str, model: Transformer) -> nn.Module:
    if lane == "pp":
        return Decoder(model).cut(dist.get_rank(), dist.get_world_size())
    if lane == "ddp":
        return nn.parallel.DistributedDataParallel(Decoder(model))
    if lane == "tp":
        return Decoder(model, tp=dist.get_world_size())
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    decoder = Decoder(model)
    for layer in decoder.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(decoder, mesh=mesh, reshard_after_forward=False)
    return decoder


def local_bytes(tensor: Tensor | None) -> int:
    """Bytes of this rank's part of a tensor."""
    if tensor is None:
        return 0
    mine = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(mine.numel() * mine.element_size())


def held(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes of parameters, gradients and Adam's moments on this rank, its step counters not counted."""
    parameters = list(module.parameters())
    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return {
        "parameters": sum(local_bytes(p) for p in parameters),
        "gradients": sum(local_bytes(p.grad) for p in parameters),
        "optimizer": sum(local_bytes(m) for m in moments),
    }


def one_f_one_b(stage: int, stages: int, micro_batches: int) -> list[str]:
    """The 1F1B order of a stage: "F0" is the forward of micro-batch 0 (Narayanan et al. 2019, PipeDream-Flush)."""
    warm_up = min(stages - stage - 1, micro_batches)
    order = [f"F{k}" for k in range(warm_up)]
    for k in range(micro_batches - warm_up):
        order += [f"F{warm_up + k}", f"B{k}"]
    return order + [f"B{k}" for k in range(micro_batches - warm_up, micro_batches)]


def run_stage(
    stage: nn.Module, order: list[str], micro_batches: list[Tensor], width: int, forward_s: float = 0.0
) -> float:
    """Run a pipeline stage in that order, rank by rank of the job; the mean loss on the last rank, else 0.

    Activations of (sequences, tokens, `width`) go to the next rank, gradients back. Sending never blocks, receiving
    does. A forward is charged `forward_s` virtual seconds, a backward twice that, on top of what operators cost.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept: dict[str, tuple[Tensor, Tensor]] = {}
    sent: deque[Any] = deque()
    total = 0.0
    for word in order:
        kind, number = word[0], word[1:]
        tokens = micro_batches[int(number)]
        if kind == "F":
            x = tokens
            if rank > 0:
                x = torch.empty(*tokens.shape, width, dtype=_dtype(stage))
                dist.recv(x, rank - 1)
                x.requires_grad_()
            with simulator.annotate("forward"):
                simulator.compute(forward_s)
                out = stage(x)
                if rank == last:
                    out = next_token_loss(out, tokens) / len(micro_batches)
                    total += float(out.detach())
            kept[number] = x, out
            if rank < last:
                sent.append(dist.isend(out.detach(), rank + 1))
        else:
            x, out = kept.pop(number)
            grad = None
            if rank < last:
                grad = torch.empty_like(out)
                dist.recv(grad, rank + 1)
            with simulator.annotate("backward"):
                simulator.compute(2 * forward_s)
                out.backward(grad)  # type: ignore[no-untyped-call]
            if rank > 0:
                assert x.grad is not None
                sent.append(dist.isend(x.grad, rank - 1))
    for handle in sent:
        handle.wait()
    return total


def _dtype(module: nn.Module) -> torch.dtype:
    return next(module.parameters()).dtype
