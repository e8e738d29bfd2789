"""Erases turns, or a text, everywhere a store has them and what was made from them. Functions of a connection.

`survey` reads what would be erased; `erase_turns` and `erase_text` erase it in one transaction, with a row in
`erasures` that tells who did it and when, never what was said. The turns keep their ids, sizes and times.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from foveate.errors import ErasureOutdated, ForkInUse, InputError, Refused, TurnNotFound
from foveate.store import bodies, cabinet, knowledge, passages, queue
from foveate.store.lineage import BRANCH, chain_of
from foveate.store.log import DROP_BODIES, SENT_OF_READERS, forget_made
from foveate.store.message_keys import erased_key
from foveate.store.redaction import MARK, Redactor
from foveate.store.rows import Draft, SessionRow
from foveate.store.sql import Connection, Values, now_us
from foveate.turn import Json, turn_id

MAX_TURNS = 1_000
"""Turns of one erasure: their numbers are part of its statements."""

ID_BYTES = 8
LIST_FORKS = "SELECT number, id, fork_turn FROM sessions WHERE parent = :number ORDER BY number"
COUNT_MESSAGES = """SELECT count(*), coalesce(sum(length(data)), 0) FROM messages LEFT JOIN bodies ON message = id
    WHERE {where} AND erased_us IS NULL"""
BY_TURN = {
    "renditions": "renditions",
    "passages": "indexed turns",
    "responses": "stored responses",
    "content_turns": "whole tool results",
    "turn_topics": "topics of turns",
}
"""Tables of what was made from a turn, with their names in a report."""
BY_SESSION = {
    "eras": "eras",
    "artefacts": "checkpoints, topics and summaries",
    "plans": "plans",
    "recalled": "memory layers",
    "boards": "boards",
}
"""Tables of what was made from many turns: all rows of the session are removed and made again without the erased."""
TITLES = "titles made from the turns"
LIST_TITLES = """WITH RECURSIVE family (number) AS (SELECT number FROM sessions WHERE number = :session
    OR (tenant = :tenant AND substr(id, 1, CAST(:length AS INTEGER)) = :branch)
    UNION SELECT s.number FROM sessions s JOIN family f ON s.parent = f.number)
    SELECT number, title FROM sessions WHERE number IN (SELECT number FROM family) AND title <> '' ORDER BY number"""
REPLACE_TITLE = "UPDATE sessions SET title = :title WHERE number = :number"
ERASE_MESSAGES = """UPDATE messages SET digest = :nothing, pruned_us = coalesce(pruned_us, :now_us),
    erased_us = coalesce(erased_us, :now_us) WHERE {where}"""
LIST_KEYS = "SELECT key FROM messages WHERE {where} AND key IS NOT NULL"
REPLACE_KEY = "UPDATE messages SET key = :erased WHERE session = :session AND key = :key"
DROP_TAILS = "DELETE FROM answer_tails WHERE {where}"
DROP_LEASES = "DELETE FROM leases WHERE session = :session AND (turn < 1 OR {where})"
CLOSE_TURN = "UPDATE sessions SET head = 'closed' WHERE number = :session AND last_turn = :turn"
WAKE = "UPDATE sessions SET work_us = 0 WHERE number = :session"
REPLACE_MESSAGE = """UPDATE messages SET digest = :digest, size = :size, tokens = :tokens, erased_us = :now_us
    WHERE session = :session AND turn = :turn AND position = :position AND digest = :old"""
REPLACE_BODY = """UPDATE bodies SET data = :data WHERE message = (SELECT id FROM messages
    WHERE session = :session AND turn = :turn AND position = :position)"""
LIST_PINS = "SELECT number, text, removed_us IS NOT NULL FROM pins WHERE session = :session AND text <> ''"
ERASE_PIN = """UPDATE pins SET text = '', locked = 0, removed_us = coalesce(removed_us, :now_us)
    WHERE session = :session AND number = :number"""
_FOUNDED = """SELECT DISTINCT s.id, k.kind FROM knowledge_sources s JOIN knowledge k
    ON k.tenant = s.tenant AND k.id = s.id AND k.version = s.version WHERE s.tenant = :tenant AND {where}"""
IS_PERSONS = f"""SELECT 1 FROM knowledge WHERE tenant = :tenant AND id = :id
    AND (maker = '{knowledge.PERSON}' OR state = 'pinned')"""  # noqa: S608 - a constant
DROP_ITEM = tuple(
    f"DELETE FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608
    for table in ("knowledge_uses", "knowledge_sources", "knowledge")
)
END_RUNS = (
    """DELETE FROM learn_steps WHERE run IN (SELECT id FROM learn_runs WHERE tenant = :tenant)""",
    """UPDATE learn_runs SET state = 'failed', owner = '', until_us = 0, ended_us = :now_us
    WHERE tenant = :tenant AND state = 'running'""",
    # What these have learned is the start of the next one.
    f"""DELETE FROM learn_runs WHERE tenant = :tenant AND state = 'done'
    AND substr(prompt_version, 1, {len(knowledge.QUICK)}) = '{knowledge.QUICK}'""",  # noqa: S608
)
LIST_REPORTS = "SELECT id, report FROM learn_runs WHERE tenant = :tenant AND report <> ''"
REPLACE_REPORT = "UPDATE learn_runs SET report = :report WHERE id = :id"
RUNNING_AGENT = "SELECT id FROM agents WHERE session = :session AND ended_us IS NULL"
ERASE_AGENT = """UPDATE agents SET task = :mark, result = CASE WHEN result IS NULL THEN NULL ELSE :mark END,
    problem = CASE WHEN problem IS NULL THEN NULL ELSE :mark END WHERE session = :session"""
ADD_ERASURE = """INSERT INTO erasures (id, tenant, session_id, kind, turns, actor, counts, at_us)
    VALUES (:id, :tenant, :session_id, :kind, :turns, :actor, :counts, :now_us)"""
LIST_ERASURES = """SELECT id, session_id, kind, turns, actor, counts, at_us, swept_us FROM erasures
    WHERE (:session_id IS NULL OR session_id = :session_id) AND (:tenant IS NULL OR tenant = :tenant)
    ORDER BY at_us, id"""
NOTE_SWEPT = "UPDATE erasures SET swept_us = :now_us WHERE swept_us IS NULL AND at_us <= :last_us"
# Texts of users, of agents and of runs, by table: the columns that may contain a text, and those that name a row.
TEXTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "sessions": (("title",), ("number",), "number = :session"),
    "documents": (("text",), ("session", "name"), "session = :session"),
    "agents": (
        ("task", "spec", "result", "problem", "decision"),
        ("id",),
        "session = :session OR parent_session = :session",
    ),
}
JSON_COLUMNS = ("spec", "decision", "report")
OF_TENANT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "learn_runs": (("report",), ("id",), "tenant = :tenant"),
}
KNOWLEDGE = """SELECT id, version, scope, kind, title, text, data, reason FROM knowledge WHERE tenant = :tenant"""
REPLACE_ITEM = """UPDATE knowledge SET title = :title, text = :text, data = :data, reason = :reason, digest = :digest,
    created_us = :now_us WHERE tenant = :tenant AND id = :id AND version = :version"""
LIST_CONTENTS = """SELECT DISTINCT t.digest, b.is_packed, b.data FROM content_turns t
    JOIN contents b ON b.tenant = t.tenant AND b.digest = t.digest WHERE t.session = :session
    UNION SELECT c.digest, b.is_packed, b.data FROM cabinet c
    JOIN contents b ON b.tenant = c.tenant AND b.digest = c.digest WHERE c.session = :session"""
DROP_CONTENT = tuple(
    f"DELETE FROM {table} WHERE tenant = :tenant AND digest = :digest"  # noqa: S608
    for table in ("content_turns", "cabinet", "contents")
)
LIST_NAMES = "SELECT key, name, source FROM cabinet WHERE session = :session"
RENAME = "UPDATE cabinet SET name = :name, source = :source WHERE tenant = :tenant AND key = :key"
LIST_RESPONSES = "SELECT id, data FROM responses WHERE session = :session"
SENT = "requests as they were sent"
SENT_ELSEWHERE = "requests as they were sent, of forks and of sessions that may have recalled it"
LIST_SENT = "SELECT data FROM sent_requests WHERE session = :session"
SENT_WITH_TEXT = "requests as they were sent that have the text"
LIST_BOARDS = "SELECT data FROM boards WHERE session = :session"
DROP_BOARDS = "DELETE FROM boards WHERE session = :session"
LIST_GOALS = "SELECT number, data FROM goals WHERE session = :session"
REPLACE_GOAL = "UPDATE goals SET data = :data WHERE session = :session AND number = :number"
KEYS = "keys of messages"
BOARDS = "boards with the text"
NAMES = "goals, documents, titles, tasks and names"
DROP_RESPONSE = "DELETE FROM responses WHERE tenant = :tenant AND id = :id"

ErasureKind = Literal["turns", "text"]


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """One erasure in the audit."""

    id: str
    session_id: str
    kind: ErasureKind
    turns: str
    actor: str
    counts: str
    at_us: int
    swept_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """A message without the erased text."""

    turn: int
    position: int
    old_digest: bytes
    draft: Draft


@dataclass(frozen=True, slots=True)
class QuotingPin:
    session_id: str
    number: int
    text: str
    is_removed: bool


@dataclass(frozen=True, slots=True)
class ErasureSurvey:
    """What an erasure reaches: counts by what they count, the forks that read the turns, and all pins of these
    sessions, removed ones included."""

    counts: Mapping[str, int]
    forks: tuple[str, ...]
    pins: tuple[QuotingPin, ...]
    titles: tuple[str, ...] = ()
    """Titles of the session, of its forks, children and branches."""
    kept_items: tuple[str, ...] = ()
    """Knowledge that cites the turns and that a person wrote, reviewed or pinned."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The turns of one session's rows: its own, or in a fork those that it shares."""

    number: int
    id: str
    turns: tuple[int, ...]

    @property
    def where(self) -> str:
        listed = ", ".join(map(str, self.turns)) or "NULL"
        return f"session = :session AND turn IN ({listed})"


@dataclass(slots=True)
class _Erasing:
    connection: Connection
    session: SessionRow
    reach: list[_Reach]
    now_us: int = field(default_factory=now_us)

    def values(self, reach: _Reach) -> dict[str, Any]:
        return {"session": reach.number, "tenant": self.session.tenant, "now_us": self.now_us}


def survey(
    connection: Connection, session_id: str, turns: Sequence[int], *, redactor: Redactor | None = None
) -> ErasureSurvey:
    """Count what the erasure of these turns, or of a text in them, would remove."""
    work = _begin(connection, session_id, turns)
    counts = Counter(_counts(work, is_text=redactor is not None))
    if redactor is not None:
        for change in _changes(work, redactor):
            counts[change.what] += 1
        return ErasureSurvey(counts, _forks(work), tuple(_pins(work)))
    items = _founded(work)
    counts["knowledge items"] += sum(not is_kept for _, is_kept in items)
    titles = tuple(title for _, title in _titles(work))
    kept = tuple(item for item, is_kept in items if is_kept)
    return ErasureSurvey(counts, _forks(work), tuple(_pins(work)), titles, kept)


def erase_turns(
    connection: Connection,
    session_id: str,
    turns: Sequence[int],
    *,
    forks: Sequence[str] | None,
    pins: Collection[tuple[str, int]],
    titles: Mapping[str, str],
    actor: str,
) -> ErasureRow:
    """Erase turns, and `pins`, each a session and a number; replace `titles`, which were made from the turns.

    `forks` are the forks that may lose the turns and are locked; None: raise `ForkInUse` if any fork reads them.
    """
    work = _begin(connection, session_id, turns)
    _refuse(work, forks)
    counts = _counts(work, is_text=False)
    items = [item for item, is_kept in _founded(work) if not is_kept]
    counts["knowledge items"] = len(items)
    counts[TITLES] = _replace_titles(work, titles)
    counts["pins"] = _erase_pins(work, lambda pin: (pin.session_id, pin.number) in pins, is_asked=True)
    for reach in work.reach:
        values = work.values(reach)
        _forget_made(work, reach)
        cabinet.release(connection, reach.where, values)
        knowledge.forget(connection, reach.where, values)
        for statement in (DROP_BODIES, DROP_TAILS):
            connection.execute(statement.format(where=reach.where), values)
        connection.execute(ERASE_MESSAGES.format(where=reach.where), {**values, "nothing": b""})
        for (key,) in connection.execute(LIST_KEYS.format(where=reach.where), values).fetchall():
            connection.execute(REPLACE_KEY, {**values, "key": key, "erased": erased_key(key)})
        connection.execute(ERASE_AGENT, {**values, "mark": MARK})
    own = work.values(work.reach[0])
    connection.execute(CLOSE_TURN, {**own, "turn": max(turns)})
    connection.heads.clear()
    for item in items:
        for statement in DROP_ITEM:
            connection.execute(statement, {**own, "id": item})
    _end_runs(work)
    return _note(work, "turns", sorted(turns), actor, counts)


def erase_text(
    connection: Connection,
    session_id: str,
    redactions: Sequence[Redaction],
    *,
    redactor: Redactor,
    seen: tuple[int, int],
    forks: Sequence[str] | None,
    pins: bool,
    actor: str,
) -> ErasureRow:
    """Replace a text in the messages of a session and in what users wrote, and remove what was made from the messages.

    Raise `ErasureOutdated` if messages were added since the session's head was `seen`.
    """
    turns = sorted({redaction.turn for redaction in redactions})
    work = _begin(connection, session_id, turns)
    if (work.session.last_turn, work.session.last_position) != seen:
        raise ErasureOutdated(session_id)
    _refuse(work, forks)
    counts: Counter[str] = Counter(_counts(work, is_text=True))
    counts["messages"] = len(redactions)
    counts["pins"] = _erase_pins(work, lambda pin: redactor.is_in(pin.text), is_asked=pins)
    for redaction in redactions:
        _replace(work, redaction)
    for change in list(_changes(work, redactor)):
        counts[change.what] += 1
        for statement in change.statements:
            connection.execute(statement, change.values)
    for reach in work.reach:
        values = work.values(reach)
        _forget_made(work, reach)
        connection.execute(DROP_TAILS.format(where=reach.where), values)
        if reach.turns:
            connection.execute(queue.LOWER_SETTLED, {**values, "settled": min(reach.turns) - 1})
            passages.want_turns(connection, reach.number, max(reach.turns))
    _end_runs(work)
    return _note(work, "text", turns, actor, counts)


def erasures(connection: Connection, *, session_id: str | None = None, tenant: str | None = None) -> list[ErasureRow]:
    """List the audit rows of a session, or of all sessions of a tenant, the oldest first."""
    return [ErasureRow(*row) for row in connection.execute(LIST_ERASURES, {"session_id": session_id, "tenant": tenant})]


def note_swept(connection: Connection, last_us: int) -> None:
    """Record that what the erasures up to a time removed is overwritten."""
    connection.execute(NOTE_SWEPT, {"last_us": last_us, "now_us": now_us()})


def _begin(connection: Connection, session_id: str, turns: Sequence[int]) -> _Erasing:
    chain = chain_of(connection, session_id)
    session = chain[0]
    if len(set(turns)) > MAX_TURNS:
        raise InputError(f"{len(set(turns)):,} turns at once are too many; at most {MAX_TURNS:,}")
    for turn in sorted(set(turns)):
        if not 1 <= turn <= session.last_turn:
            raise TurnNotFound(session_id, turn_id(turn), session.last_turn)
        if turn <= session.fork_turn:
            owner = next(row for row in chain if turn > row.fork_turn)
            raise InputError(
                f"{turn_id(turn)} belongs to session {owner.id!r}, which {session_id!r} was forked from; "
                f"erase it there, with its forks"
            )
    own = _Reach(session.number, session.id, tuple(sorted(set(turns))))
    return _Erasing(connection, session, [own, *_shared(connection, own)])


def _shared(connection: Connection, parent: _Reach) -> Iterator[_Reach]:
    """Yield the forks that read some of a session's turns, and theirs."""
    for number, session_id, fork_turn in connection.execute(LIST_FORKS, {"number": parent.number}).fetchall():
        seen = tuple(turn for turn in parent.turns if turn <= fork_turn)
        if seen:
            fork = _Reach(number, session_id, seen)
            yield fork
            yield from _shared(connection, fork)


def _forks(work: _Erasing) -> tuple[str, ...]:
    return tuple(reach.id for reach in work.reach[1:])


def _refuse(work: _Erasing, forks: Sequence[str] | None) -> None:
    if len(work.reach) > 1 and forks is None:
        raise ForkInUse(work.session.id, _forks(work))
    if not {*_forks(work)} <= {*(forks or ())}:
        raise ErasureOutdated(work.session.id)  # a fork was made since, and is not locked
    running = work.connection.execute(RUNNING_AGENT, work.values(work.reach[0])).fetchone()
    if running is not None:
        raise Refused(f"the agent {running[0]} still works in session {work.session.id!r}; wait for it, or cancel it")


def _counts(work: _Erasing, *, is_text: bool) -> dict[str, int]:
    """Count rows by what they are."""
    found: Counter[str] = Counter()
    for reach in work.reach:
        values = work.values(reach)
        messages, size = work.connection.execute(COUNT_MESSAGES.format(where=reach.where), values).fetchone()
        found["messages"] += messages
        found["stored bytes"] += size
        for table, name in BY_TURN.items():
            if not is_text or table in ("renditions", "passages"):
                found[name] += _count(work, table, reach.where, values)
        for table, name in BY_SESSION.items():
            if reach.turns:
                found[name] += _count(work, table, "session = :session", values)
    own = work.values(work.reach[0])
    if work.reach[0].turns:
        found[SENT] = _count(work, "sent_requests", f"session = :session AND {SENT_OF_READERS}", own)
        found[SENT_ELSEWHERE] = _count(work, "sent_requests", SENT_OF_READERS, own) - found[SENT]
    return dict(found)


def _count(work: _Erasing, table: str, where: str, values: Values) -> int:
    (count,) = work.connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", values).fetchone()  # noqa: S608
    return int(count)


def _forget_made(work: _Erasing, reach: _Reach) -> None:
    """Remove what was made from the turns, and the leases of who is making it: late results are rejected."""
    values = work.values(reach)
    passages.forget(work.connection, reach.where, values)
    for statement in (*forget_made(reach.where), DROP_LEASES.format(where=reach.where), WAKE):
        work.connection.execute(statement, values)


def _pins(work: _Erasing) -> Iterator[QuotingPin]:
    for reach in work.reach:
        for number, text, is_removed in work.connection.execute(LIST_PINS, work.values(reach)).fetchall():
            yield QuotingPin(reach.id, number, text, bool(is_removed))


def _erase_pins(work: _Erasing, quotes: Callable[[QuotingPin], bool], *, is_asked: bool) -> int:
    """Erase the texts of pins that quote what is erased: of removed ones always, of others if asked."""
    numbers = {reach.id: reach.number for reach in work.reach}
    quoting = [pin for pin in _pins(work) if (pin.is_removed or is_asked) and quotes(pin)]
    for pin in quoting:
        values = {"session": numbers[pin.session_id], "number": pin.number, "now_us": work.now_us}
        work.connection.execute(ERASE_PIN, values)
    return len(quoting)


def _titles(work: _Erasing) -> list[tuple[int, str]]:
    """List the titles that may be made from the session's turns: its own, and copies in sessions made from it."""
    branch = f"{work.session.id}{BRANCH}"
    values = {**work.values(work.reach[0]), "branch": branch, "length": len(branch)}
    return [(number, title) for number, title in work.connection.execute(LIST_TITLES, values).fetchall()]


def _replace_titles(work: _Erasing, titles: Mapping[str, str]) -> int:
    found = [(number, titles[title]) for number, title in _titles(work) if title in titles]
    for number, title in found:
        work.connection.execute(REPLACE_TITLE, {"number": number, "title": title})
    return len(found)


def _founded(work: _Erasing) -> list[tuple[str, bool]]:
    """List the items that were learned from the turns, and whether a person decided on them.

    A topic is a label of many turns: it goes only if it has no others, as after a prune.
    """
    found: dict[str, bool] = {}
    for reach in work.reach:
        values = work.values(reach)
        where = reach.where.replace("session =", "s.session =").replace("turn IN", "s.turn IN")
        for item, kind in work.connection.execute(_FOUNDED.format(where=where), values).fetchall():
            if kind != "topic":
                decided = work.connection.execute(IS_PERSONS, {**values, "id": item}).fetchone()
                found[item] = decided is not None
    return sorted(found.items())


def _end_runs(work: _Erasing) -> None:
    """End the tenant's learning runs, which may have read the turns; their results are rejected. Reports of earlier
    runs keep their counts, without the texts that were rejected or changed."""
    own = work.values(work.reach[0])
    for statement in END_RUNS:
        work.connection.execute(statement, own)
    for run, report in work.connection.execute(LIST_REPORTS, own).fetchall():
        work.connection.execute(REPLACE_REPORT, {"id": run, "report": json.dumps(_without_texts(json.loads(report)))})


def _without_texts(value: Json) -> Json:
    """Remove the items with a text from the lists of a report."""
    if isinstance(value, list):
        return [_without_texts(item) for item in value if not (isinstance(item, dict) and "text" in item)]
    return {name: _without_texts(item) for name, item in value.items()} if isinstance(value, dict) else value


def _replace(work: _Erasing, redaction: Redaction) -> None:
    draft = redaction.draft
    values = {
        **work.values(work.reach[0]),
        "turn": redaction.turn,
        "position": redaction.position,
        "old": redaction.old_digest,
        "digest": draft.digest,
        "size": draft.size,
        "tokens": draft.tokens,
        "data": draft.body,
    }
    if work.connection.execute(REPLACE_MESSAGE, values).rowcount != 1:
        raise ErasureOutdated(work.session.id)
    work.connection.execute(REPLACE_BODY, values)


@dataclass(frozen=True, slots=True)
class _Change:
    """The removal of a text from one row that is not a message."""

    what: str
    statements: Sequence[str]
    values: Values


def _changes(work: _Erasing, redactor: Redactor) -> Iterator[_Change]:
    """Find a text in what is stored besides messages."""
    for reach in work.reach:
        values = work.values(reach)
        yield from _responses(work, values, redactor)
        yield from _contents(work, values, redactor)
        yield from _texts(work, TEXTS, values, redactor)
        yield from _goals(work, values, redactor)
        for (data,) in work.connection.execute(LIST_BOARDS, values).fetchall():
            if redactor.is_in(bodies.expand_bytes(data)):
                yield _Change(BOARDS, (DROP_BOARDS,), values)
        for (data,) in work.connection.execute(LIST_SENT, values).fetchall():
            if redactor.is_in(bodies.expand_bytes(data)):
                yield _Change(SENT_WITH_TEXT, (), values)  # all of the session's are removed
    own = work.values(work.reach[0])
    for (key,) in work.connection.execute(LIST_KEYS.format(where="session = :session"), own).fetchall():
        if redactor.is_in(key):
            yield _Change(KEYS, (REPLACE_KEY,), {**own, "key": key, "erased": erased_key(key)})
    yield from _texts(work, OF_TENANT, own, redactor)
    yield from _items(work, own, redactor)


def _responses(work: _Erasing, values: Values, redactor: Redactor) -> Iterator[_Change]:
    for row, data in work.connection.execute(LIST_RESPONSES, values).fetchall():
        if redactor.is_in(bodies.expand_bytes(data)):
            yield _Change("stored responses", (DROP_RESPONSE,), {**values, "id": row})


def _contents(work: _Erasing, values: Values, redactor: Redactor) -> Iterator[_Change]:
    """Remove the contents of the file cabinet that contain the text, and the text from their names."""
    for digest, is_packed, data in work.connection.execute(LIST_CONTENTS, values).fetchall():
        if redactor.is_in(bodies.expand_bytes(data) if is_packed else data):
            yield _Change("whole tool results", DROP_CONTENT, {**values, "digest": digest})
    for key, name, source in work.connection.execute(LIST_NAMES, values).fetchall():
        if redactor.is_in(name) or redactor.is_in(source):
            renamed = {"key": key, "name": redactor.text(name), "source": redactor.text(source)}
            yield _Change(NAMES, (RENAME,), {**values, **renamed})


def _texts(
    work: _Erasing,
    tables: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]],
    values: Values,
    redactor: Redactor,
) -> Iterator[_Change]:
    """Replace the text in columns of text."""
    for table, (columns, keys, where) in tables.items():
        select = f"SELECT {', '.join((*keys, *columns))} FROM {table} WHERE {where}"  # noqa: S608
        assigned = ", ".join(f"{name} = :{name}" for name in columns)
        update = f"UPDATE {table} SET {assigned} WHERE {' AND '.join(f'{key} = :{key}' for key in keys)}"  # noqa: S608
        for row in work.connection.execute(select, values).fetchall():
            named = dict(zip((*keys, *columns), row, strict=True))
            if any(redactor.is_in(named[name]) for name in columns):
                replaced = {name: redactor.json_text if name in JSON_COLUMNS else redactor.text for name in columns}
                texts = {name: named[name] and replaced[name](named[name]) for name in columns}
                yield _Change(NAMES, (update,), {**named, **texts})


def _goals(work: _Erasing, values: Values, redactor: Redactor) -> Iterator[_Change]:
    for number, data in work.connection.execute(LIST_GOALS, values).fetchall():
        value = bodies.expand(data)
        redacted = redactor.value(value)
        if redacted != value:
            yield _Change(NAMES, (REPLACE_GOAL,), {**values, "number": number, "data": bodies.squeeze(redacted)})


def _items(work: _Erasing, values: Values, redactor: Redactor) -> Iterator[_Change]:
    """Replace the text in knowledge, whoever wrote it."""
    for item, version, scope, kind, *texts in work.connection.execute(KNOWLEDGE, values).fetchall():
        if any(map(redactor.is_in, texts)):
            title, text, reason = (redactor.text(texts[place]) for place in (0, 1, 3))
            data = redactor.json_text(texts[2])
            digest = bodies.digest_of(scope, kind, title, text, data)
            new = {"title": title, "text": text, "data": data, "reason": reason, "digest": digest}
            yield _Change("knowledge items", (REPLACE_ITEM,), {**values, **new, "id": item, "version": version})


def _note(work: _Erasing, kind: ErasureKind, turns: Sequence[int], actor: str, counts: Mapping[str, int]) -> ErasureRow:
    listed = " ".join(map(turn_id, turns))
    shown = json.dumps({name: count for name, count in counts.items() if count})
    row_id = f"e-{secrets.token_hex(ID_BYTES)}"
    values = {
        **work.values(work.reach[0]),
        "id": row_id,
        "session_id": work.session.id,
        "kind": kind,
        "turns": listed,
        "actor": actor,
        "counts": shown,
        "now_us": now_us(),  # not before what is read while it is erased
    }
    work.connection.execute(ADD_ERASURE, values)
    return ErasureRow(row_id, work.session.id, kind, listed, actor, shown, values["now_us"], None)
