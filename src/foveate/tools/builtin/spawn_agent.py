"""`spawn_agent`: let an agent work on a task in the background."""

from __future__ import annotations

from typing import Annotated

from foveate.agents.delegation import child_spec, owner
from foveate.tools.tool import Annotations, tool
from foveate.tools.workspace import Workspace


@tool(annotations=Annotations(destructive=False))
async def spawn_agent(
    workspace: Workspace,
    *,
    task: Annotated[str, "What to do and what to report"],
    pack: Annotated[str | None, "Pack of tools; default: yours"] = None,
    shares_history: Annotated[bool, "Whether it sees this conversation so far"] = False,
) -> str:
    """Start an agent that works on a task in the background. wait_agent gets its result."""
    fov, session = owner(workspace)
    spec = await child_spec(workspace, pack)
    turns = (await session.refresh()).turns
    made = await fov.agents.spawn(task, parent=session.id, fork=shares_history and turns > 0, spec=spec)
    return f"Started {made.id}. Call wait_agent for its result; you can do other work before.\n"
