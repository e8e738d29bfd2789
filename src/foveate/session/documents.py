"""Documents of a session, such as an epic and tasks, shown in full by the strategies that use them.

await session.documents.give("epic", "Move the shop to the new payment service. …")
await session.documents.give("tasks", "- [ ] Read the old code")
"""

from __future__ import annotations

from collections.abc import Mapping

from foveate.errors import InputError
from foveate.session.record import check_text
from foveate.store import SessionRow, Store

NO_TASKS = "(no tasks yet)"
"""Shown where a session has no tasks; without an epic, its title is shown."""
GIVEN = ("epic", "tasks")
"""What can be given; goals have commands of their own."""
RUN = "run"
"""What a run keeps of itself."""
PACK = "pack"
"""The tool packs that the session last used."""


class Documents:
    """The documents of one session. Every change is durable when its method returns."""

    def __init__(self, store: Store, session: SessionRow, limits: Mapping[str, int]) -> None:
        """`limits` has the most tokens a document may take, by name."""
        self._store = store
        self._session = session
        self._limits = limits

    async def give(self, name: str, text: str) -> None:
        """Set or replace a document. An empty text removes it."""
        if name not in (*GIVEN, RUN, PACK):
            raise InputError(f"a session has no document {name!r}; available: {', '.join(GIVEN)}")
        check_text(name, text)
        self.check(name, text)
        await self._store.artefacts.keep_document(self._session.id, name, text)

    def check(self, name: str, text: str) -> None:
        """Raise `InputError`, with the excess, if a document is larger than its limit."""
        check_size(name, text, self._limits, self._session)

    async def get(self, name: str) -> str:
        """A document's text; empty if there is none."""
        found = await self._store.artefacts.documents(self._session.id)
        return next((row.text for row in found if row.name == name), "")


def check_size(name: str, text: str, limits: Mapping[str, int], session: SessionRow) -> None:
    """An error that says by how much, if a document is larger than it may be."""
    limit = limits.get(name)
    # A token is a character at least, so a short text need not be counted.
    if limit is None or len(text) <= limit:
        return
    tokens = session.exact.base(text)
    if tokens > limit:
        what = "the epic (or the title in its place)" if name == "epic" else f"the list of {name}"
        raise InputError(
            f"{what} has {tokens:,} tokens, {tokens - limit:,} more than the {limit:,} it may have; it is shown whole "
            f"in every context: shorten it, or raise oneshot.{name}_tokens"
        )
