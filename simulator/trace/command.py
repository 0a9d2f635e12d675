"""``lockstep trace``: saved traces from a terminal.

Exit codes: 0 done or the same, 1 traces differ, 2 unusable input.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from simulator.cli import FILE, TIMELINE, TRACE, Command, draw, new_file
from simulator.errors import UsageError
from simulator.trace import Trace


@click.group()
def trace() -> None:
    """Look at saved traces: show one, compare two, export one, or merge what the ranks of a real job recorded."""


_many = partial(click.option, multiple=True)


@trace.command(cls=Command)
@TRACE
@_many("--rank", "ranks", type=int, help="Only this rank. Every option may be given more than once.")
@_many("--step", "steps", type=int, help="Only this training step.")
@_many("--op", "ops", metavar="OP", help="Only this operation: all_reduce, send, compute, kill, ...")
@_many("--group", "groups", metavar="GROUP", help="Only this process group.")
@_many("--status", metavar="STATUS", help="Only what ended so: ok, timeout, mismatch, lost, pending, ...")
@_many("--phase", "phases", metavar="PHASE", help="Only this phase.")
def show(trace: Path, **filters: tuple[Any, ...]) -> None:
    """Print what every rank did, in virtual time."""
    from simulator.show.timeline import timeline

    loaded = Trace.load(trace)
    part = loaded.select(**{name: values or None for name, values in filters.items()})
    if part.events:
        click.echo(timeline(part).text())
        return
    asked = ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in filters.items() if values)
    ops = ", ".join(sorted({event.op for event in loaded}))
    click.echo(f"No event of {trace} fits {asked}. Its operations: {ops}." if asked else f"{trace} has no events.")


@trace.command(cls=Command)
@click.argument("one", type=FILE)
@click.argument("other", type=FILE)
def diff(one: Path, other: Path) -> None:
    """Say where two traces first differ.

    It names the first event that differs, both versions of it, and what usually causes such a difference.

    Exit code: 0 the same, 1 they differ, 2 unusable input.
    """
    from simulator.trace.diff import diff as compare

    found = compare(Trace.load(one), Trace.load(other), (str(one), str(other)))
    click.echo(found.text)
    sys.exit(1 if found else 0)


@trace.command(cls=Command)
@TRACE
@click.option(
    "--chrome", type=FILE, callback=new_file, metavar="FILE", help="JSON for ui.perfetto.dev or chrome://tracing."
)
@click.option(
    "--flight-recorder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=new_file,
    metavar="FOLDER",
    help="Dumps for torch's own analyzer, one a rank.",
)
@TIMELINE
def export(trace: Path, chrome: Path | None, flight_recorder: Path | None, timeline: Path | None) -> None:
    """Write a trace for another tool."""
    from simulator.trace import chrome as chrome_file
    from simulator.trace import flight_recorder as dumps

    if not (chrome or flight_recorder or timeline):
        raise UsageError("say what to export: --chrome FILE, --flight-recorder FOLDER or --timeline FILE")
    loaded = Trace.load(trace)
    if chrome:
        chrome_file.save(loaded, chrome)
        click.echo(f"{chrome}: open it in ui.perfetto.dev or chrome://tracing")
    if flight_recorder:
        dumps.save(loaded, flight_recorder)
        click.echo(f"{flight_recorder}: read it with torchfrtrace {flight_recorder}")
    if timeline:
        draw(loaded, timeline)
        click.echo(str(timeline))


@trace.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("trace", type=FILE, callback=new_file)
def merge(folder: Path, trace: Path) -> None:
    """Make a TRACE of what the ranks of a real job recorded into FOLDER, also if the job was killed.

    The ranks are recorded with `python -m simulator.record` under torchrun.
    """
    from simulator.record import merge as merged

    loaded = merged(folder)
    loaded.save(trace)
    click.echo(f"{trace}: {loaded.world_size} ranks, {len(loaded)} events, wall clocks")
