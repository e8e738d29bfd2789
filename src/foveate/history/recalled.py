"""Recall before a turn: passages are searched by the prompt's words and vectors, ranked, and shown as far as they fit.

All under one deadline. Late and failed results are left out, and a context is made in any case.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from foveate.cache import BoundedCache
from foveate.compress.orders import ORDER_PHRASES, has_standing_order
from foveate.history.late_writes import LateWrites
from foveate.history.memory_layer import (
    LEAST_ROOM_TOKENS,
    LayerBuilder,
    MemoryLayer,
    MemoryPiece,
    Tickler,
    make_item,
    make_piece,
    stored_layer,
)
from foveate.models.caller import Caller
from foveate.recall.dates import spans_in
from foveate.recall.deadline import Deadline, Stage, StageResults, run_stages
from foveate.recall.gate import Breadth, Need, breadth_of, need_of
from foveate.recall.judge import Judge, JudgedRequest
from foveate.recall.knowledge import FoundItem, best_items
from foveate.recall.search import Searcher
from foveate.recall.sessions import SearchedSessions, searched_sessions
from foveate.recall.settings import RecallSettings
from foveate.recall.speakers import SpeakerName, name_at_start, said_by_named
from foveate.store import SessionRow, Store, bodies
from foveate.store.rows import PASSAGE_MASK
from foveate.tokens import Counter
from foveate.turn import from_us, turn_id

if TYPE_CHECKING:
    from foveate.recall.index import Filter, Index
    from foveate.recall.rank import PassageScores, RankedPassages
MAX_QUERY_CHARS = 20_000
"""Characters of a prompt that are used as the query."""
LOADED_TURNS = 5_000
"""A longer session's index takes too long to load for a request to wait for it,"""
LOAD_DELAY_SECONDS = 0.5
"""so the load begins this long after the first one."""
MAX_PASSAGES = 2_000
"""Of the best, those that are tried for room."""
BATCH = 64
"""Passages whose texts are read together."""
NAMED_PASSAGES = 512
"""Of the best, those whose speakers are compared with the names in the prompt,"""
NAMED_FACTOR = 16
"""at most this many for each that is shown,"""
FIRST_NAMED = 24
"""and first of all these."""
MAX_ORDERS = 64
"""Passages of the user that are checked for standing orders, the best of those that have a word of one."""
MAX_REMEMBERED = 20_000
"""Pieces kept in memory, ready to be shown."""
RECENT_TURNS = 8
"""The newest turns that the judging model sees,"""
MAX_RECENT_TURN_CHARS = 800
"""each compressed if that is not longer than this, else in one sentence,"""
MAX_RECENT_CHARS = 4_000
"""together within this."""
WORDS = "words"
VECTORS = "vectors"
ORDERS = "orders"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A request for memory: the prompt's text, and the limits."""

    query: str
    room_tokens: int
    visible: Collection[int]
    """Turns that the context shows verbatim already."""
    is_gated: bool
    """Recall only if the prompt needs it."""
    is_one_off: bool = False
    """There is no cached prompt to keep: a prompt that may need it gets it."""
    asking: int | None = None
    """The turn in progress, which the prompt is of."""
    is_first: bool = False
    """There is no turn before it, so that nothing is cached yet: a prompt of any form may need something."""

    @property
    def words(self) -> str:
        """The words to look for."""
        return self.query.strip()[:MAX_QUERY_CHARS]

    @property
    def need(self) -> Need:
        need = need_of(self.words) if self.is_gated else Need.SURE
        return Need.PERHAPS if need is Need.NONE and self.is_first else need

    @property
    def breadth(self) -> Breadth:
        return breadth_of(self.words)


@dataclass(frozen=True, slots=True)
class _Searched:
    """Where a prompt's words are looked for."""

    session: SessionRow
    index: Index
    """Of the session; if others are searched too, that of all sessions."""
    sessions: SearchedSessions

    @property
    def wanted(self) -> Filter | None:
        """What counts of the index of all sessions."""
        from foveate.recall.index import Filter  # noqa: PLC0415 - numpy loads with the index

        return None if self.sessions.is_single else Filter(sessions=self.sessions.last_turns)


@dataclass(frozen=True, slots=True)
class _Found:
    """The results for a prompt, best first."""

    where: _Searched
    counter: Counter
    ranked: RankedPassages | None
    """None if no passage matches clearly."""
    items: Sequence[FoundItem] = ()

    @property
    def count(self) -> int:
        """How many passages there are."""
        return len(self.ranked.places) if self.ranked else 0

    def rows(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Keys, turns and times of some of the best."""
        if self.ranked is None:
            return []
        places, passages = self.ranked.places[start:end], self.ranked.passages
        columns = (passages.key[places], passages.turn[places], passages.at_us[places])
        return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True, slots=True)
class _Measures:
    """How well passages answer by words and by vectors, as far as it is known."""

    words: PassageScores | None
    vectors: PassageScores | None
    late: tuple[str, ...] = ()
    """Stages that missed the deadline."""
    items: Sequence[FoundItem] = ()
    """Lessons and references that match, best first."""
    orders: PassageScores | None = None
    """Passages with words of standing orders."""

    @property
    def is_any(self) -> bool:
        return any(each and len(each.passages) for each in (self.words, self.vectors))

    def newest_us(self) -> int:
        return max(int(each.passages.at_us.max()) for each in (self.words, self.vectors) if each and len(each.passages))


class Recaller:
    """Recalls for one session."""

    def __init__(
        self,
        store: Store,
        searcher: Searcher,
        settings: RecallSettings,
        writes: LateWrites,
        *,
        caller: Caller | None = None,
    ) -> None:
        self._judge = Judge(caller, settings)
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._writes = writes
        self._pieces: BoundedCache[tuple[str, int], MemoryPiece] = BoundedCache(MAX_REMEMBERED)

    async def recall_once(
        self,
        session: SessionRow,
        counter: Counter,
        wish: RecallRequest,
        *,
        kept: bytes | None,
        mark: str,
        asked: str = "",
    ) -> MemoryLayer:
        """The layer for a prompt, the same each time as long as the mark is and there is room for it.

        `asked` is the same for the same prompt, whatever the history shows.
        """
        if wish.need is Need.NONE:
            return MemoryLayer()
        known: Any = bodies.expand(kept) if kept else {}
        if known.get("mark") == mark and known["tokens"] <= wish.room_tokens:
            layer = stored_layer(known)
            if await self._searcher.knowledge.are_current(session, layer.knowledge):
                return layer
        layer = await self.recall(session, counter, wish)
        packed = bodies.squeeze({"mark": mark, "asked": asked, **asdict(layer)})
        save = partial(self._store.derived.keep_recalled, session.id, packed)
        await self._writes.write(f"memory of {session.id}", save)
        return layer

    def stored(self, kept: bytes | None, *, asked: str) -> MemoryLayer:
        """The stored layer of a prompt, whatever the history shows now; empty if there is none yet."""
        known: Any = bodies.expand(kept) if kept else {}
        return stored_layer(known) if known.get("asked") == asked else MemoryLayer()

    async def recall(self, session: SessionRow, counter: Counter, wish: RecallRequest) -> MemoryLayer:
        """The memory layer for a prompt; empty if nothing is needed, found or ready."""
        query, need = wish.words, wish.need
        if not query or need is Need.NONE or wish.room_tokens < LEAST_ROOM_TOKENS:
            return MemoryLayer()
        if not (session.last_turn or session.scope) and not await self._searcher.knowledge.has_items(session):
            return MemoryLayer()  # without loading anything
        deadline = Deadline(self._settings.deadline_seconds)
        where = await self._where(session, deadline)
        wish = replace(wish, visible=where.sessions.own(wish.visible), asking=where.sessions.own_turn(wish.asking))
        measured = await self._measure(where, query, deadline)
        if wish.is_one_off and not self._is_unloaded(where, deadline):
            measured = await self._with_orders(where, measured, deadline)
        ranked = None
        if measured.is_any and self._is_needed(measured, wish=wish, need=need):
            ranked = self._rank(query, measured, wish)
        items = measured.items
        if ranked is None and wish.is_gated and not (wish.is_first or wish.is_one_off):
            items = [item for item in items if item.score >= self._settings.knowledge_alone_score]
        if ranked is None and not items:
            return MemoryLayer(late=measured.late)
        found = _Found(where, counter, ranked, items)
        found = await self._by_orders(found, measured, wish)
        found = await self._by_named_speakers(found, wish, deadline)
        found = await self._judged(query, found, measured, deadline)
        layer = await self._fill(found, wish)
        return replace(layer, late=measured.late)

    async def _where(self, session: SessionRow, deadline: Deadline) -> _Searched:
        """The session, and the others of its scope if the index of all sessions is ready in time."""
        own = _Searched(session, self._searcher.index(session), SearchedSessions())
        sessions = await searched_sessions(self._store, session)
        if sessions.is_single:
            return own
        every = self._searcher.index_of_all()
        left = deadline.left_seconds()
        is_ready = await every.load_within(None if left is None else left / 2)
        return _Searched(session, every, sessions) if is_ready else own

    async def _measure(self, where: _Searched, query: str, deadline: Deadline) -> _Measures:
        """Scores of passages and of items of knowledge, from the stages ready in time."""
        passages, (items, late) = await asyncio.gather(
            self._passages(where, query, deadline), self._items(where.session, query, deadline)
        )
        return replace(passages, items=items, late=tuple(dict.fromkeys((*passages.late, *late))))

    async def _passages(self, where: _Searched, query: str, deadline: Deadline) -> _Measures:
        """Scores of passages. A large index is loaded after the first context."""
        session, index, wanted = where.session, where.index, where.wanted
        if self._is_unloaded(where, deadline):
            glance = {"glance": lambda: index.glance(query, session.last_turn)}
            glanced = await run_stages(glance, deadline.left_seconds())
            seen = glanced.results.get("glance")
            asyncio.get_running_loop().call_later(LOAD_DELAY_SECONDS, index.load_soon)
            return _Measures(*seen) if seen else _Measures(None, None, glanced.late)
        found = await self._stages(
            lambda: index.measure_words(query, wanted), lambda: index.measure_vectors(query, wanted), deadline
        )
        words, vectors = (where.sessions.renumber(found.results.get(name)) for name in (WORDS, VECTORS))
        return _Measures(words, vectors, found.late)

    def _is_unloaded(self, where: _Searched, deadline: Deadline) -> bool:
        """Whether the index is not in memory and takes too long to load."""
        is_long = where.session.last_turn > LOADED_TURNS
        return deadline.left_seconds() is not None and is_long and not where.index.is_loaded

    async def _with_orders(self, where: _Searched, measured: _Measures, deadline: Deadline) -> _Measures:
        if not self._settings.order_weight:
            return measured
        stage = {ORDERS: lambda: where.index.measure_phrases(ORDER_PHRASES, where.wanted)}
        found = await run_stages(stage, deadline.left_seconds())
        orders = where.sessions.renumber(found.results.get(ORDERS))
        return replace(measured, orders=orders, late=(*measured.late, *found.late))

    async def _stages(self, words: Stage[T], vectors: Stage[T], deadline: Deadline) -> StageResults[T]:
        """Keyword and vector search side by side. They have times of their own if models check what they find."""
        settings = self._settings
        limits = (settings.keyword_seconds, settings.vector_seconds)
        if settings.search_seconds is not None:
            limits = (settings.search_seconds, settings.search_seconds)
        by_words, by_vectors = (deadline.left_seconds(limit if self._judge.is_asked else None) for limit in limits)
        one, other = await asyncio.gather(
            run_stages({WORDS: words}, by_words), run_stages({VECTORS: vectors}, by_vectors)
        )
        return StageResults({**one.results, **other.results}, (*one.late, *other.late), {**one.failed, **other.failed})

    async def _items(
        self, session: SessionRow, query: str, deadline: Deadline
    ) -> tuple[list[FoundItem], tuple[str, ...]]:
        """Lessons and references of the session's scopes that match the prompt, and the stages that were late."""
        settings, knowledge = self._settings, self._searcher.knowledge
        if not settings.knowledge_items:
            return [], ()
        found = await self._stages(
            lambda: knowledge.measure_words(session, query), lambda: knowledge.measure_vectors(session, query), deadline
        )
        items = best_items(
            found.results.get(WORDS),
            found.results.get(VECTORS),
            least=settings.knowledge_score,
            confidence=settings.knowledge_confidence,
            limit=settings.candidates if self._judge.is_asked else settings.knowledge_items,
        )
        return items, found.late

    def _is_needed(self, measured: _Measures, *, wish: RecallRequest, need: Need) -> bool:
        """Whether a passage clearly matches the prompt. A preview has no cached prefix to protect."""
        from foveate.recall.rank import outstanding  # noqa: PLC0415 - numpy loads with the index

        settings = self._settings
        least = settings.gate_score if need is Need.SURE else settings.gate_doubt_score
        if not wish.is_gated or wish.is_one_off:
            return True
        return outstanding(measured.words, measured.vectors, asking=wish.asking) >= least

    def _rank(self, query: str, measured: _Measures, wish: RecallRequest) -> RankedPassages:
        from foveate.recall.rank import RankWeights, rank  # noqa: PLC0415

        settings, breadth = self._settings, wish.breadth
        weights = RankWeights(
            user=settings.broad_user_weight if breadth is Breadth.ORDER else settings.user_weight,
            near=settings.near_weight,
            far=settings.far_weight,
            date=settings.date_weight,
            length=settings.length_weight,
            spread=0.0 if breadth is Breadth.POINT else settings.broad_spread,
            sitting_hours=settings.sitting_hours,
        )
        spans = spans_in(query, from_us(measured.newest_us())) if settings.date_weight else []
        limit = MAX_PASSAGES if self._judge.is_asked else max(NAMED_PASSAGES, self._max_passages(wish))
        return rank(measured.words, measured.vectors, weights, spans=spans, visible=wish.visible, limit=limit)

    def _max_passages(self, wish: RecallRequest) -> int:
        """How many passages are shown at most."""
        if wish.is_one_off:
            return MAX_PASSAGES
        return self._settings.passages if wish.breadth is Breadth.POINT else self._settings.broad_passages

    async def _by_orders(self, found: _Found, measured: _Measures, wish: RecallRequest) -> _Found:
        """With a bonus for standing orders of the user, which hold whatever the prompt is about."""
        from foveate.recall.rank import lift, said_by_user  # noqa: PLC0415

        if found.ranked is None or measured.orders is None:
            return found
        best = said_by_user(found.ranked, measured.orders, visible=wish.visible, limit=MAX_ORDERS)
        cued = replace(found, ranked=best)
        pieces = await self._read(cued, cued.rows(0, MAX_ORDERS))
        places = [
            place
            for place, piece in zip(best.places.tolist(), pieces, strict=True)
            if piece and has_standing_order(piece.text.removeprefix(f"{piece.name}:"))
        ]
        return replace(found, ranked=lift(found.ranked, places, self._settings.order_weight)) if places else found

    async def _by_named_speakers(self, found: _Found, wish: RecallRequest, deadline: Deadline) -> _Found:
        """With a bonus for what was said by somebody whom the prompt names.

        A passage that begins with a name is found by it, so if none of the best is by such a speaker, no more are read.
        """
        from foveate.recall.rank import prefer  # noqa: PLC0415

        ranked, weight = found.ranked, self._settings.speaker_weight
        if ranked is None or not weight:
            return found
        by_named: list[bool] = []
        for end in (FIRST_NAMED, min(NAMED_PASSAGES, NAMED_FACTOR * self._max_passages(wish))):
            if deadline.has_passed:
                break
            pieces = await self._read(found, found.rows(0, end))
            speakers = [SpeakerName(each.speaker, each.name) if each else None for each in pieces]
            by_named = said_by_named(wish.words, speakers)
            if not any(by_named):
                return found
        return replace(found, ranked=prefer(ranked, by_named, weight))

    async def _judged(self, query: str, found: _Found, measured: _Measures, deadline: Deadline) -> _Found:
        """Those of the best candidates that the judging models take, in their order; all if none of them answers."""
        if not self._judge.is_asked:
            return found
        from foveate.recall.rank import candidates  # noqa: PLC0415

        ranked = found.ranked
        asked = found
        if ranked is not None:
            best = candidates(ranked, measured.words, measured.vectors, self._settings.candidates)
            asked = replace(found, ranked=replace(ranked, places=best))
        pieces = await self._read(asked, asked.rows(0, asked.count))
        texts = [item.row.text for item in found.items] + [piece.text if piece else "" for piece in pieces]
        session = found.where.session
        recent = await self._recent(session) if self._settings.judge_model else ""
        request = JudgedRequest(text=query, session_id=session.id, recent=recent)
        judged = await self._judge.choose(request, texts, deadline)
        if not judged.is_asked:
            return found
        split = len(found.items)
        items = [found.items[place] for place in judged.places if place < split]
        if asked.ranked is None:
            return replace(found, items=items)
        places = asked.ranked.places[[place - split for place in judged.places if place >= split]]
        return replace(found, items=items, ranked=replace(asked.ranked, places=places))

    async def _recent(self, session: SessionRow) -> str:
        """The newest turns, compressed, or in one sentence where that is long; the oldest first."""
        first = max(1, session.last_turn - RECENT_TURNS + 1)
        lines: list[str] = []
        left = MAX_RECENT_CHARS
        for row in reversed(await self._store.derived.renditions(session.id, first, session.last_turn)):
            text = str(bodies.expand(row.compressed))
            line = (
                f"{turn_id(row.turn)}: {' '.join((text if len(text) <= MAX_RECENT_TURN_CHARS else row.tiny).split())}"
            )
            left -= len(line) + 1
            if left < 0:
                break
            lines.append(line)
        return "\n".join(reversed(lines))

    async def _fill(self, found: _Found, wish: RecallRequest) -> MemoryLayer:
        """Lessons and references, the best passages that fit, and the turns of the next best in one sentence each."""
        filling = LayerBuilder(wish.room_tokens, found.counter.base, found.where.sessions)
        for item in found.items[: self._settings.knowledge_items]:
            filling.add_item(make_item(item.row, found.counter.base))
        missed: dict[int, int] = {}
        end = min(found.count, self._max_passages(wish))
        for start in range(0, end, BATCH):
            if filling.is_full:
                break
            for piece in await self._read(found, found.rows(start, min(end, start + BATCH))):
                if piece and not filling.add(piece):
                    missed.setdefault(piece.turn, piece.at_us)
        layer = filling.finish(await self._gists(found.where, missed))
        return replace(layer, in_part=tuple(self._in_part(found, filling)))

    def _in_part(self, found: _Found, filling: LayerBuilder) -> Iterator[int]:
        """Those of the best turns that match clearly and are not shown whole."""
        shown = Counts(turn for turn, _ in filling.pieces)
        ranked = found.ranked
        if ranked is None:
            return
        best = dict.fromkeys(turn for _, turn, _ in found.rows(0, self._settings.passages))
        for turn in list(best)[: self._settings.prefetch_turns]:
            is_of_turn = ranked.passages.turn == turn
            stands_out = float(ranked.own[is_of_turn].max()) >= self._settings.gate_doubt_score
            own = found.where.sessions.find(turn)
            if own.session is None and stands_out and shown[turn] < int(is_of_turn.sum()):
                yield own.turn

    async def _read(self, found: _Found, rows: Sequence[tuple[int, int, int]]) -> list[MemoryPiece | None]:
        """The passages of these keys, turns and times; None where one is gone."""
        from foveate.recall.index import LOOSE_KEY  # noqa: PLC0415

        encoding, count = found.where.session.encoding, found.counter.base
        # Held here until the end: the cache may drop an entry while others are added.
        pieces = {key: self._pieces.get((encoding, key)) for key, _, _ in rows}
        # The first passage of a turn has the name of who speaks; it is in the same row.
        texts = await found.where.index.texts(
            [each for key, piece in pieces.items() if piece is None for each in (key, key & ~PASSAGE_MASK)]
        )
        for key, turn, at_us in rows:
            if pieces[key] is None and key in texts:
                said = texts[key]
                first = texts[key & ~PASSAGE_MASK]
                name = name_at_start(said.text) or (first.speaker == said.speaker and name_at_start(first.text)) or ""
                piece = make_piece(
                    turn, key & PASSAGE_MASK, said.speaker, said.text, at_us=at_us, count=count, name=name
                )
                pieces[key] = piece
                if key < LOOSE_KEY:  # the others may still change
                    self._pieces[encoding, key] = piece
        # A turn's number depends on the sessions that are searched.
        shown = ((pieces[key], turn) for key, turn, _ in rows)
        return [replace(piece, turn=turn) if piece and piece.turn != turn else piece for piece, turn in shown]

    async def _gists(self, where: _Searched, missed: Mapping[int, int]) -> list[Tickler]:
        gists = []
        for number, at_us in list(missed.items())[: self._settings.ticklers]:
            found = where.sessions.find(number)
            session, turn = found.session or where.session, found.turn
            for _, tiny, _ in await self._store.derived.tinies(session.id, turn, turn):
                gists.append(Tickler(number, at_us, tiny))
        return gists
