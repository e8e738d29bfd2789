"""Tags: a turn's id and level around its text, so that a model can ask for more of it by name.

Text inside a turn that looks like a tag, or like an escaped one, gets one backslash more behind its `<`;
reading takes one away. So no content can open, close or forge a turn.
"""

from __future__ import annotations

import re

from foveate.turn import turn_id

_FORGED = re.compile(r"<(\\*\s*/?\s*T-)", re.IGNORECASE)
_ESCAPED = re.compile(r"<\\(\\*\s*/?\s*T-)", re.IGNORECASE)


def escape_tags(text: str) -> str:
    return _FORGED.sub(r"<\\\1", text)


def unescape_tags(text: str) -> str:
    return _ESCAPED.sub(r"<\1", text)


def tag_turn(number: int, level: str, text: str) -> str:
    """A turn's text in its tag; the text ends in a newline, as `foveate.text` makes it."""
    tag = f"{turn_id(number)}-{level}"
    return f"<{tag}>\n{escape_tags(text)}</{tag}>\n"
