"""``lockstep run``, ``diagnose`` and ``trace``: the simulator from a terminal.

Exit codes: 0 completed, nothing wrong, or the same; 1 the run failed, something is wrong, or traces differ; 2 unusable
input; 3 inconclusive (a fault of the plan never acted); 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import shlex
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simulator.call import REDUCTIONS
from simulator.cluster import PRESETS
from simulator.errors import SimulatorError, UsageError
from simulator.run import Run
from simulator.trace import Trace

if TYPE_CHECKING:
    from simulator.trace.diff import TraceDiff

_RESULT_LENGTH = 200  # characters of a rank's result that are shown


class Command(click.Command):
    """A command whose unusable input is one sentence and exit code 2; so is Ctrl-C, with exit code 130."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SimulatorError as error:
            click.echo(f"lockstep: {error}", err=True)
        except OSError as error:
            if error.filename is None:
                raise
            click.echo(f"lockstep: cannot write {error.filename}: {error.strerror}", err=True)
        except KeyboardInterrupt as interrupt:
            click.echo(f"\nlockstep: {interrupt or 'interrupted'}", err=True)
            ctx.exit(130)
        ctx.exit(2)


def _new_file(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """A file that can be written, known before the work starts."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"cannot write {path}: there is no folder {path.parent}.")
    return path


def _picture(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix not in (".svg", ".png"):
        raise click.BadParameter(f"cannot draw {path}: the name of a timeline ends in .svg or .png.")
    return _new_file(ctx, parameter, path)


_FILE = click.Path(path_type=Path, dir_okay=False)
_TRACE = click.argument("trace", type=_FILE)
_TIMELINE = click.option(
    "--timeline", type=_FILE, callback=_picture, metavar="FILE", help="Draw ranks by time: .svg or .png."
)


@click.command(cls=Command)
@click.argument("program", metavar="FILE.py:FUNCTION")
@click.option("-n", "--ranks", default=4, show_default=True, help="How many ranks run the function.")
@click.option(
    "--faults", default="", metavar="PLAN", help='What goes wrong: "kill(rank=2, step=3); slow(rank=1, factor=3)".'
)
@click.option(
    "--restarts", default=0, show_default=True, help="How often an agent starts the job again after a rank failed."
)
@click.option(
    "--policy",
    default="restart",
    show_default=True,
    type=click.Choice(("restart", "shrink")),
    help="What the agent does then: as many ranks again, or those that did not fail.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of random, numpy and torch in every rank.")
@click.option(
    "--cluster",
    default="a100-80gb",
    show_default=True,
    help=f"The machine whose time is modelled: {', '.join(PRESETS)}.",
)
@click.option(
    "--reduction",
    default="stock",
    show_default=True,
    type=click.Choice(REDUCTIONS),
    help="rank_order: sums whose bits do not depend on buckets or shards.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=1800.0,
    show_default=True,
    help="Virtual seconds until a collective that lacks a rank times out.",
)
@click.option(
    "--twice",
    is_flag=True,
    help="Run again in new processes with another hash seed, and say where the two runs differ.",
)
@click.option(
    "--save",
    type=_FILE,
    callback=_new_file,
    metavar="TRACE",
    help="Save the trace, for `lockstep trace` and `lockstep diagnose`.",
)
@_TIMELINE
def run(program: str, ranks: int, twice: bool, save: Path | None, timeline: Path | None, **options: Any) -> None:
    """Run FUNCTION of FILE.py in several ranks, with torch.distributed ready to use.

    The function runs once in every rank: real processes, real gloo collectives, virtual clocks. A hang, a mismatch or a
    lost rank ends the run with an explanation. The function is called without arguments.

    Exit code: 0 completed, 1 failed (or, with --twice, not the same again), 2 unusable input, 3 inconclusive: a fault
    never acted.
    """
    from simulator import program_file
    from simulator.run import run as simulate
    from simulator.twice import run_again

    function = program_file.load(program)
    result = simulate(function, ranks, **options, replay=_command(program, ranks, options))
    _tell(result)
    found: TraceDiff | None = None
    if twice:
        found = run_again(result, function, ranks, **options)
        click.echo(f"\nAgain, in new processes with another hash seed.\n{found}")
    if save:
        result.save(save)
    if timeline:
        _draw(result.trace, timeline)
    sys.exit(1 if result.outcome.name != "Completed" or found else 3 if result.inconclusive else 0)


def _command(program: str, ranks: int, options: dict[str, Any]) -> str:
    """The command that does it again: ranks and seed always, the rest where it was chosen."""
    chosen: dict[str, Any] = {"ranks": ranks, "seed": options["seed"]}
    context = click.get_current_context()
    for parameter in ("faults", "restarts", "policy", "cluster", "reduction", "timeout_s"):
        if context.get_parameter_source(parameter) == ParameterSource.COMMANDLINE:
            chosen[parameter.removesuffix("_s")] = options[parameter]
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in chosen.items()]
    return f"lockstep run {shlex.quote(program)} {' '.join(words)}"


def _tell(result: Run) -> None:
    """What `simulator.run` has not printed yet."""
    if result.outcome.name == "Completed":
        for rank, value in enumerate(result.results):
            if value is not None:
                click.echo(f"rank {rank} returned {textwrap.shorten(repr(value), _RESULT_LENGTH)}")
        click.echo(str(result.outcome))
    click.echo(textwrap.fill(result.header, 100, break_long_words=False, break_on_hyphens=False))


def _draw(trace: Trace, path: Path) -> None:
    from simulator.show.timeline import timeline

    shown = timeline(trace)
    try:
        path.write_bytes(shown.png() if path.suffix == ".png" else shown.svg().encode())
    except ModuleNotFoundError as error:
        raise UsageError(f"drawing needs {error.name}: install it, or use `lockstep trace show`") from None


@click.command(cls=Command)
@_TRACE
def diagnose(trace: Path) -> None:
    """Say what went wrong in the run of a saved TRACE: which ranks, at which call, and what to do.

    Exit code: 0 nothing wrong, 1 something wrong, 2 unusable input.
    """
    from simulator.diagnose import diagnose as find
    from simulator.show import words

    loaded = Trace.load(trace)
    found = find(loaded)
    click.echo(words.headline(loaded, loaded.outcome_name or "No outcome"))
    click.echo(textwrap.fill(str(found), 100, break_long_words=False, break_on_hyphens=False))
    sys.exit(0 if found.is_healthy else 1)


@click.group()
def trace() -> None:
    """Look at saved traces: show one, compare two, or export one to other tools."""


_many = partial(click.option, multiple=True)


@trace.command(cls=Command)
@_TRACE
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
@click.argument("one", type=_FILE)
@click.argument("other", type=_FILE)
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
@_TRACE
@click.option(
    "--chrome", type=_FILE, callback=_new_file, metavar="FILE", help="JSON for ui.perfetto.dev or chrome://tracing."
)
@click.option(
    "--flight-recorder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_new_file,
    metavar="FOLDER",
    help="Dumps for torch's own analyzer, one a rank.",
)
@_TIMELINE
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
        _draw(loaded, timeline)
        click.echo(str(timeline))
