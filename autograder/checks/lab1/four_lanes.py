"""The experiment of Lab 1: one toy transformer in four lanes, as predicted and on real ranks.

Predictions come from the planner for a made-up GPU on which only FLOPs take time; bytes and states are exact, times and
activations are the planner's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from simulator.cluster import Cluster, Gpu, Link
from simulator.cluster.algorithms import bytes_sent, plain_name
from simulator.planner import PRECISIONS, Layout, Transformer
from simulator.planner.constants import Constants
from simulator.planner.memory import memory
from simulator.planner.timing import step_time
from simulator.planner.wire import parameter_units, shard_rows, traffic

#: Divisible by up to 8 ranks in every direction.
TOY = Transformer("toy", layers=8, d_model=64, heads=8, kv_heads=8, d_ffn=256, vocab=256, seq_len=64)
FP32 = PRECISIONS["fp32-plain"]
#: What a GPU without launches, with memory that is never waited for, makes of the planner's constants.
IDEAL = Constants(1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0)
MIB = 2**20
NAMES = {"ddp": "data", "zero3": "ZeRO-3", "tp": "tensor", "pp": "pipeline"}
LETTERS = {"ddp": "D", "zero3": "Z", "tp": "T", "pp": "P", "": "-"}
GPUS = (2, 4, 8)
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BATCHES = (8, 16, 32, 64)


@dataclass(frozen=True)
class Setting:
    """Where the toy is trained: so many GPUs of `memory_mib`, on links of so many GB/s, with a global batch."""

    gpus: int = 4
    batch: int = 16
    gbytes_per_s: float = 4.0
    memory_mib: int = 24

    @property
    def label(self) -> str:
        """The setting in words."""
        gpus = f"{self.gpus} GPUs of {self.memory_mib} MiB"
        return f"{gpus}, batch {self.batch}, links of {self.gbytes_per_s:g} GB/s"

    @property
    def cluster(self) -> Cluster:
        """One node of GPUs that do 1 TFLOP/s."""
        gpu = Gpu("toy GPU", {"float32": 1e12}, 1e6, self.memory_mib / 1024, 0.0, 1.0, 1.0)
        link = Link(1.0, self.gbytes_per_s)
        return Cluster("toy node", 8, intra=link, inter=link, gpu=gpu)


@dataclass(frozen=True)
class Lane:
    """What is predicted of one lane: milliseconds of a step by part, bytes by kind on the fullest rank."""

    key: str
    milliseconds: dict[str, float]
    bytes: dict[str, float]
    sent: float
    fits: bool

    @property
    def step_ms(self) -> float:
        """Milliseconds of forward and backward."""
        return sum(self.milliseconds.values())

    @property
    def total_bytes(self) -> float:
        """Bytes at the fullest moment."""
        return sum(self.bytes.values())


def layout(key: str, setting: Setting) -> Layout:
    """How a lane uses the GPUs. The pipeline cuts the batch into single sequences."""
    w, batch = setting.gpus, setting.batch
    return {
        "ddp": Layout(dp=w, micro_batch=batch // w, precision=FP32),
        "zero3": Layout(dp=w, zero=3, micro_batch=batch // w, precision=FP32),
        "tp": Layout(tp=w, micro_batch=batch, precision=FP32),
        "pp": Layout(pp=w, accumulation=batch, precision=FP32),
    }[key]


def parameters(key: str, ranks: int, rank: int) -> int:
    """Parameters that a rank of the toy holds: tensor slices leave norms, embedding and output matrix whole."""
    matrices = sum(inputs * outputs for _, inputs, outputs in TOY.layer_matrices)
    norms, root = TOY.layer_parameters - matrices, TOY.embedding_parameters + TOY.head_parameters
    if key == "tp":
        return TOY.layers * (matrices // ranks + norms) + root
    if key == "pp":
        ends = TOY.embedding_parameters * (rank == 0) + TOY.head_parameters * (rank == ranks - 1)
        return TOY.layers // ranks * TOY.layer_parameters + ends
    if key == "zero3":
        return sum(_shard(shape, ranks, rank) for shape in _shapes())
    return TOY.parameters


def _shapes() -> Iterator[tuple[int, ...]]:
    return (shape for unit in parameter_units(TOY) for shape in unit)


def _shard(shape: tuple[int, ...], ranks: int, rank: int) -> int:
    return shard_rows(shape[0], ranks, rank) * math.prod(shape[1:])


def carried(key: str, setting: Setting, rank: int) -> Counter[str]:
    """Bytes by operation that a rank takes part in during a step, as traces count them."""
    found: Counter[str] = Counter()
    for entry in traffic(TOY, layout(key, setting), rank if key == "pp" else 0):
        if entry.op != "recv":
            found[entry.op] += entry.total
    return found


def sent_bytes(found: Counter[str], ranks: int) -> float:
    """Bytes on the wire: a message its size, a collective what a ring needs of it."""
    return sum(n if op == "send" else bytes_sent(op, n, ranks) for op, n in found.items())


def predict(key: str, setting: Setting) -> Lane:
    """One lane."""
    plan, ranks = layout(key, setting), setting.gpus
    time, planned = step_time(TOY, plan, setting.cluster, IDEAL), memory(TOY, plan, IDEAL)
    most = max(parameters(key, ranks, rank) for rank in range(ranks))
    held = {
        "parameters": 4.0 * most,
        "gradients": 4.0 * most,
        "optimizer": 8.0 * most,
        "activations": planned.activations,
        "logits": planned.logits * plan.tp,
        "gathered": planned.temporary,
    }
    exposed = time.exposed_tensor + time.exposed_pipeline + time.exposed_data
    parts = {"computing": time.compute, "network": exposed, "bubble": time.bubble}
    fits = sum(held.values()) <= setting.memory_mib * MIB
    wire = max(sent_bytes(carried(key, setting, rank), ranks) for rank in range(ranks))
    return Lane(key, {name: 1e3 * s for name, s in parts.items()}, held, wire, fits)


def lanes(setting: Setting) -> list[Lane]:
    """All four."""
    return [predict(key, setting) for key in NAMES]


def winner(setting: Setting) -> str:
    """The key of the fastest lane that fits, "" if none does."""
    fitting = [lane for lane in lanes(setting) if lane.fits]
    return min(fitting, key=lambda lane: lane.step_ms).key if fitting else ""


def winners(setting: Setting) -> dict[int, list[str]]:
    """The winner for every number of GPUs, by bandwidth, the rest as set."""
    return {
        gpus: [winner(replace(setting, gpus=gpus, gbytes_per_s=rate)) for rate in BANDWIDTHS]
        for gpus in GPUS
        if setting.batch >= gpus
    }


def text(setting: Setting) -> str:
    """What the picture shows, in words and numbers."""
    lines = [f"predicted, {setting.label}", "", "lane        step ms = computing + network + bubble    MiB sent"]
    best, found = winner(setting), lanes(setting)
    for lane in found:
        parts = " + ".join(f"{ms:7.3f}" for ms in lane.milliseconds.values())
        note = "does not fit" if not lane.fits else "wins" if lane.key == best else ""
        lines.append(f"{NAMES[lane.key]:9} {lane.step_ms:9.3f} = {parts}     {lane.sent / MIB:7.2f}  {note}".rstrip())
    lines += [
        "",
        "MiB on the fullest rank",
        "lane      " + "".join(f"{kind:>12}" for kind in [*found[0].bytes, "in all"]),
    ]
    for lane in found:
        row = "".join(f"{n / MIB:12.2f}" for n in (*lane.bytes.values(), lane.total_bytes))
        lines.append(f"{NAMES[lane.key]:10}{row}")
    lines.append("")
    lines.append("fastest that fits (D data, Z ZeRO-3, T tensor, P pipeline, - none), by GB/s:")
    lines.append("  GB/s  " + "".join(f"{rate:>6g}" for rate in BANDWIDTHS))
    lines += [f"{gpus} GPUs  " + "".join(f"{LETTERS[k]:>6}" for k in row) for gpus, row in winners(setting).items()]
    return "\n".join(lines)


def in_ranks(*arguments: Any) -> Any:
    """In the ranks of a real run."""
    from autograder.checks.lab1.toy import one_step

    return one_step(*arguments)


@dataclass(frozen=True)
class Measured:
    """One lane on real ranks: by rank, bytes by operation and bytes held; virtual milliseconds of the slowest."""

    carried: list[Counter[str]]
    held: list[dict[str, int]]
    virtual_ms: float


def measure(key: str, setting: Setting) -> Measured:
    """Two steps of the lane on real ranks; the second is looked at: the first one arranges DDP's buckets."""
    import simulator

    arguments = (key, TOY, setting.batch, setting.batch, 2)
    run = simulator.run(in_ranks, setting.gpus, args=arguments, cluster=setting.cluster, echo=False).raise_for_outcome()
    found = [Counter[str]() for _ in run.results]
    for event in run.trace:
        if event.is_communication and event.step == 1 and event.op != "recv" and event.dtype == "float32":
            found[event.rank][plain_name(event.op)] += event.bytes
    slowest = max(said.pop("virtual_ns") for said in run.results)
    return Measured(found, run.results, slowest / 1e6)


def compare(setting: Setting) -> str:
    """Predicted beside real: bytes carried and bytes of state must be equal on every rank; times are only shown."""
    lines = ["lane      bytes sent, busiest rank    bytes of state, rank 0      predicted   on ranks"]
    for lane in lanes(setting):
        real, ranks = measure(lane.key, setting), range(setting.gpus)
        states = [16 * parameters(lane.key, setting.gpus, rank) for rank in ranks]
        same = all(real.carried[rank] == carried(lane.key, setting, rank) for rank in ranks)
        equal = [sum(held.values()) for held in real.held] == states
        sent = max(sent_bytes(of_rank, setting.gpus) for of_rank in real.carried)
        lines.append(
            f"{NAMES[lane.key]:9} {sent:10,.0f} {'as predicted' if same else 'NOT as predicted':16}"
            f" {sum(real.held[0].values()):10,} {'as predicted' if equal else 'NOT as predicted':16}"
            f" {lane.step_ms:6.3f} ms {real.virtual_ms:7.3f} ms"
        )
    return "\n".join(lines)
