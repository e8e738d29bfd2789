"""What waits for a model: turns, eras and artefacts, with leases and counted calls. Functions of a connection.

A rendition with a due time is a queue entry and counts the calls made for its turn, so after a restart, or in another
process, work continues within the same limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from foveate.errors import SessionNotFound
from foveate.store import sql
from foveate.store.lineage import COUNT_MESSAGES, chain_of, number_of, select_spans
from foveate.store.rows import LOCAL_MAKER, DueTurn, PostponedTurn, RedoRequest, RequestKind
from foveate.store.sql import Connection

MAX_LEASE_US = 3_600_000_000
"""A lease that ends later than this was given before the clock was set back, and is ignored."""
ROLL_UPS = 0
"""The number in a lease of a session's eras and artefacts; turns are numbered from 1."""

# An open turn may still grow; it waits until it is closed.
_CLOSED = "(r.turn < s.last_turn OR s.head = 'closed')"
NEWEST = """NOT EXISTS
    (SELECT 1 FROM renditions later WHERE later.session = r.session AND later.turn = r.turn AND later.id > r.id)"""
LIST_LEASED = "SELECT turn FROM leases WHERE session = :session AND until_us > :now_us AND until_us <= :latest_us"
ADD_LEASE = """INSERT INTO leases (session, turn, owner, until_us) VALUES (:session, :turn, :owner, :until_us)
    ON CONFLICT (session, turn) DO UPDATE SET owner = :owner, until_us = :until_us"""
DROP_LEASE = "DELETE FROM leases WHERE session = :session AND turn = :turn"
DROP_LEASES = "DELETE FROM leases WHERE session = :session AND owner = :owner"
RELEASE_LEASES = "DELETE FROM leases WHERE owner = :owner"
RENEW_LEASES = "UPDATE leases SET until_us = :until_us WHERE owner = :owner"

LIST_DUE_SESSIONS = f"""SELECT id, due_us FROM
    (SELECT s.id, s.number, (SELECT r.due_us FROM renditions r WHERE r.session = s.number AND r.due_us IS NOT NULL
        AND {_CLOSED} ORDER BY r.due_us LIMIT 1) AS due_us FROM sessions s) waiting
    WHERE due_us IS NOT NULL ORDER BY due_us, number"""  # noqa: S608 - constants
LIST_DUE = f"""SELECT r.turn, r.messages, r.id, r.due_us, r.calls, r.smoothed_tokens, r.compressed_tokens
    FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND r.due_us <= :due_us AND {_CLOSED}
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.session = r.session AND l.turn = r.turn
        AND l.until_us > :now_us AND l.until_us <= :latest_us)
    ORDER BY r.due_us, r.id LIMIT :limit"""  # noqa: S608
SET_DUE = "UPDATE renditions SET due_us = :due_us WHERE id = :rendition"
SET_CALLS = "UPDATE renditions SET calls = :calls WHERE id = :rendition"
FORGET_DUE = """UPDATE renditions SET due_us = NULL
    WHERE session = :session AND turn = :turn AND id < :id AND due_us IS NOT NULL"""
SPENT_CALLS = "SELECT coalesce(max(calls), 0) FROM renditions WHERE session = :session AND turn = :turn"
POSTPONE = """UPDATE renditions SET due_us = :due_us, calls = :calls, refusals = refusals + :refusals,
    is_complete = CASE WHEN :is_marked = 1 AND maker = :local THEN 0 ELSE is_complete END WHERE id = :rendition"""
HURRY = "UPDATE renditions SET due_us = :now_us WHERE due_us > :now_us"
HOLD = "UPDATE renditions SET due_us = :until_us WHERE session = :session AND due_us < :until_us"
LIST_STALE = f"""SELECT turn FROM renditions r WHERE session = :session
    AND ((maker = :local AND (version < :version OR (is_complete = 0 AND (calls = 0 OR :is_local_only = 1))))
    OR (maker <> :local AND is_complete = 0 AND :is_local_only = 0)) AND {NEWEST}"""  # noqa: S608
DROP_RENDITIONS = "DELETE FROM renditions WHERE session = :session AND turn = :turn"
LOWER_SETTLED = "UPDATE sessions SET settled = :settled WHERE number = :session AND settled > :settled"
WANT_MODEL = f"""UPDATE renditions AS r SET due_us = :now_us, calls = 0
    WHERE session = :session AND (maker = :local OR version < :version) AND {NEWEST}"""  # noqa: S608
GET_REQUESTED = "SELECT count FROM requests WHERE session = :session AND kind = :kind AND name = :name"
SET_REQUESTED = """INSERT INTO requests (session, kind, name, count) VALUES (:session, :kind, :name, :count)
    ON CONFLICT (session, kind, name) DO UPDATE SET count = :count"""
COUNT_WAITING = f"""SELECT count(*), min(r.due_us) FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND {_CLOSED}"""  # noqa: S608


def leased_turns(connection: Connection, session: int) -> set[int]:
    moment = sql.now_us()
    values = {"session": session, "now_us": moment, "latest_us": moment + MAX_LEASE_US}
    return {row[0] for row in connection.execute(LIST_LEASED, values)}


def lease(connection: Connection, session: int, turns: Sequence[int], owner: str, lease_seconds: float) -> None:
    values = {"session": session, "owner": owner, "until_us": sql.now_us() + int(lease_seconds * 1_000_000)}
    connection.executemany(ADD_LEASE, [{**values, "turn": turn} for turn in turns])


def lease_roll_ups(connection: Connection, session_id: str, owner: str, lease_seconds: float) -> bool:
    session = number_of(connection, session_id)
    if ROLL_UPS in leased_turns(connection, session):
        return False
    lease(connection, session, [ROLL_UPS], owner, lease_seconds)
    return True


def sessions(connection: Connection) -> list[tuple[str, int]]:
    return [(name, due_us) for name, due_us in connection.execute(LIST_DUE_SESSIONS)]


def claim(
    connection: Connection,
    session_id: str,
    *,
    owner: str,
    limit: int,
    lease_seconds: float,
    max_calls: int,
    now_us: int,
) -> list[DueTurn]:
    chain = chain_of(connection, session_id)
    number, moment = chain[0].number, sql.now_us()
    values = {"session": number, "due_us": now_us, "now_us": moment, "latest_us": moment + MAX_LEASE_US}
    claimed = []
    found = connection.execute(LIST_DUE, {**values, "limit": limit}).fetchall()
    for turn, messages, rendition, due_us, calls, smoothed, compressed in found:
        counts = dict(select_spans(connection, COUNT_MESSAGES, chain, turn, turn))
        if counts.get(turn) != messages:  # it has grown or is gone; its next rendition has a due time of its own
            connection.execute(SET_DUE, {"rendition": rendition, "due_us": None})
            continue
        reserved = -(-max(0, max_calls - calls) // 2)
        due = DueTurn(session_id, turn, messages, rendition, due_us, calls, reserved, smoothed, compressed)
        if not reserved:
            postpone(connection, due, PostponedTurn(due_us=None, calls=calls, is_marked=True))
            continue
        connection.execute(SET_CALLS, {"rendition": rendition, "calls": calls + reserved})
        claimed.append(due)
    lease(connection, number, [due.turn for due in claimed], owner, lease_seconds)
    return claimed


def reserve(connection: Connection, due: DueTurn, calls: int) -> None:
    connection.execute(SET_CALLS, {"rendition": due.rendition, "calls": calls})


def postpone(connection: Connection, due: DueTurn, noted: PostponedTurn) -> None:
    connection.execute(POSTPONE, {**asdict(noted), "rendition": due.rendition, "local": LOCAL_MAKER})
    try:
        session = number_of(connection, due.session_id)
    except SessionNotFound:
        return  # deleted meanwhile, and its leases with it
    connection.execute(DROP_LEASE, {"session": session, "turn": due.turn})


def hold(connection: Connection, session_id: str, until_us: int) -> None:
    connection.execute(HOLD, {"session": number_of(connection, session_id), "until_us": until_us})


def hurry(connection: Connection, now_us: int) -> None:
    connection.execute(HURRY, {"now_us": now_us})


def renew(connection: Connection, owner: str, lease_seconds: float) -> None:
    until_us = sql.now_us() + int(lease_seconds * 1_000_000)
    connection.execute(RENEW_LEASES, {"owner": owner, "until_us": until_us})


def release(connection: Connection, owner: str) -> None:
    connection.execute(RELEASE_LEASES, {"owner": owner})


def want_again(connection: Connection, session_id: str, wanted: RedoRequest, now_us: int) -> int:
    session = {"session": number_of(connection, session_id)}
    is_local_only = wanted.model_version is None
    old = {"version": wanted.local_version, "local": LOCAL_MAKER, "is_local_only": is_local_only}
    stale = [turn for (turn,) in connection.execute(LIST_STALE, {**session, **old})]
    connection.executemany(DROP_RENDITIONS, [{**session, "turn": turn} for turn in stale])
    if stale:
        connection.execute(LOWER_SETTLED, {**session, "settled": min(stale) - 1})
    if is_local_only:
        return len(stale)
    again = {**session, "version": wanted.model_version, "local": LOCAL_MAKER, "now_us": now_us}
    return len(stale) + connection.execute(WANT_MODEL, again).rowcount


def requested(connection: Connection, session_id: str, kind: RequestKind, name: str) -> int:
    values = {"session": number_of(connection, session_id), "kind": kind, "name": name}
    row = connection.execute(GET_REQUESTED, values).fetchone()
    return int(row[0]) if row else 0


def note_requested(connection: Connection, session_id: str, kind: RequestKind, name: str, count: int) -> None:
    session = number_of(connection, session_id)
    connection.execute(SET_REQUESTED, {"session": session, "kind": kind, "name": name, "count": count})
