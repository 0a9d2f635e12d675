"""The exceptions that user code sees inside a rank: ours by name, PyTorch's by class."""

from __future__ import annotations

import torch.distributed as dist

from simulator import errors


class CollectiveTimeout(errors.CollectiveTimeout, dist.DistBackendError):
    """A collective waited for longer than the group's (virtual) timeout."""


class CollectiveMismatch(errors.CollectiveMismatch, dist.DistBackendError):
    """The ranks called different things in one collective."""


class PeerLost(errors.PeerLost, dist.DistBackendError):
    """A rank that the operation needs is gone."""


class StoreTimeout(errors.CollectiveTimeout, dist.DistStoreError):
    """A rendezvous that another rank never came to."""


class Unsupported(errors.UsageError, NotImplementedError):
    """Something that torch has, but gloo on CPU, or this simulator, cannot do; the message says what to use."""


_BY_KIND = {cls.__name__: cls for cls in (CollectiveTimeout, CollectiveMismatch, PeerLost)}


def failure(kind: str, text: str) -> Exception:
    """A new exception for a verdict of the coordinator."""
    return _BY_KIND[kind](text)


def is_derived(error: BaseException | None) -> bool:
    """Whether an exception is, or was caused by, a verdict: then the rank is a victim, not the cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, errors.RunError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
