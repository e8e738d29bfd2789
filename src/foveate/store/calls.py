"""The accounts: every call of a model, by Foveate or by a client, and its cost. Functions of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from foveate.store import agents
from foveate.store.agents import CallLimit
from foveate.store.lineage import number_of
from foveate.store.rows import DAY_US, NANO, RUNNING, CallRow, CostRow
from foveate.store.sql import Connection, now_us

GATEWAY: Final = "gateway"
"""The purpose of a call of a client, which pays for it: no limit of Foveate's own calls counts it."""
_PARTS = """turn, at_us, provider, model, purpose, input_tokens, output_tokens, cached_tokens, nano_usd,
    is_estimate, latency_us, outcome, prompt_hash, tenant, key_id, client, request_id, status, first_byte_us,
    written_tokens, thinking_tokens, predicted_tokens, whole_tokens, whole_nano_usd"""
_COLUMNS = f"session, {_PARTS}"
_VALUES = """(SELECT number FROM sessions WHERE id = :session_id), :turn, :at_us, :provider, :model, :purpose,
    :input_tokens, :output_tokens, :cached_tokens, :nano_usd, :is_estimate, :latency_us, :outcome, :prompt_hash,
    coalesce((SELECT tenant FROM sessions WHERE id = :session_id), :tenant), :key_id, :client, :request_id, :status,
    :first_byte_us, :written_tokens, :thinking_tokens, :predicted_tokens, :whole_tokens, :whole_nano_usd"""
ADD = f"INSERT INTO calls ({_COLUMNS}) VALUES ({_VALUES}) RETURNING id"  # noqa: S608
_OWN = f"purpose <> '{GATEWAY}'"  # as in the index `calls_own`
SUM = f"SELECT coalesce(sum(nano_usd), 0) FROM calls WHERE at_us >= :since_us AND {_OWN}"  # noqa: S608
_OF_KEY = "FROM calls WHERE key_id = :key_id AND key_id <> '' AND at_us >= :since_us"
SUM_OF_KEY = f"SELECT coalesce(sum(nano_usd), 0) {_OF_KEY}"
LONGEST_CALL_US: Final = 1_800_000_000
"""A client's call that was booked earlier is not in progress any more: its server was killed. 128,000 tokens of output
at 71 a second take as long. Its booking stays counted, since the provider may charge for it."""
_IN_PROGRESS = f"outcome = '{RUNNING}' AND at_us >= :alive_us"
SUMS_OF_KEY = f"""SELECT coalesce(sum(CASE WHEN {_IN_PROGRESS} THEN 0 ELSE nano_usd END), 0),
    coalesce(sum(CASE WHEN {_IN_PROGRESS} THEN nano_usd ELSE 0 END), 0),
    coalesce(sum(CASE WHEN outcome = '{RUNNING}' AND NOT ({_IN_PROGRESS}) THEN nano_usd ELSE 0 END), 0),
    max(CASE WHEN {_IN_PROGRESS} THEN at_us END) {_OF_KEY}"""
RESERVE = f"""INSERT INTO calls ({_COLUMNS}) SELECT {_VALUES}
    WHERE ({SUM}) + :nano_usd <= :limit_nano_usd RETURNING id"""
RESERVE_FOR_KEY = f"""INSERT INTO calls ({_COLUMNS}) SELECT {_VALUES}
    WHERE ({SUM_OF_KEY}) + :nano_usd <= :limit_nano_usd RETURNING id"""
REBOOK_FOR_KEY = f"""UPDATE calls SET nano_usd = :nano_usd WHERE id = :id AND outcome = '{RUNNING}'
    AND ({SUM_OF_KEY}) - nano_usd + :nano_usd <= :limit_nano_usd RETURNING id"""  # noqa: S608 - constants
SETTLE = """UPDATE calls SET model = :model, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cached_tokens = :cached_tokens, nano_usd = :nano_usd, is_estimate = :is_estimate, latency_us = :latency_us,
    outcome = :outcome WHERE id = :id"""
SETTLE_CLIENT = """UPDATE calls SET session = (SELECT number FROM sessions WHERE id = :session_id), turn = :turn,
    input_tokens = :input_tokens, output_tokens = :output_tokens, cached_tokens = :cached_tokens, nano_usd = :nano_usd,
    is_estimate = :is_estimate, latency_us = :latency_us, outcome = :outcome, status = :status,
    first_byte_us = :first_byte_us, written_tokens = :written_tokens, thinking_tokens = :thinking_tokens,
    predicted_tokens = :predicted_tokens, whole_tokens = :whole_tokens, whole_nano_usd = :whole_nano_usd
    WHERE id = :id"""
PRUNE_CLIENTS = f"DELETE FROM calls WHERE at_us < :before_us AND purpose = '{GATEWAY}'"  # noqa: S608
MARK_UNFIT = "UPDATE calls SET outcome = 'unfit' WHERE id = :id"
NEWEST = f"""SELECT (SELECT id FROM sessions WHERE number = session), {_PARTS} FROM calls
    WHERE at_us >= :since_us AND {_OWN} ORDER BY at_us DESC, calls.id DESC LIMIT :limit"""  # noqa: S608
LIST_COSTS = """SELECT s.id, c.at_us / 86400000000 AS day, c.model, c.purpose, count(*),
    sum(CASE WHEN c.outcome IN ('ok', 'unfit', 'running', 'cancelled') THEN 0 ELSE 1 END),
    sum(CASE WHEN c.outcome = 'unfit' THEN 1 ELSE 0 END), sum(c.latency_us), sum(c.input_tokens), sum(c.output_tokens),
    sum(c.cached_tokens), sum(c.nano_usd), max(c.is_estimate)
    FROM calls c LEFT JOIN sessions s ON s.number = c.session
    WHERE c.at_us >= :since_us AND (:session IS NULL OR c.session = :session)
    GROUP BY c.session, s.id, c.at_us / 86400000000, c.model, c.purpose
    ORDER BY day, s.id NULLS FIRST, c.model, c.purpose"""
_BY: Final[dict[str, str]] = {
    "day": "c.at_us / 86400000000",
    "key": "c.key_id",
    "project": "coalesce(s.channel, '')",
    "model": "c.model",
    "session": "coalesce(s.id, '')",
    "client": "c.client",
    "purpose": "c.purpose",
    "tenant": "c.tenant",
}
_UNUSED = "CASE WHEN c.outcome IN ('ok', 'running', 'cancelled') THEN 0 ELSE 1 END"
LIST_SPENDING = f"""SELECT {{by}} AS name, count(*), sum({_UNUSED}), sum(c.latency_us), sum(c.first_byte_us),
    sum(c.input_tokens), sum(c.cached_tokens), sum(c.written_tokens), sum(c.output_tokens), sum(c.thinking_tokens),
    coalesce(sum(c.predicted_tokens), 0),
    coalesce(sum(CASE WHEN c.cached_tokens < c.predicted_tokens THEN c.cached_tokens ELSE c.predicted_tokens END), 0),
    sum(coalesce(c.whole_tokens, c.input_tokens)), sum(c.nano_usd), sum(coalesce(c.whole_nano_usd, c.nano_usd)),
    max(c.is_estimate)
    FROM calls c LEFT JOIN sessions s ON s.number = c.session
    WHERE c.at_us >= :since_us AND (:tenant IS NULL OR c.tenant = :tenant)
    AND (:session IS NULL OR c.session = :session)
    GROUP BY {{by}} ORDER BY {{order}} LIMIT :limit"""  # noqa: S608 - expressions above

SpendDimension = Literal["day", "key", "project", "model", "session", "client", "purpose", "tenant"]
"""What spending is listed by."""
SPEND_DIMENSIONS: tuple[SpendDimension, ...] = get_args(SpendDimension)


@dataclass(frozen=True, slots=True)
class KeySpending:
    """What the calls of a key cost in a period."""

    spent_nano_usd: int
    """By calls that ended, or were lost."""
    booked_nano_usd: int = 0
    """By calls in progress at their maximum."""
    lost_nano_usd: int = 0
    """Of what is spent: by calls whose server was killed, at their maximum."""
    booked_us: int | None = None
    """When the newest call in progress was booked."""

    @property
    def nano_usd(self) -> int:
        return self.spent_nano_usd + self.booked_nano_usd


@dataclass(frozen=True, slots=True)
class SpendRow:
    """Totals of the calls with one value of a dimension."""

    name: str
    """A day in UTC, the id of a key, a project label, a model, …; empty if a call has none."""
    calls: int
    failed: int
    """Calls without an answer, or whose answer was rejected."""
    latency_us: int
    """Sum over the calls."""
    first_byte_us: int
    """Sum over the calls."""
    input_tokens: int
    """Includes cached and cache-written tokens."""
    cached_tokens: int
    written_tokens: int
    output_tokens: int
    """Includes thinking."""
    thinking_tokens: int
    predicted_tokens: int
    """Input that was expected to be cached, over the calls with a prediction."""
    confirmed_tokens: int
    """Input of the same calls that the provider reported as cached."""
    whole_tokens: int
    """Input, had whole conversations been sent, over the calls where this is known; otherwise the real input."""
    nano_usd: int
    whole_nano_usd: int
    """Cost, had whole conversations been sent, over the calls where this is known; otherwise the real cost."""
    is_estimate: bool

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO

    @property
    def saved_usd(self) -> float:
        """What sending whole conversations would have cost in addition; negative if less."""
        return (self.whole_nano_usd - self.nano_usd) / NANO


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


def add_clients_calls(connection: Connection, settled: Sequence[tuple[int | None, CallRow]]) -> None:
    """Record finished calls of clients; one with a number replaces its reservation."""
    for number, call in settled:
        if number is None:
            connection.execute(ADD, asdict(call))
        else:
            connection.execute(SETTLE_CLIENT, {**asdict(call), "id": number})


def reserve_for_key(
    connection: Connection, call: CallRow, *, since_us: int, limit_nano_usd: int
) -> tuple[int | None, KeySpending]:
    """Record a client's call at its maximum cost before it is made; the number is None if the calls of its key since
    `since_us` would exceed the limit. Also return what they cost without it. Atomic across processes."""
    values = {**asdict(call), "since_us": since_us, "limit_nano_usd": limit_nano_usd}
    spent = spent_by_key(connection, call.key_id, since_us)
    row = connection.execute(RESERVE_FOR_KEY, values).fetchone()
    return (None if row is None else int(row[0])), spent


def rebook_for_key(
    connection: Connection, number: int, *, key_id: str, nano_usd: int, since_us: int, limit_nano_usd: int
) -> tuple[bool, KeySpending]:
    """Change the maximum cost of a reservation; False if the calls of its key would then exceed the limit. Also return
    what they cost without the change. Atomic across processes."""
    values = {"id": number, "key_id": key_id, "nano_usd": nano_usd, "since_us": since_us}
    spent = spent_by_key(connection, key_id, since_us)
    row = connection.execute(REBOOK_FOR_KEY, {**values, "limit_nano_usd": limit_nano_usd}).fetchone()
    return row is not None, spent


def spent_by_key(connection: Connection, key_id: str, since_us: int) -> KeySpending:
    """Sum the nano-dollars of a key's calls since a moment, those of reservations apart."""
    values = {"key_id": key_id, "since_us": since_us, "alive_us": now_us() - LONGEST_CALL_US}
    spent, booked, lost, booked_us = connection.execute(SUMS_OF_KEY, values).fetchone()
    return KeySpending(int(spent), int(booked), int(lost), booked_us)


def prune_clients_calls(connection: Connection, before_us: int) -> int:
    """Remove the calls of clients before a moment; return their number."""
    return connection.execute(PRUNE_CLIENTS, {"before_us": before_us}).rowcount


def spending(
    connection: Connection,
    by: SpendDimension,
    *,
    since_us: int = 0,
    tenant: str | None = None,
    session_id: str | None = None,
    limit: int = 100_000,
) -> list[SpendRow]:
    """List totals by a dimension: days oldest first, anything else by cost."""
    session = None if session_id is None else number_of(connection, session_id)
    order = "name" if by == "day" else "sum(c.nano_usd) DESC, name"
    statement = LIST_SPENDING.format(by=_BY[by], order=order)
    values = {"since_us": since_us, "tenant": tenant, "session": session, "limit": limit}
    rows = connection.execute(statement, values).fetchall()
    return [SpendRow(_day(name) if by == "day" else name, *sums, is_estimate=bool(est)) for name, *sums, est in rows]  # type: ignore[misc]


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
    return CostRow(session_id, _day(day), model, purpose, *sums, is_estimate=bool(is_estimate))  # type: ignore[misc]


def _day(number: int) -> str:
    return f"{datetime.fromtimestamp(number * DAY_US / 1_000_000, UTC):%Y-%m-%d}"
