"""One HTML file with everything in it: traces, script and style. It asks no other machine for anything."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from simulator.show import words
from simulator.show.timeline import timeline
from simulator.show.widget.pack import Notes, pack
from simulator.show.widget.places import Place
from simulator.trace import Trace

_SCRIPTS = ("data.js", "words.js", "paint.js", "view.js", "main.js")
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
body {{ margin: 12px; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111418; color: #e8ecf0; }} }}
{style}</style>
<body>
<main id="timeline"><pre>{text}</pre></main>
<script id="traces" type="text/plain">{data}</script>
<script type="module">
{script}
const packed = Uint8Array.from(atob(document.getElementById("traces").textContent), (letter) => letter.charCodeAt(0));
show(packed, document.getElementById("timeline"), {at});
</script>
</body>
</html>
"""


@cache
def script() -> str:
    """The JavaScript of the widget: its files one after the other, without a build step."""
    return "\n".join(_file(name) for name in _SCRIPTS)


@cache
def style() -> str:
    """The widget's CSS."""
    return _file("style.css")


def page(traces: Sequence[Trace], names: Sequence[str], extra: Sequence[Place] = (), notes: Notes | None = None) -> str:
    """The timeline of one trace, or of two on one axis, as a self-contained HTML page.

    Where scripts are off it shows the text twin. With `extra`, it opens at the first of these places.
    """
    title = " and ".join(words.headline(trace, timeline(trace).outcome_name) for trace in traces)
    return _PAGE.format(
        title=escape(title),
        style=style(),
        text=escape("\n\n".join(timeline(trace).text() for trace in traces)),
        data=base64.b64encode(pack(traces, names, extra, notes)).decode(),
        script=script(),
        at=0 if extra else -1,
    )


def _file(name: str) -> str:
    return files("simulator.show.widget").joinpath(name).read_text(encoding="utf-8")
