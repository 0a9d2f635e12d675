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
_STATIC = """<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .lockstep-static) .jupyter-widgets:not(:has(*))
{ display: none; }</style><p class="lockstep-static">
<em>A static picture. Run the cell to zoom, search and compare.</em></p>"""


class TimelineWidget(anywidget.AnyWidget):
    """Packed traces (`simulator.show.widget.pack`) with the page's script; ``at``: the place to go to, -1 for none."""

    _esm = script() + "\nexport default { render };\n"
    _css = style()
    data = traitlets.Bytes().tag(sync=True)
    at = traitlets.Int(-1).tag(sync=True)


def show(packed: bytes, at: int, picture: tuple[dict[str, Any], dict[str, Any]]) -> TimelineWidget:
    """Displays the widget and, after it, the static picture as a bundle and its metadata."""
    widget = TimelineWidget(data=packed, at=at)
    display(widget)
    display(HTML(_STATIC))
    data, metadata = picture
    display(data, metadata=metadata, raw=True)
    return widget
