"""The values of the file cabinet, and of stored prompts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """A content to file in the cabinet."""

    tenant: str
    digest: bytes
    """SHA-256 of the content."""
    size: int
    is_packed: bool
    data: bytes
    """Compressed with zstd if `is_packed`."""
    name: str
    media_type: str
    source: str
    expires_us: int
    session_id: str | None = None
    """The session whose tool returned it; None: filed by hand."""


@dataclass(frozen=True, slots=True)
class CabinetRow:
    """A key of the file cabinet."""

    tenant: str
    key: str
    digest: bytes
    size: int
    name: str
    media_type: str
    source: str
    session_id: str | None
    turn: int | None
    created_us: int
    expires_us: int
    removed_us: int | None = None


@dataclass(frozen=True, slots=True)
class TurnContentRow:
    """A content that a turn refers to. `key` is empty if it has none any more."""

    turn: int
    tenant: str
    digest: bytes
    size: int
    key: str
    name: str
    media_type: str
    source: str


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A version of a stored prompt. Without a text it is a return to the built-in one."""

    tenant: str
    key: str
    version: int
    text: str | None
    created_us: int
