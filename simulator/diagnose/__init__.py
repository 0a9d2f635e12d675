"""What went wrong first: from a trace to a class, the culprits, a call site and advice."""

from simulator.diagnose.diagnose import diagnose
from simulator.diagnose.diagnosis import KINDS, Diagnosis

__all__ = ["KINDS", "Diagnosis", "diagnose"]
