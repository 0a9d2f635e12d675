"""What the functions of the notebook show besides results of checks."""

from __future__ import annotations

from typing import Any


class MarkdownView:
    """Markdown, readable as text; ``data`` goes with it into the cell's output."""

    def __init__(self, text: str, data: dict[str, Any] | None = None) -> None:
        self.text = text
        self._data = data or {}

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/markdown": self.text, **self._data}
