"""Claude Agent SDK: a `SessionStore` that records every run in the log, and from which the SDK resumes.

    options = ClaudeAgentOptions(session_store=FoveateSessionStore(fov))

Entries are recorded as Claude Code writes them, each once by its `uuid`, and returned exactly. A transcript is the
session `project/session`, that of a sub-agent `project/session/subagents/…`. Nothing of the SDK is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from foveate.adapters.bridge import AnyFoveate, FoveateBridge
from foveate.errors import InvalidMessage, SessionNotFound
from foveate.session.record import as_messages
from foveate.session.values import SessionInfo

FORMAT: Final = "claude-code"
PLATFORM: Final = "claude-agent-sdk"
UNREAD: Final = "foveate-unread"
"""The type of a record that wraps an unreadable entry; it is stored, but shown to no model."""

Entry: TypeAlias = Mapping[str, Any]
Key: TypeAlias = Mapping[str, str]


class FoveateSessionStore:
    """Stores the SDK's transcripts: `append`, `load`, `list_sessions`, `list_subkeys`, `delete`."""

    def __init__(self, fov: AnyFoveate) -> None:
        self._bridge = FoveateBridge(fov)

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Record entries; an entry with a known `uuid` is skipped."""
        if entries:
            await self._bridge.wait(self._append(key, entries))

    async def load(self, key: Key) -> list[Any] | None:
        """Return all entries of a transcript; None if there is none."""
        return await self._bridge.wait(self._load(key))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the transcripts of a project, without those of sub-agents."""
        found = await self._bridge.wait(self._transcripts(project_key))
        return [
            {"session_id": name, "mtime": int(info.updated_at.timestamp() * 1_000)}
            for name, info in found.items()
            if "/" not in name
        ]

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the sub-agents' transcripts of a session."""
        beginning = f"{key['session_id']}/"
        found = await self._bridge.wait(self._transcripts(key["project_key"]))
        return [name.removeprefix(beginning) for name in found if name.startswith(beginning)]

    async def delete(self, key: Key) -> None:
        """Delete a transcript; for a session, also those of its sub-agents. The SDK calls it only on request."""
        await self._bridge.wait(self._delete(key))

    async def _append(self, key: Key, entries: Sequence[Entry]) -> None:
        session = await self._bridge.fov.session(_session_id(key), platform=PLATFORM, channel=key["project_key"])
        uuids = [entry.get("uuid") for entry in entries]
        await session.record_all([_readable(entry) for entry in entries], format=FORMAT, key=uuids)

    async def _load(self, key: Key) -> list[Any] | None:
        try:
            session = await self._bridge.fov.open_session(_session_id(key))
        except SessionNotFound:
            return None
        messages = [message for turn in await session.load_turns() for message in turn.messages]
        return [_entry(message.original.data) for message in messages if message.original] or None

    async def _transcripts(self, project_key: str) -> dict[str, SessionInfo]:
        infos = await self._bridge.fov.sessions(platform=PLATFORM, channel=project_key)
        beginning = f"{project_key}/"
        return {info.id.removeprefix(beginning): info for info in infos if info.id.startswith(beginning)}

    async def _delete(self, key: Key) -> None:
        own = _session_id(key).removeprefix(f"{key['project_key']}/")
        for name, info in (await self._transcripts(key["project_key"])).items():
            if name == own or name.startswith(f"{own}/"):
                await self._bridge.fov.delete_session(info.id)


def _session_id(key: Key) -> str:
    parts = (key["project_key"], key["session_id"], key.get("subpath"))
    return "/".join(part for part in parts if part)


def _readable(entry: Entry) -> Entry:
    """Return the entry, or a record that wraps it."""
    try:
        as_messages([entry], FORMAT)
    except InvalidMessage:
        return {"type": UNREAD, "entry": dict(entry)}
    return entry


def _entry(data: Any) -> Any:
    return data["entry"] if isinstance(data, Mapping) and data.get("type") == UNREAD else data
