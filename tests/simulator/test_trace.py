"""Traces: files, digests, order."""

import pytest

import simulator
from simulator import Event, Trace, TraceError
from tests.simulator import programs


def test_save_and_load(tmp_path):
    trace = simulator.run(programs.train, 3, faults="kill(rank=1, step=2)", echo=False).trace
    again = Trace.load(trace.save(tmp_path / "trace.jsonl"))
    assert again.events == trace.events
    assert again.header == trace.header
    assert again.digest == trace.digest
    assert again.outcome_name == "PeerLost"


def event(rank, n, issue_ns, **more):
    return Event(rank=rank, n=n, op="compute", issue_ns=issue_ns, start_ns=issue_ns, end_ns=issue_ns + 1, **more)


def test_the_order_of_arrival_does_not_matter():
    events = [event(rank, n, 10 * n) for rank in range(3) for n in range(4)]
    header = {"world_size": 3}
    assert Trace(header, events).digest == Trace(header, events[::-1]).digest


def test_call_sites_are_not_in_the_digest_but_everything_else_is():
    header = {"world_size": 1}
    digest = Trace(header, [event(0, 0, 0)]).digest
    assert Trace(header, [event(0, 0, 0, site="other.py:3")]).digest == digest
    assert Trace(header, [event(0, 0, 0, bytes=4)]).digest != digest
    assert Trace({**header, "seed": 1}, [event(0, 0, 0)]).digest != digest
    assert Trace({**header, "torch": "other"}, [event(0, 0, 0)]).digest == digest


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "line 1"),
        ("{}", "version None"),
        ('{"version": 99}', "version 99"),
        ('{"version": 1, "world_size": 1}\n{"rank": 0}', "line 2"),
        ('{"version": 1, "world_size": 1}\nnot json', "line 2"),
    ],
)
def test_bad_files_name_the_line(tmp_path, content, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(TraceError, match=words):
        Trace.load(path)


def test_missing_files_are_a_sentence(tmp_path):
    with pytest.raises(TraceError, match="cannot read the trace"):
        Trace.load(tmp_path / "none.jsonl")


def test_payload_conventions():
    def collectives():
        import torch
        import torch.distributed as dist

        size = dist.get_world_size()
        part, whole = torch.ones(2), torch.ones(2 * size)
        dist.all_gather_into_tensor(whole, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(whole.clone(), whole)
        dist.broadcast(part, src=1)

    trace = simulator.run(collectives, 3, echo=False).trace
    seen = [(e.op, e.bytes, e.shapes, e.peer, e.seq) for e in trace.of_rank(0) if e.is_communication]
    assert seen == [
        ("all_gather_into_tensor", 24, ((2,),), -1, 0),
        ("reduce_scatter_tensor", 24, ((2,),), -1, 1),
        ("all_to_all_single", 24, ((6,),), -1, 2),
        ("broadcast", 8, ((2,),), 1, 3),
    ]
