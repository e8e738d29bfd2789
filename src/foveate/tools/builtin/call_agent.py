"""`call_agent`: ask another model one thing, in a session of its own, and get its answer."""

from __future__ import annotations

from typing import Annotated

from foveate.agents.delegation import child_spec, describe, owner
from foveate.tools.tool import Annotations, ToolOutput, tool
from foveate.tools.workspace import Workspace

TIMEOUT_SECONDS = 3_600.0


@tool(annotations=Annotations(destructive=False), timeout_seconds=TIMEOUT_SECONDS)
async def call_agent(
    workspace: Workspace,
    *,
    prompt: Annotated[str, "What to ask; it sees nothing else"] = "",
    prompt_key: Annotated[str | None, "A stored prompt to use instead"] = None,
    variables: Annotated[dict[str, str] | None, "Values for the stored prompt"] = None,
    pack: Annotated[str | None, "Pack of tools; default: yours"] = None,
) -> ToolOutput:
    """Ask an agent one thing in a session of its own, and wait for its answer."""
    fov, session = owner(workspace)
    ended = await fov.agents.call(
        prompt,
        prompt_key=prompt_key,
        variables=variables,
        parent=session.id,
        spec=await child_spec(workspace, pack),
    )
    if ended.state == "done":
        return ToolOutput(ended.result or "")
    return ToolOutput(f"Error: {describe(ended)}", is_error=True)
