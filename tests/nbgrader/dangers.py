"""What in a page could run or load something, found with an HTML parser and not by its look."""

from __future__ import annotations

from html.parser import HTMLParser

_TAGS = {"script", "iframe", "object", "embed", "form", "base", "link", "svg", "math"}
_LOADING = {"src", "href", "srcset", "action", "formaction", "poster", "data", "xlink:href"}


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _TAGS:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            target = "".join((value or "").split()).lower()
            allowed = ("#", "https:", "http:") if tag == "a" else ("data:image/",)
            if name.startswith("on") or (name in _LOADING and not target.startswith(allowed)):
                self.found.append(f"<{tag} {name}={value}>")


def dangers(html: str) -> list[str]:
    """Tags and attributes that run or load something; links that a person follows are none."""
    finder = _Finder()
    finder.feed(html)
    finder.close()
    return finder.found
