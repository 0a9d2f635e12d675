"""The Chrome / Perfetto export: what a viewer relies on, and that the bytes are always the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import simulator
from simulator.trace import Trace, chrome
from tests.trace import programs
from tests.trace.test_diff import small

Events = list[dict[str, Any]]


def exported(trace: Trace) -> Events:
    document = json.loads(chrome.export(trace))
    assert document["displayTimeUnit"] == "ns"
    assert document["otherData"]["clock"] == "virtual"
    events: Events = document["traceEvents"]
    check_structure(trace, events)
    return events


def check_structure(trace: Trace, events: Events) -> None:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {1000 + rank: f"rank {rank}" for rank in range(trace.world_size)}
    slices = [e for e in events if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in slices} == set(names)
    for thread in names:
        own = sorted((e for e in slices if (e["pid"], e["tid"]) == thread), key=lambda e: (e["ts"], e["dur"]))
        assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in own)
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(own)), names[thread]
    flows: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in "sf":
            flows.setdefault(event["id"], []).append(event)
    for pair in flows.values():
        assert [e["ph"] for e in pair] == ["s", "f"]
        for end in pair:
            assert any(s["ts"] <= end["ts"] <= s["ts"] + s["dur"] for s in slices if _thread(s) == _thread(end))
    assert {e["ph"] for e in events} <= set("MXisf")


def _thread(event: dict[str, Any]) -> tuple[int, int]:
    return event["pid"], event["tid"]


def of(events: Events, rank: int, category: str) -> list[str]:
    return [e["name"] for e in events if e["pid"] == 1000 + rank and e.get("cat") == category]


def test_a_small_trace_in_full():
    events = exported(small(slow_rank=2).trace())
    assert of(events, 0, "steps") == ["step 0", "step 1"]
    assert of(events, 0, "communication") == ["all_reduce #0", "all_reduce #1"]
    assert of(events, 0, "program") == ["compute", "wait for all_reduce #0", "compute", "wait for all_reduce #1"]
    waits = [e for e in events if e["name"] == "wait for all_reduce #1"]
    assert [(e["pid"], e["ts"], e["dur"]) for e in waits] == [(1000, 2.5, 1.5), (1001, 2.5, 1.5), (1002, 3.5, 0.5)]


def test_failures_and_pending_operations_are_named():
    builder = small(shape=5)
    builder.fail(2, "barrier", "pending", None)
    events = exported(builder.trace())
    assert "all_reduce #1 [mismatch]" in of(events, 1, "communication")
    assert "barrier #2 [pending]" in of(events, 2, "communication")


def test_messages_are_arrows_also_to_a_receive_from_any_rank():
    trace = simulator.run(programs.passes_around, 3, echo=False).trace
    events = exported(trace)
    arrows = {(e["id"], e["ph"]): e["pid"] - 1000 for e in events if e["ph"] in "sf"}
    pairs = sorted((arrows[number, "s"], arrows[number, "f"]) for number, ph in arrows if ph == "s")
    assert pairs == [(0, 1), (0, 1), (1, 2), (1, 2), (2, 0), (2, 0)]


@pytest.mark.parametrize("faults", ["", "kill(rank=2, step=1); slow(rank=1, factor=3)"])
def test_a_run_with_subgroups_overlap_and_faults(faults, tmp_path):
    trace = simulator.run(programs.train_with_group, 4, faults=faults, echo=False).trace
    events = exported(trace)
    threads = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1000]
    assert threads == ["steps", "program", "comm:default", "comm:pair"]
    acted = {(e["pid"] - 1000, e["name"]) for e in events if e.get("cat") == "fault"}
    assert acted == ({(2, "kill(rank=2, step=1)"), (1, "slow(rank=1, factor=3)")} if faults else set())
    saved = chrome.save(trace, tmp_path / "trace.json").read_bytes()
    assert saved == chrome.export(Trace.load(trace.save(tmp_path / "trace.jsonl")))


def test_what_overlaps_on_one_stream_gets_a_thread_of_its_own():
    from tests.show.build import Builder

    builder = Builder(2)
    for peer in (1, 1):
        builder.communicate(0, "send", 0, peer=peer, start_ns=10, end_ns=50)
        builder.communicate(1, "recv", 0, peer=0, start_ns=10, end_ns=50)
    events = exported(builder.trace())
    threads = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1000]
    assert threads == ["comm:default", "comm:default (2)"]
    assert sum(e["ph"] == "s" for e in events) == 2
