"""Scores of passages: keyword and vector scores fused into one, for search and for recall. Pure.

    p(passage) = z(keyword) + z(vector)

z is the distance from the mean of everything that is searched, in standard deviations. Search orders by p; what tools
said counts less (`TOOL_SHARE`). Recall adds what is around a passage:

    b(turn)    = the best p of the turn
    score      = p + w1 · (b of the turns next to its own) + w2 · (b of those one further), within one sitting
                   + the user's weight, if the user said it + the date's, if the question names its day
                   + w3 · log(words / FULL_WORDS), for a passage of fewer words than that

There, a short turn is shown whole or not at all: all its passages have the score of its best. For a question about the
whole conversation, further passages of a turn are lowered, so that many turns are shown (`RankWeights.spread`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foveate.recall.dates import TimeSpan
from foveate.recall.table import Alike, Mask, moments
from foveate.store.rows import SPEAKERS

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

TINY_DEVIATION = 1e-9
SHORT_PASSAGES = 2
"""Tokens of a short turn."""
HOUR_US = 3_600_000_000
FULL_WORDS = 40
"""Words of a full passage of prose. Shorter ones are often greetings, thanks or questions."""
LEAST_WORDS = 5
"""Fewer count as this many. A script without spaces has few words by this count."""
TOOL_SHARE = 0.85
"""In a search, scores of tool results and injected text are multiplied by this: a little below what people said. With
0.5, facts that only a tool result has were found less often (`bench/recall.py --needles`: 83 and 86 of 100, not 89)."""

NAMED_TIME_WEIGHT = 3.0
"""What a passage of a time that a search names gets, in standard deviations: as much as a rare word more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWeights:
    """What counts for how much, in standard deviations of a score."""

    user: float = 4.0
    """Of the user's words,"""
    is_for_answers: bool = False
    """or of the assistant's instead."""
    near: float = 0.3
    """Of the turns next to a passage's own."""
    far: float = 0.15
    """Of those one further."""
    date: float = 1.0
    length: float = 0.5
    """Of the logarithm of a passage's share of `FULL_WORDS`."""
    spread: float = 0.0
    """What the second best passage of a long turn loses; the third loses twice that, and so on."""
    sitting_hours: float = 12.0
    """Turns further apart than this are not of one sitting."""


@dataclass(frozen=True, slots=True)
class MeasureScores:
    """How well passages answer by one measure: all of them, or those that came into question."""

    values: Floats
    """Of every passage; where nothing is known, the mean."""
    mean: float
    deviation: float

    def at(self, places: Numbers) -> MeasureScores:
        """The same for some of the passages: mean and deviation stay those of all."""
        return MeasureScores(self.values[places], self.mean, self.deviation)

    def within(self, count: int) -> MeasureScores:
        """The same where these are all of `count` passages that answer at all: the mean and the deviation are of
        `count`."""
        values = self.values.astype(np.float64)
        mean = float(values.sum()) / max(1, count)
        deviation = max(0.0, float((values**2).sum()) / max(1, count) - mean**2) ** 0.5
        return MeasureScores(self.values, mean, deviation)

    def like(self, sample: Mask) -> MeasureScores:
        """The same with the mean and the deviation of a sample."""
        return MeasureScores(self.values, *moments(self.values[sample]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages:
    """The passages of a session, by columns."""

    key: Numbers
    """Of each in the index; they grow."""
    turn: Numbers
    at_us: Numbers
    is_user: NDArray[np.bool_]
    is_assistant: NDArray[np.bool_]
    words: Numbers
    """The number of words of each."""


@dataclass(frozen=True, kw_only=True)
class PassageScores:
    """Scores of all passages of one moment by words and by vectors; None for a measure that is not known."""

    passages: Passages
    words: MeasureScores | None = None
    vectors: MeasureScores | None = None
    orders: Floats | None = None
    """Keyword scores for the words of standing orders."""

    @cached_property
    def fused(self) -> Floats:
        """The sum of the standard scores by words and by vectors, or the one that is known."""
        return fuse(self.words, self.vectors)


@dataclass(frozen=True, slots=True)
class Scores:
    """Every passage of a session, by columns, with how well it answers. What is not `allowed` does not count."""

    turn: NDArray[np.int64]
    at_us: NDArray[np.int64]
    speaker: NDArray[np.uint8]
    """As `SPEAKERS` numbers them."""
    keyword: Floats
    vector: Alike | None
    """None if the question has no vector."""
    allowed: Mask
    key: NDArray[np.int64]
    """They grow; those of passages that are not indexed yet begin at `index.LOOSE_KEY`."""
    words: NDArray[np.uint16]
    """The number of words of each."""

    def marks(self, places: Sequence[int]) -> list[tuple[int, float, float] | None]:
        """For the passages at these places what copies of a text have in common: speaker and both scores. None for one
        whose vector was not compared, since different texts may have the same words."""
        if self.vector is None:
            return [None] * len(places)
        own = np.array(places, np.int64)
        alike = self.vector.compared(own)
        columns = zip(self.speaker[own].tolist(), self.keyword[own].tolist(), alike, strict=True)
        return [None if near is None else (speaker, keyword, near) for speaker, keyword, near in columns]


@dataclass(frozen=True, slots=True)
class Matches:
    """The places of passages that match a search, best first, each with its score."""

    places: list[int]
    scores: list[float]
    """In standard deviations above a passage that has nothing of the query."""
    is_cut: bool
    """There are more."""


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """Passages with their scores, and the places of the best, best first."""

    passages: Passages
    scores: Floats
    places: Numbers
    own: Floats
    """The score of each passage by itself, without its neighbours and its speaker."""


def rank(
    scores: PassageScores,
    weights: RankWeights,
    *,
    spans: Sequence[TimeSpan] = (),
    visible: Collection[int] = (),
    limit: int,
) -> RankedPassages:
    """The best passages, without those of turns that are visible already."""
    passages, own = scores.passages, scores.fused
    ranked = score(passages, own, weights, spans)
    allowed = ~np.isin(passages.turn, list(visible)) if visible else np.ones(len(passages.key), np.bool_)
    return RankedPassages(passages, ranked, best_first(passages, ranked, allowed, limit), own)


def said_by_user(ranked: RankedPassages, having: Floats, *, visible: Collection[int], limit: int) -> RankedPassages:
    """The best of the user's passages that have something, by a measure that is 0 for those without it."""
    passages = ranked.passages
    allowed = passages.is_user & (having > 0)
    if visible:
        allowed &= ~np.isin(passages.turn, list(visible))
    return replace(ranked, places=best_first(passages, ranked.scores, allowed, limit))


def lift(ranked: RankedPassages, places: Sequence[int], weight: float) -> RankedPassages:
    """With a bonus for the passages at some places, whether or not they were among the best."""
    scores = ranked.scores.copy()
    scores[list(places)] += np.float32(weight)
    every = np.union1d(ranked.places, np.array(places, np.int64))
    order = np.lexsort((every, -ranked.passages.turn[every], -scores[every]))
    return replace(ranked, scores=scores, places=every[order])


def candidates(ranked: RankedPassages, scores: PassageScores, count: int) -> Numbers:
    """The places of the best passages by each measure, `count` of each, in the order of the ranking."""
    chosen = np.zeros(len(ranked.places), np.bool_)
    for measured in (scores.words, scores.vectors):
        if measured:
            values = measured.values[ranked.places]
            best = np.argsort(-values, kind="stable")[:count]
            chosen[best[values[best] > 0]] = True
    found: Numbers = ranked.places[chosen]
    return found


def outstanding(scores: PassageScores, *, asking: int | None = None) -> float:
    """The distance of the best passage from the mean in standard deviations, keywords and vectors together.

    The turn that asks says what it asks for, which does not count.
    """
    return float(scores.fused[scores.passages.turn != asking].max(initial=0.0)) if len(scores.passages.key) else 0.0


def best_matches(scores: Scores, *, least_alike: float, limit: int, spans: Sequence[TimeSpan] = ()) -> Matches:
    """The passages that match a search, best first; of equals what the user said comes first, then the newer one.

    A passage matches if it has a word of the query, or if its vector is at least as near as `least_alike` and nearer
    than the mean. What tools returned and programs injected counts `TOOL_SHARE` of what people and models said. What
    was said at a time that the query names gets `NAMED_TIME_WEIGHT`.
    """
    has_word = scores.allowed & (scores.keyword > 0)
    words = MeasureScores(scores.keyword, *_mean_and_deviation(scores.keyword[has_word], int(scores.allowed.sum())))
    is_match = has_word
    alike = scores.vector
    if alike is not None:
        near = alike.places[(alike.found >= least_alike) & (alike.found > alike.mean)]
        is_match = has_word.copy()
        is_match[near] = scores.allowed[near]
    places = np.flatnonzero(is_match)
    vectors = None if alike is None else MeasureScores(alike.at(places), alike.mean, alike.deviation)
    # From the score of a passage that has none of the words and an ordinary vector, so that shares of it make sense.
    nothing = fuse(MeasureScores(np.zeros(1, np.float32), words.mean, words.deviation), None)
    gains = fuse(words.at(places), vectors) - nothing
    is_spoken = scores.speaker[places] <= SPEAKERS.index("assistant")
    gains = np.where(is_spoken | (gains < 0), gains, gains * np.float32(TOOL_SHARE)).astype(np.float32)
    if spans:
        gains = gains + np.float32(NAMED_TIME_WEIGHT) * is_within(scores.at_us[places], spans)
    is_user = scores.speaker[places] == SPEAKERS.index("user")
    is_cut = len(places) > limit
    if is_cut:
        best = gains >= np.partition(gains, len(gains) - limit)[len(gains) - limit]
        places, gains, is_user = places[best], gains[best], is_user[best]
    order = np.lexsort((places, -scores.turn[places], ~is_user, -gains))[:limit]
    return Matches(places[order].tolist(), gains[order].tolist(), is_cut=is_cut)


def _mean_and_deviation(values: Floats, count: int) -> tuple[float, float]:
    """Of `count` numbers, given those that are not 0."""
    if not count:
        return 0.0, 0.0
    known = values.astype(np.float64)
    mean = float(known.sum()) / count
    return mean, float((((known - mean) ** 2).sum() + (count - len(known)) * mean**2) / count) ** 0.5


def fuse(keyword: MeasureScores | None, vector: MeasureScores | None) -> Floats:
    """The sum of the scores by words and by vectors, or the one that is known, each in standard deviations from its
    mean; 0 by a measure by which every passage answers alike."""
    known = []
    for scored in (keyword, vector):
        if scored is not None and scored.deviation <= TINY_DEVIATION:
            known.append(np.zeros(len(scored.values), np.float32))
        elif scored is not None:
            known.append((scored.values - np.float32(scored.mean)) / np.float32(scored.deviation))
    assert known, "nothing was measured"
    total: Floats = np.sum(known, axis=0, dtype=np.float32)
    return total


def score(passages: Passages, fused: Floats, weights: RankWeights, spans: Sequence[TimeSpan] = ()) -> Floats:
    """How well each passage answers, given its score by itself."""
    # What is the same for every turn of a kind is not lent: a turn at the edge of a sitting has fewer to borrow from.
    scores: Floats = fused + _lent(passages, fused, weights)
    is_wanted = passages.is_assistant if weights.is_for_answers else passages.is_user
    scores += np.float32(weights.user) * is_wanted.astype(np.float32)
    if spans:
        scores += np.float32(weights.date) * _dated(passages, spans)
    scores += np.float32(weights.length) * np.log(np.clip(passages.words, LEAST_WORDS, FULL_WORDS) / FULL_WORDS)
    if not len(passages.key):
        return scores
    place = passages.turn - int(passages.turn.min())
    counts = np.bincount(place)
    best = np.full(len(counts), -np.inf, np.float32)
    np.maximum.at(best, place, scores)
    # Passages of a short turn have the score of its best.
    scores = np.where(counts[place] <= SHORT_PASSAGES, best[place], scores)
    return scores - np.float32(weights.spread) * _places_in_turn(passages, scores) if weights.spread else scores


def best_first(passages: Passages, scores: Floats, allowed: NDArray[np.bool_], limit: int) -> Numbers:
    """The places of the best passages that are allowed; of equals the newer comes first."""
    places = np.flatnonzero(allowed)
    if len(places) > limit:
        bar = np.partition(scores[places], len(places) - limit)[len(places) - limit]
        places = places[scores[places] >= bar]
    order = np.lexsort((places, -passages.turn[places], -scores[places]))
    found: Numbers = places[order][:limit]
    return found


def is_within(at_us: Numbers, spans: Sequence[TimeSpan]) -> NDArray[np.bool_]:
    """Whether each moment is in one of these times."""
    inside = np.zeros(len(at_us), np.bool_)
    for span in spans:
        inside |= (at_us >= span.first_us) & (at_us < span.end_us)
    return inside


def _dated(passages: Passages, spans: Sequence[TimeSpan]) -> Floats:
    inside = is_within(passages.at_us, spans)
    # Where everything or nothing is of that time, it tells nothing.
    return inside.astype(np.float32) if not inside.all() else np.zeros(len(passages.key), np.float32)


def _lent(passages: Passages, scores: Floats, weights: RankWeights) -> Floats:
    """What each passage gets from the turns around its own."""
    if not len(passages.key) or not (weights.near or weights.far):
        return np.zeros(len(passages.key), np.float32)
    first, last = int(passages.turn.min()), int(passages.turn.max())
    place = passages.turn - first
    size = last - first + 1
    best = np.full(size, -np.inf, np.float32)
    np.maximum.at(best, place, scores)
    times = np.full(size, -1, np.int64)
    times[place] = passages.at_us
    known = np.flatnonzero(times >= 0)
    begins = np.zeros(size, np.int64)
    begins[known[1:]] = np.abs(np.diff(times[known])) > weights.sitting_hours * HOUR_US
    sittings = np.cumsum(begins)  # a turn without passages is of the sitting before it
    best[np.isneginf(best)] = 0  # a turn that says nothing lends nothing
    lent = np.zeros(size, np.float32)
    for distance, weight in ((1, weights.near), (2, weights.far)):
        if size > distance and weight:
            is_same = sittings[distance:] == sittings[:-distance]
            lent[:-distance] += np.float32(weight) * best[distance:] * is_same
            lent[distance:] += np.float32(weight) * best[:-distance] * is_same
    found: Floats = lent[place]
    return found


def _places_in_turn(passages: Passages, scores: Floats) -> Floats:
    """How many passages of its turn are better than each; 0 for passages of a short turn, which is shown whole."""
    order = np.lexsort((-scores, passages.turn))
    turns = passages.turn[order]
    _, firsts, counts = np.unique(turns, return_index=True, return_counts=True)
    better = np.arange(len(order)) - np.repeat(firsts, counts)
    places = np.empty(len(order), np.float32)
    places[order] = np.where(np.repeat(counts, counts) <= SHORT_PASSAGES, 0, better)
    return places
