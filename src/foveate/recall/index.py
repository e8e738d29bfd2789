"""The index of one session, or of all sessions of a store, in memory: a keyword and a vector score for each passage.

The database finds the passages that have a word; how much a word counts is computed here, over everything that is
searched, so that scores are comparable. Turns that are not indexed yet are cut and searched directly. One look reads
all of it in one transaction, with the lessons and references of a session; vectors are compared afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from foveate.errors import ModelError
from foveate.recall.embed import Embedder, Recent
from foveate.recall.knowledge import ItemTable, KnownItems
from foveate.recall.passages import Passage, cut_turn, passage_text
from foveate.recall.rank import MeasureScores, Passages, PassageScores, Scores
from foveate.recall.scopes import SearchedSessions, searched_sessions
from foveate.recall.table import (
    EVERYTHING,
    LOOSE_KEY,
    MAX_LOOSE_TURNS,
    MAX_STORE_LOOSE_TURNS,
    Alike,
    CutTurn,
    Filter,
    Floats,
    KnownPhrase,
    LoosePassages,
    Mask,
    PassageTable,
    moments,
)
from foveate.recall.words import query_phrases
from foveate.renditions import without_recalled
from foveate.store import SessionRow, Store, log, passages
from foveate.store.codec import restore_message
from foveate.store.rows import (
    KEY_SHIFT,
    NEWEST_ID,
    PASSAGE_MASK,
    SPEAKERS,
    IndexedSession,
    MessageRow,
    PassageText,
)
from foveate.store.sql import Connection
from foveate.text import encodable

_log = logging.getLogger(__name__)

K1 = 1.2
B = 0.75
"""BM25's, as everywhere. A passage is so short that how often it says a word tells nothing."""
MAX_POSTINGS = 1_000
"""A phrase that is in more passages than this is too common to count, unless all phrases of the query are."""
LEAST_WEIGHT = 1e-3
"""Of a phrase that is in most passages."""
MAX_EMBEDDED_CHARS = 2_000
"""Of a query."""
QUICK_PASSAGES = 100_000
"""Up to this number, scoring takes about a millisecond and is not moved to a thread."""
MAX_STORE_POSTINGS = 20_000
"""The same where all sessions are searched."""
LOADED_ROWS = 8_192
"""Rows that are read together where a whole index is loaded."""
MAX_NEAREST = 200
"""Passages that the database is asked for, where it has an index of vectors."""
MAX_NAMED_SESSIONS = 1_000
"""Sessions that such a question names; of more, those that count are chosen afterwards."""
MAX_GLANCED_ROWS = 2_048
"""Rows that a glance reads for the words of a query, the newest,"""
GLANCED_TURNS = 512
"""and turns of the whole session, for what passages are like on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a look evaluates."""

    phrases: Sequence[str]
    orders: Sequence[str] = ()
    """Phrases that are scored apart from the others."""
    wanted: Filter = EVERYTHING
    session: SessionRow | None = None
    """The session that asks: in an index of all sessions, those of its scope count."""
    items: KnownItems | None = None
    """If given, the items of the session's scopes are read too."""

    @classmethod
    def of(cls, text: str, wanted: Filter = EVERYTHING) -> Query:
        return cls(phrases=query_phrases(encodable(text)), wanted=wanted)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of a whole session where only some of its rows were read."""

    count: int
    """About how many passages the session has."""
    is_sampled: Mask
    """The passages of turns that were taken at even distances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An index at one moment, scored by words."""

    table: PassageTable
    scores: Scores
    """Without vectors. Passages that are not indexed yet come last."""
    has_words: bool = True
    """False if the words of the index can't be read."""
    mask: Mask | None = None
    """Those of the table that count; None: all."""
    loose: LoosePassages | None = None
    """The passages that are not indexed yet."""
    orders: Floats | None = None
    """The scores by `Query.orders`."""
    wanted: Filter = EVERYTHING
    searched: SearchedSessions | None = None
    """The sessions that count; None: one session has its own index."""
    is_alone: bool | None = None
    """Whether no other session of the scope has turns; None: not looked up."""
    items: ItemTable | None = None
    """None: not read, or the store has none."""
    sample: Sample | None = None

    def measured(self, scores: Scores, *, is_by_words: bool = True) -> PassageScores:
        """The scores of the passages that count, given with vectors or without; turns as `searched` numbers them."""
        kept, alike = scores.allowed, scores.vector
        keyword = scores.keyword[kept]
        words = MeasureScores(keyword, *moments(keyword)) if is_by_words and self.has_words else None
        vectors = None
        if alike is not None:
            values = np.full(alike.count, alike.mean, np.float32)  # of what was not compared, or has no vector
            values[alike.places] = alike.found
            vectors = MeasureScores(values[kept], alike.mean, alike.deviation)
        if self.sample:
            words = words and words.within(self.sample.count)
            vectors = vectors and vectors.like(self.sample.is_sampled[kept])
        passages = Passages(
            key=scores.key[kept],
            turn=scores.turn[kept],
            at_us=scores.at_us[kept],
            is_user=scores.speaker[kept] == SPEAKERS.index("user"),
            is_assistant=scores.speaker[kept] == SPEAKERS.index("assistant"),
            words=scores.words[kept].astype(np.int64),
        )
        return PassageScores(
            passages=self.searched.renumber(passages) if self.searched else passages,
            words=words,
            vectors=vectors,
            orders=None if self.orders is None else self.orders[kept],
        )


class Index:
    """Of one session, or of all. Threads and tasks may share it; each look reads what other processes added."""

    def __init__(self, store: Store, session_id: str | None, embedder: Embedder) -> None:
        self._store = store
        self._session_id = session_id
        self.embedder = embedder
        self.is_store = session_id is None
        """Whether it covers all sessions."""
        self._lock = threading.Lock()
        self._table = self._new_table()
        self._newest_of_all = 0
        self._sessions: Sequence[IndexedSession] = ()
        self._cut: dict[tuple[int, int], CutTurn] = {}
        """Turns that are not indexed yet, by their keys and their numbers of messages."""
        self._loose: LoosePassages | None = None
        """Those that the last look searched."""
        self._recent = Recent(embedder)
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._table.is_loaded

    def session_ids(self, numbers: Collection[int]) -> dict[int, str]:
        """The ids of sessions by their numbers, as the last search saw them."""
        return {session.number: session.id for session in self._sessions if session.number in numbers}

    def load_soon(self) -> None:
        """Begin to load the index; nobody waits for it."""
        if self._loading is None or self._loading.done() or self._loading.get_loop() is not asyncio.get_running_loop():
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(_note_failure)

    async def load_within(self, seconds: float | None) -> bool:
        """Whether the index is in memory after at most this time; if not, it is loaded in the background."""
        if not self.is_loaded:
            self.load_soon()
            assert self._loading is not None
            await asyncio.wait([self._loading], timeout=seconds)
        return self.is_loaded

    async def look(self, query: Query) -> Look:
        """Bring the index up to date and score all passages by their words, in one read transaction."""
        while True:
            with self._lock:
                if self._table.model != self.embedder.name:  # its dimensions have just become known
                    self._table = self._new_table()
            if not self._table.is_loaded:
                self.load_soon()
                assert self._loading is not None
                await asyncio.shield(self._loading)  # a caller that gives up does not stop it for the others
            look = await self._store.passages.read(partial(self._look, query=query))
            if look is not None:
                return look

    async def glance(self, query: Query, last_turn: int) -> Look:
        """Score passages without the index in memory, in one read transaction.

        Only passages that have a word of the query come into question. The mean and the deviation are those of the
        whole session, as far as a sample of its turns tells.
        """
        return await self._store.passages.read(partial(self._glance, query=query, last_turn=last_turn))

    async def scores(self, text: str, wanted: Filter = EVERYTHING) -> Scores:
        """How well every passage answers, by words and by vectors."""
        vector = await self.embed(text)
        return await self.compare(await self.look(Query.of(text, wanted)), vector)

    async def embed(self, query: str) -> Floats | None:
        """The vector of a query; None if it has none, or the model does not answer."""
        text = query[:MAX_EMBEDDED_CHARS].strip()
        if not text:
            return None
        try:
            vector: Floats = (await self.embedder.embed([text]))[0]
        except ModelError as error:
            _log.warning("searching by words alone: %s", error)
            return None
        return vector if vector.any() else None

    async def compare(self, look: Look, vector: Floats | None) -> Scores:
        """The scores of a look, with those by vectors."""
        if vector is None:
            return look.scores
        near: Mapping[int, float] = {}
        if self.is_store and not look.table.vectors.is_exact:
            near = await self._nearest(look.wanted.sessions, vector)
        if look.table.count <= QUICK_PASSAGES:
            alike = self._compare(look, vector, near)
        else:
            alike = await asyncio.to_thread(self._compare, look, vector, near)
        if loose := look.loose:
            count = len(look.scores.turn)
            if self.embedder.is_local and loose.vectors is None:
                loose.add_vectors(await self._recent.embed([each.text for each in loose.passages]))
            if loose.vectors is None:
                alike = replace(alike, count=count)
            else:
                own = loose.vectors.compare(vector, len(loose.passages))
                places = np.concatenate([alike.places, own.places + count - len(loose.passages)])
                alike = replace(alike, places=places, found=np.concatenate([alike.found, own.found]), count=count)
        return replace(look.scores, vector=alike)

    async def unsearched(self) -> int:
        """How many turns a search does not cover: those not indexed yet, beyond the newest."""
        table = (await self.look(Query(phrases=()))).table
        for session in self._sessions:
            if table.missing_count(session) > MAX_LOOSE_TURNS:
                # Pruned turns are never indexed; of those beyond the newest it is not known yet.
                missing = table.missing(session, session.last_turn)
                sizes = await self._store.derived.sizes_of(session.id, missing[-1], missing[0])
                for turn in {size.turn for size in sizes if size.is_pruned}.intersection(missing):
                    table.mark_pruned(table.turn_key(session, turn))
        total = sum(map(table.missing_count, self._sessions))
        loose = (table.turn_key(session, turn) for session, turn in table.loose_turns(self._sessions, None))
        return total - sum(turn_key not in table.turns for turn_key in loose)

    def texts(self, connection: Connection, keys: Sequence[int]) -> dict[int, Passage | PassageText]:
        """The passages of these keys; those that were taken away meanwhile are left out."""
        rows = list(dict.fromkeys(key >> KEY_SHIFT for key in keys if key < LOOSE_KEY))
        stored = passages.texts(connection, rows) if rows else {}
        found: dict[int, Passage | PassageText] = {}
        cut: dict[int, CutTurn] | None = None
        for key in keys:
            texts: Sequence[Passage | PassageText] = ()
            if key < LOOSE_KEY:
                texts = stored.get(key >> KEY_SHIFT, ())
            else:
                cut = {turn: each for (turn, _), each in self._cut.items()} if cut is None else cut
                turn = (key & ~LOOSE_KEY) >> KEY_SHIFT
                texts = cut[turn].passages if turn in cut else ()
            if (number := key & PASSAGE_MASK) < len(texts):
                found[key] = texts[number]
        return found

    async def _nearest(self, sessions: Mapping[int, int] | None, vector: Floats) -> Mapping[int, float]:
        """The passages that the database finds nearest, where not every vector is compared in memory: similarities by
        key."""
        numbers = None if sessions is None or len(sessions) > MAX_NAMED_SESSIONS else sorted(sessions)
        return dict(await self._store.passages.nearest(vector.tolist(), sessions=numbers, limit=MAX_NEAREST) or ())

    def _compare(self, look: Look, vector: Floats, near: Mapping[int, float]) -> Alike:
        count = len(look.scores.turn) - (len(look.loose.passages) if look.loose else 0)
        table, mask = look.table, look.mask
        with self._lock:
            if table.count > count:  # what came after the look counts the next time
                mask = np.ones(count, np.bool_) if mask is None else mask
                mask = np.pad(mask, (0, table.count - count))
            alike = table.vectors.compare(vector, count, mask)
            if near:
                places = table.find(list(near))
                places = places if mask is None else places[mask[places]]
                alike = alike.joined(places, [near[key] for key in table.columns["key"][places].tolist()])
            return alike

    def _look(self, connection: Connection, query: Query) -> Look | None:
        """Bring the table up to date and score it; None if rows of it were removed, so that it must be loaded again."""
        with self._lock:
            table = self._table
            known = {phrase: table.known.get(phrase) for phrase in (*query.phrases, *query.orders)}
        common = {phrase for phrase, each in known.items() if each and each.is_common}
        # Common phrases count only if all are common.
        words, orders = (
            [phrase for phrase in own if phrase not in common] or list(own) for own in (query.phrases, query.orders)
        )
        asked = list(dict.fromkeys((*words, *orders)))
        snapshot = passages.look(
            connection,
            self._session_id,
            after=table.newest,
            phrases=[
                (phrase, each.newest if (each := known[phrase]) and phrase not in common else 0) for phrase in asked
            ],
            limit=MAX_STORE_POSTINGS if self.is_store else MAX_POSTINGS,
            is_most=table.rows * 2 > self._newest_of_all,
        )
        searched, wanted, is_alone = None, query.wanted, None
        if query.session is not None and query.session.scope:
            others = searched_sessions(connection, query.session)
            is_alone = others is None
            if self.is_store:
                searched, wanted = others, replace(wanted, sessions=others.last_turns if others else {})
        having = {
            name: passages.postings(connection, self._session_id, phrase, field=name)
            for name, phrase in (("tool", wanted.tool), ("words", wanted.file))
            if phrase
        }
        with self._lock:
            if table is not self._table or not table.is_current(snapshot.sessions):
                if table is self._table:  # something was removed: read all again
                    self._table = self._new_table()
                    self._cut.clear()
                return None
            table.add(snapshot)
            self._newest_of_all, self._sessions = snapshot.newest, snapshot.sessions
            learnt = table.learn(asked, snapshot.postings, snapshot.newest)
            mask = None if wanted == EVERYTHING and table.is_whole else table.allowed(wanted, having)
            weighed = table.allowed(Filter(sessions=wanted.sessions), {}) if wanted.sessions else None
            keyword, weights = _by_words(table, learnt, words, table.count, weighed)
            by_orders = _by_words(table, learnt, orders, table.count, weighed) if orders else None
            if mask is None:
                allowed = np.ones(table.count, np.bool_)
            else:
                allowed, keyword = mask, keyword * mask
            scores = Scores(**table.columns, keyword=keyword, vector=None, allowed=allowed)
            missing = table.loose_turns(snapshot.sessions, wanted.sessions)
        look = Look(
            table=table,
            scores=scores,
            mask=mask,
            orders=by_orders[0] * allowed if by_orders else None,
            wanted=wanted,
            searched=searched,
            is_alone=is_alone,
            items=_items(connection, query) if snapshot.has_items else None,
        )
        if not (missing or self._cut):
            return look
        loose = self._read_loose(connection, table, missing, wanted)
        return _with_loose(look, loose, query, (weights, by_orders[1] if by_orders else {})) if loose else look

    def _glance(self, connection: Connection, query: Query, last_turn: int) -> Look:
        assert self._session_id is not None, "a glance at one session"
        snapshot = passages.look(
            connection,
            self._session_id,
            after=NEWEST_ID,
            phrases=[(phrase, 0) for phrase in query.phrases],
            limit=MAX_POSTINGS,
        )
        rare = [postings for postings in snapshot.postings if not postings.is_cut] or snapshot.postings
        ids = sorted({key >> KEY_SHIFT for postings in rare for key in postings.keys})[-MAX_GLANCED_ROWS:]
        turns = range(1, last_turn + 1, max(1, last_turn // GLANCED_TURNS))
        table = self._new_table()
        table.add(replace(snapshot, rows=passages.rows(connection, self._session_id, ids, turns)))
        is_sampled = np.isin(table.columns["turn"], turns)
        count = max(table.count, int(is_sampled.sum()) * turns.step)
        learnt = table.learn(query.phrases, snapshot.postings, snapshot.newest)
        keyword, _ = _by_words(table, learnt, query.phrases, count)
        return Look(
            table=table,
            scores=Scores(**table.columns, keyword=keyword, vector=None, allowed=table.alive),
            items=_items(connection, query) if snapshot.has_items else None,
            sample=Sample(count, is_sampled),
        )

    async def _load(self) -> None:
        """Read the whole index, in parts, off the event loop."""
        table = self._new_table()
        while True:
            until = table.newest + LOADED_ROWS
            part = await self._store.passages.look(
                self._session_id, after=table.newest, until=until, phrases=(), limit=0
            )
            if not table.is_current(part.sessions):  # something was removed: read all again
                table = self._new_table()
                continue
            end = min(until, part.newest)
            await asyncio.to_thread(table.add, replace(part, newest=end))
            if end == part.newest:
                break
        await asyncio.to_thread(table.vectors.prepare)
        with self._lock:
            if not self._table.is_loaded:
                table.is_loaded = True
                self._table, self._newest_of_all = table, table.newest

    def _new_table(self) -> PassageTable:
        return PassageTable(self.embedder.name, self.embedder.dimensions, is_store=self.is_store)

    def _read_loose(
        self,
        connection: Connection,
        table: PassageTable,
        missing: Iterable[tuple[IndexedSession, int]],
        wanted: Filter,
    ) -> LoosePassages | None:
        """Those turns cut into passages; turns read before are not read again. None if there is no passage."""
        found: dict[int, CutTurn] = {}
        known = dict(self._cut)
        for session, turn in missing:
            turn_key = table.turn_key(session, turn)
            key = (turn_key, session.last_messages if turn == session.last_turn else 0)
            cut = known.get(key) or _cut(log.read(connection, session.id, turn, turn))
            if cut is None:
                with self._lock:
                    table.mark_pruned(turn_key)
            else:
                found[turn_key] = known[key] = cut
        # Those of sessions that this search leaves out may be what another one is about to read.
        others = set([key for key in known if not wanted.has_turn(key[0])][-MAX_STORE_LOOSE_TURNS:])
        self._cut = {key: known[key] for key in known if key[0] in found or key in others}
        if not any(each.passages for each in found.values()):
            return None
        turns = dict(sorted(found.items()))
        loose = self._loose
        if loose is None or [*map(id, loose.turns.values())] != [*map(id, turns.values())]:
            loose = self._loose = LoosePassages(connection, turns)
        return loose


def _items(connection: Connection, query: Query) -> ItemTable | None:
    """The items that a query asks for."""
    return query.items.read(connection, query.session) if query.items and query.session else None


def _cut(rows: Sequence[MessageRow]) -> CutTurn | None:
    """The passages of a turn; None if it was pruned."""
    if not rows or any(row.body is None for row in rows):
        return None
    passages = cut_turn(without_recalled([restore_message(row) for row in rows]))
    return CutTurn(rows[0].at_us, passages, [passage_text(each) for each in passages])


def _with_loose(look: Look, loose: LoosePassages, query: Query, weights: Sequence[Mapping[str, float]]) -> Look:
    """The look with the scores of turns that are looked through directly."""
    scores, count = look.scores, len(loose.passages)
    phrases = list(dict.fromkeys((*query.phrases, *query.orders)))
    having = dict(zip(phrases, loose.words.match(phrases), strict=True))
    allowed = scores.allowed
    if again := look.table.turns.keys() & loose.turns.keys():
        # A turn that is indexed in part is reported once, as it is now.
        allowed = allowed & ~np.isin(scores.turn, list(again))
    own = np.ones(count, np.bool_) if look.wanted == EVERYTHING else np.array(loose.allowed(look.wanted))
    allowed = np.concatenate([allowed, own])
    # A phrase that is nowhere in the index tells as much as one that is there once.
    rare = float(np.log1p(len(scores.turn) + 1))
    extended = []
    for asked, known, table in zip((query.phrases, query.orders), weights, (scores.keyword, look.orders), strict=True):
        found = np.zeros(count, np.float32)
        for phrase in asked:
            found[having[phrase]] += known.get(phrase, rare)
        extended.append(None if table is None else np.concatenate([table, found]) * allowed)
    keyword, orders = extended
    assert keyword is not None
    columns = {name: np.concatenate([look.table.columns[name], each]) for name, each in loose.columns.items()}
    return replace(
        look, loose=loose, orders=orders, scores=Scores(**columns, keyword=keyword, vector=None, allowed=allowed)
    )


def _by_words(
    table: PassageTable,
    learnt: Mapping[str, KnownPhrase],
    phrases: Sequence[str],
    count: int,
    weighed: Mask | None = None,
) -> tuple[Floats, dict[str, float]]:
    """How well each passage answers by its words, and the weight of each phrase among `count` passages, or among those
    that are weighed: what another tenant wrote changes neither."""
    words, weights = table.columns["words"], dict[str, float]()
    mean_words = table.mean_words
    if weighed is not None:
        count = int(weighed.sum())
        mean_words = max(1.0, int(words.sum(where=weighed, dtype=np.int64)) / max(1, count))
    scores = np.zeros(table.count, np.float32)
    is_all_common = all(learnt[phrase].is_common for phrase in phrases)
    for phrase in phrases:
        if learnt[phrase].is_common and not is_all_common:
            continue
        places = learnt[phrase].places
        having = len(places) if weighed is None else int(weighed[places].sum())
        weight = float(np.log1p((count - having + 0.5) / (having + 0.5)))
        weights[phrase] = max(weight, LEAST_WEIGHT)
        scores[places] += weights[phrase] * (K1 + 1) / (1 + K1 * (1 - B + B * words[places] / mean_words))
    return scores, weights


def _note_failure(loading: asyncio.Task[None]) -> None:
    """Whoever waits for it gets the error; without anybody it is only logged."""
    if not loading.cancelled() and (error := loading.exception()):
        _log.debug("the index was not loaded: %s", error)
