"""Execution of the history tools; retrieved turns are also put on the board."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from foveate.context.board import FRAME_TOKENS, paginate
from foveate.context.tags import TagBlock, TagEntry, escape_tags, write_block
from foveate.context.tools import GetKnowledge, GetTurn, GetTurns, GetTurnsByTopic, SearchHistory, parse_call
from foveate.errors import FoveateError, KnowledgeNotFound, LevelNotReady, TurnNotFound, TurnPruned
from foveate.history.texts import TextReader
from foveate.plan import ShownLevel
from foveate.recall.scopes import Scope, id_in_tenant, own_scopes, sessions_in, title_of
from foveate.recall.search import Searcher
from foveate.recall.topics import TopicMatch, match_topic
from foveate.recall.words import snippet
from foveate.session.address import find_session
from foveate.session.context import Contexts
from foveate.session.tenant import public_id
from foveate.session.values import TextPage
from foveate.store import SessionRow, Store
from foveate.tokens import Counter
from foveate.turn import from_us, turn_id, turn_number

TOPIC_RESULTS = 8
"""Maximum number of turns that a search for a topic returns."""
MAX_TOPIC_TURNS = 40
"""Maximum number of turns of a learned topic that one call returns."""
FOUND_CHARS = 400
"""Characters shown of each turn that a search found."""
MAX_SOURCES = 20
"""Maximum number of source turns that are listed with an item of knowledge."""
MAX_RANGE_TURNS = 1_000
"""Maximum number of turns that one call can request; they are returned page by page."""


@dataclass(frozen=True, slots=True)
class _Named:
    id: str
    title: str


class Retrieval:
    """Executes calls of the history tools in one session."""

    def __init__(
        self,
        store: Store,
        session: SessionRow,
        contexts: Contexts,
        counter: Counter,
        *,
        searcher: Searcher,
        reader: TextReader | None = None,
    ) -> None:
        self._reader = reader or contexts.reader
        self._store = store
        self._searcher = searcher
        self._session = session
        self._contexts = contexts
        self._counter = counter

    async def answer(self, name: str, arguments: object) -> str:
        """Execute a call, and return the result for the model; errors are returned as text."""
        try:
            match parse_call(name, arguments):
                case GetKnowledge(item_id):
                    return await self._knowledge(item_id)
                case GetTurn(turn, level, page, session):
                    return await self._turns(GetTurns(turn, turn, level, page, session))
                case GetTurns() as call:
                    return await self._turns(call)
                case SearchHistory(query, max_results):
                    return await self._search(query, max_results)
                case GetTurnsByTopic(topic, level):
                    return await self._on_topic(topic, level)
        except FoveateError as error:
            return escape_tags(f"Error: {error}\n")

    async def on_topic(self, topic: str) -> TopicMatch:
        """Find the turns of a learned topic; if there is none, find turns by a search, without titles."""
        if match := await match_topic(self._store, self._session, topic):
            return match
        found = await self._searcher.search(self._session, topic, TOPIC_RESULTS)
        return TopicMatch((), tuple(sorted(turn_number(each.turn_id) or 0 for each in found)))

    async def _on_topic(self, topic: str, level: ShownLevel) -> str:
        """Put the newest turns on a topic on the board, and return them."""
        match = await self.on_topic(topic)
        turns = match.turns[-MAX_TOPIC_TURNS:]
        head = f"No topic {topic!r} was learned; these turns were found by a search.\n"
        if match.titles:
            rest = f", the newest {len(turns)} here" if len(turns) < len(match.turns) else ""
            head = f"{len(match.turns)} turns on {'; '.join(match.titles)}{rest}: {', '.join(map(turn_id, turns))}.\n"
        blocks: list[TagBlock] = []
        for turn in turns:
            with suppress(TurnPruned):
                blocks += await self._at_level_or_raw(turn, level)
        if not blocks:
            return escape_tags(f"No turn mentions {topic!r}.\n")
        return f"{escape_tags(head)}{await self._retrieve(blocks, 1)}"

    async def _turns(self, call: GetTurns) -> str:
        first, last, level, page = call.first, call.last, call.level, call.page
        if call.session:
            return await self._of_other_session(call)
        if level == "E":
            room = self._contexts.board.page_tokens(self._session, self._counter)
            return await self._retrieve(await self._eras(first, last, room), page)
        if first < last:
            last = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
        return await self._retrieve(await self.blocks(first, last, level), page)

    async def _of_other_session(self, call: GetTurns) -> str:
        """Return a page of turns of another session in the scope. The board holds only turns of its own session, so
        nothing is put on it."""
        session = await self._session_of(call.session)
        own = self._session
        reader = self._contexts.reader if session.id == own.id else TextReader(self._store, session.id)
        other = Retrieval(self._store, session, self._contexts, self._counter, searcher=self._searcher, reader=reader)
        room = self._contexts.board.page_tokens(own, self._counter)
        found = await other.page(call.first, call.last, call.level, page=call.page, page_tokens=room)
        title = title_of(session)
        named = f'{id_in_tenant(session)} "{title}"' if title else id_in_tenant(session)
        (row,) = await self._store.turns(session.id, call.first, call.first)
        pages = f" Page {found.page} of {found.pages}." if found.pages > 1 else ""
        return f"{escape_tags(f'Session {named}, {from_us(row.first_at_us):%Y-%m-%d}.{pages}')}\n{found.text}"

    async def _session_of(self, address: str) -> SessionRow:
        """Find a session by its address: this one, or one in the scope that it was opened with."""
        own = self._session
        found = [own]
        if own.scope:
            found += await sessions_in(self._store, own.tenant, Scope.parse(own.scope))
        known = {id_in_tenant(row): row for row in found}
        return known[find_session([_Named(name, row.title) for name, row in known.items()], address).id]

    async def _knowledge(self, item_id: str) -> str:
        """Return an item of knowledge of the session's scopes."""
        own = self._session
        found = await self._store.knowledge.versions(own.tenant, item_id)
        scopes = {str(scope) for scope in own_scopes(own, session_id=id_in_tenant(own))}
        if not found or found[-1].scope not in scopes:
            raise KnowledgeNotFound(item_id)
        row = found[-1]
        sources = ", ".join(
            turn_id(each.turn)
            if each.session_id == own.id
            else f"{public_id(own.tenant, each.session_id)}/{turn_id(each.turn)}"
            for each in row.sources[:MAX_SOURCES]
        )
        head = f"{row.kind.capitalize()} {row.id} ({row.state}, {row.scope}): {row.title}"
        return escape_tags(f"{head}\n{row.text}\n" + (f"From {sources}.\n" if sources else ""))

    async def blocks(self, first: int, last: int, level: ShownLevel) -> list[TagBlock]:
        """Read turns as blocks. Errors distinguish an unknown turn from one whose level is not made yet."""
        self._check_range(first, last)
        texts = await self._reader.texts(self._session, level, first, last)
        if not texts:
            (size,) = await self._store.derived.sizes_of(self._session.id, first, first)
            if size.is_pruned:
                raise TurnPruned(self._session.id, turn_id(first))
            raise LevelNotReady(turn_id(first), level, ("R",))
        if len(texts) == 1:
            ((turn, text),) = texts.items()
            return [TagBlock(turn, turn, level, (TagEntry(turn, text),))]
        entries = tuple(TagEntry(turn, text) for turn, text in texts.items())
        return [TagBlock(entries[0].number, entries[-1].number, level, entries, is_range=True)]

    def _check_range(self, first: int, last: int) -> None:
        if not 1 <= first <= self._session.last_turn or last < first:
            raise TurnNotFound(self._session.id, turn_id(first), self._session.last_turn)

    async def page(self, first: int, last: int, level: ShownLevel, *, page: int, page_tokens: int) -> TextPage:
        """Return a page of turns, or of eras at level E, without putting it on the board.

        A page number beyond the last page returns the last page.
        """
        last = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
        self._check_range(first, last)
        if level == "E":
            blocks = await self._eras(first, last, page_tokens)
            missing: list[int] = []
        else:
            blocks = await self.blocks(first, last, level)
            found = {entry.number for block in blocks for entry in block.entries}
            missing = [turn for turn in range(first, last + 1) if turn not in found]
        count = self._session.exact.base
        pages = await asyncio.to_thread(paginate, blocks, page_tokens, count)
        chosen = min(max(page, 1), len(pages))
        text = "".join(map(write_block, pages[chosen - 1]))
        return TextPage(text, chosen, len(pages), tuple(map(turn_id, missing)))

    async def _eras(self, first: int, last: int, page_tokens: int) -> list[TagBlock]:
        """Read the eras of a range, on one page if possible. Turns that are not in an era yet are added as Tiny."""
        last = min(last, self._session.last_turn)
        room = page_tokens - FRAME_TOKENS
        blocks = await self._reader.eras(self._session, first, last, room)
        reached = blocks[-1].last if blocks else first - 1
        if reached < last:
            try:
                blocks += await self.blocks(reached + 1, min(last, reached + MAX_RANGE_TURNS), "T")
            except LevelNotReady:
                if not blocks:
                    raise
        return blocks

    async def _retrieve(self, blocks: list[TagBlock], page: int) -> str:
        """Put a page of blocks on the board, and return it."""
        return await self._contexts.board.retrieve(self._session, self._counter, blocks, page)

    async def _at_level_or_raw(self, turn: int, level: ShownLevel) -> list[TagBlock]:
        """Read a turn at a level, or raw if that level is not made yet."""
        try:
            return await self.blocks(turn, turn, level)
        except LevelNotReady:
            return await self.blocks(turn, turn, "R")

    async def _search(self, query: str, max_results: int) -> str:
        """Search the scope, and return a line for each turn: its best passage and the speaker."""
        own = self._session
        asking = own.last_turn if own.is_open else None
        found = await self._searcher.search_scope(own, query, max_results, asking=asking)
        names = ("" if each.session_id == own.id else f"{public_id(own.tenant, each.session_id)}/" for each in found)
        lines = (
            f"{name}{each.turn_id}: [{each.role}] {snippet(each.text, query, FOUND_CHARS)}\n"
            for name, each in zip(names, found, strict=True)
        )
        return escape_tags("".join(lines) or f"Nothing was found for {query!r}.\n")
