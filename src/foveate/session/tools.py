"""Execution of the history tools; retrieved turns are also put on the board."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from foveate.context.pages import FRAME_TOKENS, Days, days_line, paginate, parts_line
from foveate.context.tags import SUMS, TagBlock, TagEntry, escape_tags, write_block
from foveate.context.tools import (
    ContextRemaining,
    GetKnowledge,
    GetTurn,
    GetTurns,
    GetTurnsByTopic,
    Request,
    SearchHistory,
    order_problem,
    parse_call,
)
from foveate.errors import (
    FoveateError,
    InputError,
    KnowledgeNotFound,
    LevelNotReady,
    TurnNotFound,
    TurnPruned,
)
from foveate.history.texts import TextReader
from foveate.history.times import runs_of
from foveate.plan import ShownLevel
from foveate.recall.scopes import Scope, id_in_tenant, own_scopes, sessions_in, title_of
from foveate.recall.search import Hit, Searcher, SearchFilter
from foveate.recall.topics import TopicMatch, match_topic
from foveate.session.address import find_session
from foveate.session.context import Contexts
from foveate.session.found import distinct, hit_lines, list_lines, orders_first
from foveate.session.read import day_of
from foveate.session.room import describe_room
from foveate.session.tenant import public_id
from foveate.session.values import TextPage
from foveate.store import SessionRow, Store
from foveate.text import call_text, several
from foveate.tokens import Counter
from foveate.turn import day_text, from_us, turn_id, turn_number

TOPIC_RESULTS = 8
"""Maximum number of turns that a search for a topic returns."""
MAX_TOPIC_TURNS = 40
"""Maximum number of turns of a learned topic that one call returns."""
RANKED_HITS = 60
"""Minimum number of hits that are ranked and merged for a page of results."""
HITS_PER_TURN = 3
"""Hits that are read for each turn of a page, since some are copies."""
MAX_FOUND = 1_000
"""Maximum number of hits that one call ranks."""
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
            return await self._execute(parse_call(name, arguments))
        except FoveateError as error:
            return escape_tags(f"Error: {error}\n")

    async def _execute(self, call: Request) -> str:
        match call:
            case GetKnowledge(item_id):
                return await self._knowledge(item_id)
            case GetTurn(turn, level, page, session):
                return await self._turns(GetTurns(turn, turn, level, page, session), is_one=True)
            case GetTurns():
                return await self._turns(call)
            case SearchHistory():
                return await (self._list(call) if call.is_list else self._search(call))
            case GetTurnsByTopic():
                return await self._on_topic(call)
            case ContextRemaining():
                return await describe_room(self._store, self._session, self._counter)

    async def on_topic(self, topic: str) -> TopicMatch:
        """Find the turns of a learned topic; if there is none, find turns by a search, without titles."""
        if match := await match_topic(self._store, self._session, topic):
            return match
        found = await self._searcher.search(self._session, topic, TOPIC_RESULTS)
        return TopicMatch((), tuple(sorted(turn_number(each.turn_id) or 0 for each in found)))

    async def _on_topic(self, call: GetTurnsByTopic) -> str:
        """Put the newest turns on a topic on the board, and return them."""
        match = await self.on_topic(call.topic)
        turns = match.turns[-MAX_TOPIC_TURNS:]
        head = f"No topic {call.topic!r} was learned; these turns were found by a search.\n"
        if match.titles:
            rest = f", the newest {len(turns)} here" if len(turns) < len(match.turns) else ""
            head = f"{len(match.turns)} turns on {'; '.join(match.titles)}{rest}: {', '.join(map(turn_id, turns))}.\n"
        blocks: list[TagBlock] = []
        for turn in turns:
            with suppress(TurnPruned):
                blocks += await self._at_level_or_raw(turn, call.level)
        if not blocks:
            return escape_tags(f"No turn mentions {call.topic!r}. Search for other words with search_history.\n")
        again = call_text("get_turns_by_topic", call.topic, call.level, page=call.page + 1)
        return f"{escape_tags(head)}{await self._retrieve(blocks, call.page, again)}"

    async def _turns(self, call: GetTurns, *, is_one: bool = False) -> str:
        first, last, level = call.first, call.last, call.level
        if call.session:
            return await self._of_other_session(call, _next_call(call, is_one=is_one))
        if level == "E":
            room = self._contexts.board.page_tokens(self._session, self._counter)
            blocks = await self._eras(first, last, room)
        else:
            if first < last:
                last = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
            blocks = await self.blocks(first, last, level)
        found = await self._retrieve(blocks, call.page, _next_call(call, is_one=is_one))
        return f"{await self._removed(first, last)}{found}"

    async def _removed(self, first: int, last: int) -> str:
        """Name the turns of a range that were pruned or erased; empty if there are none."""
        sizes = await self._store.derived.sizes_of(self._session.id, first, min(last, first + MAX_RANGE_TURNS - 1))
        runs = runs_of(size.turn for size in sizes if size.is_pruned)
        named = [turn_id(low) if low == high else f"{turn_id(low)} to {turn_id(high)}" for low, high in runs]
        return f"Removed by a command, not readable any more: {', '.join(named)}.\n" if named else ""

    async def _of_other_session(self, call: GetTurns, next_call: str) -> str:
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
        removed = await other._removed(call.first, call.last)
        lines = f"Session {named}.\n{removed}{page_line(found.page, found.pages, next_call)}{found.parts}{found.days}"
        return f"{escape_tags(lines)}{found.text}"

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
                raise TurnPruned(self._session.id, turn_id(first), day_of(size.erased_us))
            raise LevelNotReady(turn_id(first), level, ("R",))
        if len(texts) == 1:
            ((turn, text),) = texts.items()
            return [TagBlock(turn, turn, level, (TagEntry(turn, text),))]
        entries = tuple(TagEntry(turn, text) for turn, text in texts.items())
        return [TagBlock(entries[0].number, entries[-1].number, level, entries, is_range=True)]

    def _check_range(self, first: int, last: int) -> None:
        if last < first:
            raise InputError(f"{order_problem(first, last)}; exchange them")
        if not 1 <= first <= self._session.last_turn:
            raise TurnNotFound(self._session.id, turn_id(first), self._session.last_turn)

    async def page(self, first: int, last: int, level: ShownLevel, *, page: int, page_tokens: int) -> TextPage:
        """Return a page of turns, or of eras at level E, without putting it on the board.

        A page number beyond the last page returns the last page.
        """
        self._check_range(first, last)
        last = min(last, self._session.last_turn, first + MAX_RANGE_TURNS - 1)
        if level == "E":
            blocks = await self._eras(first, last, page_tokens)
            missing: list[int] = []
        else:
            blocks = await self.blocks(first, last, level)
            found = {entry.number for block in blocks for entry in block.entries}
            missing = [turn for turn in range(first, last + 1) if turn not in found]
        count, days = self._session.exact.base, await self._days(blocks)
        pages = await asyncio.to_thread(paginate, blocks, page_tokens, count, days)
        chosen = min(max(page, 1), len(pages))
        text = "".join(map(write_block, pages[chosen - 1]))
        is_long = level == "R" and first == last and chosen == 1 < len(pages)
        return TextPage(
            text,
            chosen,
            len(pages),
            tuple(map(turn_id, missing)),
            days=days_line(pages[chosen - 1], days),
            parts=parts_line(pages) if is_long else "",
        )

    async def _days(self, blocks: Sequence[TagBlock]) -> Days:
        """Read the dates of the blocks' turns."""
        days: dict[int, str] = {}
        for block in blocks:
            ends = [(block.first, block.first), (block.last, block.last)]
            spans = ends if block.level in SUMS else [(block.first, block.last)]
            rows = [row for first, last in spans for row in await self._store.turns(self._session.id, first, last)]
            told = {row.turn: day_text(row.first_at_us) for row in rows}
            if block.level in SUMS:
                named = list(dict.fromkeys(told.values()))
                days |= {block.first: " to ".join(named)} if named else {}
            else:
                days |= told
        return days

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

    async def _retrieve(self, blocks: list[TagBlock], page: int, next_call: str) -> str:
        """Put a page of blocks on the board, and return it with its dates and the call for the next one."""
        board = self._contexts.board
        found = await board.retrieve(self._session, self._counter, blocks, page, await self._days(blocks))
        entry = found.entry
        lines = f"{page_line(entry.page, entry.pages, next_call)}{found.parts}{entry.days}"
        return f"{escape_tags(lines)}{entry.text}"

    async def _at_level_or_raw(self, turn: int, level: ShownLevel) -> list[TagBlock]:
        """Read a turn at a level, or raw if that level is not made yet."""
        try:
            return await self.blocks(turn, turn, level)
        except LevelNotReady:
            return await self.blocks(turn, turn, "R")

    async def _search(self, call: SearchHistory) -> str:
        """Search the scope, and return each turn with its date, its best passage and what completes it."""
        end = call.page * call.page_turns
        hits = await self._hits(call, max(RANKED_HITS, end * HITS_PER_TURN))
        found = orders_first(distinct(hits, self._own_id))
        shown = found[end - call.page_turns : end]
        if not shown:
            return self._nothing(call, len(found))
        lines = hit_lines(shown, call.query, call.page_turns, self._own_id)
        return f"{lines}{self._more(call) if len(found) > end else ''}"

    async def _list(self, call: SearchHistory) -> str:
        """List the turns of the scope that match, or all, by time, one dated line each."""
        start = (call.page - 1) * call.page_turns
        hits = await self._hits(call, call.page_turns + 1, skip=start)
        if not hits:
            return self._nothing(call, start)
        shown = hits[: call.page_turns]
        if not (call.query or call.role or call.speaker):
            shown = await self._in_one_line(shown)
        lines = list_lines(shown, call.query, call.page_turns, self._own_id)
        unread = await self._searcher.unsearched(self._session)
        note = f"{several(unread, 'older turn')} not indexed yet and not listed; get_turns reads them.\n"
        return f"{lines}{note if unread else ''}{self._more(call) if len(hits) > call.page_turns else ''}"

    async def _hits(self, call: SearchHistory, count: int, *, skip: int = 0) -> list[Hit]:
        """Search the scope. Relative times are counted from the newest turn: the answer depends on the store alone."""
        own = self._session
        newest = await self._store.turns(own.id, own.last_turn, own.last_turn)
        wanted = SearchFilter(
            role=call.role,
            speaker=call.speaker,
            after=call.after,
            before=call.before,
            now=from_us(newest[-1].first_at_us) if newest else None,
        )
        hits = await self._searcher.search_scope(
            own,
            call.query,
            min(count, MAX_FOUND),
            wanted,
            asking=own.last_turn if own.is_open else None,
            order=call.order,
            skip=skip,
        )
        return [replace(hit, session_id=public_id(own.tenant, hit.session_id)) for hit in hits]

    async def _in_one_line(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return hits with their turns in one sentence, if that is made."""
        told: dict[str, str] = {}
        own = [turn_number(hit.turn_id) or 0 for hit in hits if hit.session_id == self._own_id]
        if own:
            tinies = await self._reader.texts(self._session, "T", min(own), max(own))
            told = {turn_id(turn): text for turn, text in tinies.items()}
        return [
            replace(hit, text=told[hit.turn_id], role="", tool=None)
            if hit.session_id == self._own_id and hit.turn_id in told
            else hit
            for hit in hits
        ]

    @property
    def _own_id(self) -> str:
        return public_id(self._session.tenant, self._session.id)

    def _more(self, call: SearchHistory) -> str:
        named = {name: getattr(call, name) for name in ("after", "before", "role", "speaker")}
        order = call.order if call.is_list else None
        again = call_text(
            "search_history",
            call.query,
            **named,
            order=order,
            max_results=call.max_results or None,
            page=call.page + 1,
        )
        return escape_tags(f"page {call.page}; next: {again}\n")

    def _nothing(self, call: SearchHistory, known: int) -> str:
        """Return what to do where a page of results is empty."""
        if call.page > 1 and known:
            return f"There is no page {call.page}.\n"
        what = f" for {call.query!r}" if call.query else ""
        given = [name for name in ("after", "before", "role", "speaker") if getattr(call, name)]
        advice = f"; leave out {' or '.join(given)}, or use other words" if given else ""
        return escape_tags(f"Nothing was found{what}{advice}.\n")


def page_line(page: int, pages: int, next_call: str) -> str:
    """Write which page it is, and the call for the next one; empty if there is only one."""
    if pages == 1:
        return ""
    return f"Page {page} of {pages}; next: {next_call}\n" if page < pages else f"Page {page} of {pages}.\n"


def _next_call(call: GetTurns, *, is_one: bool) -> str:
    """Write the call for the page behind that of a call."""
    where = f"{call.session}/" if call.session else ""
    first, last = f"{where}{turn_id(call.first)}", f"{where}{turn_id(call.last)}"
    if is_one:
        return call_text("get_turn", first, call.level, page=call.page + 1)
    return call_text("get_turns", first, last, call.level, page=call.page + 1)
