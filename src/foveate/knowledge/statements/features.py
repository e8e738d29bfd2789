"""What the model of statements sees of a sentence: its words, their order, the sentence before it, and phrases. Pure.

Words that many texts have are read as they are written, in small letters without accents and apostrophes, since sloppy
typing lacks them. Others are read by their class (a name, a number, a time, code), by their first letters and by their
ending, so that what was learned of one sentence holds for another subject and for other forms of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from zlib import crc32

from foveate.compress.lexicon import MONTHS, common_words
from foveate.knowledge.statements.phrases import LANGUAGES, load

ROWS = 1 << 18
"""Rows of the model: a feature is found by its hash. The labels have 150,000; fewer rows share too many."""
COMMON_LINE = 30
"""Words up to this line of the table, one in 5,600 words of text, are read as they are written."""
KNOWN_LINE = 44
"""A capital letter does not make a name of a word up to this line."""
NEAR = 4
"""Words at the beginning of a sentence that are read with their place."""
STARTS = 5
"""Words at the beginning of a sentence that are read together."""
PREFIX_CHARS = 4
SUFFIX_CHARS = 3
MAX_LENGTH = 9
"""Last class of a sentence's length, which is counted in threes."""

_TOKEN = re.compile(r"`[^`\n]+`|https?://\S+|[^\W_](?:[\w@#./:+-]*[\w%€$£])?|[€$£]\d[\d.,]*|[^\w\s]")
_CLITIC = re.compile(r"\b([ldjnmtsc]|qu)'(?=\w)", re.IGNORECASE)
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_REPEATED = re.compile(r"(.)\1{2,}")
_TIME = re.compile(r"\d{1,2}(?:[:h]\d{0,2}|am|pm)")
_NUMBER = re.compile(r"[€$£]?[\d.,]+[%€$£k]?")
_IDENTIFIER = re.compile(r"[_/.@:+#]")
_MARKS = ",;:?!"
_QUOTES = '"“”«»„'
_OPEN = ("<w>", "<cap>", "<name>")
"""Classes of words that are also read by their ending."""
_INFLECTED = ("<w>", "<cap>")
"""Classes of words that are also read by their first letters."""
_FACTS = ("<number>", "<time>", "<day>", "<month>", "<name>", "<code>", "<mix>", '"', ":", ",")
"""Classes and marks whose presence counts."""


def rows_of(sentences: Sequence[str], at: int, signals: Sequence[str]) -> list[int]:
    """Return the rows of a sentence of a prompt, each once, in order; signals are the phrases found in it."""
    found = {*_own(sentences[at]), *_context(sentences, at), *_pairs(signals)}
    return sorted({crc32(each.encode("utf-8", "surrogatepass")) % ROWS for each in found})


def _pairs(signals: Sequence[str]) -> Iterator[str]:
    ordered = sorted(set(signals))
    for number, one in enumerate(ordered):
        yield f"X {one}"
        yield from (f"X {one}|{other}" for other in ordered[number + 1 :])


def _own(text: str) -> Iterator[str]:
    words, classes = _read(text)
    endings = [
        f"{each}{word[-SUFFIX_CHARS:]}" if each in _OPEN else each for each, word in zip(classes, words, strict=True)
    ]
    starts = [word[:PREFIX_CHARS] if each in _INFLECTED else each for each, word in zip(classes, words, strict=True)]
    yield from (f"u {word}" for word in words)
    yield from (f"c {each}" for each in endings)
    yield from _runs("b", classes, 2)
    yield from _runs("t", classes, 3)
    yield from (f"q {each}" for each in starts)
    yield from _runs("qb", starts, 2)
    for size in range(1, min(STARTS, len(classes)) + 1):
        yield f"f{size} {' '.join(classes[:size])}"
    for place in range(min(NEAR, len(classes))):
        yield f"g{place} {endings[place]}"
        yield f"h{place} {words[place]}"
    yield f"length {min(MAX_LENGTH, len(words) // 3)}"
    last = text.rstrip()[-1:]
    yield f"end {'a' if last.isalnum() else last}"
    if text[:1].islower():
        yield "small"
    yield from (f"has {each}" for each in _FACTS if each in classes)


def _context(sentences: Sequence[str], at: int) -> Iterator[str]:
    yield f"place {min(at, 3)} {min(len(sentences) - 1 - at, 2)}"
    if not at:
        yield "P none"
        return
    words, classes = _read(sentences[at - 1])
    yield from (f"Pu {word}" for word in words)
    yield from (f"P {each}" for each in classes)
    for size in range(1, 4):
        yield f"P{size} {' '.join(classes[:size])}"
    yield f"Pe {sentences[at - 1].rstrip()[-1:]}"


def _runs(name: str, words: Sequence[str], size: int) -> Iterator[str]:
    marked = ["^", *words, "$"]
    for start in range(len(marked) - size + 1):
        yield f"{name} {' '.join(marked[start : start + size])}"


def _read(text: str) -> tuple[list[str], list[str]]:
    """Return the words and marks of a sentence in plain letters, and the class of each."""
    straight = text.replace("\u2019", "'").replace("\u2018", "'")
    tokens = _TOKEN.findall(_APOSTROPHE.sub("", _CLITIC.sub(r"\1 ", straight)))
    words: list[str] = []
    classes: list[str] = []
    for token in tokens:
        if token in _QUOTES:
            words.append('"')
            classes.append('"')
        elif token in _MARKS or token[-1].isalnum() or token[-1] in "`%€$£":
            classes.append(_class_of(token, is_first=not words))
            words.append(_plain(token))
    return words, classes


@lru_cache(maxsize=50_000)
def _plain(word: str) -> str:
    bare = "".join(char for char in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(char))
    return _REPEATED.sub(r"\1\1", bare)


@lru_cache(maxsize=50_000)
def _class_of(token: str, *, is_first: bool) -> str:
    word = _plain(token)
    if not any(map(str.isalnum, token)):
        return token
    line = _lines().get(word)
    is_code = token[0] == "`" or token.startswith("http") or _IDENTIFIER.search(word)
    if any(map(str.isdigit, word)) and not token.startswith(("`", "http")):
        found = "<time>" if _TIME.fullmatch(word) else "<number>" if _NUMBER.fullmatch(word) else "<mix>"
    elif named := _dates().get(word):
        found = named
    elif is_code or (token[1:] != token[1:].lower() and not token.isupper()):
        found = "<code>"
    elif line is not None and line <= COMMON_LINE:
        found = word
    elif token[0].isupper() and not is_first:
        found = "<cap>" if line is not None and line <= KNOWN_LINE else "<name>"
    else:
        found = "<w>"
    return found


@cache
def _lines() -> dict[str, int]:
    found: dict[str, int] = {}
    for word, line in common_words().items():
        found.setdefault(_plain(word).replace("'", ""), line)  # the commonest spelling comes first
    return found


@cache
def _dates() -> dict[str, str]:
    months = {_plain(word): "<month>" for word in MONTHS if word != "may"}
    times = {_plain(word): "<day>" for name in LANGUAGES for word in load(name).times}
    return {**times, **months}
