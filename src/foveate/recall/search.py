"""Search in one session or in all of them: the best passage of each turn that matches a query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from foveate.cache import BoundedCache
from foveate.errors import InputError, ModelError
from foveate.models.caller import Caller
from foveate.recall.dates import parse_moment
from foveate.recall.embed import Embedder, index_maker, load_embedder
from foveate.recall.gate import has_question_marks, is_question
from foveate.recall.knowledge import KnowledgeIndex
from foveate.recall.passages import cut_turn
from foveate.recall.sessions import searched_sessions
from foveate.recall.settings import RecallSettings
from foveate.recall.words import find_words, snippet, telling_words
from foveate.renditions import without_recalled
from foveate.store import SessionRow, Store
from foveate.store.codec import restore_message
from foveate.store.rows import SPEAKERS, IndexState, Speaker
from foveate.turn import from_us, to_us, turn_id

if TYPE_CHECKING:
    from foveate.recall.index import Filter, Index, Loose, PassageHit
    from foveate.recall.rank import Matches, Scores

MAX_OPEN = 16
"""Sessions whose index is kept in memory, those used last."""
MAX_RESULTS = 1_000
EVERY_TURN = 2**62
"""A last turn that no session reaches."""
LEAST_ALIKE = 0.25
"""A passage without any of the words matches only if its vector is at least this near; for one word alone,"""
LEAST_ALIKE_TO_A_WORD = 0.4
"""this near."""
LEAST_ALIKE_UNKNOWN = 0.65
"""And for a query of words that the model does not know: nonsense reaches 0.54, another form of the same word 0.78."""
BATCH = 24
"""Passages whose texts are read together."""
MARKED = 256
"""Passages that are compared with earlier ones together."""
MAX_READ = 4_096
"""Passages whose texts are read for one search."""
REPEAT_SHARE = 0.5
"""A passage that only asks what the query asks has its score multiplied by this."""
LEAST_REPEATED = 0.8
"""Share of the query's words that such a passage has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Which passages to search. Times are e.g. `2026-11-15`, `7d` (before now) or `yesterday`."""

    role: str | None = None
    tool: str | None = None
    after: str | float | datetime | None = None
    before: str | float | datetime | None = None
    file: str | None = None
    session_ids: Collection[str] | None = None
    """Only these sessions, in a search over all. A turn that forks share belongs to the session that recorded it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn found by a search, with its best passage."""

    session_id: str
    turn_id: str
    text: str
    role: str
    """Speaker of the passage: `user`, `assistant`, `tool` or `system`."""
    tool: str | None
    at: datetime
    """When the turn began."""
    keyword: float
    """Keyword score; 0 if the passage has none of the query's words."""
    similarity: float
    """Similarity of meaning, from -1 to 1."""
    score: float = 0.0
    """Ranking score, comparable across the sessions of one search."""

    def snippet(self, query: str, max_chars: int = 240) -> list[tuple[str, bool]]:
        """The part of the text, on one line, that has most of the query's words, cut where such words begin and end.

        Each piece says whether it is such a word.
        """
        text = snippet(self.text, query, max_chars)
        pieces: list[tuple[str, bool]] = []
        end = 0
        for first, last in find_words(text, query):
            pieces += [(text[end:first], False), (text[first:last], True)]
            end = last
        return [(piece, is_word) for piece, is_word in [*pieces, (text[end:], False)] if piece]


class Searcher:
    """The indexes of a store's sessions. They load when something is first searched."""

    def __init__(self, store: Store, settings: RecallSettings, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._caller = caller
        self._embedder: Embedder | None = None
        self._open: BoundedCache[int, Index] = BoundedCache(MAX_OPEN)
        self._of_all: Index | None = None
        self.knowledge = KnowledgeIndex(store, lambda: self.embedder)

    @property
    def embedder(self) -> Embedder:
        self._embedder = self._embedder or load_embedder(self._settings, self._caller)
        return self._embedder

    def index(self, session: SessionRow) -> Index:
        """A session's index, opened before or now."""
        found = self._open.get(session.number)
        if found is None:
            found = self._open[session.number] = self._new_index(session.id)
        return found

    def index_of_all(self) -> Index:
        """The index of all sessions, opened before or now."""
        self._of_all = self._of_all or self._new_index(None)
        return self._of_all

    async def search(
        self,
        session: SessionRow,
        query: str,
        max_results: int,
        wanted: SearchFilter | None = None,
        *,
        asking: int | None = None,
    ) -> list[Hit]:
        """The turns of a session that match, best first. `asking` is the turn whose prompt led to this search."""
        hits = await self._search(self.index(session), query, max_results, wanted or SearchFilter(), asking=asking)
        return [_hit(session.id, hit, score) for hit, score in hits]

    async def search_scope(
        self, session: SessionRow, query: str, max_results: int, *, asking: int | None = None
    ) -> list[Hit]:
        """The turns that match of a session and of the others of the scope that it was opened with, best first."""
        searched = await searched_sessions(self._store, session)
        if searched.is_single:
            return await self.search(session, query, max_results, asking=asking)
        index, wanted = self.index_of_all(), SearchFilter()
        found = await self._search(
            index, query, max_results, wanted, asking=asking, sessions=searched.last_turns, own=session.number
        )
        names = {row.number: row.id for row in searched.others}
        return [
            _hit(session.id if searched.is_own(hit.session, hit.turn) else names[hit.session], hit, score)
            for hit, score in found
        ]

    async def search_all(self, query: str, max_results: int, wanted: SearchFilter | None = None) -> list[Hit]:
        """The turns of all sessions that match, best first; a turn that forks share appears once, as its own
        session's."""
        wanted, index, numbers = wanted or SearchFilter(), self.index_of_all(), None
        if wanted.session_ids is not None:
            rows = await self._store.list_sessions()
            numbers = {row.number: EVERY_TURN for row in rows if row.id in wanted.session_ids}
        hits = await self._search(index, query, max_results, wanted, sessions=numbers)
        names = index.session_ids({hit.session for hit, _ in hits})
        return [_hit(names[hit.session], hit, score) for hit, score in hits if hit.session in names]

    async def unsearched(self, session: SessionRow | None = None) -> int:
        """How many turns of a session, or of all, are not indexed yet and too many to be searched directly."""
        return await (self.index(session) if session else self.index_of_all()).unsearched()

    async def state(self) -> IndexState:
        """What the index has and lacks, which model makes its vectors, and why it can't be asked, if it can't."""
        problem = ""
        try:
            await self.embedder.learn()
        except ModelError as error:
            problem = str(error)
        found = await self._store.passages.state(index_maker(self.embedder.name))
        return replace(found, model=self.embedder.name, problem=problem)

    async def _search(
        self,
        index: Index,
        query: str,
        max_results: int,
        wanted: SearchFilter,
        *,
        asking: int | None = None,
        sessions: Mapping[int, int] | None = None,
        own: int = 0,
    ) -> list[tuple[PassageHit, float]]:
        from foveate.recall.rank import best_matches  # noqa: PLC0415 - numpy loads with the first search

        if not query.strip():
            raise InputError("the search is empty; give some words")
        if not 1 <= max_results <= MAX_RESULTS:
            raise InputError(f"max_results is {max_results}; it can be 1 to {MAX_RESULTS:,}")
        scores = await index.scores(query, _filter(wanted, sessions))
        least = LEAST_ALIKE if len(query.split()) > 1 else LEAST_ALIKE_TO_A_WORD
        least = least if self.embedder.knows(query) else LEAST_ALIKE_UNKNOWN
        matches = best_matches(scores, least_alike=least, limit=MAX_READ)
        return await _choose(
            index, scores, matches, _Repeats(query, None if asking is None else (own, asking)), max_results
        )

    def _new_index(self, session_id: str | None) -> Index:
        from foveate.recall.index import Index  # noqa: PLC0415 - numpy loads with the first search

        return Index(self._store, session_id, self.embedder, self._read_loose)

    async def _read_loose(self, session_id: str, turn: int) -> Loose | None:
        from foveate.recall.index import Loose  # noqa: PLC0415

        rows = await self._store.read(session_id, turn, turn)
        if not rows or any(row.body is None for row in rows):
            return None
        return Loose(rows[0].at_us, cut_turn(without_recalled([restore_message(row) for row in rows])))


class _Repeats:
    """Tells passages that only repeat the query, or another passage."""

    def __init__(self, query: str, asking: tuple[int, int] | None) -> None:
        self._query = query
        self._words = telling_words(query)
        self._asking = asking
        self._seen: set[tuple[str, str]] = set()

    def share(self, hit: PassageHit) -> float:
        """How much of its score a passage keeps; 0: it is listed only where there is nothing else."""
        text = " ".join(hit.text.split())
        if (hit.speaker, text) in self._seen:
            return 0.0
        self._seen.add((hit.speaker, text))
        if (hit.session, hit.turn) == self._asking and hit.speaker == "user":
            return 0.0 if has_question_marks(text) else REPEAT_SHARE
        return REPEAT_SHARE if self._asks_the_same(text) else 1.0

    def _asks_the_same(self, text: str) -> bool:
        """Whether a text only asks for what the query is about, or is the query's question in the same words."""
        words = telling_words(text)
        shared = len(words & self._words)
        if not shared or shared < LEAST_REPEATED * len(self._words):
            return False
        if has_question_marks(text):
            return True
        return shared >= LEAST_REPEATED * len(words | self._words) and (is_question(text) or is_question(self._query))


async def _choose(
    index: Index, scores: Scores, matches: Matches, repeats: _Repeats, limit: int
) -> list[tuple[PassageHit, float]]:
    """The best passage of each of the best turns. Reads on until enough turns say more than the query does."""
    first: dict[tuple[int, int], tuple[PassageHit, float]] = {}
    last: dict[tuple[int, int], tuple[PassageHit, float]] = {}
    gains = dict(zip(matches.places, matches.scores, strict=True))
    copies: list[int] = []
    fresh = _without_copies(scores, matches.places, copies)
    while batch := list(islice(fresh, BATCH)):
        for hit in await index.read(scores, batch):
            turn, gain, share = (hit.session, hit.turn), gains[hit.place], repeats.share(hit)
            group = first if share else last
            gain *= share if gain > 0 else 1
            if turn not in group or group[turn][1] < gain:
                group[turn] = (hit, gain)
        if sum(gain >= gains[batch[-1]] for _, gain in first.values()) >= limit:
            break
    best = sorted(first.values(), key=lambda found: -found[1])
    rest = [found for turn, found in last.items() if turn not in first]
    if len(best) + len(rest) < limit:
        others = ((hit, gains[hit.place]) for hit in await index.read(scores, copies[:limit]))
        rest += [(hit, gain) for hit, gain in others if not {(hit.session, hit.turn)} & (first.keys() | last.keys())]
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


def _filter(wanted: SearchFilter, sessions: Mapping[int, int] | None) -> Filter:
    from foveate.recall.index import Filter  # noqa: PLC0415

    now = datetime.now(UTC)
    return Filter(
        speaker=_speaker(wanted.role),
        tool=wanted.tool,
        after_us=None if wanted.after is None else to_us(parse_moment(wanted.after, now, path="after")),
        before_us=None if wanted.before is None else to_us(parse_moment(wanted.before, now, path="before")),
        file=wanted.file,
        sessions=sessions,
    )


def _speaker(role: str | None) -> Speaker | None:
    if role is None or role in SPEAKERS:
        return role
    raise InputError(f"role is {role!r}; it can be {', '.join(SPEAKERS)}")


def _hit(session_id: str, hit: PassageHit, score: float) -> Hit:
    return Hit(
        session_id=session_id,
        turn_id=turn_id(hit.turn),
        text=hit.text,
        role=hit.speaker,
        tool=hit.tool,
        at=from_us(hit.at_us),
        keyword=round(hit.keyword, 3),
        similarity=round(hit.vector, 3),
        score=round(score, 3),
    )
