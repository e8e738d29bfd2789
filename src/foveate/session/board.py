"""The stored board of a session: turns that a model retrieved, and turns prefetched for one prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from foveate.context import board as boards
from foveate.context.board import Board, BoardEntry, ExpiryReport, Note
from foveate.context.pages import Days, paginate, parts_line
from foveate.context.tags import TagBlock, TagEntry
from foveate.events import EventKind
from foveate.formats.sizes import SentSizes
from foveate.history.late_writes import LateWrites
from foveate.history.texts import TextReader
from foveate.plan import ShownLevel
from foveate.settings import Settings
from foveate.store import SessionRow, Store, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import Origin
from foveate.store.snapshot import SessionSnapshot, WholeTurn
from foveate.tokens import Counter
from foveate.turn import Json, Text


class RetrievedPage(NamedTuple):
    """A page that was put on the board."""

    entry: BoardEntry
    parts: str
    """The outline of a long turn, on its first page; else empty. Not escaped."""


class SessionBoard:
    """The stored board of one session."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        reader: TextReader,
        *,
        settings: Settings,
        publish: Callable[[EventKind, int, dict[str, Json]], None],
        writes: LateWrites,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._reader = reader
        self._settings = settings
        self._publish = publish
        self._writes = writes
        self._lock = asyncio.Lock()

    async def load(self, session: SessionRow) -> Board:
        """Read the board as the newest turn sees it. Expired items are removed, with an event."""
        origin = await self._store.origin(self._session_id)
        left = _unexpired(await self._store.artefacts.board(self._session_id), session.last_turn)
        if left.retrieved:
            await self._save_expired(left, partial(self.keep, left.board, origin))
        return left.board

    async def _save_expired(self, left: ExpiryReport, save: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if await self._writes.write(f"board of {self._session_id}", save):
            for entry in left.retrieved:
                self._publish("board-expired", entry.first, {"name": entry.name})

    async def shown(self, snapshot: SessionSnapshot, *, ends_turn: bool, keep: bool) -> Board:
        """Return the board to show: while a turn is in progress and the prompt does not end it, as the turn began."""
        session = snapshot.session
        left = _unexpired(snapshot.board, session.last_turn)
        board = left.board
        if left.retrieved and keep:
            await self._save_expired(left, partial(self._remove_expired, session.last_turn))
        if not session.is_open or ends_turn:
            return boards.current(board)
        board = boards.without_new_notes(board, session.last_turn)
        if not any(entry.since_turn == session.last_turn for entry in board.retrieved):
            return boards.current(board)
        messages = await self._reader.raw(session, session.last_turn)
        results = [
            "".join(part.text for part in result.content if isinstance(part, Text))
            for message in messages
            for result in message.tool_results
        ]
        return boards.as_begun(board, session.last_turn, results)

    async def _remove_expired(self, turn: int) -> None:
        """Remove expired items from the stored board, which may have newer items than a snapshot."""
        async with self._lock:
            origin = await self._store.origin(self._session_id)
            left = _unexpired(await self._store.artefacts.board(self._session_id), turn)
            if left.retrieved:
                await self.keep(left.board, origin)

    async def note(self, session: SessionRow, note: Note) -> None:
        """Put a note on the board. Concurrent tool calls wait for each other."""
        async with self._lock:
            origin = await self._store.origin(self._session_id)
            await self.keep(boards.renew_note(await self.load(session), note), origin)

    async def change(self, session: SessionRow, change: Callable[[Board], Board]) -> None:
        """Change the stored board. Concurrent changes wait for each other."""
        async with self._lock:
            origin = await self._store.origin(self._session_id)
            await self.keep(change(boards.current(await self.load(session))), origin)

    async def keep(self, board: Board, origin: Origin | None = None) -> None:
        """Store the board, unless turns were removed since `origin` was read."""
        await self._store.artefacts.keep_board(self._session_id, bodies.squeeze(boards.to_json(board)), origin)

    def page_tokens(self, session: SessionRow, counter: Counter) -> int:
        """Return the size of a page of the board."""
        return int(session.budget_tokens / (counter.factor * session.calibration) * self._settings.allotments.board)

    async def retrieve(
        self, session: SessionRow, counter: Counter, blocks: Sequence[TagBlock], page: int, days: Days
    ) -> RetrievedPage:
        """Put a page of retrieved blocks on the board, and return it."""
        exact = session.exact
        pages = await asyncio.to_thread(paginate, blocks, self.page_tokens(session, counter), exact.base, days)
        async with self._lock:
            origin = await self._store.origin(self._session_id)
            grown = boards.put_page(
                await self.load(session),
                blocks,
                pages,
                now_turn=session.last_turn,
                page=page,
                life_turns=self._settings.context.board_life_turns,
                days=days,
            )
            await self.keep(grown, origin)
        entry = grown.retrieved[-1]
        self._publish("turn-retrieved", entry.first, {"name": entry.name, "page": entry.page})
        is_long = entry.level == "R" and entry.first == entry.last and entry.page == 1 and entry.pages > 1
        return RetrievedPage(entry, parts_line(pages) if is_long else "")

    async def with_turns(self, session: SessionRow, board: Board, turns: Sequence[int], room_tokens: int) -> Board:
        """Add turns to the board, each complete, at the best level that fits."""
        held = {turn for entry in board.retrieved for turn in range(entry.first, entry.last + 1)}
        missing = [turn for turn in turns if turn not in held]
        found = await self._store.whole_turns(self._session_id, missing, room_tokens) if missing else {}
        sizes = SentSizes.of(session.model, session.encoding)
        choices = [
            [TagBlock(turn, turn, level, (TagEntry(turn, text),)) for level, text in _texts(whole, room_tokens, sizes)]
            for turn, whole in found.items()
        ]
        count = session.exact.base
        return boards.prefetch(board, choices, now_turn=session.last_turn, budget_tokens=room_tokens, count=count)


def _unexpired(packed: bytes | None, turn: int) -> ExpiryReport:
    """Return a stored board as this turn sees it, and the expired items."""
    return ExpiryReport(Board(), ()) if packed is None else boards.expire(boards.from_json(bodies.expand(packed)), turn)


def _texts(whole: WholeTurn, room_tokens: int, sizes: SentSizes) -> Iterator[tuple[ShownLevel, str]]:
    """Yield the texts of a turn at each level that fits."""
    messages = tuple(restore_message(row) for row in whole.messages if row.body is not None)
    if messages:
        yield "R", sizes.tagged_text(messages)
    made = whole.rendition
    if made and made.smoothed_tokens <= room_tokens:
        yield "S", str(bodies.expand(made.smoothed))
    if made and made.compressed_tokens <= room_tokens:
        yield "C", str(bodies.expand(made.compressed))
