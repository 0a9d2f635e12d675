"""What the functions of the notebook show besides results of checks."""

from __future__ import annotations


class MarkdownView:
    """Markdown, readable as text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/markdown": self.text}
