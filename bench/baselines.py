"""Plain extractive summarisers to compare with: the beginning, random sentences, LexRank, and the rarest words."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from foveate.compress.lexicon import NEGATIONS, word_weight

Count = Callable[[str], int]

MAX_SENTENCES = 400
"""LexRank compares every sentence with every other; of a longer text it sees an even sample."""
SIMILAR = 0.1
DAMPING = 0.85
STEPS = 40

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001
_WORD = re.compile(r"\w+")


def sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _END.split(text) if sentence.strip()]


def lead(text: str, max_tokens: int, count: Count) -> str:
    found = sentences(text)
    return _fill(found, range(len(found)), max_tokens, count)


def at_random(text: str, max_tokens: int, count: Count, *, seed: int) -> str:
    found = sentences(text)
    order = list(range(len(found)))
    random.Random(seed).shuffle(order)
    return _fill(found, order, max_tokens, count)


def lexrank(text: str, max_tokens: int, count: Count) -> str:
    """Sentences by centrality in the graph of those that share words (Erkan and Radev, 2004)."""
    found = sentences(text)
    found = found[:: max(1, math.ceil(len(found) / MAX_SENTENCES))]
    scores = _centrality([_vector(sentence) for sentence in found])
    return _fill(found, sorted(range(len(found)), key=lambda place: (-scores[place], place)), max_tokens, count)


def telegraph(text: str, max_tokens: int, count: Count) -> str:
    """Single words in their order: numbers, identifiers and negations first, then the rarest."""
    words = text.split()
    bare = [word.strip(".,;:!?()\"'`*").casefold() for word in words]

    def worth(place: int) -> float:
        word = words[place]
        if (
            bare[place] in NEGATIONS
            or bare[place].endswith("n't")
            or any(sign.isdigit() or sign in "`_/@" for sign in word)
        ):
            return 9.0
        return word_weight(bare[place]) * (2.0 if place and word[:1].isupper() else 1.0)

    order = sorted(range(len(words)), key=lambda place: (-worth(place), place))
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count(" ".join(words[place] for place in sorted(order[:middle]))) <= max_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return " ".join(words[place] for place in sorted(order[:low]))


def _vector(sentence: str) -> Counter[str]:
    return Counter(word.casefold() for word in _WORD.findall(sentence))


def _centrality(vectors: Sequence[Counter[str]]) -> list[float]:
    size = len(vectors)
    seen = Counter(word for vector in vectors for word in vector)
    weighted = [{word: n * math.log(1 + size / seen[word]) for word, n in vector.items()} for vector in vectors]
    norms = [math.sqrt(sum(weight**2 for weight in vector.values())) or 1.0 for vector in weighted]
    near: list[list[int]] = []
    for place, vector in enumerate(weighted):
        shared = [
            sum(weight * other[word] for word, weight in vector.items() if word in other) / norms[place] / norm
            for other, norm in zip(weighted, norms, strict=True)
        ]
        near.append([other for other, similarity in enumerate(shared) if similarity > SIMILAR])
    scores = [1.0 / max(1, size)] * size
    for _ in range(STEPS):
        fresh = [(1 - DAMPING) / size] * size
        for place, others in enumerate(near):
            for other in others:
                fresh[other] += DAMPING * scores[place] / len(others)
        scores = fresh
    return scores


def _fill(found: Sequence[str], order: Iterable[int], max_tokens: int, count: Count) -> str:
    """The sentences in the given order of worth while they fit, the last one cut, put back into their own order."""
    chosen: dict[int, str] = {}
    left = max_tokens
    for place in order:
        size = count(found[place]) + 1
        if size > left:
            words = found[place].split(" ")
            chosen[place] = " ".join(words[: max(0, int(len(words) * left / size))])
            break
        chosen[place] = found[place]
        left -= size
    return "\n".join(chosen[place] for place in sorted(chosen))
