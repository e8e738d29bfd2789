"""What was said is found again: a session's index, kept open, and what people and models are told of what it finds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from foveate.errors import InputError, ModelError
from foveate.models.caller import Caller
from foveate.recall.embed import Embedder, index_maker, load_embedder
from foveate.recall.passages import cut_turn
from foveate.recall.settings import RecallSettings
from foveate.renditions import without_recalled
from foveate.store import SessionRow, Store
from foveate.store.codec import restore_message
from foveate.store.rows import SPEAKERS, IndexState, Speaker
from foveate.turn import from_us, parse_time, to_us, turn_id, turn_number

if TYPE_CHECKING:
    from foveate.recall.index import Index, Loose, PassageHit

MAX_OPEN = 16
"""Sessions whose index is kept in memory, those used last."""
MAX_RESULTS = 1_000
LEAST_ALIKE = 0.2
"""A passage without any of the words counts only if its vector is at least this near; for one word alone,"""
LEAST_ALIKE_TO_A_WORD = 0.4
"""this near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """Which passages are looked for, as people say it."""

    role: str | None = None
    tool: str | None = None
    after: str | float | datetime | None = None
    before: str | float | datetime | None = None
    file: str | None = None


class Searcher:
    """The indexes of a store's sessions. They load when something is first searched."""

    def __init__(self, store: Store, settings: RecallSettings, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._caller = caller
        self._embedder: Embedder | None = None
        self._open: OrderedDict[int, Index] = OrderedDict()

    @property
    def embedder(self) -> Embedder:
        self._embedder = self._embedder or load_embedder(self._settings, self._caller)
        return self._embedder

    def index(self, session: SessionRow) -> Index:
        """A session's index, opened before or now."""
        from foveate.recall.index import Index  # noqa: PLC0415 - numpy loads when something is searched

        found = self._open.pop(session.number, None)
        if found is None:
            found = Index(self._store, session.id, self.embedder, lambda turn: self._read_loose(session.id, turn))
        self._open[session.number] = found
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return found

    async def search(
        self, session: SessionRow, query: str, max_results: int, wanted: SearchFilter | None = None
    ) -> list[Hit]:
        """The turns that speak of something, the best first, each with the passage that says it best."""
        from foveate.recall.index import Filter  # noqa: PLC0415

        if not query.strip():
            raise InputError("there is nothing to look for; say some words, as in search('storage port')")
        if not 1 <= max_results <= MAX_RESULTS:
            raise InputError(f"max_results is {max_results}; it can be 1 to {MAX_RESULTS:,}")
        wanted = wanted or SearchFilter()
        chosen = Filter(
            speaker=_speaker(wanted.role),
            tool=wanted.tool,
            after_us=None if wanted.after is None else to_us(parse_time(wanted.after, path="after")),
            before_us=None if wanted.before is None else to_us(parse_time(wanted.before, path="before")),
            file=wanted.file,
        )
        least = LEAST_ALIKE if len(query.split()) > 1 else LEAST_ALIKE_TO_A_WORD
        index = self.index(session)
        hits = await index.search(query, limit=max_results, wanted=chosen, is_by_turn=True, least_alike=least)
        return [_found(session.id, hit) for hit in hits]

    async def search_all(
        self, sessions: Sequence[SessionRow], query: str, max_results: int, wanted: SearchFilter
    ) -> list[Hit]:
        """The best turns of several sessions; a turn that forks share is told once, as its own session's."""
        found: list[Hit] = []
        for session in sessions:
            own = await self.search(session, query, max_results, wanted)
            is_shared = len(sessions) > 1
            found += [each for each in own if not is_shared or (turn_number(each.turn_id) or 0) > session.fork_turn]
        if len(sessions) > 1:
            found.sort(key=lambda each: (-each.keyword * (1 + max(0.0, each.similarity)), -each.similarity))
        return found[:max_results]

    async def unsearched(self, sessions: Sequence[SessionRow]) -> int:
        """How many turns of these sessions are not indexed yet and too many to be looked through."""
        return sum([await self.index(session).unsearched() for session in sessions])

    async def state(self) -> IndexState:
        """What the index has and lacks, who makes its vectors, and why that is not possible now, if it is not."""
        problem = ""
        try:
            await self.embedder.learn()
        except ModelError as error:
            problem = str(error)
        found = await self._store.passages.state(index_maker(self.embedder.name))
        return replace(found, model=self.embedder.name, problem=problem)

    async def _read_loose(self, session_id: str, turn: int) -> Loose | None:
        from foveate.recall.index import Loose  # noqa: PLC0415

        rows = await self._store.read(session_id, turn, turn)
        if not rows or any(row.body is None for row in rows):
            return None
        return Loose(rows[0].at_us, cut_turn(without_recalled([restore_message(row) for row in rows])))


def _speaker(role: str | None) -> Speaker | None:
    if role is None or role in SPEAKERS:
        return role
    raise InputError(f"role is {role!r}; it can be {', '.join(SPEAKERS)}")


def _found(session_id: str, hit: PassageHit) -> Hit:
    return Hit(
        session_id=session_id,
        turn_id=turn_id(hit.turn),
        text=hit.text,
        role=hit.speaker,
        tool=hit.tool,
        at=from_us(hit.at_us),
        keyword=round(hit.keyword, 3),
        similarity=round(hit.vector, 3),
    )


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that a search found, with the passage of it that says it best."""

    session_id: str
    turn_id: str
    text: str
    role: str
    """Whose words the passage is: `user`, `assistant`, `tool` or `system`."""
    tool: str | None
    at: datetime
    """When the turn began."""
    keyword: float
    """How well it answers by its words; 0 if it has none of them."""
    similarity: float
    """How near it is in meaning, from -1 to 1."""
