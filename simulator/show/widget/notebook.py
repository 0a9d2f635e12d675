"""The timeline as a widget of a notebook, and the static picture that stays in the saved notebook.

Import it only where anywidget is installed (the course's notebooks). A notebook keeps a widget's data only while its
kernel runs; so a cell also gets the static picture, which a live widget hides and a reader without a kernel sees.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets
from IPython.display import HTML, display

from simulator.show.widget.page import script, style

#: Hides the sentence of a widget without its kernel, and says what can be done instead.
_STATIC = """<style>
.jp-OutputArea-child:has(+ .jp-OutputArea-child .lockstep-static) .jp-OutputArea-output:not(:has(*)) { display: none; }
</style><p class="lockstep-static">
<em>A static picture. Run the cell to zoom, search and compare.</em></p>"""
#: A live widget hides the static picture, which follows it.
_LIVE = """
.jp-OutputArea-child:has(.lockstep-timeline, .lockstep-curve) + .jp-OutputArea-child:has(.lockstep-static),
.jp-OutputArea-child:has(.lockstep-timeline, .lockstep-curve) + .jp-OutputArea-child:has(.lockstep-static)
  + .jp-OutputArea-child { display: none; }
"""

Picture = tuple[dict[str, Any], dict[str, Any]]
"""A MIME bundle and its metadata."""


def widget(esm: str, css: str, data: bytes, at: int) -> anywidget.AnyWidget:
    """A widget of a script with ``render``, its style, data for it, and a number that says where it opens."""
    traits = {"data": traitlets.Bytes(data).tag(sync=True), "at": traitlets.Int(at).tag(sync=True)}
    # The class name becomes part of the id by which the front end replaces styles: one for each script.
    kind: Any = type(f"Widget{len(esm)}", (anywidget.AnyWidget,), {"_esm": esm, "_css": css + _LIVE, **traits})
    made: anywidget.AnyWidget = kind()
    return made


def timeline_widget(packed: bytes, at: int) -> anywidget.AnyWidget:
    """Packed traces (`simulator.show.widget.pack`) with the page's script; ``at``: the place to go to, -1 for none."""
    return widget(script() + "\nexport default { render };\n", style(), packed, at)


def with_picture(shown: anywidget.AnyWidget, picture: Picture) -> None:
    """Displays a widget and, after it, the static picture."""
    display(shown)
    display(HTML(_STATIC))
    display(picture[0], metadata=picture[1], raw=True)
