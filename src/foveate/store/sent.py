"""Requests as the gateway sent them to providers: the newest of each session. Functions of a connection.

A body is stored as its difference from an earlier one, so the bytes that requests share are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from foveate.store.lineage import number_of
from foveate.store.sql import Connection

_COLUMNS = """number, request_id, base, at_us, turn, provider, model, format, path, status, tokens, input_tokens,
    cached_tokens, size, kept_bytes, digest, budget_tokens, cause, predicted_tokens, nano_usd, kept_tokens,
    rewritten_tokens"""
_VALUES = """(SELECT coalesce(max(r.number), 0) + 1 FROM sent_requests r WHERE r.session = s.number), :request_id,
    :base, :at_us, :turn, :provider, :model, :format, :path, :status, :tokens, :input_tokens, :cached_tokens, :size,
    :kept_bytes, :digest, :budget_tokens, :cause, :predicted_tokens, :nano_usd, :kept_tokens, :rewritten_tokens"""
ADD = f"""INSERT INTO sent_requests (session, {_COLUMNS}, data, picture)
    SELECT s.number, {_VALUES}, :data, :picture FROM sessions s WHERE s.id = :session_id
    AND (s.pruned_us IS NULL OR s.pruned_us < :at_us)
    AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = s.tenant AND e.at_us >= :at_us)
    AND (:base = '' OR EXISTS (SELECT 1 FROM sent_requests b WHERE b.session = s.number AND b.request_id = :base))"""  # noqa: S608 - constants
LIST = f"SELECT {_COLUMNS} FROM sent_requests WHERE session = :session ORDER BY number DESC LIMIT :limit"  # noqa: S608
READ = f"""SELECT {_COLUMNS}, data, picture FROM sent_requests
    WHERE session = :session AND number BETWEEN :first AND :number ORDER BY number"""  # noqa: S608
FIRST = """SELECT coalesce(max(number), 0) FROM sent_requests
    WHERE session = :session AND base = '' AND number < :number"""
# Whole chains of differences go: those before the newest complete body that still leaves `kept` requests.
DROP_OLDEST = """DELETE FROM sent_requests WHERE session = :session AND number < (SELECT max(number) FROM sent_requests
    WHERE session = :session AND base = ''
    AND number <= (SELECT max(number) FROM sent_requests WHERE session = :session) - :kept + 1)"""
NUMBER = "SELECT number FROM sessions WHERE id = :id"
SIZE = """SELECT coalesce(sum(length(data) + coalesce(length(picture), 0)), 0) FROM sent_requests
    WHERE session = :session"""
DROP_LARGE = """DELETE FROM sent_requests WHERE session = :session AND number < (SELECT max(number) FROM sent_requests
    WHERE session = :session AND base = '')"""
FIND = """SELECT s.id, r.number FROM sent_requests r JOIN sessions s ON s.number = r.session
    WHERE r.request_id = :request_id ORDER BY r.at_us DESC"""
DROP_OLD = "DELETE FROM sent_requests WHERE at_us < :before_us"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """A request as it was sent to a provider."""

    number: int
    """From 1, in the order in which they were sent; assigned by the store."""
    request_id: str
    base: str
    """The request id of the request that `data` is a difference from; empty: none."""
    at_us: int
    turn: int
    provider: str
    model: str
    format: str
    path: str
    """Without the query, which may have a key."""
    status: int
    tokens: int
    """Counted before it was sent; 0 if it was not counted."""
    input_tokens: int
    """As the provider reported; 0 if it did not."""
    cached_tokens: int
    size: int
    """Bytes of the body."""
    kept_bytes: int
    """Bytes at its beginning that equal those of the base."""
    digest: bytes
    """Checksum of the body."""
    budget_tokens: int = 0
    cause: str = ""
    """Why the plan was made anew for it; empty: it was not."""
    predicted_tokens: int | None = None
    """Tokens that the provider should have cached; None if nothing could be predicted."""
    nano_usd: int = 0
    kept_tokens: int | None = None
    """Its share in the common prefix with the request before; None without one to compare it with."""
    rewritten_tokens: int | None = None
    data: bytes = b""
    """The difference; empty in lists."""
    picture: bytes | None = None
    """Its segments; None in lists, and for a request with the whole conversation."""


def add(
    connection: Connection, requests: Sequence[tuple[str, SentRow]], *, kept: int, most_bytes: int
) -> frozenset[str]:
    """Add requests of sessions, and remove the oldest of each beyond a number and a size.

    Return the ids of requests that were not added: their session or their base was removed, or something was erased
    or pruned since they began, which they may contain.
    """
    missing = set()
    for session_id, row in requests:
        if not connection.execute(ADD, {**asdict(row), "session_id": session_id}).rowcount:
            missing.add(row.request_id)
    for session_id in sorted({session_id for session_id, _ in requests}):
        for (session,) in connection.execute(NUMBER, {"id": session_id}).fetchall():
            connection.execute(DROP_OLDEST, {"session": session, "kept": kept})
            if connection.execute(SIZE, {"session": session}).fetchone()[0] > most_bytes:
                connection.execute(DROP_LARGE, {"session": session})
    return frozenset(missing)


def list_sent(connection: Connection, session_id: str, *, limit: int) -> list[SentRow]:
    """List the newest requests of a session, the oldest first, without their bodies."""
    values = {"session": number_of(connection, session_id), "limit": limit}
    return [
        SentRow(**dict(zip(_NAMES, row, strict=False))) for row in reversed(connection.execute(LIST, values).fetchall())
    ]


def find(connection: Connection, request_id: str) -> tuple[str, int] | None:
    """Return the session and the number of the request with this id; None if it is not kept."""
    row = connection.execute(FIND, {"request_id": request_id}).fetchone()
    return None if row is None else (str(row[0]), int(row[1]))


def read_chain(connection: Connection, session_id: str, number: int) -> list[SentRow]:
    """Read a request, the one before it, and all that their differences may refer to, the oldest first."""
    session = number_of(connection, session_id)
    (first,) = connection.execute(FIRST, {"session": session, "number": number}).fetchone()
    values = {"session": session, "first": first, "number": number}
    return [SentRow(**dict(zip(_NAMES, row, strict=True))) for row in connection.execute(READ, values)]


def prune(connection: Connection, before_us: int) -> int:
    """Remove requests sent before a moment; return their number."""
    return connection.execute(DROP_OLD, {"before_us": before_us}).rowcount


_NAMES = tuple(SentRow.__dataclass_fields__)
