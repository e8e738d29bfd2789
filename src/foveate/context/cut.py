"""Cuts a text that is too large: beginning and end stay, with a note of its full size between them.

A text is cut before it is escaped, so a cut can't break a tag. It is cut between lines if possible, else between words,
else between visible characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Count = Callable[[str], int]

HEAD_SHARE = 0.7
"""Share of a cut text that is taken from the beginning."""
_LINE_REACH = 0.15
_WORD_REACH = 0.05
"""Share of the text by which a cut may move to fall between lines, or between words."""
_MIN_REACH_CHARS = 60
_TRIES = 12
_WIDE_CHARS = 16
"""Characters per token: more than ordinary text has."""
_SEAM_TOKENS = 8
"""Maximum difference between the tokens of a part and of the same characters inside the whole text."""
_CLOSE = 0.97
MAX_COUNTED_CHARS = 1_000_000
"""The size of a longer text is estimated from this many characters."""
MAX_CLUSTER_CHARS = 64
"""A cut moves at most this far to keep characters together; a longer run of accents or joiners is cut anywhere."""
_ZWJ = "\u200d"
_BACKSLASH = "\\"
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def cut_note(total_tokens: int) -> str:
    return f"… (cut: {total_tokens:,} tokens in all; get_turn shows the rest) …"


def cut_text(text: str, max_tokens: int, count: Count, total_tokens: int) -> str:
    """Return the text if it fits `max_tokens`, else its beginning and end with a note of its full size between them.

    `count` measures the text as it is sent (`costs.counting`). If not even the note fits, the result is an ellipsis or
    empty.
    """
    if not exceeds(text, max_tokens, count):
        return text
    ending = "\n" if text.endswith("\n") else ""
    note = cut_note(total_tokens)
    room = max_tokens - count(f"{note}\n{ending}")
    while room > 0:
        head = take_head(text, int(room * HEAD_SHARE), count)
        tail = take_tail(text, room - count(head) if head else room, count, len(head))
        cut = _join(head, note, tail, ending)
        over = count(cut) - max_tokens
        if over <= 0:
            return cut
        room -= max(over, room // 16, 1)
    for sign in (note, "…"):
        if count(f"{sign}{ending}") <= max_tokens:
            return f"{sign}{ending}"
    return ""


def exceeds(text: str, max_tokens: int, count: Count) -> bool:
    """Return whether the text has more tokens than this; of a long text only a part is counted if that is enough."""
    part = text[: max(0, max_tokens + _SEAM_TOKENS + 1) * _WIDE_CHARS]
    return (len(part) < len(text) and count(part) > max_tokens + _SEAM_TOKENS) or count(text) > max_tokens


def estimated_size(text: str, count: Count) -> int:
    """Return the tokens of a text; those of a very long one are estimated, since it is cut anyway."""
    tokens = count(text[:MAX_COUNTED_CHARS])
    return tokens * max(len(text), MAX_COUNTED_CHARS) // MAX_COUNTED_CHARS


def _join(head: str, note: str, tail: str, ending: str) -> str:
    after_head = "" if not head or head.endswith("\n") else " "
    after_note = "\n" if tail else ending
    return f"{head}{after_head}{note}{after_note}{tail}"


def take_head(text: str, max_tokens: int, count: Count) -> str:
    """Return a prefix of at most this many tokens that ends with a line, a word, or a visible character."""
    return text[: _fit(len(text), max_tokens, lambda end: count(text[:end]), lambda end: _place(text, end))]


def take_tail(text: str, max_tokens: int, count: Count, start: int = 0) -> str:
    """Return the end of `text[start:]`, at most this many tokens, from the beginning of a line, word or character."""
    size = len(text)

    def fits(length: int) -> int:
        return count(text[size - length :])

    length = _fit(size - start, max_tokens, fits, lambda length: size - _place_after(text, size - length))
    return text[size - length :] if length else ""


def _fit(size: int, max_tokens: int, measure: Callable[[int], int], snap: Callable[[int], int]) -> int:
    """Search for the largest length that fits, in a few tries; `snap` moves each to a good place."""
    best, low, high = 0, 0, size + 1
    guess = min(size, max_tokens * 4)
    for _ in range(_TRIES):
        if max_tokens <= 0 or high - low <= 1:
            break
        length = min(max(snap(min(guess, size)), 0), size)
        tokens = measure(length) if length else 0
        if tokens <= max_tokens:
            best, low = max(best, length), max(low, guess)
            if tokens >= max_tokens * _CLOSE:
                break
        else:
            high = min(high, guess)
        by_ratio = int(guess * max_tokens / tokens) if tokens else guess * 2
        guess = by_ratio if low < by_ratio < high else (low + min(high, size + 1)) // 2
    return best


def _line_reach(length: int) -> int:
    return max(int(length * _LINE_REACH), min(length // 2, _MIN_REACH_CHARS))


def _place(text: str, end: int) -> int:
    """Return the best place for the end of a text at or before `end`."""
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", end - _line_reach(end), end)
    if line >= 0:
        return line + 1
    for place in range(end, max(0, end - int(end * _WORD_REACH) - 24), -1):
        if text[place].isspace():
            return place
    return next((place for place in range(end, max(-1, end - MAX_CLUSTER_CHARS), -1) if _is_whole(text, place)), end)


def _place_after(text: str, start: int) -> int:
    """Return the best place for the beginning of a text at or after `start`."""
    if start <= 0:
        return 0
    length = len(text) - start
    line = text.find("\n", start - 1, start + _line_reach(length))
    if 0 <= line < len(text) - 1:
        return line + 1
    for place in range(start, min(len(text), start + int(length * _WORD_REACH) + 24)):
        if text[place - 1].isspace() and not text[place].isspace():
            return place
    reach = range(start, min(len(text), start + MAX_CLUSTER_CHARS) + 1)
    return next((place for place in reach if _is_whole(text, place)), start)


def _is_whole(text: str, place: int) -> bool:
    """Return whether a cut here splits no character from its accents, no joined emoji and no backslash from what it
    escapes."""
    if not 0 < place < len(text):
        return True
    before, after = text[place - 1], text[place]
    if _ZWJ in (before, after) or unicodedata.category(after).startswith("M"):
        return False
    if before == _BACKSLASH:
        return after == _BACKSLASH
    if ord(after) in _REGIONAL:
        start = place
        while start > 0 and ord(text[start - 1]) in _REGIONAL:
            start -= 1
        return (place - start) % 2 == 0  # a flag is two letters
    return ord(after) not in _SKIN_TONES
