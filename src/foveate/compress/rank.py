"""Ranks the words of a text, so that any length of it is a rendition.

Each word has a worth: how rare it is and of what kind (numbers, identifiers and names first), times the chance that a
reader keeps it (`foveate.compress.worth`), times a factor where the part of its clause orders or forbids something. For
a price per token, the best choice of words of a clause is the one with the highest worth after the price; runs of fewer
than three words are fined, and gaps the more, the less readers begin or end one there. Falling prices give the order in
which words enter, and a rendition is the longest beginning of that order that fits. C of a turn, the units of eras and
every length in between are cut from one such ranking, the brief form from one with smaller fines.

A clause of which anything is taken keeps its negations, conditions and rates, each with the words behind it; a number
keeps its unit, a verb its particle, a quotation all its words. Nothing is reworded.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import or_
from typing import NamedTuple

import numpy as np

from foveate.compress.binding import (
    LIMITS,
    binds_of,
    joins_of,
    looks_of,
    opens_of,
)
from foveate.compress.cues import estimate_tokens, quoted_places
from foveate.compress.cut import LEVELS, PHRASES, PRICES, Numbers, Order, Row, levels_of
from foveate.compress.marks import escape_inline
from foveate.compress.phrases import rows_of
from foveate.compress.urgency import ORDERED, is_plea, urgency
from foveate.compress.worth import HEADS, Floats, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.renditions import Count

COURTESY_CHANCE = 0.02
"""A clause that readers keep with less than this chance is a courtesy and orders nothing: `Have a nice day!`"""
COURTESY = 0.1
"""Factor of its words."""
ORDER_CHANCE = 0.5
"""Minimum chance that a reader keeps a word of an order."""
CUT = HEADS.index("cut")
TOLD, CLAUSE_PART = 2.0, 0.4
"""Factor of a word that all readers keep, and the part of it that its clause decides."""
FREE_CUT, MAX_CUT = 1.0, 4.0
"""Log-odds against a gap before a word from which it costs something, and beyond which it costs no more."""
MAX_STEP_TOKENS = 16
"""Words that enter at the same price enter in parts of this size, so that a part of them can fit."""
MAX_CLAUSE_WORDS = 96
"""A longer clause is ranked in pieces."""
FIT_ATTEMPTS = 8
NEARLY_FULL = 3
"""Free tokens that are not worth another attempt to fill them."""
GROWTH = 0.3
"""Share of the tokens that an attempt left free which the next one always uses."""
SEPARATOR = 0.7
"""Tokens of the separator after each further clause."""

_ENDS = ".!?。！？"


@dataclass(frozen=True, slots=True)
class Source:
    """A clause to rank."""

    text: str
    """The text, on one line and plain."""
    is_whole: bool = False
    """The clause is used whole or not at all: a line of code, a note on a tool call."""
    scores: Floats | None = None
    """What the model of worth says of its words; None: it is asked, as for a text by itself."""


class RankStep(NamedTuple):
    """Words of a clause that enter together."""

    clause: int
    words: tuple[int, ...]
    tokens: float
    is_first: bool
    """No other step of its clause comes before it."""
    level: int
    """Position in `PRICES` of the price at which they enter; beyond the last, they enter at no price."""


@dataclass(slots=True)
class Ranking:
    """The words of a text in the order of their worth."""

    words: list[list[str]]
    """The words of each clause."""
    steps: list[RankStep]
    """Steps, best first."""
    has_commas: bool = False
    """A gap is marked by a comma."""

    def texts(self, steps: Iterable[RankStep]) -> dict[int, str]:
        """Return the text of each clause with words in these steps, in order."""
        kept: dict[int, list[int]] = {}
        for step in steps:
            kept.setdefault(step.clause, []).extend(step.words)
        return {clause: self._written(self.words[clause], sorted(kept[clause])) for clause in sorted(kept)}

    def _written(self, words: Sequence[str], places: Sequence[int]) -> str:
        pairs = zip(places, (*places[1:], places[-1] + 1), strict=True)
        gaps = (self.has_commas and after > place + 1 and words[place][-1:].isalnum() for place, after in pairs)
        return written_words(
            f"{words[place]}," if gap else words[place] for place, gap in zip(places, gaps, strict=True)
        )

    def fit(
        self, max_tokens: int, count: Count, write: Callable[[dict[int, str]], str], *, fill: bool = False
    ) -> dict[int, str]:
        """Return the clauses of the longest rendition of at most `max_tokens` as `write` writes it; empty if none fits.

        With `fill`, room that estimated sizes left free is used too.
        """
        scale, most, found = 1.0, 0, dict[int, str]()
        for _ in range(FIT_ATTEMPTS):
            texts = self.texts(self._take(max_tokens / scale))
            tokens = count(write(texts)) if texts else 0
            if tokens > max_tokens:
                if found:
                    break
                scale *= tokens / max_tokens * 1.02
            elif tokens <= most:
                break
            else:
                most, found = tokens, texts
                if not fill or tokens > max_tokens - NEARLY_FULL:
                    break
                scale *= (tokens + (max_tokens - tokens) * GROWTH) / max_tokens
        return found

    def _take(self, room: float) -> list[RankStep]:
        """Return the best steps that fit together; after a skipped step of a clause, no later one of it is used."""
        steps: list[RankStep] = []
        left = room
        closed: set[int] = set()
        for step in self.steps:
            clause, _, tokens, is_first, _ = step
            if clause in closed:
                continue
            cost = tokens + SEPARATOR if is_first else tokens
            if cost <= left:
                steps.append(step)
                left -= cost
            else:
                closed.add(clause)
            if left < 1:
                break
        return steps

    def clauses(self, max_tokens: float, last_level: int = len(PRICES)) -> dict[int, str]:
        """Return each clause cut to about `max_tokens` and to a level, without those whose first words do not fit."""
        left = [max_tokens] * len(self.words)
        steps: list[RankStep] = []
        for step in self.steps:
            if step.level > last_level:
                break
            if step.tokens <= left[step.clause]:
                left[step.clause] -= step.tokens
                steps.append(step)
            else:
                left[step.clause] = 0
        return self.texts(steps)

    def phrase(self, clause: int, max_tokens: float) -> str:
        """Return the best row of a clause's words that reads as a sentence; empty if none fits."""
        words = self.words[clause]
        looks = looks_of(words)
        tokens = [0.0, *accumulate(look.tokens for look in looks)]
        worths = [0.0, *accumulate(look.worth for look in looks)]
        rows = [
            (worths[end] - worths[start], -start, end)
            for start, end in rows_of(looks, words)
            if tokens[end] - tokens[start] <= max_tokens
        ]
        if not rows:
            return ""
        _, first, end = max(rows)
        return written_words(words[-first:end])


def rank(sources: Sequence[Source], *orders: Order) -> list[Ranking]:
    """Rank the words of the clauses by worth per token, once for each of the orders."""
    words = [source.text.split(" ") for source in sources]
    if not sources:
        return [Ranking(words, []) for _ in orders]
    rows: list[Row] = []
    for clause, source in enumerate(sources):
        scores = source.scores
        if scores is None:
            scores = load_worth().score([Passage(words[clause])])
        rows += _rows(clause, source, words[clause], scores)
    levels = levels_of(rows, orders)
    return [
        Ranking(words, _steps(rows, words, found, order), order.binds)
        for order, found in zip(orders, levels, strict=True)
    ]


def _rows(clause: int, source: Source, words: Sequence[str], scores: Floats) -> Iterator[Row]:
    looks = looks_of(words)
    cores, own, tokens, _, _, musts, _, parts, _, _ = zip(*looks, strict=True)
    duties = _urgencies(words, cores, parts)
    worths, told = _worths(np.array(own, np.float32), np.array(duties, np.float32), scores)
    if source.is_whole:
        total = (worths * told).sum(keepdims=True)
        yield Row(clause, 0, total, np.ones(1, np.float32), [sum(tokens)], [0.0], [True], [False], [False], [False])
        return
    if ORDERED in duties:
        limits = [duty == ORDERED and core in LIMITS for duty, core in zip(duties, cores, strict=True)]
        musts = tuple(map(or_, musts, limits))
    joins = joins_of(looks, quoted_places(source.text, len(looks)))
    opens = opens_of(looks)
    binds = binds_of(looks)
    cuts = np.clip(-scores[:, CUT] - FREE_CUT, 0, MAX_CUT)
    cuts[0] = 0
    for start in range(0, len(looks), MAX_CLAUSE_WORDS):
        part = slice(start, start + MAX_CLAUSE_WORDS)
        yield Row(
            clause,
            start,
            worths[part],
            told[part],
            tokens[part],
            cuts[part],
            opens[part],
            joins[part],
            binds[part],
            musts[part],
        )


def _worths(own: Floats, duties: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """Return each word's own worth, more of an order, and its factor by the chance that a reader keeps it."""
    told = chances(scores)
    clause = float(told.sum()) / len(told)
    told = (1 - CLAUSE_PART) * told + CLAUSE_PART * clause
    if clause < COURTESY_CHANCE:
        own, duties = own * COURTESY, np.minimum(duties, 1)
    told = np.where(duties == ORDERED, np.maximum(told, ORDER_CHANCE), told)
    return np.asarray(own * duties, np.float32), np.asarray(TOLD * told, np.float32)


def _steps(rows: Sequence[Row], words: Sequence[Sequence[str]], levels: Numbers, order: Order) -> list[RankStep]:
    """Return the words of each row that enter at one price, by price and gain. `levels` has the price of each word."""
    sizes = [len(row.tokens) for row in rows]
    groups = np.repeat(np.arange(len(rows)), sizes) * LEVELS + levels
    by_group = np.argsort(groups, kind="stable")
    shifts = np.repeat([row.start for row in rows] - np.cumsum(sizes) + sizes, sizes)
    places = (by_group + shifts[by_group]).tolist()
    found, starts = np.unique(groups[by_group], return_index=True)
    worths, tokens = (
        np.bincount(groups, list(chain.from_iterable(column)))[found]
        for column in ([row.own * row.told if order.told else row.own for row in rows], [row.tokens for row in rows])
    )
    row_of, entered = np.divmod(found, LEVELS)
    best = np.lexsort((-worths / np.maximum(tokens, 0.5), entered))
    columns = row_of, entered, tokens, np.diff(row_of, prepend=-1) > 0, starts, np.append(starts[1:], len(places))
    steps: list[RankStep] = []
    for at, level, cost, is_first, start, end in zip(*(column[best].tolist() for column in columns), strict=True):
        row = rows[at]
        if sizes[at] == 1 and not row.start:
            steps.append(RankStep(row.clause, tuple(range(len(words[row.clause]))), cost, is_first, level))
        elif cost <= MAX_STEP_TOKENS:
            steps.append(RankStep(row.clause, tuple(places[start:end]), cost, is_first, level))
        else:
            own = [place - row.start for place in places[start:end]]
            for number, (part_cost, part) in enumerate(_parts(row, own, in_phrases=order.binds)):
                at_words = tuple([row.start + place for place in part])
                steps.append(RankStep(row.clause, at_words, part_cost, is_first and not number, level))
    return steps


def _parts(row: Row, places: Sequence[int], *, in_phrases: bool = True) -> list[tuple[float, list[int]]]:
    """Divide words that enter at one price into parts of about `MAX_STEP_TOKENS`; the first has what a clause may not
    lose.

    Joined words stay in one part.
    """
    groups: list[list[int]] = []
    for place in places:
        if groups and (row.joins[place] or (in_phrases and row.binds[place])):
            groups[-1].append(place)
        else:
            groups.append([place])
    needed = [group for group in groups if any(row.musts[place] for place in group)]
    parts: list[tuple[float, list[int]]] = []
    for group in (*needed, *(group for group in groups if group not in needed)):
        cost = sum(row.tokens[place] for place in group)
        if parts and (group in needed or parts[-1][0] + cost <= MAX_STEP_TOKENS):
            parts[-1] = parts[-1][0] + cost, parts[-1][1] + group
        else:
            parts.append((cost, group))
    return parts


def written_words(words: Iterable[str]) -> str:
    return " ".join(words).strip(" ,;:—–-")


def _urgencies(words: Sequence[str], cores: Sequence[str], parts: Sequence[bool]) -> list[float]:
    """Return the factor of each word of a clause, by the part between commas that it is in."""
    ends = [place for place, ends in enumerate(parts[:-1], 1) if ends]
    urgencies: list[float] = []
    after_plea = False
    for start, end in pairwise([0, *ends, len(words)]):
        part = cores[start:end]
        urgencies += [urgency(words[start:end], part, after_plea=after_plea)] * (end - start)
        after_plea = is_plea(part)
    return urgencies


def cut_clause(text: str, max_tokens: float) -> str:
    """Cut a clause to its best words, about `max_tokens`; unchanged if it fits or cannot be cut that far."""
    if estimate_tokens(text) <= max_tokens:
        return text
    (ranking,) = rank([Source(text)], PHRASES)
    return ranking.clauses(max_tokens).get(0, "") or text


def written(texts: dict[int, str], speakers: Sequence[str]) -> str:
    """Write clauses as sentences, with a mark where the speaker changes."""
    lines: list[str] = []
    speaker = ""
    for place, text in texts.items():
        said = sentence(escape_inline(text))
        if speakers[place] != speaker:
            speaker = speakers[place]
            lines.append(f"{speaker} {said}".strip())
        elif lines:
            lines[-1] += f" {said}"
        else:
            lines.append(said)
    return "\n".join(lines)


def sentence(text: str) -> str:
    """End the text with a full stop if it has no end mark."""
    return text if text[-1:] in _ENDS or text.endswith("}") else f"{text}."
