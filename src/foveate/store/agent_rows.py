"""The values of agents that go into a store and come out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AgentState = Literal["queued", "running", "waiting", "done", "failed", "cancelled", "lost"]
"""`waiting`: for an approval, an answer or other agents. `lost`: too many workers ended while they ran it."""
AGENT_STATES: tuple[AgentState, ...] = ("queued", "running", "waiting", "done", "failed", "cancelled", "lost")
ENDED_STATES: tuple[AgentState, ...] = ("done", "failed", "cancelled", "lost")
AgentKind = Literal["call", "run"]
"""`call`: one prompt and its answer. `run`: until the model says that the task is done."""


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
    """The agent that it works for."""
    parent_session_id: str | None
    """The session that it works for."""
    tree: str
    """The session at the top."""
    depth: int
    kind: AgentKind
    task: str
    spec: str
    """How it works, as JSON."""


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
    """What it waits for, as JSON; empty if for nothing."""
    grants: str
    """What people allowed and answered, as JSON."""
    decision: str
    """A person's decision about the call that it waited with, as JSON. The next claim gets it, and no other."""
    claims: int
    """Number of the newest claim."""
    attempts: int
    """Workers that died with it, since it last waited."""
    owner: str
    """Of the newest claim's lease; another one with each claim. Empty unless it is running."""
    until_us: int
    """When the lease ends, or the wait."""
    created_us: int
    started_us: int | None
    ended_us: int | None
    read_us: int | None
    """When its result was shown to the session it works for."""
    tenant: str


@dataclass(frozen=True, slots=True)
class AgentTotals:
    """What a tree has used of its limits."""

    agents: int
    tokens: int
    nano_usd: int
    limits: AgentLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which agents a worker asks for."""

    owner: str
    """The worker; the owner of each lease begins with it."""
    limit: int
    lease_seconds: float
    max_attempts: int
    tree: str | None = None
    """Agents of this tree only."""
    top: str | None = None
    """This agent and those below it only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """What a call of a model by an agent has to keep within, and the claim that allows it."""

    tree: str
    agent_id: str
    owner: str
    limits: AgentLimits
