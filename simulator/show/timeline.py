"""The timeline of a run: one lane per rank over virtual time, as a picture and as a text that says the same.

It reads a trace and nothing else, so it shows simulated runs and loaded traces alike. The same trace gives the same
SVG, byte for byte, in every process with the same matplotlib. Meant for up to 32 ranks; more are drawn, but small.
"""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from simulator.show import text as twin
from simulator.show import words
from simulator.show.reading import reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.trace import Trace

DPI = 144


class HasName(Protocol):
    """An outcome, as far as a picture needs it."""

    @property
    def name(self) -> str: ...


class Timeline:
    """Shows a trace; in a notebook the value of a cell is the picture, elsewhere print ``timeline.text()``."""

    def __init__(self, trace: Trace, outcome: HasName | None = None) -> None:
        self.trace = trace
        self.outcome_name = outcome.name if outcome is not None else trace.outcome_name or "No outcome"

    @property
    def alt(self) -> str:
        """One sentence for readers who do not see the picture."""
        return twin.alternative(self.trace, self.outcome_name)

    def text(self) -> str:
        """Returns the text twin: totals of each rank, operations in order of virtual time, and a reading."""
        return twin.text(self.trace, self.outcome_name)

    def figure(self) -> Figure:
        """Draws a new matplotlib figure (10 inches wide); nothing global is changed."""
        from simulator.show import canvas

        with canvas.settings():
            return self._draw()

    def svg(self) -> str:
        """Returns the picture as SVG with a title and a description; the same trace gives the same bytes."""
        from simulator.show import canvas

        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with canvas.settings():
            self._draw().savefig(buffer, format="svg", metadata=nothing)
        return _accessible(buffer.getvalue(), words.headline(self.trace, self.outcome_name), self.alt)

    def png(self) -> bytes:
        """Returns the picture as PNG, 1440 pixels wide."""
        from simulator.show import canvas

        buffer = io.BytesIO()
        with canvas.settings():
            self._draw().savefig(buffer, format="png", dpi=DPI, metadata={"Software": None, "Description": self.alt})
        return buffer.getvalue()

    def _draw(self) -> Figure:
        from simulator.show.draw import draw

        line = reading(self.trace)
        title = words.headline(self.trace, self.outcome_name)
        return draw(self.trace, title, f"{line[0].upper()}{line[1:]}.")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Gives notebooks a picture with alternative text and, where pictures cannot be shown, the text twin."""
        bundle = {"image/png": self.png(), "text/plain": self.text()}
        return bundle, {"image/png": {"alt": self.alt, "width": 960}}

    def __repr__(self) -> str:
        return f"<Timeline: {words.headline(self.trace, self.outcome_name)}>"


def timeline(trace: Trace, outcome: HasName | None = None) -> Timeline:
    """Returns the timeline of a trace; the outcome's name is in the trace unless given."""
    return Timeline(trace, outcome)


def _accessible(svg: str, title: str, description: str) -> str:
    """Gives the SVG root a role, a title and a description."""
    start = svg.index("<svg")
    after = svg.index(">", start) + 1
    root = svg[start : after - 1] + f' role="img" aria-label="{escape(description)}">'
    names = f"\n <title>{escape(title)}</title>\n <desc>{escape(description)}</desc>"
    return root + names + svg[after:]
