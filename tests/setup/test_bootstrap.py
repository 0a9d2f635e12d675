"""What goes wrong on a fresh machine ends in one clear line, and the next call goes on from there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lockstep_setup import environment, install, pip, stamp
from lockstep_setup.stop import Stop

from tests.needs import needs_bubblewrap

Calls = Callable[[], list[str]]
NOT_ONE_PYTHON = "/nonexistent"


def bootstrap(root: Path, *arguments: str, before: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run tools/bootstrap.py in a process of its own, after the statement `before` has run there."""
    script = str(root / "tools" / "bootstrap.py")
    code = f"import runpy, sys; sys.argv = {[script, *arguments]!r}; {before}\n"
    code += f"runpy.run_path({script!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, check=False, timeout=100
    )


def the_line(result: subprocess.CompletedProcess[str]) -> str:
    """The one line a failure prints."""
    assert result.returncode != 0, result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_an_old_python_says_which_one_is_needed(project: Path) -> None:
    result = bootstrap(project, "start", before="sys.version_info = (3, 9, 2)", PATH=NOT_ONE_PYTHON)
    assert "is Python 3.9, and the course needs Python 3.11 or newer" in the_line(result)
    assert "make start PYTHON=python3.11" in result.stderr


def test_an_old_python_hands_over_to_a_newer_one_on_the_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.12").symlink_to(sys.executable)
    result = bootstrap(project, before="sys.version_info = (3, 9, 2)", PATH=str(tmp_path / "bin"))
    assert "python3.12 instead" in result.stdout
    assert the_line(result).startswith("lockstep: usage:")


def test_the_entry_can_be_parsed_by_an_old_python(project: Path) -> None:
    import ast

    ast.parse((project / "tools" / "bootstrap.py").read_text(), feature_version=(3, 7))


def test_no_python_at_all(project: Path) -> None:
    result = subprocess.run(
        ["make", "start", "PYTHON=no-such-python"], cwd=project, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert result.stderr.splitlines()[0].startswith("lockstep: no no-such-python on this machine. Install Python 3.11")


@pytest.mark.parametrize("module", ["ensurepip", "venv"])
def test_no_venv_module(project: Path, module: str) -> None:
    result = bootstrap(project, "start", before=f"sys.modules[{module!r}] = None")
    assert f"has no {module} module" in the_line(result)
    assert "sudo apt install python3-venv" in result.stderr


@needs_bubblewrap
def test_a_folder_that_may_not_be_written(project: Path) -> None:
    line = the_line(_in_bubblewrap(project, "--ro-bind", str(project), str(project)))
    assert f"no permission to write in {project}" in line


@needs_bubblewrap
def test_a_full_disk(project: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    copy = f"cp -r {project}/. {small}"
    result = _in_bubblewrap(small, "--size", "3000000", "--tmpfs", str(small), first=copy)
    assert "GB left and the install needs about" in the_line(result)
    fill = f"{copy}; cat /dev/zero > {small}/filler 2>/dev/null"
    result = _in_bubblewrap(small, "--size", "3000000", "--tmpfs", str(small), first=fill)
    assert f"the disk that holds {small} is full" in the_line(result)


def _in_bubblewrap(root: Path, *mounts: str, first: str = "true") -> subprocess.CompletedProcess[str]:
    command = ["bwrap", "--dev-bind", "/", "/", *mounts, "sh", "-c"]
    command += [f"{first}; exec {sys.executable} {root}/tools/bootstrap.py start"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow
def test_no_network_with_the_real_pip(project: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}
    result = bootstrap(project, "start", **nowhere, PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="")
    assert "the package index cannot be reached" in the_line(result)
    assert not stamp.load(project).complete


@pytest.mark.slow
def test_no_torch_for_this_machine_with_the_real_pip(project: Path, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    no_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index"), "PIP_CONFIG_FILE": os.devnull}
    result = bootstrap(project, "start", **no_index, TORCH_INDEX=(tmp_path / "index").as_uri())
    assert f"there is no torch {pip.pin(project, 'torch')} for this Python" in the_line(result)


WHAT_PIP_SAYS = {
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": "the disk is full",
    "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/x'": "pip may not write",
    "WARNING: NewConnectionError\nERROR: No matching distribution found for torch==2.13.0": "cannot be reached",
    "SSLCertVerificationError CERTIFICATE_VERIFY_FAILED\nERROR: x": "did not verify",
    "ERROR: No matching distribution found for torch==2.13.0": "there is no torch 2.13.0 for this Python",
    "The user requested (constraint) torch==2.13.0\nERROR: ResolutionImpossible": "there is no torch 2.13.0",
    "The user requested (constraint) click==8.5.1\nERROR: ResolutionImpossible": "offers click==8.5.1 for this Python",
    "ERROR: something new": "the install stopped: something new. Run the same command again",
}


@pytest.mark.parametrize("said", WHAT_PIP_SAYS)
def test_what_pip_says_becomes_one_line(project: Path, fake_pip: Calls, said: str) -> None:
    result = bootstrap(project, "start", FAKE_PIP=said)
    assert WHAT_PIP_SAYS[said] in the_line(result)
    assert fake_pip(), "pip was never asked"
    assert said in (project / ".venv" / "install.log").read_text()


def test_an_interrupted_install_goes_on_at_the_next_call(project: Path, fake_pip: Calls) -> None:
    script = [sys.executable, str(project / "tools" / "bootstrap.py"), "run", "lab", "true"]
    hangs, pipe = os.environ | {"FAKE_PIP_HANGS": "1"}, subprocess.PIPE
    with subprocess.Popen(script, env=hangs, start_new_session=True, stdout=pipe, stderr=pipe, text=True) as child:
        while not fake_pip():
            assert child.poll() is None
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: pip hears it, too
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert errors == "lockstep: stopped. Run the same command again: it goes on where it was.\n"
    half = next(project.glob(".venv/lib/python*/site-packages")) / "torch-2.13.0.dist-info"
    half.mkdir()

    again = bootstrap(project, "run", "lab", "true")
    assert again.returncode == 0, again.stderr
    assert "did not finish; going on with it" in again.stdout
    assert not half.exists(), "a package without RECORD must be installed again"


def test_the_second_call_does_not_ask_pip(project: Path, fake_pip: Calls) -> None:
    assert bootstrap(project, "run", "lab", "true").returncode == 0
    first = fake_pip()
    assert any(".[lab]" in call for call in first)
    second = bootstrap(project, "run", "lab", "sh", "-c", "echo $VIRTUAL_ENV")
    assert second.stdout == f"{project / '.venv'}\n"
    assert fake_pip() == first


def test_what_makes_the_second_call_ask_again(project: Path, fake_pip: Calls) -> None:
    install.ensure(project, ["lab"])
    assert not install.ensure(project, ["lab"])
    assert install.ensure(project, ["grade"])
    assert not install.ensure(project, ["lab"]), "more extras than needed are enough"
    (project / "constraints.txt").write_text((project / "constraints.txt").read_text() + "# changed\n")
    assert install.ensure(project, ["lab"])
    assert ".[grade,lab]" in fake_pip()[-1], "what was installed once stays installed"


def test_torch_comes_first_from_its_own_index(project: Path, fake_pip: Calls) -> None:
    install.ensure(project, ["lab"], "https://example.org/cpu")
    assert "--index-url https://example.org/cpu torch==" in fake_pip()[0]
    assert not any("example.org" in call for call in fake_pip()[1:])


def test_jupyterlab_asks_the_network_for_nothing(project: Path, fake_pip: Calls) -> None:
    install.ensure(project, ["lab"])
    settings = (project / ".venv/share/jupyter/lab/settings/overrides.json").read_text()
    assert '"fetchNews": "false"' in settings
    assert '"checkForUpdates": false' in settings


@pytest.mark.slow
def test_a_half_made_venv_is_made_again(project: Path) -> None:
    assert not environment.works(project)
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to("/nonexistent/python3")
    assert not environment.works(project)
    (project / ".venv" / "left-over").touch()
    environment.make(project)
    assert environment.works(project)
    assert not (project / ".venv" / "left-over").exists()


@pytest.mark.slow
def test_a_folder_that_was_moved_gets_a_new_venv(project: Path, fake_pip: Calls) -> None:
    install.ensure(project, ["lab"])
    moved = project.with_name("moved")
    shutil.move(project, moved)
    with pytest.raises(Stop):  # the new .venv has the real pip, which finds nothing
        _without_index(lambda: install.ensure(moved, ["lab"]))
    assert not (moved / ".venv/lib/python3/site-packages/pip/__main__.py").exists()
    assert environment.works(moved)


def _without_index(action: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.delenv("PIP_FIND_LINKS", raising=False)
        action()
