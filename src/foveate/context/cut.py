"""Cutting a text that is too large for its place: its beginning and its end stay, and a note says how large it was.

A text is cut before it is escaped, so a cut can't break a tag; it falls between lines if it can, else between
words, else between characters that a reader sees as one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Count = Callable[[str], int]

HEAD_SHARE = 0.7
"""Of what a cut leaves, this share is from the beginning."""
_LINE_REACH = 0.15
_WORD_REACH = 0.05
"""A cut moves back by up to this share of the text to fall between lines, or between words."""
_MIN_REACH_CHARS = 60
_TRIES = 12
_WIDE_CHARS = 16
"""More characters to a token than ordinary text has."""
_SEAM_TOKENS = 8
"""A part may count this many more tokens than the same characters inside the whole."""
_CLOSE = 0.97
_ZWJ = "\u200d"
_BACKSLASH = "\\"
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def cut_note(total_tokens: int) -> str:
    return f"… (cut: {total_tokens:,} tokens in all; get_turn shows the rest) …"


def cut_text(text: str, max_tokens: int, count: Count, total_tokens: int) -> str:
    """The text, or as much of its head and tail as fits `max_tokens` by `count`, with a note of its size between.

    `count` measures the text as it is sent (`costs.counting`). Where not even the note fits, what comes back is
    the shortest sign of a cut that does, or nothing.
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
    """Whether the text is too large; seen from a part of it, where that is enough."""
    part = text[: max_tokens * _WIDE_CHARS]
    return (len(part) < len(text) and count(part) > max_tokens + _SEAM_TOKENS) or count(text) > max_tokens


def _join(head: str, note: str, tail: str, ending: str) -> str:
    behind_head = "" if not head or head.endswith("\n") else " "
    behind_note = "\n" if tail else ending
    return f"{head}{behind_head}{note}{behind_note}{tail}"


def take_head(text: str, max_tokens: int, count: Count) -> str:
    """A prefix of at most this many tokens, ending at a line, a word, or a whole character."""
    return text[: _fit(len(text), max_tokens, lambda end: count(text[:end]), lambda end: _place(text, end))]


def take_tail(text: str, max_tokens: int, count: Count, start: int = 0) -> str:
    """The end of a text behind `start`, in at most this many tokens, from a line, a word, or a whole character on."""
    size = len(text)

    def fits(length: int) -> int:
        return count(text[size - length :])

    length = _fit(size - start, max_tokens, fits, lambda length: size - _place_behind(text, size - length))
    return text[size - length :] if length else ""


def _fit(size: int, max_tokens: int, measure: Callable[[int], int], snap: Callable[[int], int]) -> int:
    """The largest of a few lengths tried that fits, each moved to a good place."""
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
    """The best place to end at or before `end`."""
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", end - _line_reach(end), end)
    if line >= 0:
        return line + 1
    for place in range(end, max(0, end - int(end * _WORD_REACH) - 24), -1):
        if text[place].isspace():
            return place
    while end > 0 and not _is_whole(text, end):
        end -= 1
    return end


def _place_behind(text: str, start: int) -> int:
    """The best place to begin at or behind `start`."""
    if start <= 0:
        return 0
    length = len(text) - start
    line = text.find("\n", start - 1, start + _line_reach(length))
    if 0 <= line < len(text) - 1:
        return line + 1
    for place in range(start, min(len(text), start + int(length * _WORD_REACH) + 24)):
        if text[place - 1].isspace() and not text[place].isspace():
            return place
    while start < len(text) and not _is_whole(text, start):
        start += 1
    return start


def _is_whole(text: str, place: int) -> bool:
    """Whether a cut here leaves characters whole: letters with their accents, emoji with what they are joined to."""
    if not 0 < place < len(text):
        return True
    before, after = text[place - 1], text[place]
    if _ZWJ in (before, after) or before == _BACKSLASH or unicodedata.category(after).startswith("M"):
        return False
    code = ord(after)
    return code not in _SKIN_TONES and not (code in _REGIONAL and ord(before) in _REGIONAL)
