"""Agents: sessions in which a model works on a task for another session. Functions of a connection.

    queued ──► running ──► done, failed
      ▲           │ │
      │           │ └──► the worker died: queued again, or lost after too many attempts
      └─ waiting ◄┘      for an approval, an answer or other agents

An agent is claimed with a lease; each claim has a new owner. Only the newest claim can end the agent,
so a worker that was presumed dead can't store a second result. A tree's limits are checked in the transaction that
adds an agent or a model call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from foveate.errors import AgentEnded, AgentNotFound, ClaimLost, LimitReached
from foveate.store import leases, log
from foveate.store.lineage import number_of
from foveate.store.rows import NANO, CallRow, NewSession
from foveate.store.sql import Connection, now_us

AgentState = Literal["queued", "running", "waiting", "done", "failed", "cancelled", "lost"]
"""`waiting`: for an approval, an answer or other agents. `lost`: too many workers died while running it."""
AGENT_STATES: tuple[AgentState, ...] = ("queued", "running", "waiting", "done", "failed", "cancelled", "lost")
ENDED_STATES: tuple[AgentState, ...] = ("done", "failed", "cancelled", "lost")
AgentKind = Literal["call", "run"]
"""`call`: one prompt and its answer. `run`: until the model reports that the task is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Limits of a tree of agents."""

    max_depth: int
    max_agents: int
    """Agents that have not ended."""
    max_tokens: int
    max_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """An agent to add."""

    id: str
    parent: str | None
    """The agent that requested it."""
    parent_session_id: str | None
    """The session that requested it."""
    tree: str
    """Id of the session at the root of the tree."""
    depth: int
    kind: AgentKind
    task: str
    spec: str
    """Its settings, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent as it is stored."""

    id: str
    session_id: str
    parent: str | None
    parent_session_id: str | None
    tree: str
    depth: int
    kind: AgentKind
    task: str
    spec: str
    state: AgentState
    result: str | None
    problem: str | None
    waits: str
    """What it waits for, as JSON; empty if it does not wait."""
    grants: str
    """Permissions and answers that people gave, as JSON."""
    decision: str
    """A person's decision about the call that it waited for, as JSON. Only the next claim receives it."""
    claims: int
    """Number of the newest claim."""
    attempts: int
    """Number of workers that died while running it, since it last waited."""
    owner: str
    """Owner of the newest claim's lease, new for each claim. Empty unless it is running."""
    until_us: int
    """End of the lease, or of the wait."""
    created_us: int
    started_us: int | None
    ended_us: int | None
    read_us: int | None
    """When its result was shown to the session that requested it."""
    tenant: str


@dataclass(frozen=True, slots=True)
class AgentTotals:
    """Usage of a tree, compared with its limits."""

    agents: int
    tokens: int
    nano_usd: int
    limits: AgentLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """The agents that a worker can claim."""

    owner: str
    """The worker's name, the prefix of each lease's owner."""
    limit: int
    lease_seconds: float
    max_attempts: int
    tree: str | None = None
    """Claim only agents of this tree."""
    top: str | None = None
    """Claim only this agent and its descendants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """The limits of an agent's model call, and the claim that allows it."""

    tree: str
    agent_id: str
    owner: str
    limits: AgentLimits


LOST = "its worker ended {attempts} times without finishing it"
_ENDED = "('done', 'failed', 'cancelled', 'lost')"
assert set(ENDED_STATES) == {"done", "failed", "cancelled", "lost"}, "the statements below name them"
_COLUMNS = tuple(AgentRow.__dataclass_fields__)
_FROM = {"session_id": "s.id", "parent_session_id": "p.id", "tenant": "s.tenant"}
_SELECTED = ", ".join(_FROM.get(name, f"a.{name}") for name in _COLUMNS)
SELECT = f"""SELECT {_SELECTED} FROM agents a JOIN sessions s ON s.number = a.session
    LEFT JOIN sessions p ON p.number = a.parent_session"""  # noqa: S608
ADD = """INSERT INTO agents (id, session, parent, parent_session, tree, depth, kind, task, spec, state, waits, grants,
    decision, claims, attempts, owner, until_us, created_us)
    VALUES (:id, :session, :parent, :parent_session, :tree, :depth, :kind, :task, :spec, 'queued', '', '', '', 0, 0,
    '', 0, :now_us)"""
ADD_LIMITS = """INSERT INTO agent_trees (tree, max_depth, max_agents, max_tokens, max_nano_usd)
    SELECT :tree, :max_depth, :max_agents, :max_tokens, :max_nano_usd
    WHERE NOT EXISTS (SELECT 1 FROM agents WHERE tree = :tree) ON CONFLICT (tree) DO NOTHING"""
GET_LIMITS = "SELECT max_depth, max_agents, max_tokens, max_nano_usd FROM agent_trees WHERE tree = :tree"
FORGET_DOCUMENTS = "DELETE FROM documents WHERE session = :session AND name IN ('epic', 'tasks', 'run', 'origin')"
COUNT_OPEN = f"SELECT count(*) FROM agents WHERE tree = :tree AND state NOT IN {_ENDED}"  # noqa: S608
_SUM_CALLS = """SELECT coalesce(sum(c.input_tokens + c.output_tokens), 0), coalesce(sum(c.nano_usd), 0)
    FROM agents a JOIN calls c ON c.session = a.session WHERE c.purpose = 'chat'"""
SUM_SPENT = f"{_SUM_CALLS} AND a.tree = :tree"
SUM_SPENT_BY_ONE = f"{_SUM_CALLS} AND a.id = :id"
GET_SPENT_BEFORE = "SELECT spent_tokens, spent_nano_usd FROM agent_trees WHERE tree = :tree"
ADD_SPENT_BEFORE = """INSERT INTO agent_trees (tree, spent_tokens, spent_nano_usd) VALUES (:tree, :tokens, :nano_usd)
    ON CONFLICT (tree) DO UPDATE SET spent_tokens = agent_trees.spent_tokens + excluded.spent_tokens,
    spent_nano_usd = agent_trees.spent_nano_usd + excluded.spent_nano_usd"""
_FREE = f"""(state = 'queued' OR (state = 'running' AND NOT ({leases.LIVE}))
    OR (state = 'waiting' AND until_us > 0 AND until_us <= :now_us))"""
LIST_FREE = f"""SELECT id, state, claims, attempts, decision FROM agents WHERE {_FREE}
    AND (:tree IS NULL OR tree = :tree)
    AND (:top IS NULL OR id IN (WITH RECURSIVE below (id) AS (SELECT id FROM agents WHERE id = :top
    UNION SELECT a.id FROM agents a JOIN below b ON a.parent = b.id) SELECT id FROM below))
    ORDER BY created_us, id LIMIT :limit"""  # noqa: S608
TAKE = """UPDATE agents SET state = 'running', owner = :owner, until_us = :until_us, claims = claims + 1,
    attempts = :attempts, waits = '', decision = '', started_us = coalesce(started_us, :now_us) WHERE id = :id"""
HOLDS = "SELECT 1 FROM agents WHERE id = :id AND owner = :owner AND state = 'running'"
END = """UPDATE agents SET state = :state, result = :result, problem = :problem, owner = '', until_us = 0, waits = '',
    ended_us = :now_us WHERE id = :id"""
PARK = """UPDATE agents SET state = :state, waits = :waits, owner = '', until_us = :until_us, attempts = 0
    WHERE id = :id"""
ADD_WAIT = "INSERT INTO agent_waits (agent, child) VALUES (:agent, :child) ON CONFLICT DO NOTHING"
IS_OPEN = f"SELECT 1 FROM agents WHERE id = :id AND state NOT IN {_ENDED}"  # noqa: S608
WAKE = """UPDATE agents SET state = 'queued', waits = '' WHERE state = 'waiting'
    AND id IN (SELECT agent FROM agent_waits WHERE child = :id)"""
FORGET_OWN_WAITS = "DELETE FROM agent_waits WHERE agent = :id"
FORGET_WAITS = "DELETE FROM agent_waits WHERE child = :id OR agent = :id"
RESUME = "UPDATE agents SET state = 'queued', waits = '', grants = :grants, decision = :decision WHERE id = :id"
DESCENDANTS = f"""WITH RECURSIVE below (id) AS (SELECT id FROM agents WHERE id = :id
    UNION SELECT a.id FROM agents a JOIN below b
    ON a.parent = b.id) SELECT a.id FROM agents a JOIN below b ON b.id = a.id
    WHERE a.state NOT IN {_ENDED} ORDER BY a.depth"""  # noqa: S608
MARK_READ = f"UPDATE agents SET read_us = :now_us WHERE id = :id AND read_us IS NULL AND state IN {_ENDED}"  # noqa: S608
LIST = f"""{SELECT} WHERE (:tenant IS NULL OR s.tenant = :tenant) AND (:state IS NULL OR a.state = :state)
    AND (:tree IS NULL OR a.tree = :tree) AND (:parent_session IS NULL OR p.id = :parent_session)
    ORDER BY a.created_us DESC, a.id LIMIT :limit"""


def spawn(
    connection: Connection,
    session: NewSession,
    agent: NewAgent,
    *,
    limits: AgentLimits,
    fork_turn: int | None = None,
    override: AgentLimits | None = None,
) -> AgentRow:
    """Add an agent and its session: a fork of the parent's at a turn (0 shares no turn), or one without a parent.

    Raise `LimitReached` if the tree has no room for it. `override` sets the tree's limits if this is its first agent.
    """
    if agent.parent_session_id is None or fork_turn is None:
        row = log.create_session(connection, session)
    else:
        row = log.fork_session(connection, session, agent.parent_session_id, fork_turn)
        connection.execute(FORGET_DOCUMENTS, {"session": row.number})
    if override is not None:
        connection.execute(ADD_LIMITS, {"tree": agent.tree, **asdict(override)})
    _check_room(connection, agent, _limits(connection, agent.tree, limits))
    parent = None if agent.parent_session_id is None else number_of(connection, agent.parent_session_id)
    values = {**asdict(agent), "session": row.number, "parent_session": parent, "now_us": now_us()}
    connection.execute(ADD, values)
    return get(connection, agent.id)


def get(connection: Connection, agent_id: str) -> AgentRow:
    """Return the agent with this id; raise `AgentNotFound` if there is none."""
    found = _select(connection, f"{SELECT} WHERE a.id = :id", {"id": agent_id})
    if not found:
        raise AgentNotFound(agent_id)
    return found[0]


def of_session(connection: Connection, session_id: str) -> AgentRow | None:
    """Return the agent that works in a session."""
    found = _select(connection, f"{SELECT} WHERE s.id = :id", {"id": session_id})
    return found[0] if found else None


def list_agents(
    connection: Connection,
    *,
    tenant: str | None = None,
    state: AgentState | None = None,
    tree: str | None = None,
    parent_session: str | None = None,
    limit: int = 1_000,
) -> list[AgentRow]:
    """List the agents that match all conditions, the newest first."""
    values = {"tenant": tenant, "state": state, "tree": tree, "parent_session": parent_session, "limit": limit}
    return _select(connection, LIST, values)


def totals(connection: Connection, tree: str, limits: AgentLimits) -> AgentTotals:
    """Return a tree's usage. A call in progress counts with its maximum."""
    tokens, nano_usd = _spent(connection, tree)
    (count,) = connection.execute(COUNT_OPEN, {"tree": tree}).fetchone()
    return AgentTotals(count, tokens, nano_usd, _limits(connection, tree, limits))


def is_free(connection: Connection, tree: str | None = None, top: str | None = None) -> bool:
    """Return whether an agent can be claimed: any, one of a tree, or `top` and its descendants."""
    values = {**leases.times(connection), "tree": tree, "top": top, "limit": 1}
    return connection.execute(LIST_FREE, values).fetchone() is not None


def claim(connection: Connection, request: ClaimRequest) -> list[AgentRow]:
    """Lease queued agents, those whose worker died and those whose wait timed out, the oldest first. One that failed
    too often is returned as `lost`."""
    times = leases.times(connection, request.lease_seconds)
    values = {**times, "tree": request.tree, "top": request.top, "limit": request.limit}
    claimed = []
    for agent_id, state, claims, attempts, decision in connection.execute(LIST_FREE, values).fetchall():
        tried = attempts + (state == "running")
        if tried >= request.max_attempts:
            _end(connection, agent_id, "lost", problem=LOST.format(attempts=tried))
            claimed.append(get(connection, agent_id))
            continue
        owner = f"{request.owner}/{agent_id}/{claims + 1}"
        connection.execute(TAKE, {**times, "id": agent_id, "owner": owner, "attempts": tried})
        claimed.append(replace(get(connection, agent_id), decision=decision))
    return claimed


def check_claim(connection: Connection, agent_id: str, owner: str) -> None:
    """Raise `ClaimLost` unless this claim is the newest of a running agent."""
    if connection.execute(HOLDS, {"id": agent_id, "owner": owner}).fetchone() is None:
        raise ClaimLost(agent_id)


def finish(
    connection: Connection,
    claimed: AgentRow,
    state: AgentState,
    *,
    result: str | None = None,
    problem: str | None = None,
) -> AgentRow:
    """Store an agent's outcome and queue the agents that wait for it; raise `ClaimLost` if another worker has it."""
    check_claim(connection, claimed.id, claimed.owner)
    _end(connection, claimed.id, state, result=result, problem=problem)
    return get(connection, claimed.id)


def park(
    connection: Connection, claimed: AgentRow, waits: str, children: Sequence[str] = (), until_us: int = 0
) -> AgentRow:
    """Let an agent wait. If an agent that it waits for has ended or was deleted, it is queued at once. From `until_us`
    on it can be claimed in any case; 0: never."""
    check_claim(connection, claimed.id, claimed.owner)
    connection.execute(FORGET_OWN_WAITS, {"id": claimed.id})  # left over from an earlier wait, they would end this one
    for child in children:
        connection.execute(ADD_WAIT, {"agent": claimed.id, "child": child})
    ended = any(connection.execute(IS_OPEN, {"id": child}).fetchone() is None for child in children)
    state: AgentState = "queued" if ended else "waiting"
    values = {"id": claimed.id, "state": state, "waits": "" if ended else waits, "until_us": 0 if ended else until_us}
    connection.execute(PARK, values)
    return get(connection, claimed.id)


def resume(connection: Connection, agent_id: str, *, expected: str, grants: str, decision: str = "") -> AgentRow:
    """Queue an agent that waits for a person; raise `AgentEnded` if it no longer waits for `expected`."""
    row = get(connection, agent_id)
    if row.state != "waiting" or row.waits != expected:
        raise AgentEnded(agent_id, row.state)
    connection.execute(RESUME, {"id": agent_id, "grants": grants, "decision": decision})
    return get(connection, agent_id)


def cancel(connection: Connection, agent_id: str) -> list[AgentRow]:
    """Cancel an agent and its descendants that have not ended; return those that were cancelled."""
    get(connection, agent_id)
    below = [found for (found,) in connection.execute(DESCENDANTS, {"id": agent_id}).fetchall()]
    for found in below:
        _end(connection, found, "cancelled", problem="cancelled" if found == agent_id else f"{agent_id} was cancelled")
    return [get(connection, found) for found in below]


def delete_session(connection: Connection, session_id: str) -> None:
    """Remove a session and its own turns; raise `ForkInUse` while forks read them.

    An agent that works in it is cancelled first, so that agents waiting for it are queued. Its spending still counts
    against the limits of its tree.
    """
    agent = of_session(connection, session_id)
    if agent is not None:
        cancel(connection, agent.id)
        tokens, nano_usd = connection.execute(SUM_SPENT_BY_ONE, {"id": agent.id}).fetchone()
        connection.execute(ADD_SPENT_BEFORE, {"tree": agent.tree, "tokens": tokens, "nano_usd": nano_usd})
    log.delete_session(connection, session_id)


def mark_read(connection: Connection, agent_id: str) -> None:
    """Mark an agent's result as shown to the session that requested it."""
    connection.execute(MARK_READ, {"id": agent_id, "now_us": now_us()})


def check_call(connection: Connection, call: CallRow, within: CallLimit) -> None:
    """Raise `LimitReached` if the tree has no room for a model call, `ClaimLost` if the caller has lost the agent."""
    check_claim(connection, within.agent_id, within.owner)
    limits = _limits(connection, within.tree, within.limits)
    tokens, nano_usd = _spent(connection, within.tree)
    needed = call.input_tokens + call.output_tokens
    if tokens + needed > limits.max_tokens:
        used = f"{tokens:,} of {limits.max_tokens:,} tokens are used, and the next call may use {needed:,}"
        raise LimitReached(within.tree, "tokens", f"{used}; agents.max_tokens raises the limit")
    if nano_usd + call.nano_usd > limits.max_nano_usd:
        used = f"${nano_usd / NANO:.4f} of ${limits.max_nano_usd / NANO:.4f} are spent"
        more = f"the next call may cost ${call.nano_usd / NANO:.4f}"
        raise LimitReached(within.tree, "usd", f"{used}, and {more}; agents.max_usd raises the limit")


def _check_room(connection: Connection, agent: NewAgent, limits: AgentLimits) -> None:
    if agent.depth > limits.max_depth:
        problem = f"an agent at level {agent.depth} is too deep; agents.max_depth is {limits.max_depth}"
        raise LimitReached(agent.tree, "depth", problem)
    (count,) = connection.execute(COUNT_OPEN, {"tree": agent.tree}).fetchone()
    if count >= limits.max_agents:
        problem = f"{count:,} agents have not ended; agents.max_agents is {limits.max_agents:,}"
        raise LimitReached(agent.tree, "count", f"{problem}; wait for some, or cancel them")
    tokens, nano_usd = _spent(connection, agent.tree)
    if tokens >= limits.max_tokens:
        raise LimitReached(agent.tree, "tokens", f"all of its {limits.max_tokens:,} tokens are used")
    if nano_usd > limits.max_nano_usd:
        raise LimitReached(agent.tree, "usd", f"all of its ${limits.max_nano_usd / NANO:.4f} are spent")


def _limits(connection: Connection, tree: str, default: AgentLimits) -> AgentLimits:
    row = connection.execute(GET_LIMITS, {"tree": tree}).fetchone()
    if row is None:
        return default
    names = ("max_depth", "max_agents", "max_tokens", "max_nano_usd")
    return replace(default, **{name: value for name, value in zip(names, row, strict=True) if value is not None})


def _spent(connection: Connection, tree: str) -> tuple[int, int]:
    tokens, nano_usd = connection.execute(SUM_SPENT, {"tree": tree}).fetchone()
    before = connection.execute(GET_SPENT_BEFORE, {"tree": tree}).fetchone() or (0, 0)
    return int(tokens) + int(before[0]), int(nano_usd) + int(before[1])


def _end(
    connection: Connection,
    agent_id: str,
    state: AgentState,
    *,
    result: str | None = None,
    problem: str | None = None,
) -> None:
    values = {"id": agent_id, "state": state, "result": result, "problem": problem, "now_us": now_us()}
    connection.execute(END, values)
    connection.execute(WAKE, {"id": agent_id})
    connection.execute(FORGET_WAITS, {"id": agent_id})


def _select(connection: Connection, statement: str, values: Mapping[str, object]) -> list[AgentRow]:
    return [AgentRow(**dict(zip(_COLUMNS, row, strict=True))) for row in connection.execute(statement, values)]
