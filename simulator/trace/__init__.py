"""Traces: what every rank did, in virtual time. One JSON-lines format for everything."""

from simulator.trace.event import FAILED, Event
from simulator.trace.trace import Trace

__all__ = ["FAILED", "Event", "Trace"]
