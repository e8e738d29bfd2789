"""Where a passage says what was asked for: the stretch of it to show, and the words to mark. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left

from foveate.recall.words import STOP_WORDS, query_phrases

ENDING_CHARS = 3
"""Words that differ in so many last characters may be forms of the same."""
LEAST_SHARED_CHARS = 4

_WORD = re.compile(r"[^\W_]+")


def find_words(text: str, query: str) -> list[tuple[int, int]]:
    """Where words of the query, or other forms of them, stand in the text: each from a place up to another."""
    wanted = sorted({word for phrase in query_phrases(query) for word in phrase.split()} - STOP_WORDS)
    wanted = wanted or sorted({word.lower() for word in _WORD.findall(query)})
    return [match.span() for match in _WORD.finditer(text) if _is_form(match[0].lower(), wanted)]


def snippet(text: str, query: str, max_chars: int) -> str:
    """The stretch of a text, on one line, that has most of the query's words."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    found = [start for start, _ in find_words(line, query)]
    reach = max_chars - max_chars // 4
    best = max(
        found, key=lambda start: (bisect_left(found, start + reach) - bisect_left(found, start), -start), default=0
    )
    start = max(0, min(best - max_chars // 4, len(line) - max_chars))
    end = start + max_chars
    # Whole words, unless one is longer than all of it.
    first = line.find(" ", start, end) + 1 if start else 0
    last = line.rfind(" ", start, end) if end < len(line) else len(line)
    if last <= first:
        first, last = start, end
    return ("… " if first else "") + line[first:last] + (" …" if last < len(line) else "")


def _is_form(word: str, wanted: list[str]) -> bool:
    return any(_are_forms(word, other) for other in wanted)


def _are_forms(one: str, two: str) -> bool:
    if one == two:
        return True
    short, long = sorted((one, two), key=len)
    shared = max(LEAST_SHARED_CHARS, len(long) - ENDING_CHARS)
    return len(short) >= shared and short[:shared] == long[:shared] and short.isalpha() and long.isalpha()
