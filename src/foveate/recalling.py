"""Recall before a turn: what the prompt brings up is looked for by words and vectors, ranked, and shown as it fits.

All under one deadline. What is late is left out, what fails is left out, and a context is made in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.answers import from_us
from foveate.context.recalled import LEAST_ROOM_TOKENS, Filling, Gist, Layer, Piece, make_piece
from foveate.recall.anytime import Deadline, run_stages
from foveate.recall.dates import spans_in
from foveate.recall.gate import Need, need_of
from foveate.searching import Searcher
from foveate.settings import RecallSettings
from foveate.store import SessionRow, Store
from foveate.store.passages import KEY_SHIFT
from foveate.tokens import Counter

if TYPE_CHECKING:
    from foveate.recall.index import Index
    from foveate.recall.rank import Measured, Ranked

MAX_QUERY_CHARS = 20_000
"""As much of a prompt is looked for."""
MAX_PASSAGES = 2_000
"""Of the best, those that are tried for room."""
BATCH = 64
"""Passages whose texts are read together."""
MAX_REMEMBERED = 20_000
"""Pieces kept in memory, ready to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be recalled for a prompt, and how."""

    query: str
    room_tokens: int
    visible: Collection[int]
    """Turns that the context shows word for word already."""
    is_gated: bool
    """Recall only if the prompt needs it."""
    is_one_off: bool = False
    """There is no cached prompt to keep: a prompt that may need it gets it."""


class Recaller:
    """Recalls for one session."""

    def __init__(self, store: Store, searcher: Searcher, settings: RecallSettings) -> None:
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._pieces: OrderedDict[tuple[str, int], Piece] = OrderedDict()

    async def recall(self, session: SessionRow, counter: Counter, wish: Wish) -> Layer:
        """The memory layer for a prompt; empty if nothing is needed, found or ready."""
        query = wish.query.strip()[:MAX_QUERY_CHARS]
        need = need_of(query) if wish.is_gated else Need.SURE
        if not query or need is Need.NONE or wish.room_tokens < LEAST_ROOM_TOKENS:
            return Layer()
        deadline = Deadline(self._settings.deadline_seconds)
        index = self._searcher.index(session)
        stages = {"words": lambda: index.measure_words(query), "vectors": lambda: index.measure_vectors(query)}
        found = await run_stages(stages, deadline.left_seconds())
        measured = found.results.get("words"), found.results.get("vectors")
        if not any(each and len(each.passages) for each in measured):
            return Layer()
        ranked = self._rank(query, *measured, wish=wish, need=need)
        return Layer() if ranked is None else await self._fill(session, index, counter, wish, ranked)

    def _rank(
        self, query: str, words: Measured | None, vectors: Measured | None, *, wish: Wish, need: Need
    ) -> Ranked | None:
        """None if nothing stands out that the prompt could mean. A one-off has no cached prompt to keep from it."""
        from foveate.recall.rank import Weights, outstanding, rank  # noqa: PLC0415 - numpy loads with the index

        settings = self._settings
        least = settings.gate_score if need is Need.SURE else settings.gate_doubt_score
        if wish.is_gated and not wish.is_one_off and outstanding(words, vectors) < least:
            return None
        weights = Weights(
            method=settings.method,
            user=settings.user_weight,
            near=settings.near_weight,
            far=settings.far_weight,
            date=settings.date_weight,
            sitting_hours=settings.sitting_hours,
        )
        moments = [each.passages.at_us.max() for each in (words, vectors) if each and len(each.passages)]
        spans = spans_in(query, from_us(int(max(moments)))) if settings.date_weight else []
        limit = MAX_PASSAGES if wish.is_one_off else settings.passages
        return rank(words, vectors, weights, spans=spans, visible=wish.visible, limit=limit)

    async def _fill(self, session: SessionRow, index: Index, counter: Counter, wish: Wish, ranked: Ranked) -> Layer:
        """The best passages that fit, and the turns of the next best in one sentence each."""
        filling = Filling(wish.room_tokens, counter.base)
        missed: dict[int, int] = {}
        keys, turns = ranked.passages.key[ranked.places].tolist(), ranked.passages.turn[ranked.places].tolist()
        moments = ranked.passages.at_us[ranked.places].tolist()
        for start in range(0, len(keys), BATCH):
            if filling.is_full:
                break
            rows = list(zip(keys, turns, moments, strict=True))[start : start + BATCH]
            for piece in await self._read(session, index, counter, rows):
                if not filling.add(piece):
                    missed.setdefault(piece.turn, piece.at_us)
        return filling.finish(await self._gists(session, missed))

    async def _read(
        self, session: SessionRow, index: Index, counter: Counter, rows: Sequence[tuple[int, int, int]]
    ) -> list[Piece]:
        """The passages of these keys, turns and times."""
        from foveate.recall.index import LOOSE_KEY  # noqa: PLC0415

        lacking = [key for key, _, _ in rows if (session.encoding, key) not in self._pieces]
        texts = await index.texts(lacking) if lacking else {}
        pieces = []
        for key, turn, at_us in rows:
            known = self._pieces.get((session.encoding, key))
            if known is None and key in texts:
                said = texts[key]
                number = key & ((1 << KEY_SHIFT) - 1)
                known = make_piece(turn, number, said.speaker, said.text, at_us=at_us, count=counter.base)
                if key < LOOSE_KEY:  # the others may still change
                    self._pieces[session.encoding, key] = known
            if known is not None:
                pieces.append(known)
        while len(self._pieces) > MAX_REMEMBERED:
            self._pieces.popitem(last=False)
        return pieces

    async def _gists(self, session: SessionRow, missed: Mapping[int, int]) -> list[Gist]:
        gists = []
        for turn, at_us in list(missed.items())[: self._settings.ticklers]:
            for _, tiny, _ in await self._store.derived.tinies(session.id, turn, turn):
                gists.append(Gist(turn, at_us, tiny))
        return gists
