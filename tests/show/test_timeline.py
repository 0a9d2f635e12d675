"""The picture and its text twin, on traces built by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest

from simulator.show import timeline
from simulator.show.__main__ import main
from simulator.trace import Trace
from tests.show.build import Builder

SECOND = 1_000_000_000
SVG = "{http://www.w3.org/2000/svg}"


def loop(world_size: int = 4, steps: int = 3) -> Trace:
    b = Builder(world_size, faults="slow(rank=1, factor=3)")
    for step in range(steps):
        b.begin_step(step)
        b.moment(1, "slow")
        for rank in range(world_size):
            b.compute(rank, 3_000_000 if rank == 1 else 1_000_000, "forward")
        b.collective("all_reduce", 400_000)
    return b.trace()


def hang() -> Trace:
    b = Builder(3, "CollectiveTimeout", faults="skip_collective(rank=2, collective=0)")
    for rank in range(3):
        b.compute(rank, 20_000)
    b.moment(2, "skip_collective", status="skipped")
    b.moment(2, "exit", status="done")
    for rank in (0, 1):
        b.fail(rank, "all_reduce", "timeout", 1800 * SECOND)
    return b.trace()


def kill() -> Trace:
    b = Builder(3, "PeerLost", faults="kill(rank=1, step=0)")
    b.begin_step(0)
    b.moment(1, "kill")
    b.moment(1, "exit", status="killed")
    for rank in (0, 2):
        b.compute(rank, 2_000_000)
        b.fail(rank, "all_reduce", "lost", None)
    return b.trace()


def words_of(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter(f"{SVG}text")]


def ids_of(svg: str) -> set[str]:
    return {node.attrib["id"] for node in ET.fromstring(svg).iter() if "id" in node.attrib}


@pytest.mark.parametrize("world_size", [1, 4, 8, 16, 32])
def test_every_rank_has_a_lane(world_size: int) -> None:
    b = Builder(world_size)
    b.compute(0, 1000)
    svg = timeline(b.trace()).svg()
    for rank in range(world_size):
        assert f"lane-rank-{rank}" in ids_of(svg)
        assert f"rank {rank}" in words_of(svg)


def test_axis_says_that_time_is_virtual_and_in_which_unit() -> None:
    assert "virtual time (ms)" in words_of(timeline(loop()).svg())
    assert "virtual time (µs)" in words_of(timeline(hang()).svg())


def test_every_failed_operation_is_labelled_and_the_cut_is_marked() -> None:
    svg = timeline(hang()).svg()
    for rank in (0, 1):
        assert f"rank {rank}: all_reduce #0, timeout after 1,800 s" in words_of(svg)
    assert {"failed", "axis-break", "fault-skip_collective", "legend-failed"} <= ids_of(svg)
    assert "1,800 s cut out, not to scale" in words_of(svg)
    assert "returned" in words_of(svg)


def test_a_kill_and_what_its_peers_lost_are_labelled() -> None:
    svg = timeline(kill()).svg()
    assert "killed at step 0" in words_of(svg)
    assert sum("peer lost" in said for said in words_of(svg)) == 2
    assert "fault-kill" in ids_of(svg)


def test_waiting_names_who_is_waited_for() -> None:
    assert any(said.startswith("waits for rank 1") for said in words_of(timeline(loop()).svg()))


def test_svg_is_well_formed_small_and_says_what_it_shows() -> None:
    shown = timeline(loop(4, 14))
    svg = shown.svg()
    assert len(shown.trace) > 150
    assert len(svg.encode()) < 80_000
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == "Completed: 4 ranks, 47.6 ms of virtual time"
    assert root.findtext(f"{SVG}desc") == shown.alt


def test_svg_is_the_same_in_processes_with_other_hash_seeds(tmp_path: Path) -> None:
    saved = tmp_path / "run.jsonl"
    hang().save(saved)
    pictures = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.svg"
        command = [sys.executable, "-m", "simulator.show", str(saved), "--svg", str(target)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, env=environment, check=True, capture_output=True, cwd=Path(__file__).parents[2])
        pictures.append(target.read_bytes())
    assert pictures[0] == pictures[1] == timeline(Trace.load(saved)).svg().encode()


def test_settings_of_the_user_neither_change_the_picture_nor_are_changed() -> None:
    plain = timeline(loop()).svg()
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "black", "svg.hashsalt": "mine"}):
        assert timeline(loop()).svg() == plain
        assert mpl.rcParams["svg.hashsalt"] == "mine"


def test_drawing_does_not_import_pyplot_and_importing_does_not_import_matplotlib() -> None:
    script = (
        "import sys, simulator.show as show; from simulator.trace import Trace\n"
        "assert 'matplotlib' not in sys.modules\n"
        "show.timeline(Trace({'world_size': 2}, [])).svg()\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_notebooks_get_a_picture_with_alternative_text_and_the_text_twin() -> None:
    shown = timeline(kill())
    data, metadata = shown._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == shown.text()
    assert metadata["image/png"]["alt"] == shown.alt
    assert "rank 1 was killed at step 0" in shown.alt


def test_text_tells_totals_operations_and_reading() -> None:
    lines = timeline(loop()).text().splitlines()
    assert lines[0] == "Completed: 4 ranks, 10.2 ms of virtual time (clocks are virtual)"
    assert "slow(rank=1, factor=3)" in lines[1]
    (of_rank_0,) = [line for line in lines if line.startswith("rank 0 ")]
    assert of_rank_0.split("  ")[1:] == ["3.0 ms (29.4 %)", "6.0 ms (58.8 %)", "1.2 ms (11.8 %)"]
    assert lines[-1].startswith("Reading: rank 1 was late at all_reduce #0 (step 0) by 2.0 ms; ranks 0, 2 and 3 waited")


def test_text_of_a_long_trace_is_cut_and_still_tells_every_fault_and_failure() -> None:
    trace = loop(4, 50)
    b = Builder(4, "PeerLost", faults="kill(rank=3, step=25)")
    b.events = list(trace.events)
    b.now, b.n = [80_000_000] * 4, [1000] * 4
    b.moment(3, "kill", step=25)
    b.fail(0, "all_reduce", "lost", None, step=25)
    said = timeline(b.trace()).text()
    assert len(said.splitlines()) < 70
    assert "events left out" in said
    assert "FAULT: killed at step 25" in said
    assert "FAULT: slow" in said
    assert "FAILED: peer lost" in said


def test_traces_without_events_and_with_one_rank_are_shown() -> None:
    for world_size in (0, 1, 3):
        shown = timeline(Trace({"world_size": world_size}, []))
        assert ET.fromstring(shown.svg()).tag == f"{SVG}svg"
        assert "there is nothing to draw." in shown.text()
        assert not any(name.startswith("lane-") for name in ids_of(shown.svg()))


def test_a_run_without_communication_says_so_instead_of_drawing_empty_lanes() -> None:
    b = Builder(4)
    for rank in range(4):
        b.moment(rank, "exit", status="done")
    shown = timeline(b.trace())
    said = "o rank communicated, so there is nothing to draw."
    assert shown.text().endswith(f"Reading: n{said}")
    assert "compute" not in shown.text()
    assert f"N{said}" in words_of(shown.svg())
    assert "rank 0" not in words_of(shown.svg())
    b.compute(0, 1000)
    assert "lane-rank-0" in ids_of(timeline(b.trace()).svg())
    assert "Reading: no rank communicated." in timeline(b.trace()).text()


def test_a_rank_without_progress_is_named() -> None:
    b = Builder(2, "NoProgress")
    b.moment(1, "exit", status="spinning")
    assert "Reading: rank 1 made no progress; no rank communicated" in timeline(b.trace()).text()
    b.fail(0, "all_reduce", "lost", 1000)
    assert timeline(b.trace()).text().endswith("rank 1 made no progress; rank 0 lost a peer in all_reduce #0.")


def test_calls_that_do_not_match_are_named_once() -> None:
    b = Builder(3, "CollectiveMismatch")
    for rank in range(3):
        b.fail(rank, "all_reduce", "mismatch", 0, shapes=((min(rank, 1) + 2,),))
    said = timeline(b.trace()).text().splitlines()[-1]
    assert said.endswith(
        "do not match: all_reduce #0 on every rank, but shapes [2] on rank 0, shapes [3] on ranks 1 and 2."
    )
    b = Builder(2, "CollectiveMismatch")
    b.fail(0, "send", "mismatch", 0, peer=1)
    b.fail(1, "recv", "mismatch", 0, peer=0)
    assert timeline(b.trace()).text().endswith("Reading: the message between ranks 0 and 1 does not fit.")


def test_where_a_rank_is_stuck_times_take_the_place_of_shares() -> None:
    svg, lines = timeline(hang()).svg(), timeline(hang()).text().splitlines()
    (of_rank_0,) = [line for line in lines if line.startswith("rank 0 ")]
    assert of_rank_0.split() == ["rank", "0", "20", "µs", "0", "ns", "0", "ns", "1,800", "s"]
    assert [line.split()[-1] for line in lines if line.startswith("rank 2 ")] == ["-"]
    assert words_of(svg).count("1,800 s") == 3  # two ranks and the axis
    assert "stuck" in words_of(svg)
    assert not any("%" in said for said in [*words_of(svg), *lines])
    assert "no end" in words_of(timeline(kill()).svg())


def test_an_operation_that_was_never_waited_for_is_shown_as_pending() -> None:
    b = Builder(2)
    b.compute(0, 1000)
    b.communicate(0, "all_reduce", 500, status="pending")
    shown = timeline(b.trace())
    assert any("never finished" in said for said in words_of(shown.svg()))
    assert "FAILED: never finished" in shown.text()


def test_command_line_prints_a_saved_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = kill()
    assert main([str(trace.save(tmp_path / "run.jsonl"))]) == 0
    assert capsys.readouterr().out.rstrip("\n") == timeline(trace).text()


def test_command_line_says_what_to_do_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none.jsonl")])
    assert "save a trace first" in capsys.readouterr().err
