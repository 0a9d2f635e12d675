"""``lockstep run`` and ``diagnose``: the simulator from a terminal.

Exit codes: 0 completed, or nothing wrong; 1 the run failed, or something is wrong; 2 unusable input; 3 inconclusive (a
fault of the plan never acted); 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simulator.call import CLOCKS, REDUCTIONS
from simulator.cluster import PRESETS
from simulator.errors import SimulatorError, UsageError
from simulator.run import Run
from simulator.trace import Trace

if TYPE_CHECKING:
    from simulator.trace.diff import TraceDiff

_RESULT_LENGTH = 200  # characters of a rank's result that are shown
#: Options that the line which replays a run repeats where they were chosen.
_TOLD = (
    *("faults", "restarts", "policy", "cluster", "reduction", "timeout_s"),
    *("memory_gib", "clocks", "jitter", "cpu_limit_s"),
)


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


def new_file(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """A file that can be written, known before the work starts."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"cannot write {path}: there is no folder {path.parent}.")
    return path


def _picture(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix not in (".svg", ".png"):
        raise click.BadParameter(f"cannot draw {path}: the name of a timeline ends in .svg or .png.")
    return new_file(ctx, parameter, path)


FILE = click.Path(path_type=Path, dir_okay=False)
TRACE = click.argument("trace", type=FILE)
TIMELINE = click.option(
    "--timeline", type=FILE, callback=_picture, metavar="FILE", help="Draw ranks by time: .svg or .png."
)


@click.command(cls=Command)
@click.argument("program", metavar="FILE.py[:FUNCTION]")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@click.option("-n", "--ranks", default=4, show_default=True, help="How many ranks run it.")
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
    "--memory-gib",
    type=float,
    metavar="GIB",
    help="Follow the tensors of every rank; one that holds more than this fails.",
)
@click.option(
    "--clocks",
    default="virtual",
    show_default=True,
    type=click.Choice(CLOCKS),
    help="What time.time, perf_counter and sleep are in the ranks.",
)
@click.option("--jitter", default=0.0, show_default=True, help="Relative spread of operator times, from the seed.")
@click.option(
    "--cpu-limit",
    "cpu_limit_s",
    default=30.0,
    show_default=True,
    help="Processor seconds that a rank may use between two collectives.",
)
@click.option(
    "--debug-rank", type=int, metavar="RANK", help="This rank may ask you: breakpoint(), pdb and input() work in it."
)
@click.option(
    "--twice",
    is_flag=True,
    help="Run again in new processes with another hash seed, and say where the two runs differ.",
)
@click.option(
    "--save",
    type=FILE,
    callback=new_file,
    metavar="TRACE",
    help="Save the trace, for `lockstep trace` and `lockstep diagnose`.",
)
@TIMELINE
def run(
    program: str,
    arguments: tuple[str, ...],
    ranks: int,
    twice: bool,
    save: Path | None,
    timeline: Path | None,
    **options: Any,
) -> None:
    """Run FILE.py, or FUNCTION of FILE.py, in several ranks.

    FILE.py alone is run as torchrun runs a script, with the ARGUMENTS. FUNCTION is called without arguments, with
    torch.distributed ready to use. Real processes, real gloo collectives, virtual clocks. A hang, a mismatch or a lost
    rank ends the run with an explanation.

    Exit code: 0 completed, 1 failed (or, with --twice, not the same again), 2 unusable input, 3 inconclusive: a fault
    never acted.
    """
    from simulator.run import run as simulate
    from simulator.twice import run_again

    if twice and options["debug_rank"] is not None:
        raise UsageError("--twice and --debug-rank do not go together: what a person types is not the same twice")
    function, options["args"] = _what_to_run(program, arguments)
    result = simulate(function, ranks, **options, replay=_command(program, arguments, ranks, options))
    _tell(result)
    found: TraceDiff | None = None
    if twice:
        found = run_again(result, function, ranks, **options)
        click.echo(f"\nAgain, in new processes with another hash seed.\n{found}")
    if save:
        result.save(save)
    if timeline:
        draw(result.trace, timeline)
    sys.exit(1 if result.outcome.name != "Completed" or found else 3 if result.inconclusive else 0)


def _what_to_run(program: str, arguments: tuple[str, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function of the ranks, and what it is called with."""
    from simulator import program_file, script

    if ":" not in program:
        script.check_script(Path(program))
        return script.in_rank, (program, arguments)
    if arguments:
        raise UsageError(f"{program} is called without arguments; those after -- are for a script, FILE.py alone")
    return program_file.load(program), ()


def _command(program: str, arguments: tuple[str, ...], ranks: int, options: dict[str, Any]) -> str:
    """The command that does it again: ranks and seed always, the rest where it was chosen."""
    chosen: dict[str, Any] = {"ranks": ranks, "seed": options["seed"]}
    context = click.get_current_context()
    for name in _TOLD:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            chosen[name.removesuffix("_s").replace("_", "-")] = options[name]
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in chosen.items()]
    words += ["--", shlex.join(arguments)] if arguments else []
    return f"lockstep run {shlex.quote(program)} {' '.join(words)}"


def _tell(result: Run) -> None:
    """What `simulator.run` has not printed yet."""
    if result.outcome.name == "Completed":
        for rank, value in enumerate(result.results):
            if value is not None:
                click.echo(f"rank {rank} returned {textwrap.shorten(repr(value), _RESULT_LENGTH)}")
        click.echo(str(result.outcome))
    click.echo(textwrap.fill(result.header, 100, break_long_words=False, break_on_hyphens=False))


def draw(trace: Trace, path: Path) -> None:
    from simulator.show.timeline import timeline

    shown = timeline(trace)
    try:
        path.write_bytes(shown.png() if path.suffix == ".png" else shown.svg().encode())
    except ModuleNotFoundError as error:
        raise UsageError(f"drawing needs {error.name}: install it, or use `lockstep trace show`") from None


@click.command(cls=Command)
@TRACE
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
