"""The leak check must see a leak: a pytest of its own runs a leaking test, and has to fail with the right line."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PLUGIN = "from tests.leaks import *  # noqa: F403\nfrom tests.leaks import no_leaks  # noqa: F401\n"
_SLEEPER = '[sys.executable, "-c", "import time; time.sleep(600)"]'
_ORPHANS = f"import subprocess, sys; subprocess.Popen({_SLEEPER}, start_new_session=True)"

LEAKS = {
    "process": f"subprocess.Popen({_SLEEPER})",
    "orphan": "subprocess.run([sys.executable, '-c', ORPHANS])",
    "port": "KEPT.append(socket.create_server(('127.0.0.1', 0)))",
    "temp folder": "tempfile.mkdtemp(prefix='lockstep-')",
    "shared memory": "open('/dev/shm/lockstep_test_' + MARKER, 'w').close()",
}
_SEEN_AS = {"process": "process", "orphan": "process", "port": "listening port"}


def _pytest(folder: Path, body: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_PLUGIN)
    imports = "import os, pytest, socket, subprocess, sys, tempfile\nKEPT = []\n" + f"ORPHANS = {_ORPHANS!r}\n"
    imports += "MARKER = os.environ['LOCKSTEP_TEST_SESSION'].rpartition(':')[2]\n"
    (folder / "test_inner.py").write_text(imports + textwrap.dedent(body))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_clean_test_passes(tmp_path: Path) -> None:
    body = """
    def test_clean(tmp_path):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        with socket.create_server(("127.0.0.1", 0)), tempfile.TemporaryDirectory(prefix="lockstep-"):
            pass
    """
    result = _pytest(tmp_path, body)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_fails_the_test_and_is_cleaned_up(tmp_path: Path, kind: str) -> None:
    if kind == "shared memory" and not Path("/dev/shm").is_dir():
        pytest.skip("this system has no /dev/shm")
    before = set(os.listdir("/dev/shm")) if kind == "shared memory" else set()
    body = f"def test_leaking():\n    {LEAKS[kind]}\n\ndef test_after():\n    pass\n"
    result = _pytest(tmp_path, body)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"left behind: {_SEEN_AS.get(kind, kind)}" in result.stdout
    assert "1 passed, 1 error" in result.stdout or "2 passed, 1 error" in result.stdout, result.stdout
    for name in (set(os.listdir("/dev/shm")) if kind == "shared memory" else set()) - before:
        if name.startswith("lockstep_test_"):
            Path("/dev/shm", name).unlink()


def test_what_a_module_fixture_leaves_fails_the_session(tmp_path: Path) -> None:
    body = f"""
    @pytest.fixture(scope="module")
    def server():
        return subprocess.Popen({_SLEEPER})

    def test_uses_it(server):
        assert server.poll() is None
    """
    result = _pytest(tmp_path, body)
    assert result.returncode == 1
    assert "The session left behind:" in result.stderr
    assert "1 passed" in result.stdout


def test_the_session_has_a_short_temp_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    body = "def test_folder():\n    print('FOLDER', tempfile.gettempdir())\n    raise AssertionError\n"
    result = _pytest(tmp_path, body)
    folder = next(line.split()[1] for line in result.stdout.splitlines() if line.startswith("FOLDER "))
    assert len(folder) < 20
    assert not Path(folder).exists()


def test_a_skip_is_a_failure_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    body = "@pytest.mark.skipif(True, reason='needs a thing: sudo apt install thing')\ndef test_needy():\n    pass\n"
    assert _pytest(tmp_path, body, LOCKSTEP_NOTHING_SKIPPED="").returncode == 0
    strict = _pytest(tmp_path, body, LOCKSTEP_NOTHING_SKIPPED="1")
    assert strict.returncode == 1
    assert "sudo apt install thing" in strict.stdout
