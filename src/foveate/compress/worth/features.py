"""What the model of worth sees of a word: a row in each of its tables.

Some rows depend on the word alone, and are cached; the others on its clause, its message and its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np

from foveate.compress.cues import bare, look_at
from foveate.compress.facts import word_kinds
from foveate.compress.lexicon import RAREST_LINE, common_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foveate.compress.clauses import ClauseKind

    Rows = NDArray[np.int32]

SPEAKERS: Final = ("user", "assistant", "narration", "call", "tool", "reasoning", "system", "injected")
"""Speakers of a clause; `narration` is what the assistant says before its last message."""
CLAUSE_KINDS: Final[tuple[ClauseKind, ...]] = ("prose", "item", "heading", "code", "row", "caption")
FACT_KINDS: Final = "i#@/uqne!-?w"
HASHES, PREFIXES, SUFFIXES = 4096, 1024, 1024
PREFIX_CHARS, SUFFIX_CHARS = 4, 3
RARITIES = 5
_ENDS = ",.;:?!)"
_OPENS = "`\"“«(['"
_FROM_START, _FROM_END = (1, 2, 3, 4, 5, 7, 10, 15), (1, 2, 3, 4, 7, 11)
"""First position of each later class of a word's distance from the start, and from the end, of its clause."""
_CLAUSE_FROM_START, _CLAUSE_FROM_END = (1, 2, 3, 5, 9, 17), (1, 2, 4, 9)
_TURN_WORDS = (20, 40, 80, 160, 320, 640, 1280)

TABLES: Final[dict[str, int]] = {
    "word": 1 + sum(1 for _ in common_words()),
    "hash": HASHES,
    "prefix": PREFIXES,
    "suffix": SUFFIXES,
    "kind": (len(FACT_KINDS) + RARITIES) * 8,
    "shape": (len(_ENDS) + 2) * 2 * 4,
    "place": (len(_FROM_START) + 1) * (len(_FROM_END) + 1),
    "speaker": len(SPEAKERS) * len(CLAUSE_KINDS),
    "clause": (len(_CLAUSE_FROM_START) + 1) * (len(_CLAUSE_FROM_END) + 1),
    "turn": (len(_TURN_WORDS) + 1) * 8,
    "again": 8,
}
"""Number of rows of each table, in the order of the columns of `rows_of`."""
_OWN = 6
"""Number of tables whose row depends on the word alone."""


class Passage(NamedTuple):
    """A clause as the model sees it."""

    words: Sequence[str]
    speaker: str = "user"
    kind: ClauseKind = "prose"
    message: int = 0


def rows_of(passages: Sequence[Passage]) -> tuple[Rows, Rows]:
    """Return the rows of each word of a turn, a column for each table, and the clause of each word."""
    sizes = np.array([len(passage.words) for passage in passages])
    clauses = np.repeat(np.arange(len(passages), dtype=np.int32), sizes)
    words = [word for passage in passages for word in passage.words]
    rows = np.empty((len(words), len(TABLES)), np.int32)
    rows[:, :_OWN] = [_own_rows(word) for word in words]
    firsts = np.cumsum(sizes) - sizes
    at = np.arange(len(words)) - firsts[clauses]
    left = sizes[clauses] - 1 - at
    rows[:, 6] = np.digitize(at, _FROM_START) * (len(_FROM_END) + 1) + np.digitize(left, _FROM_END)
    rows[:, 7:10] = np.array(_clause_rows(passages, len(words)))[clauses]
    rows[:, 10] = _again_rows(passages, words, clauses)
    return rows, clauses


@lru_cache(maxsize=50_000)
def _own_rows(word: str) -> tuple[int, ...]:
    core = bare(word)
    key = core.encode("utf-8", "surrogatepass")
    known = common_words()
    return (
        _word_rows().get(core, 0),
        crc32(key) % HASHES,
        crc32(core[:PREFIX_CHARS].encode("utf-8", "surrogatepass")) % PREFIXES,
        crc32(core[-SUFFIX_CHARS:].encode("utf-8", "surrogatepass")) % SUFFIXES,
        _kind_row(word, known.get(core, RAREST_LINE)),
        _shape_row(word),
    )


@lru_cache(maxsize=1)
def _word_rows() -> dict[str, int]:
    return {word: row for row, word in enumerate(common_words(), 1)}


def _kind_row(word: str, line: int) -> int:
    looked = look_at(word)
    kind = max(word_kinds(word), key=lambda found: found[1], default=("w", 0.0))[0]
    rarity = min(RARITIES - 1, line * RARITIES // (RAREST_LINE + 1))
    row = len(FACT_KINDS) + rarity if kind == "w" else max(0, FACT_KINDS.find(kind))
    return row * 8 + looked.negates * 4 + looked.limits * 2 + looked.counts


def _shape_row(word: str) -> int:
    end = _ENDS.find(word[-1:]) + 1 if word else 0
    if not end and word and not word[-1].isalnum():
        end = len(_ENDS) + 1
    opens = word[:1] in _OPENS and bool(word)
    letters = word.strip("".join(_OPENS + _ENDS))
    case = 3 if any(map(str.isdigit, letters)) else 2 if letters.isupper() else int(letters[:1].isupper())
    return (end * 2 + opens) * 4 + case


def _clause_rows(passages: Sequence[Passage], words: int) -> list[tuple[int, int, int]]:
    """Return the rows of each clause: its speaker and kind, its place in the message, the kind of turn."""
    counts = Counter(passage.message for passage in passages)
    first, last = passages[0].message, passages[-1].message
    roles = {"assistant" if one.speaker in ("assistant", "narration") else one.speaker for one in passages}
    both = {"user", "assistant"} <= roles
    size = int(np.digitize(words, _TURN_WORDS)) * 8 + both * 4
    found: list[tuple[int, int, int]] = []
    seen: Counter[int] = Counter()
    for passage in passages:
        at = seen[passage.message]
        left = counts[passage.message] - 1 - at
        seen[passage.message] += 1
        speaker = SPEAKERS.index(passage.speaker) if passage.speaker in SPEAKERS else SPEAKERS.index("system")
        place = int(np.digitize(at, _CLAUSE_FROM_START)) * (len(_CLAUSE_FROM_END) + 1)
        place += int(np.digitize(left, _CLAUSE_FROM_END))
        kind = speaker * len(CLAUSE_KINDS) + CLAUSE_KINDS.index(passage.kind)
        found.append((kind, place, size + (passage.message == first) * 2 + (passage.message == last)))
    return found


def _again_rows(passages: Sequence[Passage], words: Sequence[str], clauses: Rows) -> list[int]:
    """Return for each word whether the turn has said it before in this message or another, and will say it again."""
    roots = [look_at(word).root for word in words]
    left = Counter(roots)
    before: dict[str, int] = {}
    found: list[int] = []
    for root, clause in zip(roots, clauses.tolist(), strict=True):
        message = passages[clause].message
        left[root] -= 1
        if not root:
            found.append(0)
            continue
        said = before.get(root)
        found.append((1 if said is None else 2 if said == message else 3) * 2 + (left[root] > 0))
        before[root] = message
    return found
