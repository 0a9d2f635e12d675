"""The simulator's exceptions.

User mistakes raise one of these; a bug of ours is an assert. Inside a rank the communication errors are *also*
instances of the class that a PyTorch user would catch there (`torch.distributed.DistBackendError`): see
`simulator.rank.failures`.
"""

from __future__ import annotations


class SimulatorError(Exception):
    """Root of everything the simulator raises on purpose."""


class UsageError(SimulatorError, ValueError):
    """`run` was called with something that cannot work: the message says what and what to write instead."""


class FaultPlanError(SimulatorError, ValueError):
    """A fault plan that cannot be parsed or cannot fire."""


class TraceError(SimulatorError, ValueError):
    """A trace file that cannot be read."""


class ResultError(SimulatorError, TypeError):
    """A rank returned something that cannot travel back (only plain data and tensors do)."""


class VirtualOutOfMemory(SimulatorError):
    """A rank wanted more memory than its virtual GPU has; in a rank also a `torch.OutOfMemoryError`."""


class RunError(SimulatorError, RuntimeError):
    """What `Run.raise_for_outcome` raises; one subclass for each outcome that is not Completed."""


class CollectiveTimeout(RunError):
    """Ranks waited for an operation that others never called (a hang)."""


class CollectiveMismatch(RunError):
    """Ranks met in one collective with different operations, shapes, dtypes, reduce ops or roots."""


class PeerLost(RunError):
    """A rank that others needed was killed."""


class RankFailed(RunError):
    """A rank raised an exception or its process ended on its own."""


class NoProgress(RunError):
    """A rank burnt its CPU budget without reaching a coordination point."""


OUTCOME_ERRORS: dict[str, type[RunError]] = {
    error.__name__: error for error in (CollectiveTimeout, CollectiveMismatch, PeerLost, RankFailed, NoProgress)
}
