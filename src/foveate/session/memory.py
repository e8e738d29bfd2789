"""Memory of a scope: recall over all its sessions.

memory = fov.memory("user:anna")
for hit in await memory.search("which hotel did we book?"):
    print(hit.session_id, hit.turn_id, hit.text)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from foveate.recall.scopes import Scope, sessions_in
from foveate.recall.search import Hit, Searcher, SearchFilter
from foveate.session.tenant import public_id
from foveate.session.values import SessionInfo, describe_session
from foveate.settings import Settings
from foveate.store import Store


class Memory:
    """The past sessions of one scope, within one tenant. Get it with `Foveate.memory`."""

    def __init__(self, store: Store, searcher: Searcher, settings: Settings, *, tenant: str, scope: str) -> None:
        self._store = store
        self._searcher = searcher
        self._settings = settings
        self._tenant = tenant
        self._scope = Scope.parse(scope)

    @property
    def scope(self) -> str:
        """The scope, e.g. `user:anna`."""
        return str(self._scope)

    async def sessions(self) -> list[SessionInfo]:
        """List the sessions of the scope, most recently used first."""
        default = self._settings.session.budget_tokens
        rows = await sessions_in(self._store, self._tenant, self._scope)
        return [describe_session(row, self._tenant, default_tokens=default) for row in rows]

    async def search(
        self,
        query: str,
        max_results: int = 10,
        *,
        role: str | None = None,
        tool: str | None = None,
        after: str | float | datetime | None = None,
        before: str | float | datetime | None = None,
        file: str | None = None,
        speaker: str | None = None,
        order: str = "relevance",
    ) -> list[Hit]:
        """Search the turns of all sessions of the scope; best first, each with its session.

        Filters are those of `Session.search`. A turn that forks share is found in the session that recorded it.
        """
        ids = frozenset(row.id for row in await sessions_in(self._store, self._tenant, self._scope))
        filters = SearchFilter(
            role=role, tool=tool, after=after, before=before, file=file, session_ids=ids, speaker=speaker
        )
        hits = await self._searcher.search_all(query, max_results, filters, order=order)
        return [replace(hit, session_id=public_id(self._tenant, hit.session_id)) for hit in hits]
