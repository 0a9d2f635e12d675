"""`run_script`: a script that torchrun would start, unmodified, in the deterministic world."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from simulator.errors import UsageError
from simulator.run import Run, run


def run_script(script: str | Path, argv: Sequence[str] = (), world_size: int = 4, **options: Any) -> Run:
    """Run a script as ``torchrun --nproc-per-node WORLD_SIZE script argv...`` would: as ``__main__`` in every rank,
    with torchrun's environment; what it imports from its own folder is found.

    Its ``init_process_group`` finds the group already there. A script that starts its own ranks with
    ``torch.multiprocessing.spawn`` runs too: every rank calls the spawned function once, with its own number.
    ``sys.exit(0)`` is a good end. Functions registered with `atexit` do not run.

    Args:
        script: a Python file. argv: the words after it, ``sys.argv[1:]`` of the script.
        options: those of `simulator.run`, without `args` and `rank_args`.

    Returns:
        The `Run`; a script returns nothing, so its `results` are None: look at `output`, `trace` and files.

    Raises:
        UsageError: no such file, not Python, a script that only defines things, or a call that cannot work.
        FaultPlanError: as `simulator.run`.
    """
    if taken := sorted({"args", "rank_args"} & options.keys()):
        raise UsageError(f"run_script has no {' and no '.join(taken)}: the words for the script are its argv")
    if isinstance(argv, str) or not all(isinstance(word, str) for word in argv):
        raise UsageError(f"argv must be a list of strings such as ['--epochs', '3'], got {argv!r}")
    words = (str(script), tuple(argv))
    told = {name: value for name, value in options.items() if name not in ("echo", "replay")}
    call = "".join(f", {name}={value!r}" for name, value in told.items())
    options.setdefault("replay", f"simulator.run_script({words[0]!r}, {list(argv)!r}, world_size={world_size!r}{call})")
    check_script(Path(script))
    return run(in_rank, world_size, args=words, **options)


def check_script(path: Path) -> None:
    """Raise `UsageError` for what would do nothing as a script."""
    from simulator.program_file import parse

    tree, functions = parse(path)
    if not any(_does_something(node) for node in tree.body):
        known = f"{path} has {', '.join(functions)}" if functions else f"{path} has no function"
        raise UsageError(
            f"{path} only defines things, so as a script it does nothing: say which function to run, "
            f"{path}:FUNCTION; {known}"
        )


def _does_something(node: ast.stmt) -> bool:
    """Whether a statement at the top of a file is more than a definition, an import or a docstring."""
    quiet = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    return not isinstance(node, quiet) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def in_rank(script: str, argv: tuple[str, ...]) -> None:
    """What every rank of a script runs."""
    import torch.multiprocessing

    torch.multiprocessing.spawn = _spawn  # type: ignore[attr-defined]
    as_main(script, argv)


def _spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
    """The processes that the script wants are the ranks that run it: call `fn` as one of them."""
    size = int(os.environ["WORLD_SIZE"])
    if nprocs != size:
        count = f"{nprocs} process{'' if nprocs == 1 else 'es'}"
        why = ", as many as it sees GPUs" if nprocs == 0 else ""
        raise UsageError(
            f"the script spawns {count}{why}, and this run has {size} ranks: pass the script {size}, or give the run "
            "as many ranks as the script spawns"
        )
    fn(int(os.environ["RANK"]), *args)


def as_main(script: str, argv: tuple[str, ...]) -> None:
    """Be ``python script argv...`` in this process, which has torchrun's environment.

    Raises:
        SystemExit: the script ended itself with something else than success.
    """
    path = os.path.abspath(script)
    main = ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    sys.argv[:] = [script, *argv]
    sys.path.insert(0, os.path.dirname(path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    try:
        exec(code, main.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
