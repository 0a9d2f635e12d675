"""A real torchrun job on gloo, recorded as a trace with wall clocks: ``python -m simulator.record trainer.py``.

    torchrun --nproc-per-node 3 -m simulator.record --trace trace.jsonl trainer.py --steps 100

Nothing in the trainer changes. Groups on NCCL are not wrapped: for those there is torch's flight recorder.
"""

from simulator.record.merge import merge

__all__ = ["merge"]
