"""SQLite's accounts: see `foveate.store.calls`."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from foveate.store import rows, sql
from foveate.store.calls import DAY_US, CallRow, CostRow

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]


class _Run(Protocol):
    def __call__(self, job: Job[T], /) -> Awaitable[T]: ...


class SqliteCalls:
    def __init__(self, read: _Run, write: _Run) -> None:
        self._read = read
        self._write = write

    async def add(self, call: CallRow) -> int:
        def job(connection: sqlite3.Connection) -> int:  # a cursor must not leave the writer's thread
            (number,) = connection.execute(sql.ADD_CALL, asdict(call)).fetchone()
            return int(number)

        return await self._write(job)

    async def reserve(self, call: CallRow, *, since_us: int, limit_nano_usd: int) -> int | None:
        def job(connection: sqlite3.Connection) -> int | None:
            values = {**asdict(call), "since_us": since_us, "limit_nano_usd": limit_nano_usd}
            row = connection.execute(sql.RESERVE_CALL, values).fetchone()
            return None if row is None else int(row[0])

        return await self._write(job)

    async def settle(self, reservation: int, call: CallRow) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute(sql.SETTLE_CALL, {**asdict(call), "id": reservation})

        await self._write(job)

    async def mark_unfit(self, number: int) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute(sql.MARK_UNFIT, {"id": number})

        await self._write(job)

    async def newest(self, since_us: int, *, limit: int) -> list[CallRow]:
        def job(connection: sqlite3.Connection) -> list[CallRow]:
            found = connection.execute(sql.NEWEST_CALLS, {"since_us": since_us, "limit": limit}).fetchall()
            return [_call(row) for row in reversed(found)]

        return await self._read(job)

    async def spent(self, since_us: int) -> int:
        def job(connection: sqlite3.Connection) -> int:
            (nano_usd,) = connection.execute(sql.SUM_CALLS, {"since_us": since_us}).fetchone()
            return int(nano_usd)

        return await self._read(job)

    async def costs(self, session_id: str | None = None, *, since_us: int = 0) -> list[CostRow]:
        def job(connection: sqlite3.Connection) -> list[CostRow]:
            number = rows.get_session(connection, session_id).number if session_id is not None else None
            values = {"session": number, "since_us": since_us}
            return [_cost(row) for row in connection.execute(sql.LIST_COSTS, values)]

        return await self._read(job)


def _call(row: Sequence[Any]) -> CallRow:
    named = dict(zip(CallRow.__dataclass_fields__, row, strict=True))
    return CallRow(**{**named, "is_estimate": bool(named["is_estimate"])})


def _cost(row: Sequence[Any]) -> CostRow:
    session_id, day, model, purpose, *sums, is_estimate = row
    began = datetime.fromtimestamp(day * DAY_US / 1_000_000, UTC)
    return CostRow(session_id, f"{began:%Y-%m-%d}", model, purpose, *sums, is_estimate=bool(is_estimate))  # type: ignore[misc]
