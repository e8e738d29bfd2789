"""The values of the server's clients: access keys, the histories they send, and their responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from foveate.store.rows import SessionRow
from foveate.turn import Json

PROGRAM_STATE: Final = "program:"
"""Begins the name of a session's state that a program keeps: ids and counts, none of its words. Pruning keeps it."""


@dataclass(frozen=True, slots=True)
class AccessKeyRow:
    """A key of the server; its secret is stored as a hash only."""

    id: str
    name: str
    digest: bytes
    tenant: str
    rights: str
    """Separated by spaces."""
    created_us: int
    revoked_us: int | None = None


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """A message that has the key of a client's history."""

    key: str
    session_id: str
    turn: int
    is_head: bool
    """No later message of its session has a key."""
    ends_turn: bool
    """No later message of its turn has a key."""
    updated_us: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A session and what its log holds."""

    row: SessionRow
    messages: int
    """Messages that contexts show, those of the sessions it forked from included."""
    keyed: int
    """Of these, the ones with a key: those that a client knows."""
    tokens: int
    is_plain: bool
    """No pin, document or board is shown beside them, and nothing of them was pruned."""


@dataclass(frozen=True, slots=True)
class LocatedHistory:
    """Where the longest known beginning of a client's history is; both None for an unknown one."""

    place: KnownPlace | None
    standing: Standing | None


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """A response as a client got it, and the key of the history that it ends."""

    id: str
    session_id: str
    turn: int
    chain: str
    data: Json
