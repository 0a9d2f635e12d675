"""nbgrader's settings for a course folder: used by our commands, by `nbgrader` itself and by formgrader.

The generated nbgrader_config.py calls `configure`, so that the button in formgrader grades exactly as `lockstep grade`
does. Settings that nbgrader would take from the machine (exchange, cache, `alembic` on PATH) point into the course
folder and into this Python environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traitlets.config import Config

    from autograder.nbgrader_bridge.folder import CourseFolder

COURSE_ID = "lockstep"
_HERE = "autograder.nbgrader_bridge"
_NBGRADER = "nbgrader.preprocessors"
_TEMPLATES = Path(__file__).parent / "templates"


def configure(c: Config, root: Path, course_id: str = COURSE_ID) -> None:
    """Fills nbgrader's configuration `c` for the course folder at `root`."""
    _find_alembic()
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.course_id = course_id
    c.Exchange.root = str(root / "exchange")
    c.Exchange.cache = str(root / "cache")
    c.CollectApp.check_owner = False  # one account hands in for everybody when the exchange is a local folder
    c.ExchangeCollect.check_owner = False
    _configure_generate(c)
    _configure_autograde(c)
    _configure_pages(c)


def _configure_generate(c: Config) -> None:
    # `lockstep build` has cleared the solutions; nbgrader's ClearSolutions would empty every cell without its marks.
    names = "LockCells ClearOutput CheckCellMetadata ComputeChecksums SaveCells CheckCellMetadata"
    c.GenerateAssignment.preprocessors = [f"{_NBGRADER}.{name}" for name in names.split()]


def _configure_autograde(c: Config) -> None:
    c.Autograde.exporter_class = f"{_HERE}.exporters.TolerantExporter"
    # OverwriteCells stays although Rebuild restores the cells first: it compares with the gradebook, which is what
    # nbgrader computes the points from. CheckCellMetadata, a quarter of the time, has nothing to find: all metadata are
    # those of the released notebook, where it looked when that was generated.
    c.Autograde.sanitize_preprocessors = [
        f"{_HERE}.preprocessors.Rebuild",
        f"{_NBGRADER}.OverwriteKernelspec",
        f"{_NBGRADER}.OverwriteCells",
    ]
    c.OverwriteCells.add_missing_cells = True
    # In place of nbgrader's Execute: nothing of a submission ever runs here.
    c.Autograde.autograde_preprocessors = [
        f"{_HERE}.preprocessors.SealedResults",
        f"{_NBGRADER}.SaveAutoGrades",
        f"{_NBGRADER}.AssignLatePenalties",
    ]
    # Pages among a student's files would be copied into the feedback folder.
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.html", "*.htm", "*.svg"]
    c.ExecutePreprocessor.timeout = 600  # `nbgrader validate` runs check(), which starts ranks


def _configure_pages(c: Config) -> None:
    import nbgrader

    formgrader = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
    # Formgrader shows submissions inside the instructor's Jupyter: Markdown is cleaned wherever it becomes HTML.
    c.HTMLExporter.filters = {"markdown2html": f"{_HERE}.sanitize.markdown2html"}
    c.HTMLExporter.extra_template_basedirs = [str(_TEMPLATES), str(formgrader)]


def load(folder: CourseFolder) -> Config:
    """The course folder's nbgrader_config.py, with the instructor's own settings."""
    from traitlets.config.loader import PyFileConfigLoader

    from autograder.nbgrader_bridge.folder import CONFIG_NAME, SEED_NAME

    config = PyFileConfigLoader(CONFIG_NAME, path=str(folder.root)).load_config()
    if folder.seed_file != folder.root / SEED_NAME:
        config.SealedResults.seed_file = str(folder.seed_file)
    return config


def _find_alembic() -> None:
    # nbgrader runs `alembic` from PATH to create the gradebook; a virtual environment that is used by path only (not
    # activated) is not on PATH.
    scripts = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    if scripts not in path.split(os.pathsep):
        os.environ["PATH"] = scripts + os.pathsep + path
