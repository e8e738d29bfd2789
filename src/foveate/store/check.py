"""Verification of any database for `foveate doctor`: all hashes, and that no message or turn is missing."""

from __future__ import annotations

from collections.abc import Iterator

from foveate.errors import StoreError
from foveate.store import bodies
from foveate.store.cabinet import KEY_CHARS, content_problem
from foveate.store.knowledge import is_sound
from foveate.store.prompts import digest_of
from foveate.store.rows import Finding
from foveate.store.sql import Connection, Dialect
from foveate.turn import turn_id

BATCH = 200

RESTORE = "restore the file from a backup; 'foveate export SESSION' saves a session that can still be read"
_ORPHANS = "if no message is missing, nothing is lost; 'foveate store copy' into a new file leaves them out"

GAPS = """SELECT s.id, m.turn, count(*), max(m.position) FROM messages m JOIN sessions s ON s.number = m.session
    GROUP BY m.session, s.id, m.turn HAVING count(*) <> max(m.position) OR min(m.position) <> 1"""
MISSING_TURNS = """SELECT s.id, s.fork_turn, s.last_turn, count(DISTINCT m.turn) FROM sessions s
    LEFT JOIN messages m ON m.session = s.number GROUP BY s.number, s.id, s.fork_turn, s.last_turn
    HAVING count(DISTINCT m.turn) <> s.last_turn - s.fork_turn"""
LOST_PARENTS = "SELECT id FROM sessions WHERE parent IS NOT NULL AND parent NOT IN (SELECT number FROM sessions)"
ORPHAN_BODIES = "SELECT count(*) FROM bodies WHERE message NOT IN (SELECT id FROM messages)"
ORPHAN_MESSAGES = "SELECT count(*) FROM messages WHERE session NOT IN (SELECT number FROM sessions)"
RECORDS = "SELECT s.id, r.name, r.data, r.digest FROM {table} r JOIN sessions s ON s.number = r.session ORDER BY s.id"
_LOST = {
    "states": "the strategy state {name!r} of session {session!r} is damaged (seals, counts, choices)",
    "boards": "the {name} of session {session!r} is damaged (saved items)",
}
CONTENTS = "SELECT tenant, digest, is_packed, data FROM contents ORDER BY tenant, digest"
_NO_CONTENT = "NOT EXISTS (SELECT 1 FROM contents b WHERE b.tenant = r.tenant AND b.digest = r.digest)"
LOST_RESULTS = f"""SELECT s.id, r.turn FROM content_turns r JOIN sessions s ON s.number = r.session
    WHERE {_NO_CONTENT} ORDER BY s.id, r.turn"""  # noqa: S608
LOST_FILES = f"SELECT r.key FROM cabinet r WHERE r.removed_us IS NULL AND {_NO_CONTENT} ORDER BY r.key"  # noqa: S608
PROMPTS = "SELECT key, version, text, digest FROM prompts ORDER BY key, version"
KNOWLEDGE = "SELECT id, version, digest, scope, kind, title, text, data FROM knowledge ORDER BY tenant, id, version"
ALL_BODIES = """SELECT s.id, m.turn, m.position, m.digest, m.pruned_us, b.data FROM messages m
    LEFT JOIN sessions s ON s.number = m.session LEFT JOIN bodies b ON b.message = m.id ORDER BY m.id"""


def check_database(dialect: Dialect) -> Iterator[Finding]:
    """Yield all problems, and the progress of the check."""
    with dialect.errors():
        connection = dialect.connect(read_only=True)
    try:
        for part in (dialect.check, _check_structure, _check_records, _check_contents, _check_bodies):
            try:
                with dialect.errors(), dialect.read(connection):
                    yield from part(connection)
            except (StoreError, TypeError, ValueError) as error:  # a damaged file may return any value
                yield Finding(f"{part.__name__.strip('_').replace('_', ' ')} stopped: {error}", RESTORE)
    finally:
        connection.close()


def _check_structure(connection: Connection) -> Iterator[Finding]:
    for session, turn, count, last in connection.execute(GAPS):
        yield Finding(
            f"{turn_id(turn)} of session {session!r} has {count} of its {last} messages", RESTORE, session=session
        )
    for session, fork_turn, last_turn, found in connection.execute(MISSING_TURNS):
        expected = last_turn - fork_turn
        yield Finding(f"session {session!r} has {found} of its {expected} turns", RESTORE, session=session)
    for (session,) in connection.execute(LOST_PARENTS):
        yield Finding(f"session {session!r} is a fork of a session that is gone", RESTORE, session=session)
    for statement, what in ((ORPHAN_MESSAGES, "messages of no session"), (ORPHAN_BODIES, "bodies of no message")):
        (count,) = connection.execute(statement).fetchone()
        if count:
            yield Finding(f"{count} {what}", _ORPHANS)


def _check_records(connection: Connection) -> Iterator[Finding]:
    """Check records of user decisions, which can't be regenerated."""
    for table, problem in _LOST.items():
        for session, name, data, digest in connection.execute(RECORDS.format(table=table)):
            if not bodies.is_intact(digest, data):
                yield Finding(problem.format(name=name, session=session), RESTORE, session=session)


def _check_contents(connection: Connection) -> Iterator[Finding]:
    """Check the file cabinet, stored prompts and knowledge."""
    for _, digest, is_packed, data in connection.stream(CONTENTS):
        problem = content_problem(digest, is_packed, data)
        if problem:
            yield Finding(f"the content {digest.hex()[:KEY_CHARS]} of the file cabinet {problem}", RESTORE)
    for session, turn in connection.execute(LOST_RESULTS):
        problem = f"a whole tool result of {turn_id(turn)} in session {session!r} is missing"
        yield Finding(problem, RESTORE, session=session)
    for (key,) in connection.execute(LOST_FILES):
        yield Finding(f"the content of the key {key} of the file cabinet is missing", RESTORE)
    for key, version, text, digest in connection.execute(PROMPTS):
        if digest_of(text) != digest:
            yield Finding(f"version {version} of the prompt {key!r} is damaged", f"foveate prompts set {key} FILE")
    for item_id, version, digest, *values in connection.execute(KNOWLEDGE):
        if not is_sound(digest, *values):
            yield Finding(
                f"version {version} of the item {item_id} is damaged", "learn it again with 'foveate knowledge learn'"
            )


def _check_bodies(connection: Connection) -> Iterator[Finding]:
    (total,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    for done, (session, turn, position, digest, pruned_us, data) in enumerate(connection.stream(ALL_BODIES), 1):
        problem = _body_problem(data, digest, pruned=pruned_us is not None)
        if problem:
            what = f"message {position} of {turn_id(turn)} in session {session!r} {problem}"
            yield Finding(what, RESTORE, session=session or "")
        if done % BATCH == 0 or done == total:
            yield Finding(done=done, total=total)


def _body_problem(data: bytes | None, digest: bytes, *, pruned: bool) -> str | None:
    if data is None:
        return None if pruned else "is missing"
    try:
        bodies.unpack(data, digest)
    except ValueError as error:
        return str(error)
    return None
