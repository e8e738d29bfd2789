"""Lookup of clients' histories in the log. Functions of a connection.

The gateway records each message under a key that is a hash of the client's history up to it, so the longest known
prefix of a history is found by its keys. Messages that a client never saw have no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foveate.errors import ErasedMeanwhile
from foveate.store import bodies
from foveate.store.lineage import NO_LIMIT, SPAN, chain_of, is_erased_since, number_of, select_spans
from foveate.store.rows import SessionRow
from foveate.store.sql import Connection, now_us
from foveate.turn import Json

PROGRAM_STATE: Final = "program:"
"""Prefix of the name of a session's state that a program stores: ids and counts, no text. Pruning keeps it."""
BATCH_KEYS = 400
"""Maximum number of keys in one statement; databases limit its parameters."""
NEWEST_KEYS = 16
"""Number of keys in the first lookup: usually all but the newest messages of a history are known."""
NOT_SHOWN = ("origin", "run")
"""Documents that are not shown in contexts."""
_LATER = """EXISTS (SELECT 1 FROM messages n WHERE n.session = m.session AND n.key IS NOT NULL
    AND (n.turn, n.position) > (m.turn, m.position))"""
_LATER_IN_TURN = """EXISTS (SELECT 1 FROM messages n WHERE n.session = m.session AND n.turn = m.turn
    AND n.key IS NOT NULL AND n.position > m.position)"""
FIND = f"""SELECT m.key, s.id, m.turn, NOT {_LATER}, NOT {_LATER_IN_TURN}, s.updated_us
    FROM messages m JOIN sessions s ON s.number = m.session WHERE s.tenant = :tenant
    AND (:family IS NULL OR s.id = :family OR substr(s.id, 1, length(:family) + 1) = :family || '~')
    AND m.key IN """  # noqa: S608
FIND_TAILS = """SELECT s.id, t.turn FROM answer_tails t JOIN sessions s ON s.number = t.session
    WHERE t.hash = :hash AND s.tenant = :tenant ORDER BY s.updated_us DESC, t.turn DESC LIMIT 10"""
FAMILY = """SELECT id FROM sessions WHERE tenant = :tenant
    AND (id = :family OR substr(id, 1, length(:family) + 1) = :family || '~') ORDER BY updated_us DESC, number DESC"""
ADD_RESPONSE = """INSERT INTO responses (id, tenant, session, turn, chain, data, created_us)
    VALUES (:id, (SELECT tenant FROM sessions WHERE number = :session), :session, :turn, :chain, :data, :now_us)
    ON CONFLICT (tenant, id) DO NOTHING"""
GET_RESPONSE = """SELECT s.id, r.turn, r.chain, r.data FROM responses r JOIN sessions s ON s.number = r.session
    WHERE r.tenant = :tenant AND r.id = :id"""
SUM_SHOWN = f"""SELECT count(*), count(key), coalesce(sum(tokens), 0), count(pruned_us) FROM messages
    WHERE {SPAN} AND kind <> 'display'"""  # noqa: S608
HAS_NOTES = f"""SELECT EXISTS (SELECT 1 FROM pins WHERE session = :session AND removed_us IS NULL)
    OR EXISTS (SELECT 1 FROM boards WHERE session = :session)
    OR EXISTS (SELECT 1 FROM documents WHERE session = :session AND name NOT IN {NOT_SHOWN})"""  # noqa: S608
DELETE_RESPONSE = "DELETE FROM responses WHERE tenant = :tenant AND id = :id"


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
    """Messages shown in contexts, including those of ancestors."""
    keyed: int
    """Number of these messages that have a key: those that the client knows."""
    tokens: int
    is_plain: bool
    """True if no pin, document or board is shown with them, and nothing of them was pruned."""


@dataclass(frozen=True, slots=True)
class LocatedHistory:
    """The longest known prefix of a client's history; both None if it is unknown."""

    place: KnownPlace | None
    standing: Standing | None


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """A response as sent to a client, and the key of the history that it ends."""

    id: str
    session_id: str
    turn: int
    chain: str
    data: Json


def find(connection: Connection, tenant: str, keys: Sequence[str], family: str | None = None) -> list[KnownPlace]:
    """Find the last of these keys that is known; return its places in all of the tenant's sessions that have it.

    A `family` is a session and those whose ids start with its id and `~`.
    """
    for batch in _batches(keys):
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


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield batches of keys from the end, a small one first."""
    end, size = len(keys), NEWEST_KEYS
    while end > 0:
        yield keys[max(0, end - size) : end]
        end, size = end - size, BATCH_KEYS


def locate(connection: Connection, tenant: str, keys: Sequence[str], family: str | None = None) -> LocatedHistory:
    """Return the best place of the last known key, and the totals of its session, in one read."""
    found = find(connection, tenant, keys, family)
    if not found:
        return LocatedHistory(None, None)
    best = max(found, key=lambda place: (place.is_head, place.updated_us))
    return LocatedHistory(best, _standing(connection, best.session_id))


def _standing(connection: Connection, session_id: str) -> Standing:
    chain = chain_of(connection, session_id)
    sums = select_spans(connection, SUM_SHOWN, chain, 1, NO_LIMIT)
    messages, keyed, tokens, pruned = (sum(row[column] for row in sums) for column in range(4))
    (has_notes,) = connection.execute(HAS_NOTES, {"session": chain[0].number}).fetchone()
    return Standing(chain[0], messages, keyed, tokens, is_plain=not has_notes and not pruned)


def find_tails(connection: Connection, tenant: str, tail: str) -> list[tuple[str, int]]:
    """List a few sessions and turns with this answer, the most recently used first."""
    return [(session, turn) for session, turn in connection.execute(FIND_TAILS, {"hash": tail, "tenant": tenant})]


def family(connection: Connection, tenant: str, session_id: str) -> list[str]:
    """List a session and those whose ids start with its id and `~`, the most recently used first."""
    return [found for (found,) in connection.execute(FAMILY, {"tenant": tenant, "family": session_id})]


def add_response(
    connection: Connection, session_id: str, response: ResponseRow, *, since_us: int | None = None
) -> None:
    """Store a response; an existing one with the same id is kept. With `since_us`: raise `ErasedMeanwhile` if something
    in its session was erased since that moment."""
    session = number_of(connection, session_id)
    if is_erased_since(connection, session, since_us):
        raise ErasedMeanwhile(session_id)
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
    """Remove a response; return whether it existed. The turn is kept."""
    return connection.execute(DELETE_RESPONSE, {"tenant": tenant, "id": response_id}).rowcount > 0
