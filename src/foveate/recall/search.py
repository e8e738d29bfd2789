"""Search in one session or in all of them: the best passage of each turn that matches a query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from foveate.cache import BoundedCache
from foveate.errors import Damaged, FoveateError, InputError, ModelError
from foveate.models.caller import Caller
from foveate.recall.dates import parse_moment
from foveate.recall.embed import Embedder, index_maker, load_embedder
from foveate.recall.knowledge import MAX_EMBEDDED_CHARS, ItemTable, KnownItems
from foveate.recall.questions import has_question_marks, is_question
from foveate.recall.scopes import searched_sessions
from foveate.recall.settings import RecallSettings
from foveate.recall.words import find_words, snippet, telling_words
from foveate.store import SessionRow, Store
from foveate.store.rows import SPEAKERS, IndexState, Speaker
from foveate.store.sql import Connection
from foveate.turn import from_us, to_us, turn_id

if TYPE_CHECKING:
    from foveate.recall.index import Index, Look, Query
    from foveate.recall.rank import Matches, PassageScores, Scores
    from foveate.recall.table import Filter, Floats

T = TypeVar("T")

WORDS = "words"
VECTORS = "vectors"
GLANCE = "glance"
"""Stages of a search, as they are named where they are late."""
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
BATCH = 12
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


@dataclass(frozen=True, slots=True)
class _PassageHit:
    """A passage that was found. `keyword` is 0 where it has none of the words; `vector` the mean where it has none."""

    place: int
    """In the scores it was read from."""
    session: int
    """The session's number; 0 in an index of one session."""
    turn: int
    text: str
    keyword: float
    vector: float
    speaker: Speaker
    tool: str | None
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The scores from one look at an index, as far as they were ready in time."""

    look: Look | None
    """None if it was late or failed."""
    scores: PassageScores | None
    """None if neither words nor vectors were ready."""
    items: Sequence[Mapping[str, float]]
    """Scores of `look.items` by each measure."""
    late: tuple[str, ...]
    """Stages that missed their time."""


class Deadline:
    """A moment by which all must be done; without one, everything is waited for."""

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = None if seconds is None else self._loop.time() + seconds

    def left_seconds(self, most: float | None = None) -> float | None:
        """What is left of it, and not more than `most`; None if nothing sets a limit."""
        left = None if self._end is None else max(0.0, self._end - self._loop.time())
        # Without a deadline limits of stages don't count either: the same store gives the same bytes.
        return left if left is None or most is None else min(left, most)


class Searcher:
    """The indexes of a store's sessions. They load when something is first searched."""

    def __init__(self, store: Store, settings: RecallSettings, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._caller = caller
        self._embedder: Embedder | None = None
        self._open: BoundedCache[str, Index] = BoundedCache(MAX_OPEN)
        self._of_all: Index | None = None
        self.items = KnownItems()
        """Lessons and references of sessions' scopes."""

    @property
    def embedder(self) -> Embedder:
        self._embedder = self._embedder or load_embedder(self._settings, self._caller)
        return self._embedder

    def index(self, session: SessionRow) -> Index:
        """A session's index, opened before or now."""
        found = self._open.get(session.id)
        if found is None:
            found = self._open[session.id] = self._new_index(session.id)
        return found

    def index_of_all(self) -> Index:
        """The index of all sessions, opened before or now."""
        self._of_all = self._of_all or self._new_index(None)
        return self._of_all

    async def measure(
        self,
        index: Index,
        query: Query,
        text: str,
        *,
        words_seconds: float | None,
        vectors_seconds: float | None,
        glanced_turns: int = 0,
    ) -> Measured:
        """Score passages and items by words and by vectors, side by side, from one look at an index.

        With `glanced_turns`, the last turn of a session whose index is not in memory, the look is a glance.
        """
        looking = asyncio.ensure_future(
            index.glance(query, glanced_turns) if glanced_turns else self._look(index, query)
        )
        embedding = asyncio.ensure_future(index.embed(text))
        alike: list[asyncio.Future[dict[str, float]]] = []  # the scores of items by vectors, if there are items

        async def compare() -> tuple[Look, Scores]:
            look = await asyncio.shield(looking)
            if look.items is not None and look.items.rows:
                alike.append(asyncio.ensure_future(self._compare_items(index, look.items, text, embedding)))
            vector = await asyncio.shield(embedding)
            if not (glanced_turns or look.table.model == index.embedder.name):
                look = await self._look(index, query)
            return look, await index.compare(look, vector)

        comparing = asyncio.ensure_future(compare())
        limit = Deadline(vectors_seconds)
        try:
            is_words, is_vectors = await asyncio.gather(
                is_ready(looking, words_seconds), is_ready(comparing, vectors_seconds)
            )
            is_items = all([task.done() or await is_ready(task, limit.left_seconds()) for task in alike])
        finally:
            tasks: list[asyncio.Future[Any]] = [*alike, comparing, embedding, looking]
            if not all(task.done() for task in tasks):
                give_up(*tasks)
        names = (GLANCE, GLANCE, GLANCE) if glanced_turns else (WORDS, VECTORS, VECTORS)
        late = [name for name, ready in zip(names, (is_words, is_vectors, is_items), strict=True) if not ready]
        seen = outcome(looking) if is_words else None
        compared = outcome(comparing) if is_vectors else None
        look, scores = compared or ((seen, seen.scores) if seen else (None, None))
        if look is None or scores is None:
            return Measured(look=None, scores=None, items=(), late=tuple(dict.fromkeys(late)))
        measures: list[Mapping[str, float]] = []
        if look.items is not None and look.items.rows:
            measures += [look.items.by_words(text)] if seen else []
            measures += [found for task in alike if is_items and (found := outcome(task)) is not None]
        return Measured(
            look=look,
            scores=look.measured(scores, is_by_words=seen is not None),
            items=measures,
            late=tuple(dict.fromkeys(late)),
        )

    async def _compare_items(
        self, index: Index, items: ItemTable, text: str, embedding: asyncio.Future[Floats | None]
    ) -> dict[str, float]:
        """The similarity of each item and a prompt, whose whole vector is being made."""
        end = text[-MAX_EMBEDDED_CHARS:]
        vector = await (asyncio.shield(embedding) if end == text else index.embed(end))
        return {} if vector is None else items.by_vectors(await self.items.vectors(self.embedder, items.texts), vector)

    async def _look(self, index: Index, query: Query) -> Look:
        """Look at an index; without words if they can't be read."""
        try:
            return await index.look(query)
        except Damaged:
            return replace(await index.look(replace(query, phrases=(), orders=())), has_words=False)

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
        searched = await self._store.passages.read(lambda connection: searched_sessions(connection, session))
        if searched is None:
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
    ) -> list[tuple[_PassageHit, float]]:
        if not query.strip():
            raise InputError("the search is empty; give some words")
        if not 1 <= max_results <= MAX_RESULTS:
            raise InputError(f"max_results is {max_results}; it can be 1 to {MAX_RESULTS:,}")
        scores = await index.scores(query, _filter(wanted, sessions))
        least = LEAST_ALIKE if len(query.split()) > 1 else LEAST_ALIKE_TO_A_WORD
        least = least if self.embedder.knows(query) else LEAST_ALIKE_UNKNOWN
        asked = None if asking is None else (own, asking)

        def choose(connection: Connection) -> list[tuple[_PassageHit, float]]:
            return _choose(
                partial(_hits, index, connection, scores), scores, partial(_Repeats, query, asked), least, max_results
            )

        return await self._store.passages.read(choose)

    def _new_index(self, session_id: str | None) -> Index:
        from foveate.recall.index import Index  # noqa: PLC0415 - numpy loads with the first search

        return Index(self._store, session_id, self.embedder)


class _Repeats:
    """Tells passages that only repeat the query, or another passage."""

    def __init__(self, query: str, asking: tuple[int, int] | None) -> None:
        self._query = query
        self._words = telling_words(query)
        self._asking = asking
        self._seen: set[tuple[str, str]] = set()

    def share(self, hit: _PassageHit) -> float:
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


def _choose(
    read: Callable[[Sequence[int]], list[_PassageHit]],
    scores: Scores,
    repeats: Callable[[], _Repeats],
    least_alike: float,
    limit: int,
) -> list[tuple[_PassageHit, float]]:
    """The best passage of each of the best turns; few of the matches are put in order where these are enough."""
    from foveate.recall.rank import best_matches  # noqa: PLC0415 - numpy loads with the first search

    few = best_matches(scores, least_alike=least_alike, limit=MARKED)
    found = _choose_among(read, scores, few, repeats(), limit)
    if found is None:
        every = best_matches(scores, least_alike=least_alike, limit=MAX_READ)
        found = _choose_among(read, scores, replace(every, is_cut=False), repeats(), limit)
    assert found is not None, "nothing was cut"
    return found


def _choose_among(
    read: Callable[[Sequence[int]], list[_PassageHit]], scores: Scores, matches: Matches, repeats: _Repeats, limit: int
) -> list[tuple[_PassageHit, float]] | None:
    """Read on until enough turns say more than the query does; None if the matches were cut before."""
    first: dict[tuple[int, int], tuple[_PassageHit, float]] = {}
    last: dict[tuple[int, int], tuple[_PassageHit, float]] = {}
    gains = dict(zip(matches.places, matches.scores, strict=True))
    copies: list[int] = []
    fresh = _without_copies(scores, matches.places, copies)
    while batch := list(islice(fresh, BATCH)):
        for hit in read(batch):
            turn, gain, share = (hit.session, hit.turn), gains[hit.place], repeats.share(hit)
            group = first if share else last
            gain *= share if gain > 0 else 1
            if turn not in group or group[turn][1] < gain:
                group[turn] = (hit, gain)
        if sum(gain >= gains[batch[-1]] for _, gain in first.values()) >= limit:
            break
    else:
        if matches.is_cut:
            return None
    best = sorted(first.values(), key=lambda found: -found[1])
    rest = [found for turn, found in last.items() if turn not in first]
    if len(best) + len(rest) < limit:
        others = ((hit, gains[hit.place]) for hit in read(copies[:limit]))
        rest += [(hit, gain) for hit, gain in others if not {(hit.session, hit.turn)} & (first.keys() | last.keys())]
    return [*best, *rest][:limit]


def _hits(index: Index, connection: Connection, scores: Scores, places: Sequence[int]) -> list[_PassageHit]:
    """The passages at these places, in this order; one that was taken away meanwhile is left out."""
    import numpy as np  # noqa: PLC0415 - loads with the first search

    from foveate.recall.table import TURN_BITS, TURN_MASK  # noqa: PLC0415

    own = np.array(places, np.int64)
    keys = scores.key[own].tolist()
    texts = index.texts(connection, keys)
    alike = [0.0] * len(places) if scores.vector is None else scores.vector.at(own).tolist()
    turns, keyword, at_us = (column[own].tolist() for column in (scores.turn, scores.keyword, scores.at_us))
    return [
        _PassageHit(
            place=place,
            session=turns[number] >> TURN_BITS,
            turn=turns[number] & TURN_MASK,
            text=texts[key].text,
            keyword=keyword[number],
            vector=alike[number],
            speaker=texts[key].speaker,
            tool=texts[key].tool,
            at_us=at_us[number],
        )
        for number, (place, key) in enumerate(zip(places, keys, strict=True))
        if key in texts
    ]


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
    from foveate.recall.table import Filter  # noqa: PLC0415

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


def _hit(session_id: str, hit: _PassageHit, score: float) -> Hit:
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


async def is_ready(task: asyncio.Future[T], seconds: float | None) -> bool:
    """Whether a task is done within a time; never within none."""
    if seconds is not None and seconds <= 0:
        return False
    await asyncio.wait([task], timeout=seconds)
    return task.done()


def outcome(task: asyncio.Future[T]) -> T | None:
    """The result of a task that is done; None if it failed."""
    error = task.exception()
    if error is not None and not isinstance(error, FoveateError):
        raise error
    return None if error else task.result()


def give_up(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and do not wait for them: one may be slow to end, and the deadline is not."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Future[Any]) -> None:
    """So that nothing complains of a late failure that nobody heard of."""
    if not task.cancelled():
        task.exception()
