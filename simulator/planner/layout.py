"""How a model is laid out on GPUs: the degrees of each kind of parallelism, and what is stored in which precision."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.errors import UsageError
from simulator.planner.model import Transformer

RECOMPUTE = ("none", "selective", "operators", "full")
SCHEDULES = ("gpipe", "1f1b", "interleaved")


@dataclass(frozen=True)
class Precision:
    """Bytes a parameter takes by kind. Their sum is the number that conventions are named after.

    `weights` is what forward reads, `gradients` what backward leaves (accumulation buffer included), `master` the FP32
    copy that the optimizer updates, `moments` the two of Adam. `reduced` is what a gradient takes on the wire.
    `cast`: weights are stored in FP32 and cast to `compute` bytes when they are gathered or used.
    """

    name: str
    weights: float
    gradients: float
    master: float
    moments: float
    reduced: float
    compute: float = 2.0

    @property
    def bytes_per_parameter(self) -> float:
        return self.weights + self.gradients + self.master + self.moments


PRECISIONS = {
    p.name: p
    for p in (
        #: BF16 weights, FP32 moments; gradients are consumed as they appear, no FP32 copy of the weights.
        Precision("10", 2, 0, 0, 8, 2),
        #: Rajbhandari et al. 2020 (ZeRO): 2 + 2 + 12.
        Precision("16", 2, 2, 4, 8, 2),
        #: Gradients accumulate in FP32 (Megatron-LM with bf16).
        Precision("18", 2, 4, 4, 8, 4),
        #: BF16 gradients and an FP32 accumulation buffer beside them.
        Precision("20", 2, 6, 4, 8, 4),
        #: torch autocast or FSDP mixed precision: FP32 weights, gradients, moments; a BF16 copy while a unit computes.
        Precision("fp32", 4, 4, 0, 8, 4),
        #: The same, gradients reduced in BF16.
        Precision("fp32-bf16-reduce", 4, 4, 0, 8, 2),
        #: Everything in BF16.
        Precision("8", 2, 2, 0, 4, 2),
        #: FP32 throughout, as small models on a laptop.
        Precision("fp32-plain", 4, 4, 0, 8, 4, compute=4.0),
    )
}


@dataclass(frozen=True)
class Layout:
    """`dp * tp * pp * cp` GPUs. Ranks are numbered tp fastest, then cp, then dp, then pp, as Megatron-LM does.

    `zero`: 0 (DDP) to 3 (FSDP); `shard_size` ranks of the data-parallel group share one copy of the state (HSDP when
    smaller than the group). `reshard`: FSDP frees gathered weights after forward. `micro_batch` sequences a forward,
    `accumulation` forwards a step: the global batch is `dp * micro_batch * accumulation` sequences. `chunks`: model
    chunks a GPU under the interleaved schedule.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    zero: int = 0
    shard_size: int = 0
    reshard: bool = True
    sequence_parallel: bool = False
    schedule: str = "1f1b"
    chunks: int = 1
    micro_batch: int = 1
    accumulation: int = 1
    recompute: str = "none"
    precision: Precision = PRECISIONS["16"]
    overlap: bool = True

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp * self.cp

    @property
    def global_batch(self) -> int:
        return self.dp * self.micro_batch * self.accumulation

    @property
    def shards(self) -> int:
        """Ranks that share one copy of what ZeRO shards."""
        return self.shard_size or self.dp * self.cp

    @property
    def data(self) -> str:
        """How the data-parallel ranks share state: "DDP", "ZeRO-1", "ZeRO-2", "FSDP", "HSDP"; "" without such ranks."""
        if self.dp * self.cp == 1:
            return ""
        whole = self.shards == self.dp * self.cp
        return {0: "DDP", 1: "ZeRO-1", 2: "ZeRO-2", 3: "FSDP" if whole else "HSDP"}[self.zero]

    @property
    def kind(self) -> str:
        """Which parallelisms it uses, such as "ZeRO-1 + TP + PP"."""
        others = [word for word, n in (("TP", self.tp), ("PP", self.pp), ("CP", self.cp)) if n > 1]
        return " + ".join(filter(None, [self.data, *others])) or "one GPU"

    @property
    def name(self) -> str:
        """Such as "dp16 x tp8, ZeRO-1, micro-batch 1, full recompute"."""
        degrees = (("dp", self.dp), ("tp", self.tp), ("pp", self.pp), ("cp", self.cp))
        shard = f"({self.shards})" if self.zero and self.shards < self.dp * self.cp else ""
        words = (
            " x ".join(f"{word}{n}" for word, n in degrees if n > 1) or "one GPU",
            self.data + shard + ("" if self.reshard or self.zero < 3 else " without reshard"),
            (self.schedule + (f"({self.chunks})" if self.chunks > 1 else "")) if self.pp > 1 else "",
            "SP" if self.sequence_parallel else "",
            f"micro-batch {self.micro_batch}",
            f"{self.recompute} recompute" if self.recompute != "none" else "",
        )
        return ", ".join(filter(None, words))

    def check(self, model: Transformer) -> None:
        """Raises `UsageError` with the first rule that the layout breaks for this model."""
        for broken, rule in self._rules(model):
            if broken:
                raise UsageError(f"{self.name}: {rule}")

    def _rules(self, model: Transformer) -> tuple[tuple[bool, str], ...]:
        return (
            (min(self.dp, self.tp, self.pp, self.cp, self.micro_batch, self.accumulation) < 1, "degrees start at 1"),
            (model.heads % self.tp != 0, f"{model.heads} heads cannot be split over tp {self.tp}"),
            (model.d_ffn % self.tp != 0, f"feed-forward width {model.d_ffn} cannot be split over tp {self.tp}"),
            (model.layers < self.pp * self.chunks, f"{model.layers} layers for {self.pp * self.chunks} stages"),
            (model.seq_len % self.cp != 0, f"sequence of {model.seq_len} cannot be split over cp {self.cp}"),
            (self.chunks > 1 and self.schedule != "interleaved", f"chunks {self.chunks} need the interleaved schedule"),
            (self.recompute not in RECOMPUTE, f"recompute is one of {', '.join(RECOMPUTE)}"),
            (self.schedule not in SCHEDULES, f"schedule is one of {', '.join(SCHEDULES)}"),
            ((self.dp * self.cp) % self.shards != 0, f"shards of {self.shards} in a group of {self.dp * self.cp}"),
        )
