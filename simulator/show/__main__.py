"""``python -m simulator.show TRACE.jsonl`` prints a saved trace; ``--svg FILE`` also writes its picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from simulator.show import timeline


def main(arguments: list[str] | None = None) -> int:
    """Reads a trace and prints its text twin."""
    from simulator.trace import Trace

    parser = argparse.ArgumentParser(prog="python -m simulator.show", description="Show what every rank of a run did.")
    parser.add_argument("trace", type=Path, help="a trace saved by run.save() or trace.save(), JSON lines")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also write the picture")
    options = parser.parse_args(arguments)
    if not options.trace.is_file():
        parser.error(f"there is no file {options.trace}: save a trace first, for example run.save('run.jsonl')")
    shown = timeline(Trace.load(options.trace))
    print(shown.text())
    if options.svg:
        options.svg.write_text(shown.svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
