"""``lockstep timeline``: a saved trace, or two on one time axis, as one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli import FILE, TRACE, Command, new_file
from simulator.trace import Trace


@click.command(cls=Command)
@TRACE
@click.argument("other", type=FILE, required=False)
@click.option("--html", type=FILE, callback=new_file, metavar="FILE", help="Write the page here.")
def timeline(trace: Path, other: Path | None, html: Path | None) -> None:
    """Look at the run of a saved TRACE, or compare it with an OTHER: a page to zoom and search in.

    Without --html it prints the same as text. The page holds traces, script and style; open it in any browser.
    """
    from simulator.show.timeline import timeline as show

    paths = [trace, *([other] if other else [])]
    traces = [Trace.load(path) for path in paths]
    if html is None:
        click.echo("\n\n".join(show(loaded).text() for loaded in traces))
        return
    names = (str(trace), str(other or ""))
    html.write_text(show(traces[0], compare=traces[1] if other else None, names=names).html(), encoding="utf-8")
    click.echo(f"{html}: {', '.join(map(str, paths))}, {sum(map(len, traces))} events")
