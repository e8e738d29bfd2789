"""The full-text table of passages in PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Protocol

from psycopg import errors as pg

from foveate.errors import Damaged
from foveate.store import sql
from foveate.store.postgres import policies
from foveate.store.rows import PassageText
from foveate.store.sqlite import DAMAGED_INDEX, SqliteTextWords, WordCutter

CREATE_WORDS = (
    "CREATE TABLE passage_words (key BIGINT PRIMARY KEY, session BIGINT NOT NULL, words TSVECTOR NOT NULL)",
    # Every search scans all pending entries: 13 ms with the default of 4 MB, under 1 ms with this one.
    # Without pending entries each word is inserted individually, which takes the server three times as long.
    "CREATE INDEX passage_words_words ON passage_words USING gin (words) WITH (gin_pending_list_limit = 128)",
)
RESTRICT_WORDS = tuple(policies.policy("passage_words", ("session",)))
DROP_WORDS = "DROP TABLE IF EXISTS passage_words"
ADD_WORDS = """INSERT INTO passage_words (key, session, words) SELECT key, :session, CAST(words AS tsvector)
    FROM unnest(CAST(:keys AS BIGINT[]), CAST(:words AS TEXT[])) AS added (key, words)"""
TAKE_WORDS = "DELETE FROM passage_words WHERE key = ANY(:keys)"
MATCH_WORDS = f"""ARRAY(SELECT key FROM passage_words WHERE words @@ CAST(:query{{0}} AS tsquery) AND key > :beyond{{0}}
    AND {policies.condition("passage_words", ("session",))} ORDER BY key DESC LIMIT :limit)"""  # noqa: S608 - constants
COUNT_WORDS = "SELECT count(*) FROM passage_words"
CHECK_WORDS = "SELECT key FROM passage_words WHERE words IS NULL LIMIT 1"
MAX_LEXEME_BYTES = 1_000
_FIELDS = {None: "", "words": ":AB", "tool": ":C"}


class WordsConnection(Protocol):
    """The parts of a connection that the index uses."""

    location: str
    is_writing: bool

    def execute(self, statement: str, parameters: sql.Values | None = ..., /) -> sql.Cursor: ...

    def execute_planned(self, statement: str, parameters: sql.Values, /) -> sql.Cursor: ...

    def savepoint(self, name: str) -> AbstractContextManager[None]: ...


class PostgresWords:
    """The full-text table of passages: see `foveate.store.sql.WordIndex`.

    Its words are cut by SQLite's tokenizer, so both databases find the same passages. A lexeme's weight is the column:
    A for the text, B for the extra words, C for the tool.
    """

    def __init__(self, connection: WordsConnection, cutter: WordCutter) -> None:
        self._connection = connection
        self._cutter = cutter

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            if self._connection.is_writing:
                with self._connection.savepoint("words"):
                    yield
            else:
                yield
        except (pg.UndefinedTable, pg.UndefinedColumn, pg.IndexCorrupted, pg.DataCorrupted) as error:
            raise Damaged(self._connection.location, DAMAGED_INDEX) from error

    def write(self) -> AbstractContextManager[None]:
        return self.guard()

    def add(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None:
        added = list(entries)
        words = [_vector(session, fields) for fields in self._cutter.cut([text for _, text in added])]
        values = {"session": session, "keys": [key for key, _ in added], "words": words}
        self._connection.execute(ADD_WORDS, values)

    def remove(self, session: int, entries: Iterable[tuple[int, PassageText]]) -> None:  # noqa: ARG002
        self._connection.execute(TAKE_WORDS, {"keys": [key for key, _ in entries]})

    def purge(self) -> None:
        """Do nothing: autovacuum erases removed rows."""

    def match(
        self, phrase: str, *, sessions: Sequence[int] = (), field: str | None = None, beyond: int = -1, limit: int = -1
    ) -> list[int]:
        (found,) = self._match([(self._cutter.phrase(phrase), beyond)], sessions, _FIELDS[field], limit)
        return found

    def match_many(
        self, phrases: Sequence[tuple[str, int]], *, sessions: Sequence[int] = (), limit: int = -1
    ) -> list[list[int]]:
        return self._match([(self._cutter.phrase(text), beyond) for text, beyond in phrases], sessions, "", limit)

    def _match(
        self, phrases: Sequence[tuple[Sequence[str], int]], sessions: Sequence[int], weights: str, limit: int
    ) -> list[list[int]]:
        """Return the keys of each phrase (a list of words) in one statement; a phrase without words has none."""
        found: list[list[int]] = [[] for _ in phrases]
        searched = [place for place, (words, _) in enumerate(phrases) if words]
        if not searched:
            return found
        tags = f"({' | '.join(_lexeme(_tag(session)) for session in sessions)}) & " if sessions else ""
        values: dict[str, object] = {"limit": None if limit < 0 else limit}
        for number, place in enumerate(searched):
            words, values[f"beyond{number}"] = phrases[place]
            query = " <-> ".join(f"{_lexeme(word)}{weights}" for word in words)
            values[f"query{number}"] = f"{tags}({query})"
        statement = f"SELECT {', '.join(MATCH_WORDS.format(number) for number in range(len(searched)))}"
        row = self._connection.execute_planned(statement, values).fetchone()
        for place, keys in zip(searched, row, strict=True):
            found[place] = keys
        return found

    def index_texts(self, texts: Sequence[PassageText]) -> SqliteTextWords:
        return SqliteTextWords(texts)

    def count(self) -> int:
        (count,) = self._connection.execute(COUNT_WORDS).fetchone() or (0,)
        return int(count)

    def check(self) -> None:
        self._connection.execute(CHECK_WORDS)

    def recreate(self) -> None:
        for statement in (DROP_WORDS, *CREATE_WORDS, *RESTRICT_WORDS):
            self._connection.execute(statement)


def _vector(session: int, fields: Sequence[Sequence[str]]) -> str:
    """Return the words of a passage as a `tsvector`; a position is skipped between fields, so that no phrase spans
    two."""
    places: dict[str, list[str]] = {_tag(session): []}
    place = 0
    for weight, words in zip("ABC", fields, strict=True):
        for word in words:
            place += 1
            places.setdefault(word, []).append(f"{place}{weight}")
        place += 1
    return " ".join(f"{_lexeme(word)}{':' if found else ''}{','.join(found)}" for word, found in places.items())


def _tag(session: int) -> str:
    """Return a lexeme that is not a word."""
    return f"={session}"


@lru_cache(maxsize=4_096)
def _lexeme(word: str) -> str:
    """Quote a word; a very long one is replaced with its hash."""
    if len(word) * 4 > MAX_LEXEME_BYTES and len(word.encode()) > MAX_LEXEME_BYTES:
        word = hashlib.sha256(word.encode()).hexdigest()
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
