"""Files and todos of a conversation, as its tool calls name them, and summaries that a program gives for files.

await session.files.summarize("src/jwt.py", "Signs and checks tokens; keys come from the vault.")
(await session.files.list()).reads
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from foveate.errors import InputError
from foveate.history.driver import FILE_SUMMARIES, read_summaries
from foveate.session.record import check_text
from foveate.store import Store
from foveate.strategy.hybrid.tracker import FileChange, FileRead, Todo, track
from foveate.turn import Turn

READ_TURNS = 200
"""Files and todos are taken from this many of the newest turns."""
MAX_SUMMARIES = 1_000
MAX_SUMMARY_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class TrackedFiles:
    """What a conversation has to do with files."""

    reads: tuple[FileRead, ...]
    """The newest read of each path, with the summary that was given for it, if any."""
    changes: tuple[FileChange, ...]
    """Oldest first, each with the todo it was made for."""
    todos: tuple[Todo, ...]


class Files:
    """The files of one session. Every change is durable when its method returns."""

    def __init__(
        self, store: Store, session_id: str, last_turn: int, load: Callable[[int], Awaitable[Sequence[Turn]]]
    ) -> None:
        """`load` reads the turns from a number on."""
        self._store = store
        self._session_id = session_id
        self._last_turn = last_turn
        self._load = load

    async def list(self) -> TrackedFiles:
        """Files read and changed, and the todo list, from the tool calls of the newest turns."""
        turns = await self._load(max(1, self._last_turn - READ_TURNS + 1))
        given = await self.summaries()
        numbered = [(turn.number or 0, turn.messages) for turn in turns]
        tracker = await asyncio.to_thread(track, numbered, summaries=given)
        reads = tuple(read for _, read in tracker.reads.items())
        return TrackedFiles(reads, tuple(tracker.changes), tuple(tracker.todos))

    async def summarize(self, path: str, summary: str) -> None:
        """Give the summary of a file, as its tool calls name it; an empty one removes it.

        `hybrid` shows it in place of the file's first line wherever it shortens a read of the file from then on.
        """
        if not check_text("path", path).strip():
            raise InputError("the path is empty; write it as the tool calls name it")
        if len(check_text("summary", summary)) > MAX_SUMMARY_CHARS:
            raise InputError(f"the summary of {path} has more than {MAX_SUMMARY_CHARS:,} characters; shorten it")
        given = {**await self.summaries(), path: " ".join(summary.split())}
        kept = {name: text for name, text in given.items() if text}
        if len(kept) > MAX_SUMMARIES:
            raise InputError(f"{MAX_SUMMARIES:,} files have summaries; remove one first")
        text = json.dumps(kept, ensure_ascii=False)
        await self._store.artefacts.keep_document(self._session_id, FILE_SUMMARIES, text)

    async def summaries(self) -> Mapping[str, str]:
        """The summaries that were given, by path."""
        return await read_summaries(self._store, self._session_id)
