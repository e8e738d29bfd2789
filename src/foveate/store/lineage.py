"""The lineage of a session: its ancestors' turns up to each fork, then its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from foveate.errors import SessionNotFound
from foveate.store.rows import SESSION_COLUMNS, Draft, Head, Origin, Place, SessionRow
from foveate.store.sql import Connection, Values
from foveate.turn import starts_turn

NO_LIMIT = 2**62
ERASED_SINCE = """WITH RECURSIVE line (number, id, parent) AS (
    SELECT number, id, parent FROM sessions WHERE number = :session
    UNION ALL SELECT s.number, s.id, s.parent FROM sessions s JOIN line l ON s.number = l.parent)
    SELECT 1 FROM erasures e JOIN line l ON e.session_id = l.id WHERE e.at_us >= :since_us LIMIT 1"""
BRANCH: Final = "~"
"""Separates the id of a session from the suffix of its branches and sub-agents."""

_SELECTED = ", ".join("p.id" if name == "parent_id" else f"s.{name}" for name in SESSION_COLUMNS)
SELECT_SESSIONS = f"SELECT {_SELECTED} FROM sessions s LEFT JOIN sessions p ON p.number = s.parent"  # noqa: S608
GET_SESSION = f"{SELECT_SESSIONS} WHERE s.id = :id"
GET_SESSION_BY_NUMBER = f"{SELECT_SESSIONS} WHERE s.number = :number"
GET_ORIGIN = "SELECT number, created_us, pruned_us FROM sessions WHERE id = :id"
SPAN = "session = :session AND turn BETWEEN :first AND :last AND (turn < :last OR position <= :last_position)"
"""Condition of one `TurnSpan`: turns :first to :last; of the last one only the messages up to the fork."""
COUNT_MESSAGES = f"""SELECT turn, count(*) FROM messages
    WHERE {SPAN} AND pruned_us IS NULL GROUP BY turn ORDER BY turn"""  # noqa: S608


def select_sessions(connection: Connection, statement: str, values: Values) -> list[SessionRow]:
    return [SessionRow.of(row) for row in connection.execute(statement, values)]


def get_session(connection: Connection, session_id: str) -> SessionRow:
    """Return the session with this id; raise `SessionNotFound` if there is none."""
    found = select_sessions(connection, GET_SESSION, {"id": session_id})
    if not found:
        raise SessionNotFound(session_id)
    return found[0]


def number_of(connection: Connection, session_id: str) -> int:
    """Return the number that rows use to refer to a session."""
    row = connection.execute("SELECT number FROM sessions WHERE id = :id", {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    return int(row[0])


def current_number(connection: Connection, session_id: str, origin: Origin | None) -> int | None:
    """Return a session's number; None if it was deleted, or turns were pruned, since `origin` was read."""
    if origin is None:
        return number_of(connection, session_id)
    row = connection.execute(GET_ORIGIN, {"id": session_id}).fetchone()
    return origin.number if row is not None and Origin(*row) == origin else None


def origin_of(connection: Connection, session_id: str) -> Origin:
    """Return the identity of a session and its last prune, to detect later that turns were removed."""
    row = connection.execute(GET_ORIGIN, {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    return Origin(*row)


def is_erased_since(connection: Connection, session: int, since_us: int | None) -> bool:
    """Return whether something of a session, or of one that it was forked from, was erased since a moment; what was
    made from what was read before may have it."""
    if since_us is None:
        return False
    return connection.execute(ERASED_SINCE, {"session": session, "since_us": since_us}).fetchone() is not None


def chain_of(connection: Connection, session_id: str) -> list[SessionRow]:
    """Return the session and its ancestors, nearest first."""
    chain = [get_session(connection, session_id)]
    while chain[-1].parent is not None:
        chain += select_sessions(connection, GET_SESSION_BY_NUMBER, {"number": chain[-1].parent})
    return chain


def select_spans(
    connection: Connection,
    statement: str,
    chain: Sequence[SessionRow],
    first: int,
    last: int,
    *,
    values: Values = MappingProxyType({}),
) -> list[tuple[Any, ...]]:
    """Run a span statement over a session and its ancestors; return the rows, oldest turn first."""
    wanted = (span.clamp(first, last) for span in spans(chain))
    return [row for span in wanted if span for row in connection.execute(statement, {**values, **span.values()})]


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Turns `first` to `last` of one session's rows; of the last turn only the messages up to `last_position`."""

    session: int
    first: int
    last: int
    last_position: int

    def values(self) -> Values:
        """Return the parameters of a span statement."""
        return {
            "session": self.session,
            "first": self.first,
            "last": self.last,
            "last_position": self.last_position,
        }

    def clamp(self, first: int, last: int) -> TurnSpan | None:
        """Return the part between two turns, or None."""
        low, high = max(self.first, first), min(self.last, last)
        if low > high:
            return None
        return TurnSpan(self.session, low, high, self.last_position if high == self.last else NO_LIMIT)


def spans(chain: Sequence[SessionRow]) -> list[TurnSpan]:
    """List the spans of a session and its ancestors (nearest first), oldest turns first."""
    found: list[TurnSpan] = []
    last, last_position = NO_LIMIT, NO_LIMIT
    for row in chain:
        if row.fork_turn < last:
            found.append(TurnSpan(row.number, row.fork_turn + 1, last, last_position))
            last, last_position = row.fork_turn, row.fork_position
    return found[::-1]


def fork_turns(chain: Sequence[SessionRow]) -> list[tuple[int, int]]:
    """List the sessions of a lineage, each with the turn it forked at, if the first session sees that turn.

    That turn may have been open, so a fork has its own renditions of it.
    """
    found: list[tuple[int, int]] = []
    limit = NO_LIMIT
    for row in chain:
        if row.parent is not None and row.fork_turn <= limit:
            found.append((row.number, row.fork_turn))
            limit = row.fork_turn
    return found


@dataclass(slots=True)
class HeadState:
    """The position of a session's next message."""

    turn: int
    position: int
    head: Head

    def place(self, drafts: Sequence[Draft]) -> Iterator[Place]:
        """Yield the place of each draft, advancing the head."""
        by_rule = starts_turn(drafts, prompted=self.head == "prompted")
        for draft, rule in zip(drafts, by_rule, strict=True):
            if self.head == "closed" or (rule if draft.starts is None else draft.starts):
                self.turn, self.position, self.head = self.turn + 1, 0, "preamble"
            self.position += 1
            if not draft.is_preamble:
                self.head = "prompted"
            yield Place(self.turn, self.position, is_new=True)
