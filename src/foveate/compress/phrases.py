"""Which rows of a clause's words read as a sentence by themselves."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foveate.compress.binding import (
    AUXILIARIES,
    JOINERS,
    LEADS,
    LINKS,
    MIN_RUN,
    PARTICLES,
    SUBJECTS,
    SUBORDINATES,
    Look,
    has_subject,
    is_verb,
)
from foveate.compress.clauses import ABBREVIATION
from foveate.compress.cues import is_negation, quoted_places

_ADDED = JOINERS & {"and", "so", "und", "et", "y"}
"""Words before a statement that does not limit the one before it."""
SENTENCE_WORDS = 6
"""Minimum words of a statement before a colon that says all without what follows."""
MAX_CUTS = 12
"""Limit of the places in a clause where a row may begin or end."""
MAX_QUOTED = 12
"""A longer quotation may be cut like other text."""
_ENDS = tuple(".!?;。！？；")
_RESTRICTED = JOINERS & {"and", "which", "who", "where", "und", "et", "y"}
"""Words before which a clause ends only after a comma: `the people who`, `red and blue`."""


def rows_of(looks: Sequence[Look], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each row that reads as a sentence, the whole clause included.

    A row begins with a subject and ends where another statement begins, not inside of a quotation. A negation or
    condition outside of it belongs to another statement.
    """
    size = len(looks)
    while size > MIN_RUN and looks[size - 1].core in LEADS - PARTICLES and not _ends(words[size - 1]):
        size -= 1
    quoted = quoted_places(" ".join(words), size)
    quoted = quoted if len(quoted) <= MAX_QUOTED else ()
    cuts = [
        place
        for place in range(1, size)
        if (looks[place - 1].parts or looks[place - 1].ends or looks[place].core in JOINERS)
        and not (place in quoted and place - 1 in quoted)
    ][:MAX_CUTS]
    musts = [place for place, look in enumerate(looks) if look.must]
    opening = next((place for place, look in enumerate(looks) if look.core not in LINKS), 0)
    starts = [] if looks[opening].core in JOINERS else [opening]
    starts += [
        place
        for place in cuts
        if looks[place].core in SUBJECTS
        or looks[place].names
        or (_ends(words[place - 1], ":") and looks[place].core not in JOINERS)
    ]
    for start in starts:
        for end in (*cuts, size):
            if end - start < _least(words, start, end) or looks[end - 1].core in JOINERS:
                continue
            if end < size and not _is_end(looks, words, start, end, max((cut for cut in cuts if cut < end), default=0)):
                continue
            if all(
                start <= place < end
                or (_is_closed(looks, start, end) if place >= end else is_negation(looks[place].core))
                for place in musts
            ):
                yield start, end


def _least(words: Sequence[str], start: int, end: int) -> int:
    """Return how many words a row must have: a sentence may have fewer."""
    return MIN_RUN - 1 if _ends(words[end - 1]) and (not start or _ends(words[start - 1])) else MIN_RUN


def _is_end(looks: Sequence[Look], words: Sequence[str], start: int, end: int, part: int) -> bool:
    """Return whether the words from `start` say something complete; `part` is the beginning of their last part."""
    before, after = looks[end - 1], looks[end]
    if _ends(words[end - 1]):
        return True
    if before.core in LEADS or before.core in AUXILIARIES:
        return False
    part = max(part, start)
    if looks[part].core in SUBORDINATES and (part == start or looks[part - 1].ends):
        return False
    if after.core in _RESTRICTED and not before.parts and not has_subject(looks, end):
        return False
    if before.parts and after.core in JOINERS - _RESTRICTED:
        return True
    return any(is_verb(look.core, opens=not place and not look.parts) for place, look in enumerate(looks[start:end]))


def _is_closed(looks: Sequence[Look], start: int, end: int) -> bool:
    """Return whether what follows a row is another statement."""
    return has_subject(looks, end) or (looks[end - 1].ends and end - start >= SENTENCE_WORDS)


def statement_of(looks: Sequence[Look], words: Sequence[str], start: int, end: int) -> Sequence[str]:
    """Return a row with the words around it that it may not contradict.

    What another sentence says, what a colon after the row introduces, and what follows with `and` or `so` and a subject
    of its own is another statement; what stands before a colon is none.
    """
    first = next((place for place in range(start, 0, -1) if _ends(words[place - 1])), 0)
    last = next((place for place in range(end, len(words)) if _ends(words[place - 1], ":")), len(words))
    if end < last and looks[end].core in _ADDED and has_subject(looks, end):
        last = end
    return words[first:last]


def _ends(word: str, more: str = "") -> bool:
    """Return whether a sentence, or a part before one of `more`, ends with the word."""
    return word.endswith((*_ENDS, *more)) and not ABBREVIATION.search(word)
