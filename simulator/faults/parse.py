"""The text of a plan: one line of calls with literal arguments. A plan is data, never code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from simulator.errors import FaultPlanError
from simulator.faults.fault import KINDS

_WORDS = ("phase", "where")  # the arguments that are words; the quotes may be left out
_SHAPES: dict[str, str] = {
    "steps": "a pair of numbers or a range",
    "ranks": "a pair of numbers",
    "nodes": "a pair of numbers",
    "bits": "a number or a list of numbers",
    "sets": "sets of ranks, ((0, 1), (2, 3))",
}


def parse_calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """``kill(rank=2, step=3); slow(...)`` -> ("kill", {"rank": 2, "step": 3}), ...

    Raises:
        FaultPlanError: what cannot be read, with the form that can.
    """
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        yield _parse_call(part)


def _parse_call(part: str) -> tuple[str, dict[str, Any]]:
    try:
        call = ast.parse(part, mode="eval").body
    except SyntaxError:
        raise FaultPlanError(f"cannot read the fault {part!r}: write it as kill(rank=2, step=3)") from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args):
        raise FaultPlanError(f"cannot read the fault {part!r}: write it as kill(rank=2, step=3)")
    kind = call.func.id
    if kind not in KINDS:
        raise FaultPlanError(f"unknown fault {kind!r}: use {', '.join(KINDS)}")
    words = {str(word.arg): _value(part, str(word.arg), word.value) for word in call.keywords}
    _complain(part, "does not take", set(words) - set(KINDS[kind].takes))
    _complain(part, "needs", set(KINDS[kind].needs) - set(words))
    return kind, words


def _complain(part: str, verb: str, names: Iterable[str]) -> None:
    if names := sorted(names):
        raise FaultPlanError(f"the fault {part!r} {verb} {', '.join(names)}")


def _value(part: str, name: str, node: ast.expr) -> Any:
    """The argument `name`: a number, a word, or numbers in brackets; `range(a, b)` is read as a pair."""
    if name in _WORDS:
        return _word(part, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        node = ast.Tuple(elts=node.args, ctx=ast.Load())
    try:
        value = _frozen(ast.literal_eval(node))
    except ValueError:
        value = None
    if not _fits(name, value):
        raise FaultPlanError(
            f"the fault {part!r}: {ast.unparse(node)} is not {_SHAPES.get(name, 'a number or a range')}"
        )
    return value


def _word(part: str, node: ast.expr) -> str:
    """A name with or without quotes: phase=save-write is what one types in a shell."""
    text = node.value if isinstance(node, ast.Constant) else ast.unparse(node).replace(" ", "")
    if not isinstance(text, str) or not text.replace("-", "_").isidentifier():
        raise FaultPlanError(f"the fault {part!r}: {ast.unparse(node)} is not a word")
    return text


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _fits(name: str, value: Any) -> bool:
    if name == "sets":
        return isinstance(value, tuple) and all(isinstance(part, tuple) and _are_whole(part) for part in value)
    if isinstance(value, tuple):
        return _are_whole(value) and (name == "bits" or (len(value) == 2 and name in _SHAPES))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and name not in ("steps", "ranks", "nodes")


def _are_whole(values: tuple[Any, ...]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
