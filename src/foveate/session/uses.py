"""Counts of how often lessons and references are shown, and how often an answer uses them.

An item that a context showed counts as used once per turn, when an answer to that turn is recorded. It helped if the
answer contains facts of it that the prompt does not. The process that made the context counts in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from foveate.cache import BoundedCache
from foveate.compress.facts import find_facts
from foveate.errors import StoreError
from foveate.store import SessionRow, Store
from foveate.store.codec import restore_message

MAX_SESSIONS = 256
"""Maximum number of sessions whose last context is remembered until its answer is recorded."""
MAX_CHARS = 20_000
"""Characters that are read of a prompt, an answer and an item."""
LEAST_WEIGHT = 0.6
"""Minimum weight of a fact that counts."""
LEAST_WORDS = 3
"""Words that an answer must share with an item to count as using it; of `SPECIFIC_KINDS` one is enough."""
SPECIFIC_KINDS = "in#@/uq"
"""Kinds of facts: identifiers, names, numbers, dates, paths, addresses and quotations."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Shown:
    turn: int
    items: frozenset[str]
    prompt: str
    used: set[str] = field(default_factory=set)
    helped: set[str] = field(default_factory=set)


class KnowledgeUses:
    """Counts uses of a store's items of knowledge in the background."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shown: BoundedCache[str, _Shown] = BoundedCache(MAX_SESSIONS)
        self._counting: set[asyncio.Task[None]] = set()

    def show(self, session: SessionRow, items: Collection[str], prompt: str, *, ends_turn: bool) -> None:
        """Note that a context shows these items. `ends_turn`: its prompt ends the turn in progress."""
        turn = session.last_turn + (ends_turn or not session.is_open)
        before = self._shown.get(session.id)
        if before and before.turn == turn:
            self._shown[session.id] = _Shown(turn, before.items | frozenset(items), prompt, before.used, before.helped)
        elif items:
            self._shown[session.id] = _Shown(turn, frozenset(items), prompt)

    def answered(self, tenant: str, session_id: str, turn: int) -> None:
        """Count uses after an answer to a turn was recorded."""
        shown = self._shown.get(session_id)
        if shown and shown.turn == turn and not shown.items <= shown.helped:
            task = asyncio.create_task(self._count(tenant, session_id, shown))
            self._counting.add(task)
            task.add_done_callback(self._counting.discard)

    async def settle(self) -> None:
        """Wait until everything is counted."""
        while self._counting:
            await asyncio.wait(set(self._counting))

    async def _count(self, tenant: str, session_id: str, shown: _Shown) -> None:
        try:
            answer = await self._answer(session_id, shown.turn)
            asked = set(find_facts(shown.prompt[:MAX_CHARS]))
            answered = set(find_facts(answer[:MAX_CHARS])) - asked
            fresh = sorted(shown.items - shown.used)
            shown.used.update(fresh)
            using = [item for item in sorted(shown.items - shown.helped) if await self._helped(tenant, item, answered)]
            helped = [item for item in using if item not in shown.helped]
            shown.helped.update(helped)
            if fresh:
                await self._store.knowledge.count_uses(tenant, fresh, used=1)
            if helped:
                await self._store.knowledge.count_uses(tenant, helped, helped=1)
        except StoreError as error:
            _log.warning("uses of knowledge were not counted: %s", error)

    async def _answer(self, session_id: str, turn: int) -> str:
        rows = await self._store.read(session_id, turn, turn)
        return "\n".join(restore_message(row).text for row in rows if row.role == "assistant" and row.body is not None)

    async def _helped(self, tenant: str, item_id: str, answered: Collection[str]) -> bool:
        """Return whether the facts of an answer show that it used an item."""
        versions = await self._store.knowledge.versions(tenant, item_id)
        if not versions:
            return False
        facts = find_facts(f"{versions[-1].title}\n{versions[-1].text}"[:MAX_CHARS])
        shared = [key for key, weight in facts.items() if weight >= LEAST_WEIGHT and key in answered]
        return len(shared) >= LEAST_WORDS or any(key[:1] in SPECIFIC_KINDS for key in shared)
