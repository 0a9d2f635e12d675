"""torchrun, as a test starts it: on this machine, with a port of its own."""

import os
import subprocess
import sys

import torch  # noqa: F401 - a machine without it fails here, not in ten processes

from tests.scripts import __path__ as _folder

FOLDER = _folder[0]


def torchrun(*words, ranks=2, restarts=0, cwd=None, code=0):
    """Its output (both streams); fails unless it ends with `code`. `words` begin with a script or ``-m module``."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [f"--max-restarts={restarts}", *map(str, words)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.path.dirname(os.path.dirname(FOLDER))}
    environ["CUDA_VISIBLE_DEVICES"] = ""
    environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # else, in torch 2.13, gloo finds old addresses after a restart
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
