"""Artefacts of strategies, and records of user decisions: states, boards, goals and documents.

Functions of a connection. Artefacts can be made again; a damaged one is dropped. Goals and documents can't, so a prune
keeps them and a fork starts with a copy. Damaged states and boards are set aside, never dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict

from foveate.store.bodies import digest_of, is_intact
from foveate.store.lineage import current_number, number_of
from foveate.store.rows import ArtefactRow, ArtefactsMark, DocumentRow, GoalRow, Origin
from foveate.store.sql import Connection, keep_record, load_data, now_us

BOARD = "board"

MARK = "SELECT count(*), coalesce(max(made_us), 0) FROM artefacts WHERE session = :session AND strategy = :strategy"
LIST_MADE = """SELECT name, kind, first_turn, last_turn, tokens, data, digest FROM artefacts
    WHERE session = :session AND strategy = :strategy ORDER BY name"""
KEEP_MADE = """INSERT INTO artefacts (session, strategy, name, kind, first_turn, last_turn, tokens, data, made_us,
    digest)
    VALUES (:session, :strategy, :name, :kind, :first_turn, :last_turn, :tokens, :data, :made_us, :digest)
    ON CONFLICT (session, strategy, name) DO UPDATE SET kind = excluded.kind, first_turn = excluded.first_turn,
    last_turn = excluded.last_turn, tokens = excluded.tokens, data = excluded.data, made_us = excluded.made_us,
    digest = excluded.digest"""
REPLACE_MADE = """UPDATE artefacts SET kind = :kind, first_turn = :first_turn, last_turn = :last_turn,
    tokens = :tokens, data = :data, made_us = :made_us, digest = :digest
    WHERE session = :session AND strategy = :strategy AND name = :name AND data = :old_data"""
DROP = """DELETE FROM artefacts WHERE session = :session AND strategy = :strategy AND name = :name
    AND digest = :digest"""
LIST_GOALS = "SELECT number, data, created_us, updated_us FROM goals WHERE session = :session ORDER BY number"
ADD_GOAL = """INSERT INTO goals (session, number, data, created_us, updated_us)
    SELECT :session, coalesce(max(number), 0) + 1, :data, :now_us, :now_us FROM goals WHERE session = :session
    RETURNING number, data, created_us, updated_us"""
UPDATE_GOAL = """UPDATE goals SET data = :data, updated_us = :now_us WHERE session = :session AND number = :number
    RETURNING number, data, created_us, updated_us"""
LIST_DOCUMENTS = "SELECT name, text, updated_us FROM documents WHERE session = :session ORDER BY name"
KEEP_DOCUMENT = """INSERT INTO documents (session, name, text, updated_us) VALUES (:session, :name, :text, :now_us)
    ON CONFLICT (session, name) DO UPDATE SET text = :text, updated_us = :now_us"""


_log = logging.getLogger(__name__)


def mark(connection: Connection, session_id: str, strategy: str) -> ArtefactsMark:
    return ArtefactsMark(*connection.execute(MARK, _owner(connection, session_id, strategy)).fetchone())


def made(connection: Connection, session_id: str, strategy: str) -> list[ArtefactRow]:
    """List a strategy's artefacts of the session itself, by name; a fork has its own."""
    owner = _owner(connection, session_id, strategy)
    found = []
    for *values, digest in connection.execute(LIST_MADE, owner).fetchall():
        row = ArtefactRow(*values)
        if is_intact(digest, *values):
            found.append(row)
        else:
            _log.warning("artefact %r of session %r is damaged; it will be made again", row.name, session_id)
            connection.repair(DROP, {**owner, "name": row.name, "digest": digest})
    return found


def keep_made(
    connection: Connection,
    session_id: str,
    strategy: str,
    made: Sequence[ArtefactRow],
    *,
    known: ArtefactsMark | None = None,
    origin: Origin | None = None,
) -> ArtefactsMark | None:
    """Store a strategy's artefacts; those of the same name are replaced.

    Returns the new mark if the mark was `known` before, so that nothing else has changed; else None. Nothing is stored
    if turns were removed since `origin` was read.
    """
    number = current_number(connection, session_id, origin)
    if number is None:
        return None
    owner = {"session": number, "strategy": strategy}
    before = ArtefactsMark(*connection.execute(MARK, owner).fetchone())
    made_us = _after(before)
    connection.executemany(KEEP_MADE, [{**_values(row), **owner, "made_us": made_us} for row in made])
    return ArtefactsMark(*connection.execute(MARK, owner).fetchone()) if before == known else None


def replace_made(connection: Connection, session_id: str, strategy: str, old: ArtefactRow, new: ArtefactRow) -> bool:
    """Replace an artefact if it is unchanged; return whether it was replaced."""
    assert old.name == new.name, "an artefact is replaced by its name"
    owner = _owner(connection, session_id, strategy)
    values = {**_values(new), **owner, "made_us": _after(mark(connection, session_id, strategy)), "old_data": old.data}
    return connection.execute(REPLACE_MADE, values).rowcount > 0


def state(connection: Connection, session_id: str, strategy: str) -> bytes | None:
    """Return a strategy's state, a record of user decisions; None if it is missing or damaged."""
    return load_data(connection, "states", number_of(connection, session_id), strategy)


def keep_state(
    connection: Connection, session_id: str, strategy: str, data: bytes, origin: Origin | None = None
) -> None:
    """Replace a state, unless turns were removed since `origin` was read; a damaged one is set aside for `check`."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        keep_record(connection, "states", number, strategy, data)


def replace_state(connection: Connection, session_id: str, strategy: str, old: bytes | None, new: bytes) -> bool:
    """Replace a state if it is unchanged; return whether it was replaced."""
    if state(connection, session_id, strategy) != old:
        return False
    keep_state(connection, session_id, strategy, new)
    return True


def board(connection: Connection, session_id: str) -> bytes | None:
    """Return the session's board; None if it is missing or damaged."""
    return load_data(connection, "boards", number_of(connection, session_id), BOARD)


def keep_board(connection: Connection, session_id: str, data: bytes, origin: Origin | None = None) -> None:
    """Replace the board, unless turns were removed since `origin` was read; a damaged one is set aside for `check`."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        keep_record(connection, "boards", number, BOARD, data)


def goals(connection: Connection, session_id: str) -> list[GoalRow]:
    """List the goals of a session, in the order in which they were added."""
    return [GoalRow(*row) for row in connection.execute(LIST_GOALS, {"session": number_of(connection, session_id)})]


def add_goal(connection: Connection, session_id: str, data: bytes) -> GoalRow:
    """Add a goal. Its number is one more than the newest one's; numbers are not reused."""
    values = {"session": number_of(connection, session_id), "data": data, "now_us": now_us()}
    return GoalRow(*connection.execute(ADD_GOAL, values).fetchone())


def update_goal(connection: Connection, session_id: str, number: int, data: bytes) -> GoalRow | None:
    """Update a goal; return None if no goal has that number."""
    session = number_of(connection, session_id)
    values = {"session": session, "number": number, "data": data, "now_us": now_us()}
    row = connection.execute(UPDATE_GOAL, values).fetchone()
    return None if row is None else GoalRow(*row)


def documents(connection: Connection, session_id: str) -> list[DocumentRow]:
    """List the documents of a session, by name."""
    found = connection.execute(LIST_DOCUMENTS, {"session": number_of(connection, session_id)})
    return [DocumentRow(*row) for row in found]


def keep_document(connection: Connection, session_id: str, name: str, text: str) -> DocumentRow:
    """Replace a document; an empty one counts as none."""
    now = now_us()
    values = {"session": number_of(connection, session_id), "name": name, "text": text, "now_us": now}
    connection.execute(KEEP_DOCUMENT, values)
    return DocumentRow(name, text, now)


def _values(row: ArtefactRow) -> dict[str, object]:
    values = asdict(row)
    return {**values, "digest": digest_of(*values.values())}


def _owner(connection: Connection, session_id: str, strategy: str) -> dict[str, object]:
    return {"session": number_of(connection, session_id), "strategy": strategy}


def _after(mark: ArtefactsMark) -> int:
    """Return the current time, or a later one if the clock was set back: a replacement changes the mark."""
    return max(now_us(), mark.newest_us + 1)
