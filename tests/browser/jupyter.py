"""A JupyterLab server and a Chromium page for tests: real processes, a private home, nothing left behind.

Pages are driven through JupyterLab's own command registry and notebook model, because clicks race with kernel start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from playwright.sync_api import Page, Request, WebSocket

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARK = "LOCKSTEP_BROWSER_TEST"
_QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
_NOT_FOR_STUDENTS = {"@jupyter/nbgrader": True}  # they do not install nbgrader
_WITHIN_S = 120.0

_KERNEL_IDLE = """() => {
    const widget = window.jupyterapp?.shell.currentWidget;
    return widget?.context?.isReady && widget.context.sessionContext?.session?.kernel?.status === 'idle';
}"""
_RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
_NOTEBOOK = "() => window.jupyterapp.shell.currentWidget.context.model.toJSON()"
_SET_SOURCE = """([index, source]) => {
    window.jupyterapp.shell.currentWidget.content.model.cells.get(index).sharedModel.setSource(source);
}"""
_SHOW_CELL = """async ([index, align]) => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, align);
}"""

_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


@dataclass(frozen=True)
class Server:
    """A running JupyterLab. ``url`` ends with a slash."""

    url: str
    token: str

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port = urlparse(self.url).port
        assert port is not None
        return port


@contextmanager
def serve(folder: Path, home: Path) -> Iterator[Server]:
    """JupyterLab on ``folder`` with everything it writes below ``home``; ended with its kernels on exit."""
    settings, labconfig = home / "settings", home / "config" / "labconfig"
    settings.mkdir(parents=True)
    (settings / "overrides.json").write_text(json.dumps(_QUIET))
    labconfig.mkdir(parents=True)
    (labconfig / "page_config.json").write_text(json.dumps({"disabledExtensions": _NOT_FOR_STUDENTS}))
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        MARK: str(home),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    command += [f"--LabApp.app_settings_dir={settings}"]
    with (home / "server.log").open("wb") as log:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield _wait_for(child, home)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def _wait_for(child: subprocess.Popen[bytes], home: Path) -> Server:
    info = home / "runtime" / f"jpserver-{child.pid}.json"
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        assert child.poll() is None, (home / "server.log").read_text()
        try:
            said = json.loads(info.read_text())
            socket.create_connection(("127.0.0.1", said["port"]), timeout=5).close()
            return Server(said["url"].replace("localhost", "127.0.0.1"), said["token"])
        except (OSError, ValueError):  # not written yet, or not listening yet
            time.sleep(0.1)
    raise AssertionError("JupyterLab did not start: " + (home / "server.log").read_text())


def marked_processes(home: Path) -> list[str]:
    """Command lines of all processes that descend from the server of ``home``."""
    needle = f"{MARK}={home}".encode()
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and needle in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # ended while we looked, or not ours
            continue
    return found


@dataclass
class Lab:
    """A page of JupyterLab. ``outside`` collects every request that is not to 127.0.0.1."""

    page: Page
    server: Server
    outside: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", self._saw)
        self.page.on("websocket", self._saw)

    def _saw(self, request: Request | WebSocket) -> None:
        address = urlparse(request.url)
        if address.scheme not in ("data", "blob") and address.hostname != "127.0.0.1":
            self.outside.append(request.url)

    def open(self, notebook: str) -> None:
        """Open a notebook and wait until its kernel is idle."""
        self.page.goto(f"{self.server.url}lab/tree/{notebook}?reset&token={self.server.token}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=_WITHIN_S * 1000)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=_WITHIN_S * 1000)
        self.page.wait_for_function(_KERNEL_IDLE, timeout=_WITHIN_S * 1000)

    def run_all(self) -> None:
        """Run all cells and wait until the last one is done."""
        self.page.set_default_timeout(_WITHIN_S * 1000)
        self.page.evaluate(_RUN_ALL)
        self.page.wait_for_function(_KERNEL_IDLE, timeout=_WITHIN_S * 1000)

    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells with their outputs, as nbformat dictionaries."""
        cells: list[dict[str, Any]] = self.page.evaluate(_NOTEBOOK)["cells"]
        return cells

    def find(self, text: str) -> int:
        """The index of the code cell whose source contains ``text``."""
        [index] = [i for i, cell in enumerate(self.cells()) if cell["cell_type"] == "code" and text in source(cell)]
        return index

    def write(self, index: int, text: str) -> None:
        """Replace the source of a cell, as typing would."""
        self.page.evaluate(_SET_SOURCE, [index, text])

    def show(self, index: int, align: str = "start") -> None:
        """Scroll to a cell and let the page settle."""
        self.page.evaluate(_SHOW_CELL, [index, align])
        self.page.evaluate(_TWO_FRAMES)

    def execute(self, command: str) -> None:
        """Run one of JupyterLab's commands."""
        self.page.evaluate("name => window.jupyterapp.commands.execute(name)", command)


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    text = cell["source"]
    return "".join(text) if isinstance(text, list) else str(text)


def output_text(cell: dict[str, Any]) -> str:
    """Everything that a cell printed or displayed, as text; HTML included."""
    parts: list[Any] = []
    for output in cell["outputs"]:
        parts.append(output.get("text", ""))
        data = output.get("data", {})
        parts += [data.get("text/plain", ""), data.get("text/html", "")]
        parts.append(output.get("traceback", ""))
    return "\n".join("".join(part) if isinstance(part, list) else str(part) for part in parts)


def errors(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs that no cell of the course may have: tracebacks and text on stderr."""
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]


def images(cell: dict[str, Any]) -> list[str]:
    """The MIME types of the pictures in a cell's outputs."""
    return [kind for output in cell["outputs"] for kind in output.get("data", {}) if kind.startswith("image/")]
