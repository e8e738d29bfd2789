"""Text in HTTP headers beyond ASCII: names of sessions are percent-encoded, other bytes are passed on as they came.

Header text is Latin-1 in both directions (as in ASGI), so every byte has a character and no header is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import punctuation
from typing import Final
from urllib.parse import quote, unquote

LATIN: Final = "latin-1"
_UNQUOTED: Final = punctuation.replace("%", "")


def written(text: str) -> str:
    """Return a text as a header's value: itself in ASCII, otherwise percent-encoded in UTF-8."""
    return text if text.isascii() else quote(text, safe=_UNQUOTED)


def readable(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the text that was meant: UTF-8 if the bytes are, or percent-encoded by `written`."""
    return {name: value if _is_plain(value) else _meant(value) for name, value in headers.items()}


def _is_plain(value: str) -> bool:
    return value.isascii() and "%" not in value


def _meant(value: str) -> str:
    try:
        text = value.encode(LATIN).decode()
        decoded = unquote(text, errors="strict") if text.isascii() else text
    except UnicodeError:
        return value
    return text if decoded.isascii() else decoded  # a name in ASCII is never encoded, though it may have a %
