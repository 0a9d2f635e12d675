"""The deterministic world: real ranks doing real gloo collectives, told in virtual time.

    import simulator

    def hello():
        import torch.distributed as dist
        return dist.get_rank()

    simulator.run(hello, world_size=4).results   # [0, 1, 2, 3]

Importing it does not import torch.
"""

from simulator.cluster import Cluster, Link
from simulator.diagnose import Diagnosis, diagnose
from simulator.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    FaultPlanError,
    NoProgress,
    PeerLost,
    RankFailed,
    ResultError,
    RunError,
    SimulatorError,
    TraceError,
    UsageError,
    VirtualOutOfMemory,
)
from simulator.faults import FaultPlan
from simulator.inside import annotate, compute, steps
from simulator.memory import memory_profile
from simulator.outcome import Outcome
from simulator.planner import plan
from simulator.run import Run, run
from simulator.script import run_script
from simulator.trace import Event, Trace
from simulator.twice import run_twice

__all__ = [
    "Cluster",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "Diagnosis",
    "Event",
    "FaultPlan",
    "FaultPlanError",
    "Link",
    "NoProgress",
    "Outcome",
    "PeerLost",
    "RankFailed",
    "ResultError",
    "Run",
    "RunError",
    "SimulatorError",
    "Trace",
    "TraceError",
    "UsageError",
    "VirtualOutOfMemory",
    "annotate",
    "compute",
    "diagnose",
    "memory_profile",
    "plan",
    "run",
    "run_script",
    "run_twice",
    "steps",
]
