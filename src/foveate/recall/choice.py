"""From scores to found passages: the best one of each turn, and the question or the reply that completes it.

A passage that only repeats the query, another passage, or what a model always says has less of its score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from foveate.recall.dates import TimeSpan
from foveate.recall.questions import asks_for_answers, has_question_marks, is_question
from foveate.recall.replies import is_reply, speaker_name
from foveate.recall.words import names_code, telling_words
from foveate.renditions import is_history_tool
from foveate.store.rows import PASSAGE_MASK, SPEAKERS, Speaker
from foveate.store.sql import Connection
from foveate.words.grammar import ITEM, is_fence

if TYPE_CHECKING:
    from foveate.recall.index import Index
    from foveate.recall.rank import Matches, Scores
    from foveate.recall.table import Filter

BATCH = 12
"""Passages whose texts are read together."""
MARKED = 256
"""Passages that are compared with earlier ones together."""
MAX_READ = 4_096
"""Passages whose texts are read for one search."""
PROMPT_SHARE = 0.5
"""What the prompt of the turn that searches states has its score multiplied by this."""
REPEAT_SHARE = 0.3
"""A passage that only asks, or is an earlier search, has its score multiplied by this: it states nothing. Of 20 facts
that were asked for three times each, 20 come before the questions; with 0.5, 18 (`test_repeated_questions.py`)."""
LEAST_REPEATED = 0.8
"""Share of the query's words that such a passage has."""
LEAD_IN_SHARE = 0.3
"""The share for a lead-in of the assistant, which states nothing,"""
BOILERPLATE_SHARE = 0.6
"""and for its code and its lists, so that what people stated comes first."""
MAX_LEAD_IN_WORDS = 30
LEAST_ITEMS = 3
"""Fewer lines are no list."""
LEAST_LISTED = 0.6
"""Share of the lines of a passage that are list items, or code."""
COMPLETED = 20
"""Of the best hits, those that are completed by their question or reply."""
MAX_JOINED = 8
"""Passages of a turn that are listed as one text."""

_LEAD_IN = re.compile(
    r"(?:sure|certainly|of course|absolutely|great|good question|happy to|i'd be (?:happy|glad)|here(?:'s| is| are)"
    r"|let me|let's|natürlich|gerne?|klar|hier (?:ist|sind)|bien sûr|voici|avec plaisir|claro|por supuesto|aquí)\b",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"[{};]\s*$|^\s*(?:def|class|import|from|return|const|let|var|function|public|private|async|await|if|for|else)\b.*[:({]"
    r"|^(?: {4}|\t)\s*\S|=>|^\s*[\w.\[\]]+\s*=\s*\S"
)


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that was found. `keyword` is 0 where it has none of the words; `vector` the mean where it has none."""

    place: int
    """In the scores it was read from."""
    session: int
    """The session's number; 0 in an index of one session."""
    turn: int
    number: int
    """Its place among the turn's passages."""
    text: str
    keyword: float
    vector: float
    speaker: Speaker
    tool: str | None
    at_us: int
    score: float = 0.0
    question: str = ""
    """What it replies to."""
    reply: str = ""
    """What was replied, if it is a question."""

    @property
    def address(self) -> tuple[int, int]:
        return self.session, self.turn


@dataclass(frozen=True, slots=True)
class PassageReader:
    """Reads passages of an index by their places in its scores."""

    index: Index
    connection: Connection
    scores: Scores
    wanted: Filter
    name: str = ""
    """Only what the speaker of this name said; empty: all."""

    def read(self, places: Sequence[int], *, of_anybody: bool = False) -> list[PassageHit]:
        """The passages at these places, in this order, without those of other names unless `of_anybody`; one that was
        taken away meanwhile is left out."""
        import numpy as np  # noqa: PLC0415 - loads with the first search

        from foveate.recall.table import TURN_BITS, TURN_MASK  # noqa: PLC0415

        scores, own = self.scores, np.array(places, np.int64)
        keys = scores.key[own].tolist()
        is_named = bool(self.name) and not of_anybody
        texts = self.index.texts(self.connection, [*keys, *(key & ~PASSAGE_MASK for key in keys if is_named)])
        alike = [0.0] * len(places) if scores.vector is None else scores.vector.at(own).tolist()
        turns, keyword, at_us = (column[own].tolist() for column in (scores.turn, scores.keyword, scores.at_us))
        return [
            PassageHit(
                place=place,
                session=turns[row] >> TURN_BITS,
                turn=turns[row] & TURN_MASK,
                number=key & PASSAGE_MASK,
                text=texts[key].text,
                keyword=keyword[row],
                vector=alike[row],
                speaker=texts[key].speaker,
                tool=texts[key].tool,
                at_us=at_us[row],
            )
            for row, (place, key) in enumerate(zip(places, keys, strict=True))
            if key in texts
            and not (is_named and not is_of_name(self.name, speaker_name(texts[key], texts[key & ~PASSAGE_MASK])))
        ]

    def complete(self, hits: Sequence[PassageHit]) -> list[PassageHit]:
        """The hits, the first of them with the question that each replies to, or the reply to it."""
        best = hits[:COMPLETED]
        count = len(self.scores.turn)
        around = sorted({near for hit in best for near in (hit.place - 1, hit.place + 1) if 0 <= near < count})
        turns = self.scores.turn[around].tolist() if around else []
        seen = [place for place, turn in zip(around, turns, strict=True) if self.wanted.has_turn(turn)]
        near = {hit.place: hit for hit in self.read(seen, of_anybody=True)} if seen else {}
        return [*(_completed(hit, near) for hit in best), *hits[COMPLETED:]]

    def whole(self, places: Sequence[int]) -> PassageHit | None:
        """The passages of a turn at these places as one text: those of the first one's speaker."""
        found = self.read(places[:MAX_JOINED])
        said = [hit.text for hit in found if hit.speaker == found[0].speaker]
        return replace(found[0], text="\n".join(said)) if found else None


def is_of_name(wanted: str, name: str) -> bool:
    """Whether a speaker's name is the wanted one, or has it as a word: `Anna` is also `Anna Berg`."""
    given, asked = name.casefold(), wanted.casefold().strip()
    return asked == given or asked in given.split()


def _completed(hit: PassageHit, near: Mapping[int, PassageHit]) -> PassageHit:
    before, behind = near.get(hit.place - 1), near.get(hit.place + 1)
    if behind and behind.session == hit.session and is_reply(hit, behind):
        return replace(hit, reply=behind.text)
    if before and before.session == hit.session and is_reply(before, hit):
        return replace(hit, question=before.text)
    return hit


class Repeats:
    """Tells passages that only repeat the query, another passage, or what a model always says."""

    def __init__(self, query: str, asking: tuple[int, int] | None) -> None:
        self._query = query
        self._words = telling_words(query)
        self._asking = asking
        self._seen: set[tuple[str, str]] = set()
        self._is_for_answers = asks_for_answers(query)
        self._is_for_code = names_code(query)

    def share(self, hit: PassageHit) -> float:
        """How much of its score a passage keeps; 0: it is listed only where there is nothing else."""
        text = " ".join(hit.text.split())
        if (hit.speaker, text) in self._seen:
            return 0.0
        self._seen.add((hit.speaker, text))
        if hit.address == self._asking and hit.speaker == "user":
            return 0.0 if has_question_marks(text) else PROMPT_SHARE
        if hit.tool is not None and is_history_tool(hit.tool):
            return REPEAT_SHARE
        if self._asks_the_same(text) or (hit.speaker == "user" and has_question_marks(text)):
            return REPEAT_SHARE
        return self._share_of_answer(hit.text) if hit.speaker == "assistant" else 1.0

    def _share_of_answer(self, text: str) -> float:
        if is_lead_in(text):
            return LEAD_IN_SHARE
        lines = [line for line in text.splitlines() if line.strip()]
        is_wanted = self._is_for_code if is_code(lines) else self._is_for_answers or not is_list(lines)
        return 1.0 if is_wanted else BOILERPLATE_SHARE

    def _asks_the_same(self, text: str) -> bool:
        """Whether a text only asks for what the query is about, or is the query's question in the same words."""
        if text.isascii():  # the same, quicker: most texts have few of the words
            lower = text.lower()
            if sum(word in lower for word in self._words) < LEAST_REPEATED * len(self._words):
                return False
        words = telling_words(text)
        shared = len(words & self._words)
        if not shared or shared < LEAST_REPEATED * len(self._words):
            return False
        if has_question_marks(text):
            return True
        return shared >= LEAST_REPEATED * len(words | self._words) and (is_question(text) or is_question(self._query))


def is_lead_in(text: str) -> bool:
    """Whether a text only announces what follows it: `Sure! Here are some ideas:`."""
    is_short = len(text.split()) <= MAX_LEAD_IN_WORDS and not any(map(str.isdigit, text))
    return is_short and _LEAD_IN.match(text.lstrip()) is not None


def is_code(lines: Sequence[str]) -> bool:
    """Whether most of a text's lines are code."""
    is_fenced = any(map(is_fence, lines))
    return len(lines) > 1 and (
        is_fenced or sum(_CODE_LINE.search(line) is not None for line in lines) >= LEAST_LISTED * len(lines)
    )


def is_list(lines: Sequence[str]) -> bool:
    """Whether most of a text's lines are items of a list."""
    listed = sum(ITEM.match(line) is not None for line in lines)
    return listed >= max(LEAST_ITEMS, LEAST_LISTED * len(lines))


def choose(
    reader: PassageReader, repeats: Callable[[], Repeats], rank: Callable[[int], Matches], limit: int
) -> list[PassageHit]:
    """The best passage of each of the best turns, with its score; few of the matches are put in order where these are
    enough. `rank` returns the best matches of a number."""
    found = _choose_among(reader, rank(MARKED), repeats(), limit)
    if found is None:
        found = _choose_among(reader, replace(rank(MAX_READ), is_cut=False), repeats(), limit)
    assert found is not None, "nothing was cut"
    return reader.complete(found)


def _choose_among(reader: PassageReader, matches: Matches, repeats: Repeats, limit: int) -> list[PassageHit] | None:
    """Read on until enough turns say more than the query does; None if the matches were cut before."""
    first: dict[tuple[int, int], PassageHit] = {}
    last: dict[tuple[int, int], PassageHit] = {}
    gains = dict(zip(matches.places, matches.scores, strict=True))
    copies: list[int] = []
    fresh = _without_copies(reader.scores, matches.places, copies)
    while batch := list(islice(fresh, BATCH)):
        for hit in reader.read(batch):
            gain, share = gains[hit.place], repeats.share(hit)
            group = first if share else last
            gain *= share if gain > 0 else 1
            if hit.address not in group or group[hit.address].score < gain:
                group[hit.address] = replace(hit, score=gain)
        if sum(hit.score >= gains[batch[-1]] for hit in first.values()) >= limit:
            break
    else:
        if matches.is_cut:
            return None
    best = sorted(first.values(), key=lambda hit: -hit.score)
    rest = [hit for turn, hit in last.items() if turn not in first]
    if len(best) + len(rest) < limit:
        others = (replace(hit, score=gains[hit.place]) for hit in reader.read(copies[:limit]))
        rest += [hit for hit in others if not {hit.address} & (first.keys() | last.keys())]
    return [*best, *rest][:limit]


def _without_copies(scores: Scores, places: Sequence[int], copies: list[int]) -> Iterator[int]:
    """The places of passages, without those that have all scores of an earlier one: these are put into `copies`, and
    their texts are not read unless there is nothing else."""
    seen: set[tuple[int, float, float]] = set()
    for start in range(0, len(places), MARKED):
        some = places[start : start + MARKED]
        for place, mark in zip(some, scores.marks(some), strict=True):
            if mark in seen:
                copies.append(place)
                continue
            if mark is not None:
                seen.add(mark)
            yield place


def places_by_turn(scores: Scores, spans: Sequence[TimeSpan] = ()) -> list[list[int]]:
    """The places of all passages that count, of these times if there are any, by turn, the oldest turn first; what the
    user said comes first."""
    import numpy as np  # noqa: PLC0415

    from foveate.recall.rank import is_within  # noqa: PLC0415

    allowed = scores.allowed & is_within(scores.at_us, spans) if spans else scores.allowed
    places = np.flatnonzero(allowed)
    is_user = scores.speaker[places] == SPEAKERS.index("user")
    order = np.lexsort((places, ~is_user, scores.turn[places], scores.at_us[places]))
    turns: dict[int, list[int]] = {}
    for place, turn in zip(places[order].tolist(), scores.turn[places[order]].tolist(), strict=True):
        turns.setdefault(turn, []).append(place)
    return list(turns.values())
