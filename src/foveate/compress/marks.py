"""Speakers' marks inside compressed text, and escaping, so that content can't forge them.

Unmarked text is the user's; the assistant's begins with `[assistant] `. Content that looks like a mark, or like the
`Turn 12:` before each turn of a range block, gets one more backslash in any position; reading removes one.
"""

from __future__ import annotations

import re

from foveate.renditions import Count
from foveate.text import MARK_WORDS

_FORGED = re.compile(rf"(?<!\\)(\\*(?:\[(?:{MARK_WORDS})\b|Turn \d+:))")
_ESCAPED = re.compile(rf"(?<!\\)\\(\\*(?:\[(?:{MARK_WORDS})\b|Turn \d+:))")


def escape_inline(text: str) -> str:
    """Put one backslash before anything that could be mistaken for a mark or for the head of a turn."""
    return _FORGED.sub(r"\\\1", text) if "[" in text or "Turn " in text else text


def unescape_inline(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def one_line(text: str) -> str:
    """Replace all line ends and runs of spaces by one space."""
    return " ".join(text.split())


def marked(speaker: str, text: str) -> str:
    return f"[{speaker}] {text}" if speaker != "user" else text


def cut_line(text: str, max_tokens: int, count: Count) -> str:
    """Return the longest beginning of a line that fits, with an ellipsis if it was cut."""
    if count(text) <= max_tokens:
        return text
    low, high = 0, min(len(text), max_tokens * 12)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count(f"{text[:middle].rstrip()}…") <= max_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return f"{text[:low].rstrip()}…"
