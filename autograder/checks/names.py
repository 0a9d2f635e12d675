"""The names that a cell binds, read from its text: nothing of the cell runs.

A cell that is no valid Python still tells its functions, by the lines that begin with ``def``.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
import threading
from collections.abc import Iterable
from typing import Literal

_DEF = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_LIKENESS = 0.75  # as difflib counts it; below, two names are two names
_PARSING = threading.Lock()


def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """`ast.parse`, one thread at a time.

    A garbage collection in the middle of it can let another thread in, and then CPython 3.11 raises a SystemError
    ("AST constructor recursion depth mismatch") for text that is right.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse`.
    """
    with _PARSING:
        return ast.parse(source, mode=mode)


@functools.lru_cache(maxsize=256)  # every exercise of a lab is looked for in every cell
def top_level(source: str) -> frozenset[str]:
    """Functions, classes and variables that the cell binds outside of any function."""
    tree = tree_of(source)
    if tree is None:
        return frozenset(_DEF.findall(source))
    found: set[str] = set()
    for statement in ast.iter_child_nodes(tree):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            found |= _stored(statement)
    return frozenset(found)


def defines(source: str, names: Iterable[str]) -> bool:
    """Whether the cell binds one of ``names`` at its top level."""
    return not top_level(source).isdisjoint(names)


def similar(name: str, *sources: str, outside_functions: bool = False) -> str:
    """The name in ``sources`` that looks most like ``name``, for "did you mean"; "" if none does."""
    known: set[str] = set()
    for source in sources:
        known |= top_level(source) if outside_functions else _bound(source)
    found = difflib.get_close_matches(name, sorted(known - {name}), n=1, cutoff=_LIKENESS)
    return found[0] if found else ""


def _bound(source: str) -> set[str]:
    """Every name that the cell binds anywhere: also parameters, local variables and imports."""
    tree = tree_of(source)
    if tree is None:
        return set()
    found = _stored(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def _stored(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def tree_of(source: str) -> ast.AST | None:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
