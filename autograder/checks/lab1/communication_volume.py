"""Check of lab1/communication-volume: bytes that a rank sends, and the number of ranks at which a split stops paying.

Collectives of a ring are witnessed as messages, steps of the four lanes in the traces of the course's own runs: the
trusted process runs them. The limit is found by trying every number of ranks.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from autograder.checks import cases
from autograder.checks.check import Check, Property
from autograder.checks.compare import wrong_number
from autograder.checks.lab1 import wire_job
from autograder.checks.seen import Fault, Seen
from simulator.cluster.algorithms import bytes_sent
from simulator.planner import Transformer

#: Rounding of a fraction of a byte: the bytes of an all-reduce need not be a multiple of the ranks.
ROUNDING = 1e-9
MOST_RANKS = 4096
STRATEGIES = {"ddp": "DDP", "zero3": "ZeRO-3", "tp": "tensor parallelism", "pp": "a pipeline"}
HEAD_SIZE = 4
Small = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class Case(cases.Case, frozen=True):
    """`ask`: the collectives of a ring over `length` numbers, one step of a strategy, or the limit of a split."""

    ask: Literal["ring", "ddp", "zero3", "tp", "pp", "limit"] = "ring"
    ranks: Annotated[int, msgspec.Meta(ge=1, le=8)] = 3
    length: Small = 60
    layers: Annotated[int, msgspec.Meta(ge=1, le=24)] = 4
    heads: Small = 6
    ffn: Small = 60
    vocab: Small = 50
    seq_len: Small = 8
    batch: Small = 12
    micro_batches: Small = 6
    compute_ms: Small = 100
    megabytes: Small = 100
    passes: Literal[2, 3] = 2
    gbytes_per_s: Small = 10

    @property
    def model(self) -> Transformer:
        """The toy of this case."""
        width = self.heads * HEAD_SIZE
        return Transformer("toy", self.layers, width, self.heads, self.heads, self.ffn, self.vocab, self.seq_len)

    @property
    def label(self) -> str:
        """What matters for what is asked."""
        if self.ask == "ring":
            return f"{self.ranks} ranks, {self.length} numbers"
        if self.ask == "limit":
            link = f"{self.passes} passes of {self.megabytes} MB at {self.gbytes_per_s} GB/s"
            return f"{self.compute_ms} ms of computing, {link}"
        shape = f"{self.layers} layers of width {self.heads * HEAD_SIZE}, batch {self.batch}"
        return f"{STRATEGIES[self.ask]}, {self.ranks} ranks, {shape}, {self.micro_batches} micro-batches"


def visible() -> list[Case]:
    """Each question; rows that the ranks do not divide; a pipeline with and without stages in the middle."""
    return [
        Case(ask="ring", ranks=3),
        Case(ask="ring", ranks=4, length=80),
        Case(ask="ddp", ranks=3),
        Case(ask="zero3", ranks=3),
        Case(ask="zero3", ranks=4, layers=2, vocab=51),
        Case(ask="tp", ranks=3),
        Case(ask="pp", ranks=2),
        Case(ask="pp", ranks=4),
        *(Case(ask="limit", passes=passes, compute_ms=ms) for passes in (2, 3) for ms in (95, 505, 7)),
    ]


def drawn(rng: random.Random) -> list[Case]:
    """The same questions about other models and links."""
    found = [Case(ask="ring", ranks=r, length=r * rng.randint(5, 60)) for r in (rng.choice((3, 5)), 4)]
    found += [_model(rng, "ddp", 3), _model(rng, "zero3", rng.choice((3, 4)))]
    found += [_model(rng, "tp", rng.choice((2, 3, 4))), _model(rng, "pp", 2), _model(rng, "pp", rng.choice((3, 4)))]
    return found + [_limit(rng, passes) for passes in (2, 3, 2, 3)]


def _model(rng: random.Random, ask: Any, ranks: int) -> Case:
    return Case(
        ask=ask,
        ranks=ranks,
        layers=ranks * rng.randint(1, 2) if ask == "pp" else rng.randint(2, 5),
        heads=12 if ask == "tp" else rng.randint(3, 9),
        ffn=12 * rng.randint(3, 9),
        vocab=rng.randint(40, 90),
        seq_len=rng.randint(4, 12),
        batch=12 * rng.randint(1, 2),
        micro_batches=rng.choice((4, 6, 12)),
    )


def _limit(rng: random.Random, passes: Any) -> Case:
    """Away from the borders between two numbers of ranks, where rounding decides."""
    while True:
        drawn_case = Case(
            ask="limit",
            passes=passes,
            compute_ms=rng.randint(5, 3000),
            megabytes=rng.randint(20, 900),
            gbytes_per_s=rng.randint(2, 40),
        )
        exact = drawn_case.compute_ms * drawn_case.gbytes_per_s / (passes * drawn_case.megabytes)
        if 0.05 < exact % 1 < 0.95 and exact < MOST_RANKS / 2:
            return drawn_case


def on_rank(case: Case, wire: Any, step_bytes: Any, most_ranks: Any) -> list[float]:
    """What the student's functions say."""
    if case.ask == "ring":
        return [float(wire(op, case.length * wire_job.ITEMSIZE, case.ranks)) for op in wire_job.RING_OPS]
    if case.ask == "limit":
        num_bytes = case.megabytes * 10**6
        return [float(most_ranks(case.compute_ms * 1e-3, case.passes, num_bytes, float(case.gbytes_per_s)))]
    job = wire_job.job(case.model, case.batch, case.ranks, case.micro_batches)
    return [float(step_bytes(case.ask, job, rank)) for rank in range(case.ranks)]


@functools.cache
def ring_sent(length: int, ranks: int) -> dict[str, int]:
    """From a real ring of messages."""
    return wire_job.ring_bytes(length, ranks)


@functools.cache
def carried(case: Case) -> list[Counter[tuple[str, int]]]:
    """From the trace of a real step: for each rank, how often it carried which (op, bytes)."""
    found = wire_job.lane_events(case.ask, case.model, case.batch, case.ranks, case.micro_batches)
    return [Counter((str(op), int(num_bytes)) for op, num_bytes in of_rank) for of_rank in found]


def sent(case: Case, rank: int) -> float:
    """Bytes that a rank sends: a message its size, a collective what a ring needs of it."""
    return sum(
        times * (num_bytes if op == "send" else bytes_sent(op, num_bytes, case.ranks))
        for (op, num_bytes), times in carried(case)[rank].items()
    )


def wrong_ring(seen: Seen[Case, list[float]]) -> Fault | None:
    """The first collective whose bytes are not those of the messages of a real ring."""
    case = seen.case
    if case.ask != "ring":
        return None
    for op, said in zip(wire_job.RING_OPS, seen.said[0], strict=True):
        expected = ring_sent(case.length, case.ranks)[op]
        what = f"what rank 0 sends in a ring {op} of {case.length * wire_job.ITEMSIZE} bytes"
        if fault := wrong_number(what, None, said, expected, ROUNDING):
            return fault
    return None


def wrong_step(ask: str) -> Callable[[Seen[Case, list[float]]], Fault | None]:
    """The first rank whose bytes are not those of the trace; the finding lists what the trace holds."""

    def compare(seen: Seen[Case, list[float]]) -> Fault | None:
        if seen.case.ask != ask:
            return None
        for rank, said in enumerate(seen.said[0]):
            if fault := wrong_number("the bytes sent in a step", rank, said, sent(seen.case, rank), ROUNDING):
                listed = [f"{n} x {op} of {b:,} bytes" for (op, b), n in sorted(carried(seen.case)[rank].items())]
                return msgspec.structs.replace(fault, text=f"{fault.text} Its trace: {', '.join(listed)}.")
        return None

    return compare


def limit(case: Case) -> int:
    """The largest number of ranks at which the network is not the slower one, by trying them all."""
    megabytes_per_ms = float(case.gbytes_per_s)
    last = 1
    for ranks in range(1, MOST_RANKS):
        carried_mb = case.passes * (ranks - 1) / ranks * case.megabytes
        if carried_mb / megabytes_per_ms > case.compute_ms / ranks:
            break
        last = ranks
    return last


def wrong_limit(seen: Seen[Case, list[float]]) -> Fault | None:
    """Another number of ranks than trying finds."""
    case = seen.case
    if case.ask != "limit":
        return None
    said, best = seen.said[0][0], limit(case)
    if said == best:
        return None
    at = max(1, min(MOST_RANKS, int(said)))
    network = case.passes * (at - 1) / at * case.megabytes / case.gbytes_per_s
    text = f"you say {said:g} ranks. On {at} the network needs {network:.2f} ms and each rank computes "
    text += f"{case.compute_ms / at:.2f} ms."
    return Fault(text, f"the largest number of ranks whose network keeps up: {best}", f"{said:g}")


CHECK = Check(
    case=Case,
    said=list[float],
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    needs_ranks=False,
    batched=True,
    properties=(
        Property("ring", "A ring carries other bytes", wrong_ring, "reported"),
        Property("ddp", "DDP sends other bytes", wrong_step("ddp"), "reported"),
        Property("zero3", "ZeRO-3 sends other bytes", wrong_step("zero3"), "reported"),
        Property("tp", "Tensor parallelism sends other bytes", wrong_step("tp"), "reported"),
        Property("pp", "A pipeline stage sends other bytes", wrong_step("pp"), "reported"),
        Property("limit", "The split stops paying elsewhere", wrong_limit, "reported"),
    ),
)
