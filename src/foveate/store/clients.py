"""Where the histories that clients send are in the log. Functions of a connection.

The gateway records each message under a key that is a hash of the client's history up to it, so the longest known
beginning of a history is a lookup by keys. Messages that a client never saw have no key.
"""

from __future__ import annotations

from collections.abc import Sequence

from foveate.store import bodies
from foveate.store.lineage import number_of
from foveate.store.rows import AnswerTail, KnownPlace, ResponseRow
from foveate.store.sql import Connection, now_us

BATCH_KEYS = 400
"""Keys in one statement; databases limit its parameters."""

_LATER = """EXISTS (SELECT 1 FROM messages n WHERE n.session = m.session AND n.key IS NOT NULL
    AND (n.turn > m.turn OR (n.turn = m.turn AND n.position > m.position)))"""
_LATER_IN_TURN = """EXISTS (SELECT 1 FROM messages n WHERE n.session = m.session AND n.turn = m.turn
    AND n.key IS NOT NULL AND n.position > m.position)"""
FIND = f"""SELECT m.key, s.id, m.turn, NOT {_LATER}, NOT {_LATER_IN_TURN}, s.updated_us
    FROM messages m JOIN sessions s ON s.number = m.session WHERE s.tenant = :tenant
    AND (:family IS NULL OR s.id = :family OR substr(s.id, 1, length(:family) + 1) = :family || '~')
    AND m.key IN """  # noqa: S608
ADD_TAIL = "INSERT INTO answer_tails (hash, session, turn) VALUES (:hash, :session, :turn) ON CONFLICT DO NOTHING"
FIND_TAILS = """SELECT s.id, t.turn FROM answer_tails t JOIN sessions s ON s.number = t.session
    WHERE t.hash = :hash AND s.tenant = :tenant ORDER BY s.updated_us DESC, t.turn DESC LIMIT 10"""
ADD_RESPONSE = """INSERT INTO responses (id, tenant, session, turn, chain, data, created_us)
    VALUES (:id, (SELECT tenant FROM sessions WHERE number = :session), :session, :turn, :chain, :data, :now_us)
    ON CONFLICT (tenant, id) DO NOTHING"""
GET_RESPONSE = """SELECT s.id, r.turn, r.chain, r.data FROM responses r JOIN sessions s ON s.number = r.session
    WHERE r.tenant = :tenant AND r.id = :id"""
DELETE_RESPONSE = "DELETE FROM responses WHERE tenant = :tenant AND id = :id"


def find(connection: Connection, tenant: str, keys: Sequence[str], family: str | None = None) -> list[KnownPlace]:
    """The places of the last of these keys that any session of the tenant has; all sessions that have it.

    A `family` is a session and those whose id is its own followed by `~` and more.
    """
    for end in range(len(keys), 0, -BATCH_KEYS):
        batch = keys[max(0, end - BATCH_KEYS) : end]
        named = {f"k{index}": key for index, key in enumerate(batch)}
        listed = ", ".join(f":{name}" for name in named)
        rows = connection.execute(f"{FIND}({listed})", {"tenant": tenant, "family": family, **named}).fetchall()
        if rows:
            order = {key: index for index, key in enumerate(batch)}
            last = max(order[row[0]] for row in rows)
            return [
                KnownPlace(key, session, turn, is_head=bool(is_head), ends_turn=bool(ends), updated_us=updated)
                for key, session, turn, is_head, ends, updated in rows
                if order[key] == last
            ]
    return []


def add_tail(connection: Connection, session_id: str, tail: AnswerTail) -> None:
    session = number_of(connection, session_id)
    connection.execute(ADD_TAIL, {"session": session, "hash": tail.hash, "turn": tail.turn})


def find_tails(connection: Connection, tenant: str, tail: str) -> list[tuple[str, int]]:
    """Sessions and turns with this answer, the last used first."""
    return [(session, turn) for session, turn in connection.execute(FIND_TAILS, {"hash": tail, "tenant": tenant})]


def add_response(connection: Connection, session_id: str, response: ResponseRow) -> None:
    session = number_of(connection, session_id)
    values = {
        "id": response.id,
        "session": session,
        "turn": response.turn,
        "chain": response.chain,
        "data": bodies.squeeze(response.data),
        "now_us": now_us(),
    }
    connection.execute(ADD_RESPONSE, values)


def get_response(connection: Connection, tenant: str, response_id: str) -> ResponseRow | None:
    row = connection.execute(GET_RESPONSE, {"tenant": tenant, "id": response_id}).fetchone()
    if row is None:
        return None
    session_id, turn, chain, data = row
    return ResponseRow(response_id, session_id, turn, chain, bodies.expand(data))


def delete_response(connection: Connection, tenant: str, response_id: str) -> bool:
    return connection.execute(DELETE_RESPONSE, {"tenant": tenant, "id": response_id}).rowcount > 0
