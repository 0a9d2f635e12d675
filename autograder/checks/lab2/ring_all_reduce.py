"""Check of lab2/ring-all-reduce: an all-reduce that the student writes from send and recv.

Traffic is judged from the witnessed trace, values from the bytes that ranks hold afterwards. The tensor is a slice of a
longer buffer, so that a write past its ends is seen.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen

if TYPE_CHECKING:
    import numpy as np

WORLD_SIZES = (2, 3, 4, 5)
SLOW_WORLD_SIZE, SLOW_RANK, SLOW_FACTOR = 3, 1, 20.0
WORK_S = 1e-4  # virtual compute before each call in the runs with a slow rank
HUB_RATIO = 1.4  # busiest rank / mean; a ring stays below 1.2 from four elements a rank on, a hub has W/2
GUARD, GUARD_VALUE = 8, 77  # elements on either side of the tensor, and what they hold
CHANGED = {
    "neighbours": "the elements beside the tensor (it is a slice of a longer buffer)",
    "earlier tensor": "a tensor of an earlier call, after that call had returned",
    "shape": "the shape or dtype of the tensor",
    "random state": "torch's random state of this process",
}
_earlier: list[tuple[Any, bytes]] = []  # in a rank: the buffers of earlier cases and what they held


class Case(cases.Case, frozen=True):
    """``length`` elements on each rank; ``slow`` computes slowly. Sums of ``wide`` elements depend on their order."""

    length: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 8
    dtype: Literal["float32", "float64", "int64"] = "float32"
    pattern: Literal["ramp", "random", "wide"] = "ramp"
    slow: int | None = None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return 4 if self.dtype == "float32" else 8

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """One 1-D array a rank. ``ramp``: 10 * (rank + 1) + index."""
        import numpy as np

        shape, generator = (self.world_size, self.length), msgspec.structs.replace(self, slow=None).numbers()
        if self.pattern == "ramp":
            values: Any = 10 * np.arange(1, self.world_size + 1)[:, None] + np.arange(self.length)
        elif self.dtype == "int64":
            values = generator.integers(-(10**9), 10**9, shape)
        else:
            exponents = generator.uniform(-3, 4, shape) if self.pattern == "wide" else np.zeros(shape)
            values = generator.normal(size=shape) * 10.0**exponents
        return list(np.ascontiguousarray(values.astype(self.dtype)))


class Said(msgspec.Struct):
    """What a rank reports: the tensor afterwards, what else changed, and the type of what the function returned."""

    tensor: Array
    changed: list[str]
    returned: str


def _with_slow(plain: list[Case]) -> list[Case]:
    """All cases by world size, then those of one world size again with a slow rank."""
    chosen = [c for c in plain if c.world_size == SLOW_WORLD_SIZE and c.length]
    return plain + [msgspec.structs.replace(c, slow=SLOW_RANK) for c in chosen]


def visible() -> list[Case]:
    """Divisible and not, shorter than the world, one element, empty; the three dtypes."""
    found = []
    for w in WORLD_SIZES:
        lengths = (2 * w, 2 * w + 1, *((w - 1,) if w > 2 else ()), 1, 0)
        found += [Case(world_size=w, length=n, dtype="int64" if n == w - 1 > 1 else "float32") for n in lengths]
        found.append(Case(world_size=w, length=5 * w - 1, dtype="int64", pattern="random"))
        found.append(Case(world_size=w, length=6 * w, dtype="float64", pattern="wide"))
        found.append(Case(world_size=w, length=10 * w + 3, pattern="wide"))
    return _with_slow(found)


def drawn(rng: random.Random) -> list[Case]:
    """Cases of the same kinds as the visible ones."""
    found = []
    for w in WORLD_SIZES:
        lengths = [w * rng.randint(1, 3), w * rng.randint(1, 4) + rng.randint(1, w - 1), rng.randint(1, w - 1), 1, 0]
        lengths += [
            w * rng.randint(5, 6),
            w * rng.randint(7, 9) + rng.randint(1, w - 1),
            w * 10 + rng.randint(1, w - 1),
        ]
        dtypes: list[Any] = ["float32", "float64", "int64", "float32"]
        dtypes += [*rng.choices(("float32", "float64", "int64"), k=3), "float32"]
        patterns: list[Any] = [*rng.choices(("random", "wide"), k=7), "wide"]
        for n, dtype, pattern in zip(lengths, dtypes, patterns, strict=True):
            found.append(Case(world_size=w, draw=cases.number(rng), length=n, dtype=dtype, pattern=pattern))
    return _with_slow(found)


def options(case: Case) -> dict[str, Any]:
    """One rank computes slowly, or none."""
    import simulator

    return {} if case.slow is None else {"faults": simulator.FaultPlan().slow(rank=case.slow, factor=SLOW_FACTOR)}


def on_rank(case: Case, ring_all_reduce: Any) -> Said:
    """Reduce this rank's tensor and look at what is left."""
    import torch
    import torch.distributed as dist

    import simulator

    values = torch.from_numpy(case.inputs()[dist.get_rank()])
    guard = torch.full((GUARD,), GUARD_VALUE, dtype=values.dtype)
    whole = torch.cat([guard, values, guard])
    tensor, inner = whole[GUARD : GUARD + case.length], whole[GUARD : GUARD + case.length]
    shape, dtype, state = tensor.shape, tensor.dtype, torch.get_rng_state()
    if case.slow is not None:
        simulator.compute(WORK_S)
    returned = ring_all_reduce(tensor)
    untouched = torch.cat([whole[:GUARD], whole[GUARD + case.length :]]) == GUARD_VALUE
    changed = [] if (tensor.shape, tensor.dtype) == (shape, dtype) else ["shape"]
    changed += [] if untouched.all() else ["neighbours"]
    changed += [] if torch.equal(torch.get_rng_state(), state) else ["random state"]
    changed += ["earlier tensor"] if any(old.numpy().tobytes() != was for old, was in _earlier) else []
    _earlier.append((inner, inner.numpy().tobytes()))
    return Said(array(inner), changed, type(returned).__name__)


def wrong_sum(seen: Seen[Case, Said]) -> Fault | None:
    """The first element that is not the sum over ranks, within the rounding of any order of float additions.

    What a rank says that it holds is believed only where it also received enough to know.
    """
    inputs = seen.case.inputs()
    total, tolerance = compare.sum_of(inputs)
    for rank, said in enumerate(seen.said):
        output = said.tensor.numpy()
        if fault := compare.wrong_array("the tensor", rank, output, total, tolerance):
            untouched = output.tobytes() == inputs[rank].tobytes()
            return msgspec.structs.replace(fault, text=fault.text + _about(said.returned, untouched))
    return _out_of_nowhere(seen)


def _out_of_nowhere(seen: Seen[Case, Said]) -> Fault | None:
    """A rank that holds the sum though too little reached it for knowing it: at least one number for every element."""
    needed = seen.case.length * seen.case.itemsize if seen.case.world_size > 1 else 0
    for rank, received in enumerate(seen.received_bytes()):
        if received < needed:
            text = f"rank {rank} holds the sum but received {received} bytes with recv, too few to know it. Only what "
            text += "travels through send and recv counts: not files, sockets of your own or the check's own data."
            return Fault(text, f"at least {needed} bytes received", f"{received} bytes", rank)
    return None


def _about(returned: str, untouched: bool) -> str:
    if untouched and returned != "NoneType":
        return f" The tensor is unchanged and the function returned a {returned[:40]}: write the sum into `tensor`."
    return " The tensor is unchanged: the sum must end in `tensor` itself." if untouched else ""


def a_collective(seen: Seen[Case, Said]) -> Fault | None:
    """Any collective; one that carries data makes everything else meaningless."""
    called = [e for rank in range(seen.case.world_size) for e in seen.collectives(rank)]
    if not called:
        return None
    first = next((e for e in called if e.bytes), called[0])
    text = (
        f"rank {first.rank} called {first.op}. The exercise is to build the collective from send and recv, so that "
        "every byte on every link is yours to explain."
    )
    return Fault(text, "only send, recv, isend, irecv", first.op, first.rank, fatal=first.bytes > 0)


def different_bits(seen: Seen[Case, Said]) -> Fault | None:
    """The first rank whose result is not bit for bit that of rank 0."""
    fault = compare.different_bits("the tensor", [said.tensor.numpy() for said in seen.said])
    more = " Both are sums up to rounding, but ranks that differ in one bit drift apart step by step."
    more += " Let one rank finish a chunk, then pass it on."
    return msgspec.structs.replace(fault, text=fault.text + more) if fault else None


def too_many_bytes(seen: Seen[Case, Said]) -> Fault | None:
    """The first rank that sent more than 2(W-1) chunks of ceil(n/W) elements."""
    w, n, size = seen.case.world_size, seen.case.length, seen.case.itemsize
    bound, sent = 2 * (w - 1) * -(-n // w) * size, seen.sent_bytes()
    worst = max(range(w), key=lambda r: sent[r])
    if sent[worst] <= bound:
        return None
    text = (
        f"rank {worst} sent {sent[worst]} bytes. A ring needs at most 2(W-1) * ceil(n/W) * {size} = {bound} bytes on "
        f"every rank: {2 * (w - 1)} messages of one chunk of {-(-n // w)} elements."
    )
    return Fault(text, f"at most {bound} bytes", f"{sent[worst]} bytes", worst)


def a_hub(seen: Seen[Case, Said]) -> Fault | None:
    """A rank that carries far more than the mean; looked at from 3 ranks and 4 elements a rank on."""
    w = seen.case.world_size
    if w < 3 or seen.case.length < 4 * w:
        return None
    loads = [a + b for a, b in zip(seen.sent_bytes(), seen.received_bytes(), strict=True)]
    busiest, mean = max(range(w), key=lambda r: loads[r]), sum(loads) / w
    if loads[busiest] <= HUB_RATIO * mean:
        return None
    peers = ", ".join(str(p) for p in sorted({e.peer for e in seen.of(busiest) if e.is_p2p}))
    text = (
        f"rank {busiest} sent and received {loads[busiest]} bytes in all (its peers: {peers}), the mean of the ranks "
        f"is {mean:.0f}. Everything goes through one rank: its link is the limit, and each new rank makes it worse."
    )
    return Fault(text, f"about {mean:.0f} bytes on every rank", f"{loads[busiest]} bytes on rank {busiest}", busiest)


def other_messages_when_slow(seen: Seen[Case, Said]) -> Fault | None:
    """With a slow rank, a rank that sends and receives another number of messages than without."""
    name = msgspec.structs.replace(seen.case, slow=None).name
    plain = next((s for s in seen.earlier if s.case.name == name), None)
    if seen.case.slow is None or plain is None:
        return None
    for rank, (now, before) in enumerate(zip(seen.messages(), plain.messages(), strict=True)):
        if now != before:
            text = f"rank {rank} sends and receives {now} messages, without the slow rank {before}."
            return Fault(f"{text} Timing must not decide that.", f"{before} messages", f"{now} messages", rank)
    return None


def something_else_changed(seen: Seen[Case, Said]) -> Fault | None:
    """Anything beside the tensor that is not as it was."""
    for rank, said in enumerate(seen.said):
        if said.changed:
            words = " and ".join(CHANGED.get(w, "something beside the tensor") for w in dict.fromkeys(said.changed))
            return Fault(f"on rank {rank} the call changed {words}.", "only the tensor changes", words, rank)
    return None


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=options,
    under=lambda case: None if case.slow is None else ("slow-rank", "A slow rank breaks it"),
    stress_keys=("slow-rank",),
    batched=True,
    properties=(
        Property("value", "The result is not the sum", wrong_sum, "both", first=True),
        Property("point-to-point-only", "A collective was called", a_collective, "witnessed", always=True),
        Property("hub", "One rank carries the traffic of the others", a_hub, "witnessed"),
        Property("bytes", "A rank sends more than a ring must", too_many_bytes, "witnessed"),
        Property("agreement", "The ranks do not hold the same bits", different_bits, "reported"),
        Property("slow-rank", "A slow rank changes what happens", other_messages_when_slow, "witnessed"),
        Property("input-mutated", "Something beside the tensor changed", something_else_changed, "reported"),
    ),
)
