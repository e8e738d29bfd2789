"""The raw log: sessions, forks, messages and pins. Functions of a connection, each run in a transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from foveate.errors import (
    ErasedMeanwhile,
    ForkInUse,
    InputError,
    KeyReused,
    PinLocked,
    PinNotFound,
    SessionContinued,
    SessionExists,
    SessionNotFound,
    TurnBegun,
    TurnNotFound,
    TurnPruned,
)
from foveate.store import bodies, cabinet, knowledge, passages
from foveate.store.clients import PROGRAM_STATE
from foveate.store.codec import note_body
from foveate.store.lineage import (
    NO_LIMIT,
    SELECT_SESSIONS,
    SPAN,
    HeadState,
    chain_of,
    get_session,
    is_erased_since,
    number_of,
    select_sessions,
    select_spans,
)
from foveate.store.message_keys import erased_key, stored_forms
from foveate.store.rows import (
    UPDATABLE,
    Draft,
    MessageOutline,
    MessageRow,
    NewSession,
    PinRow,
    Place,
    PruneReport,
    SessionRow,
    StoredSizes,
    TurnRow,
)
from foveate.store.sql import Connection, now_us
from foveate.turn import from_us, turn_id

LIST_SESSIONS = f"""{SELECT_SESSIONS}
    WHERE (:platform IS NULL OR s.platform = :platform) AND (:channel IS NULL OR s.channel = :channel)
    AND (:tenant IS NULL OR s.tenant = :tenant) AND (:scope IS NULL OR s.scope = :scope)
    ORDER BY s.updated_us DESC, s.number DESC LIMIT :limit"""
ADD_SESSION = """INSERT INTO sessions (id, title, platform, channel, strategy, settings, budget_tokens, model, encoding,
    calibration, parent, fork_turn, fork_position, last_turn, last_position, head, created_us, updated_us, settled,
    tenant, budget_chosen, mode, scope)
    VALUES (:id, :title, :platform, :channel, :strategy, :settings, :budget_tokens, :model, :encoding,
    :calibration, :parent, :fork_turn, :fork_position, :fork_turn, 0, 'closed', :now_us, :now_us,
    CASE WHEN :fork_turn > 0 THEN :fork_turn - 1 ELSE 0 END, :tenant, :budget_chosen, :mode, :scope)
    ON CONFLICT (id) DO NOTHING"""
GET_HEAD = "SELECT number, last_turn, last_position, head FROM sessions WHERE id = :id"
MOVE_HEAD = """UPDATE sessions SET last_turn = :last_turn, last_position = :last_position, head = :head, work_us = 0,
    updated_us = CASE WHEN last_turn = 0 OR updated_us < :newest_us THEN :newest_us ELSE updated_us END
    WHERE number = :number"""
LIST_CHILDREN = "SELECT id, fork_turn FROM sessions WHERE parent = :number ORDER BY number"

ADD_MESSAGE = """INSERT INTO messages
    (session, turn, position, role, kind, tokens, tool_calls, tool_results, at_us, recorded_us, size, digest, key)
    VALUES (:session, :turn, :position, :role, :kind, :tokens, :tool_calls, :tool_results, :at_us, :now_us,
    :size, :digest, :key)"""
ADD_BODY = """INSERT INTO bodies (message, data) SELECT id, :data FROM messages
    WHERE session = :session AND turn = :turn AND position = :position"""
FIND_KEY = "SELECT digest, erased_us FROM messages WHERE session = :session AND key IN (:key, :erased)"
FIND_KEYS = "SELECT key, turn, position FROM messages WHERE session = :session AND key IN ({keys})"
MAX_KEYS = 64
"""Maximum number of keys per lookup statement."""
IS_ERASED = """SELECT erased_us FROM messages WHERE session = :session AND turn = :turn AND pruned_us IS NOT NULL
    AND erased_us IS NOT NULL LIMIT 1"""
READ_MESSAGES = f"""SELECT turn, position, role, kind, tokens, at_us, recorded_us, digest, pruned_us, erased_us, data
    FROM messages LEFT JOIN bodies ON message = id WHERE {SPAN} ORDER BY turn, position"""  # noqa: S608
READ_TURNS = f"""SELECT turn, count(*), sum(tokens), sum(tool_calls), min(at_us), max(at_us), sum(size),
    max(coalesce(pruned_us, 0)) > 0, max(erased_us) FROM messages WHERE {SPAN} GROUP BY turn ORDER BY turn"""  # noqa: S608
READ_SIZES = f"""SELECT count(*), coalesce(sum(tokens), 0), coalesce(sum(tool_calls), 0), coalesce(sum(size), 0),
    coalesce(sum(length(data)), 0), min(at_us), max(at_us)
    FROM messages LEFT JOIN bodies ON message = id WHERE {SPAN}"""  # noqa: S608
READ_OUTLINES = f"""SELECT turn, role, kind, tokens, tool_results, at_us, pruned_us IS NOT NULL
    FROM messages WHERE {SPAN} ORDER BY turn, position"""  # noqa: S608
LAST_KEY = """SELECT key FROM messages WHERE session = :session AND key IS NOT NULL
    ORDER BY turn DESC, position DESC LIMIT 1"""
ADD_TAIL = "INSERT INTO answer_tails (hash, session, turn) VALUES (:hash, :session, :turn) ON CONFLICT DO NOTHING"
READ_KEYS = f"""SELECT key FROM messages WHERE {SPAN} AND kind <> 'display' ORDER BY turn, position"""  # noqa: S608
SUM_TOKENS = f"SELECT coalesce(sum(tokens), 0) FROM messages WHERE {SPAN}"  # noqa: S608
LAST_POSITION = f"SELECT coalesce(max(position), 0) FROM messages WHERE {SPAN}"  # noqa: S608

LIST_PINS = (
    "SELECT number, text, locked, created_us FROM pins WHERE session = :session AND removed_us IS NULL ORDER BY number"
)
ADD_PIN = """INSERT INTO pins (session, number, text, locked, created_us)
    SELECT :session, coalesce(max(number), 0) + 1, :text, :locked, :now_us FROM pins WHERE session = :session
    RETURNING number"""
FIND_PIN = """SELECT number, locked, created_us FROM pins
    WHERE session = :session AND text = :text AND removed_us IS NULL ORDER BY number"""
LOCK_PIN = "UPDATE pins SET locked = 1 WHERE session = :session AND number = :number"
GET_PIN = "SELECT locked FROM pins WHERE session = :session AND number = :number AND removed_us IS NULL"
REMOVE_PIN = "UPDATE pins SET removed_us = :now_us WHERE session = :session AND number = :number"
COPY_TO_FORK = (
    """INSERT INTO pins (session, number, text, locked, created_us)
    SELECT :to, number, text, locked, created_us FROM pins WHERE session = :from AND removed_us IS NULL""",
    """INSERT INTO goals (session, number, data, created_us, updated_us)
    SELECT :to, number, data, created_us, updated_us FROM goals WHERE session = :from""",
    """INSERT INTO documents (session, name, text, updated_us)
    SELECT :to, name, text, updated_us FROM documents WHERE session = :from""",
)

MADE = ("eras", "plans", "offers", "recalled", "states", "boards", "requests", "artefacts", "pictures")
_OWNED = (
    "passages",
    "renditions",
    "leases",
    "copies",
    *MADE,
    "pins",
    "goals",
    "documents",
    "answer_tails",
    "responses",
    "agents",
    "sent_requests",
)
# Memory layers of the tenant's other sessions may contain text of the removed turns; they are rebuilt.
_FORGET_LAYERS = """DELETE FROM recalled WHERE session IN (SELECT o.number FROM sessions s
    JOIN sessions o ON o.tenant = s.tenant AND (o.scope <> '' OR o.channel <> '') WHERE s.number = :{0})"""
# Requests since a session began may have recalled its text.
_FORGET_SENT = """DELETE FROM sent_requests WHERE session IN (SELECT o.number FROM sessions s
    JOIN sessions o ON o.tenant = s.tenant AND (o.scope <> '' OR o.channel <> '') WHERE s.number = :number)
    AND at_us >= (SELECT s.created_us FROM sessions s WHERE s.number = :number)"""
SENT_OF_READERS = """session IN (WITH RECURSIVE readers (number) AS (
    SELECT o.number FROM sessions s JOIN sessions o ON o.tenant = s.tenant AND (o.number = s.number OR o.scope <> ''
    OR o.channel <> '' OR substr(o.id, 1, length(s.id) + 1) = s.id || '~') WHERE s.number = :session
    UNION SELECT c.number FROM sessions c JOIN readers r ON c.parent = r.number) SELECT number FROM readers)"""
"""Condition of the requests that may have a session's text: its own, those of its forks and branches, and those of
sessions that recall from others."""
DELETE_SESSION = (
    _FORGET_LAYERS.format("number"),
    _FORGET_SENT,
    "DELETE FROM bodies WHERE message IN (SELECT id FROM messages WHERE session = :number)",
    "DELETE FROM messages WHERE session = :number",
    *(f"DELETE FROM {table} WHERE session = :number" for table in _OWNED),  # noqa: S608
    "UPDATE calls SET session = NULL WHERE session = :number",  # costs are kept
    "UPDATE agents SET parent_session = NULL WHERE parent_session = :number",
    "DELETE FROM sessions WHERE number = :number",
)
# A turn is old if its last message is; the open turn never is.
_OLD_TURNS = """SELECT turn FROM messages WHERE session = :session AND turn < :last_turn
    GROUP BY turn HAVING max(at_us) < :before_us AND max(coalesce(pruned_us, 0)) = 0"""
IN_OLD_TURN = f"session = :session AND turn IN ({_OLD_TURNS})"
COUNT_OLD = f"""SELECT count(DISTINCT turn), count(*), coalesce(sum(size), 0), coalesce(sum(length(data)), 0), min(turn)
    FROM messages LEFT JOIN bodies ON message = id WHERE {IN_OLD_TURN}"""  # noqa: S608


def forget_made(where: str) -> tuple[str, ...]:
    """Return the statements that remove what was made from the turns that match a condition.

    Eras, plans, states and boards may contain their text; the states of programs contain ids. The time of the prune
    tells whoever has read the turns to read again.
    """
    return (
        f"DELETE FROM renditions WHERE {where}",  # noqa: S608
        _FORGET_LAYERS.format("session"),
        f"DELETE FROM sent_requests WHERE {SENT_OF_READERS}",  # noqa: S608
        f"DELETE FROM responses WHERE {where}",  # noqa: S608
        *(f"DELETE FROM {table} WHERE session = :session" for table in MADE if table != "states"),  # noqa: S608
        f"""DELETE FROM states WHERE session = :session
        AND substr(name, 1, {len(PROGRAM_STATE)}) <> '{PROGRAM_STATE}'""",  # noqa: S608
        """UPDATE sessions SET pruned_us = CASE WHEN pruned_us >= :now_us THEN pruned_us + 1 ELSE :now_us END
        WHERE number = :session""",
    )


DROP_BODIES = "DELETE FROM bodies WHERE message IN (SELECT id FROM messages WHERE {where})"
PRUNE = (
    DROP_BODIES.format(where=IN_OLD_TURN),
    *forget_made(IN_OLD_TURN),
    f"UPDATE messages SET pruned_us = :now_us WHERE {IN_OLD_TURN}",  # noqa: S608
)


_log = logging.getLogger(__name__)


def create_session(connection: Connection, session: NewSession) -> SessionRow:
    """Create an empty session; `SessionExists` if the id is taken."""
    return _create(connection, session, None, 0, 0)


def fork_session(connection: Connection, session: NewSession, parent_id: str, turn: int) -> SessionRow:
    """Create a session with its parent's turns up to `turn`, its pins, goals and documents.

    Turn 0 shares no turn: a child session.
    """
    chain = chain_of(connection, parent_id)
    parent = chain[0]
    if not 0 <= turn <= parent.last_turn:
        raise TurnNotFound(parent_id, turn_id(turn), parent.last_turn)
    (position,) = select_spans(connection, LAST_POSITION, chain, turn, turn)[0] if turn else (0,)
    row = _create(connection, session, parent, turn, position)
    for statement in COPY_TO_FORK:
        connection.execute(statement, {"from": parent.number, "to": row.number})
    return row


def _create(
    connection: Connection, session: NewSession, parent: SessionRow | None, turn: int, position: int
) -> SessionRow:
    origin = {
        "parent": parent and parent.number,
        "fork_turn": turn,
        "fork_position": position,
        "calibration": parent.calibration if parent else 1.0,
        "now_us": now_us(),
    }
    if connection.execute(ADD_SESSION, {**asdict(session), **origin}).rowcount == 0:
        raise SessionExists(session.id)
    return get_session(connection, session.id)


def list_sessions(
    connection: Connection,
    *,
    platform: str | None = None,
    channel: str | None = None,
    tenant: str | None = None,
    scope: str | None = None,
    limit: int | None = None,
) -> list[SessionRow]:
    """List all sessions, or those with these labels, this tenant or this scope; the most recently used first, at most
    `limit`."""
    wanted = {"platform": platform, "channel": channel, "tenant": tenant, "scope": scope}
    return select_sessions(connection, LIST_SESSIONS, {**wanted, "limit": NO_LIMIT if limit is None else limit})


def update_session(connection: Connection, session_id: str, changes: Mapping[str, object]) -> SessionRow:
    """Update columns listed in UPDATABLE."""
    unknown = set(changes) - UPDATABLE
    if unknown:
        raise InputError(f"a session's {', '.join(sorted(unknown))} can't be changed")
    assigned = (f"{name} = :{name}" for name in sorted(changes))
    statement = f"UPDATE sessions SET {', '.join(assigned)} WHERE id = :id"  # noqa: S608 - names of columns
    connection.execute(statement, {**changes, "id": session_id})
    return get_session(connection, session_id)


def delete_session(connection: Connection, session_id: str) -> None:
    number = number_of(connection, session_id)
    forks = tuple(child for child, _ in connection.execute(LIST_CHILDREN, {"number": number}))
    if forks:
        raise ForkInUse(session_id, forks)
    passages.forget(connection, "session = :session", {"session": number})
    cabinet.release(connection, "session = :number", {"number": number})
    knowledge.forget(connection, "session = :number", {"number": number})
    for statement in DELETE_SESSION:
        connection.execute(statement, {"number": number})
    connection.heads.clear()


def _check_newest(
    connection: Connection, session_id: str, number: int, turn: int, *, expected: int, first: Draft
) -> None:
    """Raise an error unless the newest turn is the expected one, and `first` begins another or it was not erased."""
    if expected > turn:
        raise TurnNotFound(session_id, f"T-{expected}", turn)
    if expected < turn:
        raise TurnBegun(session_id, turn=expected, newest=turn)
    if first.opens_turn:
        return
    if found := connection.execute(IS_ERASED, {"session": number, "turn": turn}).fetchone():
        raise TurnPruned(session_id, f"T-{turn}", f"{from_us(found[0]):%Y-%m-%d}")


def append(
    connection: Connection,
    session_id: str,
    drafts: Sequence[Draft],
    *,
    newest_turn: int | None = None,
    after: str | None = None,
    exact: bool = False,
    tail: str = "",
    since_us: int | None = None,
) -> list[Place]:
    """Store all drafts, in order and durably, or none. A draft whose key exists in the session or in an earlier draft
    is skipped.

    With `newest_turn`: raise `TurnBegun` if a later turn has started, `TurnPruned` if the turn was erased. With
    `after`: raise `SessionContinued` unless it is the key of the session's last message with a key (empty: no message
    has a key). With `exact`: raise `KeyReused` if the messages stored under these keys differ from the drafts. `tail`
    is the hash of a prompt and its answer, by which `clients.find_tails` finds their turn. With `since_us`: raise
    `ErasedMeanwhile` if something in the session was erased since that moment.
    """
    row = connection.heads.get(session_id) or connection.execute(GET_HEAD, {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    number, turn, position, head = row
    if is_erased_since(connection, number, since_us):
        raise ErasedMeanwhile(session_id)
    state = HeadState(turn, position, head)
    known = _known_places(connection, number, drafts)
    repeated = _repeated(drafts)
    fresh = [draft for index, draft in enumerate(drafts) if index not in known and index not in repeated]
    if exact:
        _check_same(connection, number, drafts, known)
    if not fresh:
        return [known[index] for index in range(len(drafts))]
    if newest_turn is not None:
        _check_newest(connection, session_id, number, turn, expected=newest_turn, first=fresh[0])
    if after is not None and _last_key(connection, number) not in stored_forms(after):
        raise SessionContinued(session_id)
    moment = now_us()
    placed = list(state.place(fresh))
    for draft, place in zip(fresh, placed, strict=True):
        _add_message(connection, number, draft, place, moment)
    moved = {"last_turn": state.turn, "last_position": state.position, "head": state.head}
    newest = max(moment if draft.at_us is None else draft.at_us for draft in fresh)
    connection.defer(MOVE_HEAD, {**moved, "number": number, "newest_us": newest})
    if session_id in connection.heads:
        connection.heads[session_id] = (number, state.turn, state.position, state.head)
    connection.signal()
    if tail:
        connection.defer(ADD_TAIL, {"session": number, "hash": tail, "turn": state.turn})
    return _in_order(placed, known, repeated)


def _in_order(placed: Sequence[Place], known: Mapping[int, Place], repeated: Mapping[int, int]) -> list[Place]:
    """Return the places of all drafts, from those of the fresh and of the known ones."""
    rest = iter(placed)
    places: list[Place] = []
    for index in range(len(placed) + len(known.keys() | repeated)):
        if index in repeated:
            places.append(replace(places[repeated[index]], is_new=False))
        else:
            places.append(known[index] if index in known else next(rest))
    return places


def _repeated(drafts: Sequence[Draft]) -> dict[int, int]:
    """Return the drafts whose key an earlier draft has: their index, and that of the first."""
    first: dict[str, int] = {}
    return {
        index: found
        for index, draft in enumerate(drafts)
        if draft.key is not None and (found := first.setdefault(draft.key, index)) != index
    }


def _known_places(connection: Connection, session: int, drafts: Sequence[Draft]) -> dict[int, Place]:
    """Return the places of the drafts whose key exists in the session, by draft index."""
    forms = {form: draft.key for draft in drafts if draft.key is not None for form in stored_forms(draft.key)}
    keys = list(forms)
    found: dict[str, Place] = {}
    for start in range(0, len(keys), MAX_KEYS):
        part = keys[start : start + MAX_KEYS]
        count = 1 << (len(part) - 1).bit_length()  # limits the number of distinct statements
        names = {f"key{number}": part[min(number, len(part) - 1)] for number in range(count)}
        statement = FIND_KEYS.format(keys=", ".join(f":{name}" for name in names))
        for key, turn, position in connection.execute(statement, {"session": session, **names}):
            found[forms[key]] = Place(turn, position, is_new=False)
    return {index: found[draft.key] for index, draft in enumerate(drafts) if draft.key in found}


def _last_key(connection: Connection, session: int) -> str:
    row = connection.execute(LAST_KEY, {"session": session}).fetchone()
    return "" if row is None else str(row[0])


def _check_same(connection: Connection, session: int, drafts: Sequence[Draft], known: Mapping[int, Place]) -> None:
    """Compare drafts with the messages stored under their keys."""
    last = drafts[-1].key
    if last is None or not known:
        return
    key = last.rpartition("#")[0]
    rows = [_find_key(connection, session, draft.key) for draft in drafts]
    following = _find_key(connection, session, f"{key}#{len(drafts)}")
    # What was erased can't be compared with its repetition.
    is_same = all(row and (row[0] == draft.digest or row[1]) for row, draft in zip(rows, drafts, strict=True))
    if following is not None or not is_same:
        raise KeyReused(key)


def _find_key(connection: Connection, session: int, key: str | None) -> Sequence[Any] | None:
    """Return the digest and the time of erasure of the message with a key."""
    if key is None:
        return None
    row: Sequence[Any] | None = connection.execute(
        FIND_KEY, {"session": session, "key": key, "erased": erased_key(key)}
    ).fetchone()
    return row


def _add_message(connection: Connection, session: int, draft: Draft, place: Place, moment: int) -> None:
    values = {
        "session": session,
        "turn": place.turn,
        "position": place.position,
        "role": draft.role,
        "kind": draft.kind,
        "tokens": draft.tokens,
        "tool_calls": draft.tool_calls,
        "tool_results": draft.tool_results,
        "at_us": moment if draft.at_us is None else draft.at_us,
        "now_us": moment,
        "size": draft.size,
        "digest": draft.digest,
        "key": draft.key,
    }
    connection.defer(ADD_MESSAGE, values)
    connection.defer(ADD_BODY, {**values, "data": draft.body})


def read(connection: Connection, session_id: str, first: int, last: int) -> list[MessageRow]:
    """List all messages of the turns `first` to `last`, including ancestors'; a damaged one is replaced with a note."""
    found = select_spans(connection, READ_MESSAGES, chain_of(connection, session_id), first, last)
    return [checked(connection, session_id, row) for row in found]


def checked(connection: Connection, session_id: str, row: tuple[Any, ...]) -> MessageRow:
    """Return a message; a damaged one is replaced with a note, so that the rest of its session stays usable."""
    turn, position, role, kind, tokens, at_us, recorded_us, digest, pruned_us, erased_us, data = row
    body = problem = None
    if pruned_us is None:
        try:
            if data is None:
                raise ValueError("is missing")
            body = bodies.unpack(data, digest)
        except ValueError as error:
            problem = str(error)
            where = f"message {position} of {turn_id(turn)}"
            _log.warning("%s: %s of session %r %s", connection.location, where, session_id, problem)
            body = note_body(role, f"({where} is damaged; run foveate doctor)")
    return MessageRow(turn, position, role, kind, tokens, at_us, recorded_us, body, problem, digest, erased_us)


def turns(connection: Connection, session_id: str, first: int, last: int) -> list[TurnRow]:
    """List the turns `first` to `last`, without bodies."""
    found = select_spans(connection, READ_TURNS, chain_of(connection, session_id), first, last)
    # SQLite has no boolean type for the flag at the end.
    return [replace(row, pruned=bool(row.pruned)) for row in (TurnRow(*values) for values in found)]


def outlines(connection: Connection, session_id: str, first: int, last: int) -> list[MessageOutline]:
    """List the messages of the turns `first` to `last`, without bodies."""
    found = select_spans(connection, READ_OUTLINES, chain_of(connection, session_id), first, last)
    return [MessageOutline(*row) for row in found]


def keys(connection: Connection, session_id: str, first: int, last: int) -> list[str | None]:
    """List the key of each message of the turns `first` to `last`, None if it has none; display messages are
    skipped."""
    return [key for (key,) in select_spans(connection, READ_KEYS, chain_of(connection, session_id), first, last)]


def sizes(connection: Connection, session_id: str) -> StoredSizes:
    """Return totals of the session, including its ancestors' turns."""
    found = select_spans(connection, READ_SIZES, chain_of(connection, session_id), 1, NO_LIMIT)
    messages, tokens, calls, raw, stored = (sum(row[column] for row in found) for column in range(5))
    moments = [moment for row in found for moment in row[5:] if moment is not None]
    return StoredSizes(messages, tokens, calls, raw, stored, min(moments, default=None), max(moments, default=None))


def raw_tokens(connection: Connection, session_id: str, first: int, last: int) -> int:
    """Sum the raw base tokens of the turns `first` to `last`."""
    return sum(row[0] for row in select_spans(connection, SUM_TOKENS, chain_of(connection, session_id), first, last))


def add_pin(
    connection: Connection,
    session_id: str,
    text: str,
    *,
    locked: bool,
    check: Callable[[Sequence[PinRow]], object] | None = None,
) -> PinRow:
    """Add a pin; return the existing one if the text is the same, locked if `locked`.

    `check` gets all pins with a new one, and raises an error if it may not be added.
    """
    now, session = now_us(), number_of(connection, session_id)
    values = {"session": session, "text": text, "locked": int(locked), "now_us": now}
    found = connection.execute(FIND_PIN, values).fetchone()
    if found is None:
        (number,) = connection.execute(ADD_PIN, values).fetchone()
        if check:
            check(list_pins(connection, session_id))
        return PinRow(number, text, locked, now)
    number, was_locked, created = found
    if locked and not was_locked:
        connection.execute(LOCK_PIN, {"session": session, "number": number})
    return PinRow(number, text, locked or bool(was_locked), created)


def list_pins(connection: Connection, session_id: str) -> list[PinRow]:
    return [pin_of(row) for row in connection.execute(LIST_PINS, {"session": number_of(connection, session_id)})]


def pin_of(row: Sequence[Any]) -> PinRow:
    """Make a pin from the columns of `LIST_PINS`."""
    number, text, locked, created = row
    return PinRow(number, text, bool(locked), created)


def remove_pin(connection: Connection, session_id: str, number: int, *, even_if_locked: bool) -> None:
    values = {"session": number_of(connection, session_id), "number": number, "now_us": now_us()}
    row = connection.execute(GET_PIN, values).fetchone()
    if row is None:
        raise PinNotFound(session_id, f"P-{number}")
    if row[0] and not even_if_locked:
        raise PinLocked(f"P-{number}")
    connection.execute(REMOVE_PIN, values)


def prune(connection: Connection, session_id: str, *, before_us: int, dry_run: bool) -> PruneReport:
    """Remove the bodies of the session's own turns that ended before a time; raise `ForkInUse` while forks read them.

    Everything derived from them is removed too: renditions, eras, plans, states (except those of programs), boards,
    artefacts, and the responses of these turns. `derived.pruned` changes.
    """
    row = get_session(connection, session_id)
    now = now_us()
    values = {
        "session": row.number,
        "last_turn": row.last_turn,
        "before_us": before_us,
        "now_us": now,
    }
    turns, messages, size, stored, oldest = connection.execute(COUNT_OLD, values).fetchone()
    contents = cabinet.sizes_of(connection, IN_OLD_TURN, values)
    children = connection.execute(LIST_CHILDREN, {"number": row.number}).fetchall()
    forks = tuple(child for child, fork_turn in children if oldest is not None and fork_turn >= oldest)
    if forks:
        raise ForkInUse(session_id, forks)
    if not dry_run and oldest is not None:
        passages.forget(connection, IN_OLD_TURN, values)
        cabinet.release(connection, IN_OLD_TURN, values)
        knowledge.forget(connection, IN_OLD_TURN, values)
        for statement in PRUNE:
            connection.execute(statement, values)
    return PruneReport(turns, messages, size + contents[0], stored + contents[1])
