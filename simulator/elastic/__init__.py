"""Restarts as an elastic agent does them: when a rank fails all ranks stop, and a new incarnation of the job begins."""

from simulator.elastic.incarnation import Incarnation
from simulator.elastic.policy import Exit, Policy, Progress

__all__ = ["Exit", "Incarnation", "Policy", "Progress"]
