"""A function of a Python file, named as FILE.py:FUNCTION, ready to be run in ranks."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from simulator.errors import UsageError

_MODULE = "lockstep_program"


def load(program: str) -> Callable[..., Any]:
    """Import the file here, once, and give back its function; ranks get it by value, with the globals that it uses.

    Raises:
        UsageError: no such file or function, a file that cannot be imported, a function that needs arguments.
    """
    file, _, name = program.rpartition(":")
    path = Path(file)
    _, functions = parse(path)
    known = f"{path} has {', '.join(functions)}" if functions else f"{path} has no function"
    module = _import(path)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"there is no function {name!r} to run; {known}")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UsageError(
            f"{name} is called without arguments, but: {error}. Give its parameters defaults, "
            "or run a function without parameters that calls it."
        ) from None
    except ValueError:
        pass  # a callable written in C has no signature to look at
    return function  # type: ignore[no-any-return]


def parse(path: Path) -> tuple[ast.Module, list[str]]:
    """The file's syntax tree, and the names of the functions at its top.

    Raises:
        UsageError: no such file, or a file that is not Python.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}: write FILE.py, or FILE.py:FUNCTION, for example train.py:main")
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}, is not Python: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not Python: {error}") from None
    return tree, [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _import(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(_MODULE, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file: its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses and pickles look their module up
    sys.path.insert(0, str(path.resolve().parent))  # for what it imports, also in the ranks
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path.resolve())]
        where = f", line {lines[-1]}" if lines else ""
        words = f": {error}" if str(error) else ""
        raise UsageError(f"{path} cannot be imported{where}: {type(error).__name__}{words}") from error
    cloudpickle.register_pickle_by_value(module)
    return module
