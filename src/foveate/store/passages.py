"""The index of turns: passages with their words and vectors. Functions of a connection. All can be made again.

One row has all passages of a turn; a passage's key is the row's id and its number in it. A session sees its
ancestors' turns as they were at the fork, and of each turn the newest row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveate.errors import Damaged
from foveate.store import bodies
from foveate.store.bodies import digest_of, is_intact
from foveate.store.lineage import chain_of, current_number, fork_turns, get_session, number_of, spans
from foveate.store.rows import (
    KEY_SHIFT,
    NEWEST_ID,
    IndexedSession,
    IndexSnapshot,
    IndexState,
    NewPassages,
    Origin,
    PassagesRow,
    PassageText,
    Postings,
    SessionRow,
)
from foveate.store.sql import Connection, StoredVectors, Values

ADD = """INSERT INTO passages (session, turn, messages, at_us, maker, marks, texts, vectors, digest,
    texts_digest)
    VALUES (:session, :turn, :messages, :at_us, :maker, :marks, :texts, :vectors, :digest, :texts_digest)
    RETURNING id"""
# What a look needs to know first: of the whole store, and of a session that may be there.
STATE = """SELECT n.newest, n.has_items, s.parent, s.number, s.id, s.created_us, s.index_epoch, 1, s.last_turn,
    s.last_position
    FROM (SELECT (SELECT coalesce(max(id), 0) FROM passages) AS newest,
        EXISTS (SELECT 1 FROM knowledge) AS has_items) n
    LEFT JOIN sessions s ON s.id = :id"""
NOTHING = Postings((), is_cut=False)
ADDED_TURNS = 32
"""Turns that are added together."""
_TURNS = ", ".join(f":turn{number}" for number in range(ADDED_TURNS))
STORED = f"SELECT turn, messages, maker, id FROM passages WHERE session = :session AND turn IN ({_TURNS})"  # noqa: S608
FORKED = f"SELECT fork_turn FROM sessions WHERE parent = :session AND fork_turn IN ({_TURNS})"  # noqa: S608
_ROWS = "SELECT digest, id, turn, messages, at_us, maker, marks, vectors, session FROM passages"
LIST = f"{_ROWS} WHERE session = :session AND id > :after AND id <= :until ORDER BY id"
GET_ROW = f"{_ROWS} WHERE id = :id AND session = :session"
LIST_TURN = f"{_ROWS} WHERE session = :session AND turn = :turn"
# A fork may have passages of its own of the turn it forked at, which is its parent's.
LIST_ALL = """SELECT p.digest, p.id, p.turn, p.messages, p.at_us, p.maker, p.marks, p.vectors, p.session
    FROM passages p JOIN sessions s ON s.number = p.session
    WHERE p.turn > s.fork_turn AND p.id > :after AND p.id <= :until ORDER BY p.id"""
INDEXED_SESSIONS = """SELECT number, id, created_us, index_epoch, fork_turn + 1, last_turn, last_position FROM sessions
    ORDER BY updated_us DESC, number DESC"""
READ_TEXTS = 32
"""Rows whose texts one statement reads."""
GET_TEXTS = f"""SELECT id, session, turn, texts, texts_digest FROM passages
    WHERE id IN ({", ".join(f":id{number}" for number in range(READ_TEXTS))})"""  # noqa: S608 - constants
DROP = "DELETE FROM passages WHERE id = :id"
EPOCH = "SELECT index_epoch FROM sessions WHERE number = :session"
RAISE_EPOCH = "UPDATE sessions SET index_epoch = index_epoch + 1 WHERE number = :session"
WANT = "UPDATE sessions SET unindexed = :turn WHERE number = :session AND unindexed < :turn"
LOWER = "UPDATE sessions SET unindexed = :turn WHERE number = :session AND unindexed > :turn"
UNINDEXED = "SELECT id FROM sessions WHERE unindexed > 0 ORDER BY number"
LACKING = """SELECT turn, made FROM (SELECT turn, max(messages) AS made FROM renditions
    WHERE session = :session AND turn <= (SELECT unindexed FROM sessions WHERE number = :session) GROUP BY turn) r
    WHERE NOT EXISTS (SELECT 1 FROM passages p WHERE p.session = :session AND p.turn = r.turn
        AND p.messages = r.made AND p.maker = :maker)
    ORDER BY turn DESC LIMIT :limit"""
COUNT_TURNS = "SELECT count(*) FROM (SELECT DISTINCT session, turn FROM passages) turns"
COUNT_MISSING = """SELECT count(*) FROM (SELECT session, turn FROM messages WHERE pruned_us IS NULL
    EXCEPT SELECT session, turn FROM passages WHERE maker = :maker) turns"""
MAKERS = "SELECT DISTINCT maker FROM passages ORDER BY maker"
CLEAR = ("DELETE FROM passages", "UPDATE sessions SET unindexed = last_turn, index_epoch = index_epoch + 1")

VECTOR_HEAD_BYTES = 6
"""The number of its passage and its scale, before the numbers of a vector."""

_log = logging.getLogger(__name__)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[PassageText])


def look(
    connection: Connection,
    session_id: str | None,
    *,
    after: int,
    phrases: Sequence[tuple[str, int]],
    limit: int,
    until: int = NEWEST_ID,
    is_most: bool = False,
) -> IndexSnapshot:
    """Rows with an id above `after` and up to `until`, and for each phrase up to `limit` passages beyond its key
    that contain it.

    Without a session, those of all sessions: a turn that forks share once, as its own session's.
    With `is_most`, most passages of the store are this session's, and others are not filtered first.
    `Damaged` if the index can't be read.
    """
    newest, has_items, parent, *session = connection.execute(STATE, {"id": session_id}).fetchone()
    chain: Sequence[SessionRow] = ()
    if session_id is None:
        indexed, own = _all_indexed(connection), tuple[int, ...]()
    elif parent is None and session[0] is not None:  # no fork: all rows of the session are its own
        indexed, own = [IndexedSession(*session)], (session[0],)
    else:
        chain = chain_of(connection, session_id)
        indexed, own = [_indexed(connection, chain)], tuple(row.number for row in chain)
    asked = [place for place, (_, beyond) in enumerate(phrases) if beyond >> KEY_SHIFT < newest]
    postings = [NOTHING] * len(phrases)
    if asked:
        with connection.words.guard():
            matches = connection.words.match_many(
                [phrases[place] for place in asked], sessions=() if is_most else own, limit=limit + 1
            )
        for place, keys in zip(asked, matches, strict=True):
            postings[place] = Postings(keys[:limit], is_cut=len(keys) > limit)
    found: Iterable[PassagesRow] = ()
    if newest > after and chain:
        found = _seen(connection, chain, after, until)
    elif newest > after:
        span = {"after": after, "until": until}
        statement, values = (LIST, {**span, "session": own[0]}) if own else (LIST_ALL, span)
        found = _intact_rows(connection, statement, values)
    return IndexSnapshot(indexed, newest, list(found), postings, has_items=bool(has_items))


def rows(connection: Connection, session_id: str, ids: Sequence[int], turns: Sequence[int]) -> list[PassagesRow]:
    """The rows of a session with these ids or of these turns, in the order of their ids; missing ones are
    skipped."""
    chain = chain_of(connection, session_id)
    found: dict[int, PassagesRow] = {}
    for owner in chain:
        session = {"session": owner.number}
        wanted = [(GET_ROW, {**session, "id": row}) for row in ids if row not in found]
        wanted += [(LIST_TURN, {**session, "turn": turn}) for turn in turns]
        own = (row for statement, values in wanted for row in _intact_rows(connection, statement, values))
        found |= {row.id: row for row in _visible(chain, owner, own)}
    return [found[row] for row in sorted(found)]


def postings(connection: Connection, session_id: str | None, phrase: str, *, field: str) -> list[int]:
    """The keys of all passages that contain a phrase in a field (`words` or `tool`), in a session or in all."""
    sessions = [] if session_id is None else [row.number for row in chain_of(connection, session_id)]
    with connection.words.guard():
        return connection.words.match(phrase, sessions=sessions, field=field)


def nearest(
    connection: Connection, vector: Sequence[float], *, sessions: Sequence[int] | None, limit: int
) -> list[tuple[int, float]] | None:
    """Keys and similarities of the passages of all sessions, or of these, whose vectors are nearest, the nearest
    first; None if the database has no index of vectors."""
    return connection.vectors.nearest(vector, sessions=sessions, limit=limit)


def among(connection: Connection, phrases: Sequence[str], texts: Sequence[PassageText]) -> list[list[int]]:
    """For each phrase the places of the texts that contain it, by the rules of `look`."""
    return connection.words.index_texts(texts).match(phrases)


def texts(connection: Connection, ids: Sequence[int]) -> dict[int, list[PassageText]]:
    """The passages of these rows; missing rows are skipped."""
    found: dict[int, list[PassageText]] = {}
    for start in range(0, len(ids), READ_TEXTS):
        part = ids[start : start + READ_TEXTS]
        for row, session, turn, packed, digest in connection.execute(GET_TEXTS, _padded("id", part, READ_TEXTS)):
            if is_intact(digest, packed):
                found[row] = _unpack(packed)
            else:
                _drop_damaged(connection, row, session, turn)
    return found


def add(connection: Connection, session_id: str, made: Sequence[NewPassages], origin: Origin | None = None) -> None:
    """Store passages, in place of those of another maker, unless turns were removed since `origin` was read."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        add_all(connection, number, made)


def lacking(connection: Connection, session_id: str, maker: str, limit: int) -> list[tuple[int, int]]:
    """Turns that have renditions but no passages of this maker, the newest first, each with its number of
    messages."""
    session = number_of(connection, session_id)
    return connection.execute(LACKING, {"session": session, "maker": maker, "limit": limit}).fetchall()


def note_made(connection: Connection, session_id: str, maker: str) -> None:
    """Record up to which turn passages may be missing, so that nobody looks further."""
    first = lacking(connection, session_id, maker, 1)
    session = number_of(connection, session_id)
    connection.execute(LOWER, {"session": session, "turn": first[0][0] if first else 0})


def want(connection: Connection, session_id: str) -> None:
    """Have all turns of a session checked again for missing passages."""
    session = get_session(connection, session_id)
    want_turns(connection, session.number, session.last_turn)


def unindexed(connection: Connection) -> list[str]:
    """The sessions that may lack passages."""
    return [row[0] for row in connection.execute(UNINDEXED)]


def state(connection: Connection, maker: str) -> IndexState:
    (turns,) = connection.execute(COUNT_TURNS).fetchone()
    (missing,) = connection.execute(COUNT_MISSING, {"maker": maker}).fetchone()
    with connection.words.guard():
        passages = connection.words.count()
    return IndexState(turns, passages, missing, tuple(name for (name,) in connection.execute(MAKERS)))


def check(connection: Connection) -> str | None:
    """The problem of the index, if any."""
    try:
        with connection.words.guard():
            connection.words.check()
    except Damaged as error:
        return str(error)
    return None


def clear(connection: Connection) -> None:
    """Remove the whole index, whatever its state, so that it is made again."""
    connection.words.recreate()
    connection.vectors.clear()
    for statement in CLEAR:
        connection.execute(statement)


def add_all(connection: Connection, session: int, made: Iterable[NewPassages]) -> None:
    """Store the passages of turns, all or none; `Damaged` if the index can't be written."""
    with connection.words.write():
        for part in _parts(made):
            _add(connection, session, part)


def want_turns(connection: Connection, session: int, turn: int) -> None:
    """Have the turns up to this one checked again for missing passages."""
    connection.execute(WANT, {"session": session, "turn": turn})


def forget(connection: Connection, condition: str, values: Values) -> None:
    """Erase rows and their words; the epoch tells readers to look again from the beginning."""
    with connection.words.write():
        if _remove(connection, condition, values):
            connection.words.purge()
    connection.execute(RAISE_EPOCH, values)


def _parts(made: Iterable[NewPassages]) -> Iterator[Sequence[NewPassages]]:
    """As many entries together as may be, each of another turn."""
    part: dict[int, NewPassages] = {}
    for each in made:
        if each.turn in part or len(part) == ADDED_TURNS:
            yield list(part.values())
            part.clear()
        part[each.turn] = each
    if part:
        yield list(part.values())


def _add(connection: Connection, session: int, made: Sequence[NewPassages]) -> None:
    """Store the passages of turns, unless they are stored already, in place of those of fewer messages."""
    turns = _padded("turn", [each.turn for each in made], ADDED_TURNS)
    stored: dict[int, list[tuple[int, str, int]]] = {each.turn: [] for each in made}
    for turn, *row in connection.execute(STORED, {"session": session, **turns}):
        stored[turn].append((row[0], row[1], row[2]))
    # A fork may still see a turn as it was.
    forked = {turn for (turn,) in connection.execute(FORKED, {"session": session, **turns})}
    new = []
    for each in made:
        rows = stored[each.turn]
        if any((messages, maker) == (each.messages, each.maker) for messages, maker, _ in rows):
            continue
        new.append(each)
        for messages, _, row in rows:
            if messages == each.messages or (messages < each.messages and each.turn not in forked):
                _remove(connection, "id = :id", {"id": row})
    if new:
        ids = connection.insert(ADD, [_values(session, each) for each in new])
        added = list(zip(ids, new, strict=True))
        connection.words.add(session, [entry for row, each in added for entry in _entries(row, each.texts)])
        connection.vectors.add(session, [(row, _vectors(each)) for row, each in added])


def _values(session: int, made: NewPassages) -> Values:
    packed = bodies.squeeze_bytes(_encoder.encode(made.texts))
    return {
        "session": session,
        "turn": made.turn,
        "messages": made.messages,
        "at_us": made.at_us,
        "maker": made.maker,
        "marks": made.marks,
        "texts": packed,
        "vectors": made.vectors,
        "digest": digest_of(made.turn, made.messages, made.at_us, made.maker, made.marks, made.vectors),
        "texts_digest": digest_of(packed),
    }


def _padded(name: str, values: Sequence[int], count: int) -> dict[str, int]:
    """As many parameters as a statement has, the first value again where there are fewer."""
    return {f"{name}{number}": values[number if number < len(values) else 0] for number in range(count)}


def _remove(connection: Connection, condition: str, values: Values) -> int:
    """Remove rows and their words; how many rows."""
    statement = f"SELECT id, session, texts, texts_digest FROM passages WHERE {condition}"  # noqa: S608
    found = connection.execute(statement, values).fetchall()
    words: dict[int, list[tuple[int, PassageText]]] = {}
    for row, session, packed, digest in found:
        if is_intact(digest, packed):  # otherwise its words are unknown; their entries lead nowhere
            words.setdefault(session, []).extend(_entries(row, _unpack(packed)))
    for session, entries in words.items():
        connection.words.remove(session, entries)
    if found:
        connection.vectors.remove([row for row, *_ in found])
        connection.executemany(DROP, [{"id": row} for row, *_ in found])
    return len(found)


def _vectors(made: NewPassages) -> StoredVectors:
    """The numbers of each vector, as `foveate.recall.table.pack` wrote them."""
    if not made.embedded or not made.vectors:
        return StoredVectors(0, ())
    return _split(made.vectors, len(made.vectors) // len(made.embedded))


def _split(vectors: bytes, size: int) -> StoredVectors:
    packed = (vectors[place : place + size] for place in range(0, len(vectors), size))
    rows = [(int.from_bytes(each[:2], "little"), memoryview(each)[VECTOR_HEAD_BYTES:].cast("b")) for each in packed]
    return StoredVectors(size - VECTOR_HEAD_BYTES, rows)


def _drop_damaged(connection: Connection, row: int, session: int, turn: int) -> None:
    """Drop a row, and have its turn indexed again."""
    _log.warning("%s: the index of T-%d is damaged; it will be made again", connection.location, turn)
    connection.repair(DROP, {"id": row})
    connection.repair(WANT, {"session": session, "turn": turn})
    connection.repair(RAISE_EPOCH, {"session": session})


def _entries(row: int, texts: Sequence[PassageText]) -> Iterator[tuple[int, PassageText]]:
    return ((row << KEY_SHIFT | number, text) for number, text in enumerate(texts))


def add_copied(connection: Connection, session: int, rows: Iterable[tuple[int, Values]]) -> None:
    """Add the words and vectors of rows that were copied from another store to the indexes of this one."""
    intact = ((row, each) for row, each in rows if is_intact(each["texts_digest"], each["texts"]))
    found = [(row, each["maker"], _unpack(each["texts"]), each["vectors"]) for row, each in intact]
    connection.words.add(session, [entry for row, _, texts, _ in found for entry in _entries(row, texts)])
    sizes: dict[str, set[int]] = {}
    for _, maker, texts, vectors in found:
        if vectors:
            own = set(_sizes(texts, vectors))
            sizes[maker] = sizes.get(maker, own) & own
    for maker, possible in sizes.items():
        if len(possible) == 1:
            (size,) = possible
            made = ((row, _split(vectors, size)) for row, by, _, vectors in found if by == maker and vectors)
            connection.vectors.add(session, made, is_bulk=True)


def _sizes(texts: Sequence[PassageText], vectors: bytes) -> Iterator[int]:
    """The bytes that each of these vectors may have; all of one maker have the same.

    Each begins with the number of its passage. The first and the last passage have a vector, and all that no tool made.
    """
    spoken = {number for number, text in enumerate(texts) if text.speaker != "tool"} | {0, len(texts) - 1}
    for count in range(len(spoken), len(texts) + 1):
        size, rest = divmod(len(vectors), count)
        if rest == 0 and size > VECTOR_HEAD_BYTES:
            numbers = [int.from_bytes(vectors[place : place + 2], "little") for place in range(0, len(vectors), size)]
            if numbers == sorted(set(numbers)) and spoken <= set(numbers) and numbers[-1] < len(texts):
                yield size


def _unpack(packed: bytes) -> list[PassageText]:
    return _decoder.decode(bodies.expand_bytes(packed))


def _seen(connection: Connection, chain: Sequence[SessionRow], after: int, until: int) -> Iterator[PassagesRow]:
    """The rows that the session sees."""
    for row in chain:
        found = _intact_rows(connection, LIST, {"session": row.number, "after": after, "until": until})
        yield from _visible(chain, row, found)


def _visible(chain: Sequence[SessionRow], owner: SessionRow, found: Iterable[PassagesRow]) -> Iterator[PassagesRow]:
    """Those of a session's or an ancestor's rows that the session sees: an ancestor's may include messages after the
    fork."""
    own = set(fork_turns(chain))
    span = next((span for span in spans(chain) if span.session == owner.number), None)
    for row in found:
        is_inside = span is not None and span.first <= row.turn <= span.last
        is_whole = span is not None and (row.turn < span.last or row.messages <= span.last_position)
        if (is_inside and is_whole) or (owner.number, row.turn) in own:
            yield row


def _intact_rows(connection: Connection, statement: str, values: Values) -> Iterator[PassagesRow]:
    """The rows of LIST or LIST_ALL; damaged ones are dropped."""
    for digest, *stored in connection.execute(statement, values):
        row = PassagesRow(*stored)
        if is_intact(digest, row.turn, row.messages, row.at_us, row.maker, row.marks, row.vectors):
            yield row
        else:
            _drop_damaged(connection, row.id, row.session, row.turn)


def _indexed(connection: Connection, chain: Sequence[SessionRow]) -> IndexedSession:
    """A session, given with its ancestors, with all turns that it sees."""
    session = chain[0]
    epochs = (connection.execute(EPOCH, {"session": row.number}).fetchone()[0] for row in chain)
    return IndexedSession(session.number, session.id, session.created_us, sum(epochs), 1, *session.newest)


def _all_indexed(connection: Connection) -> list[IndexedSession]:
    """All sessions, with the turns that each recorded itself."""
    return [IndexedSession(*values) for values in connection.execute(INDEXED_SESSIONS)]
