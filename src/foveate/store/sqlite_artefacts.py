"""SQLite's artefacts, goals and documents: see `foveate.store.artefacts`."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

from foveate.store import rows
from foveate.store.artefacts import ArtefactRow, ArtefactsMark, DocumentRow, GoalRow

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

MARK = """SELECT count(*), coalesce(max(made_us), 0) FROM artefacts WHERE session = :session AND strategy = :strategy"""
LIST_MADE = """SELECT name, kind, first_turn, last_turn, tokens, data FROM artefacts
    WHERE session = :session AND strategy = :strategy ORDER BY name"""
KEEP_MADE = """INSERT INTO artefacts (session, strategy, name, kind, first_turn, last_turn, tokens, data, made_us)
    VALUES (:session, :strategy, :name, :kind, :first_turn, :last_turn, :tokens, :data, :made_us)
    ON CONFLICT (session, strategy, name) DO UPDATE SET kind = excluded.kind, first_turn = excluded.first_turn,
    last_turn = excluded.last_turn, tokens = excluded.tokens, data = excluded.data, made_us = excluded.made_us"""
REPLACE_MADE = """UPDATE artefacts SET kind = :kind, first_turn = :first_turn, last_turn = :last_turn,
    tokens = :tokens, data = :data, made_us = :made_us
    WHERE session = :session AND strategy = :strategy AND name = :name AND data = :old_data"""
LIST_GOALS = "SELECT number, data, created_us, updated_us FROM goals WHERE session = :session ORDER BY number"
ADD_GOAL = """INSERT INTO goals (session, number, data, created_us, updated_us)
    SELECT :session, coalesce(max(number), 0) + 1, :data, :now_us, :now_us FROM goals WHERE session = :session
    RETURNING number, data, created_us, updated_us"""
UPDATE_GOAL = """UPDATE goals SET data = :data, updated_us = :now_us WHERE session = :session AND number = :number
    RETURNING number, data, created_us, updated_us"""
LIST_DOCUMENTS = "SELECT name, text, updated_us FROM documents WHERE session = :session ORDER BY name"
KEEP_DOCUMENT = """INSERT INTO documents (session, name, text, updated_us) VALUES (:session, :name, :text, :now_us)
    ON CONFLICT (session, name) DO UPDATE SET text = :text, updated_us = :now_us"""


def _next_us(connection: sqlite3.Connection, owner: dict[str, object]) -> int:
    """It always grows, whatever the clock does, so that a replacement changes the mark."""
    (_, newest_us) = connection.execute(MARK, owner).fetchone()
    return max(rows.now_us(), int(newest_us) + 1)


class _Run(Protocol):
    def __call__(self, job: Job[T], /) -> Awaitable[T]: ...


class SqliteArtefacts:
    def __init__(self, read: _Run, write: _Run) -> None:
        self._read = read
        self._write = write

    async def mark(self, session_id: str, strategy: str) -> ArtefactsMark:
        def job(connection: sqlite3.Connection) -> ArtefactsMark:
            values = {"session": rows.get_session(connection, session_id).number, "strategy": strategy}
            return ArtefactsMark(*connection.execute(MARK, values).fetchone())

        return await self._read(job)

    async def made(self, session_id: str, strategy: str) -> list[ArtefactRow]:
        def job(connection: sqlite3.Connection) -> list[ArtefactRow]:
            values = {"session": rows.get_session(connection, session_id).number, "strategy": strategy}
            return [ArtefactRow(*row) for row in connection.execute(LIST_MADE, values)]

        return await self._read(job)

    async def keep_made(self, session_id: str, strategy: str, made: Sequence[ArtefactRow]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id).number
            owner = {"session": session, "strategy": strategy}
            made_us = _next_us(connection, owner)
            connection.executemany(KEEP_MADE, [{**asdict(row), **owner, "made_us": made_us} for row in made])

        await self._write(job)

    async def replace_made(self, session_id: str, strategy: str, old: ArtefactRow, new: ArtefactRow) -> bool:
        assert old.name == new.name, "an artefact is replaced by its name"

        def job(connection: sqlite3.Connection) -> bool:
            owner = {"session": rows.get_session(connection, session_id).number, "strategy": strategy}
            values = {**asdict(new), **owner, "made_us": _next_us(connection, owner), "old_data": old.data}
            return connection.execute(REPLACE_MADE, values).rowcount > 0

        return await self._write(job)

    async def goals(self, session_id: str) -> list[GoalRow]:
        def job(connection: sqlite3.Connection) -> list[GoalRow]:
            session = rows.get_session(connection, session_id).number
            return [GoalRow(*row) for row in connection.execute(LIST_GOALS, {"session": session})]

        return await self._read(job)

    async def add_goal(self, session_id: str, data: bytes) -> GoalRow:
        def job(connection: sqlite3.Connection) -> GoalRow:
            session = rows.get_session(connection, session_id).number
            values = {"session": session, "data": data, "now_us": rows.now_us()}
            return GoalRow(*connection.execute(ADD_GOAL, values).fetchone())

        return await self._write(job)

    async def update_goal(self, session_id: str, number: int, data: bytes) -> GoalRow | None:
        def job(connection: sqlite3.Connection) -> GoalRow | None:
            session = rows.get_session(connection, session_id).number
            values = {"session": session, "number": number, "data": data, "now_us": rows.now_us()}
            row = connection.execute(UPDATE_GOAL, values).fetchone()
            return None if row is None else GoalRow(*row)

        return await self._write(job)

    async def documents(self, session_id: str) -> list[DocumentRow]:
        def job(connection: sqlite3.Connection) -> list[DocumentRow]:
            session = rows.get_session(connection, session_id).number
            return [DocumentRow(*row) for row in connection.execute(LIST_DOCUMENTS, {"session": session})]

        return await self._read(job)

    async def keep_document(self, session_id: str, name: str, text: str) -> DocumentRow:
        def job(connection: sqlite3.Connection) -> DocumentRow:
            now = rows.now_us()
            session = rows.get_session(connection, session_id).number
            connection.execute(KEEP_DOCUMENT, {"session": session, "name": name, "text": text, "now_us": now})
            return DocumentRow(name, text, now)

        return await self._write(job)
