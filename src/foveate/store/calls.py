"""The accounts: every model call, its tokens and its cost. Functions of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from foveate.store import agents
from foveate.store.agents import CallLimit
from foveate.store.lineage import number_of
from foveate.store.rows import DAY_US, CallRow, CostRow
from foveate.store.sql import Connection

_PARTS = """turn, at_us, provider, model, purpose, input_tokens, output_tokens, cached_tokens, nano_usd,
    is_estimate, latency_us, outcome, prompt_hash"""
_COLUMNS = f"session, {_PARTS}"
_VALUES = """(SELECT number FROM sessions WHERE id = :session_id), :turn, :at_us, :provider, :model, :purpose,
    :input_tokens, :output_tokens, :cached_tokens, :nano_usd, :is_estimate, :latency_us, :outcome, :prompt_hash"""
ADD = f"INSERT INTO calls ({_COLUMNS}) VALUES ({_VALUES}) RETURNING id"  # noqa: S608
SUM = "SELECT coalesce(sum(nano_usd), 0) FROM calls WHERE at_us >= :since_us"
RESERVE = f"""INSERT INTO calls ({_COLUMNS}) SELECT {_VALUES}
    WHERE ({SUM}) + :nano_usd <= :limit_nano_usd RETURNING id"""
SETTLE = """UPDATE calls SET model = :model, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cached_tokens = :cached_tokens, nano_usd = :nano_usd, is_estimate = :is_estimate, latency_us = :latency_us,
    outcome = :outcome WHERE id = :id"""
MARK_UNFIT = "UPDATE calls SET outcome = 'unfit' WHERE id = :id"
NEWEST = f"""SELECT (SELECT id FROM sessions WHERE number = session), {_PARTS} FROM calls
    WHERE at_us >= :since_us ORDER BY at_us DESC, calls.id DESC LIMIT :limit"""  # noqa: S608
LIST_COSTS = """SELECT s.id, c.at_us / 86400000000 AS day, c.model, c.purpose, count(*),
    sum(CASE WHEN c.outcome IN ('ok', 'unfit', 'running', 'cancelled') THEN 0 ELSE 1 END),
    sum(CASE WHEN c.outcome = 'unfit' THEN 1 ELSE 0 END), sum(c.latency_us), sum(c.input_tokens), sum(c.output_tokens),
    sum(c.cached_tokens), sum(c.nano_usd), max(c.is_estimate)
    FROM calls c LEFT JOIN sessions s ON s.number = c.session
    WHERE c.at_us >= :since_us AND (:session IS NULL OR c.session = :session)
    GROUP BY c.session, s.id, c.at_us / 86400000000, c.model, c.purpose
    ORDER BY day, s.id NULLS FIRST, c.model, c.purpose"""


def add(connection: Connection, call: CallRow) -> int:
    """Record a call and return its number; the call has no session if that was deleted."""
    (number,) = connection.execute(ADD, asdict(call)).fetchone()
    return int(number)


def reserve(
    connection: Connection, call: CallRow, *, since_us: int, limit_nano_usd: int, within: CallLimit | None = None
) -> int | None:
    """Record a call at its maximum cost before it is made; return None if all calls since `since_us` would exceed the
    limit. Raise `LimitReached` or `ClaimLost` if an agent may not make it. The check is atomic across processes."""
    if within is not None:
        agents.check_call(connection, call, within)
    values = {**asdict(call), "since_us": since_us, "limit_nano_usd": limit_nano_usd}
    row = connection.execute(RESERVE, values).fetchone()
    return None if row is None else int(row[0])


def settle(connection: Connection, reservation: int, call: CallRow) -> None:
    """Replace a reservation with the call's actual usage."""
    connection.execute(SETTLE, {**asdict(call), "id": reservation})


def mark_unfit(connection: Connection, number: int) -> None:
    """Mark a call whose answer was rejected."""
    connection.execute(MARK_UNFIT, {"id": number})


def newest(connection: Connection, since_us: int, *, limit: int) -> list[CallRow]:
    """List the last `limit` calls since a moment, oldest first."""
    found = connection.execute(NEWEST, {"since_us": since_us, "limit": limit}).fetchall()
    return [_call(row) for row in reversed(found)]


def spent(connection: Connection, since_us: int) -> int:
    """Sum the nano-dollars of all calls since a moment, over all sessions and processes, including reservations."""
    (nano_usd,) = connection.execute(SUM, {"since_us": since_us}).fetchone()
    return int(nano_usd)


def costs(connection: Connection, session_id: str | None = None, *, since_us: int = 0) -> list[CostRow]:
    """List totals by session, day, model and purpose, oldest day first, for one session or all."""
    session = None if session_id is None else number_of(connection, session_id)
    found = connection.execute(LIST_COSTS, {"session": session, "since_us": since_us})
    return [_cost(row) for row in found]


def _call(row: Sequence[Any]) -> CallRow:
    named = dict(zip(CallRow.__dataclass_fields__, row, strict=True))
    return CallRow(**{**named, "is_estimate": bool(named["is_estimate"])})


def _cost(row: Sequence[Any]) -> CostRow:
    session_id, day, model, purpose, *sums, is_estimate = row
    began = datetime.fromtimestamp(day * DAY_US / 1_000_000, UTC)
    return CostRow(session_id, f"{began:%Y-%m-%d}", model, purpose, *sums, is_estimate=bool(is_estimate))  # type: ignore[misc]
