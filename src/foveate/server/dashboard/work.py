"""Agents as a tree, and the file cabinet."""

from __future__ import annotations

from starlette.responses import Response

from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit, descend, url, whole_number
from foveate.session.subagents import AgentInfo

MAX_AGENTS = 500
LINES = 200
pages = Pages()


@pages.add("GET", f"{BASE}/agents", right="read")
async def show_agents(visit: Visit) -> Response:
    """List the agents, grouped by tree."""
    agents = await visit.view.agents.list(limit=MAX_AGENTS)
    known = {agent.id for agent in agents}
    below: dict[str, list[AgentInfo]] = {}
    for agent in agents:
        below.setdefault(agent.parent if agent.parent in known else "", []).append(agent)
    nodes = [(agent, depth - 1) for agent, depth in descend("", below)]
    return visit.part_or_page("agent_table.html", "agents.html", title="Agents", nodes=nodes)


@pages.add("POST", f"{BASE}/agents/{{agent}}/{{action}}", right="write")
async def change_agent(visit: Visit, agent: str, action: str) -> Response:
    """Cancel an agent, approve or deny its tool call, or answer its question."""
    agents = visit.view.agents
    if action == "answer":
        await agents.answer(agent, (await visit.form()).get("text", ""))
    elif action in ("approve", "refuse"):
        await agents.approve(agent, allow=action == "approve")
    else:
        await agents.cancel(agent)
    return visit.go(f"{BASE}/agents")


@pages.add("GET", f"{BASE}/cabinet", right="read")
async def list_cabinet(visit: Visit) -> Response:
    """List the keys of the file cabinet."""
    return visit.page("cabinet.html", title="Cabinet", entries=(await visit.view.cabinet.list())[:1_000])


@pages.add("GET", f"{BASE}/cabinet/{{key}}", right="read")
async def show_file(visit: Visit, key: str) -> Response:
    """Show lines of a file."""
    first = whole_number(visit.query("from"), "from") or 1
    entry = await visit.view.cabinet.entry(key)
    excerpt = await visit.view.cabinet.excerpt(key, first, LINES)
    return visit.page("file.html", title=entry.name or key, entry=entry, excerpt=excerpt, first=first, step=LINES)


@pages.add("GET", f"{BASE}/cabinet/{{key}}/content", right="read")
async def download_file(visit: Visit, key: str) -> Response:
    """Send the whole file as a download, regardless of its media type."""
    content = await visit.view.cabinet.content(key)
    headers = {**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{url(key)}"}
    return Response(content, headers=headers, media_type="application/octet-stream")
