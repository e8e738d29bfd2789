"""Markdown of answers as HTML: every text is escaped, and only web and mail links are links.

Raw HTML stays text, images are not loaded, and the output has no style, no id and no script, as the page's policy
demands.
`GrowingMarkdown` renders an answer while it arrives: finished blocks once, the block in progress again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

MAX_MARKDOWN_CHARS = 10_000
"""Characters of a text above which it is shown as plain text: the worst text of this size takes .2 s."""
MAX_CODE_CHARS = 100_000
"""The same for a block of code in progress, which has nothing to parse."""
MAX_NESTING = 12
"""Quotes and lists inside each other; deeper ones are text."""
HEADING_OFFSET = 2
"""An answer's first heading is below the page's `h2`."""
MAX_HEADING = 6
FENCES = ("```", "~~~")
LINKS = ("http://", "https://", "mailto:")
_LANGUAGE = re.compile(r"[a-zA-Z0-9+#.-]{1,30}")
_ALIGNMENTS = {"text-align:right": "right", "text-align:center": "center"}


class Painted(NamedTuple):
    """An answer in progress: HTML to append for good, and HTML of the block in progress."""

    finished: str
    tail: str


class GrowingMarkdown:
    """The Markdown of an answer that arrives in pieces."""

    def __init__(self) -> None:
        self._tail = ""
        self._is_plain = False
        """Whether the block in progress became too large for Markdown."""

    def feed(self, piece: str) -> Painted:
        """Add a piece of the answer and render what changed."""
        self._tail += piece
        most = MAX_CODE_CHARS if self._tail.startswith(FENCES) else MAX_MARKDOWN_CHARS
        if self._is_plain or len(self._tail) > most:
            self._is_plain = True
            return Painted("", _plain(self._tail))
        # The last block can still grow, and a line in progress can still become another kind of block.
        lines = self._tail.splitlines(keepends=True)
        whole = len(lines) - (not self._tail.endswith("\n")) if lines else 0
        start = _last_block("".join(lines[:whole]))
        finished = "".join(lines[:start])
        self._tail = "".join(lines[start:])
        return Painted(_render(finished) if finished.strip() else "", _render(self._tail))


def render_markdown(text: str) -> Markup:
    """Render a text of a model as safe HTML; a text that is too large is shown as it is."""
    return Markup(_plain(text) if len(text) > MAX_MARKDOWN_CHARS else _render(text))  # noqa: S704 - both escape


def _render(text: str) -> str:
    parser = _parser()
    tokens = parser.parse(_normal(text), {})
    return str(parser.renderer.render(list(_shown(tokens)), parser.options, {}))


def _normal(text: str) -> str:
    """Encode lone surrogates, which a link can't contain, as the page does."""
    return text.encode("utf-8", "replace").decode()


def _plain(text: str) -> str:
    return f'<div class="said">{escape(text)}</div>'


def _last_block(text: str) -> int:
    """Return the line in which the last block of a text begins."""
    blocks = [token.map[0] for token in _blocks().parse(_normal(text)) if token.level == 0 and token.map]
    return blocks[-1] if blocks else 0


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": True, "maxNesting": MAX_NESTING}
    found = MarkdownIt("js-default", options)
    # A definition can be far from its link, so that a finished block could change.
    found.disable(["image", "reference", "html_block", "html_inline"])
    found.validateLink = _is_link  # type: ignore[method-assign]
    return found


@cache
def _blocks() -> MarkdownIt:
    """A parser of blocks alone, which skips what is inside them."""
    found = MarkdownIt("js-default", {"html": False, "maxNesting": MAX_NESTING})
    found.disable(["reference", "html_block", "inline"])
    return found


def _is_link(url: str) -> bool:
    return url.strip().lower().startswith(LINKS)


def _shown(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens without inline styles; links open outside and tell nothing of this page; wide blocks scroll by
    keyboard too."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(MAX_HEADING, int(token.tag[1:]) + HEADING_OFFSET)}"
        elif token.type == "link_open":
            token.attrs = {"href": token.attrs["href"], "target": "_blank", "rel": "noopener noreferrer nofollow"}
        elif token.type in ("th_open", "td_open"):
            style = token.attrs.pop("style", "")
            token.attrs |= {"class": _ALIGNMENTS[style]} if style in _ALIGNMENTS else {}
        elif token.type in ("fence", "code_block"):
            yield _markup(_code(token))
            continue
        if token.children:
            token.children = list(_shown(token.children))
        if token.type == "table_open":
            yield _markup('<div class="scroll" tabindex="0">')
        yield token
        if token.type == "table_close":
            yield _markup("</div>\n")


def _code(token: Token) -> str:
    language = _LANGUAGE.match(token.info.strip())
    name = f'<span class="language">{escape(language[0])}</span>' if language else ""
    return f'<div class="code">{name}<pre tabindex="0"><code>{escape(token.content)}</code></pre></div>\n'


def _markup(html: str) -> Token:
    """Return a token that is written as it is."""
    return Token("html_block", "", 0, content=html)
