"""The process that runs checks: ``python -m autograder.grading.job``. Trusted; student code runs in its ranks only.

Requests come as JSON lines on stdin, answers go as JSON lines to the inherited file descriptor named on the command
line. Ranks inherit neither, and every answer repeats the request's token, so that a line which a rank smuggles into
the pipe is no answer. Where the ranks run is the first word of the command line: "beside" this process as the same
user, who could do harm, or in rooms of the sandbox ("bubblewrap", "limits"). This process stays outside of them.
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
from autograder.grading.places import Beside, BrokeOffError, Rooms
from autograder.results import CheckResult, Params
from autograder.sandbox import processes


class Request(msgspec.Struct, frozen=True):
    """One check to run. ``token`` is drawn anew for every request."""

    token: str
    assembly: Assembly
    exercise: Exercise
    params: Params
    room: str = ""  # submissions with different names never share a process or a file


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ready to start, a line of progress, the result, or an error.

    ``kind`` of an error: "user" if the request was unusable, "ours", or "broke-off" and "used-up" if the student's
    processes brought the run to an end.
    """

    token: str = ""
    ready: bool = False
    progress: str = ""
    result: CheckResult | None = None
    error: str = ""
    kind: str = ""


def run_check(request: Request, say: Any) -> CheckResult:
    """Run one request in this process; ``say(text)`` reports progress."""
    return checks.find(request.exercise.id).run(request.assembly, request.exercise, request.params, say)


def _serve(answers: int, place: Beside | Rooms) -> None:
    """Answer requests until stdin ends."""

    def send(answer: Answer) -> None:
        data = msgspec.json.encode(answer) + b"\n"
        while data:
            data = data[os.write(answers, data) :]

    requests = _requests()
    _warm_up(place)
    send(Answer(ready=True))
    for line in requests:
        request = msgspec.json.decode(line, type=Request)
        answer = _answer(request, place, lambda text, token=request.token: send(Answer(token, progress=text)))
        place.tidy()
        send(answer)


def _answer(request: Request, place: Beside | Rooms, say: Any) -> Answer:
    token = request.token
    try:
        return Answer(token, result=place.run(request.room, lambda: run_check(request, say)))
    except BrokeOffError as error:
        return Answer(token, error=str(error), kind="used-up" if error.used_up else "broke-off")
    except LabError as error:
        return Answer(token, error=str(error), kind="user")
    except Exception:
        return Answer(token, error=traceback.format_exc(), kind="ours")


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


def _warm_up(place: Beside | Rooms) -> None:
    """Load what draws pictures while the simulator's helpers load torch."""
    if isinstance(place, Beside):
        from simulator import launch

        launch.world()
    importlib.import_module("simulator.show.draw")
    place.warm_up()


def main() -> None:
    """Start the service; arguments: where ranks run, the descriptor for answers."""
    where, answers = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(answers, False)
    processes.adopt_orphans()
    processes.close_to_others()
    _serve(answers, Beside() if where == "beside" else Rooms("limits" if where == "limits" else "bubblewrap"))


if __name__ == "__main__":
    main()
