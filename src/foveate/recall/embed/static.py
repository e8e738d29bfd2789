"""Texts as vectors, by a small model that is part of the package: the mean of a text's word-piece vectors.

`static.npz` is all-MiniLM-L6-v2 distilled to one vector per word piece (256 dimensions, 8-bit); see NOTICE. There is no
network and no state: the same text gives the same vector everywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.recall.words import telling_words

NAME = "static-minilm-256"
"""Kept with stored vectors: those of another model are made again."""
DIMENSIONS = 256
MAX_WORD_CHARS = 100
"""Longer words have no meaning of their own: hashes, base64."""
MAX_PIECES = 512
"""Of a text; passages are shorter."""
MAX_KNOWN_WORDS = 50_000
MINILM_OFFSET = 997
MINILM_BEGIN = 101
MINILM_END = 102

Vectors = NDArray[np.float32]

_ASCII_WORD = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


class StaticEmbedder:
    """The model in the package: see `foveate.recall.embed.Embedder`."""

    is_local = True

    def __init__(self) -> None:
        self.name = NAME
        self.dimensions = DIMENSIONS

    def knows(self, text: str) -> bool:
        return knows(text)

    async def learn(self) -> None:
        """Both are known."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return embed(texts)


def embed(texts: Sequence[str]) -> Vectors:
    """A row of length 1 for each text; zeros where a text has no word the model knows."""
    model = _load()
    vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
    for index, text in enumerate(texts):
        pieces = model.pieces(text)
        if pieces:
            # Rows are whole numbers with a scale each, so the mean is a product of the two.
            vectors[index] = model.scales[pieces] @ model.rows[pieces].astype(np.float32)
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, np.float32(1e-9))
    return vectors


def knows(text: str) -> bool:
    """Whether at least half of the words of a text that say something are whole words of the vocabulary."""
    words = telling_words(text)
    return 2 * sum(map(_load().has_word, words)) >= len(words)


def minilm_pieces(text: str) -> list[int]:
    """A text as all-MiniLM-L6-v2 takes it, whose word pieces these are; it also has ids without text."""
    return [MINILM_BEGIN, *(piece + MINILM_OFFSET for piece in _load().pieces(text)[: MAX_PIECES - 2]), MINILM_END]


class _Model:
    def __init__(self, rows: NDArray[np.int8], scales: Vectors, names: Sequence[str]) -> None:
        self.rows = rows
        self.scales = scales
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._known: dict[str, tuple[int, ...]] = {}

    def has_word(self, word: str) -> bool:
        return word in self._numbers

    def pieces(self, text: str) -> list[int]:
        found: list[int] = []
        for word in _words(text):
            pieces = self._known.get(word)
            if pieces is None:
                pieces = self._split(word)
                if len(self._known) < MAX_KNOWN_WORDS:
                    self._known[word] = pieces
            found += pieces
            if len(found) >= MAX_PIECES:
                break
        return found[:MAX_PIECES]

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; nothing if the word can't be put together from known ones."""
        if len(word) > MAX_WORD_CHARS:
            return ()
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            pieces.append(number)
            start = end
        return tuple(pieces)


@cache
def _load() -> _Model:
    with files("foveate.recall.embed").joinpath("static.npz").open("rb") as file:
        stored: Any = np.load(file)  # plain arrays; pickled ones are refused by default
        return _Model(stored["rows"], stored["scales"], bytes(stored["pieces"]).decode().split("\n"))


def _words(text: str) -> Iterable[str]:
    """Lower case, without accents, cut at white space; punctuation and ideographs are tokens of their own."""
    lower = text.lower()
    if lower.isascii():  # the same, quicker: this is most of what there is
        return _ASCII_WORD.findall(lower if lower.isprintable() else _CONTROL.sub("", lower))
    return _words_of_any_script(lower)


def _words_of_any_script(text: str) -> Iterator[str]:
    for token in text.split():
        if token.isascii():
            yield from _ASCII_WORD.findall(_CONTROL.sub("", token))
            continue
        word = ""
        for char in unicodedata.normalize("NFD", token):
            category = unicodedata.category(char)
            if category == "Mn" or category.startswith("C"):
                continue
            if _stands_alone(char, category):
                if word:
                    yield word
                yield char
                word = ""
            else:
                word += char
        if word:
            yield word


def _stands_alone(char: str, category: str) -> bool:
    if char.isascii():
        return not char.isalnum()
    return category.startswith("P") or "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"
