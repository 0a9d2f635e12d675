"""The timeline of a run: one lane per rank over virtual time, as a picture and as a text that says the same.

It reads a trace and nothing else, so it shows simulated runs and loaded traces alike. The same trace gives the same
SVG, byte for byte, in every process with the same matplotlib. Meant for up to 32 ranks; more are drawn, but small.
"""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from simulator.errors import UsageError
from simulator.show import text as twin
from simulator.show import words
from simulator.show.reading import reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.diagnose import Diagnosis
    from simulator.show.widget import Notes, Place
    from simulator.trace import Event, Trace

DPI = 144


class HasName(Protocol):
    """An outcome, as far as a picture needs it."""

    @property
    def name(self) -> str: ...


class Timeline:
    """Shows a trace, or two on one time axis.

    In a notebook the value of a cell is a widget to zoom and search in, with the static picture for readers without a
    kernel; elsewhere print ``timeline.text()`` or write ``timeline.html()``. ``svg``, ``png`` and ``text`` are of the
    first trace alone.
    """

    def __init__(
        self,
        trace: Trace,
        outcome: HasName | None = None,
        *,
        compare: Trace | None = None,
        names: tuple[str, str] = ("the first", "the second"),
        at: Diagnosis | Event | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.trace = trace
        self.outcome_name = outcome.name if outcome is not None else trace.outcome_name or "No outcome"
        self.traces = (trace,) if compare is None else (trace, compare)
        self.names = names
        self.at = at
        self.notes = notes

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

    def html(self) -> str:
        """Returns one HTML page with the timeline to zoom and search in; it needs no network and no kernel."""
        from simulator.show.widget import page

        return page(self.traces, self.names, self._places(), self.notes)

    def _places(self) -> list[Place]:
        """Where to open: one place or none. Raises `UsageError` for a place that the trace does not have."""
        from simulator.show.widget import place_of

        if self.at is None:
            return []
        place = place_of(self.trace, self.at)
        if place is None:
            raise UsageError("timeline(at=...): the trace has no such event; give a diagnosis or an event of it")
        return [place]

    def _draw(self) -> Figure:
        from simulator.show.draw import draw

        line = reading(self.trace)
        title = words.headline(self.trace, self.outcome_name)
        return draw(self.trace, title, f"{line[0].upper()}{line[1:]}.")

    def _ipython_display_(self) -> None:
        """Shows the widget where anywidget is installed, else the static picture."""
        from IPython.display import display

        picture = self._repr_mimebundle_()
        try:
            from simulator.show.widget.notebook import timeline_widget, with_picture
        except ModuleNotFoundError:
            display(picture[0], metadata=picture[1], raw=True)
            return
        from simulator.show.widget.pack import pack

        places = self._places()
        packed = pack(self.traces, self.names, places, self.notes)
        with_picture(timeline_widget(packed, 0 if places else -1), picture)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Gives notebooks a picture with alternative text and, where pictures cannot be shown, the text twin."""
        shown = [self, *(Timeline(trace) for trace in self.traces[1:])]
        bundle = {
            "image/png": _below_each_other([each.png() for each in shown]),
            "text/plain": "\n\n".join(each.text() for each in shown),
        }
        return bundle, {"image/png": {"alt": " ".join(each.alt for each in shown), "width": 960}}

    def __repr__(self) -> str:
        return f"<Timeline: {words.headline(self.trace, self.outcome_name)}>"


def timeline(
    trace: Trace,
    outcome: HasName | None = None,
    *,
    compare: Trace | None = None,
    names: tuple[str, str] = ("the first", "the second"),
    at: Diagnosis | Event | None = None,
    notes: Notes | None = None,
) -> Timeline:
    """Returns the timeline of a trace: the value of a notebook cell, or ``.html()``, ``.svg()``, ``.text()``.

    Args:
        trace: what to show.
        outcome: how the run ended; its name is in the trace unless given.
        compare: another trace, shown on the same time axis.
        names: what the two are called.
        at: where to open: what `simulator.diagnose` found, or an event of the trace.
        notes: points of time to mark in the widget and the page, such as when gradients are ready.
    """
    return Timeline(trace, outcome, compare=compare, names=names, at=at, notes=notes)


def _below_each_other(pictures: list[bytes]) -> bytes:
    """Joins PNGs of one width."""
    if len(pictures) == 1:
        return pictures[0]
    from PIL import Image  # comes with matplotlib

    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    joined = Image.new("RGB", (images[0].width, sum(image.height for image in images)), "white")
    top = 0
    for image in images:
        joined.paste(image, (0, top))
        top += image.height
    buffer = io.BytesIO()
    joined.save(buffer, format="png")
    return buffer.getvalue()


def _accessible(svg: str, title: str, description: str) -> str:
    """Gives the SVG root a role, a title and a description."""
    start = svg.index("<svg")
    after = svg.index(">", start) + 1
    root = svg[start : after - 1] + f' role="img" aria-label="{escape(description)}">'
    names = f"\n <title>{escape(title)}</title>\n <desc>{escape(description)}</desc>"
    return root + names + svg[after:]
