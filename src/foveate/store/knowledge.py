"""Knowledge: items by scope with their versions, topics of turns, and the runs that learn. Functions of a connection.

Items are immutable: a change is a new version, and the old one records its replacement and the reason. A run stores the
result of each step, and commits all changes in one transaction at its end.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foveate.errors import RunInProgress, RunLost
from foveate.store import leases
from foveate.store.bodies import digest_of, is_intact
from foveate.store.lineage import chain_of, number_of, select_spans
from foveate.store.sql import Connection, Values, now_us

KnowledgeKind = Literal["topic", "profile", "lesson", "reference", "recommendation"]
KNOWLEDGE_KINDS: tuple[KnowledgeKind, ...] = ("topic", "profile", "lesson", "reference", "recommendation")
KnowledgeState = Literal["proposed", "approved", "pinned", "retired"]
"""`pinned`: approved, and protected from changes by runs."""
KNOWLEDGE_STATES: tuple[KnowledgeState, ...] = ("proposed", "approved", "pinned", "retired")
PERSON = "person"
"""The maker of versions that a person wrote or reviewed."""
RunState = Literal["running", "done", "failed", "replaced"]
"""`replaced`: its input changed before it ended, and a later run started over."""
CHUNK_STEP = "chunk-"
"""Prefix of steps whose results depend only on their names, which are hashes of their input. A run whose input has
changed reuses them."""
QUICK = "quick "
"""Prefix of the version of runs that read new turns alone; only the last one of a scope is kept."""
_DETAILS = (
    "topics", "keywords", "technologies", "weight", "confidence", "area", "form", "times_said", "said_on", "contradicts"
)  # fmt: skip
_COLUMNS = """k.tenant, k.id, k.version, k.scope, k.kind, k.state, k.title, k.text, k.data, k.maker, k.prompt_version,
    k.first_seen_us, k.last_seen_us, k.created_us, k.superseded_by, k.reason, k.digest,
    coalesce(u.uses, 0), coalesce(u.helped, 0), u.last_used_us"""
_FROM = "FROM knowledge k LEFT JOIN knowledge_uses u ON u.tenant = k.tenant AND u.id = k.id"
LIST = f"""SELECT {_COLUMNS} {_FROM} WHERE k.superseded_by = '' AND (:tenant IS NULL OR k.tenant = :tenant)
    AND (:scope IS NULL OR k.scope = :scope) AND (:kind IS NULL OR k.kind = :kind)
    ORDER BY k.tenant, k.scope, k.kind, k.id"""
REPLACED = """SELECT k.id, k.superseded_by FROM knowledge k WHERE k.tenant = :tenant AND k.scope = :scope
    AND k.superseded_by <> '' AND NOT EXISTS (SELECT 1 FROM knowledge n WHERE n.tenant = k.tenant AND n.id = k.id
    AND n.version > k.version) ORDER BY k.id"""
MARK = """SELECT count(*), coalesce(sum(version), 0), coalesce(max(created_us), 0) FROM knowledge
    WHERE tenant = :tenant AND scope = :scope AND superseded_by = ''"""
VERSIONS = f"""SELECT {_COLUMNS} {_FROM} WHERE k.id = :id AND (:tenant IS NULL OR k.tenant = :tenant)
    ORDER BY k.tenant, k.version"""
NEXT_VERSION = "SELECT coalesce(max(version), 0) + 1 FROM knowledge WHERE tenant = :tenant AND id = :id"
ADD = """INSERT INTO knowledge (tenant, id, version, scope, kind, state, title, text, data, maker, prompt_version,
    first_seen_us, last_seen_us, created_us, superseded_by, reason, digest)
    VALUES (:tenant, :id, :version, :scope, :kind, :state, :title, :text, :data, :maker, :prompt_version,
    :first_seen_us, :last_seen_us, :now_us, '', '', :digest)"""
SUPERSEDE = """UPDATE knowledge SET superseded_by = :by, reason = :reason
    WHERE tenant = :tenant AND id = :id AND superseded_by = '' AND version < :below"""
ADD_SOURCE = """INSERT INTO knowledge_sources (tenant, id, version, session, turn)
    SELECT :tenant, :id, :version, number, :turn FROM sessions WHERE id = :session_id
    ON CONFLICT (tenant, id, version, session, turn) DO NOTHING"""
SOURCES = """SELECT s.id, k.turn FROM knowledge_sources k JOIN sessions s ON s.number = k.session
    WHERE k.tenant = :tenant AND k.id = :id AND k.version = :version ORDER BY s.id, k.turn"""
DECIDED = f"""SELECT id FROM knowledge WHERE tenant = :tenant AND superseded_by = ''
    AND (maker = '{PERSON}' OR state = 'pinned')"""  # noqa: S608
COUNT_USE = """INSERT INTO knowledge_uses (tenant, id, uses, helped, last_used_us)
    VALUES (:tenant, :id, :used, :helped, :now_us) ON CONFLICT (tenant, id) DO UPDATE SET
    uses = knowledge_uses.uses + :used, helped = knowledge_uses.helped + :helped, last_used_us = :now_us"""
# Other scopes of the same session have topics of their own.
DROP_TOPICS = """DELETE FROM turn_topics WHERE session = :session AND NOT EXISTS (SELECT 1 FROM knowledge k
    WHERE k.tenant = :tenant AND k.id = turn_topics.topic AND k.scope <> :scope)"""
ADD_TOPIC = """INSERT INTO turn_topics (session, turn, topic, weight) VALUES (:session, :turn, :topic, :weight)
    ON CONFLICT (session, turn, topic) DO UPDATE SET weight = :weight"""
TURN_TOPICS = """SELECT turn, topic, weight FROM turn_topics WHERE session = :session AND turn BETWEEN :first AND :last
    ORDER BY turn, weight DESC, topic"""
_RUN = "id, tenant, scope, watermark, prompt_version, state, owner, until_us, started_us, ended_us, report"
OPEN_RUNS = f"""SELECT {_RUN} FROM learn_runs WHERE tenant = :tenant AND scope = :scope AND state = 'running'
    ORDER BY started_us, id"""  # noqa: S608
GET_RUN = f"SELECT {_RUN} FROM learn_runs WHERE id = :id"  # noqa: S608
LIST_RUNS = f"""SELECT {_RUN} FROM learn_runs WHERE (:tenant IS NULL OR tenant = :tenant)
    AND (:scope IS NULL OR scope = :scope) AND (:version IS NULL OR prompt_version = :version)
    AND (:state IS NULL OR state = :state) ORDER BY started_us DESC, id LIMIT :limit"""  # noqa: S608
ADD_RUN = """INSERT INTO learn_runs (id, tenant, scope, watermark, prompt_version, state, owner, until_us, started_us,
    ended_us, report) VALUES (:id, :tenant, :scope, :watermark, :prompt_version, 'running', :owner, :until_us, :now_us,
    NULL, '')"""
TAKE_RUN = "UPDATE learn_runs SET owner = :owner, until_us = :until_us WHERE id = :id"
END_RUN = """UPDATE learn_runs SET state = :state, owner = '', until_us = 0, ended_us = :now_us, report = :report
    WHERE id = :id"""
HOLDS_RUN = "SELECT 1 FROM learn_runs WHERE id = :id AND owner = :owner AND state = 'running'"
KEEP_STEP = """INSERT INTO learn_steps (run, name, data, digest) VALUES (:id, :name, :data, :digest)
    ON CONFLICT (run, name) DO UPDATE SET data = :data, digest = :digest"""
STEPS = "SELECT name, data, digest FROM learn_steps WHERE run = :id ORDER BY name"
DROP_STEPS = "DELETE FROM learn_steps WHERE run = :id"
MOVE_STEPS = f"""UPDATE learn_steps SET run = :id
    WHERE run = :replaced AND substr(name, 1, {len(CHUNK_STEP)}) = '{CHUNK_STEP}'"""  # noqa: S608
DROP_QUICK = """DELETE FROM learn_runs WHERE tenant = :tenant AND scope = :scope AND prompt_version = :version
    AND state = 'done' AND id <> :id"""
NEWEST_START = "SELECT max(started_us) FROM learn_runs WHERE tenant = :tenant AND scope = :scope"
_SOURCES_GONE = """SELECT DISTINCT tenant, id FROM knowledge_sources WHERE {where}"""
_FORGET_SOURCES = "DELETE FROM knowledge_sources WHERE {where}"
_FORGET_TOPICS = "DELETE FROM turn_topics WHERE {where}"
_UNFOUNDED = f"""tenant = :tenant AND id = :id AND NOT EXISTS (SELECT 1 FROM knowledge_sources s
    WHERE s.tenant = :tenant AND s.id = :id) AND NOT EXISTS (SELECT 1 FROM knowledge p
    WHERE p.tenant = :tenant AND p.id = :id AND p.maker = '{PERSON}')"""  # noqa: S608
_FORGET_UNFOUNDED = (
    f"DELETE FROM knowledge_uses WHERE {_UNFOUNDED}",  # noqa: S608
    f"DELETE FROM knowledge WHERE {_UNFOUNDED}",  # noqa: S608
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class KnowledgeSource:
    """A turn that an item was learned from."""

    session_id: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKnowledge:
    """A version of an item to add. If the item exists, this becomes its newest version."""

    id: str
    """Stable across versions."""
    scope: str
    kind: KnowledgeKind
    state: KnowledgeState
    title: str
    text: str
    topics: tuple[str, ...] = ()
    """Ids of topics."""
    keywords: tuple[tuple[str, float], ...] = ()
    """Words with their weights, the heaviest first."""
    technologies: tuple[str, ...] = ()
    weight: float = 0.5
    """Importance from 0 to 1. Reduced while it is not used."""
    confidence: float = 0.5
    """Confidence of its maker, from 0 to 1."""
    sources: tuple[KnowledgeSource, ...] = ()
    maker: str
    """`local` for rules, `person`, or the name of a model."""
    prompt_version: str = ""
    first_seen_us: int
    last_seen_us: int
    """Time of its newest source turn; `first_seen_us` is that of the oldest."""
    reason: str = ""
    """Why it replaces the previous version."""
    area: str = ""
    """The project area of a topic: the title of the heaviest topic of its group."""
    form: str = ""
    """What a statement of the person is: a rule, preference, convention, decision or fact; empty for other items."""
    times_said: int = 0
    said_on: tuple[str, ...] = ()
    """The newest days on which it was said."""
    contradicts: tuple[str, ...] = ()
    """Texts of statements of the same day that say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeRow(NewKnowledge):
    """A stored version of an item. Its `reason` is why it was replaced, empty while it is current."""

    tenant: str
    version: int
    created_us: int
    superseded_by: str
    """`ID@VERSION` of the version, or the id of the item, that replaced it; empty while it is current."""
    uses: int
    """Number of contexts that showed the item."""
    helped: int
    """Number of answers that used it."""
    last_used_us: int | None


@dataclass(frozen=True, slots=True)
class KnowledgeMark:
    """A fingerprint of the current items of some scopes, which changes when one is added, replaced or removed."""

    count: int
    versions: int
    """The sum of their version numbers."""
    newest_us: int


@dataclass(frozen=True, slots=True)
class Supersession:
    """An item and its replacement, e.g. when two are merged."""

    id: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class TurnTopicRow:
    """A topic of a turn."""

    turn: int
    topic: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChanges:
    """All changes of a run, stored together or not at all."""

    items: tuple[NewKnowledge, ...] = ()
    superseded: tuple[Supersession, ...] = ()
    turn_topics: tuple[tuple[str, TurnTopicRow], ...] = ()
    """Sessions with topics of their turns."""
    topic_sessions: tuple[str, ...] = ()
    """Sessions whose turn topics are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to start, or to resume if one with the same input was interrupted."""

    id: str
    tenant: str
    scope: str
    watermark: str
    """A hash of the run's whole input."""
    prompt_version: str
    owner: str
    """A unique name of this attempt."""
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as stored."""

    id: str
    tenant: str
    scope: str
    watermark: str
    prompt_version: str
    state: RunState
    owner: str
    until_us: int
    started_us: int
    ended_us: int | None
    report: str
    """Its results, as JSON; empty until it ends."""


def add(connection: Connection, tenant: str, items: Iterable[NewKnowledge]) -> list[KnowledgeRow]:
    """Add versions of items, superseding the current ones."""
    return [_add(connection, tenant, item) for item in items]


def _add(connection: Connection, tenant: str, item: NewKnowledge) -> KnowledgeRow:
    (version,) = connection.execute(NEXT_VERSION, {"tenant": tenant, "id": item.id}).fetchone()
    data = json.dumps({name: getattr(item, name) for name in _DETAILS}, ensure_ascii=False)
    values: dict[str, Any] = {
        "tenant": tenant,
        "version": version,
        "data": data,
        "now_us": now_us(),
        "digest": digest_of(item.scope, item.kind, item.title, item.text, data),
        **{name: getattr(item, name) for name in ("id", "scope", "kind", "state", "title", "text", "maker")},
        **{name: getattr(item, name) for name in ("prompt_version", "first_seen_us", "last_seen_us")},
    }
    connection.execute(ADD, values)
    by = {"by": f"{item.id}@{version}", "reason": item.reason, "below": version}
    connection.execute(SUPERSEDE, {"tenant": tenant, "id": item.id, **by})
    sources = [{**values, "session_id": source.session_id, "turn": source.turn} for source in item.sources]
    connection.executemany(ADD_SOURCE, sources)
    return versions(connection, tenant, item.id)[-1]


def supersede(connection: Connection, tenant: str, merged: Iterable[Supersession]) -> None:
    """Mark items as replaced by others."""
    for each in merged:
        values = {"tenant": tenant, "id": each.id, "by": each.by, "reason": each.reason, "below": 1 << 62}
        connection.execute(SUPERSEDE, values)


def list_items(
    connection: Connection,
    tenant: str | None,
    *,
    scopes: Sequence[str] | None = None,
    kind: KnowledgeKind | None = None,
) -> list[KnowledgeRow]:
    """List the current items, optionally of these scopes, ordered by scope, kind and id."""
    wanted = [None] if scopes is None else sorted(set(scopes))
    found: list[KnowledgeRow] = []
    for scope in wanted:
        found += _select(connection, LIST, {"tenant": tenant, "scope": scope, "kind": kind})
    return found


def replaced(connection: Connection, tenant: str, scope: str) -> dict[str, str]:
    """Return the ids of items that others replaced, each with what replaced it."""
    return dict(connection.execute(REPLACED, {"tenant": tenant, "scope": scope}).fetchall())


def mark(connection: Connection, tenant: str, scopes: Sequence[str]) -> KnowledgeMark:
    """Return a fingerprint that changes with the current items of these scopes."""
    found = [connection.execute(MARK, {"tenant": tenant, "scope": scope}).fetchone() for scope in sorted(set(scopes))]
    return KnowledgeMark(
        sum(int(row[0]) for row in found),
        sum(int(row[1]) for row in found),
        max((int(row[2]) for row in found), default=0),
    )


def versions(connection: Connection, tenant: str | None, item_id: str) -> list[KnowledgeRow]:
    """List all versions of an item, the oldest first; empty if it does not exist."""
    return _select(connection, VERSIONS, {"tenant": tenant, "id": item_id})


def count_uses(connection: Connection, tenant: str, item_ids: Sequence[str], *, used: int = 0, helped: int = 0) -> None:
    """Add to the counts of items shown, and of answers that used them."""
    values = {"tenant": tenant, "used": used, "helped": helped, "now_us": now_us()}
    connection.executemany(COUNT_USE, [{**values, "id": item_id} for item_id in item_ids])


def turn_topics(connection: Connection, session_id: str, first: int, last: int) -> list[TurnTopicRow]:
    """List the topics of these turns, including ancestors' turns, the heaviest of each turn first."""
    found = select_spans(connection, TURN_TOPICS, chain_of(connection, session_id), first, last)
    return [TurnTopicRow(*row) for row in found]


def begin_run(connection: Connection, new: NewRun) -> RunRow:
    """Start a run, or resume an interrupted one with the same input; raise `RunInProgress` while another is running.

    An interrupted run whose input has changed is replaced; results of steps that depend only on their names are reused.
    A run's start time is later than that of all earlier runs, even if the clock was set back, so that the last one is
    known.
    """
    times, moment = leases.times(connection, new.lease_seconds), now_us()
    lease = {"owner": new.owner, "until_us": times["until_us"]}
    values = {"tenant": new.tenant, "scope": new.scope}
    for row in _runs(connection, OPEN_RUNS, values):
        if row.owner and times["now_us"] < row.until_us <= times["latest_us"]:
            raise RunInProgress(new.scope)
        if (row.watermark, row.prompt_version) == (new.watermark, new.prompt_version):
            connection.execute(TAKE_RUN, {**lease, "id": row.id})
            return get_run(connection, row.id)
        if row.prompt_version == new.prompt_version:
            connection.execute(MOVE_STEPS, {"id": new.id, "replaced": row.id})
        _end(connection, row.id, "replaced", "")
    (newest_us,) = connection.execute(NEWEST_START, values).fetchone()
    connection.execute(
        ADD_RUN,
        {
            **values,
            **lease,
            "id": new.id,
            "watermark": new.watermark,
            "prompt_version": new.prompt_version,
            "now_us": moment if newest_us is None else max(moment, newest_us + 1),
        },
    )
    return get_run(connection, new.id)


def get_run(connection: Connection, run_id: str) -> RunRow:
    found = _runs(connection, GET_RUN, {"id": run_id})
    if not found:
        raise RunLost(run_id)
    return found[0]


def list_runs(
    connection: Connection,
    tenant: str | None,
    *,
    scope: str | None = None,
    version: str | None = None,
    state: RunState | None = None,
    limit: int = 100,
) -> list[RunRow]:
    """List the runs, optionally of one scope, version or state, the newest first."""
    values = {"tenant": tenant, "scope": scope, "version": version, "state": state, "limit": limit}
    return _runs(connection, LIST_RUNS, values)


def keep_step(connection: Connection, run_id: str, owner: str, name: str, data: bytes) -> None:
    """Store the result of a step; raise `RunLost` if another attempt has taken over the run."""
    _check_owner(connection, run_id, owner)
    connection.execute(KEEP_STEP, {"id": run_id, "name": name, "data": data, "digest": digest_of(data)})


def steps(connection: Connection, run_id: str) -> dict[str, bytes]:
    """Return the results of a run's steps by name; damaged ones are omitted."""
    found = connection.execute(STEPS, {"id": run_id})
    return {name: data for name, data, digest in found if is_intact(digest, data)}


def finish_run(connection: Connection, run_id: str, owner: str, report: str, changes: KnowledgeChanges) -> None:
    """Store all changes of a run and end it; raise `RunLost` and store nothing if another attempt has taken it over.

    Items that a person has reviewed or changed during the run are not changed.
    """
    _check_owner(connection, run_id, owner)
    run = get_run(connection, run_id)
    decided = {item_id for (item_id,) in connection.execute(DECIDED, {"tenant": run.tenant})}
    add(connection, run.tenant, (item for item in changes.items if item.id not in decided))
    supersede(connection, run.tenant, (each for each in changes.superseded if each.id not in decided))
    numbers = {session_id: number_of(connection, session_id) for session_id in changes.topic_sessions}
    for number in numbers.values():
        connection.execute(DROP_TOPICS, {"session": number, "tenant": run.tenant, "scope": run.scope})
    connection.executemany(
        ADD_TOPIC,
        [
            {"session": numbers[session_id], "turn": row.turn, "topic": row.topic, "weight": row.weight}
            for session_id, row in changes.turn_topics
        ],
    )
    _end(connection, run_id, "done", report)
    if run.prompt_version.startswith(QUICK):  # each has all that the next one needs
        values = {"tenant": run.tenant, "scope": run.scope, "version": run.prompt_version, "id": run.id}
        connection.execute(DROP_QUICK, values)


def fail_run(connection: Connection, run_id: str, owner: str, report: str) -> None:
    """End a run without changes."""
    _check_owner(connection, run_id, owner)
    _end(connection, run_id, "failed", report)


def forget(connection: Connection, where: str, values: Values) -> None:
    """Remove the items learned only from turns that match a condition, unless a person wrote or reviewed them."""
    gone = connection.execute(_SOURCES_GONE.format(where=where), values).fetchall()
    connection.execute(_FORGET_SOURCES.format(where=where), values)
    connection.execute(_FORGET_TOPICS.format(where=where), values)
    for tenant, item_id in gone:
        for statement in _FORGET_UNFOUNDED:
            connection.execute(statement, {"tenant": tenant, "id": item_id})


def is_sound(digest: bytes, *values: str) -> bool:
    """Return whether scope, kind, title, text and data of a version are undamaged."""
    return digest_of(*values) == digest


def _end(connection: Connection, run_id: str, state: RunState, report: str) -> None:
    connection.execute(END_RUN, {"id": run_id, "state": state, "report": report, "now_us": now_us()})
    connection.execute(DROP_STEPS, {"id": run_id})


def _check_owner(connection: Connection, run_id: str, owner: str) -> None:
    if connection.execute(HOLDS_RUN, {"id": run_id, "owner": owner}).fetchone() is None:
        raise RunLost(run_id)


def _runs(connection: Connection, statement: str, values: Values) -> list[RunRow]:
    names = _RUN.split(", ")
    return [RunRow(**dict(zip(names, row, strict=True))) for row in connection.execute(statement, values).fetchall()]


def _select(connection: Connection, statement: str, values: Values) -> list[KnowledgeRow]:
    found = []
    for row in connection.execute(statement, values).fetchall():
        tenant, item_id, version, scope, kind, state, title, text, data, maker, prompt_version, *rest = row
        first_seen_us, last_seen_us, created_us, superseded_by, reason, digest, uses, helped, last_used_us = rest
        if not is_sound(digest, scope, kind, title, text, data):
            _log.warning("%s: version %d of the item %s is damaged", connection.location, version, item_id)
            continue
        sources = connection.execute(SOURCES, {"tenant": tenant, "id": item_id, "version": version})
        found.append(
            KnowledgeRow(
                id=item_id,
                scope=scope,
                kind=kind,
                state=state,
                title=title,
                text=text,
                sources=tuple(KnowledgeSource(*source) for source in sources),
                maker=maker,
                prompt_version=prompt_version,
                first_seen_us=first_seen_us,
                last_seen_us=last_seen_us,
                reason=reason,
                tenant=tenant,
                version=version,
                created_us=created_us,
                superseded_by=superseded_by,
                uses=uses,
                helped=helped,
                last_used_us=last_used_us,
                **_details(json.loads(data)),
            )
        )
    return found


def _details(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topics": tuple(data["topics"]),
        "keywords": tuple((word, weight) for word, weight in data["keywords"]),
        "technologies": tuple(data["technologies"]),
        "weight": data["weight"],
        "confidence": data["confidence"],
        "area": data.get("area", ""),
        "form": data.get("form", ""),
        "times_said": data.get("times_said", 0),
        "said_on": tuple(data.get("said_on", ())),
        "contradicts": tuple(data.get("contradicts", ())),
    }
