"""Leases: who works on something, and until when. `Lease` holds one; the other functions take a connection.

A lease is an `owner` (the token of one claim) and `until_us`. The owner renews it while it works. The owner is checked
when a result is stored, so the result of a worker that has lost its lease is rejected. Leases of dead workers expire;
no procedure frees them. Agents and learning runs have both columns in their own rows; turns and other work in a session
have a row in `leases`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from foveate.errors import FoveateError, contained
from foveate.store.lineage import number_of
from foveate.store.sql import Connection

if TYPE_CHECKING:
    from foveate.store.operations import Leases

MAX_LEASE_US = 3_600_000_000
"""A lease that ends later was made before the clock was set back, and is ignored."""
RENEWALS = 3
"""Renewals of a lease within its duration."""

LeaseKind: TypeAlias = Literal["session", "agent", "run"]
"""Leased objects: turns or other work of a session, an agent, or a learning run."""
SessionJob: TypeAlias = Literal["roll-ups", "shrink"]
"""Work in a session other than turns: requests for its eras and artefacts, and the agent of its strategy."""

PLACES: dict[SessionJob, int] = {"roll-ups": 0, "shrink": -1}
"""Numbers of such work in the column `turn` of `leases`; turns start at 1."""
LIVE = "until_us > :now_us AND until_us <= :latest_us"

_HELD: dict[LeaseKind, tuple[str, str]] = {
    "session": ("leases", "owner = :owner"),
    "agent": ("agents", "owner = :owner AND state = 'running'"),
    "run": ("learn_runs", "owner = :owner AND state = 'running'"),
}
"""The table of each kind, and the condition for rows that an owner holds."""
_RENEW = {kind: f"UPDATE {table} SET until_us = :until_us WHERE {held}" for kind, (table, held) in _HELD.items()}  # noqa: S608 - constants
_IS_HELD = {kind: f"SELECT 1 FROM {table} WHERE {held} LIMIT 1" for kind, (table, held) in _HELD.items()}  # noqa: S608
_RELEASE: dict[LeaseKind, str] = {
    "session": "DELETE FROM leases WHERE owner = :owner",
    "agent": "UPDATE agents SET state = 'queued', owner = '', until_us = 0 WHERE owner = :owner AND state = 'running'",
    "run": "UPDATE learn_runs SET owner = '', until_us = 0 WHERE owner = :owner AND state = 'running'",
}
LIST_LEASED = f"SELECT turn FROM leases WHERE session = :session AND {LIVE}"  # noqa: S608
# If two workers claim a turn at the same time, the second finds the lease of the first and gets nothing.
ADD_LEASES = """INSERT INTO leases (session, turn, owner, until_us, attempts) VALUES {rows}
    ON CONFLICT (session, turn) DO UPDATE SET owner = :owner, until_us = :until_us, attempts = leases.attempts + 1
    WHERE leases.until_us <= :now_us OR leases.until_us > :latest_us RETURNING turn, attempts"""
DROP_LEASE = "DELETE FROM leases WHERE session = :session AND turn = :turn"
DROP_OWN_LEASE = f"{DROP_LEASE} AND owner = :owner"

_log = logging.getLogger(__name__)


def times(connection: Connection, lease_seconds: float = 0.0) -> dict[str, int]:
    """Return the parameters of `LIVE` and the end of a lease that begins now, by the database's clock."""
    moment = connection.clock_us()
    until_us = moment + int(lease_seconds * 1_000_000)
    return {"now_us": moment, "latest_us": moment + MAX_LEASE_US, "until_us": until_us}


def renew(connection: Connection, kind: LeaseKind, owner: str, lease_seconds: float) -> bool:
    """Renew all leases of this owner; False if it has none."""
    return connection.execute(_RENEW[kind], {"owner": owner, **times(connection, lease_seconds)}).rowcount > 0


def is_held(connection: Connection, kind: LeaseKind, owner: str) -> bool:
    """Return whether this owner has a lease."""
    return connection.execute(_IS_HELD[kind], {"owner": owner}).fetchone() is not None


def release(connection: Connection, kind: LeaseKind, owner: str) -> None:
    """End all leases of this owner. Agents are queued again; reserved calls stay counted."""
    connection.execute(_RELEASE[kind], {"owner": owner})


def take(connection: Connection, session_id: str, job: SessionJob, owner: str, lease_seconds: float) -> bool:
    """Lease work in a session; False if it is leased already."""
    return bool(take_turns(connection, number_of(connection, session_id), [PLACES[job]], owner, lease_seconds))


def is_taken(connection: Connection, session_id: str, job: SessionJob) -> bool:
    """Return whether work in a session is leased."""
    return PLACES[job] in leased_turns(connection, number_of(connection, session_id))


def take_turns(
    connection: Connection, session: int, turns: Sequence[int], owner: str, lease_seconds: float
) -> dict[int, int]:
    """Lease the turns that are free; return each with its number of consecutive attempts, including this one."""
    if not turns:
        return {}
    # All workers use the same order, so that two of them can't deadlock.
    numbered = {f"turn{place}": turn for place, turn in enumerate(sorted(turns))}
    values = {"session": session, "owner": owner, **times(connection, lease_seconds), **numbered}
    return dict(connection.execute(_add_leases(len(turns)), values).fetchall())


@cache
def _add_leases(count: int) -> str:
    rows = (f"(:session, :turn{place}, :owner, :until_us, 1)" for place in range(count))
    return ADD_LEASES.format(rows=", ".join(rows))


def leased_turns(connection: Connection, session: int) -> set[int]:
    """Return the leased turns of a session."""
    return {row[0] for row in connection.execute(LIST_LEASED, {"session": session, **times(connection)})}


def end_turn(connection: Connection, session: int, turn: int, owner: str) -> bool:
    """End the lease of a turn; False if this owner has lost it."""
    return connection.execute(DROP_OWN_LEASE, {"session": session, "turn": turn, "owner": owner}).rowcount > 0


class Lease:
    """Holds the leases of one owner while the block runs: a task renews them, and the end of the block releases them.

        async with Lease(store.leases, "session", 60.0, job=("s", "roll-ups")) as lease:
            if lease.is_held:
                ...

    Without a `job`, it holds the claims that are made with `lease.owner`. With `lost`, the block is cancelled and this
    error is raised once the lease is lost.
    """

    def __init__(
        self,
        leases: Leases,
        kind: LeaseKind,
        lease_seconds: float,
        *,
        owner: str | None = None,
        job: tuple[str, SessionJob] | None = None,
        lost: FoveateError | None = None,
        look_seconds: float = float("inf"),
    ) -> None:
        self.owner = owner or uuid.uuid4().hex
        self.is_held = job is None
        """False if another owner holds it, or once it is lost."""
        self._leases = leases
        self._kind: LeaseKind = kind
        self._lease_seconds = lease_seconds
        self._job = job
        self._lost = lost
        self._look_seconds = look_seconds
        self._work: asyncio.Task[object] | None = None
        self._beat: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Take the lease of the job before the block begins, if it is free; see `is_held`."""
        if self._job and not self.is_held:
            self.is_held = await self._leases.take(*self._job, self.owner, self._lease_seconds)

    def settle(self) -> None:
        """Stop renewing: storing the result ends the lease. It is released only after an error."""
        if self._beat:
            self._beat.cancel()
            self._beat = None

    async def __aenter__(self) -> Lease:
        await self.acquire()
        if self.is_held:
            self._work = asyncio.current_task()
            self._beat = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_settled = self._beat is None
        self.settle()
        if self._lost and self._work and not self.is_held:
            if not isinstance(error, asyncio.CancelledError):
                with suppress(asyncio.CancelledError):  # the block has not been cancelled yet
                    await asyncio.sleep(0)
            if not self._work.uncancel():
                raise self._lost from None
        elif self._work and (error or not is_settled):
            with contained(_log, "a lease can't be released; it will expire"):
                await asyncio.shield(self._leases.release(self._kind, self.owner))

    async def _renew(self) -> None:
        interval = self._lease_seconds / RENEWALS
        pause = min(self._look_seconds, interval)
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(pause)
            with contained(_log, "a lease can't be renewed"):
                if time.monotonic() - renewed > interval - pause / 2:
                    is_held = await self._leases.renew(self._kind, self.owner, self._lease_seconds)
                    renewed = time.monotonic()
                else:
                    is_held = await self._leases.is_held(self._kind, self.owner)
                if self._lost and self._work and not is_held:
                    self.is_held = False
                    self._work.cancel()
                    return
                self.is_held = is_held
