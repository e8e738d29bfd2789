"""Execution of the history tools; retrieved turns are also put on the board."""

from __future__ import annotations

import asyncio

from foveate.context.board import FRAME_TOKENS, paginate
from foveate.context.tags import TagBlock, TagEntry, escape_tags, write_block
from foveate.context.tools import GetTurn, GetTurns, GetTurnsByTopic, SearchHistory, parse_call
from foveate.errors import FoveateError, LevelNotReady, TurnNotFound, TurnPruned
from foveate.plan import ShownLevel
from foveate.recall.search import Searcher
from foveate.recall.words import snippet
from foveate.session.context import Contexts
from foveate.session.values import TextPage
from foveate.store import SessionRow, Store
from foveate.tokens import Counter, exact_counter
from foveate.turn import turn_id, turn_number

TOPIC_RESULTS = 8
"""Turns that a topic brings at most."""
FOUND_CHARS = 400
"""What is shown of each turn that a search found."""
MAX_RANGE_TURNS = 1_000
"""Turns that one call can ask for; the board gives them page by page."""


class Retrieval:
    """Answers calls on one session."""

    def __init__(
        self, store: Store, session: SessionRow, contexts: Contexts, counter: Counter, *, searcher: Searcher
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._session = session
        self._contexts = contexts
        self._counter = counter

    async def answer(self, name: str, arguments: object) -> str:
        """The result for the model; an invalid call or an unknown turn is explained."""
        try:
            match parse_call(name, arguments):
                case GetTurn(turn, level, page):
                    return await self._give(await self.blocks(turn, turn, level), page)
                case GetTurns(first, last, "E", page):
                    room = self._contexts.board.page_tokens(self._session, self._counter)
                    return await self._give(await self._eras(first, last, room), page)
                case GetTurns(first, last, level, page):
                    reach = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
                    return await self._give(await self.blocks(first, reach, level), page)
                case SearchHistory(query, max_results):
                    return await self._found(query, max_results)
                case GetTurnsByTopic(topic, level):
                    found = await self._searcher.search(self._session, topic, TOPIC_RESULTS)
                    turns = sorted(turn_number(each.turn_id) or 0 for each in found)
                    blocks = [block for turn in turns for block in await self._made(turn, level)]
                    return await self._give(blocks, 1) if blocks else escape_tags(f"No turn speaks of {topic!r}.\n")
        except FoveateError as error:
            return escape_tags(f"Error: {error}\n")

    async def blocks(self, first: int, last: int, level: ShownLevel) -> list[TagBlock]:
        """The turns as blocks; the errors tell an unknown turn from one whose level is still to be made."""
        self._check_range(first, last)
        texts = await self._contexts.viewer.texts(level, first, last)
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
        """A page of turns, or of eras at level E. Nothing is put on the board. A page beyond the last is the last."""
        last = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
        self._check_range(first, last)
        if level == "E":
            blocks = await self._eras(first, last, page_tokens)
            missing: list[int] = []
        else:
            blocks = await self.blocks(first, last, level)
            found = {entry.number for block in blocks for entry in block.entries}
            missing = [turn for turn in range(first, last + 1) if turn not in found]
        count = exact_counter(self._session.encoding).base
        pages = await asyncio.to_thread(paginate, blocks, page_tokens, count)
        chosen = min(max(page, 1), len(pages))
        text = "".join(map(write_block, pages[chosen - 1]))
        return TextPage(text, chosen, len(pages), tuple(map(turn_id, missing)))

    async def _eras(self, first: int, last: int, page_tokens: int) -> list[TagBlock]:
        """The eras below a range, on one page if they can be; turns too new or too few for an era as they are."""
        last = min(last, self._session.last_turn)
        room = page_tokens - FRAME_TOKENS
        blocks = await self._contexts.viewer.eras(self._session, first, last, room)
        reached = blocks[-1].last if blocks else first - 1
        if reached < last:
            try:
                blocks += await self.blocks(reached + 1, min(last, reached + MAX_RANGE_TURNS), "T")
            except LevelNotReady:
                if not blocks:
                    raise
        return blocks

    async def _give(self, blocks: list[TagBlock], page: int) -> str:
        return await self._contexts.board.retrieve(self._session, self._counter, blocks, page)

    async def _made(self, turn: int, level: ShownLevel) -> list[TagBlock]:
        """A turn at a level, or as it came where that is still to be made."""
        try:
            return await self.blocks(turn, turn, level)
        except LevelNotReady:
            return await self.blocks(turn, turn, "R")

    async def _found(self, query: str, max_results: int) -> str:
        """A line for each turn: the passage that says it best, and who says it."""
        asking = self._session.last_turn if self._session.head != "closed" else None
        found = await self._searcher.search(self._session, query, max_results, asking=asking)
        lines = (f"{each.turn_id}: [{each.role}] {snippet(each.text, query, FOUND_CHARS)}\n" for each in found)
        return escape_tags("".join(lines) or f"Nothing was found for {query!r}.\n")
