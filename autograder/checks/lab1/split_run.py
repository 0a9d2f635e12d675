"""What runs in the ranks of lab1/split-it: the student's block and pipeline, and the unsharded run they must equal.

Only `simulator.compute` takes virtual time here, so the length of a pipeline's step can be added up by hand.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array
from simulator.cluster import Cluster, Link
from simulator.cluster.gpu import NO_GPU
from simulator.planner import Transformer

FORWARD_S = 1e-3
FREE = Cluster("a free network", 8, Link(0.0, 1e9), Link(0.0, 1e9), gpu=NO_GPU)
SEQUENCES, TOKENS = 2, 4
MOST_WORDS = 200
Count = Annotated[int, msgspec.Meta(ge=1, le=32)]


class Case(cases.Case, frozen=True):
    """A block of `width`, its inside `inside` for each rank; or a pipeline of `layers` a stage, and its batches."""

    ask: Literal["block", "pipeline"] = "block"
    width: Count = 8
    inside: Count = 4
    layers: Count = 1
    micro_batches: Count = 4

    @property
    def label(self) -> str:
        """The case in words."""
        if self.ask == "block":
            return f"block of width {self.width}, {self.inside} columns a rank"
        return f"pipeline, {self.micro_batches} micro-batches"

    @property
    def model(self) -> Transformer:
        """The decoder of the pipeline."""
        return Transformer("toy", self.layers * self.world_size, 8, 2, 2, 16, 20, TOKENS)


class Said(msgspec.Struct):
    """What a rank reports. Of a block: its output and gradients. Of a pipeline: all orders, mean loss, gradients."""

    output: Array | None = None
    gradients: list[Array] = []
    orders: list[list[str]] = []
    loss: float = 0.0


def on_rank(case: Case, tensor_parallel: Any, pipeline_order: Any) -> Said:
    """One forward and backward of the block, or one step of the pipeline in the student's order."""
    return _block(case, tensor_parallel) if case.ask == "block" else _pipeline(case, pipeline_order)


def _inputs(case: Case) -> tuple[Any, Any]:
    import torch

    numbers = case.numbers().normal(size=(2, SEQUENCES, TOKENS, case.width))
    x, weights = (torch.from_numpy(part.copy()) for part in numbers)
    return x.requires_grad_(), weights


def _block(case: Case, tensor_parallel: Any, *, whole: bool = False) -> Said:
    import torch

    from autograder.checks.lab1.block import Block

    torch.manual_seed(case.draw)
    part = Block(case.width, case.inside * case.world_size).double()
    part = part if whole else part.slice()
    x, weights = _inputs(case)
    out = tensor_parallel(x, part)
    (out * weights).sum().backward()
    parameters = (x, part.norm.weight, part.up.weight, part.down.weight, part.bias)
    return Said(array(out), [array(torch.zeros_like(p) if p.grad is None else p.grad) for p in parameters])


def _pipeline(case: Case, pipeline_order: Any) -> Said:
    """Nothing runs unless the orders of all stages hold every forward and backward once: a rank would wait in vain."""
    import torch.distributed as dist

    from autograder.checks.lab1.toy import run_stage

    stages, rank = case.world_size, dist.get_rank()
    orders = [
        [str(w)[:8] for w in list(pipeline_order(s, stages, case.micro_batches))[:MOST_WORDS]] for s in range(stages)
    ]
    if any(incomplete(order, case.micro_batches) for order in orders):
        return Said(orders=orders)
    model, batches = decoder(case)
    stage = model.cut(rank, stages)
    loss = run_stage(stage, orders[rank], batches, case.model.d_model, FORWARD_S)
    return Said(gradients=[flat_gradient(stage.parameters())], orders=orders, loss=loss)


def decoder(case: Case) -> tuple[Any, list[Any]]:
    """The whole decoder of a pipeline case, and its micro-batches. In ranks."""
    import torch

    from autograder.checks.lab1.toy import Decoder

    torch.manual_seed(case.draw)
    model = Decoder(case.model).double()
    return model, list(torch.randint(case.model.vocab, (case.micro_batches, SEQUENCES, TOKENS)))


def flat_gradient(parameters: Any) -> Array:
    """All gradients in one vector, zeros where there is none."""
    import torch

    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    return array(torch.cat([g.flatten() for g in grads]))


def whole(case: dict[str, Any]) -> Any:
    """In the one rank of the reference run: the whole block, or the mean loss and the gradients cut into stages."""
    import torch

    from autograder.checks.lab1.toy import next_token_loss

    given = msgspec.convert(case, Case)
    if given.ask == "block":
        return _plain(_block(given, lambda x, part: part(x), whole=True))
    model, batches = decoder(given)
    loss = torch.stack([next_token_loss(model(tokens), tokens) for tokens in batches]).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    stages = []
    for stage in range(given.world_size):
        copied = decoder(given)[0]
        for mine, has in zip(copied.parameters(), model.parameters(), strict=True):
            mine.grad = has.grad
        stages.append(flat_gradient(copied.cut(stage, given.world_size).parameters()))
    return _plain(Said(gradients=stages, loss=float(loss.detach())))


@functools.cache
def expected(case: Case) -> Said:
    """The unsharded run."""
    import simulator

    run = simulator.run(whole, 1, args=(msgspec.to_builtins(case),), echo=False).raise_for_outcome()
    return msgspec.convert(run.results[0], Said)


def _plain(said: Said) -> Any:
    """What travels from a rank."""
    return msgspec.to_builtins(said, builtin_types=(bytes,))


def incomplete(order: list[str], micro_batches: int) -> str:
    """What is wrong with the words of an order; "" for nothing."""
    wanted = {f"{kind}{k}" for kind in "FB" for k in range(micro_batches)}
    if unknown := [word for word in order if word not in wanted]:
        return f"{unknown[0]!r} is none of F0 to F{micro_batches - 1} and B0 to B{micro_batches - 1}"
    if missing := sorted(wanted - set(order)):
        return f"{missing[0]} is missing"
    if len(order) != len(wanted):
        return f"it has {len(order)} words for {len(wanted)} forwards and backwards: one is there twice"
    early = next((k for k in range(micro_batches) if order.index(f"B{k}") < order.index(f"F{k}")), None)
    return "" if early is None else f"B{early} comes before F{early}"
