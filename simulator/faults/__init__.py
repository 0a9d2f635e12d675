"""Fault plans: what goes wrong in a run, and exactly where.

A plan is immutable, prints as the text that `FaultPlan.parse` reads back, and is keyed to named points of the program
(a step, the k-th collective of a rank, a phase, a file operation), never to wall-clock time: that is why the same plan
does the same thing on every machine.
"""

from simulator.faults.fault import CONDITIONS, ENDS, KINDS, PHASES, Fault
from simulator.faults.generate import by_mtbf, during_recovery, phases_by_ranks, two_faults
from simulator.faults.plan import FaultPlan
from simulator.faults.shrink import shrink

__all__ = [
    "CONDITIONS",
    "ENDS",
    "KINDS",
    "PHASES",
    "Fault",
    "FaultPlan",
    "by_mtbf",
    "during_recovery",
    "phases_by_ranks",
    "shrink",
    "two_faults",
]
