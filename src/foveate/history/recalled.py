"""Recall before a turn: passages are searched by the prompt's words and vectors, ranked, and shown as far as they fit.

All under one deadline. Late and failed results are left out, and a context is made in any case.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from foveate.cache import BoundedCache
from foveate.history.late_writes import LateWrites
from foveate.history.memory_layer import (
    LEAST_ROOM_TOKENS,
    LayerBuilder,
    MemoryLayer,
    MemoryPiece,
    Tickler,
    make_piece,
    stored_layer,
)
from foveate.models.caller import Caller
from foveate.recall.dates import spans_in
from foveate.recall.deadline import Deadline, run_stages
from foveate.recall.gate import Need, need_of
from foveate.recall.judge import Judge
from foveate.recall.search import Searcher
from foveate.recall.sessions import SearchedSessions, searched_sessions
from foveate.recall.settings import RecallSettings
from foveate.store import SessionRow, Store, bodies
from foveate.store.rows import KEY_SHIFT
from foveate.tokens import Counter
from foveate.turn import from_us

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
MAX_REMEMBERED = 20_000
"""Pieces kept in memory, ready to be shown."""


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

    @property
    def words(self) -> str:
        """The words to look for."""
        return self.query.strip()[:MAX_QUERY_CHARS]

    @property
    def need(self) -> Need:
        return need_of(self.words) if self.is_gated else Need.SURE


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
    ranked: RankedPassages

    def rows(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Keys, turns and times of some of the best."""
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

    @property
    def is_any(self) -> bool:
        return any(each and len(each.passages) for each in (self.words, self.vectors))

    def newest_us(self) -> int:
        return max(int(each.passages.at_us.max()) for each in (self.words, self.vectors) if each and len(each.passages))


class Recaller:
    """Recalls for one session."""

    def __init__(
        self, store: Store, searcher: Searcher, settings: RecallSettings, *, caller: Caller | None = None
    ) -> None:
        self._judge = Judge(caller, settings)
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._writes = LateWrites()
        self._pieces: BoundedCache[tuple[str, int], MemoryPiece] = BoundedCache(MAX_REMEMBERED)

    async def recall_once(
        self, session: SessionRow, counter: Counter, wish: RecallRequest, *, mark: str, asked: str = ""
    ) -> MemoryLayer:
        """The layer for a prompt, the same each time as long as the mark is and there is room for it.

        `asked` is the same for the same prompt, whatever the history shows.
        """
        if wish.need is Need.NONE:
            return MemoryLayer()
        packed = await self._store.derived.recalled(session.id)
        kept: Any = bodies.expand(packed) if packed else {}
        if kept.get("mark") == mark and kept["tokens"] <= wish.room_tokens:
            return stored_layer(kept)
        layer = await self.recall(session, counter, wish)
        packed = bodies.squeeze({"mark": mark, "asked": asked, **asdict(layer)})
        await self._writes.write(lambda: self._store.derived.keep_recalled(session.id, packed))
        return layer

    async def stored(self, session: SessionRow, *, asked: str) -> MemoryLayer:
        """The stored layer of a prompt, whatever the history shows now; empty if there is none yet."""
        packed = await self._store.derived.recalled(session.id)
        kept: Any = bodies.expand(packed) if packed else {}
        return stored_layer(kept) if kept.get("asked") == asked else MemoryLayer()

    async def recall(self, session: SessionRow, counter: Counter, wish: RecallRequest) -> MemoryLayer:
        """The memory layer for a prompt; empty if nothing is needed, found or ready."""
        query, need = wish.words, wish.need
        if not query or need is Need.NONE or wish.room_tokens < LEAST_ROOM_TOKENS:
            return MemoryLayer()
        deadline = Deadline(self._settings.deadline_seconds)
        where = await self._where(session, deadline)
        wish = replace(wish, visible=where.sessions.own(wish.visible), asking=where.sessions.own_turn(wish.asking))
        measured = await self._measure(where, query, deadline)
        if not measured.is_any or not self._is_needed(measured, wish=wish, need=need):
            return MemoryLayer(late=measured.late)
        found_again = _Found(where, counter, self._rank(query, measured, wish))
        found_again = await self._reordered(query, found_again, deadline)
        return replace(await self._fill(found_again, wish.room_tokens), late=measured.late)

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
        """Scores of passages, from the stages ready in time. A large index is loaded after the first context."""
        session, index, wanted = where.session, where.index, where.wanted
        if deadline.left_seconds() is not None and session.last_turn > LOADED_TURNS and not index.is_loaded:
            glance = {"glance": lambda: index.glance(query, session.last_turn)}
            glanced = await run_stages(glance, deadline.left_seconds())
            seen = glanced.results.get("glance")
            asyncio.get_running_loop().call_later(LOAD_DELAY_SECONDS, index.load_soon)
            return _Measures(*seen) if seen else _Measures(None, None, glanced.late)
        stages = {
            "words": lambda: index.measure_words(query, wanted),
            "vectors": lambda: index.measure_vectors(query, wanted),
        }
        limit = self._settings.search_seconds if self._judge.is_asked else None
        found = await run_stages(stages, deadline.left_seconds(limit))
        words, vectors = (where.sessions.renumber(found.results.get(name)) for name in ("words", "vectors"))
        return _Measures(words, vectors, found.late)

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

        settings = self._settings
        weights = RankWeights(
            user=settings.user_weight,
            near=settings.near_weight,
            far=settings.far_weight,
            date=settings.date_weight,
            sitting_hours=settings.sitting_hours,
        )
        spans = spans_in(query, from_us(measured.newest_us())) if settings.date_weight else []
        limit = MAX_PASSAGES if wish.is_one_off else settings.passages
        return rank(measured.words, measured.vectors, weights, spans=spans, visible=wish.visible, limit=limit)

    async def _reordered(self, query: str, found: _Found, deadline: Deadline) -> _Found:
        """The best candidates in the order that the judging models give them."""
        if not self._judge.is_asked:
            return found
        rows = found.rows(0, self._settings.candidates)
        texts = [piece.text if piece else "" for piece in await self._read(found, rows)]
        order = await self._judge.order(query, texts, deadline, found.where.session.id)
        places = found.ranked.places.copy()
        places[: len(order)] = places[order]
        return replace(found, ranked=replace(found.ranked, places=places))

    async def _fill(self, found: _Found, room_tokens: int) -> MemoryLayer:
        """The best passages that fit, and the turns of the next best in one sentence each."""
        filling = LayerBuilder(room_tokens, found.counter.base, found.where.sessions)
        missed: dict[int, int] = {}
        for start in range(0, len(found.ranked.places), BATCH):
            if filling.is_full:
                break
            for piece in await self._read(found, found.rows(start, start + BATCH)):
                if piece and not filling.add(piece):
                    missed.setdefault(piece.turn, piece.at_us)
        layer = filling.finish(await self._gists(found.where, missed))
        return replace(layer, in_part=tuple(self._in_part(found, filling)))

    def _in_part(self, found: _Found, filling: LayerBuilder) -> Iterator[int]:
        """Those of the best turns that match clearly and are not shown whole."""
        shown = Counts(turn for turn, _ in filling.pieces)
        ranked = found.ranked
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
        texts = await found.where.index.texts([key for key, piece in pieces.items() if piece is None])
        for key, turn, at_us in rows:
            if pieces[key] is None and key in texts:
                said = texts[key]
                number = key & ((1 << KEY_SHIFT) - 1)
                piece = make_piece(turn, number, said.speaker, said.text, at_us=at_us, count=count)
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
