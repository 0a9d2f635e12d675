"""Markdown of a submission, as HTML that cannot run anything in an instructor's browser.

nbconvert passes HTML in Markdown through, and nbgrader shows it from Jupyter's own address, where a script could start
kernels. So the rendered HTML is cleaned against a list of allowed tags; links keep http, https and mailto only.
"""

from __future__ import annotations

import bleach
from nbconvert.filters import markdown2html as render

from autograder.nbgrader_bridge.formulas import as_images

# fmt: off
_TAGS = frozenset({
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2",
    "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "ol", "p", "pre", "q", "s", "samp", "small",
    "span", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var",
})
# fmt: on
_ATTRIBUTES = {
    "*": ["class", "title"],
    "a": ["href"],
    "img": ["alt"],  # no src: an image from elsewhere would tell its server who reads the page and when
    "td": ["align", "colspan", "rowspan"],
    "th": ["align", "colspan", "rowspan", "scope"],
}


def markdown2html(source: str) -> str:
    """Renders Markdown to clean HTML with formulas as pictures; replaces nbconvert's filter of the same name."""
    return as_images(clean(render(source)))


def clean(html: str) -> str:
    """`html` with every tag, attribute and link scheme that is not on the list shown as text or removed."""
    return str(bleach.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, protocols={"http", "https", "mailto"}))
