"""The rendezvous store of a run: a dictionary that the coordinator keeps, so that waits for it are seen like every
other wait.
"""

from __future__ import annotations

from simulator import wire
from simulator.coordinator.records import ProtocolError

_READS = ("get", "wait")
#: call -> least number of keys and of values that it comes with.
_NEEDS = {"get": (0, 0), "wait": (0, 0), "check": (0, 0), "num_keys": (0, 0), "add": (1, 0), "delete": (1, 0)}
_NEEDS |= {"append": (1, 1), "compare_set": (1, 2)}


class Store:
    """Values by key. Reads are answered as soon as their keys are there (gloo connects sockets between two reads, so a
    rank may depend on it while others run); calls whose answer depends on an order (`add`, ...) when no rank can run,
    by (virtual time, rank).
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def accept(self, call: wire.StoreCall) -> None:
        """Raises ProtocolError for a call that no rank of ours makes."""
        keys, values = _NEEDS.get(call.call, (1 << 30, 0))
        if len(call.keys) < keys or len(call.values) < values:
            raise ProtocolError(f"there is no store call {call.call!r} with these words")

    def is_ready(self, call: wire.StoreCall) -> bool:
        """A read whose keys are all there."""
        return call.call in _READS and all(key in self._values for key in call.keys)

    def is_ordered(self, call: wire.StoreCall) -> bool:
        return call.call not in _READS

    def answer(self, call: wire.StoreCall) -> wire.Answer:
        """The reply to a call that is ready or ordered."""
        answer = self._answer(call)
        answer.thread = call.thread
        return answer

    def _answer(self, call: wire.StoreCall) -> wire.Answer:
        match call.call:
            case "get":
                return wire.Answer("", values=tuple(self._values[key] for key in call.keys))
            case "wait":
                return wire.Answer("")
            case "add":
                total = _number(self._values.get(call.keys[0], b"0")) + call.amount
                self._values[call.keys[0]] = str(total).encode()
                return wire.Answer("", amount=total)
            case "check":
                return wire.Answer("", amount=int(all(key in self._values for key in call.keys)))
            case "delete":
                return wire.Answer("", amount=int(self._values.pop(call.keys[0], None) is not None))
            case "num_keys":
                return wire.Answer("", amount=len(self._values))
            case "append":
                self._values[call.keys[0]] = self._values.get(call.keys[0], b"") + call.values[0]
                return wire.Answer("")
            case "compare_set":
                return wire.Answer("", values=(self._compare_set(call),))
        raise AssertionError(f"unknown store call {call.call}")

    def _compare_set(self, call: wire.StoreCall) -> bytes:
        """As torch's FileStore: set when the key is missing and nothing is expected, or when it holds what is
        expected.
        """
        expected, desired = call.values[:2]
        current = self._values.get(call.keys[0])
        if current == expected or (current is None and not expected):
            self._values[call.keys[0]] = current = desired
        return expected if current is None else current


def _number(value: bytes) -> int:
    """A counter; a value that is none counts as 0, as what a rank did to it is its own affair."""
    return int(value) if value.lstrip(b"-").isdigit() and len(value) <= 20 else 0
