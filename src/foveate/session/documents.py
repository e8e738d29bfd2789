"""Documents of a session, such as an epic and tasks. Strategies that use them show them in full.

await session.documents.give("epic", "Move the shop to the new payment service. …")
await session.documents.give("tasks", "- [ ] Read the old code")
"""

from __future__ import annotations

from collections.abc import Mapping

from foveate.errors import InputError
from foveate.session.record import check_text
from foveate.store import SessionRow, Store

NO_TASKS = "(no tasks yet)"
"""Shown if a session has no tasks. Without an epic, the title is shown."""
GIVEN = ("epic", "tasks")
"""Documents that users can set. Goals have their own methods and commands."""
RUN = "run"
"""The document in which a run stores its state."""
PACK = "pack"
"""The document that names the tool packs that the session last used."""
CHAT_MODEL = "chat-model"
"""The document that names the model that a person chose for the session's chat."""


class Documents:
    """The documents of one session. Every change is durable when its method returns."""

    def __init__(self, store: Store, session: SessionRow, limits: Mapping[str, int]) -> None:
        """`limits` has the maximum tokens of each document, by name."""
        self._store = store
        self._session = session
        self._limits = limits

    async def give(self, name: str, text: str) -> None:
        """Set a document, e.g. `epic` or `tasks`, or replace its text. An empty text removes it."""
        if name not in (*GIVEN, RUN, PACK, CHAT_MODEL):
            raise InputError(f"a session has no document {name!r}; available: {', '.join(GIVEN)}")
        check_text(name, text)
        self.check(name, text)
        await self._store.artefacts.keep_document(self._session.id, name, text)

    def check(self, name: str, text: str) -> None:
        """Raise `InputError`, with the excess, if a document is larger than its limit."""
        check_size(name, text, self._limits, self._session)

    async def get(self, name: str) -> str:
        """Return a document's text; empty if there is none."""
        found = await self._store.artefacts.documents(self._session.id)
        return next((row.text for row in found if row.name == name), "")


def check_size(name: str, text: str, limits: Mapping[str, int], session: SessionRow) -> None:
    """Raise `InputError`, with the excess, if a document is larger than its limit."""
    limit = limits.get(name)
    # A token has at least one character, so a short text need not be counted.
    if limit is None or len(text) <= limit:
        return
    tokens = session.exact.base(text)
    if tokens > limit:
        what = "the epic (or the title in its place)" if name == "epic" else f"the list of {name}"
        raise InputError(
            f"{what} has {tokens:,} tokens, {tokens - limit:,} more than the {limit:,} it may have; it is shown whole "
            f"in every context: shorten it, or raise oneshot.{name}_tokens"
        )
