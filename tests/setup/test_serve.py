"""JupyterLab as `make start` starts it: its page answers although the usual port is busy, and Ctrl-C leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CODE = (
    "import sys; from pathlib import Path; from lockstep_setup import main, notebook; "
    "main._start = notebook.serve; sys.exit(main.main(['start'], Path(sys.argv[1])))"
)


@pytest.mark.slow
def test_the_page_answers_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "labs").mkdir()
    env = os.environ | {"LOCKSTEP_NO_BROWSER": "1", "PYTHONPATH": str(ROOT / "tools")}
    with ExitStack() as stack:
        with suppress(OSError):  # somebody else has it: busy all the same
            stack.enter_context(socket.create_server(("127.0.0.1", 8888)))
        child = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", _CODE, tmp_path], env=env, stdout=subprocess.PIPE, text=True)
        )
        assert child.stdout is not None
        seen = ""
        while not (found := re.search(r"http://\S+", seen)):
            line = child.stdout.readline()
            assert line, seen
            seen += line
        address = found[0]
        assert ":8888/" not in address
        assert "/lab/tree/labs/start.ipynb?token=" in address
        with urllib.request.urlopen(address, timeout=30) as page:
            assert page.status == 200
        child.send_signal(signal.SIGINT)
        child.wait(60)
    assert child.returncode in (0, 130)
