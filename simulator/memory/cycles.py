"""Python's cycle collector at fixed points of the program.

Storages in a reference cycle (an exception that is kept with its traceback, a graph that refers to itself) die when the
collector runs. By itself it runs after so many allocations, among them those of code whose course depends on the
machine; so would the ledger. `control` switches that off, and `collect` is called where a step begins: cycles that a
step left are gone in the next one, in every run. Within a step they stay. Cycles that were dropped only after they had
lived through a `collect` stay too, unless the program calls `gc.collect` itself: looking at old objects takes 0.1 s.
"""

from __future__ import annotations

import gc


def control() -> None:
    """From now on `collect` alone collects cycles. What exists already (torch, say) is left out for good."""
    gc.disable()
    gc.freeze()


def collect() -> None:
    """Frees cycles among the objects made since the last call."""
    gc.collect(1)
