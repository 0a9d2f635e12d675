"""A trace as dumps of torch's flight recorder, so that its own analyzer can be tried on a simulated hang.

    torchfrtrace FOLDER                                                  # or, the same:
    python -m torch.distributed.flight_recorder.fr_trace FOLDER

One pickle a rank, as a job writes when its watchdog fires. What is in a real dump and not here: stacks (only the line
that called), process and thread ids. As with torch's own gloo recorder, point-to-point operations are left out. Unlike
a real killed rank, which leaves no dump, every rank has one. The schema is that of torch 2.13 (dump version 2.10).
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

from simulator.errors import TraceError
from simulator.trace.event import Event
from simulator.trace.trace import Trace

DUMP_VERSION = "2.10"
PREFIX = "rank_"
_DEFAULT = "default"
#: The analyzer's names, where they are not torch's public ones. Its all_to_all compares totals over all ranks, the
#: others each rank's sizes with the first one's, which is wrong for uneven splits.
_NAMES = {
    "all_gather_into_tensor": "_all_gather_base",
    "all_gather_coalesced": "ALLGATHER_coalesced",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_to_all_single": "all_to_all",
    "monitored_barrier": "barrier",
    "reduce_scatter_tensor": "_reduce_scatter_base",
}
_DTYPES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
           "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}  # fmt: skip
_Sizes = list[list[int]]


def save(trace: Trace, folder: str | Path) -> list[Path]:
    """Write one dump a rank into `folder`, made if need be; after restarts, of the last incarnation. Returns their
    paths.
    """
    folder, trace = Path(folder), trace.incarnation(-1)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{PREFIX}{rank}" for rank in range(trace.world_size)]
    for rank, path in enumerate(paths):
        path.write_bytes(pickle.dumps(dump(trace, rank), protocol=4))
    return paths


def dump(trace: Trace, rank: int) -> dict[str, Any]:
    """What the recorder of `rank` would hold."""
    uids = {_DEFAULT: "0"}
    mine = {_DEFAULT: list(range(trace.world_size))}
    for name, ranks in trace.header.get("groups", ()):
        uid = uids.setdefault(name, str(len(uids)))
        if rank in ranks and uid != "0":
            mine.setdefault(name, ranks)  # of two groups of one name, the first
    timeout_ms = int(trace.header.get("timeout_ns", 0)) // 1_000_000
    collectives = [event for event in trace.of_rank(rank) if event.is_collective]
    if unknown := sorted({event.group for event in collectives} - set(mine)):
        raise TraceError(f"the header of the trace does not name the ranks of group {', '.join(unknown)}")
    entries = [
        _entry(event, number, uids[event.group], len(mine[event.group]), timeout_ms)
        for number, event in enumerate(collectives)
    ]
    return {
        "version": DUMP_VERSION,
        "comm_lib_version": "",
        "pg_config": {
            uids[name]: {"name": uids[name], "desc": _description(name), "ranks": str(ranks)}
            for name, ranks in mine.items()
        },
        "pg_status": {uids[name]: _progress(entries, uids[name]) for name in mine},
        "entries": entries,
    }


def _entry(event: Event, number: int, uid: str, group_size: int, timeout_ms: int) -> dict[str, Any]:
    inputs, outputs = _sizes(event, group_size)
    dtype = _DTYPES.get(event.dtype, event.dtype)
    is_done = event.status == "ok"
    state = "completed" if is_done else "started" if event.start_ns >= 0 else "scheduled"
    file, _, line = event.site.rpartition(":")
    return {
        "record_id": number,
        "pg_id": int(uid),
        "process_group": (uid, _description(event.group)),
        "collective_seq_id": event.seq + 1,
        "p2p_seq_id": 0,
        "op_id": event.seq + 1,
        "profiling_name": f"gloo:{_NAMES.get(event.op, event.op)}",
        "time_created_ns": event.issue_ns,
        "input_sizes": inputs,
        "input_dtypes": [dtype] * len(inputs),
        "output_sizes": outputs,
        "output_dtypes": [dtype] * len(outputs),
        "state": state,
        "time_discovered_started_ns": event.start_ns if event.start_ns >= 0 else None,
        "time_discovered_completed_ns": event.end_ns if is_done else None,
        "retired": is_done,
        "timeout_ms": timeout_ms,
        "is_p2p": False,
        "frames": [{"name": event.op, "filename": file, "line": int(line)}] if line.isdigit() else [],
    }


def _sizes(event: Event, group_size: int) -> tuple[_Sizes, _Sizes]:
    """Sizes of what goes in and comes out, from the part of this rank that a trace holds."""
    part = [list(shape) for shape in event.shapes]
    whole = [[group_size, *shape] for shape in part]
    if event.op.startswith("all_to_all"):
        total = [[sum(math.prod(shape) for shape in part)]]
        return total, total
    if event.op.startswith(("all_gather", "gather")):
        return part, whole
    if event.op.startswith(("reduce_scatter", "scatter")):
        return whole, part
    return part, part


def _progress(entries: list[dict[str, Any]], uid: str) -> dict[str, int]:
    """The last collective of a group that was called, that started, that ended; -1 for none."""
    mine = [entry for entry in entries if entry["process_group"][0] == uid]
    started = [entry for entry in mine if entry["state"] != "scheduled"]
    completed = [entry for entry in mine if entry["state"] == "completed"]
    last = [max((entry["collective_seq_id"] for entry in some), default=-1) for some in (mine, started, completed)]
    return dict(zip(("last_enqueued_collective", "last_started_collective", "last_completed_collective"), last,
                    strict=True))  # fmt: skip


def _description(group: str) -> str:
    return "default_pg" if group == _DEFAULT else group
