"""`/agents`: agents that work in the background, run by the server's own worker or any other on the same store."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.errors import InputError
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.session.subagents import AgentInfo

routes = Endpoints("agents")
Text = Annotated[str, Meta(min_length=1)]
State = Literal["queued", "running", "waiting", "done", "failed", "cancelled", "lost"]


class AgentList(ItemList[AgentInfo], frozen=True):
    """Agents, newest first."""


class AgentsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list."""

    state: State | None = None
    session: str | None = None
    """Only agents of this session."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class AgentBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent to start. Its tools are confined to the folders that the server's settings name (`agents.roots`)."""

    task: str = ""
    prompt: str | None = None
    """The key of a stored prompt, instead of `task`."""
    variables: dict[str, str] = {}
    """Values for the stored prompt."""
    kind: Literal["call", "run"] = "run"
    """`call`: one prompt and its answer. `run`: until the model reports that the task is done."""
    session: str | None = None
    """The session that the agent works for."""
    fork: bool = False
    """Whether the agent sees that session's turns."""
    model: str | None = None
    """A model that is configured for chats. Default: the first."""
    packs: tuple[Text, ...] = ()
    mcp_servers: tuple[Text, ...] = ()
    """MCP servers of the server's settings (`tools.mcp_servers`), by name; for a key with the right `admin` and without
    a tenant."""
    system: str = ""
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Token limit of the agent and all agents below it, up to the limit of the server's settings."""
    max_usd: Annotated[float, Meta(ge=0)] | None = None


class ApprovalBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision about the tool call that an agent waits for."""

    allow: bool
    for_session: bool = False
    """Do not ask about this tool again."""


class AnswerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to the question that an agent is waiting on."""

    text: Text


@routes.add("GET", "/agents", right="read")
async def list_agents(call: Call, query: AgentsQuery) -> AgentList:
    """List the agents, newest first."""
    found = await call.view.agents.list(state=query.state, parent=query.session, limit=query.limit)
    return AgentList(items=list(found))


@routes.add("GET", "/agents/{agent}", right="read")
async def get_agent(call: Call, agent: str) -> AgentInfo:
    """Get an agent: its state, what it waits for, and its result."""
    return await call.view.agents.get(agent)


@routes.add("POST", "/agents", right="write", status=201)
async def spawn_agent(call: Call, body: AgentBody) -> AgentInfo:
    """Start an agent in the background, with a task or a stored prompt. It has the tools of its packs that this key may
    call by `POST /tools/{tool}/call`. 409 if a limit of its tree is reached, 422 if variables of the prompt are missing
    or unknown."""
    models = call.view.models_for("chat")
    if body.model is not None and body.model not in models:
        known = ", ".join(models) or "none; set models.chat"
        raise InputError(f"the model {body.model!r} is not configured for chats; available: {known}")
    if body.fork and body.session is None:
        raise InputError("fork needs session, the session whose turns the agent sees")
    task = await _task(call, body)
    settings = call.parts.fov.settings.agents
    given = {"tokens": body.max_tokens, "usd": body.max_usd}
    most = {"tokens": settings.max_tokens, "usd": settings.max_usd}
    limits = {name: min(value, most[name]) for name, value in given.items() if value is not None}
    return await call.view.agents.spawn(
        task,
        kind=body.kind,
        parent=body.session,
        fork=body.fork,
        limits=limits or None,
        model=body.model,
        packs=body.packs,
        mcp_servers=body.mcp_servers,
        system=body.system,
        max_output_tokens=body.max_output_tokens,
        # Tenants must not share folders.
        roots=() if call.principal.tenant else settings.roots,
    )


async def _task(call: Call, body: AgentBody) -> str:
    """Return the task, or the stored prompt with its variables, after checking them."""
    if (body.prompt is None) == (not body.task.strip()):
        raise InputError("give either a task or the key of a stored prompt")
    if body.prompt is not None:
        return await call.view.prompts.render(body.prompt, **body.variables)
    if body.variables:
        raise InputError("variables are for a stored prompt; give its key as 'prompt'")
    return body.task


@routes.add("POST", "/agents/{agent}/cancel", right="write")
async def cancel_agent(call: Call, agent: str) -> AgentList:
    """Cancel an agent and all agents below it, including calls in progress; return those that were cancelled."""
    return AgentList(items=list(await call.view.agents.cancel(agent)))


@routes.add("POST", "/agents/{agent}/approval", right="write")
async def decide_call(call: Call, agent: str, body: ApprovalBody) -> AgentInfo:
    """Approve or deny the tool call that an agent waits for, and resume it. 403 if the key may not call that tool, 409
    if the agent waits for none."""
    return await call.view.agents.approve(agent, allow=body.allow, for_session=body.for_session)


@routes.add("POST", "/agents/{agent}/answer", right="write")
async def answer_agent(call: Call, agent: str, body: AnswerBody) -> AgentInfo:
    """Answer the question that an agent is waiting on, and resume it. 403 if the agent was started with a right that
    the key does not have, 409 if there is no question."""
    return await call.view.agents.answer(agent, body.text)
