"""Where user code called us: the innermost frame that is neither torch's nor ours, as "file:line" or "In[3]:line"."""

from __future__ import annotations

import os
import sys
from types import CodeType

_labels: dict[str, str] = {}
_sites: dict[tuple[CodeType, int], str] = {}
_is_user: dict[CodeType, bool] = {}
_hidden: tuple[str, ...] = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<frozen")


def configure(labels: dict[str, str], hidden: tuple[str, ...]) -> None:
    """`labels` names source files for people ("In[3]" for a notebook cell); `hidden` are path prefixes that are not
    user code.
    """
    global _hidden
    _labels.update(labels)
    _hidden += hidden


def label(filename: str) -> str:
    return _labels.get(filename) or os.path.basename(filename)


def is_user_code(code: CodeType) -> bool:
    known = _is_user.get(code)
    if known is None:
        known = _is_user[code] = not code.co_filename.startswith(_hidden)
    return known


def call_site() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_user_code(code):
            site = _sites.get((code, frame.f_lineno))
            if site is None:
                site = _sites[code, frame.f_lineno] = f"{label(code.co_filename)}:{frame.f_lineno}"
            return site
        frame = frame.f_back  # type: ignore[assignment]
    return ""
