"""The index within one read transaction: passages, and the turns, sessions and items of knowledge around them."""

from __future__ import annotations

from collections.abc import Sequence

from foveate.store import derived, knowledge, lineage, log, passages
from foveate.store.knowledge import KnowledgeKind, KnowledgeMark, KnowledgeRow
from foveate.store.rows import NEWEST_ID, IndexSnapshot, MessageRow, PassagesRow, PassageText, SessionRow
from foveate.store.sql import Connection


class IndexReader:
    """Reads at one moment; `PassageIndex` documents the methods that it has too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def look(
        self,
        session_id: str | None,
        *,
        after: int,
        phrases: Sequence[tuple[str, int]],
        limit: int,
        until: int = NEWEST_ID,
        is_most: bool = False,
    ) -> IndexSnapshot:
        return passages.look(
            self._connection, session_id, after=after, phrases=phrases, limit=limit, until=until, is_most=is_most
        )

    def rows(self, session_id: str, ids: Sequence[int], turns: Sequence[int]) -> list[PassagesRow]:
        return passages.rows(self._connection, session_id, ids, turns)

    def postings(self, session_id: str | None, phrase: str, *, field: str) -> list[int]:
        return passages.postings(self._connection, session_id, phrase, field=field)

    def among(self, phrases: Sequence[str], texts: Sequence[PassageText]) -> list[list[int]]:
        return passages.among(self._connection, phrases, texts)

    def texts(self, ids: Sequence[int]) -> dict[int, list[PassageText]]:
        return passages.texts(self._connection, ids)

    def messages(self, session_id: str, turn: int) -> list[MessageRow]:
        """The messages of a turn."""
        return log.read(self._connection, session_id, turn, turn)

    def tiny(self, session_id: str, turn: int) -> str | None:
        """A turn in one sentence; None if it has none yet."""
        found = derived.tinies(self._connection, session_id, turn, turn)
        return found[-1][1] if found else None

    def lineage(self, session_id: str) -> list[SessionRow]:
        """A session and its ancestors, nearest first."""
        return lineage.chain_of(self._connection, session_id)

    def sessions(
        self, tenant: str, *, scope: str | None = None, channel: str | None = None, session_id: str | None = None
    ) -> list[SessionRow]:
        """The sessions of a tenant with this scope, this channel label or this id, the last used first."""
        if session_id is not None:
            found = lineage.select_sessions(self._connection, lineage.GET_SESSION, {"id": session_id})
            return [row for row in found if row.tenant == tenant]
        return log.list_sessions(self._connection, tenant=tenant, scope=scope, channel=channel)

    def mark(self, tenant: str, scopes: Sequence[str]) -> KnowledgeMark:
        """The mark of the current items of these scopes; it changes with them."""
        return knowledge.mark(self._connection, tenant, scopes)

    def items(self, tenant: str, scopes: Sequence[str], kinds: Sequence[KnowledgeKind]) -> list[KnowledgeRow]:
        """The current items of these kinds and scopes."""
        return [
            row for kind in kinds for row in knowledge.list_items(self._connection, tenant, scopes=scopes, kind=kind)
        ]
