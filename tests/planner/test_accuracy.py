"""How wrong the planner is on published runs, and that its constants are what the fit finds."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, fields

import pytest

from benchmarks import planner_accuracy
from simulator.errors import UsageError
from simulator.planner import calibrate
from simulator.planner.constants import FITTED, Constants
from simulator.planner.planning import MEAN_ERROR, WORST_ERROR
from simulator.planner.runs import DATA, read_runs, readable_runs


def test_step_times_of_the_published_runs():
    result = planner_accuracy.report(read_runs(DATA / "validation.csv"), read_runs(DATA / "feasibility.csv"))
    assert result["rows"] == 36
    assert result["mape"] <= 0.07
    assert result["max"] <= WORST_ERROR
    assert 0.12 < result["baseline_mape"] < 0.13
    assert result["fit_balanced_accuracy"] >= 0.85


def test_eight_constants():
    assert len(fields(Constants)) == 8


@pytest.mark.slow
def test_the_constants_are_what_the_fit_finds():
    assert asdict(calibrate.fit()) == pytest.approx(asdict(FITTED), rel=1e-3)


@pytest.mark.slow
def test_sources_left_out():
    runs = read_runs(DATA / "validation.csv")
    by_source = planner_accuracy.left_out_errors(runs)
    together = [error for errors in by_source.values() for error in errors]
    assert planner_accuracy.mean_absolute(together) <= min(0.10, MEAN_ERROR + 0.005)
    own = [run for run in read_runs(DATA / "feasibility.csv") if run.source == "alephalpha"]
    found = planner_accuracy.classified(own, calibrate.fit(without="alephalpha"))
    assert found["fit_balanced_accuracy"] >= 0.85


def test_the_command_prints_one_object(monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv",
        ["x", "--runs", str(DATA / "validation.csv"), "--feasibility", str(DATA / "feasibility.csv"), "--json"],
    )
    assert planner_accuracy.command_line() == 0
    found = json.loads(capsys.readouterr().out)
    assert {
        *("mape", "median", "max", "rows", "fit_accuracy", "fit_balanced_accuracy", "false_fits", "false_ooms")
    } <= set(found)


def test_rows_that_cannot_be_modelled_are_named(tmp_path):
    with (DATA / "validation.csv").open() as file:
        rows = list(csv.DictReader(file))[:2]
    rows[0].update(n_layers="", params_b="")
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    runs, problems = readable_runs(path)
    assert [run.id for run in runs] == [rows[1]["id"]]
    assert problems == [f"line 2 ({rows[0]['id']}) cannot be modelled: n_layers not given"]
    with pytest.raises(UsageError, match="n_layers not given"):
        read_runs(path)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_files_that_are_no_tables_of_runs_are_refused(tmp_path, text):
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a table of runs"):
        readable_runs(path)
    with pytest.raises(UsageError, match="cannot read"):
        readable_runs(tmp_path / "missing.csv")


def test_the_document_names_the_constants_and_errors():
    text = (DATA.parents[2] / "docs" / "planner.md").read_text()
    for name, value in asdict(FITTED).items():
        (said,) = re.findall(rf"^\| {name} \| ([\d.]+) \|", text, re.MULTILINE)
        assert float(said) == pytest.approx(value, abs=5e-4)
    result = planner_accuracy.report(read_runs(DATA / "validation.csv"), read_runs(DATA / "feasibility.csv"))
    for share in ("mape", "median", "max", "baseline_mape", "fit_accuracy", "fit_balanced_accuracy"):
        assert planner_accuracy.percent(result[share]) in text, share


def test_layers_and_heads_that_a_table_leaves_out_follow_from_what_it_says():
    """BigScience's first trials: 14400 wide, "200B", tensor parallelism over 8, four pipeline stages."""
    (run,) = [run for run in read_runs(DATA / "feasibility.csv") if run.id == "bigscience-001"]
    assert run.model.layers % 4 == 0
    assert run.model.heads % 8 == 0
    assert run.model.parameters == pytest.approx(200e9, rel=0.02)
