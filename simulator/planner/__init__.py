"""The planner: memory, time and cost of a transformer's training step under every layout, and which to choose.

    simulator.plan("13b", gpus=16, batch=64).best.layout.name

Everything it says is predicted; docs/planner.md tells how wrong it is on published runs.
"""

from simulator.planner.layout import PRECISIONS, Layout, Precision
from simulator.planner.model import MODELS, Transformer, get_model
from simulator.planner.planning import Planning, plan
from simulator.planner.predict import Prediction, predict

__all__ = [
    "MODELS",
    "PRECISIONS",
    "Layout",
    "Planning",
    "Precision",
    "Prediction",
    "Transformer",
    "get_model",
    "plan",
    "predict",
]
