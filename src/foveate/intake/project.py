"""The folder that a coding agent works in, as its request names it: the project label and the scope of its session.

The folder is only a label: it is never opened. It is read where the client itself writes it: in the system prompt
(OpenCode, pi), in a system message next to the first prompt (Claude Code), or in a user message before the first
prompt (Codex). The conversation is not searched: a tool's result can't choose a scope. Clients put files of a project
into their system prompts; if a prompt names several folders, none is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from foveate.additions import folder_in_message, folders_in_system

MAX_FOLDER_CHARS: Final = 190
"""A scope with a longer name is rejected."""
FIRST_MESSAGES: Final = 6
"""Limit of first messages that are searched for a client's description of its environment."""


def folder_of(system: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the folder that a request names; empty if it names none."""
    named = set(folders_in_system(system))
    for message in messages[:FIRST_MESSAGES]:
        role = message.get("role")
        for text in _texts(message):
            if role == "user" and (found := folder_in_message(text)):
                named.add(found)
            elif role in ("system", "developer"):
                named.update(folders_in_system(text))
    folders = {_label(folder) for folder in named}
    return folders.pop() if len(folders) == 1 else ""


def project_scope(folder: str) -> str | None:
    """Return the scope of all sessions in a folder; None if the folder can't be a scope's name."""
    is_name = bool(folder) and len(folder) <= MAX_FOLDER_CHARS and folder.isprintable()
    return f"project:{folder}" if is_name else None


def _label(folder: str) -> str:
    """Return the folder without a trailing separator; empty if it can't be a scope's name."""
    named = folder.strip().rstrip("/\\") or folder.strip()
    return named if project_scope(named) else ""


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a message, in any provider's format."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
