"""Delayed indexing: of turns recorded before the index existed, or indexed with other models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from foveate.errors import Damaged, ModelError
from foveate.models.caller import Caller
from foveate.recall.embed import STATIC, STATIC_NAME, Embedder, index_maker, load_embedder
from foveate.recall.passages import EMBEDDED_CHARS
from foveate.settings import Settings
from foveate.store import Store
from foveate.store.rows import NewPassages
from foveate.worker.pool import Pool
from foveate.worker.renditions import make_passages

BATCH_TURNS = 64

Progress = Callable[[int], object]

_log = logging.getLogger(__name__)


class Indexer:
    """Indexes the turns without an entry, or with one of another maker, the newest first."""

    def __init__(self, store: Store, settings: Settings, *, pool: Pool, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._pool = pool
        self._caller = caller
        self._embedder: Embedder | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def finish(self, session_id: str, progress: Progress | None = None) -> bool:
        """Index everything missing in a session; return False if its vectors are postponed.

        Until then its turns are found by their words. An index that can't be written must be rebuilt.
        """
        lock = self._locks.get(session_id) or self._locks.setdefault(session_id, asyncio.Lock())
        try:
            async with lock:  # concurrent runs would pay for the same vectors twice
                await self._finish(session_id, progress)
        except Damaged as error:
            _log.warning("session %s could not be indexed: %s", session_id, error)
        except ModelError as error:
            _log.warning("session %s has no vectors yet and is found by its words: %s", session_id, error)
            return False
        return True

    async def _finish(self, session_id: str, progress: Progress | None) -> None:
        index = self._store.passages
        if self._settings.recall.embeddings != STATIC:
            await index.want(session_id)  # new entries have no vectors yet
        elif session_id not in await index.unindexed():
            return
        maker = await self._maker()
        while lacking := await index.lacking(session_id, maker, BATCH_TURNS):
            origin = await self._store.origin(session_id)
            made = await self._make(session_id, lacking)
            if not made:
                return  # turns that can't be indexed are scanned by each search
            async for ready in self._ready(made, maker):
                await index.add(session_id, ready, origin)
                await index.note_made(session_id, maker)
                if progress:
                    progress(len(ready))
        await index.note_made(session_id, maker)

    async def _maker(self) -> str:
        if self._settings.recall.embeddings == STATIC:
            return index_maker(STATIC_NAME)
        self._embedder = self._embedder or load_embedder(self._settings.recall, self._caller)
        await self._embedder.learn()
        return index_maker(self._embedder.name)

    async def _make(self, session_id: str, lacking: Sequence[tuple[int, int]]) -> list[NewPassages]:
        jobs = []
        for turn, messages in lacking:
            rows = (await self._store.read(session_id, turn, turn))[:messages]
            if rows and all(row.body is not None for row in rows):
                jobs.append((turn, rows, self._settings.recall.embeddings))
        return [entry for entry in await self._pool.run(make_passages, jobs) if entry is not None]

    async def _ready(self, made: list[NewPassages], maker: str) -> AsyncIterator[list[NewPassages]]:
        """Yield the passages with their vectors: all at once, or one request at a time."""
        if self._embedder is None:
            yield made
            return
        for some in self._requests(made):
            yield await self._with_vectors(self._embedder, some, maker)

    def _requests(self, made: Sequence[NewPassages]) -> Iterator[list[NewPassages]]:
        """Yield groups of turns whose texts fill about one request: if a later one hits a limit, earlier ones are not
        paid again."""
        some: list[NewPassages] = []
        texts = 0
        for entry in made:
            if some and texts + len(entry.embedded) > self._settings.recall.embeddings_batch:
                yield some
                some, texts = [], 0
            some.append(entry)
            texts += len(entry.embedded)
        yield some

    async def _with_vectors(self, embedder: Embedder, made: Sequence[NewPassages], maker: str) -> list[NewPassages]:
        """All vectors of several turns are asked for together."""
        from foveate.recall.table import pack  # noqa: PLC0415 - numpy loads where another model is used

        texts = [entry.texts[number].text[:EMBEDDED_CHARS] for entry in made for number in entry.embedded]
        vectors = await embedder.embed(texts)
        found: list[NewPassages] = []
        start = 0
        for entry in made:
            end = start + len(entry.embedded)
            found.append(replace(entry, maker=maker, vectors=pack(vectors[start:end], entry.embedded)))
            start = end
        return found
