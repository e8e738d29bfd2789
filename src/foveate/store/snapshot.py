"""Reads everything that a context needs from the store before it is planned, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.errors import SessionNotFound
from foveate.store import artefacts, derived, leases, log, prompts
from foveate.store.lineage import SELECT_SESSIONS, chain_of, select_spans
from foveate.store.rows import ArtefactsMark, MessageRow, Origin, PinRow, RenditionRow, SessionRow
from foveate.store.sql import Connection, intact_data, now_us

MAX_NEW_TURNS = 32
"""Maximum new turns in a snapshot; if there are more, only the newest one is read."""
GET_SESSION = SELECT_SESSIONS.replace(" FROM ", ", s.pruned_us, s.settled FROM ", 1) + " WHERE s.id = :id"
READ_NEW = log.READ_MESSAGES.replace(" ORDER BY", " AND (turn > :known_turn OR position > :known_position) ORDER BY", 1)
_KEPT = {"plans": ":strategy", "states": ":strategy, :agent", "boards": ":board", "recalled": ":layer"}
LIST_KEPT = " UNION ALL ".join(
    f"SELECT '{table}', name, data, digest FROM {table} WHERE session = :session AND name IN ({names})"  # noqa: S608
    for table, names in _KEPT.items()
)
GET_LEASE = f"SELECT 1 FROM leases WHERE session = :session AND turn = :place AND {leases.LIVE}"  # noqa: S608
AGENT_STATE = "agent:lease"
"""The name of the state of a strategy's agent."""


@dataclass(frozen=True, slots=True)
class KnownTurns:
    """The newest message in a reader's memory. Older ones are in memory, too, or read when needed."""

    turn: int = 0
    position: int = 0
    origin: Origin | None = None
    """The session that they were read of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSnapshot:
    """A session at one moment."""

    session: SessionRow
    pruned_us: int | None = None
    """Time of the last prune."""
    settled_turn: int = 0
    """All turns up to this one have renditions."""
    pins: Sequence[PinRow] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The owner's texts that override built-in prompts, by key."""
    tenant_prompts: Mapping[str, str] = field(default_factory=dict)
    """The owner's texts, overridden by those of the session's tenant."""
    plan: bytes | None = None
    """The kept plan of the strategy, packed."""
    state: bytes | None = None
    """The state of the strategy, packed."""
    made: ArtefactsMark
    """The mark of the strategy's artefacts, which changes with them."""
    agent: bytes | None = None
    """The state of the strategy's agent."""
    is_agent_running: bool = False
    """Whether the strategy's agent is running, in any process."""
    board: bytes | None = None
    memory: bytes | None = None
    """The memory layer of the last prompt."""
    messages: Sequence[MessageRow] = ()
    """Messages after `known`; if there are more than `MAX_NEW_TURNS` turns of them, those of the newest turn."""
    known: KnownTurns = KnownTurns()
    """The messages in memory, which were not read again."""
    read_at: float = field(default=0.0, compare=False)
    """When the transaction began (`time.perf_counter`). The snapshot includes everything saved before."""

    @property
    def origin(self) -> Origin:
        """The session that the snapshot is of, and its last prune."""
        return Origin(self.session.number, self.session.created_us, self.pruned_us)


@dataclass(frozen=True, slots=True)
class WholeTurn:
    """A turn with its messages and its rendition."""

    raw_tokens: int
    messages: Sequence[MessageRow]
    rendition: RenditionRow | None


def take(
    connection: Connection,
    session_id: str,
    *,
    strategy: Callable[[SessionRow], str] | None = None,
    known: KnownTurns | None = None,
) -> SessionSnapshot:
    """Read a session with everything that its contexts need.

    `strategy` returns the name of the strategy whose plan and state are read. Messages up to `known` are skipped.
    """
    read_at = time.perf_counter()
    found = connection.execute(GET_SESSION, {"id": session_id}).fetchone()
    if found is None:
        raise SessionNotFound(session_id)
    *columns, pruned_us, settled = found
    session = SessionRow.of(columns)
    name = session.strategy if strategy is None else strategy(session)
    number, moment = session.number, now_us()
    alive = {"now_us": moment, "latest_us": moment + leases.MAX_LEASE_US}
    kept_names = {"strategy": name, "agent": AGENT_STATE, "board": artefacts.BOARD, "layer": derived.LAYER}
    tenants = dict.fromkeys(("", session.tenant))
    pins, documents, kept, mark, lease, *own = connection.select_all(
        [
            (log.LIST_PINS, {"session": number}),
            (artefacts.LIST_DOCUMENTS, {"session": number}),
            (LIST_KEPT, {"session": number, **kept_names}),
            (artefacts.MARK, {"session": number, "strategy": name}),
            (GET_LEASE, {"session": number, "place": leases.PLACES["shrink"], **alive}),
            *((prompts.NEWEST, {"tenant": tenant}) for tenant in tenants),
        ]
    )
    values = {(table, key): intact_data(connection, table, number, key, row) for table, key, *row in kept}
    texts, *tenant_texts = (prompts.texts(connection, rows) if rows else {} for rows in own)
    known = known if known and known.origin == (number, session.created_us, pruned_us) else KnownTurns()
    return SessionSnapshot(
        session=session,
        pruned_us=pruned_us,
        settled_turn=settled if session.parent is None else derived.settled(connection, session_id),
        pins=[log.pin_of(row) for row in pins],
        documents={document: text for document, text, _ in documents},
        prompts=texts,
        tenant_prompts={**texts, **tenant_texts[0]} if tenant_texts else texts,
        plan=values.get(("plans", name)),
        state=values.get(("states", name)),
        made=ArtefactsMark(*mark[0]),
        agent=values.get(("states", AGENT_STATE)),
        is_agent_running=bool(lease),
        board=values.get(("boards", artefacts.BOARD)),
        memory=values.get(("recalled", derived.LAYER)),
        messages=_new_messages(connection, session, known),
        known=known,
        read_at=read_at,
    )


def _new_messages(connection: Connection, session: SessionRow, known: KnownTurns) -> list[MessageRow]:
    """Read the messages after the known one."""
    last = session.last_turn
    if not last or (known.turn, known.position) == (last, session.last_position):
        return []
    first = known.turn if last - known.turn < MAX_NEW_TURNS else last
    span = {"known_turn": known.turn, "known_position": known.position}
    # Without messages of an ancestor among them, the session's own rows are enough.
    chain = [session] if session.fork_turn < max(first, 1) else chain_of(connection, session.id)
    found = select_spans(connection, READ_NEW, chain, max(first, 1), last, values=span)
    return [log.checked(connection, session.id, row) for row in found]


def whole_turns(
    connection: Connection, session_id: str, turns: Sequence[int], limit_tokens: int
) -> dict[int, WholeTurn]:
    """Read turns with messages and renditions; messages of turns above the limit are omitted."""
    chain = chain_of(connection, session_id)
    found: dict[int, WholeTurn] = {}
    for turn in turns:
        made = derived.renditions(connection, session_id, turn, turn)
        tokens = sum(row[0] for row in select_spans(connection, log.SUM_TOKENS, chain, turn, turn))
        rows = select_spans(connection, log.READ_MESSAGES, chain, turn, turn) if tokens <= limit_tokens else []
        messages = [log.checked(connection, session_id, row) for row in rows]
        found[turn] = WholeTurn(tokens, messages, made[0] if made else None)
    return found
