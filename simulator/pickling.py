"""The function of a run as bytes, with its source files named so that people recognise them.

cloudpickle replaces the file name of every code object; here it stays, so that tracebacks and call sites of a rank
point at the cell and line. `labels` says what a file is called: "In[3]" for a notebook cell.
"""

from __future__ import annotations

import io
import sys
from collections import ChainMap
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import cloudpickle
from cloudpickle.cloudpickle import _code_reduce

from simulator.errors import UsageError


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        self.files: set[str] = set()
        self.dispatch_table = ChainMap(
            {CodeType: self._reduce_code}, cloudpickle.Pickler.dispatch_table
        )  # read by __init__
        super().__init__(file)

    def _reduce_code(self, code: CodeType) -> tuple[Any, ...]:
        factory, args = _code_reduce(code)
        self.files.add(code.co_filename)
        return factory, tuple(code.co_filename if arg == "<dynamic-code>" else arg for arg in args)


def payloads(
    function: Callable[..., Any], args: tuple[Any, ...], rank_args: Sequence[tuple[Any, ...]] | None, world_size: int
) -> list[tuple[bytes, dict[str, str]]]:
    """What `dumps` gives for each rank; pickled once where every rank gets the same."""
    if rank_args is None:
        return [dumps(function, args)] * world_size
    return [dumps(function, (*args, *own)) for own in rank_args]


def dumps(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bytes, dict[str, str]]:
    """The pickle of (function, args) and the labels of its files. Raises `UsageError` for what cannot travel to a
    rank.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump((function, args))
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        raise UsageError(
            f"{name} or its arguments cannot be sent to the ranks: {error}. Create such objects inside the function."
        ) from error
    return buffer.getvalue(), {name: _label(name) for name in sorted(pickler.files) if _label(name)}


def _label(filename: str) -> str:
    """What IPython calls a cell's file, "" for ordinary files."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return ""
    name = shell.compile.format_code_name(filename)  # ("Cell", "In[3]") for a cell
    return str(name[1]) if name else ""
