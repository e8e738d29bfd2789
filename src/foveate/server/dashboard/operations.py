"""Costs and cache, provider health and background work; settings with the source of each value; the doctor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from foveate.errors import SessionNotFound
from foveate.secrets import redact
from foveate.server.api.jobs import Advance
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.server.problems import ProblemError
from foveate.session.values import GATEWAY, SessionInfo, SessionStats
from foveate.settings import ExplainedSetting, explain

MAX_FINDINGS = 200
MAX_AGENTS = 500
MAX_SESSIONS = 50
"""Number of sessions in the costs, the most expensive first."""
RECENT_SESSIONS = 20
"""Number of sessions whose queues are shown."""
MAX_VALUE_CHARS = 300
DOCTOR = "doctor"
MCP_SERVERS = "tools.mcp_servers"
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
    names = {info.id: info.name for info in await visit.parts.fov.keys.list() if tenant in ("", info.tenant)}
    return visit.page(
        "costs.html",
        title="Costs",
        days=days,
        models=models,
        purposes=purposes,
        keys=keys if is_gateway else (),
        projects=projects if len(projects) > 1 else (),
        sessions=shown,
        saved_usd=sum(row.saved_usd for row in purposes),
        titles=await _titles(visit, [row.name for row in shown if row.name]) | names,
        providers=await visit.view.providers() if not visit.principal.tenant else (),
        index=await visit.view.index_state() if not visit.principal.tenant else None,
        jobs=[job.shown(visit.principal) for job in visit.parts.jobs.list(visit.principal)[:50]],
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


@pages.add("GET", f"{BASE}/settings", right="admin")
async def show_settings(visit: Visit) -> Response:
    """Show every setting with its value and source, and the doctor."""
    if visit.principal.tenant:
        raise ProblemError(403, "settings are for the owner of the store")
    doctors = [job for job in visit.parts.jobs.list(visit.principal) if job.kind == DOCTOR]
    return visit.page(
        "settings.html",
        title="Settings",
        settings=[_row(each) for each in explain(visit.view.settings)],
        location=visit.view.location,
        doctor=doctors[0] if doctors else None,
    )


@pages.add("POST", f"{BASE}/doctor", right="admin")
async def start_doctor(visit: Visit) -> Response:
    """Start a job that verifies the whole store."""

    async def work(advance: Advance) -> dict[str, Any]:
        problems: list[dict[str, str]] = []
        async for finding in visit.view.check():
            if finding.problem and len(problems) < MAX_FINDINGS:
                problems.append({"problem": finding.problem, "advice": finding.advice})
            await asyncio.sleep(0)
        advance(1)
        return {"problems": problems}

    visit.parts.jobs.start(visit.principal, DOCTOR, "", total=1, work=work)
    return visit.go(f"{BASE}/settings#doctor")


def _row(setting: ExplainedSetting) -> tuple[str, str, str, str]:
    """Return name, value, source and accepted values; secrets and MCP server environments are masked."""
    value = setting.value
    shown = sorted(value) if setting.key.name == MCP_SERVERS and isinstance(value, Mapping) else value
    text = redact(str(shown))
    return setting.key.name, text[:MAX_VALUE_CHARS], setting.source, setting.key.takes
