"""The common part of tools with which a model starts agents: a child has no more rights than its parent."""

from __future__ import annotations

from foveate.client import Foveate
from foveate.context.tools import HISTORY_TOOLS
from foveate.session import Session
from foveate.session.documents import PACK
from foveate.session.subagents import AgentInfo, AgentSpec, PendingApproval, PendingQuestion
from foveate.tools import packs
from foveate.tools.tool import ToolError
from foveate.tools.workspace import Workspace

MAX_AGENTS_PER_WAIT = 100


async def child_spec(workspace: Workspace, pack: str | None) -> AgentSpec:
    """Return a child's spec: its parent's folders and approvals, and the parent's packs or one within them."""
    fov, session = owner(workspace)
    boss = await fov.agents.of_session(session.id)
    own = boss.spec.packs if boss else tuple((await session.documents.get(PACK)).split(","))
    chosen = own if pack is None else (pack,)
    if pack is not None:
        allowed = {*(workspace.toolbox.tools if workspace.toolbox else ()), *HISTORY_TOOLS}
        more = sorted({*packs.tools_of(pack, workspace.settings.packs)} - allowed - {"exec"})
        if more:
            raise ToolError(f"the pack {pack!r} has tools that you don't have: {', '.join(more)}")
    return AgentSpec(
        model=boss.spec.model if boss else session.info.model,
        packs=tuple(name for name in chosen if name),
        roots=tuple(map(str, workspace.roots)),
        allow_exec=workspace.allow_exec,
        allow_unsandboxed=workspace.allow_unsandboxed,
        mcp_servers=workspace.mcp_servers if pack is None else (),
        approved=workspace.toolbox.granted() if workspace.toolbox else (),
    )


def owner(workspace: Workspace) -> tuple[Foveate, Session]:
    """Return the store and the session that a tool works for."""
    if workspace.fov is None or workspace.session is None:
        raise ToolError("agents work for a session, and no session was given")
    return workspace.fov, workspace.session


async def check_own(workspace: Workspace, agent_id: str) -> AgentInfo:
    """Check that an agent is below the session that waits for or cancels it. So no two agents wait for each other."""
    fov, session = owner(workspace)
    boss = await fov.agents.of_session(session.id)
    info = await fov.agents.get(agent_id)
    is_below = info.tree == session.id if boss is None else await _is_below(fov, info, boss)
    if not is_below:
        raise ToolError(f"there is no agent {agent_id!r} of yours")
    return info


async def _is_below(fov: Foveate, info: AgentInfo, boss: AgentInfo) -> bool:
    while info.parent is not None and info.depth > boss.depth:
        if info.parent == boss.id:
            return True
        info = await fov.agents.get(info.parent)
    return False


def describe(info: AgentInfo) -> str:
    """Describe an agent's state and result for a model."""
    match info.waits:
        case PendingApproval(tool=tool):
            return f"{info.id} waits until a person approves a call of {tool}.\n"
        case PendingQuestion(question=question):
            return f"{info.id} waits for a person to answer: {question}\n"
    if info.state == "done":
        return f"{info.id} is done. Its result:\n{info.result}\n"
    return f"{info.id} is {info.state}{f': {info.problem}' if info.problem else ''}.\n"
