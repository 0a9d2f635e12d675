"""Lab 1: the experiment says the same as real ranks, and what its checks take for granted holds."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.build import tree
from autograder.checks.lab1 import (
    choose_cases,
    communication_volume,
    four_lanes,
    full_search_cases,
    lanes_picture,
    ring_attention,
    tensor_attention,
)
from autograder.checks.lab1.four_lanes import NAMES, Setting

ROOT = Path(__file__).resolve().parents[2]
SMALL = Setting(gpus=2, batch=8)


@pytest.mark.parametrize("key", ["pp", *(pytest.param(k, marks=pytest.mark.slow) for k in ("ddp", "zero3", "tp"))])
@pytest.mark.parametrize("gpus", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8))])
def test_a_lane_sends_and_holds_what_is_predicted(key: str, gpus: int) -> None:
    setting = replace(SMALL, gpus=gpus)
    real = four_lanes.measure(key, setting)
    for rank in range(gpus):
        assert real.carried[rank] == four_lanes.carried(key, setting, rank)
        assert sum(real.held[rank].values()) == 16 * four_lanes.parameters(key, gpus, rank)


def test_the_winner_changes_with_bandwidth_memory_and_batch() -> None:
    rows = four_lanes.winners(Setting())
    assert rows[4][0] == "pp"
    assert rows[4][-1] == "ddp"
    wide = four_lanes.winners(Setting(batch=64, memory_mib=1000))
    assert set(wide[4]) == {"ddp"}
    assert four_lanes.winner(Setting(memory_mib=2)) == ""
    tight = {lane.key: lane.fits for lane in four_lanes.lanes(Setting(memory_mib=12))}
    assert tight == {"ddp": False, "zero3": True, "tp": False, "pp": True}


def test_the_picture_has_a_twin_in_text_and_no_meaning_by_colour_alone() -> None:
    setting = Setting(memory_mib=12)
    picture, words = lanes_picture.svg(setting), four_lanes.text(setting)
    for name in NAMES.values():
        assert f">{name}</text>" in picture
        assert name in words
    assert picture.count("does not fit") == words.count("does not fit") == 2
    assert "wins" in picture
    assert lanes_picture.html(setting).count("<pre>") == 1
    assert repr(lanes_picture.Picture(setting)) == words
    assert len(set(lanes_picture.SHORT.values())) == len(lanes_picture.SHORT)


def test_sliders_redraw_the_picture() -> None:
    box = lanes_picture.explore(Setting())
    memory, picture = box.children[3], box.children[4]
    before = picture.value
    memory.value = 12
    assert picture.value != before
    assert "memory limit 12 MiB" in picture.value


def test_the_limit_by_trying_is_that_of_the_inequality() -> None:
    rng = random.Random(7)
    for case in [c for _ in range(20) for c in communication_volume.drawn(rng) if c.ask == "limit"]:
        exact = case.compute_ms * case.gbytes_per_s / (case.passes * case.megabytes)
        assert communication_volume.limit(case) == 1 + int(exact)


def test_budgets_ask_for_different_plans_and_every_reason() -> None:
    for seed in range(3):
        answers = [(c, choose_cases.oracle(c, *c.asked()[0])) for c in choose_cases.drawn(random.Random(seed))]
        assert {a.infeasible for _, a in answers} == {"", "memory", "deadline", "dollars"}
        kinds = {c.asked()[0][1].plans[a.plan].kind for c, a in answers if not a.infeasible}
        assert len(kinds) >= 3


def test_the_three_facts_of_the_full_search_hold() -> None:
    for case in full_search_cases.visible():
        job = case.asked()[0]
        needs = {layout: job.memory(layout) for layout in full_search_cases.space(job)}
        assert all(job.bound(layout) <= job.seconds(layout) for layout in list(needs)[::7])
        for layout in needs:
            more = (
                replace(layout, micro_batch=2 * layout.micro_batch, accumulation=layout.accumulation // 2),
                replace(layout, zero=layout.zero - 1),
                replace(layout, recompute="none"),
            )
            larger = [other for other in more if (other.accumulation == 1) == (layout.accumulation == 1)]
            assert all(needs[other] >= needs[layout] for other in larger if other in needs)


def test_jobs_ask_for_different_splits_and_pruning_is_needed() -> None:
    best = [full_search_cases.best_of(case, 0) for case in full_search_cases.visible()]
    assert [b.infeasible for b in best] == [reason for reason, _ in full_search_cases.KINDS]
    assert len({b.kind for b in best if not b.infeasible}) >= 2
    assert all(b.brute > full_search_cases.PRUNED * b.allowed for b in best if b.infeasible != "batch")


def test_a_rank_of_the_tensor_block_holds_whole_heads() -> None:
    for case in [*tensor_attention.visible(), *tensor_attention.drawn(random.Random(2))]:
        rows = [case.rows(rank) for rank in range(case.world_size)]
        assert sorted({r for held in rows for r in held}) == list(range((case.heads + 2 * case.kv_heads) * case.size))
        assert all(len(held) % case.size == 0 and len(held) == len(set(held)) for held in rows)
        copies = sum(map(len, rows)) - len({r for held in rows for r in held})
        assert (copies > 0) == (case.kv_heads < case.world_size)


def test_ring_attention_counts_the_blocks_that_the_mask_leaves() -> None:
    for case in ring_attention.visible():
        needed = [ring_attention._needed(case, rank) for rank in range(case.world_size)]
        sent, received = (sum(pair[i] for pair in needed) for i in (0, 1))
        assert sent == received
        assert all(got >= rank for rank, (_, got) in enumerate(needed))
    assert ring_attention.MOST_BLOCKS < ring_attention.MANY - 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    shutil.copy(ROOT / "course.yaml", tmp_path)
    shutil.copytree(ROOT / "labs", tmp_path / "labs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    folder = tmp_path / "labs" / "lab1"
    for solved in (False, True):
        source = tree.solution_notebook(ROOT, "lab1") if solved else (folder / "lab1.ipynb").read_bytes()
        (folder / "lab1.ipynb").write_bytes(source)
        notebook = nbformat.reads(source.decode(), as_version=4)
        NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not [cell.source for cell in cells for o in cell.outputs if o.get("name") == "stderr"]
        checks = [json.dumps(cell.outputs).lower() for cell in cells if cell.source.startswith("check(")]
        assert len(checks) >= 4
        for said in checks:
            assert ("passed" if solved else "still the starter") in said
        [compared] = [cell for cell in cells if "comparison = " in cell.source]
        assert "NOT as predicted" not in json.dumps(compared.outputs)


def test_the_written_budgets_are_of_their_kinds_and_no_close_calls() -> None:
    assert choose_cases.problems() == []
