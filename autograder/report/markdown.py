"""The little Markdown that hints use, as HTML: paragraphs, lists, fenced code, `code`, **bold**, *emphasis*.

Everything is escaped first, so that nothing but these few tags can come out; links and raw HTML stay text.
"""

from __future__ import annotations

import re
from html import escape

_INLINE = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)")


def html(text: str) -> str:
    """HTML blocks for the Markdown ``text``."""
    blocks: list[str] = []
    for number, piece in enumerate(re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            blocks.append(f"<pre><code>{escape(piece.rstrip())}</code></pre>")
        else:
            blocks += [_block(lines) for lines in re.split(r"\n\s*\n", piece) if lines.strip()]
    return "".join(blocks)


def _block(text: str) -> str:
    lines = text.strip().split("\n")
    if not all(line.startswith(("- ", "  ")) for line in lines):
        return f"<p>{_inline(' '.join(lines))}</p>"
    items: list[str] = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        elif items:
            items[-1] += " " + line.strip()
    return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"


def _inline(text: str) -> str:
    return "".join(_span(piece) for piece in _INLINE.split(text))


def _span(piece: str) -> str:
    if piece.startswith("`") and piece.endswith("`") and len(piece) > 2:
        return f"<code>{escape(piece[1:-1])}</code>"
    if piece.startswith("**") and piece.endswith("**") and len(piece) > 4:
        return f"<strong>{escape(piece[2:-2])}</strong>"
    if piece.startswith("*") and piece.endswith("*") and len(piece) > 2:
        return f"<em>{escape(piece[1:-1])}</em>"
    return escape(piece)
