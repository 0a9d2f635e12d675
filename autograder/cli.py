"""The command ``lockstep``: one function a command, each importing what it needs only when it runs.

Exit codes of every command: 0 passed or done, 1 not passed, 2 unusable input (`run` also: 3 inconclusive).
"""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Any

import click

from autograder.errors import LabError

# command -> (module, attribute, one line of help). Modules are imported when their command runs.
_COMMANDS = {
    "build": ("autograder.build.command", "build", "Make the student notebooks from solutions/ (authors)."),
    "check": ("autograder.commands", "check", "Check one exercise of your notebook."),
    "diagnose": ("simulator.cli", "diagnose", "Say what went wrong in the run of a saved trace."),
    "doctor": ("autograder.doctor", "doctor", "Say whether this machine can run the course."),
    "grade": ("autograder.nbgrader_bridge.commands", "grade", "Grade a folder of submissions (instructors)."),
    "hint": ("autograder.commands", "hint", "Show the next hint for what the last check found."),
    "mutants": ("autograder.matrix.commands", "mutants", "Run wrong and right solutions against the checks (authors)."),
    "nbgrader": ("autograder.nbgrader_bridge.commands", "nbgrader", "The steps of nbgrader, one by one (instructors)."),
    "plan": ("simulator.planner.command", "plan", "Rank the ways to lay out training on GPUs, as predicted."),
    "release": ("autograder.nbgrader_bridge.handout", "release", "Write the course as students get it (instructors)."),
    "run": ("simulator.cli", "run", "Run a script, or a function of one, in several ranks."),
    "status": ("autograder.commands", "status", "Show what is done and what is next."),
    "timeline": ("simulator.show.command", "timeline", "Look at one saved trace, or compare two, in a browser."),
    "trace": ("simulator.trace.command", "trace", "Show, compare or export saved traces."),
    "validate": ("autograder.matrix.commands", "validate", "Say what a lab still lacks (authors)."),
}


class _LazyGroup(click.Group):
    """A group that knows names and help lines without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
        if near and args[0] not in _COMMANDS:
            raise click.UsageError(f"There is no command {args[0]!r}: did you mean {near[0]}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _COMMANDS[name][2]) for name in self.list_commands(ctx) if name in _COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Lockstep: a course on distributed and fault-tolerant training."""


def main(argv: list[str] | None = None) -> Any:
    """Run the command line; an error of the user is one sentence and exit code 2."""
    try:
        return cli.main(args=argv, prog_name="lockstep", standalone_mode=True)
    except LabError as error:
        click.echo(f"lockstep: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
