"""Finds the turns of which a context says nothing: left out, only named, without a line, or too many for an era."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count, groupby

from foveate.context.context import Segment
from foveate.context.tags import SUMS
from foveate.plan import NO_LINE
from foveate.renditions import LINE_TURNS, LINE_WORDS
from foveate.words import content_words

MAX_CACHED_TEXTS = 2_000
_LINE = re.compile(r"^(?!<)(?:[^:\n]{1,40}: (?=T-\d))?(?:T-(\d{1,9}) )?(.*)$", re.MULTILINE)
"""A line of an era or a summary: a date, if it has one, the turn and the words."""
_MARK = re.compile(r"\[[a-z ]+\]")


def turns_without_words(segments: Sequence[Segment]) -> tuple[range, ...]:
    """Return the turns without a line of which no era or summary says something, oldest first.

    A line of an era that has at least `LINE_WORDS` content words represents at most `LINE_TURNS` turns.
    """
    shown = [part for part in segments if part.level and part.first and part.last]
    own = {turn for part in shown if part.level not in SUMS for turn in _lines(part)}
    oldest = min(own, default=0)
    found = list(_between(shown))
    for part in shown:
        if part.level in SUMS or NO_LINE in part.levels:
            for run in _hidden(part.text, part.first or 0, part.last or 0, part.levels):
                found += _runs(turn for turn in run if turn not in own) if run.stop > oldest else [run]
    return tuple(sorted(set(found), key=lambda run: run.start))


def _lines(part: Segment) -> Iterable[int]:
    """Return the turns with a line of their own."""
    turns = range(part.first or 0, (part.last or 0) + 1)
    return (turn for turn, level in zip(turns, part.levels, strict=True) if level != NO_LINE) if part.levels else turns


def _between(parts: Iterable[Segment]) -> Iterator[range]:
    """Yield the turns that are in no part, up to the newest one."""
    reached = 0
    for first, last in sorted((part.first or 0, part.last or 0) for part in parts):
        if first > reached + 1:
            yield range(reached + 1, first)
        reached = max(reached, last)


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def _hidden(text: str, first: int, last: int, levels: str) -> tuple[range, ...]:
    """Return the turns of a block of which its text says too little.

    Lines represent groups of its turns without a line of their own: one that names a turn the group of that turn, one
    of a summary the next group.
    """
    turns = [turn for turn, level in enumerate(levels, first) if level == NO_LINE] if levels else range(first, last + 1)
    places = {turn: place for place, turn in enumerate(turns)}
    told: set[int] = set()
    groups = count()
    for match in _LINE.finditer(text):
        if len(content_words(_MARK.sub("", match[2]))) < LINE_WORDS:
            continue
        if match[1] is None and not levels:
            told.add(next(groups))
        elif match[1] and (place := places.get(int(match[1]))) is not None:
            told.add(place // LINE_TURNS)
    return tuple(_runs(turn for turn, place in places.items() if place // LINE_TURNS not in told))


def _runs(turns: Iterable[int]) -> Iterator[range]:
    for _, group in groupby(enumerate(turns), key=lambda pair: pair[1] - pair[0]):
        run = [turn for _, turn in group]
        yield range(run[0], run[-1] + 1)
