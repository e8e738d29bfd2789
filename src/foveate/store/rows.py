"""SQLite's rows of the raw log: functions of a connection, run by the store's threads inside a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from foveate.errors import SessionExists, SessionNotFound, TurnBegun, TurnNotFound
from foveate.store import Draft, NewSession, Place, SessionRow, sql
from foveate.store.lineage import HeadState, TurnSpan


def now_us() -> int:
    return time.time_ns() // 1000


def session_rows(connection: sqlite3.Connection, statement: str, values: Mapping[str, object]) -> list[SessionRow]:
    cursor = connection.execute(statement, values)
    columns = [column[0] for column in cursor.description]
    return [SessionRow(**dict(zip(columns, row, strict=True))) for row in cursor]


def get_session(connection: sqlite3.Connection, session_id: str) -> SessionRow:
    found = session_rows(connection, sql.GET_SESSION, {"id": session_id})
    if not found:
        raise SessionNotFound(session_id)
    return found[0]


def chain_of(connection: sqlite3.Connection, session_id: str) -> list[SessionRow]:
    """The session and its ancestors, nearest first."""
    chain = [get_session(connection, session_id)]
    while chain[-1].parent is not None:
        chain += session_rows(connection, sql.GET_SESSION_BY_NUMBER, {"number": chain[-1].parent})
    return chain


def select_spans(
    connection: sqlite3.Connection, statement: str, lineage: Sequence[TurnSpan], first: int, last: int
) -> list[tuple[Any, ...]]:
    """The rows of a span statement over a session's lineage, oldest turn first."""
    wanted = (span.clamp(first, last) for span in lineage)
    return [row for span in wanted if span for row in connection.execute(statement, asdict(span))]


def create_session(
    connection: sqlite3.Connection, session: NewSession, parent: SessionRow | None, turn: int, position: int
) -> SessionRow:
    origin = {
        "parent": parent and parent.number,
        "fork_turn": turn,
        "fork_position": position,
        "calibration": parent.calibration if parent else 1.0,
        "now_us": now_us(),
    }
    try:
        connection.execute(sql.ADD_SESSION, {**asdict(session), **origin})
    except sqlite3.IntegrityError as error:
        raise SessionExists(session.id) from error
    return get_session(connection, session.id)


def append(
    connection: sqlite3.Connection, session_id: str, drafts: Sequence[Draft], *, newest_turn: int | None = None
) -> list[Place]:
    row = connection.execute(sql.GET_HEAD, {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    number, turn, position, head = row
    state = HeadState(turn, position, head)
    known = dict(_known_places(connection, number, drafts))
    fresh = [draft for index, draft in enumerate(drafts) if index not in known]
    if not fresh:
        return [known[index] for index in range(len(drafts))]
    if newest_turn is not None and newest_turn > turn:
        raise TurnNotFound(session_id, f"T-{newest_turn}", turn)
    if newest_turn is not None and newest_turn < turn:
        raise TurnBegun(session_id, turn=newest_turn, newest=turn)
    moment = now_us()
    placed = list(state.place(fresh))
    for draft, place in zip(fresh, placed, strict=True):
        _add(connection, number, draft, place, moment)
    moved = {"last_turn": state.turn, "last_position": state.position, "head": state.head}
    newest = max(moment if draft.at_us is None else draft.at_us for draft in fresh)
    connection.execute(sql.MOVE_HEAD, {**moved, "number": number, "newest_us": newest})
    rest = iter(placed)
    return [known[index] if index in known else next(rest) for index in range(len(drafts))]


def _known_places(connection: sqlite3.Connection, session: int, drafts: Sequence[Draft]) -> Iterator[tuple[int, Place]]:
    """The drafts whose key the session has already, by their index, and where they went."""
    for index, draft in enumerate(drafts):
        if draft.key is not None:
            row = connection.execute(sql.FIND_KEY, {"session": session, "key": draft.key}).fetchone()
            if row is not None:
                yield index, Place(row[0], row[1], is_new=False)


def _add(connection: sqlite3.Connection, session: int, draft: Draft, place: Place, moment: int) -> None:
    values = {
        "session": session,
        "turn": place.turn,
        "position": place.position,
        "role": draft.role,
        "kind": draft.kind,
        "tokens": draft.tokens,
        "tool_calls": draft.tool_calls,
        "tool_results": draft.tool_results,
        "at_us": moment if draft.at_us is None else draft.at_us,
        "now_us": moment,
        "size": draft.size,
        "digest": draft.digest,
        "key": draft.key,
    }
    (message,) = connection.execute(sql.ADD_MESSAGE, values).fetchone()
    connection.execute(sql.ADD_BODY, {"message": message, "data": draft.body})
