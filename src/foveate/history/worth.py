"""The worth of a turn at each level: its words, weighted by how rare they are in the conversation.

The words of tool calls and results count like the assistant's; paths, identifiers and numbers are whole words there.

The words of a turn are stored with its renditions, each as a number: a hash, and in the lowest bits which levels keep
it and whether the user said it. A plan weights them by the number of turns that contain them.
"""

from __future__ import annotations

import operator
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.plan import SizeTable, TurnSizes, WordWeights
from foveate.recall.words import telling_words
from foveate.turn import Json, Message, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASH_BITS = 18
FLAG_BITS = 4
BY_USER, IN_SMOOTHED, IN_COMPRESSED, IN_TINY = (1 << bit for bit in range(FLAG_BITS))
IN_BRIEF = 1 << FLAG_BITS + HASH_BITS
"""The bit above the hash, since it was added later."""
OF_WORK = 1 << FLAG_BITS + HASH_BITS + 1
"""On the first word of a turn whose messages have code or paths."""
HASHES = (1 << HASH_BITS) - 1
OPTIONS = 5
"""R, S, C, T and the brief form."""
WORD_BYTES = 4
MAX_WORDS = 400
"""Maximum words stored for a turn: the user's first, then the assistant's, then those of tool calls and results."""
MAX_TEXT_CHARS = 40_000
"""Maximum text of each side that is read."""
ROOT_LETTERS = 6
"""Letters that are compared, so that `decide` and `decided` are the same word."""
RARITY_POWER = 2
"""Exponent of the rarity of a word."""
SETTLED_TABLES = 4
"""From this many older tables on, their worths are cached until the next table begins."""
LINE_WORTH = 0.25
"""Worth of being shown at all, regardless of the words."""
UNKNOWN_WORTH = 0.6
UNKNOWN_POWER = 0.7
"""A turn whose words are not stored has the worth `UNKNOWN_WORTH * tokens ** UNKNOWN_POWER`."""
_REFERENCE = re.compile(r"\b[^\W\d][\w.-]{0,80}[/._-][\w./-]{0,80}\w|\b[a-z]+[A-Z]\w+|\b\w*\d\w*")
"""A path, an identifier or a number: whole words in calls and results of tools."""
REFERENCE_CHARS = range(3, 81)
_CODE = re.compile(
    r"\b[^\W\d]\w{0,80}_\w|\b\w{2,80}\.[a-z]\w|\b[\w-]{1,80}(?:/[\w.-]{1,80}){2}|/\w{1,80}/\w|\b[a-z]+[A-Z]\w"
)
"""A path or an identifier, in a text."""
CODE_SHARE = 0.03
"""Paths and identifiers for each word of a text from which on it is about code: .03 to .17 in the work of agents, 0 to
.012 in chats,"""
LEAST_CODE = 3
"""and at least this many of them."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""Letters of scripts that do not separate words."""


def pack_words(messages: Sequence[Message], smoothed: str, compressed: str, tiny: str, brief: str = "") -> bytes:
    """Pack the words of a turn, without thinking, with the levels that keep them."""
    by_user = sorted(set(_words(_said(messages, by_user=True))))
    by_others = sorted(set(_words(_said(messages, by_user=False))))
    said = dict.fromkeys([*by_user, *by_others, *_tool_words(messages)], 0) | dict.fromkeys(by_user, BY_USER)
    levels = ((IN_SMOOTHED, smoothed), (IN_COMPRESSED, compressed), (IN_TINY, tiny), (IN_BRIEF, brief))
    kept = [(flag, {*_words(text[:MAX_TEXT_CHARS]), *_references(text[:MAX_TEXT_CHARS])}) for flag, text in levels]
    packed = bytearray()
    mark = OF_WORK if _has_code(messages) else 0
    for word, flags in list(said.items())[:MAX_WORDS]:
        found, mark = flags | mark | sum(flag for flag, words in kept if word in words), 0
        number = zlib.crc32(word.encode("utf-8", "surrogatepass")) & HASHES
        packed += (number << FLAG_BITS | found).to_bytes(WORD_BYTES, "little")
    return bytes(packed)


def is_of_work(words: bytes) -> bool:
    """Return whether the packed words are of a turn whose messages have code or paths."""
    return bool(int.from_bytes(words[:WORD_BYTES], "little") & OF_WORK)


def _has_code(messages: Sequence[Message]) -> bool:
    text = "\n".join(_said(messages, by_user=by_user) for by_user in (True, False))
    count = len(_CODE.findall(text))
    return count >= LEAST_CODE and count >= CODE_SHARE * len(_LETTERS.findall(text))


def _said(messages: Iterable[Message], *, by_user: bool) -> str:
    own = (message for message in messages if message.kind == "message" and (message.role == "user") == by_user)
    return "\n".join(part.text for message in own for part in message.parts if isinstance(part, Text))[:MAX_TEXT_CHARS]


def _tool_words(messages: Iterable[Message]) -> list[str]:
    """Return the words of calls and results: paths, identifiers and numbers by frequency, then the others."""
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolCall | ToolResult)]
    most = MAX_TEXT_CHARS // max(1, len(parts))
    text = "\n".join(_tool_text(part)[:most] for part in parts)
    return [word for word, _ in Counter(_references(text)).most_common()] + sorted(_words(text))


def _tool_text(part: ToolCall | ToolResult) -> str:
    if isinstance(part, ToolCall):
        return "\n".join(_strings(part.arguments))
    return "\n".join(inner.text for inner in part.content if isinstance(inner, Text))


def _strings(value: Json) -> Iterator[str]:
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, str | int | float):
            yield str(found)
        elif found:
            left += found.values() if isinstance(found, Mapping) else found


def _references(text: str) -> Iterator[str]:
    return (word for word in _REFERENCE.findall(text) if len(word) in REFERENCE_CHARS)


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
    is_later: NDArray[np.bool_]

    @classmethod
    def of(cls, items: Sequence[TurnSizes]) -> WordTable:
        import numpy as np  # noqa: PLC0415 - loads with the first plan

        sizes = [
            (item.raw, _size(item.smoothed), _size(item.compressed), _size(item.tiny), _size(item.brief))
            for item in items
        ]
        return cls(
            np.array([item.turn for item in items], dtype=np.int64),
            np.array(sizes, dtype=np.int64).reshape(-1, OPTIONS),
            np.frombuffer(b"".join(item.words for item in items), dtype="<u4"),
            np.array([len(item.words) // WORD_BYTES for item in items], dtype=np.int64),
            np.array([item.is_later for item in items], dtype=np.bool_),
        )

    def behind(self, newer: int) -> WordTable:
        """Return the table without the newest turns."""
        skipped = int(self.counts[:newer].sum())
        turns, sizes, counts = self.turns[newer:], self.sizes[newer:], self.counts[newer:]
        return WordTable(turns, sizes, self.words[skipped:], counts, self.is_later[newer:])


def _size(tokens: int | None) -> int:
    return -1 if tokens is None else tokens


@dataclass(frozen=True, slots=True)
class _Counted:
    """Tables with their worths, and the number of turns that contain each word."""

    tables: Sequence[WordTable]
    by: WordWeights
    holders: NDArray[np.int64]
    sizes: SizeTable

    def is_of(self, tables: Sequence[WordTable], by: WordWeights) -> bool:
        return by == self.by and len(tables) == len(self.tables) and all(map(operator.is_, tables, self.tables))


@dataclass(slots=True)
class WorthCache:
    """Cached worths of a session's older tables, so that a plan does not read all words again."""

    counted: _Counted | None = None

    def of(self, tables: Sequence[WordTable], by: WordWeights) -> _Counted:
        known = self.counted
        if known is None or not known.is_of(tables, by):
            known = self.counted = _count(tables, by)
        return known


def weigh(tables: Sequence[WordTable], limit: int, by: WordWeights, cache: WorthCache | None = None) -> SizeTable:
    """Return the newest turns of the tables, at most `limit`, with their worth at each level.

    A word in `k` of `n` turns counts `(log(1 + n / k) / log(1 + n)) ** RARITY_POWER`. All turns of the tables are
    counted; from `SETTLED_TABLES` older tables on, the newest table's turns count for its own words only.
    """
    older = tables[1:]
    if len(older) < SETTLED_TABLES:
        return _count(tables or [WordTable.of(())], by).sizes.newest(limit)
    settled = (cache or WorthCache()).of(older, by)
    newest = _count(tables[:1], by, settled.holders, len(settled.sizes.turns)).sizes
    return _joined([newest, settled.sizes]).newest(limit)


def _count(
    tables: Sequence[WordTable],
    by: WordWeights,
    other_holders: NDArray[np.int64] | None = None,
    other_turns: int = 0,
) -> _Counted:
    """Count the words of the tables and other turns, and weigh the tables."""
    import numpy as np  # noqa: PLC0415 - loads with the first plan

    hashes = [table.words >> FLAG_BITS & HASHES for table in tables]
    holders = np.bincount(np.concatenate(hashes), minlength=1 << HASH_BITS)
    if other_holders is not None:
        holders += other_holders
    total = max(2, other_turns + sum(len(table.turns) for table in tables))
    by_holders = (np.log1p(total / np.arange(1, total + 1)) / np.log1p(total)) ** RARITY_POWER
    sizes: list[SizeTable] = []
    every = np.concatenate(hashes)
    weights = np.full(len(every), by.repeated)
    weights[np.unique(every, return_index=True)[1]] = 1.0  # the tables and their turns are newest first
    ends = np.cumsum([len(own) for own in hashes])
    for table, own, end in zip(tables, hashes, ends.tolist(), strict=True):
        rarities = by_holders[np.minimum(holders[own], total) - 1] * weights[end - len(own) : end]
        sizes.append(SizeTable(table.turns, table.sizes, _worths(table, rarities, by.answers), table.is_later))
    return _Counted(tables, by, holders, _joined(sizes))


def _worths(table: WordTable, rarities: NDArray[np.float64], answer_weight: float) -> NDArray[np.float64]:
    """Return the worth of each turn of a table at each level, by the rarity of its words."""
    import numpy as np  # noqa: PLC0415 - loads with the first plan

    turns = np.repeat(np.arange(len(table.turns)) << FLAG_BITS + 1, table.counts)
    flags = table.words & ((1 << FLAG_BITS) - 1) | table.words >> HASH_BITS & 1 << FLAG_BITS
    sums = np.bincount(turns + flags, rarities, minlength=len(table.turns) << FLAG_BITS + 1)
    sums = sums.reshape(-1, 2, 2, 2, 2, 2)
    # The axes are the flags: in brief, in T, in C, in S, by the user.
    said = sums[..., 1] + answer_weight * sums[..., 0]
    levels = (said, said[..., 1], said[:, :, :, 1], said[:, :, 1], said[:, 1])
    worths = np.stack([level.sum(axis=tuple(range(1, level.ndim))) for level in levels], axis=1)
    unknown = table.counts == 0
    worths[unknown] = UNKNOWN_WORTH * np.maximum(table.sizes[unknown], 0) ** UNKNOWN_POWER
    return worths + LINE_WORTH


def _joined(tables: Sequence[SizeTable]) -> SizeTable:
    import numpy as np  # noqa: PLC0415 - loads with the first plan

    return SizeTable(
        np.concatenate([table.turns for table in tables]),
        np.concatenate([table.sizes for table in tables]),
        np.concatenate([table.worths for table in tables]),
        np.concatenate([table.is_later for table in tables]),
    )
