"""Files and todos that the tool calls of a conversation name, and summaries that a program sets for files.

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

__all__ = ["FileChange", "FileRead", "Files", "Todo", "TrackedFiles"]

READ_TURNS = 200
"""Number of newest turns that are scanned for files and todos."""
MAX_SUMMARIES = 1_000
MAX_SUMMARY_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class TrackedFiles:
    """Files that a conversation has read and changed, and its todo list."""

    reads: tuple[FileRead, ...]
    """The newest read of each path, with the file's summary, if one is set."""
    changes: tuple[FileChange, ...]
    """Changes of files, oldest first, each with the todo it was made for."""
    todos: tuple[Todo, ...]


class Files:
    """The files of one session. Every change is durable when its method returns."""

    def __init__(
        self, store: Store, session_id: str, last_turn: int, load: Callable[[int], Awaitable[Sequence[Turn]]]
    ) -> None:
        """`load` reads all turns from a certain number on."""
        self._store = store
        self._session_id = session_id
        self._last_turn = last_turn
        self._load = load

    async def list(self) -> TrackedFiles:
        """List files read and changed, and the todos, from the tool calls of the newest 200 turns."""
        turns = await self._load(max(1, self._last_turn - READ_TURNS + 1))
        summaries = await self.summaries()
        numbered = [(turn.number or 0, turn.messages) for turn in turns]
        tracker = await asyncio.to_thread(track, numbered, summaries=summaries)
        reads = tuple(read for _, read in tracker.reads.items())
        return TrackedFiles(reads, tuple(tracker.changes), tuple(tracker.todos))

    async def summarize(self, path: str, summary: str) -> None:
        """Set the summary of a file, with the path as tool calls name it; an empty summary removes it.

        From then on, `hybrid` shows it instead of the file's first line wherever it shortens a read of the file.
        """
        if not check_text("path", path).strip():
            raise InputError("the path is empty; write it as the tool calls name it")
        if len(check_text("summary", summary)) > MAX_SUMMARY_CHARS:
            raise InputError(f"the summary of {path} has more than {MAX_SUMMARY_CHARS:,} characters; shorten it")
        changed = {**await self.summaries(), path: " ".join(summary.split())}
        kept = {name: text for name, text in changed.items() if text}
        if len(kept) > MAX_SUMMARIES:
            raise InputError(f"{MAX_SUMMARIES:,} files have summaries, the maximum; remove one first")
        text = json.dumps(kept, ensure_ascii=False)
        await self._store.artefacts.keep_document(self._session_id, FILE_SUMMARIES, text)

    async def summaries(self) -> Mapping[str, str]:
        """Return the summaries that are set, by path."""
        return await read_summaries(self._store, self._session_id)
