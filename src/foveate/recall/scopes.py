"""Scopes: which sessions a piece of knowledge was learned from, and which may recall it.

session:ID     one session
project:NAME   the sessions with this channel label; `project:` those without a label
user:NAME      the sessions that were opened with this scope
org:NAME       the same
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from foveate.errors import InputError
from foveate.store import SessionRow, Store

if TYPE_CHECKING:
    from foveate.store.index_reader import IndexReader

ScopeKind = Literal["session", "project", "user", "org"]
SCOPE_KINDS: tuple[ScopeKind, ...] = get_args(ScopeKind)
MAX_NAME_CHARS = 200
_EXAMPLES = "session:ID, project:NAME, user:NAME or org:NAME"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """A set of sessions within one tenant."""

    kind: ScopeKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Scope:
        kind, separator, name = text.partition(":")
        known: dict[str, ScopeKind] = {each: each for each in SCOPE_KINDS}
        if not separator or kind not in known:
            raise InputError(f"{text[:80]!r} is not a scope; write {_EXAMPLES}")
        if not name.strip() and kind != "project":
            raise InputError(f"the scope {text!r} has no name; write {_EXAMPLES}")
        if len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise InputError(f"the name of a scope is printable and at most {MAX_NAME_CHARS} characters long")
        return cls(known[kind], name.strip())

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def contains(self, session: SessionRow, *, session_id: str) -> bool:
        """Whether a session is in it; `session_id` is the id that its tenant sees."""
        if self.kind == "session":
            return session_id == self.name
        if self.kind == "project":
            return (session.channel or "") == self.name
        return session.scope == str(self)


def own_scopes(session: SessionRow, *, session_id: str) -> tuple[Scope, ...]:
    """The scopes that a session is in: itself, its project if it has a label, and the scope it was opened with."""
    found: Iterable[Scope] = [Scope("session", session_id)]
    if session.channel:
        found = [*found, Scope("project", session.channel)]
    if session.scope:
        found = [*found, Scope.parse(session.scope)]
    return tuple(dict.fromkeys(found))


def id_in_tenant(session: SessionRow) -> str:
    """The id of a session as its tenant sees it."""
    return session.id.removeprefix(f"{session.tenant}:") if session.tenant else session.id


async def sessions_in(store: Store, tenant: str, scope: Scope) -> list[SessionRow]:
    """The sessions of a tenant that are in a scope, the last used first; those of the owner for an empty tenant."""
    return await store.passages.read(lambda reader: read_sessions(reader, tenant, scope))


def read_sessions(reader: IndexReader, tenant: str, scope: Scope) -> list[SessionRow]:
    """The same within a read transaction."""
    if scope.kind == "session":
        found = reader.sessions(tenant, session_id=f"{tenant}:{scope.name}" if tenant else scope.name)
    elif scope.kind == "project":
        found = reader.sessions(tenant, channel=scope.name or None)
    else:
        found = reader.sessions(tenant, scope=str(scope))
    return [row for row in found if row.tenant == tenant and scope.contains(row, session_id=id_in_tenant(row))]
