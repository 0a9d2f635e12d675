"""Pictures and texts of a trace: what every rank did over virtual time. Importing this does not import matplotlib."""

from simulator.show.timeline import Timeline, timeline
from simulator.show.totals import RankTotals, totals

__all__ = ["RankTotals", "Timeline", "timeline", "totals"]
