"""How every kind of stretch and mark looks.

Each kind has its own hatch, so colour is never needed to tell them apart. Colours are from the Okabe-Ito palette (safe
for the common kinds of colour blindness), lightened where text lies on top.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """Fill, outline and hatch of one kind of stretch, with the words of the legend."""

    words: str
    face: str
    edge: str
    hatch: str
    hatch_colour: str
    text: str
    line_style: str = "solid"
    line_width: float = 0.5


INK = "#1b2733"
MUTED = "#5c6873"
FAINT = "#c3cad1"
LANE = "#f4f6f8"
ALARM = "#b3320b"

LOOKS: dict[str, Look] = {
    "compute": Look("compute", "#a9d3ee", "#3f7fa8", "", "#3f7fa8", INK),
    "waiting": Look("waiting for another rank", "#ffffff", "#8b97a3", "////", "#b4bdc6", INK),
    "collective": Look("collective transfer", "#e69f00", "#8a5f00", "||||", "#b87c00", INK),
    "send": Look("send", "#0072b2", "#003f63", "\\\\\\\\", "#9fd0ee", "#ffffff"),
    "recv": Look("recv", "#007a5a", "#00402f", "----", "#7fd6bb", "#ffffff"),
    "failed": Look("stuck, then failed", "#fdece5", ALARM, "xxxx", "#f2b8a2", ALARM, "dashed", 1.3),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """The glyph of a fault."""

    words: str
    marker: str
    face: str
    edge: str
    size: float


MARKS: dict[str, Mark] = {
    "kill": Mark("fault: rank killed", "X", ALARM, "#ffffff", 10.0),
    "slow": Mark("fault: rank slowed down", "v", INK, "#ffffff", 7.5),
    "skip_collective": Mark("fault: collective skipped", "D", "#ffffff", INK, 6.0),
    "hang": Mark("fault: rank hangs", "s", ALARM, "#ffffff", 8.0),
    "preempt": Mark("fault: rank preempted", "^", ALARM, "#ffffff", 8.0),
    "corrupt": Mark("fault: bits flipped", "*", "#ffffff", INK, 9.0),
    "partition": Mark("fault: network cut", "P", INK, "#ffffff", 8.0),
    "slow_link": Mark("fault: link slowed down", "<", INK, "#ffffff", 7.5),
}

FONT = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8.0,
    "text.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "lockstep",
    "path.simplify": False,
}
"""Settings under which figures are drawn and saved, on top of matplotlib's defaults and whatever the user had set."""
