"""Recall before a turn: passages are searched by the prompt's words and vectors, ranked, and shown as far as they fit.

All under one deadline. Late and failed results are left out, and a context is made in any case.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter as Counts
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from foveate.cache import BoundedCache
from foveate.compress.orders import ORDER_PHRASES, has_standing_order
from foveate.history.late_writes import LateWrites
from foveate.history.memory_layer import (
    LEAST_PIECE_TOKENS,
    LEAST_ROOM_TOKENS,
    MAX_MISSES,
    Count,
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
from foveate.recall.judge import Judge, JudgedRequest
from foveate.recall.knowledge import FoundItem, ItemTable, best_items, standing_items
from foveate.recall.questions import Breadth, Need, asks_for_answers, asks_for_secret, breadth_of, need_of
from foveate.recall.replies import is_reply, speaker_name
from foveate.recall.scopes import RecalledTurn, searched_sessions
from foveate.recall.search import Deadline, Measured, Searcher
from foveate.recall.settings import RecallSettings
from foveate.recall.words import query_phrases, telling_words
from foveate.secrets import redact
from foveate.store import SessionRow, Store, bodies, derived
from foveate.store.knowledge import KnowledgeRow
from foveate.store.rows import PASSAGE_MASK
from foveate.store.snapshot import SessionSnapshot
from foveate.store.sql import Connection
from foveate.text import encodable, json_text
from foveate.tokens import Counter
from foveate.turn import from_us, turn_id

if TYPE_CHECKING:
    from foveate.recall.index import Index, Look
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
LEAST_PASSAGES = 9
"""The best passages that are shown where none has the minimum score, or where the prompt may not ask for the past."""
NAMED_PASSAGES = 512
"""Of the best, those whose speakers are compared with the names in the prompt,"""
FIRST_NAMED = 24
"""and first of all these."""
MAX_ORDERS = 64
"""Passages of the user that are checked for standing orders, the best of those that have a word of one."""
PAIRED = 9
"""Of the best passages, those that bring the question before them or the reply behind them."""
SHOWN_ORDERS = 8
"""Standing orders that are shown whatever their scores, the best of them."""
MAX_REMEMBERED = 20_000
"""Pieces kept in memory, ready to be shown."""
RECENT_TURNS = 8
"""The newest turns that the judging model sees,"""
MAX_RECENT_TURN_CHARS = 800
"""each compressed if that is not longer than this, else in one sentence,"""
MAX_RECENT_CHARS = 4_000
"""together within this."""
STANDING_ITEMS = 24
"""Statements that are shown before the first turn, rules first."""
ORDERS = "orders"
"""The stage of standing orders, as it is named where it is late."""
LEAST_NAMED_SHARE = 0.5
"""Of the passages of a role, at least this share must begin with a name; else `Error: …` is a heading, not a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A request for memory: the prompt's text, and the limits."""

    query: str
    room_tokens: int
    visible: Collection[int]
    """Turns that the context shows verbatim already."""
    reserved_tokens: int = 0
    """What the history left for the layer and the board; 0: what they take."""
    is_gated: bool
    """Recall only if the prompt needs it."""
    is_one_off: bool = False
    """There is no cached prompt to keep: a prompt that may need it gets it."""
    asking: int | None = None
    """The turn in progress, which the prompt is of."""
    today: str = ""
    """The current day, to be named with the passages."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The results for a prompt, best first."""

    session: SessionRow
    count: Count
    look: Look
    index: Index
    scores: PassageScores
    ranked: RankedPassages | None
    """None if no passage matches clearly."""
    items: Sequence[FoundItem]
    standing: Sequence[KnowledgeRow] = ()
    """Statements that are shown before the first turn, whatever the prompt is about."""
    orders: Sequence[int] = ()
    """Places of standing orders, best first."""

    def rows(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Keys, turns and times of some of the best."""
        if self.ranked is None:
            return []
        return self.rows_at(self.ranked.places[start:end].tolist())

    def rows_at(self, places: Sequence[int]) -> list[tuple[int, int, int]]:
        """Keys, turns and times of the passages at these places."""
        assert self.ranked is not None
        passages = self.ranked.passages
        columns = (passages.key[places], passages.turn[places], passages.at_us[places])
        return list(zip(*(column.tolist() for column in columns), strict=True))


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
        self._is_judged = self._judge.is_asked
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._writes = writes
        self._is_alone: bool | None = None
        """Whether no other session of the scope has turns; None: not known yet."""
        self._lock = threading.Lock()
        self._pieces: BoundedCache[tuple[str, int], MemoryPiece] = BoundedCache(MAX_REMEMBERED)

    async def recall_once(
        self,
        snapshot: SessionSnapshot,
        request: RecallRequest,
        *,
        mark: str,
        asked: str = "",
    ) -> MemoryLayer:
        """Return the layer for a prompt, the same each time as long as the mark is and there is room for it.

        `asked` is the same for the same prompt, whatever the history shows.
        """
        session, kept = snapshot.session, snapshot.memory
        if request.need is Need.NONE:
            return MemoryLayer()
        stored: Any = bodies.expand(kept) if kept else {}
        if stored.get("mark") == mark and stored["tokens"] <= request.room_tokens:
            layer = stored_layer(stored)
            if not layer.knowledge or set(layer.knowledge) <= (await self._items(session)).rows.keys():
                return layer
        layer = await self.recall(session, session.exact, request)
        layer = replace(layer, reserved_tokens=request.reserved_tokens)
        shown = json_text({"mark": mark, "asked": asked, **asdict(layer)})
        packed = bodies.squeeze_bytes(shown.encode("utf-8", "surrogatepass"))
        save = partial(self._store.derived.keep_recalled, session.id, packed, snapshot.origin)
        await self._writes.write(f"memory of {session.id}", save)
        return layer

    def stored(self, kept: bytes | None, *, asked: str) -> MemoryLayer:
        """The stored layer of a prompt, whatever the history shows now; empty if there is none yet."""
        stored: Any = bodies.expand(kept) if kept else {}
        return stored_layer(stored) if stored.get("asked") == asked else MemoryLayer()

    async def recall(self, session: SessionRow, counter: Counter, request: RecallRequest) -> MemoryLayer:
        """The memory layer for a prompt; empty if nothing is needed, found or ready."""
        if not request.words or request.need is Need.NONE or request.room_tokens < LEAST_ROOM_TOKENS:
            return MemoryLayer()
        if not (session.last_turn or session.scope) and not (await self._items(session)).rows:
            return MemoryLayer()  # without loading anything
        deadline = Deadline(self._settings.deadline_seconds)
        index = await self._scope_index(session, deadline) if session.scope else self._searcher.index(session)
        measured = await self._measure(session, index, request, deadline)
        if measured.look is not None and measured.look.is_alone not in (None, self._is_alone):
            # The first other session of the scope got turns, or the last one lost them.
            self._is_alone = measured.look.is_alone
            index = await self._scope_index(session, deadline)
            measured = await self._measure(session, index, request, deadline)
        look, scores = measured.look, measured.scores
        if look is None or scores is None:
            return MemoryLayer(late=measured.late)
        if searched := look.searched:
            request = replace(request, visible=searched.own(request.visible), asking=searched.own_turn(request.asking))
        found = _Found(
            session=session,
            count=counter.base,
            look=look,
            index=index,
            scores=scores,
            ranked=self._rank(scores, request),
            items=self._best_items(look, measured.items) if look.items and measured.items else [],
        )
        if found.ranked is None and request.is_gated and not (request.is_first or request.is_one_off):
            least = self._settings.knowledge_alone_score
            found = replace(found, items=[item for item in found.items if item.score >= least])
        if request.is_first and look.items:
            standing = standing_items(look.items, confidence=self._settings.knowledge_confidence)
            found = replace(found, standing=standing[:STANDING_ITEMS])
        if found.ranked is None and not (found.items or found.standing):
            return MemoryLayer(late=measured.late)
        if self._is_judged:
            found = await self._judged(found, request, deadline)
        layer = await self._store.passages.read(lambda connection: self._fill(connection, found, request, deadline))
        return replace(layer, late=measured.late)

    async def _items(self, session: SessionRow) -> ItemTable:
        """The lessons and references of the session's scopes as they are now."""
        return await self._store.passages.read(lambda connection: self._searcher.items.read(connection, session))

    async def _scope_index(self, session: SessionRow, deadline: Deadline) -> Index:
        """The index of a session with a scope, or that of all if others of the scope have turns and it is ready in
        time."""
        own = self._searcher.index(session)
        if self._is_alone is None:
            searched = await self._store.passages.read(lambda connection: searched_sessions(connection, session))
            self._is_alone = searched is None
        if self._is_alone:
            return own
        every, left = self._searcher.index_of_all(), deadline.left_seconds()
        return every if await every.load_within(None if left is None else left / 2) else own

    async def _measure(self, session: SessionRow, index: Index, request: RecallRequest, deadline: Deadline) -> Measured:
        """One look at the index. Words and vectors have times of their own if models check what they find."""
        from foveate.recall.index import Query  # noqa: PLC0415 - numpy loads with the index

        settings = self._settings
        # A large index is loaded after the first context.
        is_glance = session.last_turn > LOADED_TURNS and not index.is_loaded and settings.deadline_seconds is not None
        has_orders = settings.order_weight > 0 and not is_glance
        query = Query(
            phrases=query_phrases(encodable(request.words)),
            orders=ORDER_PHRASES if has_orders else (),
            session=session,
            items=self._searcher.items,
        )
        limits = (settings.keyword_seconds, settings.vector_seconds)
        if settings.search_seconds is not None:
            limits = (settings.search_seconds, settings.search_seconds)
        words, vectors = (deadline.left_seconds(each if self._is_judged and not is_glance else None) for each in limits)
        measured = await self._searcher.measure(
            index,
            query,
            request.words,
            words_seconds=words,
            vectors_seconds=vectors,
            glanced_turns=session.last_turn if is_glance else 0,
        )
        if is_glance:
            asyncio.get_running_loop().call_later(LOAD_DELAY_SECONDS, index.load_soon)
        is_late = has_orders and measured.look is None and measured.late
        return replace(measured, late=(*measured.late, ORDERS)) if is_late else measured

    def _best_items(self, look: Look, measured: Sequence[Mapping[str, float]]) -> list[FoundItem]:
        """Lessons and references of the session's scopes that match the prompt."""
        settings = self._settings
        if not settings.knowledge_items or look.items is None:
            return []
        return best_items(
            look.items,
            measured,
            least=settings.knowledge_score,
            confidence=settings.knowledge_confidence,
            limit=settings.candidates if self._is_judged else settings.knowledge_items,
        )

    def _rank(self, scores: PassageScores, request: RecallRequest) -> RankedPassages | None:
        """The best passages; None if the prompt may or may not need the past and no passage matches clearly.

        A preview has no cached prefix to protect.
        """
        from foveate.recall.rank import RankWeights, outstanding, rank  # noqa: PLC0415 - numpy loads with the index

        settings, breadth = self._settings, breadth_of(request.words)
        if not len(scores.passages.key) or (scores.words is None and scores.vectors is None):
            return None
        if (
            request.need is Need.PERHAPS
            and not request.is_one_off
            and outstanding(scores, asking=request.asking) < settings.gate_doubt_score
        ):
            return None
        weights = RankWeights(
            user=settings.broad_user_weight if breadth is Breadth.ORDER else settings.user_weight,
            is_for_answers=asks_for_answers(request.words),
            near=settings.near_weight,
            far=settings.far_weight,
            date=settings.date_weight,
            length=settings.length_weight,
            spread=0.0 if breadth is Breadth.POINT else settings.broad_spread,
            sitting_hours=settings.sitting_hours,
        )
        return rank(
            scores,
            weights,
            spans=spans_in(request.words, from_us(int(scores.passages.at_us.max()))) if settings.date_weight else (),
            visible=request.visible,
            limit=MAX_PASSAGES,
        )

    def _enough(self, found: _Found, request: RecallRequest) -> _Found:
        """Without passages of a low score, unless the prompt is broad; the best few if no score is high."""
        import numpy as np  # noqa: PLC0415

        if found.ranked is None or breadth_of(request.words) is not Breadth.POINT:
            return found
        places = found.ranked.places
        count = int((found.ranked.scores[places] >= self._settings.least_score).sum()) or LEAST_PASSAGES
        if request.need is Need.PERHAPS and not request.is_one_off:
            count = min(count, LEAST_PASSAGES)
        is_shown = np.isin(places, found.orders[:SHOWN_ORDERS])
        is_shown[:count] = True
        return replace(found, ranked=replace(found.ranked, places=places[is_shown]))

    def _lifted(self, connection: Connection, found: _Found, request: RecallRequest, deadline: Deadline) -> _Found:
        """With a bonus for standing orders, and for what was said by somebody whom the prompt names.

        A passage that begins with a name is found by it, so if none of the best is by such a speaker, no more are read.
        """
        if found.ranked is not None and found.scores.orders is not None:
            found = self._by_orders(connection, found, found.ranked, request)
        if found.ranked is None or not self._settings.speaker_weight:
            return found
        ranked, by_named = found.ranked, list[bool]()
        for end in (FIRST_NAMED, NAMED_PASSAGES):
            if deadline.left_seconds() == 0.0:
                break
            pieces = self._read(connection, found, found.rows(0, end))
            if not any(piece and piece.name for piece in pieces):
                return found
            by_named = said_by_named(request.words, pieces)
            if not any(by_named):
                return found
        from foveate.recall.rank import lift  # noqa: PLC0415

        places = [place for place, is_named in zip(ranked.places.tolist(), by_named, strict=False) if is_named]
        return replace(found, ranked=lift(ranked, places, self._settings.speaker_weight))

    def _by_orders(
        self, connection: Connection, found: _Found, ranked: RankedPassages, request: RecallRequest
    ) -> _Found:
        """With a bonus for standing orders of the user, which hold whatever the prompt is about."""
        from foveate.recall.rank import lift, said_by_user  # noqa: PLC0415

        assert found.scores.orders is not None
        best = said_by_user(ranked, found.scores.orders, visible=request.visible, limit=MAX_ORDERS)
        cued = replace(found, ranked=best)
        pieces = self._read(connection, cued, cued.rows(0, MAX_ORDERS))
        places = [
            place
            for place, piece in zip(best.places.tolist(), pieces, strict=True)
            if piece and has_standing_order(piece.text.removeprefix(f"{piece.name}:"))
        ]
        return replace(found, ranked=lift(ranked, places, self._settings.order_weight), orders=places)

    async def _judged(self, found: _Found, request: RecallRequest, deadline: Deadline) -> _Found:
        """Those of the best candidates that the judging models take, in their order; all if none of them answers."""
        lifted, asked, texts = await self._store.passages.read(
            lambda connection: self._candidates(connection, self._lifted(connection, found, request, deadline))
        )
        recent = await self._recent(found.session) if self._settings.judge_model else ""
        question = JudgedRequest(text=request.words, session_id=found.session.id, recent=recent)
        judged = await self._judge.choose(question, texts, deadline)
        if not judged.is_asked:
            return self._enough(lifted, request)
        split = len(found.items)
        items = [found.items[place] for place in judged.places if place < split]
        if asked.ranked is None:
            return replace(lifted, items=items)
        places = asked.ranked.places[[place - split for place in judged.places if place >= split]]
        return replace(lifted, items=items, ranked=replace(asked.ranked, places=places))

    def _candidates(self, connection: Connection, found: _Found) -> tuple[_Found, _Found, list[str]]:
        """The results, those of them that models judge, and the texts of the latter, items first."""
        from foveate.recall.rank import candidates  # noqa: PLC0415

        asked = found
        if found.ranked is not None:
            best = candidates(found.ranked, found.scores, self._settings.candidates)
            asked = replace(found, ranked=replace(found.ranked, places=best))
        pieces = self._read(connection, asked, asked.rows(0, MAX_PASSAGES))
        return found, asked, [item.row.text for item in found.items] + [piece.text if piece else "" for piece in pieces]

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

    def _fill(self, connection: Connection, found: _Found, request: RecallRequest, deadline: Deadline) -> MemoryLayer:
        """Lessons and references, the best passages that fit, and the turns of the next best in one sentence each."""
        if not self._is_judged:
            found = self._enough(self._lifted(connection, found, request, deadline), request)
        searched, settings = found.look.searched, self._settings
        mask = str if asks_for_secret(request.words) else masked
        filling = LayerBuilder(request.room_tokens, found.count, searched, today=request.today, mask=mask)
        matching = [item.row for item in found.items[: settings.knowledge_items]]
        for row in dict.fromkeys([*matching, *found.standing]) if settings.knowledge_items else ():
            filling.add_item(make_item(row, found.count, request.words, mask))
        missed: dict[int, int] = {}
        if found.ranked and breadth_of(request.words) is Breadth.POINT:
            for piece in self._pairs(connection, found, found.ranked.places[:PAIRED].tolist(), request.visible):
                filling.add(piece)
        for start in range(0, MAX_PASSAGES, BATCH):
            rows = found.rows(start, start + BATCH)
            if not rows or filling.left < LEAST_PIECE_TOKENS or filling.misses >= MAX_MISSES:
                break
            for each in self._read(connection, found, rows):
                if each and not filling.add(each):
                    missed.setdefault(each.turn, each.at_us)
        layer = filling.finish(self._ticklers(connection, found, list(missed.items())[: settings.ticklers]))
        in_part = self._in_part(found, found.ranked, filling) if found.ranked and settings.prefetch_turns else []
        return replace(layer, in_part=tuple(in_part))

    def _ticklers(self, connection: Connection, found: _Found, missed: Sequence[tuple[int, int]]) -> Iterator[Tickler]:
        """One sentence for each of these turns, given with their times, as far as it is made."""
        searched = found.look.searched
        for number, at_us in missed:
            turn = searched.find(number) if searched else RecalledTurn(None, number)
            tinies = derived.tinies(connection, (turn.session or found.session).id, turn.turn, turn.turn)
            if tinies:
                yield Tickler(number, at_us, tinies[-1][1])

    def _pairs(
        self, connection: Connection, found: _Found, places: Sequence[int], visible: Collection[int]
    ) -> Iterator[MemoryPiece]:
        """The passages at these places, each with the question before it and, if it is one, the reply behind it."""
        assert found.ranked is not None
        around = sorted({near for place in places for near in (place - 1, place, place + 1)})
        around = [place for place in around if 0 <= place < len(found.ranked.passages.key)]
        pieces = dict(zip(around, self._read(connection, found, found.rows_at(around)), strict=True))
        for place in places:
            piece, before, behind = (pieces.get(near) for near in (place, place - 1, place + 1))
            if piece:
                yield piece
                if before and is_reply(before, piece) and before.turn not in visible:
                    yield before
                if behind and is_reply(piece, behind) and behind.turn not in visible:
                    yield behind

    def _in_part(self, found: _Found, ranked: RankedPassages, filling: LayerBuilder) -> list[int]:
        """Those of the best turns that match clearly and are not shown whole."""
        searched, turns = found.look.searched, ranked.passages.turn
        shown = Counts(turn for turn, _ in filling.pieces)
        best = dict.fromkeys(turns[ranked.places[:LEAST_PASSAGES]].tolist())
        in_part: list[int] = []
        for turn in list(best)[: self._settings.prefetch_turns]:
            is_of_turn = turns == turn
            stands_out = float(ranked.own[is_of_turn].max()) >= self._settings.gate_doubt_score
            own = searched.find(turn) if searched else RecalledTurn(None, turn)
            if own.session is None and stands_out and shown[turn] < int(is_of_turn.sum()):
                in_part.append(own.turn)
        return in_part

    def _read(
        self, connection: Connection, found: _Found, rows: Sequence[tuple[int, int, int]]
    ) -> list[MemoryPiece | None]:
        """The passages of these keys, turns and times; None where one is gone."""
        from foveate.recall.table import LOOSE_KEY  # noqa: PLC0415

        encoding = found.session.encoding
        with self._lock:
            # Held here until the end: the cache may drop an entry while others are added.
            pieces = {key: self._pieces.get((encoding, key)) for key, _, _ in rows}
        # The first passage of a turn has the name of who speaks; it is in the same row.
        missing = [each for key, piece in pieces.items() if piece is None for each in (key, key & ~PASSAGE_MASK)]
        texts = found.index.texts(connection, missing) if missing else {}
        for key, turn, at_us in rows:
            if pieces[key] is None and key in texts:
                said, number = texts[key], key & PASSAGE_MASK
                name = speaker_name(said, texts[key & ~PASSAGE_MASK])
                piece = make_piece(turn, number, said.speaker, said.text, at_us=at_us, count=found.count, name=name)
                pieces[key] = piece
                if key < LOOSE_KEY:  # the others may still change
                    with self._lock:
                        self._pieces[encoding, key] = piece
        # A turn's number depends on the sessions that are searched.
        shown = ((pieces[key], turn) for key, turn, _ in rows)
        return [replace(piece, turn=turn) if piece and piece.turn != turn else piece for piece, turn in shown]


@lru_cache(maxsize=MAX_REMEMBERED)
def masked(text: str) -> str:
    """A passage with its secrets masked."""
    return redact(text)


def said_by_named(query: str, pieces: Sequence[MemoryPiece | None]) -> list[bool]:
    """For each passage whether its speaker is named in the query; None: the passage is gone."""
    asked = telling_words(query)
    of_role = Counts(piece.speaker for piece in pieces if piece)
    with_name = Counts(piece.speaker for piece in pieces if piece and piece.name)
    roles = {role for role, count in with_name.items() if count >= LEAST_NAMED_SHARE * of_role[role]}
    return [
        piece is not None and piece.speaker in roles and bool(asked & telling_words(piece.name)) for piece in pieces
    ]
