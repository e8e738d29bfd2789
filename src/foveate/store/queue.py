"""The work queue: sessions to process, and turns queued for a model. Functions of a connection.

Any number of workers share it; `foveate.store.leases` records who works on which turn. A rendition with a due time is
an entry of the model queue and counts the calls made for its turn, so after a restart, or in another process, work
continues within the same limit.
"""

from __future__ import annotations

from dataclasses import asdict

from foveate.errors import SessionNotFound
from foveate.store import leases, workers
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

MAX_ATTEMPTS = 5
"""Attempts at a turn whose workers died. After that it gets a coarse rendition without compression."""
NO_CALLS_LEFT = "its workers ended before they stored a result, and it has no model calls left"

# An open turn may still grow; it is skipped until it is closed.
_CLOSED = "(r.turn < s.last_turn OR s.head = 'closed')"
NEWEST = """NOT EXISTS
    (SELECT 1 FROM renditions later WHERE later.session = r.session AND later.turn = r.turn AND later.id > r.id)"""
# Skips from session to session in the index of due times: the cost grows with the sessions that have queued turns.
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
        AND {leases.LIVE})
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
DROP_ERAS = "DELETE FROM eras WHERE session = :session"
FORGET_ERAS = "DELETE FROM requests WHERE session = :session AND kind = 'era'"
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
FINISHED = """UPDATE sessions SET work_us = NULL
    WHERE id = :id AND work_us = 0 AND last_turn = :last_turn AND last_position = :last_position"""
COUNT_SESSIONS = """SELECT count(*), coalesce(sum(CASE WHEN work_us <= :now_us THEN 1 ELSE 0 END), 0)
    FROM sessions WHERE work_us IS NOT NULL"""
COUNT_DUE = f"""SELECT count(*), coalesce(sum(CASE WHEN r.due_us <= :now_us THEN 1 ELSE 0 END), 0), min(r.due_us)
    FROM renditions r JOIN sessions s ON s.number = r.session WHERE r.due_us IS NOT NULL AND {_CLOSED}"""  # noqa: S608
COUNT_LEASES = """SELECT coalesce(sum(CASE WHEN until_us > :now_us THEN 1 ELSE 0 END), 0), count(*),
    count(DISTINCT CASE WHEN until_us > :now_us THEN owner END) FROM leases WHERE turn >= 0"""
COUNT_PARKED = f"SELECT count(*) FROM renditions r WHERE parked <> '' AND {NEWEST}"  # noqa: S608
LIST_PARKED = f"""SELECT s.id, r.turn, r.calls, r.parked FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.parked <> '' AND {NEWEST} ORDER BY r.id DESC LIMIT :limit"""  # noqa: S608


def take_sessions(connection: Connection, *, limit: int, lease_seconds: float) -> list[SessionWork]:
    """Take sessions with new messages, and postponed ones that are due; the longest waiting first.

    No other worker gets them during the lease, unless something is recorded in them.
    """
    values = {**leases.times(connection, lease_seconds), "limit": limit}
    token = values["until_us"]
    found = connection.execute(LIST_WORK.format(skip_locked=connection.skip_locked), values).fetchall()
    connection.executemany(TAKE_WORK, [{"number": number, "token": token} for number, _, _ in found])
    return [SessionWork(session_id, token, is_new=work_us == 0) for _, session_id, work_us in found]


def put_back(connection: Connection, work: SessionWork, seconds: float | None) -> None:
    """Schedule a session's next visit after this time; None: when something is recorded. No effect if something was
    recorded since it was taken."""
    due_us = None if seconds is None else connection.clock_us() + int(seconds * 1_000_000)
    connection.execute(PUT_BACK, {"id": work.session_id, "token": work.token, "due_us": due_us})


def note_finished(connection: Connection, session_id: str, *, last_turn: int, last_position: int) -> None:
    """Take a session that has everything up to this message out of the queue. No effect if something was recorded
    since, or a worker has taken it."""
    connection.execute(FINISHED, {"id": session_id, "last_turn": last_turn, "last_position": last_position})


def state(connection: Connection, *, limit: int) -> QueueState:
    """Return the counts of the queue, and up to `limit` of the parked turns."""
    moment = {"now_us": connection.clock_us()}
    sessions, due_sessions = connection.execute(COUNT_SESSIONS, moment).fetchone()
    queued, due, first_us = connection.execute(COUNT_DUE, moment).fetchone()
    leased, held, owners = connection.execute(COUNT_LEASES, moment).fetchone()
    (parked,) = connection.execute(COUNT_PARKED).fetchone()
    turns = [ParkedTurn(*row) for row in connection.execute(LIST_PARKED, {"limit": limit})]
    return QueueState(
        sessions=sessions,
        due_sessions=due_sessions,
        model_turns=queued,
        due_model_turns=due,
        waited_seconds=max(0.0, (moment["now_us"] - first_us) / 1_000_000) if first_us is not None else 0.0,
        leased=leased,
        expired=held - leased,
        owners=owners,
        parked=parked,
        parked_turns=tuple(turns),
        workers=workers.running(connection),
    )


def sessions(connection: Connection) -> list[tuple[str, int]]:
    """List the sessions with queued turns and the first due time of each, the earliest first."""
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
    number = chain[0].number
    values = {"session": number, "due_us": now_us, **leases.times(connection), "limit": limit}
    found = []
    for row in connection.execute(LIST_DUE, values).fetchall():
        turn, messages, rendition, due_us, calls, smoothed, compressed = row
        counts = dict(select_spans(connection, COUNT_MESSAGES, chain, turn, turn))
        if counts.get(turn) != messages:  # it has grown or was removed; its next rendition has its own due time
            connection.execute(SET_DUE, {"rendition": rendition, "due_us": None})
            continue
        reserved = -(-max(0, max_calls - calls) // 2)
        due = DueTurn(session_id, turn, messages, rendition, due_us, calls, reserved, smoothed, compressed, owner)
        if reserved:
            found.append(due)
        else:
            parked = NO_CALLS_LEFT if calls else ""
            note(connection, due, PostponedTurn(due_us=None, calls=calls, is_marked=True, parked=parked))
    held = leases.take_turns(connection, number, [due.turn for due in found], owner, lease_seconds)
    claimed = [due for due in found if due.turn in held]
    connection.executemany(
        SET_CALLS, [{"rendition": due.rendition, "calls": due.calls + due.reserved} for due in claimed]
    )
    return claimed


def reserve(connection: Connection, due: DueTurn, calls: int) -> bool:
    """Record, before they are made, the total calls allowed for the turn; return False if its lease was lost."""
    values = {"rendition": due.rendition, "calls": calls, "owner": due.owner}
    return connection.execute(RESERVE, values).rowcount > 0


def postpone(connection: Connection, due: DueTurn, noted: PostponedTurn) -> bool:
    """Keep the renditions as they are and release the lease; return False and change nothing if another worker has
    claimed the turn."""
    is_held = take_due(connection, due)
    if is_held:
        note(connection, due, noted)
    return is_held


def take_due(connection: Connection, due: DueTurn) -> bool:
    """End the lease of a claimed turn; return False if another worker has it, or the session was deleted."""
    try:
        session = number_of(connection, due.session_id)
    except SessionNotFound:
        return False
    return leases.end_turn(connection, session, due.turn, due.owner)


def note(connection: Connection, due: DueTurn, noted: PostponedTurn) -> None:
    """Store the outcome of a claim that does not change the renditions."""
    connection.execute(POSTPONE, {**asdict(noted), "rendition": due.rendition, "local": LOCAL_MAKER})


def hold(connection: Connection, session_id: str, until_us: int) -> None:
    """Postpone all turns of a session until a time."""
    connection.execute(HOLD, {"session": number_of(connection, session_id), "until_us": until_us})


def hurry(connection: Connection, now_us: int) -> None:
    """Make all postponed turns of every session due now."""
    connection.execute(HURRY, {"now_us": now_us})


def want_again(connection: Connection, session_id: str, request: RedoRequest, now_us: int) -> int:
    """Queue again the turns that can be improved, with their calls reset; return their number.

    The session's eras are made again with them.
    """
    session = {"session": number_of(connection, session_id)}
    is_local_only = request.model_version is None
    old = {"version": request.local_version, "local": LOCAL_MAKER, "is_local_only": is_local_only}
    stale = [turn for (turn,) in connection.execute(LIST_STALE, {**session, **old})]
    connection.executemany(DROP_RENDITIONS, [{**session, "turn": turn} for turn in stale])
    if stale:
        connection.execute(LOWER_SETTLED, {**session, "settled": min(stale) - 1})
        connection.execute(DROP_ERAS, session)
        connection.execute(FORGET_ERAS, session)
    if is_local_only:
        return len(stale)
    again = {**session, "version": request.model_version, "local": LOCAL_MAKER, "now_us": now_us}
    return len(stale) + connection.execute(WANT_MODEL, again).rowcount


def requested(connection: Connection, session_id: str, kind: RequestKind, name: str) -> int:
    """Return the count of requests to models; 0 if none was recorded."""
    values = {"session": number_of(connection, session_id), "kind": kind, "name": name}
    row = connection.execute(GET_REQUESTED, values).fetchone()
    return int(row[0]) if row else 0


def note_requested(connection: Connection, session_id: str, kind: RequestKind, name: str, count: int) -> None:
    session = number_of(connection, session_id)
    connection.execute(SET_REQUESTED, {"session": session, "kind": kind, "name": name, "count": count})
