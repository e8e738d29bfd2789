"""`wait_agent`: the results of agents, once they have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

from foveate.agents.delegation import MAX_AGENTS_PER_WAIT, check_own, describe, owner
from foveate.agents.suspension import Suspension
from foveate.session.subagents import PendingAgents
from foveate.tools.tool import READ_ONLY, tool
from foveate.tools.workspace import Workspace

MAX_SECONDS = 3_600
DEFAULT_SECONDS = 600


@tool(annotations=READ_ONLY, timeout_seconds=MAX_SECONDS + 60.0)
async def wait_agent(
    workspace: Workspace,
    *,
    agent_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_AGENTS_PER_WAIT, description="Their ids")],
    timeout_seconds: Annotated[int, Meta(ge=0, le=MAX_SECONDS, description="Longest wait")] = DEFAULT_SECONDS,
) -> str:
    """Wait until agents have ended, and read their results. After the timeout, read their states."""
    fov, session = owner(workspace)
    found = [await check_own(workspace, agent_id) for agent_id in dict.fromkeys(agent_ids)]
    open_ids = tuple(info.id for info in found if not info.is_ended)
    boss = await fov.agents.of_session(session.id)
    # Counted from the newest message of the log, so that a wait which is resumed ends when it would have ended.
    is_agent = boss is not None and boss.state == "running"
    began = (await session.refresh()).updated_at if is_agent else datetime.now(UTC)
    until = began + timedelta(seconds=timeout_seconds)
    if is_agent and open_ids and until > datetime.now(UTC):
        # An agent does not keep its worker busy while it waits; the call is executed again when one of these has ended,
        # or after the timeout.
        raise Suspension(PendingAgents(agents=open_ids, until=until))
    texts = []
    for info in found:
        left = (until - datetime.now(UTC)).total_seconds()
        ended = await fov.agents.wait(info.id, timeout_seconds=max(0.0, left))
        if ended.is_ended:
            await fov.agents.note_read(ended.id)
            await session.dismiss(f"{ended.id} {ended.state}")
        texts.append(describe(ended))
    return "\n".join(texts)
