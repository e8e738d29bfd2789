"""Agents: sessions in which a model works on a task in the background, independently or for another session.

agent = await fov.agents.spawn("Find out why the build is slow.", parent="support-42", packs=["research"])
ended = await fov.agents.wait(agent.id)
ended.result

A spawned agent is run by a worker (`foveate worker`, `foveate serve`). Its state is a row in the store, which alone is
authoritative: an event or a note on a board is only a hint.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from foveate.errors import AgentNotFound, InputError, InvalidMessage, Refused, SessionNotFound
from foveate.events import Event
from foveate.session.keys import Right
from foveate.session.record import check_text
from foveate.session.tenant import public_id, stored_id
from foveate.session.values import copied
from foveate.store import NewSession, SessionRow, Store
from foveate.store.agents import (
    AGENT_STATES,
    ENDED_STATES,
    AgentKind,
    AgentLimits,
    AgentRow,
    AgentState,
    AgentTotals,
    NewAgent,
)
from foveate.store.operations import AgentRows
from foveate.store.rows import NANO
from foveate.tokens import counter_for
from foveate.turn import Json, from_us, turn_number

if TYPE_CHECKING:
    from foveate.client import Foveate

__all__ = ["AgentInfo", "AgentLimits", "AgentSpec", "AgentTotals", "Agents", "PendingApproval", "PendingQuestion"]

ID_BYTES = 5
MAX_TASK_CHARS = 200_000
TITLE_CHARS = 60
KINDS = ("call", "run")
RUNNER = ("foveate.agents.worker", "AgentWorker")
"""Module and class that run agents; loaded by name, because they are in a higher layer."""


class AgentSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration of an agent. Its tools have only the rights that are listed here."""

    model: str | None = None
    """The model to call. Default: the model of its session, or `models.chat` of the settings."""
    system: str = ""
    packs: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Folders that its tools are confined to."""
    allow_exec: bool = False
    """Offer the tool `exec`. Its calls still need approval."""
    allow_unsandboxed: bool = False
    approve_local: bool = False
    """Run tools that are confined to its folders without approval, including `exec`."""
    approved: tuple[str, ...] = ()
    """Names of tools that need no approval."""
    mcp_servers: tuple[str, ...] = ()
    """Names of the MCP servers (`tools.mcp_servers` in the settings) whose tools are offered."""
    right: Right = "write"
    """The right that its tools are called with: that of the caller who started it. `spawn` sets it."""
    max_output_tokens: int | None = None
    max_iterations: int = 100
    """Maximum number of iterations of a run."""


class PendingApproval(Struct, frozen=True, kw_only=True, tag="approval", tag_field="for"):
    """A tool call that waits for a person's approval."""

    tool: str
    arguments: Any
    can_remember: bool = True
    """Whether the tool can be allowed for the rest of the session."""
    right: Right = "admin"
    """The right that approving it needs, which is the one that calling the tool needs."""


class PendingQuestion(Struct, frozen=True, kw_only=True, tag="question", tag_field="for"):
    """A question or blocker of the model that waits for an answer."""

    question: str


class PendingAgents(Struct, frozen=True, kw_only=True, tag="agents", tag_field="for"):
    """Other agents that an agent waits for."""

    agents: tuple[str, ...]
    until: datetime | None = None
    """Time at which the agent resumes even if none of them has ended."""


Waits = PendingApproval | PendingQuestion | PendingAgents


class Grants(Struct, frozen=True, kw_only=True):
    """Approvals and answers that people gave to an agent."""

    tools: tuple[str, ...] = ()
    """Tools that are allowed for the rest of the session."""
    question: str = ""
    answer: str = ""


class Decision(Struct, frozen=True, kw_only=True):
    """A person's decision about a pending tool call."""

    tool: str
    arguments: Any
    allow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """The data and the current state of an agent."""

    id: str
    session_id: str
    """Id of the agent's own session: the agent's id, which the owner sees as `tenant:id`."""
    parent: str | None
    """Id of the agent that it works for."""
    parent_session_id: str | None
    tree: str
    """Id of the session at the top of its tree; the tree's limits apply to all its agents together."""
    depth: int
    kind: AgentKind
    task: str
    state: AgentState
    result: str | None
    problem: str | None
    """Why the agent failed, was cancelled or is lost."""
    waits: Waits | None
    """What the agent waits for, if its state is `waiting`."""
    spec: AgentSpec
    attempts: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    read_at: datetime | None
    """When the session that the agent works for read its result."""

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED_STATES


class Agents:
    """The agents of a store, as its owner or a tenant sees them. Every change is durable when its method returns."""

    def __init__(self, fov: Foveate, store: Store) -> None:
        self._fov = fov
        self._store = store
        self._settings = fov.settings.agents

    async def spawn(
        self,
        task: str,
        *,
        kind: AgentKind = "run",
        parent: str | None = None,
        fork: bool | str | int = False,
        spec: AgentSpec | None = None,
        limits: Mapping[str, float] | None = None,
        **changes: Any,
    ) -> AgentInfo:
        """Start an agent in the background, and return immediately; a worker runs it.

        `parent` is the session that the agent works for. `fork` shares that session's turns with it, all or up to one;
        default: none. Configure it with `spec`, or with the fields of `AgentSpec` as arguments (`model=`, `packs=`,
        `roots=`, `allow_exec=` …). `limits` (`depth`, `agents`, `tokens`, `usd`) set the limits of the tree, if this is
        its first agent. `LimitReached` if the tree has reached a limit.
        """
        if kind not in KINDS:
            raise InputError(f"an agent's kind is one of {', '.join(KINDS)}, not {kind!r}")
        if not task.strip() or len(task) > MAX_TASK_CHARS:
            raise InvalidMessage("task", f"must have 1 to {MAX_TASK_CHARS:,} characters")
        check_text("task", task)
        chosen = _checked(spec or AgentSpec(), {**changes, "right": self._fov.right})
        if chosen.mcp_servers:
            self._fov.check_right("admin", "an MCP server")
        known = self._fov.settings.tools.mcp_servers
        missing = next((name for name in chosen.mcp_servers if name not in known), None)
        if missing is not None:
            listed = ", ".join(known) or "none"
            raise InputError(f"the settings have no MCP server {missing!r}; tools.mcp_servers has {listed}")
        agent_id = f"a-{secrets.token_hex(ID_BYTES)}"
        if parent is not None:
            await self.check_directing(parent)
        parent_session = None if parent is None else (await self._fov.open_session(parent))
        row = None if parent_session is None else await self._store.get_session(parent_session.engine.stored_id)
        parent_agent = None if row is None else await self._store.agents.of_session(row.id)
        session = self._new_session(agent_id, task, chosen.model, row)
        new = NewAgent(
            id=agent_id,
            parent=parent_agent.id if parent_agent else None,
            parent_session_id=row.id if row else None,
            tree=parent_agent.tree if parent_agent else row.id if row else session.id,
            depth=parent_agent.depth + 1 if parent_agent else 1,
            kind=kind,
            task=task,
            spec=msgspec.json.encode(chosen).decode(),
        )
        added = await self._store.agents.spawn(
            session,
            new,
            limits=self.limits,
            fork_turn=None if row is None else _fork_turn(row, fork),
            override=None if limits is None else _limits(limits, self.limits),
        )
        return self.announce(added)

    async def call(
        self,
        prompt: str = "",
        *,
        prompt_key: str | None = None,
        variables: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AgentInfo:
        """Send one prompt to a model in a new session, and wait for the answer.

        Pass a prompt, or the key of a stored prompt with its variables. The call runs in this process. `options` are
        the arguments of `spawn`.
        """
        if (prompt_key is None) == (not prompt.strip()):
            raise InputError("pass either a prompt or the key of a stored prompt")
        if variables and prompt_key is None:
            raise InputError("variables are for a stored prompt; pass its key, or a prompt without variables")
        if prompt_key is not None:
            prompt = await self._fov.prompts.render(prompt_key, **dict(variables or {}))
        return await self._complete(await self.spawn(prompt, kind="call", **options))

    async def run(self, task: str, **options: Any) -> AgentInfo:
        """Let a model work on a task until it reports that it is done, asks a question or fails.

        The agent runs in this process. `options` are the arguments of `spawn`.
        """
        return await self._complete(await self.spawn(task, kind="run", **options))

    async def get(self, agent_id: str) -> AgentInfo:
        """Return an agent by its id."""
        return self._info(await self._row(agent_id))

    async def list(
        self, *, state: str | None = None, parent: str | None = None, tree: str | None = None, limit: int = 1_000
    ) -> list[AgentInfo]:
        """List the agents, newest first, optionally by state, parent session or tree."""
        if state is not None and state not in AGENT_STATES:
            raise InputError(f"an agent's state is one of {', '.join(AGENT_STATES)}, not {state!r}")
        tenant = self._fov.tenant_name
        rows = await self._store.agents.list_agents(
            tenant=tenant or None,
            state=state,
            tree=tree and stored_id(tenant, tree),
            parent_session=parent and stored_id(tenant, parent),
            limit=limit,
        )
        return [self._info(row) for row in rows]

    async def wait(self, agent_id: str, *, timeout_seconds: float | None = None) -> AgentInfo:
        """Wait until an agent has ended, and return its state; after the timeout, return its current state."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            info = await self.get(agent_id)
            if info.is_ended or (until is not None and time.monotonic() >= until):
                return info
            await asyncio.sleep(self._settings.poll_seconds)

    async def cancel(self, agent_id: str) -> Sequence[AgentInfo]:
        """Cancel an agent and all agents below it, including calls in progress; return the cancelled agents."""
        await self._row(agent_id)
        rows = await self._store.agents.cancel(agent_id)
        for row in rows:
            await self.tell(row)
        return [self._info(row) for row in rows]

    async def approve(self, agent_id: str, *, allow: bool = True, for_session: bool = False) -> AgentInfo:
        """Allow or reject the tool call that an agent waits for, and resume the agent.

        `for_session` allows the tool for the rest of the session. `RightMissing` if the tool needs a right that this
        caller does not have.
        """
        row = await self._row(agent_id)
        pending = waits_of(row)
        if not isinstance(pending, PendingApproval):
            raise Refused(f"agent {agent_id} is not waiting for an approval; it is {row.state}")
        self._fov.check_right(pending.right, f"a decision about a call of {pending.tool}")
        if for_session and not pending.can_remember:
            raise Refused(f"{pending.tool} needs approval for each call; approve it without for_session")
        grants = grants_of(row)
        if for_session and allow:
            grants = msgspec.structs.replace(grants, tools=(*grants.tools, pending.tool))
        decision = Decision(tool=pending.tool, arguments=pending.arguments, allow=allow)
        return await self._resume(row, grants, decision)

    async def answer(self, agent_id: str, text: str) -> AgentInfo:
        """Answer the question that an agent waits for, and resume the agent.

        An answer directs the agent: `RightMissing` if the agent acts with a right that this caller does not have.
        """
        row = await self._row(agent_id)
        pending = waits_of(row)
        if not isinstance(pending, PendingQuestion):
            raise Refused(f"agent {agent_id} is not waiting for an answer; it is {row.state}")
        self._fov.check_right(spec_of(row).right, f"an answer to agent {agent_id}")
        if not text.strip():
            raise InvalidMessage("answer", "has no text")
        grants = msgspec.structs.replace(grants_of(row), question=pending.question, answer=check_text("answer", text))
        return await self._resume(row, grants, None)

    async def totals(self, agent_id: str) -> AgentTotals:
        """Return how much of its limits an agent's tree has used."""
        return await self._store.agents.totals((await self._row(agent_id)).tree, self.limits)

    async def note_read(self, agent_id: str) -> None:
        """Mark an agent's result as read by the session that it works for."""
        await self._store.agents.mark_read((await self._row(agent_id)).id)

    async def of_session(self, session_id: str) -> AgentInfo | None:
        """Return the agent that works in a session; None if there is none."""
        row = await self._store.agents.of_session(stored_id(self._fov.tenant_name, session_id))
        return None if row is None else self._info(row)

    async def check_directing(self, session_id: str) -> None:
        """Raise `RightMissing` if what is written to a session directs an agent with a right that this caller lacks."""
        if self._fov.right == "admin":
            return
        agent = await self.of_session(session_id)
        if agent is not None and not agent.is_ended:
            self._fov.check_right(agent.spec.right, f"a change of the session of agent {agent.id}")

    @property
    def rows(self) -> AgentRows:
        """The stored agents, for a worker."""
        return self._store.agents

    @property
    def limits(self) -> AgentLimits:
        """The default limits of a tree, from the settings."""
        own = self._settings
        return AgentLimits(
            max_depth=own.max_depth,
            max_agents=own.max_agents,
            max_tokens=own.max_tokens,
            max_nano_usd=int(own.max_usd * NANO),
        )

    def announce(self, row: AgentRow) -> AgentInfo:
        """Publish an event with the stored state of an agent, and return its data."""
        data: dict[str, Json] = {"agent": row.id, "state": row.state, "kind": row.kind}
        shown_in = public_id(self._fov.tenant_name, row.parent_session_id or row.session_id)
        self._fov.publish(Event("agent-changed", shown_in, datetime.now(UTC), None, data))
        return self._info(row)

    async def tell(self, row: AgentRow) -> None:
        """Publish the state of an agent. If it has ended or waits for a person, also put a note on the board of the
        session that it works for."""
        info = self.announce(row)
        is_news = info.is_ended or isinstance(info.waits, PendingApproval | PendingQuestion)
        if row.parent_session_id is None or not is_news:
            return
        text = f"{info.state}: {info.result or info.problem or info.task}"
        with suppress(SessionNotFound):
            parent = await self._fov.open_session(public_id(self._fov.tenant_name, row.parent_session_id))
            await parent.engine.note("agent", f"{row.id} {row.state}", text)

    async def _complete(self, agent: AgentInfo) -> AgentInfo:
        module, name = RUNNER
        worker = getattr(importlib.import_module(module), name)(self._fov)
        await worker.run(until=agent.id)
        await self.note_read(agent.id)
        return await self.get(agent.id)

    async def _resume(self, row: AgentRow, grants: Grants, decision: Decision | None) -> AgentInfo:
        resumed = await self._store.agents.resume(
            row.id,
            expected=row.waits,
            grants=msgspec.json.encode(grants).decode(),
            decision="" if decision is None else msgspec.json.encode(decision).decode(),
        )
        return self.announce(resumed)

    async def _row(self, agent_id: str) -> AgentRow:
        row = await self._store.agents.get(agent_id)
        tenant = self._fov.tenant_name
        if tenant and row.tenant != tenant:
            raise AgentNotFound(agent_id)
        return row

    def _info(self, row: AgentRow) -> AgentInfo:
        tenant = self._fov.tenant_name
        return copied(
            AgentInfo,
            row,
            session_id=public_id(tenant, row.session_id),
            parent_session_id=row.parent_session_id and public_id(tenant, row.parent_session_id),
            tree=public_id(tenant, row.tree),
            waits=waits_of(row),
            spec=spec_of(row),
            created_at=from_us(row.created_us),
            started_at=None if row.started_us is None else from_us(row.started_us),
            ended_at=None if row.ended_us is None else from_us(row.ended_us),
            read_at=None if row.read_us is None else from_us(row.read_us),
        )

    def _new_session(self, agent_id: str, task: str, model: str | None, parent: SessionRow | None) -> NewSession:
        defaults = self._fov.settings.session
        title = " ".join(task.split())[:TITLE_CHARS]
        tenant = self._fov.tenant_name or (parent.tenant if parent else "")
        counted = model or (parent.model if parent else defaults.model)
        return NewSession(
            id=stored_id(tenant, agent_id),
            tenant=tenant,
            title=title,
            platform=parent.platform if parent else None,
            channel=parent.channel if parent else None,
            strategy=defaults.strategy,
            settings="{}",
            budget_tokens=parent.budget_tokens if parent else defaults.budget_tokens,
            budget_chosen=parent.budget_chosen if parent else 0,
            model=counted,
            encoding=counter_for(counted).encoding,
        )


def waits_of(row: AgentRow) -> Waits | None:
    """Decode what an agent waits for."""
    return msgspec.json.decode(row.waits, type=Waits) if row.waits else None


def spec_of(row: AgentRow) -> AgentSpec:
    """Decode the configuration of an agent."""
    return msgspec.json.decode(row.spec, type=AgentSpec)


def grants_of(row: AgentRow) -> Grants:
    """Decode the approvals and answers that people gave to an agent."""
    return msgspec.json.decode(row.grants, type=Grants) if row.grants else Grants()


def decision_of(row: AgentRow) -> Decision | None:
    """Decode the decision about an agent's pending tool call; only the claim that received it has one."""
    return msgspec.json.decode(row.decision, type=Decision) if row.decision else None


def _checked(spec: AgentSpec, changes: Mapping[str, Any]) -> AgentSpec:
    """Apply changes to a spec and check it. Folders become absolute, because a worker's working folder differs."""
    try:
        values = {**msgspec.structs.asdict(spec), **changes}
        made = msgspec.convert(values, AgentSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"an agent's settings: {error}") from error
    unknown = sorted(set(changes) - set(AgentSpec.__struct_fields__))
    if unknown:
        raise InputError(f"an agent has no {unknown[0]!r}; available: {', '.join(AgentSpec.__struct_fields__)}")
    roots = [Path(root).expanduser().resolve() for root in made.roots]
    missing = next((root for root in roots if not root.is_dir()), None)
    if missing is not None:
        raise InputError(f"{missing} is not a folder")
    return msgspec.structs.replace(made, roots=tuple(map(str, roots)))


def _fork_turn(row: SessionRow, fork: bool | str | int) -> int:
    if fork is False:
        return 0
    number = row.last_turn if fork is True else turn_number(fork)
    if number is None:
        raise InputError(f"{fork!r} is not a turn; ids look like T-12")
    return number


def _limits(overrides: Mapping[str, float], default: AgentLimits) -> AgentLimits:
    names: dict[str, Literal["max_depth", "max_agents", "max_tokens"]] = {
        "depth": "max_depth",
        "agents": "max_agents",
        "tokens": "max_tokens",
    }
    unknown = sorted(set(overrides) - {*names, "usd"})
    if unknown:
        raise InputError(f"there is no limit {unknown[0]!r}; available: {', '.join(names)}, usd")
    values: dict[str, int] = {names[name]: int(value) for name, value in overrides.items() if name in names}
    if "usd" in overrides:
        values["max_nano_usd"] = int(overrides["usd"] * NANO)
    return replace(default, **values)
