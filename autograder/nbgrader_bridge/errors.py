"""Errors of the nbgrader pipeline, in words for an instructor."""

from __future__ import annotations

from autograder.errors import LabError


class BridgeError(LabError):
    """A step of the nbgrader pipeline that could not be done; the message says what to do."""


class StaleSeal(BridgeError):
    """A sealed result that does not belong to this submission, or was changed after it was sealed."""
