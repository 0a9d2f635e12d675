"""Check of lab1/ring-attention: attention over a sequence that lies in slices on the ranks.

Values are compared with the softmax of all scores. Bytes, partners and the order of sending and computing come from the
trace; so does what a rank holds while it waits, which its ledger says (`simulator.memory`).
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from autograder.checks import cases, compare
from autograder.checks.check import Check, Property
from autograder.checks.on_ranks import array
from autograder.checks.seen import Array, Fault, Seen
from simulator.cluster import Cluster, Gpu, Link

if TYPE_CHECKING:
    import numpy as np

    from simulator.trace import Event

    Numbers = np.ndarray[Any, Any]

TOLERANCE = 1e-9
ITEM = 8
#: Factor of the queries whose scores overflow an exponential that is taken before the largest is subtracted.
LARGE = 2000.0
#: Blocks of keys and values that a rank may hold besides its own q, k and v: one that it has, one that arrives, and
#: generously for sums, copies and what it has not let go yet (right solutions hold 2.5 to 4.6). All others' are 7.
MOST_BLOCKS, MANY = 6, 8
#: Of the time that a block takes, how much of its sending must lie beside computing.
SHARE = 0.5
_INF = float("inf")
#: Only floating-point operations take time (a block some 10 us), and the link needs about as long for a block.
CLUSTER = Cluster(
    "a ring of slow GPUs",
    8,
    Link(0.0, 1.0),
    Link(0.0, 1.0),
    gpu=Gpu("1 GFLOP/s", {"float32": 1e9, "float64": 1e9}, _INF, _INF, launch_overhead_us=0.0),
)
Count = Annotated[int, msgspec.Meta(ge=1, le=128)]


class Case(cases.Case, frozen=True):
    """`tokens` of the sequence on each rank, `heads` of `size` elements. `large`: scores of some thousands."""

    causal: bool = False
    heads: Count = 2
    tokens: Count = 4
    size: Count = 64
    large: bool = False

    @property
    def block_bytes(self) -> int:
        """Keys and values of one rank."""
        return 2 * self.heads * self.tokens * self.size * ITEM

    def inputs(self) -> list[Numbers]:
        """Queries, keys and values of the whole sequence, each (heads, world_size * tokens, size)."""
        shape = (self.heads, self.world_size * self.tokens, self.size)
        q, k, v = (self.numbers().normal(size=(3, *shape))).copy()
        return [q * (LARGE if self.large else 1.0), k, v]

    def mine(self, rank: int) -> slice:
        """The tokens of a rank."""
        return slice(rank * self.tokens, (rank + 1) * self.tokens)


class Said(msgspec.Struct):
    """What a rank reports: its rows of the result."""

    out: Array


def visible() -> list[Case]:
    """Without and with the mask, at each number of ranks; then large scores."""
    found = [Case(world_size=w, causal=c) for w in (2, 3, 4, MANY) for c in (False, True)]
    return [*found[:4], Case(world_size=3, causal=True, large=True), *found[4:]]


def drawn(rng: random.Random) -> list[Case]:
    """The same with other sizes."""
    found = []
    for w in (2, 3, 4, MANY):
        sizes = [(rng.randint(1, 3), rng.randint(2, 5), 16 * rng.randint(4, 6)) for _ in range(3)]
        kinds = ((False, False), (True, False), (True, True))[: 3 if w in (3, 4) else 2]
        found += [
            Case(world_size=w, draw=cases.number(rng), causal=c, heads=h, tokens=n, size=s, large=large)
            for (c, large), (h, n, s) in zip(kinds, sizes, strict=False)
        ]
    return found


def options(case: Case) -> dict[str, Any]:
    """Computing takes time, and tensors are followed."""
    return {"cluster": CLUSTER, "memory_gib": math.inf}


def on_rank(case: Case, ring_attention: Any) -> Said:
    """This rank's rows of the result."""
    import torch
    import torch.distributed as dist

    mine = case.mine(dist.get_rank())
    q, k, v = (torch.from_numpy(whole[:, mine].copy()) for whole in case.inputs())
    with torch.no_grad():
        return Said(array(ring_attention(q, k, v, case.causal)))


def wanted(case: Case) -> Numbers:
    """The softmax of all scores times the values, in numpy."""
    import numpy as np

    q, k, v = case.inputs()
    scores = q @ k.swapaxes(1, 2) / math.sqrt(case.size)
    if case.causal:
        scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out: Numbers = weights @ v / weights.sum(-1, keepdims=True)
    return out


def wrong_value(seen: Seen[Case, Said]) -> Fault | None:
    """The first rank whose rows are not those of the full attention, or that received too little to know them."""
    case, full = seen.case, wanted(seen.case)
    for rank, said in enumerate(seen.said):
        rows = full[:, case.mine(rank)]
        if fault := compare.wrong_array("the result", rank, said.out.numpy(), rows, TOLERANCE * (1 + abs(rows))):
            return fault
    for rank, received in enumerate(seen.received_bytes()):
        needed = _needed(case, rank)[1] * case.block_bytes
        if received < needed:
            text = f"rank {rank} received {received} bytes with recv, too few to know its result."
            return Fault(text, f"at least {needed} bytes", f"{received} bytes", rank)
    return None


def _needed(case: Case, rank: int) -> tuple[int, int]:
    """Blocks that a rank must send to the next and receive from the one before, so that nobody misses one."""
    if not case.causal:
        return case.world_size - 1, case.world_size - 1
    return (rank + 1 if rank < case.world_size - 1 else 0), rank


def a_collective(seen: Seen[Case, Said]) -> Fault | None:
    """Anything but messages."""
    called = [e for rank in range(seen.case.world_size) for e in seen.collectives(rank)]
    if not called:
        return None
    text = f"rank {called[0].rank} called {called[0].op}: keys and values travel by messages to a neighbour only."
    return Fault(text, "send, recv, isend, irecv", called[0].op, called[0].rank)


def other_traffic(seen: Seen[Case, Said]) -> Fault | None:
    """Other partners than the neighbours in the ring, or other bytes than the blocks that have to travel."""
    case, w = seen.case, seen.case.world_size
    for rank in range(w):
        for event in (e for e in seen.of(rank) if e.is_p2p):
            neighbour = (rank + (1 if event.op == "send" else -1)) % w
            if event.peer != neighbour:
                text = f"rank {rank}: {event.label}. In the ring a rank sends to rank + 1 and receives from rank - 1."
                return Fault(text, f"rank {neighbour}", f"rank {event.peer}", rank)
            if event.bytes not in (case.block_bytes, case.block_bytes // 2):
                text = f"rank {rank}: a {event.op} of {event.bytes} bytes; a block of keys and values has "
                text += f"{case.block_bytes}, each of the two half of it."
                return Fault(text, f"{case.block_bytes} bytes in one message or two", f"{event.bytes} bytes", rank)
    return _other_bytes(seen)


def _other_bytes(seen: Seen[Case, Said]) -> Fault | None:
    """Every rank passes on W - 1 blocks; under the mask all ranks may leave out what nobody needs."""
    case, w = seen.case, seen.case.world_size
    pairs = list(zip(seen.sent_bytes(), seen.received_bytes(), strict=True))
    allowed = [[(w - 1, w - 1)] * w, [_needed(case, rank) for rank in range(w)]]
    blocks = [[(sent * case.block_bytes, got * case.block_bytes) for sent, got in ranks] for ranks in allowed]
    if pairs in blocks:
        return None
    rank = next(r for r in range(w) if pairs[r] != blocks[0][r])
    bound = f"{blocks[0][rank][0]} bytes sent and received (W - 1 blocks of {case.block_bytes})"
    text = f"rank {rank} sent {pairs[rank][0]} bytes and received {pairs[rank][1]}; a ring needs {bound}"
    text += ", or under the mask exactly the blocks that somebody behind needs." if case.causal else "."
    return Fault(text, bound, f"{pairs[rank][0]} sent, {pairs[rank][1]} received", rank)


def too_many_keys(seen: Seen[Case, Said]) -> Fault | None:
    """A rank that holds the blocks of (nearly) all ranks at once; looked at where there are many."""
    case = seen.case
    if case.world_size < MANY:
        return None
    own = case.block_bytes * 3 // 2
    for rank in range(case.world_size):
        most = max((e.live_bytes for e in seen.of(rank)), default=0)
        if most > own + MOST_BLOCKS * case.block_bytes:
            held = (most - own) / case.block_bytes
            text = (
                f"rank {rank} holds {most} bytes while it waits for a message: besides its own q, k and v as much as "
            )
            text += f"{held:.1f} blocks of keys and values. It needs the one that it works on and the one that arrives."
            return Fault(text, f"at most {MOST_BLOCKS} blocks", f"{held:.1f} blocks", rank)
    return None


def no_overlap(seen: Seen[Case, Said]) -> Fault | None:
    """A message that no computing hides: waited for before the block in hand was computed with."""
    case = seen.case
    if case.causal:  # there a rank has nothing to compute with the blocks of later ones
        return None
    for rank in range(case.world_size):
        events = seen.of(rank)
        work = [e for e in events if e.op == "compute"]
        block_ns = sum(e.end_ns - e.start_ns for e in work) / case.world_size
        for event in (e for e in events if e.is_p2p):
            beside = sum(_common(event, e) for e in work)
            if beside < SHARE * block_ns:
                text = f"rank {rank}: {event.label} was issued at {event.issue_ns / 1e3:g} us and waited for at "
                text += f"{event.wait_ns / 1e3:g} us; in between it computed {beside / 1e3:g} us. "
                text += f"A block takes {block_ns / 1e3:g} us: send it, then compute with it, then wait."
                return Fault(text, "a block's computing between issuing and waiting", f"{beside / 1e3:g} us", rank)
    return None


def _common(message: Event, work: Event) -> int:
    """Nanoseconds that a stretch of computing shares with the time in which a message is under way unwaited for."""
    return max(0, min(message.wait_ns, work.end_ns) - max(message.issue_ns, work.start_ns))


CHECK = Check(
    case=Case,
    said=Said,
    visible=visible,
    drawn=drawn,
    on_rank=on_rank,
    options=options,
    under=lambda case: ("large-scores", "Large scores overflow") if case.large else None,
    stress_keys=("large-scores",),
    batched=True,
    properties=(
        Property("value", "The result is not that of full attention", wrong_value, "both", first=True),
        Property("messages-only", "A collective was called", a_collective, "witnessed", part="bytes"),
        Property("bytes", "Other messages than the ring's", other_traffic, "witnessed"),
        Property("resident", "A rank holds the keys of all", too_many_keys, "reported"),
        Property("overlap", "Nothing is sent while it computes", no_overlap, "witnessed"),
    ),
)
