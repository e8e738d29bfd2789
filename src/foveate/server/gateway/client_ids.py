"""The session that a request names: by our own header or path, or as known clients do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from foveate.additions import is_compaction
from foveate.intake.sessions import BRANCH, CLAUDE_CODE_ID, ClientId

MAX_ID_CHARS: Final = 200


def client_id(headers: Mapping[str, str], hints: Mapping[str, str], path_session: str | None) -> ClientId | None:
    """The session that a request names, by the rank of what names it; None if nothing does."""
    if ours := _clean(path_session or headers.get("x-foveate-session")):
        return ClientId(ours, "path" if path_session else "x-foveate-session", is_ours=True)
    if claude := _clean(headers.get(CLAUDE_CODE_ID)):
        return _with_agent("claude-code", claude, headers.get("x-claude-code-agent-id"), CLAUDE_CODE_ID)
    agent = headers.get("user-agent", "").lower()
    if "codex" in agent or "x-codex-turn-metadata" in headers:
        session, thread = _clean(headers.get("session-id")), _clean(headers.get("thread-id"))
        if session:
            codex = _with_agent("codex", session, thread if thread != session else None, "session-id")
            return replace(codex, is_summary=is_compaction(headers))
    for header in ("x-session-id", "x-session-affinity", "session_id"):
        if named := _clean(headers.get(header)):
            parent = _clean(headers.get("x-parent-session-id"))
            return ClientId(named, header, parent=parent)
    for hint in ("session_id", "prompt_cache_key"):
        if named := _clean(hints.get(hint)):
            return ClientId(named, hint)
    return None


def _with_agent(client: str, session: str, agent: str | None, source: str) -> ClientId:
    name = f"{client}-{session}"
    if agent := _clean(agent):
        return ClientId(f"{name}{BRANCH}{agent}", source, parent=name)
    return ClientId(name, source)


def _clean(value: str | None) -> str | None:
    """The id, if it can be one."""
    if not value or not value.strip() or len(value) > MAX_ID_CHARS or not value.isprintable():
        return None
    return value.strip()
