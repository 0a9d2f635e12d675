"""What an exercise cell uses that its exercise does not ask for: a word to the instructor, never a verdict.

A rank's process is the student's: who rewrites the simulator in it can announce messages that were never sent, and
ranks can talk by files and sockets that nobody counts. Both need one of the names below. The cell is read, not run; a
cell that hides them well is not noticed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import simulator
from autograder.checks import names

# fmt: off
_MODULES = frozenset({
    "autograder", "builtins", "ctypes", "gc", "importlib", "inspect", "io", "mmap", "multiprocessing", "os", "pathlib",
    "pickle", "shutil", "signal", "socket", "subprocess", "sys", "tempfile",
})
_CALLS = frozenset({"__import__", "eval", "exec", "globals", "open", "torch.load", "torch.save"})
_ATTRIBUTES = frozenset({
    "_getframe", "__builtins__", "__class__", "__code__", "__globals__", "__reduce__", "__subclasses__",
    "f_back", "f_globals", "f_locals", "gi_frame", "tb_frame",
})
# fmt: on


def reaches(source: str, given: str) -> list[str]:
    """The names in the cell `source` that reach beyond an exercise, in the order of their first use.

    Args:
        given: setup and starter code of the exercise: what stands there is not told.
    """
    try:
        tree = names.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = (name for node in ast.walk(tree) for name in _named(node))
    return list(dict.fromkeys(name for name in found if not re.search(rf"\b{re.escape(name)}\b", given)))


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_beyond(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module:
        whole = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from [node.module] if _is_beyond(node.module) else [name for name in whole if _is_beyond(name)]
    elif isinstance(node, ast.Attribute):
        text = ast.unparse(node) if isinstance(node.value, ast.Name) else ""
        ours = text.startswith("simulator.") and _is_beyond(text)
        yield from [node.attr] if node.attr in _ATTRIBUTES else [text] if text in _CALLS or ours else []
    elif isinstance(node, ast.Name) and node.id in _CALLS:
        yield node.id


def _is_beyond(dotted: str) -> bool:
    """Whether a module, or a name in one, is on the list; of `simulator` only its public names are not."""
    first, _, rest = dotted.partition(".")
    if first == "simulator":
        return bool(rest) and rest not in simulator.__all__
    return first in _MODULES
