"""What a turn tells at each level: its words, those that are rare in the conversation counting most.

With its renditions a turn has its words stored, each as a number: a hash, and in the lowest bits which levels keep it
and whether the user said it. A plan weighs them by how many turns have them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.plan import SizeTable, TurnSizes
from foveate.recall.words import telling_words
from foveate.turn import Message, Text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASH_BITS = 18
FLAG_BITS = 4
BY_USER, IN_SMOOTHED, IN_COMPRESSED, IN_TINY = (1 << bit for bit in range(FLAG_BITS))
WORD_BYTES = 4
MAX_WORDS = 400
"""Words stored for a turn, the user's first."""
MAX_TEXT_CHARS = 40_000
"""No more of what one side said is read."""
ROOT_LETTERS = 6
"""Longer words are the same if they begin with the same letters: `paint`, `painted`; `decide`, `decided`."""
RARITY_POWER = 2
"""Words of few turns count this much more."""
LINE_WORTH = 0.25
"""Being shown at all, whatever the words."""
UNKNOWN_WORTH = 0.6
UNKNOWN_POWER = 0.7
"""A turn whose words are not stored tells `UNKNOWN_WORTH * tokens ** UNKNOWN_POWER`."""
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""Letters of scripts that do not separate words."""


def pack_words(messages: Sequence[Message], smoothed: str, compressed: str, tiny: str) -> bytes:
    """The words of a turn's texts, without tool calls, results and thinking, and the levels that keep them."""
    by_user = set(_words(_said(messages, by_user=True)))
    said = dict.fromkeys(sorted(by_user), BY_USER) | dict.fromkeys(
        sorted(set(_words(_said(messages, by_user=False))) - by_user), 0
    )
    levels = ((IN_SMOOTHED, smoothed), (IN_COMPRESSED, compressed), (IN_TINY, tiny))
    kept = [(flag, set(_words(text[:MAX_TEXT_CHARS]))) for flag, text in levels]
    packed = bytearray()
    for word, flags in list(said.items())[:MAX_WORDS]:
        found = flags | sum(flag for flag, words in kept if word in words)
        number = zlib.crc32(word.encode("utf-8", "surrogatepass")) & ((1 << HASH_BITS) - 1)
        packed += (number << FLAG_BITS | found).to_bytes(WORD_BYTES, "little")
    return bytes(packed)


def _said(messages: Iterable[Message], *, by_user: bool) -> str:
    own = (message for message in messages if message.kind == "message" and (message.role == "user") == by_user)
    return "\n".join(part.text for message in own for part in message.parts if isinstance(part, Text))[:MAX_TEXT_CHARS]


def _words(text: str) -> Iterator[str]:
    for word in telling_words(text):
        if _UNSPACED.search(word):
            yield from (word[place : place + 2] for place in range(max(1, len(word) - 1)))
        else:
            yield word[:ROOT_LETTERS] if word.isalpha() else word


@dataclass(frozen=True, slots=True)
class WordTable:
    """Sizes and words of whole turns as arrays, newest first."""

    turns: NDArray[np.int64]
    sizes: NDArray[np.int64]
    words: NDArray[np.uint32]
    counts: NDArray[np.int64]
    """The number of words of each turn."""

    @classmethod
    def of(cls, items: Sequence[TurnSizes]) -> WordTable:
        import numpy as np  # noqa: PLC0415 - loads with the first plan

        sizes = [(item.raw, _size(item.smoothed), _size(item.compressed), _size(item.tiny)) for item in items]
        return cls(
            np.array([item.turn for item in items], dtype=np.int64),
            np.array(sizes, dtype=np.int64).reshape(-1, 4),
            np.frombuffer(b"".join(item.words for item in items), dtype="<u4"),
            np.array([len(item.words) // WORD_BYTES for item in items], dtype=np.int64),
        )

    def behind(self, newer: int) -> WordTable:
        """Without the newest ones."""
        skipped = int(self.counts[:newer].sum())
        return WordTable(self.turns[newer:], self.sizes[newer:], self.words[skipped:], self.counts[newer:])


def _size(tokens: int | None) -> int:
    return -1 if tokens is None else tokens


def weigh(tables: Sequence[WordTable], limit: int, answer_weight: float) -> SizeTable:
    """The newest turns of the tables, at most `limit`, with what each level tells.

    A word of `k` of `n` turns counts `(log(1 + n / k) / log(1 + n)) ** RARITY_POWER`.
    """
    import numpy as np  # noqa: PLC0415 - loads with the first plan

    tables = tables or [WordTable.of(())]
    turns = np.concatenate([table.turns for table in tables])[:limit]
    sizes = np.concatenate([table.sizes for table in tables])[:limit]
    ends = np.cumsum(np.concatenate([table.counts for table in tables])[:limit])
    words = np.concatenate([table.words for table in tables])[: ends[-1] if len(ends) else 0]
    worths = np.empty((len(turns), 4))
    places = words >> FLAG_BITS
    holders = np.bincount(places, minlength=1 << HASH_BITS)
    total = max(2, len(turns))
    by_holders = np.log1p(total / np.arange(1, total + 2)) / np.log1p(total)
    weights = (by_holders**RARITY_POWER)[np.minimum(holders[places], total) - 1]
    weights = np.where(words & BY_USER, weights, weights * answer_weight)
    before = np.concatenate([[0], ends])
    for level, flag in enumerate((0, IN_SMOOTHED, IN_COMPRESSED, IN_TINY)):
        kept = weights if not flag else np.where(words & flag, weights, 0.0)
        sums = np.concatenate([[0.0], np.cumsum(kept)])
        worths[:, level] = sums[before[1:]] - sums[before[:-1]]
    unknown = before[1:] == before[:-1]
    if unknown.any():
        worths[unknown] = UNKNOWN_WORTH * np.maximum(sizes[unknown], 0) ** UNKNOWN_POWER
    return SizeTable(turns, sizes, worths + LINE_WORTH)
