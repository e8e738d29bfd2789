"""Writes T: one line with what was asked and what came of it.

A line is made of rows of words that read as sentences (`foveate.compress.phrases`). A small linear model gives each
word of the prompt and of the last answer the chance that a reader keeps it in one line. Each side has the rows that
gain most, and the room is divided so that the product of their gains is the largest: no side is left out while it has
something to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from foveate.compress.binding import MIN_RUN, looks_of
from foveate.compress.guard import Pair, keeps_cues
from foveate.compress.marks import cut_line, escape_inline, one_line
from foveate.compress.phrases import rows_of, statement_of
from foveate.compress.rank import Ranking, written_words
from foveate.compress.reader import Candidate, TurnReading
from foveate.compress.worth import HEADS, Floats, chance_of, chances
from foveate.renditions import TINY_TOKENS, Count

TINY_MARGIN = 2
"""Tokens reserved below TINY_TOKENS for the space and the newline around a line."""
MAX_TOKENS = TINY_TOKENS - TINY_MARGIN
ASSISTANT_TOKENS = 30
"""Maximum tokens of T for an assistant's turn without a prompt."""
LARGE_TOKENS, SHARE_OF_LARGE = 1_000, 0.05
MARK_TOKENS = 4
"""Tokens of a speaker's mark."""
UNIT: Final = 16
WEIGHTS: Final = (8, -10, 35, -11, -14)
"""Weights of the features of a word (`line_features`), in 16ths, computed from the labels by `bench/train_tiny.py`."""
MAX_PARTS = 4
"""Parts of a clause from which on no difference is made."""
DENSITY = 0.2
"""The weight of facts per token in ordinary talk: a clause with less of it says little."""
SMOOTH, TINY = (slice(at, at + 1) for at in map(HEADS.index, "ST"))
PRICE, ROW_PRICE = 0.08, 0.3
"""The chance that a token must have to be worth its place, and the sum of chances that a row must have besides."""
AGAIN_WORTH = 1.0
"""Weight of a word's own worth in a line that is made again, since the guard missed facts in the first."""
ROW_GAIN, CUT_GAIN, NO_GAIN = 0.05, 0.001, 0.0001
"""The least gain of a side with a row, the gain of one with the beginning of a clause only, and of one with nothing."""
MAX_CLAUSES, MAX_ROWS = 16, 8
"""Limits of the clauses of a side, and of the rows of a clause, that are compared."""
SLACK = 4
"""Tokens by which the estimates of a line may be too high."""
FIT_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A rendition and the clauses it was made of."""

    text: str
    pairs: tuple[Pair, ...] | None = ()
    """The clauses with their kept words; None if that is no longer known."""


def line_of(candidates: Sequence[Candidate], texts: Mapping[int, str], text: str) -> Line:
    """Return a text with the clauses that it was made of."""
    return Line(text, tuple(Pair(candidates[place].text, kept) for place, kept in texts.items()))


def tiny_tokens(raw_tokens: int, *, has_user: bool) -> int:
    """Return the room of a tiny rendition."""
    most = MAX_TOKENS if has_user else ASSISTANT_TOKENS
    return most if raw_tokens < LARGE_TOKENS else min(most, int(raw_tokens * SHARE_OF_LARGE))


def tiny_line(
    reading: TurnReading, ranking: Ranking, raw_tokens: int, *, above: int, extra: float, count: Count
) -> Line:
    """Write one line of at most `above` tokens: what was asked, then the outcome."""
    candidates = reading.candidates
    room = min(above, round(tiny_tokens(raw_tokens, has_user=reading.has_user) * extra) + count(candidates[0].label))
    worth = AGAIN_WORTH if extra > 1 else 0.0
    left = room + SLACK
    sides = [_choices(candidates, side, left, worth) for side in sides_of(candidates)]
    for _ in range(FIT_ATTEMPTS):
        rows = sorted(_divided(sides, left))
        text = _on_one_line(candidates, {row.place: row.text for row in rows})
        tokens = count(text)
        if not rows or tokens <= room:
            break
        left -= tokens - room
    if not rows or tokens > room:
        return Line(cut_line(_on_one_line(candidates, ranking.clauses(room)), above, count), None)
    calls = reading.tool_calls
    note = f"{text} {{{calls} tool{'s' if calls > 1 else ''} called}}"
    if calls and count(note) <= room:
        text = note
    return Line(text, tuple(Pair(row.source, row.text) for row in rows))


def sides_of(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Return the clauses of each speaker of the prompt, and those of the last answer."""
    spoken = [
        place for place, one in enumerate(candidates) if one.speaker in ("user", "assistant") and one.kind != "code"
    ]
    spoken = spoken or list(range(len(candidates)))
    sides: dict[str, list[int]] = {}
    last = max((candidates[place].message for place in spoken if candidates[place].speaker != "user"), default=-1)
    for place in spoken:
        one = candidates[place]
        if one.speaker == "user":
            sides.setdefault(one.label or "user", []).append(place)
        elif one.message == last:
            sides.setdefault("", []).append(place)
    return list(sides.values())


class _Row(NamedTuple):
    """Words of a clause that read as a sentence."""

    place: int
    tokens: int
    gain: float
    text: str
    source: str
    """The statement that it is part of."""


Choice = tuple[float, tuple[_Row, ...]]
"""A sum of gains, and the rows."""


def _choices(candidates: Sequence[Candidate], side: Sequence[int], room: int, worth: float) -> list[Choice]:
    """Return what gains most of a side in each number of tokens up to the room."""
    told = {
        place: chance_of(sum(weight / UNIT * column for weight, column in zip(WEIGHTS, features.T, strict=True)))
        for place, features in zip(side, line_features([candidates[place] for place in side]), strict=True)
    }
    clauses = sorted(side, key=lambda place: -float(told[place].sum(dtype=np.float64)) / len(told[place]))[:MAX_CLAUSES]
    rows = [_best(_rows(place, candidates[place], told[place].tolist(), worth)) for place in clauses]
    beginnings = _best(_beginnings(clauses[0], candidates[clauses[0]]))
    cuts = [(row.tokens, (CUT_GAIN, (row,))) for row in reversed(beginnings)]
    return [
        choice if choice[1] else next((cut for size, cut in cuts if size <= tokens), choice)
        for tokens, choice in enumerate(_best_together(rows, room))
    ]


def line_features(side: Sequence[Candidate]) -> list[Floats]:
    """Return for each clause of a prompt, or of an answer, the features of its words.

    What the model of worth says of the word for T; the parts of the clause before it; how much the clause is the first
    that says something, and whether it is the last; 1.
    """
    found: list[Floats] = []
    opening = 1.0
    for place, one in enumerate(side):
        words = one.text.split(" ")
        scores = one.scores if one.scores is not None else np.full((len(words), len(HEADS)), -4, np.float32)
        says = float(chances(scores, SMOOTH).sum(dtype=np.float64)) / len(words)
        says *= min(1.0, sum(one.facts.values()) / max(1, one.tokens) / DENSITY)
        features = np.ones((len(words), len(WEIGHTS)), np.float32)
        features[:, :1] = scores[:, TINY]
        features[:, 1] = np.minimum(np.cumsum([0, *(word[-1:] in ",;:.!?)" for word in words[:-1])]), MAX_PARTS)
        features[:, 2] = opening * says
        features[:, 3] = place == len(side) - 1
        found.append(features)
        opening *= 1 - says
    return found


def _rows(place: int, candidate: Candidate, told: Sequence[float], worth: float) -> Iterator[_Row]:
    """Yield the rows of a clause that have all negations and conditions of their statement."""
    words = candidate.text.split(" ")
    looks = looks_of(words)
    tokens = [0.0, *accumulate(look.tokens for look in looks)]
    gains = [chance + worth * look.worth - PRICE * look.tokens for chance, look in zip(told, looks, strict=True)]
    rows = [] if candidate.is_whole else [*rows_of(looks, words)]
    if not rows or max(end for _, end in rows) < len(words) - 1:
        rows.append((0, len(words)))
    for start, end in rows:
        text, source = written_words(words[start:end]), " ".join(statement_of(looks, words, start, end))
        if keeps_cues(source, text):
            size = math.ceil(tokens[end] - tokens[start]) + 1
            yield _Row(place, size, sum(gains[start:end]) - ROW_PRICE, text, source)


def _beginnings(place: int, candidate: Candidate) -> Iterator[_Row]:
    """Yield the beginnings of a clause that end before a preposition or the like, for a side without any other row."""
    words = candidate.text.split(" ")
    looks = looks_of(words)
    tokens = 0.0
    for end in range(1, len(words)):
        tokens += looks[end - 1].tokens
        text = written_words(words[:end])
        if end >= MIN_RUN and looks[end].is_glue and not looks[end - 1].is_glue and keeps_cues(candidate.text, text):
            yield _Row(place, math.ceil(tokens) + 2, tokens, f"{text}…", candidate.text)


def _best(rows: Iterable[_Row]) -> list[_Row]:
    """Return the rows than which no shorter one gains as much, the shortest first."""
    found: list[_Row] = []
    for row in sorted(rows, key=lambda row: (row.tokens, -row.gain)):
        if not found or row.gain > found[-1].gain:
            found.append(row)
    return found[-MAX_ROWS:]


def _best_together(clauses: Iterable[Sequence[_Row]], room: int) -> list[Choice]:
    """Return the rows, at most one of each clause, that together gain most in each number of tokens up to the room."""
    best: list[Choice] = [(NO_GAIN, ())] * (room + 1)
    for rows in clauses:
        longer = list(best)
        for row in rows:
            for tokens in range(row.tokens, room + 1):
                gain, before = best[tokens - row.tokens]
                total = gain + row.gain if before else max(ROW_GAIN, row.gain)
                if total > longer[tokens][0]:
                    longer[tokens] = total, (*before, row)
        best = longer
    return best


def _divided(sides: Sequence[Sequence[Choice]], room: int) -> tuple[_Row, ...]:
    """Divide the room between the sides so that the product of their gains is the largest."""
    whole = [*sides[0]]
    for side in sides[1:]:
        rooms = range(MARK_TOKENS, room + 1) if side is not sides[-1] else range(max(MARK_TOKENS, room), room + 1)
        for tokens in reversed(rooms):
            pairs = zip(whole[tokens - MARK_TOKENS :: -1], side, strict=False)
            whole[tokens] = max(
                ((gain * more, (*rows, *others)) for (gain, rows), (more, others) in pairs),
                key=lambda choice: choice[0],
            )
    return whole[max(0, room)][1]


def _on_one_line(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> str:
    """Write clauses with semicolons between, and a mark where the speaker changes."""
    line, speaker, speech = "", "user", (-1, "")
    for place, text in texts.items():
        candidate = candidates[place]
        label = candidate.label if candidate.speech != speech else ""
        said = escape_inline(f"{label}{candidate.written(text.rstrip('.;, '), line)}")
        if candidate.who != speaker:
            line += f"{' ' if line else ''}[{candidate.who}] {said}"
        else:
            line += f"; {said}" if line else said
        speaker, speech = candidate.who, candidate.speech
    return one_line(line)
