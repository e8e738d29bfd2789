"""The index of one session, or of all sessions of a store, in memory: a keyword and a vector score for each passage.

The database finds the passages that have a word; how much a word counts is computed here, over everything that is
searched, so that scores are comparable. Turns that are not indexed yet are cut and searched directly. One look reads
all of it in one transaction, with the lessons and references of a session; vectors are compared afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from foveate.errors import ModelError
from foveate.recall.embed import Embedder, Recent, index_maker
from foveate.recall.knowledge import ItemTable, read_items
from foveate.recall.passages import Passage, cut_turn, passage_text
from foveate.recall.rank import PassageScores, Scores
from foveate.recall.sessions import SearchedSessions, searched_sessions
from foveate.recall.table import TURN_BITS, TURN_MASK, KnownPhrase, PassageTable, in_sessions
from foveate.recall.vectors import Alike, Floats, Mask
from foveate.recall.words import query_phrases, word_count
from foveate.renditions import without_recalled
from foveate.store import SessionRow, Store
from foveate.store.codec import restore_message
from foveate.store.rows import (
    KEY_SHIFT,
    NEWEST_ID,
    PASSAGE_MASK,
    SPEAKERS,
    IndexedSession,
    MessageRow,
    PassageText,
    Speaker,
)
from foveate.text import encodable

if TYPE_CHECKING:
    from foveate.store.index_reader import IndexReader

_log = logging.getLogger(__name__)

K1 = 1.2
B = 0.75
"""BM25's, as everywhere. A passage is so short that how often it says a word tells nothing."""
MAX_POSTINGS = 1_000
"""A phrase that is in more passages than this is too common to count, unless all phrases of the query are."""
LEAST_WEIGHT = 1e-3
"""Of a phrase that is in most passages."""
MAX_LOOSE_TURNS = 32
"""Turns not indexed yet that a search looks through, the newest."""
LOOSE_KEY = 1 << 62
"""With the turn behind it where a row's id would be, the key of a passage that is not indexed yet."""
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
MAX_STORE_LOOSE_TURNS = 256
"""Turns not indexed yet that a search over all sessions reads, of the sessions used last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which passages count; None: all do."""

    speaker: Speaker | None = None
    tool: str | None = None
    after_us: int | None = None
    before_us: int | None = None
    file: str | None = None
    """A turn counts if any of its passages names this path, or the end of it."""
    sessions: Mapping[int, int] | None = None
    """Numbers of the sessions that count, each with the last of its turns that does; only in an index of all. How much
    a word tells is then computed over these alone."""

    def has_turn(self, turn_key: int) -> bool:
        """Whether the turn of this key in an index of all sessions is of a session that counts."""
        return self.sessions is None or turn_key & TURN_MASK <= self.sessions.get(turn_key >> TURN_BITS, 0)


@dataclass(frozen=True, slots=True)
class Loose:
    """A turn that is not indexed yet."""

    at_us: int
    passages: Sequence[Passage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a look evaluates."""

    phrases: Sequence[str]
    orders: Sequence[str] = ()
    """Phrases that are scored apart from the others."""
    wanted: Filter = field(default_factory=Filter)
    session: SessionRow | None = None
    """The session that asks: its items are read, and in an index of all sessions those of its scope count."""
    items: ItemTable | None = None
    """Its items as they were last read."""

    @classmethod
    def of(cls, text: str, wanted: Filter | None = None) -> Query:
        return cls(phrases=query_phrases(encodable(text)), wanted=wanted or Filter())


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
    loose: Sequence[Passage] = ()
    """The passages that are not indexed yet."""
    orders: Floats | None = None
    """The scores by `Query.orders`."""
    wanted: Filter = field(default_factory=Filter)
    searched: SearchedSessions = field(default_factory=SearchedSessions)
    is_alone: bool | None = None
    """Whether no other session of the scope has turns; None: not looked up."""
    items: ItemTable | None = None
    sample: Sample | None = None

    def measured(self, scores: Scores, *, is_by_words: bool = True) -> PassageScores:
        """The scores of the passages that count, given with vectors or without; turns as `searched` numbers them."""
        words, vectors = scores.by_words() if is_by_words and self.has_words else None, scores.by_vectors()
        if self.sample:
            words = words and words.within(self.sample.count)
            vectors = vectors and vectors.like(self.sample.is_sampled[scores.allowed])
        return PassageScores(
            passages=scores.passages() if self.searched.is_single else self.searched.renumber(scores.passages()),
            words=words,
            vectors=vectors,
            orders=None if self.orders is None else self.orders[scores.allowed],
        )


class Index:
    """Of one session, or of all. Threads and tasks may share it; each look reads what other processes added."""

    def __init__(self, store: Store, session_id: str | None, embedder: Embedder) -> None:
        self._store = store
        self._session_id = session_id
        self._embedder = embedder
        self._lock = threading.Lock()
        self._table = self._new_table()
        self._newest_of_all = 0
        self._sessions: Sequence[IndexedSession] = ()
        self._loose: dict[tuple[int, int], Loose] = {}
        self._recent = Recent(embedder)
        self._loading: asyncio.Task[None] | None = None

    @property
    def is_store(self) -> bool:
        """Whether it covers all sessions."""
        return self._session_id is None

    @property
    def is_loaded(self) -> bool:
        return self._table.newest > 0

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
                if self._table.maker != index_maker(self._embedder.name):  # its dimensions have just become known
                    self._table = self._new_table()
            if not self.is_loaded:
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

    def is_current(self, look: Look) -> bool:
        """Whether the vectors of a look are those of the model as it is known now."""
        return look.table.maker == index_maker(self._embedder.name)

    async def scores(self, text: str, wanted: Filter | None = None) -> Scores:
        """How well every passage answers, by words and by vectors."""
        vector = await self.embed(text)
        return await self.compare(await self.look(Query.of(text, wanted)), vector)

    async def embed(self, query: str) -> Floats | None:
        """The vector of a query; None if it has none, or the model does not answer."""
        text = query[:MAX_EMBEDDED_CHARS].strip()
        if not text:
            return None
        try:
            vector: Floats = (await self._embedder.embed([text]))[0]
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
        job = partial(self._compare, look, vector, near)
        alike = job() if look.table.count <= QUICK_PASSAGES else await asyncio.to_thread(job)
        if look.loose:
            alike = replace(alike, count=len(look.scores))
            if self._embedder.is_local:
                first = len(look.scores) - len(look.loose)
                found = await self._recent.embed([each.text for each in look.loose]) @ vector
                places = np.concatenate([alike.places, np.arange(first, len(look.scores))])
                alike = replace(alike, places=places, found=np.concatenate([alike.found, found]))
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
        return total - sum(len(turns) for _, turns in self._missing(table, Filter()))

    def texts(self, reader: IndexReader, keys: Sequence[int]) -> dict[int, Passage | PassageText]:
        """The passages of these keys; those that were taken away meanwhile are left out."""
        rows = list(dict.fromkeys(key >> KEY_SHIFT for key in keys if key < LOOSE_KEY))
        stored = reader.texts(rows) if rows else {}
        loose = {turn: each for (turn, _), each in self._loose.items()}
        found: dict[int, Passage | PassageText] = {}
        for key in keys:
            row, number = (key & ~LOOSE_KEY) >> KEY_SHIFT, key & PASSAGE_MASK
            texts = stored.get(row) if key < LOOSE_KEY else loose[row].passages if row in loose else None
            if texts is not None and number < len(texts):
                found[key] = texts[number]
        return found

    async def _nearest(self, sessions: Mapping[int, int] | None, vector: Floats) -> Mapping[int, float]:
        """The passages that the database finds nearest, where not every vector is compared in memory: similarities by
        key."""
        numbers = None if sessions is None or len(sessions) > MAX_NAMED_SESSIONS else sorted(sessions)
        return dict(await self._store.passages.nearest(vector.tolist(), sessions=numbers, limit=MAX_NEAREST) or ())

    def _compare(self, look: Look, vector: Floats, near: Mapping[int, float]) -> Alike:
        count = len(look.scores) - len(look.loose)
        with self._lock:
            mask = look.mask
            if look.table.count > count:  # what came after the look counts the next time
                mask = np.ones(count, np.bool_) if mask is None else mask
                mask = np.pad(mask, (0, look.table.count - count))
            alike = look.table.vectors.compare(vector, count, mask)
            if near:
                places = look.table.find(list(near))
                places = places if mask is None else places[mask[places]]
                alike = alike.joined(places, [near[key] for key in look.table.column("key")[places].tolist()])
            return alike

    def _look(self, reader: IndexReader, query: Query) -> Look | None:
        """Bring the table up to date and score it; None if rows of it were removed, so that it must be loaded again."""
        with self._lock:
            table = self._table
            since = {phrase: table.since(phrase) for phrase in (*query.phrases, *query.orders)}
        # Common phrases count only if all are common.
        words, orders = (
            [phrase for phrase in own if since[phrase] >= 0] or list(own) for own in (query.phrases, query.orders)
        )
        asked = list(dict.fromkeys((*words, *orders)))
        snapshot = reader.look(
            self._session_id,
            after=table.newest,
            phrases=[(phrase, max(0, since[phrase])) for phrase in asked],
            limit=MAX_STORE_POSTINGS if self.is_store else MAX_POSTINGS,
            is_most=table.rows * 2 > self._newest_of_all,
        )
        searched, wanted, is_alone = SearchedSessions(), query.wanted, None
        if query.session is not None and query.session.scope:
            others = searched_sessions(reader, query.session)
            is_alone = others.is_single
            if self.is_store:
                searched, wanted = others, replace(wanted, sessions=others.last_turns)
        having = {
            name: reader.postings(self._session_id, phrase, field=name)
            for name, phrase in (("tool", wanted.tool), ("words", wanted.file))
            if phrase
        }
        with self._lock:
            if table is not self._table or not table.is_current(snapshot.sessions):
                if table is self._table:  # something was removed: read all again
                    self._table = self._new_table()
                    self._loose.clear()
                return None
            table.add(snapshot)
            self._newest_of_all, self._sessions = snapshot.newest, snapshot.sessions
            learnt = {
                phrase: table.learn(phrase, postings, snapshot.newest)
                for phrase, postings in zip(asked, snapshot.postings, strict=True)
            }
            mask = _allowed(table, wanted, having)
            weighed = _allowed(table, Filter(sessions=wanted.sessions), {}) if wanted.sessions else None
            groups = [_by_words(table, learnt, own, table.count, weighed) for own in (words, orders)]
            scores = _scores(table, groups[0][0], mask)
            missing = self._loose_turns(table, wanted)
        look = Look(
            table=table,
            scores=scores,
            mask=mask,
            orders=groups[1][0] * scores.allowed if query.orders else None,
            wanted=wanted,
            searched=searched,
            is_alone=is_alone,
            items=read_items(reader, query.session, query.items) if query.session is not None else None,
        )
        if not (missing or self._loose):
            return look
        loose = self._read_loose(reader, table, missing, wanted)
        return _with_loose(reader, look, loose, query, [weights for _, weights in groups]) if loose else look

    def _glance(self, reader: IndexReader, query: Query, last_turn: int) -> Look:
        assert self._session_id is not None, "a glance at one session"
        snapshot = reader.look(
            self._session_id, after=NEWEST_ID, phrases=[(phrase, 0) for phrase in query.phrases], limit=MAX_POSTINGS
        )
        rare = [postings for postings in snapshot.postings if not postings.is_cut] or snapshot.postings
        ids = sorted({key >> KEY_SHIFT for postings in rare for key in postings.keys})[-MAX_GLANCED_ROWS:]
        turns = range(1, last_turn + 1, max(1, last_turn // GLANCED_TURNS))
        table = self._new_table()
        table.add(replace(snapshot, rows=reader.rows(self._session_id, ids, turns)))
        is_sampled = np.isin(table.column("turn"), turns)
        count = max(table.count, int(is_sampled.sum()) * turns.step)
        learnt = {
            phrase: table.learn(phrase, postings, snapshot.newest)
            for phrase, postings in zip(query.phrases, snapshot.postings, strict=True)
        }
        keyword, _ = _by_words(table, learnt, query.phrases, count)
        return Look(
            table=table,
            scores=replace(_scores(table, keyword, None), allowed=table.column("alive")),
            items=read_items(reader, query.session, query.items) if query.session is not None else None,
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
            if not self.is_loaded:
                self._table, self._newest_of_all = table, table.newest

    def _new_table(self) -> PassageTable:
        return PassageTable(index_maker(self._embedder.name), self._embedder.dimensions, is_store=self.is_store)

    def _missing(self, table: PassageTable, wanted: Filter) -> Iterator[tuple[IndexedSession, Sequence[int]]]:
        """The turns that are not indexed and are searched directly, by session."""
        left = MAX_STORE_LOOSE_TURNS
        for session in filter(table.missing_count, self._sessions):
            if wanted.sessions is not None and session.number not in wanted.sessions:
                continue
            turns = table.missing(session, min(left, MAX_LOOSE_TURNS))
            left -= len(turns)
            if turns:
                yield session, turns

    def _loose_turns(self, table: PassageTable, wanted: Filter) -> list[tuple[IndexedSession, int]]:
        """Turns that are searched directly: those not indexed yet, and open ones of which messages are missing."""
        missing = [(session, turn) for session, turns in self._missing(table, wanted) for turn in turns]
        for session in self._sessions:
            newest = table.turn_key(session, session.last_turn)
            held = table.messages_of(newest)
            if held is not None and held != session.last_messages and wanted.has_turn(newest):
                missing.append((session, session.last_turn))
        return missing

    def _read_loose(
        self, reader: IndexReader, table: PassageTable, missing: Sequence[tuple[IndexedSession, int]], wanted: Filter
    ) -> dict[int, Loose]:
        """Those turns cut into passages, by their keys; turns read before are not read again."""
        found: dict[int, Loose] = {}
        known = dict(self._loose)
        for session, turn in missing:
            turn_key = table.turn_key(session, turn)
            key = (turn_key, session.last_messages if turn == session.last_turn else 0)
            read = known.get(key) or _cut(reader.messages(session.id, turn))
            if read is None:
                with self._lock:
                    table.mark_pruned(turn_key)
            else:
                found[turn_key] = known[key] = read
        # Those of sessions that this search leaves out may be what another one is about to read.
        others = set([key for key in known if not wanted.has_turn(key[0])][-MAX_STORE_LOOSE_TURNS:])
        self._loose = {key: known[key] for key in known if key[0] in found or key in others}
        return found


def _cut(rows: Sequence[MessageRow]) -> Loose | None:
    """The passages of a turn; None if it was pruned."""
    if not rows or any(row.body is None for row in rows):
        return None
    return Loose(rows[0].at_us, cut_turn(without_recalled([restore_message(row) for row in rows])))


def _allowed(table: PassageTable, wanted: Filter, having: Mapping[str, Sequence[int]]) -> Mask | None:
    """Which places count, given the keys of passages that have the tool and the file; None: all."""
    if wanted == Filter() and table.is_whole:
        return None
    allowed: Mask = table.column("alive").copy()
    if wanted.speaker is not None:
        allowed &= table.column("speaker") == SPEAKERS.index(wanted.speaker)
    if wanted.after_us is not None:
        allowed &= table.column("at_us") >= wanted.after_us
    if wanted.before_us is not None:
        allowed &= table.column("at_us") < wanted.before_us
    if "tool" in having:
        allowed &= np.isin(np.arange(table.count), table.find(having["tool"]))
    if "words" in having:
        allowed &= np.isin(table.column("turn"), table.column("turn")[table.find(having["words"])])
    if wanted.sessions is not None:
        allowed &= in_sessions(table.column("turn"), wanted.sessions)
    return allowed


def _scores(table: PassageTable, keyword: Floats, mask: Mask | None) -> Scores:
    return Scores(
        turn=table.column("turn"),
        at_us=table.column("at_us"),
        speaker=table.column("speaker"),
        keyword=keyword if mask is None else keyword * mask,
        vector=None,
        allowed=np.ones(table.count, np.bool_) if mask is None else mask,
        key=table.column("key"),
        words=table.column("words"),
    )


def _with_loose(
    reader: IndexReader,
    look: Look,
    loose: Mapping[int, Loose],
    query: Query,
    weights: Sequence[Mapping[str, float]],
) -> Look:
    """The look with the scores of turns that are looked through directly."""
    kept = [(turn, each, number) for turn, each in sorted(loose.items()) for number in range(len(each.passages))]
    if not kept:
        return look
    scores = look.scores
    passages = [each.passages[number] for _, each, number in kept]
    phrases = list(dict.fromkeys((*query.phrases, *query.orders)))
    having = dict(zip(phrases, reader.among(phrases, [passage_text(each) for each in passages]), strict=True))
    # A turn that is indexed in part is reported once, as it is now.
    allowed = scores.allowed & ~np.isin(scores.turn, list(loose))
    allowed = np.concatenate([allowed, [_counts(turn, each, number, look.wanted) for turn, each, number in kept]])
    extended = []
    for asked, known, table in zip((query.phrases, query.orders), weights, (scores.keyword, look.orders), strict=True):
        own = np.zeros(len(kept), np.float32)
        for phrase in asked:
            # A phrase that is nowhere in the index tells as much as one that is there once.
            own[having[phrase]] += known.get(phrase, float(np.log1p(len(scores) + 1)))
        extended.append(None if table is None else np.concatenate([table, own]) * allowed)
    keyword, orders = extended
    assert keyword is not None
    return replace(
        look,
        loose=passages,
        orders=orders,
        scores=Scores(
            turn=np.concatenate([scores.turn, [turn for turn, _, _ in kept]]),
            at_us=np.concatenate([scores.at_us, [each.at_us for _, each, _ in kept]]),
            speaker=np.concatenate([scores.speaker, [SPEAKERS.index(each.speaker) for each in passages]]),
            keyword=keyword,
            vector=None,
            allowed=allowed,
            key=np.concatenate([scores.key, [LOOSE_KEY | turn << KEY_SHIFT | number for turn, _, number in kept]]),
            words=np.concatenate([scores.words, np.array([word_count(each.text) for each in passages], np.uint16)]),
        ),
    )


def _by_words(
    table: PassageTable,
    learnt: Mapping[str, KnownPhrase],
    phrases: Sequence[str],
    count: int,
    weighed: Mask | None = None,
) -> tuple[Floats, dict[str, float]]:
    """How well each passage answers by its words, and the weight of each phrase among `count` passages, or among those
    that are weighed."""
    if weighed is not None:
        count = int(weighed.sum())
    scores = np.zeros(table.count, np.float32)
    is_all_common = all(learnt[phrase].is_common for phrase in phrases)
    words, weights = table.column("words"), {}
    for phrase in phrases:
        if learnt[phrase].is_common and not is_all_common:
            continue
        places = learnt[phrase].places
        having = len(places) if weighed is None else int(weighed[places].sum())
        weight = float(np.log1p((count - having + 0.5) / (having + 0.5)))
        weights[phrase] = max(weight, LEAST_WEIGHT)
        scores[places] += weights[phrase] * (K1 + 1) / (1 + K1 * (1 - B + B * words[places] / table.mean_words))
    return scores, weights


def _counts(turn_key: int, loose: Loose, number: int, wanted: Filter) -> bool:
    passage = loose.passages[number]
    return (
        (wanted.speaker is None or passage.speaker == wanted.speaker)
        and (wanted.tool is None or (passage.tool or "").lower() == wanted.tool.lower())
        and (wanted.after_us is None or loose.at_us >= wanted.after_us)
        and (wanted.before_us is None or loose.at_us < wanted.before_us)
        and (wanted.file is None or any(wanted.file.lower() in each.text.lower() for each in loose.passages))
        and wanted.has_turn(turn_key)
    )


def _note_failure(loading: asyncio.Task[None]) -> None:
    """Whoever waits for it gets the error; without anybody it is only logged."""
    if not loading.cancelled() and (error := loading.exception()):
        _log.debug("the index was not loaded: %s", error)
