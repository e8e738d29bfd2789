"""The `agents` section of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class AgentsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models that call tools: chats and runs with a pack, and background agents."""

    max_tool_rounds: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Limit of tool rounds for one prompt, with a pack; then the model is asked once more, without tools."""
    max_depth: Annotated[int, Meta(ge=1, le=20)] = 3
    """Levels of agents below a session: an agent that a session starts is at level 1, one that this agent starts at
    level 2."""
    max_agents: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Limit of agents of a tree that have not ended yet."""
    max_tokens: Annotated[int, Meta(ge=1)] = 20_000_000
    """Tokens that all agents of a tree may read and write together."""
    max_usd: Annotated[float, Meta(ge=0)] = 20.0
    """Cost of all agents of a tree together."""
    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 4
    """Agents that one worker runs at the same time."""
    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    """Without a sign of life for this long, an agent's worker is replaced by another one, which resumes the agent."""
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.5
    """Interval at which a worker checks for queued and cancelled agents, and a wait checks its agent."""
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    """Limit of workers that may die while running the same agent; then it is marked as lost."""
    roots: tuple[str, ...] = ()
    """Folders for the tools of agents that are spawned over HTTP, and for tools that are called over HTTP."""
