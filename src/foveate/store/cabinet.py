"""The file cabinet: contents in full, their keys, and the turns that refer to them. Functions of a connection.

A key is removed when it expires; bytes are removed when neither a turn nor a key refers to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foveate.errors import Damaged
from foveate.store import bodies
from foveate.store.lineage import chain_of, get_session, select_spans
from foveate.store.rows import SessionRow
from foveate.store.sql import Connection, Values

KEY_CHARS = 12
"""Hexadecimal characters of a key; longer only on a collision."""
KEY_STEP = 4
MAX_LISTED = 1_000_000
MAX_REMOVED = 200
"""Maximum number of expired keys that are removed whenever something is filed."""
_COLUMNS = """c.tenant, c.key, c.digest, c.size, c.name, c.media_type, c.source, s.id, c.turn, c.created_us,
    c.expires_us, c.removed_us"""
_FROM = "FROM cabinet c LEFT JOIN sessions s ON s.number = c.session"
ADD_CONTENT = """INSERT INTO contents (tenant, digest, size, is_packed, data)
    VALUES (:tenant, :digest, :size, :is_packed, :data) ON CONFLICT (tenant, digest) DO NOTHING"""
ADD_TURN = """INSERT INTO content_turns (session, turn, tenant, digest) VALUES (:session, :turn, :tenant, :digest)
    ON CONFLICT (session, turn, digest) DO NOTHING"""
DIGEST_OF_KEY = "SELECT digest FROM cabinet WHERE tenant = :tenant AND key = :key"
ADD_KEY = """INSERT INTO cabinet
    (tenant, key, digest, size, name, media_type, source, session, turn, created_us, expires_us, removed_us)
    VALUES (:tenant, :key, :digest, :size, :name, :media_type, :source, :session, :turn, :now_us, :expires_us, NULL)
    ON CONFLICT (tenant, key) DO UPDATE SET name = :name, media_type = :media_type, source = :source,
    session = :session, turn = :turn, created_us = :now_us, removed_us = NULL,
    expires_us = CASE WHEN cabinet.expires_us > :expires_us THEN cabinet.expires_us ELSE :expires_us END"""
FIND = f"""SELECT {_COLUMNS} {_FROM} WHERE c.key = :key AND (:tenant IS NULL OR c.tenant = :tenant)
    ORDER BY c.removed_us IS NOT NULL, c.tenant"""
LIST = f"""SELECT {_COLUMNS} {_FROM} WHERE c.removed_us IS NULL AND c.expires_us > :now_us
    AND (:tenant IS NULL OR c.tenant = :tenant) AND (:session_id IS NULL OR s.id = :session_id)
    ORDER BY c.created_us DESC, c.key"""
READ = "SELECT is_packed, data FROM contents WHERE tenant = :tenant AND digest = :digest"
EXPIRED = f"""SELECT {_COLUMNS} {_FROM} WHERE c.removed_us IS NULL AND c.expires_us <= :now_us
    AND (:tenant IS NULL OR c.tenant = :tenant) ORDER BY c.expires_us, c.key LIMIT :limit"""
REMOVE_KEY = "UPDATE cabinet SET removed_us = :now_us WHERE tenant = :tenant AND key = :key"
RENEW = """UPDATE cabinet SET expires_us = :expires_us, removed_us = NULL WHERE tenant = :tenant AND key = :key
    AND expires_us < :expires_us
    AND EXISTS (SELECT 1 FROM contents b WHERE b.tenant = cabinet.tenant AND b.digest = cabinet.digest)"""
_UNUSED = """NOT EXISTS (SELECT 1 FROM content_turns t WHERE t.tenant = contents.tenant AND t.digest = contents.digest)
    AND NOT EXISTS (SELECT 1 FROM cabinet c WHERE c.tenant = contents.tenant AND c.digest = contents.digest
    AND c.removed_us IS NULL)"""
DROP_UNUSED = f"DELETE FROM contents WHERE tenant = :tenant AND digest = :digest AND {_UNUSED}"  # noqa: S608
OF_TURNS = """SELECT t.turn, t.tenant, t.digest, b.size, coalesce(c.key, ''), coalesce(c.name, ''),
    coalesce(c.media_type, ''), coalesce(c.source, '')
    FROM content_turns t JOIN contents b ON b.tenant = t.tenant AND b.digest = t.digest
    LEFT JOIN cabinet c ON c.tenant = t.tenant AND c.digest = t.digest
    WHERE t.session = :session AND t.turn BETWEEN :first AND :last
    ORDER BY t.turn, c.created_us NULLS FIRST, c.key NULLS FIRST"""
REFERENCES = """SELECT s.id, t.turn FROM content_turns t JOIN sessions s ON s.number = t.session
    WHERE t.tenant = :tenant AND t.digest = :digest ORDER BY t.turn DESC, s.id"""
DIGESTS_WHERE = "SELECT DISTINCT tenant, digest FROM content_turns WHERE {where}"
SIZES_WHERE = """SELECT coalesce(sum(size), 0), coalesce(sum(length(data)), 0) FROM contents b WHERE EXISTS
    (SELECT 1 FROM content_turns t WHERE t.tenant = b.tenant AND t.digest = b.digest AND {where})
    AND NOT EXISTS (SELECT 1 FROM content_turns t WHERE t.tenant = b.tenant AND t.digest = b.digest AND NOT ({where}))
    AND NOT EXISTS (SELECT 1 FROM cabinet c WHERE c.tenant = b.tenant AND c.digest = b.digest AND c.session IS NULL
    AND c.removed_us IS NULL)"""
DROP_TURNS = "DELETE FROM content_turns WHERE {where}"
DROP_KEYS = """DELETE FROM cabinet WHERE tenant = :tenant AND digest = :digest AND session IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM content_turns t WHERE t.tenant = :tenant AND t.digest = :digest)"""
MOVE_KEYS = """UPDATE cabinet SET session = (SELECT min(t.session) FROM content_turns t
    WHERE t.tenant = cabinet.tenant AND t.digest = cabinet.digest),
    turn = (SELECT t.turn FROM content_turns t WHERE t.tenant = cabinet.tenant AND t.digest = cabinet.digest
    ORDER BY t.session, t.turn LIMIT 1)
    WHERE tenant = :tenant AND digest = :digest AND session IS NOT NULL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """A content to file in the cabinet."""

    tenant: str
    digest: bytes
    """SHA-256 of the content."""
    size: int
    is_packed: bool
    data: bytes
    """Compressed with zstd if `is_packed`."""
    name: str
    media_type: str
    source: str
    expires_us: int
    session_id: str | None = None
    """The session whose tool returned it; None if it was filed manually."""


@dataclass(frozen=True, slots=True)
class CabinetRow:
    """A key of the file cabinet."""

    tenant: str
    key: str
    digest: bytes
    size: int
    name: str
    media_type: str
    source: str
    session_id: str | None
    turn: int | None
    created_us: int
    expires_us: int
    removed_us: int | None = None


@dataclass(frozen=True, slots=True)
class TurnContentRow:
    """A content that a turn refers to. `key` is empty if its key was removed."""

    turn: int
    tenant: str
    digest: bytes
    size: int
    key: str
    name: str
    media_type: str
    source: str


@dataclass(frozen=True, slots=True)
class PackedContent:
    """A content as bytes to store."""

    data: bytes
    is_packed: bool


def pack(content: bytes, compression_level: int) -> PackedContent:
    """Compress a content where that helps; any bytes, including those that look compressed."""
    squeezed = bodies.squeeze_bytes(content, compression_level) if content else content
    is_packed = len(squeezed) < len(content)
    return PackedContent(squeezed if is_packed else content, is_packed)


def file(connection: Connection, new: NewContent, *, now_us: int) -> CabinetRow:
    """Store a content, its key and the turn's reference to it. Filing it again extends the key's life."""
    session = None if new.session_id is None else get_session(connection, new.session_id)
    values: dict[str, Any] = {
        "tenant": new.tenant,
        "digest": new.digest,
        "size": new.size,
        "is_packed": int(new.is_packed),
        "data": new.data,
        "name": new.name,
        "media_type": new.media_type,
        "source": new.source,
        "session": session and session.number,
        "turn": session and _open_turn(session),
        "now_us": now_us,
        "expires_us": new.expires_us,
    }
    connection.execute(ADD_CONTENT, values)
    if session is not None:
        connection.execute(ADD_TURN, values)
    key = _free_key(connection, new.tenant, new.digest)
    connection.execute(ADD_KEY, {**values, "key": key})
    remove_expired(connection, new.tenant, now_us=now_us, limit=MAX_REMOVED)
    found = find(connection, new.tenant, key)
    assert found is not None, "the key was just stored"
    return found


def _open_turn(session: SessionRow) -> int:
    """Return the turn in progress, or the next one after a complete turn: the turn of the tool call."""
    return session.last_turn + (not session.is_open)


def _free_key(connection: Connection, tenant: str, digest: bytes) -> str:
    for chars in range(KEY_CHARS, 2 * len(digest) + 1, KEY_STEP):
        key = f"f-{digest.hex()[:chars]}"
        row = connection.execute(DIGEST_OF_KEY, {"tenant": tenant, "key": key}).fetchone()
        if row is None or row[0] == digest:
            return key
    raise AssertionError("unreachable: a whole hash is one content's")


def find(connection: Connection, tenant: str | None, key: str) -> CabinetRow | None:
    """Return a key, or None; expired keys are included."""
    row = connection.execute(FIND, {"tenant": tenant, "key": key}).fetchone()
    return None if row is None else CabinetRow(*row)


def list_keys(
    connection: Connection, tenant: str | None, session_id: str | None = None, *, now_us: int
) -> list[CabinetRow]:
    """List the unexpired keys of one session or all, the newest first."""
    values = {"tenant": tenant, "session_id": session_id, "now_us": now_us}
    return [CabinetRow(*row) for row in connection.execute(LIST, values)]


def read(connection: Connection, tenant: str, digest: bytes) -> bytes | None:
    """Return a content; raise `Damaged` if it does not match its hash."""
    row = connection.execute(READ, {"tenant": tenant, "digest": digest}).fetchone()
    return None if row is None else _checked(connection, digest, *row)


def _checked(connection: Connection, digest: bytes, is_packed: int, data: bytes) -> bytes:
    try:
        return bodies.unpack(data, digest, is_packed=bool(is_packed))
    except ValueError as error:
        problem = f"the content {digest.hex()[:KEY_CHARS]} {error}; run 'foveate doctor'"
        raise Damaged(connection.location, problem) from error


def content_problem(digest: bytes, is_packed: int, data: bytes) -> str | None:
    """Return what is wrong with a stored content, or None."""
    try:
        bodies.unpack(data, digest, is_packed=bool(is_packed))
    except ValueError as error:
        return str(error)
    return None


def renew(connection: Connection, tenant: str, keys: Sequence[str], *, expires_us: int) -> int:
    """Set when keys expire, including expired ones whose bytes are still stored; return how many were changed."""
    return sum(
        connection.execute(RENEW, {"tenant": tenant, "key": key, "expires_us": expires_us}).rowcount for key in keys
    )


def expired(connection: Connection, tenant: str | None, *, now_us: int) -> list[CabinetRow]:
    """List the expired keys that are not removed yet."""
    return [
        CabinetRow(*row)
        for row in connection.execute(EXPIRED, {"tenant": tenant, "now_us": now_us, "limit": MAX_LISTED})
    ]


def remove_expired(
    connection: Connection, tenant: str | None, *, now_us: int, limit: int = MAX_LISTED
) -> list[CabinetRow]:
    """Remove expired keys, and bytes that no turn refers to."""
    values = {"tenant": tenant, "now_us": now_us, "limit": limit}
    gone = [CabinetRow(*row) for row in connection.execute(EXPIRED, values).fetchall()]
    for row in gone:
        own = {"tenant": row.tenant, "key": row.key, "digest": row.digest, "now_us": now_us}
        connection.execute(REMOVE_KEY, own)
        connection.execute(DROP_UNUSED, own)
    return gone


def references(connection: Connection, tenant: str, digest: bytes) -> list[tuple[str, int]]:
    """List the sessions and turns of the log that refer to a content, the newest turn first."""
    return [(session, turn) for session, turn in connection.execute(REFERENCES, {"tenant": tenant, "digest": digest})]


def of_turns(connection: Connection, session_id: str, first: int, last: int) -> list[TurnContentRow]:
    """List the contents that these turns refer to, including ancestors' turns."""
    found = select_spans(connection, OF_TURNS, chain_of(connection, session_id), first, last)
    return [TurnContentRow(*row) for row in found]


def sizes_of(connection: Connection, where: str, values: Values) -> tuple[int, int]:
    """Return the bytes, and the stored bytes, that `release` of these turns would remove."""
    size, stored = connection.execute(SIZES_WHERE.format(where=where), values).fetchone()
    return size, stored


def release(connection: Connection, where: str, values: Values) -> None:
    """Remove the references of the turns that match a condition, with keys and bytes that nothing else refers to."""
    gone = connection.execute(DIGESTS_WHERE.format(where=where), values).fetchall()
    connection.execute(DROP_TURNS.format(where=where), values)
    for tenant, digest in gone:
        own = {"tenant": tenant, "digest": digest}
        for statement in (DROP_KEYS, MOVE_KEYS, DROP_UNUSED):
            connection.execute(statement, own)
