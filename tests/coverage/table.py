"""docs/coverage.md, from the programs that show each row. `python -m tests.coverage.table` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.coverage.catalogue import CASES, Case
from tests.coverage.programs import load_all
from tests.coverage.test_refusals import REFUSED, sentence

DOCUMENT = Path(__file__).parents[2] / "docs" / "coverage.md"
_ORDER = (
    "Collectives",
    "Handles and groups",
    "Point to point",
    "DDP",
    "FSDP",
    "Tensor and pipeline parallelism",
    "Checkpoints and data",
)
_INTRODUCTION = """# What runs inside a run

`simulator.run` runs code written for `torch.distributed` on gloo and CPU as it is. Each row below is a program in
`tests/coverage/programs/` that is run on plain gloo and, twice, in the simulator, at the world sizes given: the results
are equal bit for bit, the outcome is Completed, and the two runs have one trace digest. Those in brackets are run by
the slow tests.

`dist.get_backend()` answers "gloo". A script may call `init_process_group` and `destroy_process_group` itself; the
first call finds the group already there.
"""
_BETTER = (
    ("`powerSGD_hook` with several buckets", "may hang: collectives start in callbacks, in gloo's threads", "runs"),
    ("`recv` from any source", "the order of arrival is chance", "the order of virtual time"),
    ("a mismatch, a hang, a lost rank", "silent wrong values, an abort, a timeout", "an outcome with the culprit"),
)
_INSIDE_ONLY = """
## Better than on plain gloo

| what | on plain gloo | inside |
|---|---|---|
""" + "".join(f"| {' | '.join(row)} |\n" for row in _BETTER)
_RANK_ORDER = """
## Sums in rank order

gloo adds in an order that depends on the position in the tensor, so from three ranks on, the same gradients in another
bucket layout have other bits. With `reduction="rank_order"` every SUM, AVG and PRODUCT of floating-point numbers in
`all_reduce`, `reduce` and `reduce_scatter` (also coalesced, asynchronous and averaged) is the sum of one process that
adds the ranks' numbers 0, 1, 2, ...: DDP at any bucket size and a loop in one process have the same bits, and so have
FSDP2 and that loop. Integers, MIN and MAX, and whatever only moves data are unchanged. DDP multiplies by 1/N before it
adds and FSDP2 divides afterwards; where N is a power of two, these agree.
"""
_REFUSALS = """
## What does not run

gloo or the CPU cannot do these, or the run could not see them. The rank raises `Unsupported`, a `NotImplementedError`,
with this sentence:

| what | sentence |
|---|---|
"""
_LIMITS = """
Collectives in a function that `torch.compile` traces do not run inside: tracing needs a process group written in C++,
and torch says so at length (`UnsafeScriptObjectError`). Compile the parts between them; DDP and `fully_shard` around a
compiled module run.

`wait(timeout)` of a work and of a store end in virtual time. An operation goes on after that, as on gloo.

Errors that torch itself words well stay torch's: PRODUCT of complex tensors, `all_to_all` of lists with unequal parts,
`all_gather_into_tensor` into a stacked output, `bf16_compress_hook`, `SyncBatchNorm` and symmetric memory on CPU.
Outside the run's sight, and so in real time: a `TCPStore` or `FileStore` that user code makes, sockets, and processes
that user code starts.
"""


def document() -> str:
    """The whole page."""
    load_all()
    cases = sorted(CASES, key=lambda case: _ORDER.index(case.section))
    sections = ("".join(_section(title, list(group))) for title, group in groupby(cases, key=lambda case: case.section))
    refusals = "".join(f"| {what} | {sentence(program)} |\n" for program, (what, _) in REFUSED.items() if what)
    return _INTRODUCTION + "".join(sections) + _INSIDE_ONLY + _RANK_ORDER + _REFUSALS + refusals + _LIMITS


def _section(title: str, cases: list[Case]) -> Iterator[str]:
    yield f"\n## {title}\n\n| what | world sizes |\n|---|---|\n"
    for case in cases:
        slow = [f"({size})" for size in case.slow_worlds]
        note = f" Not yet reliable: {case.xfail}." if case.xfail else ""
        yield f"| {case.row}{note} | {', '.join([*map(str, case.worlds), *slow])} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
