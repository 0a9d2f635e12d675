"""What the interactive timeline is given to draw, and the page and the command that carry it. No browser here."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from array import array
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from autograder.cli import cli
from simulator import diagnose
from simulator.errors import UsageError
from simulator.show import timeline
from simulator.show.lanes import KINDS, stretches
from simulator.show.widget import Notes
from simulator.show.widget.pack import pack
from simulator.trace import Event, Trace
from tests.show.build import Builder


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, array[Any]]]:
    """Header and columns, as the browser reads them."""
    raw = gzip.decompress(data)
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    columns = {}
    for name, (code, offset, count) in header["columns"].items():
        columns[name] = array(code)
        start = 8 + length + offset
        columns[name].frombytes(raw[start : start + count * columns[name].itemsize])
    return header, columns


def training(slow: int = 0) -> Trace:
    """Two steps of three ranks; rank 1 computes `slow` ns longer."""
    b = Builder(3)
    for step in range(2):
        b.begin_step(step)
        for rank in range(3):
            b.compute(rank, 1000 + slow * (rank == 1), phase="backward")
        b.collective("all_reduce", 500)
    return b.trace()


def hang() -> Trace:
    """Rank 1 leaves out the second all-reduce."""
    b = Builder(3, outcome="CollectiveTimeout")
    for rank in range(3):
        b.compute(rank, 1000)
    b.collective("all_reduce", 500)
    for rank in (0, 2):
        b.fail(rank, "all_reduce", "timeout", 1_800_000_000_000)
    b.moment(1, "exit", status="done")
    return b.trace()


def overlapped() -> Trace:
    """One rank: an all-reduce issued at 100 runs from 200 to 900 while the program computes until 600."""
    e = Event(rank=0, n=0, op="compute", issue_ns=0, start_ns=0, end_ns=600, live_bytes=64)
    more = {"group": "default", "stream": "comm:default", "seq": 0, "work": 0, "bytes": 4096}
    return Trace(
        {"world_size": 1, "outcome": "Completed"},
        [e, Event(rank=0, n=1, op="all_reduce", issue_ns=100, start_ns=200, end_ns=900, wait_ns=600, **more)],
    )


def test_every_bar_of_the_static_picture_is_there_and_the_bytes_are_always_the_same() -> None:
    trace = training(slow=300)
    data = pack([trace], ["run"])
    assert pack([trace], ["run"]) == data
    header, columns = unpack(data)
    bars = zip(columns["0.bar.t0"], columns["0.bar.t1"], columns["0.bar.kind"], columns["0.bar.event"], strict=True)
    drawn = {(t0, t1, header["kinds"][kind], event) for t0, t1, kind, event in bars}
    number = {id(event): n for n, event in enumerate(trace.events)}
    assert header["kinds"] == list(KINDS)
    assert drawn == {(s.t0, s.t1, s.kind, number[id(s.event)]) for r in range(3) for s in stretches(trace.of_rank(r))}
    for row in header["traces"][0]["rows"]:
        begins = columns["0.bar.t0"][row["first"] : row["first"] + row["count"]]
        assert list(begins) == sorted(begins)


def test_a_stream_shows_the_whole_transfer_and_the_program_only_what_it_waits_for() -> None:
    header, columns = unpack(pack([overlapped()], ["run"]))
    rows = {row["kind"]: row for row in header["traces"][0]["rows"]}
    stream, program = rows["stream"], rows["thread"]
    assert (columns["0.bar.t0"][stream["first"]], columns["0.bar.t1"][stream["first"]]) == (200, 900)
    last = program["first"] + program["count"] - 1
    assert (columns["0.bar.t0"][last], columns["0.bar.t1"][last]) == (600, 900)
    assert rows["memory"]["peak"] == 64


def test_memory_that_was_not_followed_has_no_row() -> None:
    header, _ = unpack(pack([training()], ["run"]))
    assert {row["kind"] for row in header["traces"][0]["rows"]} == {"thread"}


def test_a_hang_offers_its_diagnosis_first_and_the_quiet_half_hour_is_cut_out() -> None:
    header, _ = unpack(pack([hang()], ["run"]))
    assert header["places"][0]["text"] == "Diagnosis: omitted, rank 1"
    assert any(cut and t1 - t0 > 1e12 for t0, t1, _, _, cut in header["axis"])
    assert [place["text"] for place in header["places"]][1:3] == [
        "rank 0: all_reduce #1, timeout after 1,800 s",
        "rank 2: all_reduce #1, timeout after 1,800 s",
    ]


def test_two_traces_share_one_axis_and_offer_their_first_difference() -> None:
    one, other = training(), training(slow=4000)
    header, _ = unpack(pack([one, other], ["before", "after"]))
    assert header["axis"][-1][1] == other.end_ns > one.end_ns
    first = header["places"][0]
    assert first["text"].startswith("First difference: compute, rank 1")
    assert one.events[first["event"]] == one.diff(other).first.one  # type: ignore[union-attr]


def test_it_opens_at_a_diagnosis_or_an_event_and_refuses_those_of_another_trace() -> None:
    trace = hang()
    failed = next(e for e in trace if e.status == "timeout")
    for at in (diagnose(trace), failed):
        data = re.search(r'type="text/plain">([^<]*)<', timeline(trace, at=at).html())
        assert data is not None
        header, _ = unpack(base64.b64decode(data[1]))
        assert trace.events[header["places"][0]["event"]].op == "all_reduce"
    assert ", 0);\n</script>" in timeline(trace, at=failed).html()
    with pytest.raises(UsageError, match="no such event"):
        timeline(training(), at=failed).html()


def test_notes_are_marked_and_told() -> None:
    notes = Notes("a gradient is ready", [[(1, 700, "gradient of bias is ready")]])
    header, _ = unpack(pack([training()], ["run"], notes=notes))
    assert header["traces"][0]["notes"] == [[1, 700, "gradient of bias is ready"]]
    assert "700 ns  rank 1  gradient of bias is ready" in header["traces"][0]["text"]


def test_the_page_is_one_file_that_asks_nobody_and_reads_as_text_without_scripts() -> None:
    html = timeline(training()).html()
    assert "default-src 'none'" in html
    assert not re.search(r"(src|href)=|@import|fetch\(|https?://(?!www\.w3\.org)", html)
    body = re.search(r"<pre>(.*?)</pre>", html, re.DOTALL)
    assert body is not None
    assert "Reading: no rank waited noticeably" in body[1]


def test_what_a_program_named_cannot_become_part_of_the_page() -> None:
    trace = training()
    bad = "</script><script>alert(1)</script>"
    events = [msgspec.structs.replace(event, site=bad, detail=bad, phase=bad) for event in trace]
    html = timeline(Trace({**trace.header, "outcome": bad}, events)).html()
    assert "<script>alert" not in html
    assert html.count("</script>") == 2


def test_the_command_writes_a_page_or_prints_the_text(tmp_path: Path) -> None:
    one, other = training().save(tmp_path / "a.jsonl"), training(slow=9).save(tmp_path / "b.jsonl")
    said = CliRunner().invoke(cli, ["timeline", str(one)])
    assert (said.exit_code, said.output) == (0, timeline(training()).text() + "\n")
    page = tmp_path / "out.html"
    said = CliRunner().invoke(cli, ["timeline", str(one), str(other), "--html", str(page)])
    assert said.exit_code == 0, said.output
    assert "36 events" in said.output
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    for wrong in (["timeline", str(tmp_path / "none")], ["timeline", str(one), "--html", "/no/such/folder/x.html"]):
        assert CliRunner().invoke(cli, wrong).exit_code == 2


def test_a_cell_gets_the_widget_and_the_picture_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr("IPython.display.display", lambda value, **how: shown.append((value, how)))
    from simulator.show.widget import notebook

    monkeypatch.setattr(notebook, "display", lambda value, **how: shown.append((value, how)))
    timeline(training())._ipython_display_()
    (widget, _), (words, _), (picture, how) = shown
    assert unpack(widget.data)[0]["traces"][0]["headline"] == "Completed: 3 ranks, 3.0 µs of virtual time"
    assert widget._esm.endswith("export default { render };\n")
    assert "Run the cell to zoom" in words.data
    assert picture["image/png"].startswith(b"\x89PNG")
    assert how["metadata"]["image/png"]["alt"].startswith("Timeline of virtual time")
    widget.close()


def test_without_anywidget_a_cell_gets_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda value, **how: shown.append(value))
    monkeypatch.setitem(sys.modules, "simulator.show.widget.notebook", None)
    timeline(training())._ipython_display_()
    [picture] = shown
    assert set(picture) == {"image/png", "text/plain"}
