"""SQLite's derived half: see `foveate.store.derived`."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from foveate.store import SessionRow, rows, sql, sql_due
from foveate.store.derived import (
    ERA_FANOUT,
    Backlog,
    Claim,
    EraRow,
    NewRendition,
    RenditionRow,
    RenditionSizes,
)
from foveate.store.due import LOCAL_MAKER
from foveate.store.lineage import NO_LIMIT, TurnSpan, fork_turns, spans
from foveate.store.passages import NewPassages
from foveate.store.sqlite_due import MAX_LEASE_US, Run, SqliteDue
from foveate.store.sqlite_passages import DAMAGED, add_passages, is_damage, want_passages, written_now

CLAIM_WINDOW = 256
"""How many turns beyond the settled ones a claim looks at."""
REGROWTH = 1.5
"""An open turn gets new renditions when it has this many times the messages of its last ones."""

_log = logging.getLogger(__name__)


class SqliteDerived:
    def __init__(self, read: Run, write: Run) -> None:
        self._read = read
        self._write = write
        self._due = SqliteDue(read, write)

    @property
    def due(self) -> SqliteDue:
        return self._due

    async def unsettled(self) -> list[str]:
        return await self._read(lambda connection: [row[0] for row in connection.execute(sql.LIST_UNSETTLED)])

    async def claim(
        self, session_id: str, *, owner: str, limit: int, lease_seconds: float, include_open: bool
    ) -> list[Claim]:
        def job(connection: sqlite3.Connection) -> list[Claim]:
            session = rows.get_session(connection, session_id)
            now_us = rows.now_us()
            moments = {"now_us": now_us, "latest_us": now_us + MAX_LEASE_US}
            leased = {row[0] for row in connection.execute(sql.LIST_LEASED, {"session": session.number, **moments})}
            lacking = list(_lacking(connection, session, include_open=include_open))
            claims = [Claim(session_id, turn, count) for turn, count in lacking if turn not in leased][:limit]
            until_us = now_us + int(lease_seconds * 1_000_000)
            for claim in claims:
                lease = {"session": session.number, "turn": claim.turn, "owner": owner, "until_us": until_us}
                connection.execute(sql.ADD_LEASE, lease)
            return claims

        return await self._write(job)

    async def add_renditions(self, session_id: str, renditions: Sequence[NewRendition]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id)
            for rendition in renditions:
                _add(connection, session.number, rendition)
            _index(connection, session.number, [made.passages for made in renditions if made.passages])
            _settle(connection, session)

        await self._write(job)

    async def release(self, session_id: str, owner: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id)
            connection.execute(sql.DROP_LEASES, {"session": session.number, "owner": owner})

        await self._write(job)

    async def sizes_of(self, session_id: str, first: int, last: int) -> list[RenditionSizes]:
        def job(connection: sqlite3.Connection) -> list[RenditionSizes]:
            chain = rows.chain_of(connection, session_id)
            made = _newest(connection, sql.LIST_SIZES, chain, first, last)
            found = rows.select_spans(connection, sql.READ_TURNS, spans(chain), first, last)
            missing = (None, None, None, None)
            return [
                RenditionSizes(row[0], row[2], row[1], *made.get(row[0], missing)[:4], is_pruned=bool(row[-1]))  # type: ignore[misc]
                for row in found
            ]

        return await self._read(job)

    async def counts(self, session_id: str, first: int, last: int, *, chunk_turns: int) -> dict[int, int]:
        def job(connection: sqlite3.Connection) -> dict[int, int]:
            found: Counter[int] = Counter()
            chain = rows.chain_of(connection, session_id)
            for chunk, count in _made(connection, sql_due.count_renditions(chunk_turns), chain, first, last):
                found[chunk] += count
            return dict(found)

        return await self._read(job)

    async def renditions(self, session_id: str, first: int, last: int) -> list[RenditionRow]:
        def job(connection: sqlite3.Connection) -> list[RenditionRow]:
            made = _newest(connection, sql.LIST_RENDITIONS, rows.chain_of(connection, session_id), first, last)
            return [RenditionRow(turn, *values) for turn, values in made.items()]

        return await self._read(job)

    async def tinies(self, session_id: str, first: int, last: int) -> list[tuple[int, str, int]]:
        def job(connection: sqlite3.Connection) -> list[tuple[int, str, int]]:
            made = _newest(connection, sql.LIST_TINIES, rows.chain_of(connection, session_id), first, last)
            return [(turn, tiny, tokens) for turn, (tiny, tokens) in made.items()]

        return await self._read(job)

    async def add_eras(self, session_id: str, eras: Sequence[EraRow]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            owner = {"session": rows.get_session(connection, session_id).number, "now_us": rows.now_us()}
            connection.executemany(sql.ADD_ERA, [{**asdict(era), **owner} for era in eras])

        await self._write(job)

    async def eras(self, session_id: str, level: int, first: int, last: int) -> list[EraRow]:
        found = await self._read(lambda connection: _eras(connection, sql.LIST_ERAS, session_id, level, (first, last)))
        return [EraRow(level, *row) for row in found]

    async def era_tokens(self, session_id: str, level: int, first: int, last: int) -> list[tuple[int, int]]:
        statement = sql.LIST_ERA_TOKENS
        return await self._read(lambda connection: _eras(connection, statement, session_id, level, (first, last)))

    async def next_era(self, session_id: str, level: int) -> int:
        def job(connection: sqlite3.Connection) -> int:
            made = -1
            for span in spans(rows.chain_of(connection, session_id)):
                values = {"session": span.session, "level": level, "last": _last_place(span, level)}
                (place,) = connection.execute(sql.LAST_ERA, values).fetchone()
                made = max(made, -1 if place is None else place)
            return made + 1

        return await self._read(job)

    async def settled(self, session_id: str) -> int:
        def job(connection: sqlite3.Connection) -> int:
            chain = rows.chain_of(connection, session_id)
            reach = [connection.execute(sql.GET_SETTLED, {"number": row.number}).fetchone()[0] for row in chain]
            # An ancestor counts only as far as the fork; what it has not settled there holds the fork back too.
            limit = NO_LIMIT
            for row, settled in zip(chain[::-1], reach[::-1], strict=True):
                if row.parent is None or limit >= row.fork_turn - 1:
                    limit = int(settled)
            return limit

        return await self._read(job)

    async def keep(self, session_id: str, name: str, data: bytes) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id).number
            connection.execute(sql.KEEP, {"session": session, "name": name, "data": data})

        await self._write(job)

    async def kept(self, session_id: str, name: str) -> bytes | None:
        def job(connection: sqlite3.Connection) -> bytes | None:
            session = rows.get_session(connection, session_id).number
            row = connection.execute(sql.GET_KEPT, {"session": session, "name": name}).fetchone()
            return None if row is None else bytes(row[0])

        return await self._read(job)

    async def backlog(self, session_id: str) -> Backlog:
        def job(connection: sqlite3.Connection) -> Backlog:
            session = rows.get_session(connection, session_id)
            values = {"session": session.number, "local": LOCAL_MAKER}
            made, incomplete, by_model = connection.execute(sql_due.COUNT_BACKLOG, values).fetchone()
            waiting, due_us = connection.execute(sql_due.COUNT_WAITING, values).fetchone()
            (refusals,) = connection.execute(sql_due.COUNT_REFUSALS, values).fetchone()
            pending = len(list(_lacking(connection, session, include_open=True, stop_early=False)))
            return Backlog(pending, made - incomplete, incomplete, refusals, waiting, due_us, by_model)

        return await self._read(job)


def _eras(
    connection: sqlite3.Connection, statement: str, session_id: str, level: int, places: tuple[int, int]
) -> list[Any]:
    """A level's eras by place: the session's own, and those of its ancestors that end before the fork."""
    found: dict[int, Any] = {}
    for span in reversed(spans(rows.chain_of(connection, session_id))):
        reach = min(places[1], _last_place(span, level))
        values = {"session": span.session, "level": level, "first": places[0], "last": reach}
        for row in connection.execute(statement, values):
            found.setdefault(row[0], row)
    return [found[place] for place in sorted(found)]


def _last_place(span: TurnSpan, level: int) -> int:
    """The last era that counts in a span: an ancestor's ends before the fork, since later turns are not ours."""
    return NO_LIMIT if span.last == NO_LIMIT else (span.last - 1) // ERA_FANOUT**level - 1


def _add(connection: sqlite3.Connection, session: int, rendition: NewRendition) -> None:
    place = {"session": session, "turn": rendition.turn}
    (calls,) = connection.execute(sql_due.SPENT_CALLS, place).fetchone()
    values = {**_values(rendition), "session": session, "calls": calls, "now_us": rows.now_us()}
    row = connection.execute(sql.ADD_RENDITION, values).fetchone()
    if row is not None:
        connection.execute(sql_due.FORGET_DUE, {**place, "id": row[0]})
    connection.execute(sql.DROP_LEASE, place)


def _values(rendition: NewRendition) -> dict[str, Any]:
    return {field.name: getattr(rendition, field.name) for field in fields(rendition)}


def _index(connection: sqlite3.Connection, session: int, made: Sequence[NewPassages]) -> None:
    """Keep what turns are found by; an index that can't be written waits to be rebuilt, and holds nothing else up."""
    try:
        with written_now(connection):
            for passages in made:
                add_passages(connection, session, passages)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _log.warning("%d turns are not indexed: %s", len(made), DAMAGED)
        want_passages(connection, session, max(passages.turn for passages in made))


def _newest(
    connection: sqlite3.Connection, statement: str, chain: Sequence[SessionRow], first: int, last: int
) -> dict[int, tuple[Any, ...]]:
    """The newest renditions that cover exactly what the session sees of each turn."""
    counts = dict(rows.select_spans(connection, sql.COUNT_MESSAGES, spans(chain), first, last))
    found: dict[int, tuple[Any, ...]] = {}
    for turn, messages, *values in _made(connection, statement, chain, first, last):
        if messages == counts.get(turn):
            found[turn] = tuple(values)
    return found


def _made(
    connection: sqlite3.Connection, statement: str, chain: Sequence[SessionRow], first: int, last: int
) -> Iterator[tuple[Any, ...]]:
    """Rows over the lineage, oldest turn first; a fork has its own of the turn it forked at, if that was open."""
    for span in spans(chain):
        clamped = span.clamp(first, last)
        if clamped:
            yield from connection.execute(statement, asdict(clamped))
    for session, turn in fork_turns(chain):
        if first <= turn <= last:
            yield from connection.execute(statement, {"session": session, "first": turn, "last": turn})


def _lacking(
    connection: sqlite3.Connection, session: SessionRow, *, include_open: bool, stop_early: bool = True
) -> Iterator[tuple[int, int]]:
    """The turns beyond the settled ones that have no renditions of all their messages, with how many those are.

    Those of one window are enough for a worker; `stop_early=False` finds all.
    """
    (settled,) = connection.execute(sql.GET_SETTLED, {"number": session.number}).fetchone()
    chain = rows.chain_of(connection, session.id)
    for first in range(settled + 1, session.last_turn + 1, CLAIM_WINDOW):
        last = min(first + CLAIM_WINDOW - 1, session.last_turn)
        made = dict(row[:2] for row in _made(connection, sql.LIST_MADE, chain, first, last))
        found = False
        for turn, count in rows.select_spans(connection, sql.COUNT_MESSAGES, spans(chain), first, last):
            is_open = turn == session.last_turn and session.head != "closed"
            is_due = not is_open or include_open or (turn in made and count >= REGROWTH * made[turn])
            if made.get(turn) != count and is_due:
                found = True
                yield turn, count
        if found and stop_early:
            return


def _settle(connection: sqlite3.Connection, session: SessionRow) -> None:
    """Note up to where nothing is lacking, so that nobody looks there again."""
    first = next(_lacking(connection, session, include_open=False), None)
    settled = first[0] - 1 if first else session.last_turn - (session.head != "closed")
    connection.execute(sql.SET_SETTLED, {"number": session.number, "settled": settled})
