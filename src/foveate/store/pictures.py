"""Pictures: the levels of a session's turns in its context, each time its plan changed. Functions of a connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from foveate.store.lineage import number_of
from foveate.store.sql import Connection

MAX_PICTURES = 500
"""Maximum per session; the oldest are removed."""

_COLUMNS = "made_us, turn, strategy, cause, tokens, budget_tokens, strip"
ADD = f"""INSERT INTO pictures (session, {_COLUMNS})
    VALUES (:session, :made_us, :turn, :strategy, :cause, :tokens, :budget_tokens, :strip)
    ON CONFLICT (session, made_us) DO NOTHING"""  # noqa: S608 - constants
LIST = f"SELECT {_COLUMNS} FROM pictures WHERE session = :session ORDER BY made_us"  # noqa: S608
DROP_OLDEST = """DELETE FROM pictures WHERE session = :session AND made_us <= coalesce((SELECT made_us FROM pictures
    WHERE session = :session ORDER BY made_us DESC LIMIT 1 OFFSET :kept), -1)"""


@dataclass(frozen=True, slots=True)
class PictureRow:
    """The levels of the turns in a context."""

    made_us: int
    turn: int
    """The newest turn at that time."""
    strategy: str
    cause: str
    """Why the plan changed."""
    tokens: int
    budget_tokens: int
    strip: str
    """Ranges of turns with their levels, e.g. `T1-74 C75-120 R121-125`."""


def add(connection: Connection, session_id: str, picture: PictureRow) -> None:
    """Add a picture; remove the oldest beyond the limit."""
    session = number_of(connection, session_id)
    connection.execute(ADD, {"session": session, **asdict(picture)})
    connection.execute(DROP_OLDEST, {"session": session, "kept": MAX_PICTURES})


def list_pictures(connection: Connection, session_id: str) -> list[PictureRow]:
    """List the pictures of a session, the oldest first."""
    found = connection.execute(LIST, {"session": number_of(connection, session_id)})
    return [PictureRow(*row) for row in found]
