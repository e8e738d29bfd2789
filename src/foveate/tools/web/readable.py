"""HTML as readable Markdown: headings, paragraphs, lists, links, code and tables; no scripts, styles and menus.

It makes one pass over the text, so that a page crafted to be slow takes no longer than any other page of its size. It
does not repair markup as a browser does; what it can't parse becomes text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import urljoin

_DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head", "nav"})
_RAW = frozenset({"script", "style", "template", "noscript", "textarea", "title"})
"""Markup inside these is text: they end at their own end tag."""
_BLOCKS = frozenset({
    "p", "div", "section", "article", "main", "header", "footer", "aside", "figure", "figcaption", "form", "fieldset",
    "address", "dl", "dt", "dd", "table", "caption", "details", "summary", "body", "html", "ul", "ol", "blockquote",
})  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
MAX_PIECES = 300_000
"""Limit of tags and texts that are read; a page of a few megabytes has fewer."""
_MAX_DEPTH = 10
_MAX_LINK_CHARS = 1_000
_SPACE = re.compile(r"\s+")
_MANY_LINES = re.compile(r"\n{3,}")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")


class _Tag(NamedTuple):
    name: str
    is_end: bool
    attributes: str


def markdown(source: str, base_url: str) -> tuple[str, str]:
    """Return the page's title and its text as Markdown."""
    writer = _Writer(base_url)
    for piece in islice(_pieces(source), MAX_PIECES):
        if isinstance(piece, str):
            writer.text(html.unescape(piece))
        elif piece.is_end:
            writer.end(piece.name)
        else:
            writer.start(piece)
    return _SPACE.sub(" ", "".join(writer.title)).strip(), writer.result()


def _pieces(source: str) -> Iterator[str | _Tag]:
    """Yield texts and tags in order."""
    lowered = source.lower()
    if len(lowered) != len(source):  # a few letters are longer in lower case, and positions would not agree
        lowered = source
    at = 0
    while (start := source.find("<", at)) >= 0:
        if start > at:
            yield source[at:start]
        if source.startswith("<!--", start):
            at = _after(source, "-->", start + 4)
            continue
        found = _NAME.match(source, start + (2 if source.startswith("/", start + 1) else 1))
        if not found and source[start + 1 : start + 2] not in ("!", "?", "/"):
            yield "<"
            at = start + 1
            continue
        end = source.find(">", start)
        if end < 0:
            yield source[start:]
            return
        at = end + 1
        if found:
            tag = _Tag(found[0].lower(), source[start + 1] == "/", source[found.end() : end])
            yield tag
            if tag.name in _RAW and not tag.is_end:
                close = lowered.find(f"</{tag.name}", at)
                close = len(source) if close < 0 else close
                yield source[at:close]
                at = close
    yield source[at:]


def _after(source: str, mark: str, start: int) -> int:
    found = source.find(mark, start)
    return len(source) if found < 0 else found + len(mark)


def _attribute(tag: _Tag, name: str) -> str:
    found = re.search(rf"""(?i)(?:^|\s){name}\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", tag.attributes)
    return html.unescape(found[1] or found[2] or found[3] or "") if found else ""


class _Writer:
    """Writes Markdown as tags and texts arrive."""

    def __init__(self, base_url: str) -> None:
        self.title: list[str] = []
        self._base = base_url
        self._lines: list[str] = []
        self._line: list[str] = []
        self._dropped: list[str] = []
        self._lists: list[int | None] = []
        self._quotes = 0
        self._preformatted = False
        self._in_title = False
        self._links: list[tuple[str, int]] = []

    def text(self, text: str) -> None:
        if self._in_title:
            self.title.append(text)
        elif self._dropped:
            return
        elif self._preformatted:
            first, *others = text.split("\n")
            self._line.append(first)
            for line in others:
                self._lines.append(self._prefix() + "".join(self._line))
                self._line = [line]
        elif text:
            self._line.append(_SPACE.sub(" ", text))

    def start(self, tag: _Tag) -> None:
        if tag.name == "title":
            self._in_title = True
        elif tag.name in _DROPPED:
            if len(self._dropped) < _MAX_DEPTH:
                self._dropped.append(tag.name)
        elif not self._dropped:
            self._open(tag)

    def end(self, name: str) -> None:
        if name == "title":
            self._in_title = False
        elif name in self._dropped:
            del self._dropped[self._dropped.index(name) :]
        elif name == "head" or not self._dropped:
            self._close(name)

    def result(self) -> str:
        self._break()
        return _MANY_LINES.sub("\n\n", "\n".join(self._lines)).strip() + "\n"

    def _open(self, tag: _Tag) -> None:
        name = tag.name
        if name in _HEADINGS:
            self._paragraph()
            self._line.append(_HEADINGS[name])
        elif name in _MARKS and not self._preformatted:
            self._line.append(_MARKS[name])
        elif opening := _OPENINGS.get(name):
            opening(self, tag)
        elif name in _BLOCKS:
            self._paragraph()

    def _close(self, name: str) -> None:
        if name in _MARKS and not self._preformatted:
            self._line.append(_MARKS[name])
        elif closing := _CLOSINGS.get(name):
            closing(self)
        elif name in _BLOCKS or name in _HEADINGS:
            self._paragraph()

    def _open_list(self, tag: _Tag) -> None:
        self._break()
        if not self._lists:
            self._lines.append("")
        if len(self._lists) < _MAX_DEPTH:
            self._lists.append(1 if tag.name == "ol" else None)

    def _close_list(self) -> None:
        self._break()
        if self._lists:
            self._lists.pop()
        if not self._lists:
            self._lines.append("")

    def _open_item(self, _tag: _Tag) -> None:
        self._break()
        number = self._lists[-1] if self._lists else None
        indent = "  " * max(0, len(self._lists) - 1)
        self._line.append(f"{indent}- " if number is None else f"{indent}{number}. ")
        if number is not None:
            self._lists[-1] = number + 1

    def _open_quote(self, _tag: _Tag) -> None:
        self._paragraph()
        self._quotes = min(self._quotes + 1, _MAX_DEPTH)

    def _close_quote(self) -> None:
        self._paragraph()
        self._quotes = max(0, self._quotes - 1)

    def _open_code(self, _tag: _Tag) -> None:
        self._paragraph()
        self._lines.append(self._prefix() + "```")
        self._preformatted = True

    def _close_code(self) -> None:
        if self._preformatted:
            self._break()
            self._preformatted = False
            self._lines += [self._prefix() + "```", ""]

    def _open_link(self, tag: _Tag) -> None:
        target = self._target(_attribute(tag, "href"))
        if len(self._links) < _MAX_DEPTH:
            self._links.append((target, len(self._line)))

    def _close_link(self) -> None:
        if not self._links:
            return
        target, at = self._links.pop()
        words = "".join(self._line[at:]).strip()
        if target and words and not self._preformatted:
            self._line[at:] = [f"[{words}]({target})"]

    def _open_image(self, tag: _Tag) -> None:
        if words := _SPACE.sub(" ", _attribute(tag, "alt")).strip():
            self._line.append(f"[image: {words}]")

    def _open_cell(self, _tag: _Tag) -> None:
        self._line.append("| ")

    def _close_cell(self) -> None:
        self._line.append(" ")

    def _target(self, given: str) -> str:
        """Return a link's absolute address; empty for links inside the page, scripts and data."""
        if not given or given.startswith("#") or len(given) > _MAX_LINK_CHARS:
            return ""
        try:
            target = urljoin(self._base, given.strip())
        except ValueError:
            return ""
        return re.sub(r"[\s()<>]", "", target) if target.startswith(("http://", "https://")) else ""

    def _prefix(self) -> str:
        return "> " * self._quotes

    def _break(self, _tag: _Tag | None = None) -> None:
        """End the line that is being written."""
        line = "".join(self._line)
        if not self._preformatted:
            indent = len(line) - len(line.lstrip(" ")) if self._lists else 0
            line = " " * indent + _SPACE.sub(" ", line).strip()
        if line.strip() or self._preformatted:
            self._lines.append(self._prefix() + line)
        self._line = []
        self._links = [(target, 0) for target, _ in self._links]

    def _paragraph(self) -> None:
        if self._preformatted:
            return
        had_text = any(part.strip() for part in self._line)
        self._break()
        if had_text or (self._lines and self._lines[-1] and not self._lists):
            self._lines.append("")


_OPENINGS: dict[str, Callable[[_Writer, _Tag], None]] = {
    "ul": _Writer._open_list, "ol": _Writer._open_list, "li": _Writer._open_item, "br": _Writer._break,
    "blockquote": _Writer._open_quote, "pre": _Writer._open_code, "a": _Writer._open_link, "hr": _Writer._break,
    "img": _Writer._open_image, "tr": _Writer._break, "td": _Writer._open_cell, "th": _Writer._open_cell,
}  # fmt: skip
_CLOSINGS: dict[str, Callable[[_Writer], None]] = {
    "ul": _Writer._close_list, "ol": _Writer._close_list, "blockquote": _Writer._close_quote,
    "pre": _Writer._close_code, "a": _Writer._close_link, "tr": _Writer._break, "td": _Writer._close_cell,
    "th": _Writer._close_cell, "li": _Writer._break,
}  # fmt: skip
