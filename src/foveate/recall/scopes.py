"""Scopes: which sessions a piece of knowledge was learned from, and which may recall it; and recall over them.

session:ID     one session
project:NAME   the sessions with this channel label; `project:` those without a label
user:NAME      the sessions that were opened with this scope
org:NAME       the same

A session that was opened with a scope recalls turns of the others in it. Their turns get numbers as if they were one
conversation: those of the session itself come last, behind those of the others in the order of their last use. Between
two sessions some numbers are left out, so that the last turn of one is no neighbour of the first turn of the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from foveate.errors import InputError
from foveate.store import SessionRow, Store, lineage, log
from foveate.store.lineage import TurnSpan, spans
from foveate.store.sql import Connection

if TYPE_CHECKING:
    from foveate.recall.rank import Numbers, Passages

ScopeKind = Literal["session", "project", "user", "org"]
SCOPE_KINDS: tuple[ScopeKind, ...] = get_args(ScopeKind)
MAX_NAME_CHARS = 200
GAP = 3
"""More than the distance over which turns lend each other score."""
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
    return await store.passages.read(lambda connection: read_sessions(connection, tenant, scope))


def read_sessions(connection: Connection, tenant: str, scope: Scope) -> list[SessionRow]:
    """The same within a read transaction."""
    if scope.kind == "session":
        session_id = f"{tenant}:{scope.name}" if tenant else scope.name
        found = lineage.select_sessions(connection, lineage.GET_SESSION, {"id": session_id})
    elif scope.kind == "project":
        found = log.list_sessions(connection, tenant=tenant, channel=scope.name or None)
    else:
        found = log.list_sessions(connection, tenant=tenant, scope=str(scope))
    return [row for row in found if row.tenant == tenant and scope.contains(row, session_id=id_in_tenant(row))]


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that was found; `session` is None if it is one of the session itself."""

    session: SessionRow | None
    turn: int


@dataclass(frozen=True, slots=True)
class SearchedSessions:
    """A session and the others of its scope that have turns."""

    others: Sequence[SessionRow]
    """In the order of their numbers here."""
    offsets: Sequence[int]
    """What is added to the turns of each."""
    own_offset: int
    chain: Sequence[TurnSpan]
    """The turns that the session sees, its ancestors' included."""

    @property
    def last_turns(self) -> Mapping[int, int]:
        """For the number of each session the last of its turns that is searched."""
        seen = {span.session: span.last for span in self.chain}
        return {**seen, **{row.number: row.last_turn for row in self.others}}

    def is_own(self, session: int, turn: int) -> bool:
        """Whether the session itself sees this turn of the session with this number."""
        return any(span.session == session and span.first <= turn <= span.last for span in self.chain)

    def own(self, turns: Iterable[int]) -> set[int]:
        """The numbers here of turns of the session itself."""
        return {turn + self.own_offset for turn in turns}

    def own_turn(self, turn: int | None) -> int | None:
        """The number here of one such turn."""
        return None if turn is None else turn + self.own_offset

    def find(self, number: int) -> RecalledTurn:
        """The turn that has this number here."""
        if number > self.own_offset:
            return RecalledTurn(None, number - self.own_offset)
        place = bisect_right(self.offsets, number - 1) - 1
        return RecalledTurn(self.others[place], number - self.offsets[place])

    def renumber(self, passages: Passages) -> Passages:
        """Passages of an index of all sessions, with the numbers that turns have here."""
        return replace(passages, turn=self._numbers(passages.turn))

    def _numbers(self, turn_keys: Numbers) -> Numbers:
        import numpy as np  # noqa: PLC0415 - loads with the index

        from foveate.recall.table import TURN_BITS, TURN_MASK  # noqa: PLC0415

        order = sorted(range(len(self.others)), key=lambda place: self.others[place].number)
        numbers = np.array([self.others[place].number for place in order], np.int64)
        offsets = np.array([self.offsets[place] for place in order], np.int64)
        session, turn = turn_keys >> TURN_BITS, turn_keys & TURN_MASK
        places = np.minimum(np.searchsorted(numbers, session), len(numbers) - 1)
        found: Numbers = offsets[places] + turn
        for span in self.chain:
            is_own = (session == span.session) & (turn >= span.first) & (turn <= span.last)
            found[is_own] = turn[is_own] + self.own_offset
        return found


def searched_sessions(connection: Connection, session: SessionRow) -> SearchedSessions | None:
    """The session itself and the others of the scope that it was opened with, within its tenant; None if no other has
    turns."""
    if not session.scope:
        return None
    found = read_sessions(connection, session.tenant, Scope.parse(session.scope))
    others = sorted(
        (row for row in found if row.number != session.number and row.last_turn),
        key=lambda row: (row.updated_us, row.number),
    )
    if not others:
        return None
    offsets: list[int] = []
    end = 0
    for row in others:
        offsets.append(end)
        end += row.last_turn + GAP
    chain = [session, *lineage.chain_of(connection, session.id)[1:]]
    return SearchedSessions(others, offsets, end, _own_spans(chain, {row.number for row in others}))


def _own_spans(chain: Sequence[SessionRow], shared: set[int]) -> list[TurnSpan]:
    """The turns that a session sees, given with its ancestors. The turn at which it was forked may have gone on
    elsewhere: of an ancestor that is not in the scope it is left out."""
    own = chain[0].number
    older = [
        span if span.session in shared else TurnSpan(span.session, span.first, span.last - 1, span.last_position)
        for span in spans(chain)
        if span.session != own
    ]
    return [*older, *(span for span in spans(chain) if span.session == own)]


def title_of(session: SessionRow) -> str:
    """The title of a session if that says more than its id."""
    title = " ".join(session.title.split())
    return "" if title == id_in_tenant(session) else title
