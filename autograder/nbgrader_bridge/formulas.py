"""Formulas in pages as pictures: a page needs no script and no network for them.

matplotlib's mathtext draws the part of TeX that homework uses. A formula that it does not know stays as it was typed,
and so does what is longer than a formula.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import re

MAX_FORMULAS, MAX_CHARACTERS = 200, 400  # of one cell; a drawn formula costs milliseconds
_DPI = 144
# Code is left alone: there a dollar is a dollar.
_PLACES = re.compile(
    r"(?P<code><(pre|code)\b.*?</\2>)|\$\$(?P<block>[^$]+)\$\$|\$(?P<inline>[^$\s](?:[^$]*[^$\s])?)\$(?!\d)", re.DOTALL
)


def as_images(page: str) -> str:
    """`page` (clean HTML) with `$...$` and `$$...$$` replaced by pictures whose text alternative is the TeX."""
    left = MAX_FORMULAS

    def draw(found: re.Match[str]) -> str:
        nonlocal left
        tex = found["block"] or found["inline"]
        if found["code"] or left == 0 or len(tex) > MAX_CHARACTERS or "<" in tex:
            return found[0]
        left -= 1
        picture = _picture(" ".join(html.unescape(tex).split()))
        if not picture:
            return found[0]
        words = html.escape(html.unescape(tex))
        image = f'<img alt="{words}" style="height:{picture[1]:.2f}em;border:0" src="{picture[0]}">'
        return f"<p>{image}</p>" if found["block"] else image

    return _PLACES.sub(draw, page)


@functools.lru_cache(maxsize=1024)
def _picture(tex: str) -> tuple[str, float] | None:
    """A data address of the drawn formula and its height in em; None if mathtext cannot draw it."""
    from matplotlib.mathtext import math_to_image

    file = io.BytesIO()
    try:
        math_to_image(f"${tex}$", file, dpi=_DPI, format="png")
    except Exception:  # pyparsing's, matplotlib's and Python's own: the formula stays text
        return None
    data = file.getvalue()
    height_px = int.from_bytes(data[20:24], "big")
    return "data:image/png;base64," + base64.b64encode(data).decode(), height_px / (_DPI / 72 * 10)
