"""Search in one session or in all of them: the best passage of each turn that matches a query, or a list by date."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from foveate import telemetry
from foveate.cache import BoundedCache
from foveate.errors import Damaged, FoveateError, InputError, ModelError
from foveate.models.caller import Caller
from foveate.recall.choice import PassageHit, PassageReader, Repeats, choose, places_by_turn
from foveate.recall.dates import TimeSpan, names_only_time, parse_span, spans_in
from foveate.recall.embed import Embedder, index_maker, load_embedder
from foveate.recall.knowledge import MAX_EMBEDDED_CHARS, ItemTable, KnownItems
from foveate.recall.scopes import searched_sessions
from foveate.recall.settings import RecallSettings
from foveate.recall.words import find_words, snippet, telling_words
from foveate.store import SessionRow, Store
from foveate.store.rows import SPEAKERS, IndexState, Speaker
from foveate.store.sql import Connection
from foveate.turn import day_text, from_us, to_us, turn_id

if TYPE_CHECKING:
    from foveate.recall.index import Index, Look, Query
    from foveate.recall.rank import PassageScores, Scores
    from foveate.recall.table import Filter, Floats

T = TypeVar("T")

Order = Literal["relevance", "time"]
"""`time` lists turns by date, the oldest first."""

WORDS = "words"
VECTORS = "vectors"
GLANCE = "glance"
"""Stages of a search, as they are named where they are late."""
MAX_OPEN = 16
"""Sessions whose index is kept in memory, those used last."""
MAX_RESULTS = 1_000
MAX_LISTED = 400
"""Turns that a list by date has for a query, the best of those that match."""
LEAST_LISTED_SCORE = 0.3
"""Share of the best turn's score that a turn in such a list has at least, unless it has all words of the query."""
EVERY_TURN = 2**62
"""A last turn that no session reaches."""
LEAST_ALIKE = 0.25
"""A passage without any of the words matches only if its vector is at least this near;"""
LEAST_ALIKE_TO_A_WORD = 0.4
"""for one word alone that other passages have, this near. Where no passage has the word, the first limit finds the turn
that says it differently: recall@5 .00 and .10 with 0.4, .17 and .30 with 0.25 (`bench/meanings.py`)."""
LEAST_ALIKE_UNKNOWN = 0.65
"""And for a query of words that the model does not know: nonsense reaches 0.54, another form of the same word 0.78."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Which passages to search. Times are e.g. `2026-11-15`, `7d` (ago), `yesterday` or `September 2022`."""

    role: str | None = None
    tool: str | None = None
    after: str | float | datetime | None = None
    before: str | float | datetime | None = None
    file: str | None = None
    session_ids: Collection[str] | None = None
    """Only these sessions, in a search over all. A turn that forks share belongs to the session that recorded it."""
    speaker: str | None = None
    """Only what somebody of this name said: messages that begin with it, `Anna: …`."""
    now: datetime | None = None
    """What relative times are counted from; None: the current time in filters, the newest turn in a query."""


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
    question: str = ""
    """The question that the passage replies to, if there is one."""
    reply: str = ""
    """The reply to the passage, if it is a question."""

    @property
    def day(self) -> str:
        """The day of the turn in UTC, e.g. `4 May 2023`."""
        return day_text(to_us(self.at))

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


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of a search."""

    query: str
    max_results: int
    wanted: SearchFilter
    order: Order
    skip: int = 0
    asking: int | None = None
    """The turn whose prompt led to it,"""
    own: int = 0
    """and the number of its session in an index of all."""


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
        order: str = "relevance",
        skip: int = 0,
    ) -> list[Hit]:
        """The turns of a session that match, best first, or by date, without the first `skip`. `asking` is the turn
        whose prompt led to this search."""
        asked = _Asked(query, max_results, wanted or SearchFilter(), _order(order), skip=skip, asking=asking)
        return [_hit(session.id, hit) for hit in await self._search(self.index(session), asked)]

    async def search_scope(
        self,
        session: SessionRow,
        query: str,
        max_results: int,
        wanted: SearchFilter | None = None,
        *,
        asking: int | None = None,
        order: str = "relevance",
        skip: int = 0,
    ) -> list[Hit]:
        """The turns that match of a session and of the others of the scope that it was opened with; see `search`."""
        searched = await self._store.passages.read(lambda connection: searched_sessions(connection, session))
        if searched is None:
            return await self.search(session, query, max_results, wanted, asking=asking, order=order, skip=skip)
        asked = _Asked(query, max_results, wanted or SearchFilter(), _order(order), skip=skip, asking=asking)
        asked = replace(asked, own=session.number)
        found = await self._search(self.index_of_all(), asked, searched.last_turns)
        names = {row.number: row.id for row in searched.others}
        return [
            _hit(session.id if searched.is_own(hit.session, hit.turn) else names[hit.session], hit) for hit in found
        ]

    async def search_all(
        self,
        query: str,
        max_results: int,
        wanted: SearchFilter | None = None,
        *,
        order: str = "relevance",
        skip: int = 0,
    ) -> list[Hit]:
        """The turns of all sessions that match, best first, or by date; a turn that forks share appears once, as its
        own session's."""
        wanted, index, numbers = wanted or SearchFilter(), self.index_of_all(), None
        if wanted.session_ids is not None:
            rows = await self._store.list_sessions()
            numbers = {row.number: EVERY_TURN for row in rows if row.id in wanted.session_ids}
        hits = await self._search(index, _Asked(query, max_results, wanted, _order(order), skip=skip), numbers)
        names = index.session_ids({hit.session for hit in hits})
        return [_hit(names[hit.session], hit) for hit in hits if hit.session in names]

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

    async def _search(self, index: Index, asked: _Asked, sessions: Mapping[int, int] | None = None) -> list[PassageHit]:
        with telemetry.span("search_memory") as span:
            hits = await self._searched(index, asked, sessions)
            if span:
                span.set({telemetry.OPERATION: "search_memory", telemetry.RECORDS: len(hits)})
            return hits

    async def _searched(self, index: Index, asked: _Asked, sessions: Mapping[int, int] | None) -> list[PassageHit]:
        if not 1 <= asked.max_results <= MAX_RESULTS:
            raise InputError(f"max_results is {asked.max_results}; it can be 1 to {MAX_RESULTS:,}")
        is_listed = asked.order == "time"
        if not asked.query.strip() and not is_listed:
            raise InputError("the search is empty; give some words, or order='time' to list turns by date")
        wanted = _filter(asked.wanted, sessions)
        scores = await index.scores(asked.query, wanted)
        newest = from_us(int(scores.at_us.max(initial=0)))
        spans = spans_in(asked.query, asked.wanted.now or newest)
        has_words = bool((scores.allowed & (scores.keyword > 0)).any())
        least_alike = self._least_alike(asked.query, has_words=has_words)

        def read(connection: Connection) -> list[PassageHit]:
            reader = PassageReader(index, connection, scores, wanted, asked.wanted.speaker or "")
            if not asked.query.strip():
                return _every_turn(reader, asked, ())
            if spans and names_only_time(asked.query):
                return _turns_of_time(reader, asked, spans, least_alike=least_alike)
            return _best_turns(reader, asked, spans, least_alike=least_alike)

        return await self._store.passages.read(read)

    def _least_alike(self, query: str, *, has_words: bool) -> float:
        if not self.embedder.knows(query):
            return LEAST_ALIKE_UNKNOWN
        return LEAST_ALIKE_TO_A_WORD if has_words and len(query.split()) == 1 else LEAST_ALIKE

    def _new_index(self, session_id: str | None) -> Index:
        from foveate.recall.index import Index  # noqa: PLC0415 - numpy loads with the first search

        return Index(self._store, session_id, self.embedder)


def _best_turns(
    reader: PassageReader, asked: _Asked, spans: Sequence[TimeSpan], *, least_alike: float
) -> list[PassageHit]:
    """The turns that match, best first; or the best of them by date."""
    from foveate.recall.rank import best_matches  # noqa: PLC0415 - numpy loads with the first search

    is_listed = asked.order == "time"
    asking = None if asked.asking is None else (asked.own, asked.asking)
    found = choose(
        reader,
        partial(Repeats, asked.query, asking),
        lambda count: best_matches(reader.scores, least_alike=least_alike, limit=count, spans=spans),
        MAX_LISTED if is_listed else asked.skip + asked.max_results,
    )
    if is_listed:
        least = LEAST_LISTED_SCORE * max((hit.score for hit in found), default=0.0)
        words = telling_words(asked.query)
        found = [hit for hit in found if hit.score >= least or words <= telling_words(hit.text)]
        found.sort(key=lambda hit: (hit.at_us, hit.session, hit.turn))
    return found[asked.skip : asked.skip + asked.max_results]


def _turns_of_time(
    reader: PassageReader, asked: _Asked, spans: Sequence[TimeSpan], *, least_alike: float
) -> list[PassageHit]:
    """The turns of the times that are all of a query, the oldest first; before them, best first, those that mention the
    date. What "yesterday" means where it is mentioned is another day."""
    best = _best_turns(reader, asked, (), least_alike=least_alike)
    of_time = _every_turn(reader, asked, spans)
    if asked.order == "time":
        return of_time or best
    words = telling_words(asked.query)
    is_date = any(map(str.isdigit, asked.query))
    mentions = [hit for hit in best if is_date and words <= telling_words(hit.text)]
    known = {hit.address for hit in mentions}
    found = [*mentions, *(hit for hit in of_time if hit.address not in known)]
    return (found or best)[: asked.max_results]


def _every_turn(reader: PassageReader, asked: _Asked, spans: Sequence[TimeSpan]) -> list[PassageHit]:
    """All turns that the filter and the named times leave, the oldest first: each with what the user said, or else the
    first speaker."""
    turns = places_by_turn(reader.scores, spans)
    if not reader.name:  # whose turns they are is known only when they are read
        turns = turns[asked.skip :]
    hits = (hit for places in turns if (hit := reader.whole(places)) is not None)
    skip = asked.skip if reader.name else 0
    return list(islice(hits, skip, skip + asked.max_results))


def _filter(wanted: SearchFilter, sessions: Mapping[int, int] | None) -> Filter:
    from foveate.recall.table import Filter  # noqa: PLC0415

    first_us, end_us = _times(wanted)
    return Filter(
        speaker=_speaker(wanted.role),
        tool=wanted.tool,
        after_us=first_us,
        before_us=end_us,
        file=wanted.file,
        sessions=sessions,
    )


def _times(wanted: SearchFilter) -> tuple[int | None, int | None]:
    """The first moment that counts and the one behind the last. If `after` is inside the time that `before` names, all
    of that time counts: after and before September 2022 is September 2022."""
    now = wanted.now or datetime.now(UTC)
    after = None if wanted.after is None else parse_span(wanted.after, now, path="after")
    before = None if wanted.before is None else parse_span(wanted.before, now, path="before")
    if after is None or before is None or after.first_us < before.first_us:
        return after.first_us if after else None, before.first_us if before else None
    if after.first_us < before.end_us:
        return after.first_us, before.end_us
    days = f"after is {day_text(after.first_us)}, before is {day_text(before.first_us)}"
    raise InputError(f"{days}: no time is between them; exchange them or leave one out")


def _order(order: str) -> Order:
    for known in get_args(Order):
        if order == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"order is {order!r}; it can be {' or '.join(get_args(Order))}")


def _speaker(role: str | None) -> Speaker | None:
    if role is None or role in SPEAKERS:
        return role
    raise InputError(f"role is {role!r}; it can be {', '.join(SPEAKERS)}")


def _hit(session_id: str, hit: PassageHit) -> Hit:
    return Hit(
        session_id=session_id,
        turn_id=turn_id(hit.turn),
        text=hit.text,
        role=hit.speaker,
        tool=hit.tool,
        at=from_us(hit.at_us),
        keyword=round(hit.keyword, 3),
        similarity=round(hit.vector, 3),
        score=round(hit.score, 3),
        question=hit.question,
        reply=hit.reply,
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
