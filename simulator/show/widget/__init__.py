"""The timeline that moves: zoom, search, compare. One script for a notebook (anywidget) and for an HTML file."""

from simulator.show.widget.pack import Notes
from simulator.show.widget.page import page
from simulator.show.widget.places import Place, place_of

__all__ = ["Notes", "Place", "page", "place_of"]
