"""``python -m simulator.record [--trace FILE] SCRIPT [ARGUMENTS]``, under torchrun: run the script and record it.

Exit code: the script's own; 2 if there is nothing to run, or no place for the record.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from simulator.errors import SimulatorError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m simulator.record", description="Record a torchrun job on gloo.")
    parser.add_argument("--trace", default="trace.jsonl", metavar="FILE", help="the trace (default: trace.jsonl)")
    parser.add_argument("script", help="a Python file, as torchrun takes it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args()
    folder = Path(f"{os.path.abspath(options.trace)}.ranks")
    try:
        if not os.path.isfile(options.script):
            parser.error(f"there is no file {options.script}")
        log = _begin(folder)
    except (SimulatorError, OSError) as error:
        parser.error(str(error))
    from simulator.script import as_main

    try:
        as_main(options.script, tuple(options.arguments))
    except BaseException:
        log.close("error")
        _finish(folder, Path(options.trace), log)
        raise
    log.close("done")
    _finish(folder, Path(options.trace), log)


def _begin(folder: Path) -> Any:
    """Open the file of this rank, and put the recording group and the hooks in place."""
    import torch

    from simulator.rank import sites
    from simulator.record import group, hooks
    from simulator.record.log import Log

    size, number = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    log = Log(folder, int(os.environ.get("RANK", 0)), size, number, torch.__version__.partition("+")[0])
    modules = (torch, argparse)  # argparse: the standard library
    sites.configure({}, tuple(os.path.dirname(os.path.abspath(str(m.__file__))) + os.sep for m in modules))
    group.install(log, _tell)
    hooks.install(log)
    return log


def _tell(text: str) -> None:
    print(f"record: {text}", file=sys.stderr, flush=True)


def _finish(folder: Path, trace: Path, log: Any) -> None:
    """Whoever ends last makes the trace. Not after a failure while an agent may start the job again."""
    from simulator.record.merge import has_ended, merge

    ends = has_ended(folder, log.incarnation, int(os.environ.get("WORLD_SIZE", 1)))
    restarts_left = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) - log.incarnation
    if not ends or (restarts_left > 0 and set(ends) != {"done"}):
        return
    try:
        os.close(os.open(folder / "merging", os.O_CREAT | os.O_EXCL))
    except OSError:
        return  # another rank does it, or has done it
    merged = merge(folder)
    merged.save(new := trace.with_name(f"{trace.name}.new"))
    os.replace(new, trace)
    shutil.rmtree(folder, ignore_errors=True)
    _tell(f"{trace}: {merged.world_size} ranks, {len(merged)} events, wall clocks")


if __name__ == "__main__":
    main()
