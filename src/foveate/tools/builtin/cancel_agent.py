"""`cancel_agent`: end an agent and all agents below it."""

from __future__ import annotations

from typing import Annotated

from foveate.agents.delegation import check_own, owner
from foveate.text import several
from foveate.tools.tool import Annotations, tool
from foveate.tools.workspace import Workspace


@tool(annotations=Annotations(destructive=False))
async def cancel_agent(workspace: Workspace, agent_id: Annotated[str, "Its id"]) -> str:
    """Cancel an agent that you started, and all agents that it started."""
    fov, _ = owner(workspace)
    await check_own(workspace, agent_id)
    cancelled = await fov.agents.cancel(agent_id)
    return f"Cancelled {several(len(cancelled), 'agent')}.\n"
