"""A small course in a temporary folder: one lab, one exercise, everything in this file."""

from __future__ import annotations

from pathlib import Path

from autograder.checks import hint_keys
from autograder.hints import STAGES

EXERCISE = "lab2/ring-all-reduce"

COURSE = """\
format_version: 1
id: small
title: A small course
start: {title: Hello, minutes: 15}
stages:
  - id: one
    title: Stage one
    labs:
      - id: lab2
        title: Lab two
        exercises: [ring-all-reduce, tree]
      - {id: lab3, title: Lab three}
grading:
  deadline_s: 60
  hints: {wait_minutes: 5, homework_cost_points: 1, homework_cost_limit: 5}
"""

ENTRY = """\
id: lab2/ring-all-reduce
title: Ring
tier: core
minutes: 30
points: 3
defines: [ring_all_reduce]
parts:
  - {key: value, title: The sum, points: 2}
  - {key: bytes, title: Few bytes, points: 1}
"""

START = "# %% [markdown]\n# # Hello\n\n# %%\n1 + 1\n"

LAB = """\
# %% [markdown]
# # Lab two

# %% tags=["setup"]
import torch
import torch.distributed as dist

# %%
# include: ring-all-reduce

# %%
# include: tree

# %%
# question: why

# %%
print("the end")
"""

CELLS = """\
# %% [markdown]
# ## Ring (30 minutes, 3 points)

# %%
# exercise: lab2/ring-all-reduce
def ring_all_reduce(tensor):
    ### BEGIN SOLUTION
    # stub: # About one line.
    # stub: raise NotImplementedError("to do")
    secret = 41
    ### END SOLUTION

# %%
check("lab2/ring-all-reduce")
"""

QUESTIONS = """\
why:
  section: Lab two
  question: Why a ring?
  options:
    - {text: Its shape., why: It looks nice. But that is not it.}
    - {text: No hub., right: true, why: No rank carries the others.}
    - {text: Speed., why: It tempts. Not for small tensors.}
"""

# In place, chunk by chunk round the ring.
RIGHT = """\
# exercise: lab2/ring-all-reduce
def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = tensor.tensor_split(size)
    for step in range(2 * (size - 1)):
        out, into = (rank - step) % size, (rank - step - 1) % size
        arriving = torch.empty_like(chunks[into])
        sending = dist.isend(chunks[out], (rank + 1) % size)
        dist.recv(arriving, (rank - 1) % size)
        sending.wait()
        if step < size - 1:
            chunks[into].add_(arriving)
        else:
            chunks[into].copy_(arriving)
"""


def cell(body: str) -> str:
    """An exercise cell whose function has the given body (lines without indentation)."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"# exercise: {EXERCISE}\ndef ring_all_reduce(tensor):\n{lines}"


def hints_text() -> str:
    """A hints file with every key that the check wants."""
    stages = "".join(f"  {stage}: the {stage}\n" for stage in STAGES)
    return "".join(f"{key}:\n{stages}" for key in hint_keys(EXERCISE))


def write_course(root: Path, **changed: str) -> Path:
    """Write the sources of a small course; ``changed``: course, start, lab, questions, entry, cells or hints."""
    here = f"solutions/{EXERCISE}"
    files = {
        "course.yaml": changed.pop("course", COURSE),
        "solutions/start/lab.py": changed.pop("start", START),
        "solutions/lab2/lab.py": changed.pop("lab", LAB),
        "solutions/lab2/questions.yaml": changed.pop("questions", QUESTIONS),
        f"{here}/exercise.yaml": changed.pop("entry", ENTRY),
        f"{here}/cells.py": changed.pop("cells", CELLS),
        f"{here}/hints.yaml": changed.pop("hints", hints_text()),
    }
    assert not changed
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
