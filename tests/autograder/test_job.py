"""The process that runs checks: it ends at its deadline and with its parent, and takes everything along."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from autograder.errors import CheckJobError
from autograder.grading import JobHost, Params, check_exercise
from autograder.progress import digest
from tests.autograder.small import COURSE, EXERCISE, RIGHT, cell, write_course

ONE_CASE = Params(case="world_size=2,length=4")

# Sleeps for ever, and leaves a process behind that has a session of its own and no living parent.
STRAY = """\
import os, time
path = "{path}"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(path + str(dist.get_rank()), "w") as file:
            file.write(str(os.getpid()))
        while True:
            time.sleep(1000)
    os._exit(0)
{then}
"""


def stray_pids(path: Path) -> list[int]:
    return [int(file.read_text()) for file in path.parent.glob(f"{path.name}[0-9]") if file.read_text()]


def alive(pid: int) -> bool:
    """Whether the process still runs: one that waits to be reaped by init does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def hasty(tmp_path: Path, built: Path) -> Path:
    """The small course with a deadline of three seconds."""
    root = write_course(tmp_path, course=COURSE.replace("deadline_s: 60", "deadline_s: 3"))
    (root / "labs").symlink_to(built / "labs")
    return root


def test_a_check_past_its_deadline_is_stopped_with_all_it_started(hasty: Path, tmp_path: Path) -> None:
    source = cell(STRAY.format(path=tmp_path / "pid", then="time.sleep(10**6)"))
    with JobHost() as host:
        result = check_exercise(source, EXERCISE, host=host, root=hasty)
        assert [f.key for f in result.findings] == ["deadline"]
        # How far it came in its three seconds is the machine's; that it says how far is ours.
        assert re.search(r"\([23] ranks: case \d+ of 38\)", result.findings[0].text)
        assert (result.points, [p.note for p in result.parts]) == (0.0, ["stopped at the deadline"] * 2)
        strays = stray_pids(tmp_path / "pid")
        assert strays
        assert not [pid for pid in strays if alive(pid)]
        assert check_exercise(RIGHT, EXERCISE, ONE_CASE, host=host, root=hasty).passed  # a new process


def test_what_a_finished_check_leaves_behind_is_ended(built: Path, host: JobHost, tmp_path: Path) -> None:
    source = RIGHT + textwrap.indent(STRAY.format(path=tmp_path / "pid", then="pass"), "    ")
    assert check_exercise(source, EXERCISE, ONE_CASE, host=host, root=built, accepted=True).passed
    assert not [pid for pid in stray_pids(tmp_path / "pid") if alive(pid)]


def test_a_job_that_dies_is_an_error_of_ours_and_the_next_check_works(built: Path, tmp_path: Path) -> None:
    source = cell("import os, signal\nos.kill({pid}, signal.SIGKILL)\n")
    with JobHost() as host:
        assert check_exercise(RIGHT, EXERCISE, ONE_CASE, host=host, root=built).passed
        assert host.pid is not None
        with pytest.raises(CheckJobError, match="ended without an answer"):
            check_exercise(source.format(pid=host.pid), EXERCISE, ONE_CASE, host=host, root=built)
        assert check_exercise(RIGHT, EXERCISE, ONE_CASE, host=host, root=built).passed


# Writes to one pipe only: the answers of the job whose process id the test fills in.
FORGER = """\
import os
with open("/proc/{pid}/cmdline", "rb") as file:
    descriptor = file.read().split(bytes(1))[-2].decode()
pipe = os.open("/proc/{pid}/fd/" + descriptor, os.O_WRONLY | os.O_NONBLOCK)
line = b'{{"result": {{"exercise": "x", "points": 3, "max_points": 3, "passed": true, "parts": [], "findings": []}}}}'
os.write(pipe, bytes([10]) + line + bytes([10]) + b"not json" + bytes([10]))
os.close(pipe)
"""


def test_a_result_that_a_rank_writes_into_the_answers_is_not_believed(built: Path) -> None:
    with JobHost() as host:
        assert check_exercise(RIGHT, EXERCISE, ONE_CASE, host=host, root=built).passed
        forged = cell(FORGER.format(pid=host.pid))
        result = check_exercise(forged, EXERCISE, ONE_CASE, host=host, root=built)
        # Root may open the pipe, and then nobody believes the line; other users may not even open it.
        [finding] = result.findings
        assert finding.key == ("value" if os.geteuid() == 0 else "crash")
        assert (result.exercise, result.passed, len(result.parts)) == (EXERCISE, False, 2)


def test_the_job_dies_with_a_parent_that_is_killed(built: Path, tmp_path: Path) -> None:
    source = cell(STRAY.format(path=tmp_path / "pid", then="time.sleep(10**6)"))
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom autograder.grading import check_exercise\n"
        f"say = lambda text: print(text, flush=True)\n"
        f"check_exercise({source!r}, {EXERCISE!r}, root=Path({str(built)!r}), progress=say)\n"
    )
    repository = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(repository)},
    )
    assert parent.stdout is not None
    lines = [parent.stdout.readline() for _ in range(2)]
    assert lines[1] == "2 ranks: case 7 of 38\n"
    below = psutil.Process(parent.pid).children(recursive=True)
    assert below
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    _, left = psutil.wait_procs(below, timeout=10)
    assert [process for process in left if alive(process.pid)] == []


def test_digests_ignore_what_changes_nothing() -> None:
    assert digest("a\nb") == digest("a  \n\nb\n\n")
    assert digest("a\nb") != digest("a\n b")
