"""Costs and cache, provider health and background work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from starlette.responses import Response

from foveate.errors import SessionNotFound
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.session.values import GATEWAY, SessionInfo, SessionStats

MAX_AGENTS = 500
MAX_SESSIONS = 50
"""Number of sessions in the costs, the most expensive first."""
RECENT_SESSIONS = 20
"""Number of sessions whose queues are shown."""
pages = Pages()


@pages.add("GET", f"{BASE}/costs", right="read")
async def show_costs(visit: Visit) -> Response:
    """Show costs by day, purpose, model, key, project and session, and the state of providers and background work."""
    view = visit.view
    days, models, purposes = [await view.spending(by) for by in ("day", "model", "purpose")]
    keys, projects, sessions = [await view.spending(by) for by in ("key", "project", "session")]
    shown = sessions[:MAX_SESSIONS]
    is_gateway = any(row.name == GATEWAY for row in purposes)
    tenant = visit.principal.tenant
    known = [info for info in await visit.parts.fov.keys.list() if tenant in ("", info.tenant)]
    names = {info.id: info.name for info in known}
    return visit.page(
        "costs.html",
        title="Costs",
        days=days,
        today=datetime.now(UTC).date().isoformat(),
        models=models,
        purposes=purposes,
        keys=keys if is_gateway else (),
        projects=projects if len(projects) > 1 else (),
        sessions=shown,
        budgets=[info for info in known if info.use is not None and info.revoked_at is None],
        titles=await _titles(visit, [row.name for row in shown if row.name]) | names,
        providers=await view.providers() if not tenant else (),
        index=await view.index_state() if not tenant else None,
        jobs=[job.shown(visit.principal) for job in visit.parts.jobs.list(visit.principal)[:50]],
        workers=Counter(one.kind for one in (await view.queue_state()).workers) if not tenant else None,
        queues=await _queues(visit, await visit.view.sessions(limit=RECENT_SESSIONS)),
        agents=Counter(agent.state for agent in await visit.view.agents.list(limit=MAX_AGENTS)),
    )


async def _titles(visit: Visit, session_ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of the sessions that exist."""
    found = {}
    for session_id in session_ids:
        with suppress(SessionNotFound):
            info = (await visit.view.open_session(session_id)).info
            found[session_id] = info.title or info.id
    return found


async def _queues(visit: Visit, recent: Sequence[SessionInfo]) -> list[tuple[SessionInfo, SessionStats]]:
    """Return the recently used sessions with pending compression or turns queued for a model."""
    found = []
    for info in recent:
        stats = await (await visit.view.open_session(info.id)).stats()
        if stats.pending or stats.waiting:
            found.append((info, stats))
    return found
