"""Start JupyterLab at the start notebook and print its address.

JupyterLab finds a free port itself and writes it, with its key, into a file of its runtime folder; that file is read
here instead of its log, which goes to .venv/jupyter.log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from . import paths
from .stop import Stop

START = "labs/start.ipynb"
_READY_WITHIN_S = 120.0
_END_WITHIN_S = 15.0


def serve(root: Path) -> int:
    """Run JupyterLab until Ctrl-C. Raises Stop when its page does not answer."""
    runtime = paths.venv(root) / "var" / "jupyter-runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    log = paths.venv(root) / "jupyter.log"
    print("Starting JupyterLab ...", flush=True)
    with (
        log.open("w") as output,
        subprocess.Popen(
            _command(root),
            cwd=root,
            env=paths.environment(root) | {"JUPYTER_RUNTIME_DIR": str(runtime)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C reaches only us; JupyterLab then ends by SIGTERM and takes its kernels along
        ) as child,
    ):
        try:
            address = _wait_until_ready(child, runtime / f"jpserver-{child.pid}.json", log)
            print("\nJupyterLab is ready. Its address (the token in it is the key to your files; do not share it):\n")
            print(f"    {address}\n\nLeave this window open. Ctrl-C here ends it.", flush=True)
            child.wait()
        except BaseException:
            _end(child)
            raise
    if child.returncode not in (0, -signal.SIGTERM, -signal.SIGINT):
        raise Stop(f"JupyterLab ended by itself (exit status {child.returncode}). Its log: {log}")
    return 0


def _command(root: Path) -> list[str]:
    command = [
        str(paths.python(root)),
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{START}",
    ]
    if os.environ.get("LOCKSTEP_NO_BROWSER") or not _has_display():
        command.append("--no-browser")
    if os.geteuid() == 0:
        command.append("--allow-root")
    return command


def _has_display() -> bool:
    """Without one, opening a browser would start a text browser in this terminal, or nothing."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _wait_until_ready(child: subprocess.Popen[bytes], info_file: Path, log: Path) -> str:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise Stop(f"JupyterLab did not start: {_last_line(log)} Its log: {log}")
        address = _address(info_file)
        if address and _answers(address):
            return address
        time.sleep(0.1)
    raise Stop(f"JupyterLab did not answer within {_READY_WITHIN_S:.0f} s. Its log: {log}")


def _address(info_file: Path) -> str | None:
    try:
        info = json.loads(info_file.read_text())
    except (OSError, ValueError):  # not written yet, or only half
        return None
    query = "?" + urlencode({"token": info["token"]}) if info.get("token") else ""
    return f"{info['url']}lab/tree/{START}{query}"


def _answers(address: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the page is on this machine
    try:
        with direct.open(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing."


def _end(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM lets JupyterLab end its kernels. Whoever presses Ctrl-C twice does not want to wait for that."""
    child.terminate()
    try:
        child.wait(_END_WITHIN_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
