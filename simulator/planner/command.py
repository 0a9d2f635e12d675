"""`lockstep plan`: the planner from a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields

import click

from simulator.cli import Command
from simulator.cluster import PRESETS
from simulator.errors import UsageError
from simulator.planner.brief import BriefRow, brief, grey_zone
from simulator.planner.explain import PARTS, why_it_loses
from simulator.planner.goodput import GPU_HOURS_BETWEEN_FAILURES, Reliability
from simulator.planner.layout import PRECISIONS
from simulator.planner.memory import GIB
from simulator.planner.model import MODELS
from simulator.planner.planning import MEAN_ERROR, USD_PER_GPU_HOUR, WORST_ERROR, Planning
from simulator.planner.planning import plan as make_plan
from simulator.planner.predict import Prediction

BAND = (
    f"Predicted, not measured. On 36 published runs the step time is off by {100 * MEAN_ERROR:.0f} % on average, "
    f"{100 * WORST_ERROR:.0f} % at worst; on others it can be more (docs/planner.md)."
)


@click.command(cls=Command)
@click.option("--model", default="7b", show_default=True, help=f"One of {', '.join(MODELS)}.")
@click.option("--gpus", type=click.IntRange(1, 1_000_000), default=8, show_default=True, help="How many GPUs train it.")
@click.option("--batch", default=32, show_default=True, help="Global batch in sequences.")
@click.option("--cluster", default="a100-80gb", show_default=True, help=f"One of {', '.join(PRESETS)}.")
@click.option("--seq", type=click.IntRange(1, 10_000_000), help="Tokens of a sequence; 2048 unless told.")
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    default="16",
    show_default=True,
    help="What a parameter takes: bytes by convention, or a kind of mixed precision.",
)
@click.option("--price", default=USD_PER_GPU_HOUR, show_default=True, help="US dollars for a GPU and hour.")
@click.option(
    "--failure-hours",
    default=round(GPU_HOURS_BETWEEN_FAILURES),
    show_default=True,
    help="Hours between failures of one GPU (Llama 3: 419 interruptions in 54 days on 16384 GPUs).",
)
@click.option("--checkpoint", default=60.0, show_default=True, help="Seconds that saving a checkpoint stops training.")
@click.option("--top", type=click.IntRange(1), default=12, show_default=True, help="How many kinds of plan are listed.")
@click.option(
    "--brief", "of_brief", is_flag=True, help="7B on 8 GPUs, 13B on 16, 70B on 128, and the grey zone of DDP."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def plan(
    model: str,
    gpus: int,
    batch: int,
    cluster: str,
    seq: int | None,
    precision: str,
    price: float,
    failure_hours: float,
    checkpoint: float,
    top: int,
    of_brief: bool,
    as_json: bool,
) -> None:
    """Rank the ways to lay out a training step on GPUs, or say what makes it impossible.

    Exit code 0 with a plan, 1 without one.
    """
    if of_brief:
        _print_brief(cluster, as_json)
        return
    if not (0 < failure_hours < math.inf and 0 < checkpoint < math.inf and 0 <= price < math.inf):
        raise UsageError("--failure-hours and --checkpoint are positive numbers, --price is one that is not negative")
    found = make_plan(
        model,
        gpus,
        batch,
        cluster,
        seq_len=seq,
        precision=precision,
        usd_per_gpu_hour=price,
        reliability=Reliability(failure_hours, checkpoint),
    )
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2))
    else:
        click.echo("\n".join(_report(found, top)))
    click.get_current_context().exit(0 if found.best else 1)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _report(found: Planning, top: int) -> list[str]:
    search = found.found
    lines = [
        f"{search.model.name}, {search.model.parameters / 1e9:.2f} billion parameters, sequences of "
        f"{search.model.seq_len}; {search.batch} of them a step on {search.gpus} GPUs of {search.cluster.name}; "
        f"{search.examined} layouts examined.",
        BAND,
        *found.notes,
        "",
    ]
    if found.best is None:
        lines.append(f"Infeasible. Binding constraint: {found.infeasible}.")
        lines += [
            "What would help, each alone:",
            *(f"  {change}" for change in found.helps or ["nothing that was tried"]),
        ]
        return lines
    lines += _ranking(found, found.best, top)
    lines += ["", *_parts(found.best), _goodput(found, found.best)]
    if found.rejected:
        lines += ["", "Does not fit:", *(f"  {kind}: {why}" for kind, why in found.rejected.items())]
    return lines


def _ranking(found: Planning, best: Prediction, top: int) -> list[str]:
    head = ("", "plan", "step", "tokens/s/GPU", "MFU", "HFU", "GiB", "USD/M tokens", "why it loses")
    rows = [
        (
            str(rank),
            p.layout.name,
            f"{p.step_s:.2f} s",
            f"{p.tokens_per_s_per_gpu:.0f}",
            f"{100 * p.mfu:.0f} %",
            f"{100 * p.hfu:.0f} %",
            f"{p.memory.total / GIB:.0f}",
            f"{found.usd_per_million_tokens(p):.3f}",
            "" if p is best else why_it_loses(p, best),
        )
        for rank, p in enumerate(found.plans[:top], start=1)
    ]
    return _table(head, rows)


def _parts(best: Prediction) -> list[str]:
    """Where the time and the memory of the best plan go."""
    time = [(PARTS[f.name], getattr(best.time, f.name)) for f in fields(best.time)]
    memory = [(f.name, getattr(best.memory, f.name) / GIB) for f in fields(best.memory)]
    return [
        "Time of 1: " + ", ".join(f"{word} {s:.3g} s" for word, s in time if s > 1e-3 * best.step_s) + ".",
        "Memory of 1: " + ", ".join(f"{word} {gib:.1f} GiB" for word, gib in memory if gib > 0.05) + ".",
    ]


def _goodput(found: Planning, best: Prediction) -> str:
    failing, gpus = found.reliability, best.layout.gpus
    return (
        f"Goodput of 1: {100 * found.goodput(best):.1f} %, with a failure every "
        f"{failing.seconds_between_failures(gpus) / 3600:.0f} hours, a checkpoint of {failing.checkpoint_s:g} s every "
        f"{failing.checkpoint_interval_s(gpus) / 60:.0f} minutes and {failing.restart_s:g} s to restart."
    )


def _print_brief(cluster: str, as_json: bool) -> None:
    rows = brief(cluster)
    if as_json:
        click.echo(json.dumps([_brief_as_dict(row) for row in rows], indent=2))
        return
    click.echo(BAND)
    for row in rows:
        click.echo("\n".join(["", *_brief_lines(row)]))
    click.echo("\nPlain DDP, one sequence a GPU, full recomputation: the grey zone")
    lines = [
        (name, precision, f"{m.states / GIB:.0f}", f"{m.total / GIB:.0f}", "fits" if fits else "does not fit")
        for name, precision, m, fits in grey_zone(cluster)
    ]
    click.echo("\n".join(_table(("model", "bytes/parameter", "states GiB", "all GiB", ""), lines)))


def _brief_lines(row: BriefRow) -> list[str]:
    search, best = row.planning.found, row.planning.best
    lines = [f"{search.model.name} on {search.gpus} GPUs, global batch {search.batch}", *row.planning.notes]
    if best is None:
        return [*lines, f"infeasible: {row.planning.infeasible}"]
    band = (best.tokens_per_s_per_gpu * (1 - WORST_ERROR), best.tokens_per_s_per_gpu * (1 + WORST_ERROR))
    layout = row.nearest.layout
    return [
        *lines,
        f"  predicted: {best.layout.name}: {best.tokens_per_s_per_gpu:.0f} tokens/s/GPU (band {band[0]:.0f} to "
        f"{band[1]:.0f}), MFU {100 * best.mfu:.0f} %, {best.memory.total / GIB:.0f} GiB",
        f"  nearest published measurement: {row.nearest.id}, {row.nearest.model.name}, {layout.gpus} GPUs, global "
        f"batch {layout.global_batch}, {layout.name}: measured {row.measured_tokens_per_s_per_gpu:.0f} tokens/s/GPU, "
        f"predicted for that run {row.predicted_tokens_per_s_per_gpu:.0f}",
    ]


def _brief_as_dict(row: BriefRow) -> dict[str, object]:
    return {
        **row.planning.as_dict(),
        "nearest_published": {
            "id": row.nearest.id,
            "source": row.nearest.source,
            "model": row.nearest.model.name,
            "layout": asdict(row.nearest.layout),
            "measured_tokens_per_s_per_gpu": row.measured_tokens_per_s_per_gpu,
            "predicted_tokens_per_s_per_gpu": row.predicted_tokens_per_s_per_gpu,
        },
    }
