"""What turns are found by, made afterwards: of turns recorded before there was an index, and by other models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from foveate.background.making import make_passages
from foveate.background.pool import Pool
from foveate.errors import Damaged
from foveate.recall.embedding import STATIC, STATIC_NAME, Embedder, index_maker, load_embedder
from foveate.recall.indexing import EMBEDDED_CHARS
from foveate.settings import RecallSettings
from foveate.store import Store
from foveate.store.passages import NewPassages

BATCH_TURNS = 64

Progress = Callable[[int], object]

_log = logging.getLogger(__name__)


class Indexer:
    """Works through the turns that lack an entry, or have one by another maker, the newest first."""

    def __init__(self, store: Store, settings: RecallSettings, pool: Pool) -> None:
        self._store = store
        self._settings = settings
        self._pool = pool
        self._embedder: Embedder | None = None

    async def finish(self, session_id: str, progress: Progress | None = None) -> None:
        """Make all that a session lacks; an index that can't be written waits to be rebuilt."""
        try:
            await self._finish(session_id, progress)
        except Damaged as error:
            _log.warning("session %s is not indexed: %s", session_id, error)

    async def _finish(self, session_id: str, progress: Progress | None) -> None:
        index = self._store.passages
        if self._settings.embeddings != STATIC:
            await index.want(session_id)  # those that were just made have no vectors yet
        elif session_id not in await index.unindexed():
            return
        while lacking := await index.lacking(session_id, self._maker(), BATCH_TURNS):
            made = await self._make(session_id, lacking)
            if not made:
                return  # what can't be indexed is looked through when something is searched
            await index.add(session_id, made)
            await index.note_made(session_id, self._maker())
            if progress:
                progress(len(made))
        await index.note_made(session_id, self._maker())

    def _maker(self) -> str:
        if self._settings.embeddings == STATIC:
            return index_maker(STATIC_NAME)
        self._embedder = self._embedder or load_embedder(self._settings)
        return index_maker(self._embedder.name)

    async def _make(self, session_id: str, lacking: Sequence[tuple[int, int]]) -> list[NewPassages]:
        jobs = []
        for turn, messages in lacking:
            rows = (await self._store.read(session_id, turn, turn))[:messages]
            if rows and all(row.body is not None for row in rows):
                jobs.append((turn, rows, self._settings.embeddings))
        made = [entry for entry in await self._pool.run(make_passages, jobs) if entry is not None]
        return made if self._embedder is None else [await self._with_vectors(self._embedder, entry) for entry in made]

    async def _with_vectors(self, embedder: Embedder, entry: NewPassages) -> NewPassages:
        from foveate.recall.vectors import pack  # noqa: PLC0415 - numpy loads where another model is used

        vectors = await embedder.embed([entry.texts[number].text[:EMBEDDED_CHARS] for number in entry.embedded])
        return replace(entry, maker=self._maker(), vectors=pack(vectors, entry.embedded))
