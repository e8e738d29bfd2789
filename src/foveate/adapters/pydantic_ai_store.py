"""Pydantic AI: a `ConversationStore` whose conversations are sessions.

    store = FoveateConversationStore(fov)
    conversation = await store.load("support-42") or Conversation(conversation_id="support-42")
    result = await agent.run("…", conversation=conversation)
    await store.save(result)

Each save records its new messages as turns of the session; a rewritten history and a `branch` continue on a branch of
it, a `fork` is a session of its own. The messages come back exactly. `delete` removes a conversation from the store's
list: its turns stay in the log until its session is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from pydantic import TypeAdapter

from foveate.adapters.bridge import AnyFoveate, FoveateBridge
from foveate.adapters.pydantic_ai import FORMAT, dump_messages, without_system
from foveate.errors import SessionNotFound
from foveate.intake.chain import read_history
from foveate.intake.conversation import Overhead
from foveate.intake.recorder import Placement, Recorder, SessionChoice
from foveate.intake.sessions import ClientId
from foveate.session.tenant import public_id, stored_id
from foveate.session.values import PROGRAM_STATE, ResponseRow

try:
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
except ImportError as error:
    raise ImportError(f"{error.name or 'pydantic-ai'} is missing: pip install 'foveate[pydantic-ai]'") from error

STATE: Final = f"{PROGRAM_STATE}{FORMAT}"
DELETED: Final = b"null"
"""The state of a session whose record was deleted."""
_RECORD: Final[TypeAdapter[ConversationRecord]] = TypeAdapter(ConversationRecord)


class FoveateConversationStore(ConversationStore):
    """Stores conversations of Pydantic AI.

    A record is a state of its session. The entries of a prompt in a save are one row under the id of the last of them;
    the rows of the others refer to it.
    """

    def __init__(self, fov: AnyFoveate) -> None:
        self._bridge = FoveateBridge(fov)
        self._fov = self._bridge.fov
        self._tenant = self._fov.tenant_name
        self._recorder = Recorder(self._fov, self._fov.clients, self._tenant)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation."""
        return _record(await self._bridge.wait(self._state(conversation_id)), conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return all records, or those of a scope, the newest first."""
        records = [record for record in await self._bridge.wait(self._records()) if scope in (None, record.scope)]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Record new messages in the log, then their entries, then the conversation's record."""
        await self._bridge.wait(self._write(record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Remove a record; turns and entries stay until the session is deleted."""
        await self._bridge.wait(self._replace(conversation_id, expected_revision, DELETED))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry by its id."""
        return (await self._bridge.wait(self._saved_up_to(entry_id)))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, or the last of them. Pruned entries are omitted."""
        return await self._bridge.wait(self._history(head_id, limit))

    async def _state(self, conversation_id: str) -> bytes | None:
        try:
            return await self._fov.store.artefacts.state(stored_id(self._tenant, conversation_id), STATE)
        except SessionNotFound:
            return None

    async def _records(self) -> list[ConversationRecord]:
        rows = await self._fov.store.list_sessions(tenant=self._tenant)
        names = [public_id(self._tenant, row.id) for row in rows]
        states = await asyncio.gather(*map(self._state, names))
        return [record for record in map(_record, states, names) if record is not None]

    async def _write(
        self, record: ConversationRecord, new: Sequence[ConversationEntry], expected_revision: str | None
    ) -> None:
        name = record.conversation_id
        known = _record(await self._state(name), name)
        if (known.revision if known else None) != expected_revision:
            raise ConversationConflict(name)
        if not new and record.head_id is not None and await self._row(record.head_id) is None:
            raise ConversationConflict(name)
        if new:
            for entries in _by_prompt(new):
                await self._keep(name, entries)
        elif known is None:
            await self._begin(name, record.head_id)
        await self._replace(name, expected_revision, _RECORD.dump_json(record))

    async def _begin(self, name: str, head_id: str | None) -> None:
        """Open the session of a conversation without its own messages: empty, or a fork."""
        if history := await self._history(head_id, None):
            await self._place(name, [entry.message for entry in history])
        else:
            await self._fov.session(name, platform=FORMAT)

    async def _keep(self, name: str, new: Sequence[ConversationEntry]) -> None:
        """Record messages and their entries."""
        parent = None if new[0].parent_id is None else await self._row(new[0].parent_id)
        before: list[ConversationEntry] = []
        if parent is not None and not parent.chain:
            before = await self._history(new[0].parent_id, None)
        conversation = [entry.message for entry in (*before, *new)]
        placed = await self._place(name, conversation, start=parent.chain if parent else "")
        messages = dump_messages([entry.message for entry in new])
        saved = {"first_parent": new[0].parent_id, "ids": [entry.id for entry in new], "messages": messages}
        home = ResponseRow(new[-1].id, placed.name, placed.turn, placed.key, saved)
        others = [replace(home, id=entry.id, chain="", data={"saved": new[-1].id}) for entry in new[:-1]]
        add, session_id = self._fov.clients.add_response, stored_id(self._tenant, placed.name)
        await asyncio.gather(*(add(session_id, row) for row in (home, *others)))

    async def _place(self, name: str, messages: Sequence[ModelMessage], *, start: str = "") -> Placement:
        """Record the new messages of a history."""
        history = read_history(FORMAT, dump_messages(without_system(messages)[1]), start=start)
        named = ClientId(name, "conversation_id", is_ours=True)
        placed = await self._recorder.place(Overhead(), history, named, SessionChoice(platform=FORMAT))
        assert isinstance(placed, Placement), "a session that is named by its program is always recorded"
        self._recorder.release(placed)
        return placed

    async def _replace(self, name: str, expected_revision: str | None, new: bytes) -> None:
        """Replace a record that has this revision."""
        old = await self._state(name)
        known = _record(old, name)
        is_expected = (known.revision if known else None) == expected_revision
        artefacts, session_id = self._fov.store.artefacts, stored_id(self._tenant, name)
        if not is_expected or not await artefacts.replace_state(session_id, STATE, old, new):
            raise ConversationConflict(name)

    async def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        pieces: list[list[ConversationEntry]] = []
        entry_id, missing = head_id, 0 if limit == 0 else limit
        while entry_id is not None and (missing is None or missing > 0):
            try:
                saved = await self._saved_up_to(entry_id)
            except LookupError:
                if not pieces:
                    raise
                break
            pieces.append(saved)
            entry_id, missing = saved[0].parent_id, None if missing is None else missing - len(saved)
        entries = [entry for piece in reversed(pieces) for entry in piece]
        return entries if limit is None else entries[max(0, len(entries) - limit) :]

    async def _saved_up_to(self, entry_id: str) -> list[ConversationEntry]:
        """Return the entries of one save, up to this one."""
        row = await self._row(entry_id)
        if row is not None and "saved" in row.data:
            row = await self._row(row.data["saved"])
        if row is None or "ids" not in row.data:
            raise LookupError(f"no entry {entry_id[:100]!r} is stored, or it was pruned")
        ids: list[str] = row.data["ids"]
        count = ids.index(entry_id) + 1
        messages = ModelMessagesTypeAdapter.validate_python(row.data["messages"][:count])
        links = pairwise([row.data["first_parent"], *ids[:count]])
        return [
            ConversationEntry(id=own, parent_id=parent, message=message)
            for (parent, own), message in zip(links, messages, strict=True)
        ]

    async def _row(self, entry_id: str) -> Any:
        return await self._fov.clients.get_response(self._tenant, entry_id)


def _by_prompt(entries: Sequence[ConversationEntry]) -> list[list[ConversationEntry]]:
    """Split new entries at prompts: each part is stored with its own turn, and pruned with it."""
    parts: list[list[ConversationEntry]] = []
    for entry in entries:
        if not parts or any(part.part_kind == "user-prompt" for part in entry.message.parts):
            parts.append([])
        parts[-1].append(entry)
    return parts


def _record(data: bytes | None, name: str) -> ConversationRecord | None:
    """Return the record of a session's state. A forked session has a copy of its parent's."""
    if data is None or data == DELETED:
        return None
    record = _RECORD.validate_json(data)
    return record if record.conversation_id == name else None
