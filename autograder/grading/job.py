"""The process that runs checks: ``python -m autograder.grading.job``. Trusted; student code runs in its ranks only.

Requests come as JSON lines on stdin, answers go as JSON lines to the inherited file descriptor named on the command
line. Ranks inherit neither, and every answer repeats the request's token, so that a line which a rank smuggles into
the pipe is no answer. This is no sandbox: a rank that runs as the same user as the grader can still do harm.
When stdin closes, because the process that asked has ended in any way, this process ends with everything it started.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from autograder import checks
from autograder.checks.student import Assembly
from autograder.course import Exercise
from autograder.errors import LabError
from autograder.grading import processes
from autograder.results import CheckResult, Params


class Request(msgspec.Struct, frozen=True):
    """One check to run. ``token`` is drawn anew for every request."""

    token: str
    assembly: Assembly
    exercise: Exercise
    params: Params


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ready to start, a line of progress, the result, or an error (``kind`` "user" if the request was unusable)."""

    token: str = ""
    ready: bool = False
    progress: str = ""
    result: CheckResult | None = None
    error: str = ""
    kind: str = ""


def run_check(request: Request, say: Any) -> CheckResult:
    """Run one request in this process; ``say(text)`` reports progress."""
    module = checks.module(request.exercise.check)
    result: CheckResult = module.run(request.assembly, request.exercise, request.params, say)
    return result


def _serve(answers: int) -> None:
    """Answer requests until stdin ends."""

    def send(answer: Answer) -> None:
        data = msgspec.json.encode(answer) + b"\n"
        while data:
            data = data[os.write(answers, data) :]

    requests = _requests()
    _warm_up()
    send(Answer(ready=True))
    for line in requests:
        request = msgspec.json.decode(line, type=Request)
        token = request.token
        try:
            result = run_check(request, lambda text, token=token: send(Answer(token, progress=text)))
            answer = Answer(token, result=result)
        except LabError as error:
            answer = Answer(token, error=str(error), kind="user")
        except Exception:
            answer = Answer(token, error=traceback.format_exc(), kind="ours")
        processes.kill_strays(keep=_world_pids())
        send(answer)


def _requests() -> Iterator[bytes]:
    """Lines of stdin, read by a thread that ends the process when stdin does, also in the middle of a check."""
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        processes.kill_strays(keep=())
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return iter(lines.get, None)


def _warm_up() -> None:
    """Start the simulator's helpers, and load what draws pictures while they load torch."""
    from simulator import launch

    world = launch.world()
    importlib.import_module("simulator.show.draw")
    world.wait_ready()


def _world_pids() -> tuple[int, ...]:
    if "simulator.launch" not in sys.modules:
        return ()
    from simulator.launch import world_pids

    return tuple(world_pids())


def main() -> None:
    """Start the service; the descriptor for answers is the only argument."""
    answers = int(sys.argv[1])
    os.set_inheritable(answers, False)
    processes.adopt_orphans()
    processes.close_to_others()
    _serve(answers)


if __name__ == "__main__":
    main()
