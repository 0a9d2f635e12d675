"""A torch Store whose dictionary is kept by the coordinator: rendezvous needs no file and no port, and its waits are
seen.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from simulator import wire
from simulator.rank import context
from simulator.rank.failures import StoreTimeout


class RunStore(Store):
    """Called by torch (and, through it, by gloo's C++) for init_process_group, new_group and object collectives."""

    def __init__(self) -> None:
        super().__init__()
        self._timeout = timedelta(0)

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        context.get().link.send(wire.StoreSet(key, _bytes(value)))

    def get(self, key: str) -> bytes:
        return self._ask("get", (key,)).values[0]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._ask("wait", tuple(keys), timeout=timeout)

    def add(self, key: str, amount: int) -> int:
        return self._ask("add", (key,), amount=amount).amount

    def check(self, keys: list[str]) -> bool:
        return bool(self._ask("check", tuple(keys)).amount)

    def delete_key(self, key: str) -> bool:
        return bool(self._ask("delete", (key,)).amount)

    def num_keys(self) -> int:
        return self._ask("num_keys", ()).amount

    deleteKey, getNumKeys = delete_key, num_keys  # the names by which C++ looks them up

    def append(self, key: str, value: Any) -> None:
        self._ask("append", (key,), values=(_bytes(value),))

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        return self._ask("compare_set", (key,), values=(_bytes(expected), _bytes(desired))).values[0]

    def clone(self) -> RunStore:
        return self  # one dictionary, and no connection that two threads could not share

    def has_extended_api(self) -> bool:
        return False

    def _ask(
        self, call: str, keys: tuple[str, ...], *, timeout: timedelta | None = None, **details: Any
    ) -> wire.Answer:
        timeout_ns = int((timeout or self._timeout).total_seconds() * 1e9)
        is_own = timeout is not None and not _is_of_torch(sys._getframe(1).f_back)
        answer = context.get().ask_store(call, keys, timeout_ns=timeout_ns, is_own=is_own, **details)
        if answer.error:
            raise (dist.DistStoreError if is_own else StoreTimeout)(answer.error)
        return answer


def _is_of_torch(frame: FrameType | None) -> bool:
    """Whether torch, or we for torch, waits for a rendezvous. Its time-outs are short and of real time, and it tries
    again: what counts there is the group's.
    """
    return frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in ("torch", "simulator")


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return bytes(value)
