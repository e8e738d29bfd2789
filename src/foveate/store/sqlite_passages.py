"""SQLite's index of turns: rows of passages, and a full-text table without content beside them.

See `foveate.store.passages`. A word of the full-text table is taken away by saying what was put in, which the row has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import msgspec

from foveate.errors import Damaged
from foveate.store import SessionRow, bodies, rows
from foveate.store.lineage import fork_turns, spans
from foveate.store.passages import (
    KEY_SHIFT,
    IndexSnapshot,
    IndexState,
    NewPassages,
    PassagesRow,
    PassageText,
    Postings,
    Speaker,
)
from foveate.store.sqlite_due import Run
from foveate.store.sqlite_file import CREATE_WORDS

DROP_WORDS = "DROP TABLE IF EXISTS passage_words"
MAX_VALUES = 500
"""In one statement."""
DAMAGED = "the search index can't be read; 'foveate doctor --rebuild-index' makes it anew, nothing else is affected"

ADD = """INSERT INTO passages (session, turn, messages, at_us, maker, marks, texts, vectors)
    VALUES (:session, :turn, :messages, :at_us, :maker, :marks, :texts, :vectors) RETURNING id"""
ADD_WORDS = "INSERT INTO passage_words (rowid, text, extra, tags) VALUES (?, ?, ?, ?)"
TAKE_WORDS = "INSERT INTO passage_words (passage_words, rowid, text, extra, tags) VALUES ('delete', ?, ?, ?, ?)"
TIDY = "INSERT INTO passage_words (passage_words) VALUES ('optimize')"
CHECK = "INSERT INTO passage_words (passage_words) VALUES ('integrity-check')"
MATCH = "SELECT rowid FROM passage_words WHERE passage_words MATCH ? ORDER BY rowid DESC LIMIT ?"
MATCH_BEYOND = MATCH.replace("ORDER BY", "AND rowid > ? ORDER BY")
NEWEST = "SELECT coalesce(max(id), 0) FROM passages"
COUNT_WORDS = "SELECT count(*) FROM passage_words_docsize"
SAME = "SELECT 1 FROM passages WHERE session = :session AND turn = :turn AND messages = :messages AND maker = :maker"
OLDER = "session = :session AND turn = :turn AND messages <= :messages"
# A fork may still see the turn as it was.
SHARED = "SELECT 1 FROM sessions WHERE parent = :session AND fork_turn = :turn"
SAME_SIZE = "session = :session AND turn = :turn AND messages = :messages"
LIST = """SELECT id, turn, messages, at_us, maker, marks, vectors FROM passages
    WHERE session = :session AND id > :after ORDER BY id"""
EPOCH = "SELECT index_epoch FROM sessions WHERE number = :session"
RAISE_EPOCH = "UPDATE sessions SET index_epoch = index_epoch + 1 WHERE number = :session"
WANT = "UPDATE sessions SET unindexed = max(unindexed, :turn) WHERE number = :session"
LOWER = "UPDATE sessions SET unindexed = :turn WHERE number = :session AND unindexed > :turn"
UNINDEXED = "SELECT id FROM sessions WHERE unindexed > 0 ORDER BY number"
LACKING = """SELECT turn, max(messages) AS made FROM renditions r
    WHERE session = :session AND turn <= (SELECT unindexed FROM sessions WHERE number = :session) GROUP BY turn
    HAVING NOT EXISTS (SELECT 1 FROM passages p WHERE p.session = r.session AND p.turn = r.turn
        AND p.messages = made AND p.maker = :maker)
    ORDER BY turn DESC LIMIT :limit"""
COUNT_TURNS = "SELECT count(*) FROM (SELECT DISTINCT session, turn FROM passages)"
COUNT_MISSING = """SELECT count(*) FROM (SELECT session, turn FROM messages WHERE pruned_us IS NULL
    EXCEPT SELECT session, turn FROM passages WHERE maker = :maker)"""
MAKERS = "SELECT DISTINCT maker FROM passages ORDER BY maker"
CLEAR = ("DELETE FROM passages", "UPDATE sessions SET unindexed = last_turn, index_epoch = index_epoch + 1")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[Speaker, str, str | None, str]])


class SqlitePassages:
    def __init__(self, location: str, read: Run, write: Run) -> None:
        self._location = location
        self._read = read
        self._write = write

    async def look(
        self, session_id: str, *, after: int, phrases: Sequence[tuple[str, int]], limit: int, is_most: bool = False
    ) -> IndexSnapshot:
        def job(connection: sqlite3.Connection) -> IndexSnapshot:
            chain = rows.chain_of(connection, session_id)
            epochs = (connection.execute(EPOCH, {"session": row.number}).fetchone()[0] for row in chain)
            tags = "" if is_most else _tags(chain)
            (newest,) = connection.execute(NEWEST).fetchone()
            with damage_told(self._location):
                postings = [
                    _postings(connection, f"{tags}{_quoted(phrase)}", beyond, limit)
                    if beyond >> KEY_SHIFT < newest
                    else Postings((), is_cut=False)
                    for phrase, beyond in phrases
                ]
            found = list(_seen(connection, chain, after)) if newest > after else []
            return IndexSnapshot(sum(epochs), chain[0].last_turn, _last_messages(chain[0]), newest, found, postings)

        return await self._read(job)

    async def postings(self, session_id: str, phrase: str, *, field: str) -> list[int]:
        columns = "{tags} : " if field == "tool" else "{text extra} : "

        def job(connection: sqlite3.Connection) -> list[int]:
            match = f"{_tags(rows.chain_of(connection, session_id))}{columns}{_quoted(phrase)}"
            with damage_told(self._location):
                return [key for (key,) in connection.execute(MATCH, (match, -1))]

        return await self._read(job)

    async def among(self, phrases: Sequence[str], texts: Sequence[PassageText]) -> list[list[int]]:
        def job(_: sqlite3.Connection) -> list[list[int]]:
            with closing(sqlite3.connect(":memory:")) as memory:
                memory.execute(CREATE_WORDS)
                memory.executemany(ADD_WORDS, [(place, *_words(text, "")) for place, text in enumerate(texts)])
                return [[place for (place,) in memory.execute(MATCH, (_quoted(phrase), -1))] for phrase in phrases]

        return await self._read(job)

    async def texts(self, ids: Sequence[int]) -> dict[int, list[PassageText]]:
        def job(connection: sqlite3.Connection) -> dict[int, list[PassageText]]:
            found: dict[int, list[PassageText]] = {}
            for start in range(0, len(ids), MAX_VALUES):
                some = ids[start : start + MAX_VALUES]
                statement = f"SELECT id, texts FROM passages WHERE id IN ({', '.join('?' * len(some))})"  # noqa: S608
                found |= {row: _unpack(texts) for row, texts in connection.execute(statement, some)}
            return found

        return await self._read(job)

    async def add(self, session_id: str, made: Sequence[NewPassages]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id).number
            with damage_told(self._location), written_now(connection):
                for passages in made:
                    add_passages(connection, session, passages)

        await self._write(job)

    async def lacking(self, session_id: str, maker: str, limit: int) -> list[tuple[int, int]]:
        def job(connection: sqlite3.Connection) -> list[tuple[int, int]]:
            session = rows.get_session(connection, session_id).number
            return connection.execute(LACKING, {"session": session, "maker": maker, "limit": limit}).fetchall()

        return await self._read(job)

    async def note_made(self, session_id: str, maker: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id).number
            lacking = connection.execute(LACKING, {"session": session, "maker": maker, "limit": 1}).fetchone()
            connection.execute(LOWER, {"session": session, "turn": lacking[0] if lacking else 0})

        await self._write(job)

    async def want(self, session_id: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            session = rows.get_session(connection, session_id)
            want_passages(connection, session.number, session.last_turn)

        await self._write(job)

    async def unindexed(self) -> list[str]:
        return await self._read(lambda connection: [row[0] for row in connection.execute(UNINDEXED)])

    async def state(self, maker: str) -> IndexState:
        def job(connection: sqlite3.Connection) -> IndexState:
            (turns,) = connection.execute(COUNT_TURNS).fetchone()
            (missing,) = connection.execute(COUNT_MISSING, {"maker": maker}).fetchone()
            with damage_told(self._location):
                (passages,) = connection.execute(COUNT_WORDS).fetchone()
            return IndexState(turns, passages, missing, tuple(name for (name,) in connection.execute(MAKERS)))

        return await self._read(job)

    async def check(self) -> str | None:
        def job(connection: sqlite3.Connection) -> None:
            with damage_told(self._location):
                connection.execute(CHECK)

        try:
            await self._write(job)
        except Damaged as error:
            return str(error)
        return None

    async def clear(self) -> None:
        def job(connection: sqlite3.Connection) -> None:
            _drop_words(connection)
            for statement in (*CLEAR, CREATE_WORDS):
                connection.execute(statement)

        await self._write(job)


@contextmanager
def damage_told(location: str) -> Iterator[None]:
    """Say of an index that can't be read what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(location, DAMAGED) from error
        raise


def is_damage(error: sqlite3.Error) -> bool:
    """Whether it is the index that can't be read: its pages, or a table of its own that is gone.

    The statements are right and what they are given is quoted, so an error that blames them is damage too.
    """
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith("SQLITE_CORRUPT") or name == "SQLITE_ERROR"


@contextmanager
def written_now(connection: sqlite3.Connection) -> Iterator[None]:
    """Have words written at the end of this, not at the commit, which would fail for all who share it."""
    connection.execute("SAVEPOINT before")
    connection.execute("SAVEPOINT indexing")
    try:
        yield
        connection.execute("RELEASE indexing")
    except BaseException:
        connection.execute("ROLLBACK TO before")
        connection.execute("RELEASE before")
        raise
    connection.execute("RELEASE before")


def add_passages(connection: sqlite3.Connection, session: int, made: NewPassages) -> None:
    """Keep a turn's passages, unless they are there already; what was made of less of the turn goes."""
    place = {"session": session, "turn": made.turn, "messages": made.messages, "maker": made.maker}
    if connection.execute(SAME, place).fetchone():
        return
    is_shared = connection.execute(SHARED, place).fetchone() is not None
    _take(connection, SAME_SIZE if is_shared else OLDER, place)
    texts = bodies.squeeze_bytes(
        _encoder.encode([(text.speaker, text.text, text.tool, text.extra) for text in made.texts])
    )
    values = {**place, "at_us": made.at_us, "marks": made.marks, "texts": texts, "vectors": made.vectors}
    (row,) = connection.execute(ADD, values).fetchone()
    connection.executemany(ADD_WORDS, _entries(row, session, made.texts))


def forget_passages(connection: sqlite3.Connection, condition: str, values: Mapping[str, object]) -> None:
    """Take away rows for good, their words included; sessions that were looked at before look again."""
    with written_now(connection):
        if _take(connection, condition, values):
            connection.execute(TIDY)  # until then, words that were taken away still stand in the file
    connection.execute(RAISE_EPOCH, values)


def want_passages(connection: sqlite3.Connection, session: int, turn: int) -> None:
    """Have turns up to this one looked at again by those who index."""
    connection.execute(WANT, {"session": session, "turn": turn})


def _take(connection: sqlite3.Connection, condition: str, values: Mapping[str, object]) -> int:
    """Take rows and their words away; how many those were."""
    statement = f"SELECT id, session, texts FROM passages WHERE {condition}"  # noqa: S608
    found = connection.execute(statement, values).fetchall()
    for row, session, texts in found:
        connection.executemany(TAKE_WORDS, _entries(row, session, _unpack(texts)))
        connection.execute("DELETE FROM passages WHERE id = ?", (row,))
    return len(found)


def _drop_words(connection: sqlite3.Connection) -> None:
    """Drop the full-text table, or what is left of it: one that can't be read is dropped piece by piece."""
    connection.execute("SAVEPOINT dropping")
    try:
        connection.execute(DROP_WORDS)
    except sqlite3.DatabaseError:
        connection.execute("ROLLBACK TO dropping")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'passage_words'")
        connection.execute("PRAGMA writable_schema = RESET")
        pieces = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'passage~_words~_%' ESCAPE '~'")
        for (name,) in pieces.fetchall():
            connection.execute(f"DROP TABLE {name}")
    connection.execute("RELEASE dropping")


def _entries(row: int, session: int, texts: Sequence[PassageText]) -> Iterator[tuple[int, str, str, str]]:
    for number, text in enumerate(texts):
        yield (row << KEY_SHIFT | number, *_words(text, _tag(session)))


def _words(text: PassageText, tag: str) -> tuple[str, str, str]:
    return text.text, text.extra, f"{tag} {text.tool or ''}"


def _unpack(texts: bytes) -> list[PassageText]:
    return [PassageText(*values) for values in _decoder.decode(bodies.expand_bytes(texts))]


def _seen(connection: sqlite3.Connection, chain: Sequence[SessionRow], after: int) -> Iterator[PassagesRow]:
    """The rows of what the session sees; an ancestor's may be of messages that came after the fork."""
    own = set(fork_turns(chain))
    reach = {span.session: span for span in spans(chain)}
    for row in chain:
        span = reach.get(row.number)
        for values in connection.execute(LIST, {"session": row.number, "after": after}):
            found = PassagesRow(*values)
            is_inside = span is not None and span.first <= found.turn <= span.last
            is_whole = span is not None and (found.turn < span.last or found.messages <= span.last_position)
            if (is_inside and is_whole) or (row.number, found.turn) in own:
                yield found


def _last_messages(session: SessionRow) -> int:
    """How many messages the last turn has; where a fork has none of its own, those up to the fork."""
    return session.last_position or session.fork_position


def _postings(connection: sqlite3.Connection, match: str, beyond: int, limit: int) -> Postings:
    keys = [key for (key,) in connection.execute(MATCH_BEYOND, (match, beyond, limit + 1))]
    return Postings(keys[:limit], is_cut=len(keys) > limit)


def _tags(chain: Sequence[SessionRow]) -> str:
    """The part of a query that leaves other sessions out."""
    names = " OR ".join(_quoted(_tag(row.number)) for row in chain)
    return f"{{tags}} : ({names}) AND "


def _tag(session: int) -> str:
    """A word that no tool's name has in it."""
    return f"session{session}session"


def _quoted(phrase: str) -> str:
    """A phrase of which nothing is taken for an operator."""
    return '"' + phrase.replace("\x00", " ").replace('"', '""') + '"'
