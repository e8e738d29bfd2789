"""The work queue: sessions to look at, leases of turns, and what waits for a model. Functions of a connection.

Any number of workers share it. A lease has an owner, a token that is checked when a result is stored: the result of a
worker whose turn was claimed by another meanwhile is rejected. A rendition with a due time is an entry of the model
queue and counts the calls made for its turn, so after a restart, or in another process, work continues within the same
limit. Leases of dead workers end by time; no procedure frees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

from foveate.errors import SessionNotFound
from foveate.store.lineage import COUNT_MESSAGES, chain_of, number_of, select_spans
from foveate.store.rows import (
    LOCAL_MAKER,
    DueTurn,
    ParkedTurn,
    PostponedTurn,
    QueueState,
    RedoRequest,
    RequestKind,
    SessionWork,
)
from foveate.store.sql import Connection

MAX_LEASE_US = 3_600_000_000
"""A lease that ends later than this was given before the clock was set back, and is ignored."""
MAX_ATTEMPTS = 5
"""Attempts at a turn whose workers died. After them it gets a coarse rendition without being compressed."""
NO_CALLS_LEFT = "its workers ended before they stored a result, and it has no calls of a model left"
ROLL_UPS = 0
"""The number in a lease of a session's eras and artefacts; turns are numbered from 1."""

# An open turn may still grow; it waits until it is closed.
_CLOSED = "(r.turn < s.last_turn OR s.head = 'closed')"
NEWEST = """NOT EXISTS
    (SELECT 1 FROM renditions later WHERE later.session = r.session AND later.turn = r.turn AND later.id > r.id)"""
LIST_LEASED = "SELECT turn FROM leases WHERE session = :session AND until_us > :now_us AND until_us <= :latest_us"
# Of two workers that claim a turn at the same time, the second finds the first one's lease and gets nothing.
ADD_LEASES = """INSERT INTO leases (session, turn, owner, until_us, attempts) VALUES {rows}
    ON CONFLICT (session, turn) DO UPDATE SET owner = :owner, until_us = :until_us, attempts = leases.attempts + 1
    WHERE leases.until_us <= :now_us OR leases.until_us > :latest_us RETURNING turn, attempts"""
DROP_LEASE = "DELETE FROM leases WHERE session = :session AND turn = :turn"
DROP_OWN_LEASE = f"{DROP_LEASE} AND owner = :owner"
DROP_LEASES = "DELETE FROM leases WHERE session = :session AND owner = :owner"
RELEASE_LEASES = "DELETE FROM leases WHERE owner = :owner"
RENEW_LEASES = "UPDATE leases SET until_us = :until_us WHERE owner = :owner"

# Jumps from session to session in the index of due times: its cost is the number of sessions with queued turns.
LIST_DUE_SESSIONS = f"""WITH RECURSIVE waiting (session) AS (
        SELECT min(session) FROM renditions WHERE due_us IS NOT NULL
        UNION ALL SELECT (SELECT min(r.session) FROM renditions r WHERE r.due_us IS NOT NULL AND r.session > w.session)
        FROM waiting w WHERE w.session IS NOT NULL)
    SELECT id, due_us FROM (SELECT s.id, s.number, (SELECT r.due_us FROM renditions r WHERE r.session = s.number
        AND r.due_us IS NOT NULL AND {_CLOSED} ORDER BY r.due_us LIMIT 1) AS due_us
        FROM waiting w JOIN sessions s ON s.number = w.session) found
    WHERE due_us IS NOT NULL ORDER BY due_us, number"""  # noqa: S608 - constants
LIST_DUE = f"""SELECT r.turn, r.messages, r.id, r.due_us, r.calls, r.smoothed_tokens, r.compressed_tokens
    FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND r.due_us <= :due_us AND {_CLOSED}
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.session = r.session AND l.turn = r.turn
        AND l.until_us > :now_us AND l.until_us <= :latest_us)
    ORDER BY r.due_us, r.id LIMIT :limit"""  # noqa: S608
SET_DUE = "UPDATE renditions SET due_us = :due_us WHERE id = :rendition"
SET_CALLS = "UPDATE renditions SET calls = :calls WHERE id = :rendition"
RESERVE = f"""{SET_CALLS} AND EXISTS (SELECT 1 FROM leases l
    WHERE l.session = renditions.session AND l.turn = renditions.turn AND l.owner = :owner)"""  # noqa: S608
FORGET_DUE = """UPDATE renditions SET due_us = NULL
    WHERE session = :session AND turn = :turn AND id < :id AND due_us IS NOT NULL"""
SPENT_CALLS = "SELECT coalesce(max(calls), 0) FROM renditions WHERE session = :session AND turn = :turn"
POSTPONE = """UPDATE renditions SET due_us = :due_us, calls = :calls, refusals = refusals + :refusals, parked = :parked,
    is_complete = CASE WHEN :is_marked = 1 AND maker = :local THEN 0 ELSE is_complete END WHERE id = :rendition"""
HURRY = "UPDATE renditions SET due_us = :now_us WHERE due_us > :now_us"
HOLD = "UPDATE renditions SET due_us = :until_us WHERE session = :session AND due_us < :until_us"
LIST_STALE = f"""SELECT turn FROM renditions r WHERE session = :session
    AND ((maker = :local AND (version < :version OR (is_complete = 0 AND (calls = 0 OR :is_local_only = 1))))
    OR (maker <> :local AND is_complete = 0 AND :is_local_only = 0)) AND {NEWEST}"""  # noqa: S608
DROP_RENDITIONS = "DELETE FROM renditions WHERE session = :session AND turn = :turn"
LOWER_SETTLED = "UPDATE sessions SET settled = :settled WHERE number = :session AND settled > :settled"
WANT_MODEL = f"""UPDATE renditions AS r SET due_us = :now_us, calls = 0, parked = ''
    WHERE session = :session AND (maker = :local OR version < :version) AND {NEWEST}"""  # noqa: S608
GET_REQUESTED = "SELECT count FROM requests WHERE session = :session AND kind = :kind AND name = :name"
SET_REQUESTED = """INSERT INTO requests (session, kind, name, count) VALUES (:session, :kind, :name, :count)
    ON CONFLICT (session, kind, name) DO UPDATE SET count = :count"""
COUNT_WAITING = f"""SELECT count(*), min(r.due_us) FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND {_CLOSED}"""  # noqa: S608

LIST_WORK = """SELECT number, id, work_us FROM sessions WHERE work_us <= :now_us OR work_us > :latest_us
    ORDER BY work_us, number LIMIT :limit {skip_locked}"""
TAKE_WORK = "UPDATE sessions SET work_us = :token WHERE number = :number"
PUT_BACK = "UPDATE sessions SET work_us = :due_us WHERE id = :id AND work_us = :token"
COUNT_SESSIONS = """SELECT count(*), coalesce(sum(CASE WHEN work_us <= :now_us THEN 1 ELSE 0 END), 0)
    FROM sessions WHERE work_us IS NOT NULL"""
COUNT_DUE = f"""SELECT count(*), coalesce(sum(CASE WHEN r.due_us <= :now_us THEN 1 ELSE 0 END), 0), min(r.due_us)
    FROM renditions r JOIN sessions s ON s.number = r.session WHERE r.due_us IS NOT NULL AND {_CLOSED}"""  # noqa: S608
COUNT_LEASES = """SELECT coalesce(sum(CASE WHEN until_us > :now_us THEN 1 ELSE 0 END), 0), count(*),
    count(DISTINCT CASE WHEN until_us > :now_us THEN owner END) FROM leases"""
COUNT_PARKED = f"SELECT count(*) FROM renditions r WHERE parked <> '' AND {NEWEST}"  # noqa: S608
LIST_PARKED = f"""SELECT s.id, r.turn, r.calls, r.parked FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.parked <> '' AND {NEWEST} ORDER BY r.id DESC LIMIT :limit"""  # noqa: S608


def take_sessions(connection: Connection, *, limit: int, lease_seconds: float) -> list[SessionWork]:
    """Sessions that got something new, and those that were put back and are due; the longest waiting first.

    Nobody else gets them within the time of the lease, unless something is recorded in them.
    """
    moment = connection.clock_us()
    token = moment + int(lease_seconds * 1_000_000)
    values = {"now_us": moment, "latest_us": moment + MAX_LEASE_US, "limit": limit}
    found = connection.execute(LIST_WORK.format(skip_locked=connection.skip_locked), values).fetchall()
    connection.executemany(TAKE_WORK, [{"number": number, "token": token} for number, _, _ in found])
    return [SessionWork(session_id, token, is_new=work_us == 0) for _, session_id, work_us in found]


def put_back(connection: Connection, work: SessionWork, seconds: float | None) -> None:
    """Look at a session again after this time; None: when something was recorded. Without effect if something
    was since it was taken."""
    due_us = None if seconds is None else connection.clock_us() + int(seconds * 1_000_000)
    connection.execute(PUT_BACK, {"id": work.session_id, "token": work.token, "due_us": due_us})


def state(connection: Connection, *, limit: int) -> QueueState:
    """Counts of the queue, and up to `limit` of the parked turns."""
    moment = {"now_us": connection.clock_us()}
    sessions, due_sessions = connection.execute(COUNT_SESSIONS, moment).fetchone()
    queued, due, first_us = connection.execute(COUNT_DUE, moment).fetchone()
    leased, leases, workers = connection.execute(COUNT_LEASES, moment).fetchone()
    (parked,) = connection.execute(COUNT_PARKED).fetchone()
    turns = [ParkedTurn(*row) for row in connection.execute(LIST_PARKED, {"limit": limit})]
    return QueueState(
        sessions=sessions,
        due_sessions=due_sessions,
        model_turns=queued,
        due_model_turns=due,
        waited_seconds=max(0.0, (moment["now_us"] - first_us) / 1_000_000) if first_us is not None else 0.0,
        leased=leased,
        expired=leases - leased,
        owners=workers,
        parked=parked,
        parked_turns=tuple(turns),
    )


def leased_turns(connection: Connection, session: int) -> set[int]:
    moment = connection.clock_us()
    values = {"session": session, "now_us": moment, "latest_us": moment + MAX_LEASE_US}
    return {row[0] for row in connection.execute(LIST_LEASED, values)}


def lease(
    connection: Connection, session: int, turns: Sequence[int], owner: str, lease_seconds: float
) -> dict[int, int]:
    """Lease those of the turns that nobody else has; each with the number of attempts in a row, this one included."""
    if not turns:
        return {}
    moment = connection.clock_us()
    values = {"session": session, "owner": owner, "until_us": moment + int(lease_seconds * 1_000_000)}
    limits = {"now_us": moment, "latest_us": moment + MAX_LEASE_US}
    # In one order for all workers, so that two of them can't wait for each other.
    numbered = {f"turn{place}": turn for place, turn in enumerate(sorted(turns))}
    return dict(connection.execute(_add_leases(len(turns)), {**values, **limits, **numbered}).fetchall())


@cache
def _add_leases(count: int) -> str:
    rows = (f"(:session, :turn{place}, :owner, :until_us, 1)" for place in range(count))
    return ADD_LEASES.format(rows=", ".join(rows))


def take_lease(connection: Connection, session: int, turn: int, owner: str) -> bool:
    """End the lease of a turn; False if this owner does not have it any more."""
    return connection.execute(DROP_OWN_LEASE, {"session": session, "turn": turn, "owner": owner}).rowcount > 0


def lease_roll_ups(connection: Connection, session_id: str, owner: str, lease_seconds: float) -> bool:
    """Lease the requests for a session's eras and artefacts; False while anybody has the lease."""
    return bool(lease(connection, number_of(connection, session_id), [ROLL_UPS], owner, lease_seconds))


def sessions(connection: Connection) -> list[tuple[str, int]]:
    """The sessions with queued turns and the first due time of each, the earliest first."""
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
    """Lease up to `limit` turns that are due, and reserve half of the remaining calls for each.

    A turn without remaining calls is marked incomplete and leaves the queue.
    """
    chain = chain_of(connection, session_id)
    number, moment = chain[0].number, connection.clock_us()
    values = {"session": number, "due_us": now_us, "now_us": moment, "latest_us": moment + MAX_LEASE_US}
    found = []
    for row in connection.execute(LIST_DUE, {**values, "limit": limit}).fetchall():
        turn, messages, rendition, due_us, calls, smoothed, compressed = row
        counts = dict(select_spans(connection, COUNT_MESSAGES, chain, turn, turn))
        if counts.get(turn) != messages:  # it has grown or is gone; its next rendition has a due time of its own
            connection.execute(SET_DUE, {"rendition": rendition, "due_us": None})
            continue
        reserved = -(-max(0, max_calls - calls) // 2)
        due = DueTurn(session_id, turn, messages, rendition, due_us, calls, reserved, smoothed, compressed, owner)
        if reserved:
            found.append(due)
        else:
            parked = NO_CALLS_LEFT if calls else ""
            note(connection, due, PostponedTurn(due_us=None, calls=calls, is_marked=True, parked=parked))
    held = lease(connection, number, [due.turn for due in found], owner, lease_seconds)
    claimed = [due for due in found if due.turn in held]
    connection.executemany(
        SET_CALLS, [{"rendition": due.rendition, "calls": due.calls + due.reserved} for due in claimed]
    )
    return claimed


def reserve(connection: Connection, due: DueTurn, calls: int) -> bool:
    """Record, before they are made, the total calls that the turn may have; False if its lease was lost."""
    values = {"rendition": due.rendition, "calls": calls, "owner": due.owner}
    return connection.execute(RESERVE, values).rowcount > 0


def postpone(connection: Connection, due: DueTurn, noted: PostponedTurn) -> bool:
    """Leave the renditions as they are and release the lease; False, and nothing is changed, if another worker has
    claimed the turn since."""
    is_held = take_due(connection, due)
    if is_held:
        note(connection, due, noted)
    return is_held


def take_due(connection: Connection, due: DueTurn) -> bool:
    """End the lease of a claimed turn; False if another worker has it, or the session was deleted."""
    try:
        session = number_of(connection, due.session_id)
    except SessionNotFound:
        return False
    return take_lease(connection, session, due.turn, due.owner)


def note(connection: Connection, due: DueTurn, noted: PostponedTurn) -> None:
    """Store the outcome of a claim that leaves the renditions as they are."""
    connection.execute(POSTPONE, {**asdict(noted), "rendition": due.rendition, "local": LOCAL_MAKER})


def hold(connection: Connection, session_id: str, until_us: int) -> None:
    """Postpone everything of a session until then."""
    connection.execute(HOLD, {"session": number_of(connection, session_id), "until_us": until_us})


def hurry(connection: Connection, now_us: int) -> None:
    """Make everything postponed due now, in every session."""
    connection.execute(HURRY, {"now_us": now_us})


def renew(connection: Connection, owner: str, lease_seconds: float) -> None:
    """Extend all leases of this owner."""
    until_us = connection.clock_us() + int(lease_seconds * 1_000_000)
    connection.execute(RENEW_LEASES, {"owner": owner, "until_us": until_us})


def release(connection: Connection, owner: str) -> None:
    """Release all leases of this owner; reserved calls stay counted."""
    connection.execute(RELEASE_LEASES, {"owner": owner})


def want_again(connection: Connection, session_id: str, wanted: RedoRequest, now_us: int) -> int:
    """Queue again what can be improved, with its calls reset; the number of turns."""
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
    """A count of requests to models; 0 if none was noted."""
    values = {"session": number_of(connection, session_id), "kind": kind, "name": name}
    row = connection.execute(GET_REQUESTED, values).fetchone()
    return int(row[0]) if row else 0


def note_requested(connection: Connection, session_id: str, kind: RequestKind, name: str, count: int) -> None:
    session = number_of(connection, session_id)
    connection.execute(SET_REQUESTED, {"session": session, "kind": kind, "name": name, "count": count})
