"""SQLite's queue for models: see `foveate.store.due`."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from foveate.errors import SessionNotFound
from foveate.store import rows, sql, sql_due
from foveate.store.due import LOCAL_MAKER, DueTurn, PostponedTurn, RedoRequest, RefinedTurn
from foveate.store.lineage import spans

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

MAX_LEASE_US = 3_600_000_000
"""A lease that ends later was given before the clock was set back, and holds nobody up."""


class Run(Protocol):
    """Runs a job with a connection, in a transaction."""

    def __call__(self, job: Job[T], /) -> Awaitable[T]: ...


class SqliteDue:
    def __init__(self, read: Run, write: Run) -> None:
        self._read = read
        self._write = write

    async def sessions(self) -> list[tuple[str, int]]:
        def job(connection: sqlite3.Connection) -> list[tuple[str, int]]:
            return [(name, due_us) for name, due_us in connection.execute(sql_due.LIST_DUE_SESSIONS)]

        return await self._read(job)

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, max_calls: int, now_us: int
    ) -> list[DueTurn]:
        def job(connection: sqlite3.Connection) -> list[DueTurn]:
            lineage = spans(rows.chain_of(connection, session_id))
            number = rows.get_session(connection, session_id).number
            moment = rows.now_us()
            lease = {"session": number, "owner": owner, "until_us": moment + int(lease_seconds * 1_000_000)}
            values = {"session": number, "due_us": now_us, "now_us": moment, "latest_us": moment + MAX_LEASE_US}
            claimed = []
            found = connection.execute(sql_due.LIST_DUE, {**values, "limit": limit}).fetchall()
            for turn, messages, rendition, due_us, calls, smoothed, compressed in found:
                counts = dict(rows.select_spans(connection, sql.COUNT_MESSAGES, lineage, turn, turn))
                if counts.get(turn) != messages:  # it has grown or is gone; what is made of it next is due by itself
                    connection.execute(sql_due.SET_DUE, {"rendition": rendition, "due_us": None})
                    continue
                reserved = -(-max(0, max_calls - calls) // 2)
                due = DueTurn(session_id, turn, messages, rendition, due_us, calls, reserved, smoothed, compressed)
                if not reserved:
                    _note(connection, due, PostponedTurn(due_us=None, calls=calls, is_marked=True))
                    continue
                connection.execute(sql.ADD_LEASE, {**lease, "turn": turn})
                connection.execute(sql_due.SET_CALLS, {"rendition": rendition, "calls": calls + reserved})
                claimed.append(due)
            return claimed

        return await self._write(job)

    async def reserve(self, due: DueTurn, calls: int) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute(sql_due.SET_CALLS, {"rendition": due.rendition, "calls": calls})

        await self._write(job)

    async def refine(self, due: DueTurn, made: RefinedTurn) -> bool:
        def job(connection: sqlite3.Connection) -> bool:
            values = {**asdict(made), "rendition": due.rendition, "now_us": rows.now_us()}
            is_kept = connection.execute(sql_due.REFINE, values).rowcount > 0
            _note(connection, due, PostponedTurn(due_us=None, calls=made.calls))
            return is_kept

        return await self._write(job)

    async def postpone(self, due: DueTurn, noted: PostponedTurn) -> None:
        await self._write(lambda connection: _note(connection, due, noted))

    async def hold(self, session_id: str, until_us: int) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id).number
            connection.execute(sql_due.HOLD, {"session": session, "until_us": until_us})

        await self._write(job)

    async def hurry(self, now_us: int) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute(sql_due.HURRY, {"now_us": now_us})

        await self._write(job)

    async def renew(self, owner: str, lease_seconds: float) -> None:
        def job(connection: sqlite3.Connection) -> None:
            until_us = rows.now_us() + int(lease_seconds * 1_000_000)
            connection.execute(sql_due.RENEW_LEASES, {"owner": owner, "until_us": until_us})

        await self._write(job)

    async def release(self, owner: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute(sql_due.RELEASE_LEASES, {"owner": owner})

        await self._write(job)

    async def want_again(self, session_id: str, wanted: RedoRequest, now_us: int) -> int:
        def job(connection: sqlite3.Connection) -> int:
            session = {"session": rows.get_session(connection, session_id).number}
            is_local_only = wanted.model_version is None
            old = {"version": wanted.local_version, "local": LOCAL_MAKER, "is_local_only": is_local_only}
            stale = [turn for (turn,) in connection.execute(sql_due.LIST_STALE, {**session, **old})]
            connection.executemany(sql_due.DROP_RENDITIONS, [{**session, "turn": turn} for turn in stale])
            if stale:
                connection.execute(sql_due.LOWER_SETTLED, {**session, "settled": min(stale) - 1})
            if is_local_only:
                return len(stale)
            again = {**session, "version": wanted.model_version, "local": LOCAL_MAKER, "now_us": now_us}
            return len(stale) + connection.execute(sql_due.WANT_MODEL, again).rowcount

        return await self._write(job)


def _note(connection: sqlite3.Connection, due: DueTurn, noted: PostponedTurn) -> None:
    values: dict[str, Any] = {**asdict(noted), "rendition": due.rendition, "local": LOCAL_MAKER}
    connection.execute(sql_due.POSTPONE, values)
    try:
        session = rows.get_session(connection, due.session_id).number
    except SessionNotFound:
        return  # deleted meanwhile, and its leases with it
    connection.execute(sql.DROP_LEASE, {"session": session, "turn": due.turn})
