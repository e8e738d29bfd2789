"""Speakers' marks inside compressed text, and content that can't forge them.

Unmarked text is the user's; the assistant's begins with `[assistant] `. Content that looks like a mark, or like the
`Turn 12:` that a range block puts before a turn, gets one backslash more wherever it stands; reading takes one away.
"""

from __future__ import annotations

import re

from foveate.text import MARK_WORDS

_LIKE = re.compile(r"\[|Turn ")
_FORGED = re.compile(rf"(\\*(?:\[(?:{MARK_WORDS})\b|Turn \d+:))")
_ESCAPED = re.compile(rf"\\(\\*(?:\[(?:{MARK_WORDS})\b|Turn \d+:))")


def escape_inline(text: str) -> str:
    """The text with one backslash before whatever could be taken for a mark or for the head of a turn."""
    return _FORGED.sub(r"\\\1", text) if _LIKE.search(text) else text


def unescape_inline(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def one_line(text: str) -> str:
    """The text without line ends of any sort, and no two spaces together."""
    return " ".join(text.split())


def marked(speaker: str, text: str) -> str:
    return f"[{speaker}] {text}" if speaker != "user" else text
