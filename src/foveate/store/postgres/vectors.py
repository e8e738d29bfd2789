"""Nearest-neighbour search over the passages of all sessions in PostgreSQL, if the extension `vector` is installed.

A search in one session compares its vectors exactly, in memory. One over all sessions also queries this table, whose
HNSW index finds the nearest without reading the others. The scan is iterative: it continues until enough rows pass the
filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foveate.store import sql
from foveate.store.postgres import policies
from foveate.store.rows import KEY_SHIFT

IS_THERE = policies.HAS_TABLE.format(table="passage_vectors")
IS_AVAILABLE = """SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')
    AND NOT EXISTS (SELECT 1 FROM passages)"""
CREATE = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    """CREATE TABLE passage_vectors (key BIGINT PRIMARY KEY, session BIGINT NOT NULL, dimensions BIGINT NOT NULL,
    vector halfvec NOT NULL)""",
    *policies.policy("passage_vectors", ("session",)),
)
CREATE_INDEX = """CREATE INDEX IF NOT EXISTS passage_vectors_{dimensions:d} ON passage_vectors
    USING hnsw ((CAST(vector AS halfvec({dimensions:d}))) halfvec_cosine_ops)
    WITH (m = 8, ef_construction = 32) WHERE dimensions = {dimensions:d}"""
"""Half the default links and candidates: an insert takes a third of the time, and a wider scan compensates for it."""
ADD = """INSERT INTO passage_vectors (key, session, dimensions, vector)
    SELECT key, :session, :dimensions, CAST(vector AS halfvec)
    FROM unnest(CAST(:keys AS BIGINT[]), CAST(:vectors AS TEXT[])) AS added (key, vector)
    ON CONFLICT (key) DO NOTHING"""
SIZES = "SELECT DISTINCT dimensions FROM passage_vectors ORDER BY dimensions"
REMOVE = "DELETE FROM passage_vectors WHERE key >= :first AND key <= :last"
CLEAR = "DELETE FROM passage_vectors"
SCAN = "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '400', true)"
_DISTANCE = "CAST(vector AS halfvec({dimensions:d})) <=> CAST(:vector AS halfvec({dimensions:d}))"
NEAREST = f"""SELECT key, 1 - ({_DISTANCE}) FROM passage_vectors WHERE dimensions = {{dimensions:d}}{{only}}
    ORDER BY {_DISTANCE} LIMIT :limit"""  # noqa: S608 - constants
MAX_DIMENSIONS = 4_000
"""Maximum size of vectors with an index; longer ones are only compared in memory."""


class VectorsConnection(Protocol):
    """The parts of a connection that the table uses."""

    def execute(self, statement: str, parameters: sql.Values | None = ..., /) -> sql.Cursor: ...

    def executemany(self, statement: str, parameters: Iterable[sql.Values], /) -> sql.Cursor: ...


@dataclass(slots=True)
class VectorState:
    """A process's knowledge of the table."""

    is_there: bool = False
    indexed: set[int] = field(default_factory=set)
    """Sizes of vectors that have an index."""


class PostgresVectors:
    """See `foveate.store.sql.VectorIndex`."""

    def __init__(self, connection: VectorsConnection, state: VectorState) -> None:
        self._connection = connection
        self._state = state

    def add(self, session: int, made: Iterable[tuple[int, sql.StoredVectors]], *, is_bulk: bool = False) -> None:
        by_size: dict[int, dict[int, str]] = {}
        for row, vectors in made:
            if self._state.is_there and 0 < vectors.dimensions <= MAX_DIMENSIONS:
                own = {row << KEY_SHIFT | number: _text(each) for number, each in vectors.rows}
                by_size.setdefault(vectors.dimensions, {}).update(own)
        for size, texts in by_size.items():
            if not is_bulk:
                self._create_index(size)
            values = {"session": session, "dimensions": size, "keys": list(texts), "vectors": list(texts.values())}
            self._connection.execute(ADD, values)

    def complete(self) -> None:
        if self._state.is_there:
            for (size,) in self._connection.execute(SIZES).fetchall():
                self._create_index(size)

    def _create_index(self, size: int) -> None:
        if size not in self._state.indexed:
            self._connection.execute(CREATE_INDEX.format(dimensions=size))
            self._state.indexed.add(size)

    def remove(self, rows: Sequence[int]) -> None:
        if self._state.is_there:
            spans = [{"first": row << KEY_SHIFT, "last": ((row + 1) << KEY_SHIFT) - 1} for row in rows]
            self._connection.executemany(REMOVE, spans)

    def clear(self) -> None:
        if self._state.is_there:
            self._connection.execute(CLEAR)

    def nearest(
        self, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, float]] | None:
        if not self._state.is_there or len(vector) > MAX_DIMENSIONS:
            return None
        self._connection.execute(SCAN)
        only = "" if sessions is None else " AND session = ANY(:sessions)"
        statement = NEAREST.format(dimensions=len(vector), only=only)
        values = {"vector": _text(vector), "limit": limit, "sessions": sessions}
        return [(key, float(alike)) for key, alike in self._connection.execute(statement, values)]


def _text(vector: Sequence[float]) -> str:
    return f"[{','.join(map(str, vector))}]"
