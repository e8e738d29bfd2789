"""The words of a text for the index, and of a query for a search: identifiers whole and in parts, any script. Pure.

The database's tokenizer folds case and accents, stems, and cuts at everything that is no letter or digit; a phrase is
words that follow each other. So `src/auth/jwt.py` is found as a phrase by itself, and what that leaves out is said
here: the parts of `getUserById`, the characters of scripts without spaces, and symbols such as emoji.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from foveate.words import stop_words
from foveate.words.grammar import QUESTION_MARKS, index_borders

MAX_QUERY_CHARS = 20_000
"""Of a longer query its beginning and its end are read."""
MAX_PHRASES = 24
"""Words and phrases that one search looks up, the most specific ones."""
MAX_PHRASE_CHARS = 200
"""Longer tokens of a query are looked for by their parts only."""
PAIR = 2
MAX_PIECES = 16
LEAST_PIECE_CHARS = 2
"""Parts of a word mean something if there are not too many, and they are not shorter than this on average."""
MAX_SPECIFICITY_CHARS = 12
"""From here on a longer word tells no more."""

ENDING_CHARS = 3
"""Words that differ in at most this many last characters count as forms of one word."""
LEAST_SHARED_CHARS = 4
MAX_CODE_CHARS = 80
"""Inline code ends within this many characters."""
GAP_CHARS = 2
"""Length of the mark between sentences that do not follow each other."""

STOP_WORDS = stop_words("search", "en")
_SILENT = frozenset(word.replace("'", " ") for word in STOP_WORDS)

# Scripts that are written without spaces: kana, ideographs and their extensions, Hangul left out since it has spaces.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
# The tokenizer has an older Unicode version: a word next to a character it may not know is a phrase of its own.
_RARE = re.compile(r"[\U00010000-\U0001efff]")
# An accent may come as a character of its own.
_IN_WORD = r"[^\W_](?:[^\W_]|[\u0300-\u036f])*"
_WORD = re.compile(_IN_WORD)
_LETTERS = re.compile(r"[^\W_]+")
_JOINT = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[^\W\d_][0-9]|[0-9][^\W\d_]")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[0-9]+|[^\W_]")
# It begins where a word does and never goes back, so that a word of any length is read once.
_COMPOUND = re.compile(rf"(?<![^\W_])(?>{_IN_WORD})(?>[-_./:@#\\+]+{_IN_WORD})+")
_LETTER_IN_WORD = re.compile(rf"{_IN_WORD}(?:['\u2019]{_IN_WORD})*")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def extra_words(text: str) -> str:
    """What the tokenizer would not find in a text by itself, as words."""
    words: list[str] = []
    for word in dict.fromkeys(_WORD.findall(text)):
        if not (word.isalpha() and word[1:].islower()) and _JOINT.search(word):
            words += _pieces(word)
    if _NOT_ASCII.search(text):
        for letters in _LETTERS.findall(text):
            if runs := _UNSPACED_RUN.findall(letters):
                words += [char for run in runs for char in run]
                words += _WORD.findall(_UNSPACED_RUN.sub(" ", letters))
        for token in text.split():
            if _RARE.search(token):
                words += _WORD.findall(token)
        words += _symbols(text)
    return " ".join(words)


def query_phrases(query: str) -> list[str]:
    """What to look for, the most telling first: each a word, or words that follow each other.

    Words that say nothing are left out, unless there are no others.
    """
    if len(query) > MAX_QUERY_CHARS:
        query = f"{query[: MAX_QUERY_CHARS // 2]} {query[-MAX_QUERY_CHARS // 2 :]}"
    found = dict.fromkeys(_phrases(query))
    telling = [phrase for phrase in found if phrase not in _SILENT]
    ranks = {
        phrase: min(len(phrase), MAX_SPECIFICITY_CHARS)
        + MAX_SPECIFICITY_CHARS * (any(map(str.isdigit, phrase)) + (" " in phrase))
        for phrase in telling or found
    }
    # Sorting keeps the order of the query among those that are likely to tell as much; the index decides later.
    return sorted(ranks, key=ranks.__getitem__, reverse=True)[:MAX_PHRASES]


def telling_words(text: str) -> set[str]:
    """The words of a text in lower case, without stop words."""
    return {word.lower() for word in _LETTERS.findall(text)} - STOP_WORDS


def names_code(query: str) -> bool:
    """Whether a query has an identifier or a path: `getUserById`, `max_retry`, `src/auth.py`."""
    words = (word for word in _WORD.findall(query) if not word.isalpha() or not word[1:].islower())
    return _COMPOUND.search(query) is not None or any(_JOINT.search(word) for word in words)


def word_count(text: str) -> int:
    """About how many words a text has."""
    return len(text.split())


def _phrases(query: str) -> Iterator[str]:
    for match in _COMPOUND.finditer(query):
        words = _WORD.findall(match[0])
        # A pair with a word that is in most passages is slow to find, and no more specific than the other word.
        is_telling = len(words) > PAIR or not STOP_WORDS.intersection(map(str.lower, words))
        if len(match[0]) <= MAX_PHRASE_CHARS and is_telling:
            yield " ".join(words)
    for match in _LETTER_IN_WORD.finditer(query):
        if match[0].replace("\u2019", "'").lower() in STOP_WORDS:
            yield " ".join(_WORD.findall(match[0])).lower()
            continue
        for part in _WORD.findall(match[0]):
            if part.isascii() and (part.islower() or part[1:].islower()) and part.isalpha():
                if len(part) <= MAX_PHRASE_CHARS:
                    yield part.lower()
            else:
                yield from _word_phrases(part)
    if _NOT_ASCII.search(query):
        yield from _symbols(query)


def _word_phrases(word: str) -> Iterator[str]:
    """A word as the index has it, and in its parts."""
    runs = _UNSPACED_RUN.findall(word)
    if runs:
        for run in runs:
            # Two characters are about a word; the index has each character by itself.
            yield from (" ".join(run[start : start + 2]) for start in range(max(1, len(run) - 1)))
        return
    if len(word) <= MAX_PHRASE_CHARS:
        yield word.lower()
    pieces = _pieces(word) if _JOINT.search(word) else []
    if pieces:
        yield " ".join(pieces).lower()
        yield from (piece.lower() for piece in pieces if len(piece) > 1)


def _pieces(word: str) -> list[str]:
    """The parts of a word such as getUserById or ISO8601; a hash, or a number such as 0x5e, has none that tell."""
    pieces = _PIECE.findall(word)
    return pieces if 1 < len(pieces) <= MAX_PIECES and len(word) >= LEAST_PIECE_CHARS * len(pieces) else []


def _symbols(text: str) -> Iterable[str]:
    """Emoji and other signs, each as a word the tokenizer takes."""
    return [f"u{ord(char):x}" for char in _NOT_ASCII.findall(text) if unicodedata.category(char) == "So"]


def find_words(text: str, query: str) -> list[tuple[int, int]]:
    """The spans of the text that are words of the query, or other forms of them."""
    wanted = sorted({word for phrase in query_phrases(query) for word in phrase.split()} - STOP_WORDS)
    wanted = wanted or sorted({word.lower() for word in _LETTERS.findall(query)})
    return [match.span() for match in _LETTERS.finditer(text) if _is_form(match[0].lower(), wanted)]


def snippet(text: str, query: str, max_chars: int) -> str:
    """The sentences of a text, on one line, that have most of the query's words.

    A sentence that is too long is cut between words, but neither inside a number nor inside inline code.
    """
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    found = [start for start, _ in find_words(line, query)]
    borders = [0, *index_borders(line), len(line)]
    first, last = _best_run(borders, found, max_chars)
    if borders[last] - borders[first] > max_chars:  # one sentence
        return _cut_sentence(line, borders[first], borders[last], found, max_chars)
    return _with_gaps(line, borders[first], borders[last])


def gist(text: str, query: str, max_chars: int) -> str:
    """The sentences of a text, on one line, that state most, in their order: those with words of the query first, then
    those with numbers, then the other statements, then questions."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    found = [start for start, _ in find_words(line, query)] if query else []
    borders = [0, *index_borders(line), len(line)]
    spans = [(start, end) for start, end in pairwise(borders) if end > start]

    def worth(span: tuple[int, int]) -> tuple[int, bool, bool, int]:
        said = line[span[0] : span[1]].rstrip()
        words = bisect_left(found, span[1]) - bisect_left(found, span[0])
        return words, any(map(str.isdigit, said)), not said.endswith(QUESTION_MARKS), -span[0]

    kept: list[tuple[int, int]] = []
    left = max_chars
    for span in sorted(spans, key=worth, reverse=True):
        if (size := span[1] - span[0] + GAP_CHARS) <= left:
            kept.append(span)
            left -= size
    if not kept:
        return snippet(text, query, max_chars)
    parts: list[str] = []
    end = 0
    for start, behind in sorted(kept):
        parts += ["… "] if start > end else []
        parts.append(line[start:behind])
        end = behind
    return "".join(parts).rstrip() + (" …" if end < len(line) else "")


def _best_run(borders: list[int], found: list[int], max_chars: int) -> tuple[int, int]:
    """The run of sentences, by their first and last border, that has most of the found places; at least one sentence,
    and as many around it as there is room for."""

    def words(first: int, last: int) -> int:
        return bisect_left(found, borders[last]) - bisect_left(found, borders[first])

    best, first = (0, 1), 0
    for last in range(1, len(borders)):
        while first < last - 1 and borders[last] - borders[first] > max_chars:
            first += 1
        if words(first, last) > words(*best):
            best = first, last
    first, last = best
    while last < len(borders) - 1 and borders[last + 1] - borders[first] <= max_chars:
        last += 1
    while first > 0 and borders[last] - borders[first - 1] <= max_chars:
        first -= 1
    return first, last


def _cut_sentence(line: str, begin: int, behind: int, found: list[int], max_chars: int) -> str:
    """The stretch of a long sentence that has most of the found places."""
    own = [place for place in found if begin <= place < behind]
    reach = max_chars - max_chars // 4
    best = max(
        own, key=lambda start: (bisect_left(own, start + reach) - bisect_left(own, start), -start), default=begin
    )
    start = max(begin, min(best - max_chars // 4, behind - max_chars))
    end = min(start + max_chars, behind)
    gaps = [place for place in range(start, end) if line[place] == " " and _may_cut(line, begin, place)]
    # Between words, unless one is longer than all of it.
    first = gaps[0] + 1 if start > begin and gaps else start
    last = gaps[-1] if end < behind and gaps else end
    if last <= first:
        first, last = start, end
    return _with_gaps(line, first, last)


def _may_cut(line: str, begin: int, place: int) -> bool:
    """Whether a space is neither between the digits of a number nor inside inline code."""
    is_in_number = line[place - 1 : place].isdigit() and line[place + 1 : place + 2].isdigit()
    ticks = line.count("`", begin, place)
    return not is_in_number and not (ticks % 2 and "`" in line[place : place + MAX_CODE_CHARS])


def _with_gaps(line: str, first: int, last: int) -> str:
    return ("… " if first else "") + line[first:last].strip() + (" …" if last < len(line) else "")


def _is_form(word: str, wanted: list[str]) -> bool:
    return any(_are_forms(word, other) for other in wanted)


def _are_forms(one: str, two: str) -> bool:
    if one == two:
        return True
    short, long = sorted((one, two), key=len)
    shared = max(LEAST_SHARED_CHARS, len(long) - ENDING_CHARS)
    return len(short) >= shared and short[:shared] == long[:shared] and short.isalpha() and long.isalpha()
