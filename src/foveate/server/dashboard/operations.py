"""Costs and cache, provider health and background work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from foveate.errors import SessionNotFound
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.session.values import CostRow, SessionInfo, SessionStats

MAX_AGENTS = 500
MAX_SESSIONS = 50
"""Number of sessions in the costs, the most expensive first."""
RECENT_SESSIONS = 20
"""Number of sessions whose queues are shown."""
pages = Pages()


@dataclass(slots=True)
class Total:
    """A sum of costs."""

    name: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def add(self, row: CostRow) -> None:
        self.calls += row.calls
        self.failed += row.failed + row.unfit
        self.input_tokens += row.input_tokens
        self.cached_tokens += row.cached_tokens
        self.output_tokens += row.output_tokens
        self.usd += row.usd

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / max(1, self.input_tokens)


@pages.add("GET", f"{BASE}/costs", right="read")
async def show_costs(visit: Visit) -> Response:
    """Show costs by day, model and session, and the state of providers and background work."""
    rows = await visit.view.costs()
    days = sorted(_totals(rows, lambda row: row.day), key=lambda total: total.name)
    sessions = sorted(_totals(rows, lambda row: row.session_id or ""), key=lambda total: (-total.usd, total.name))
    shown = sessions[:MAX_SESSIONS]
    return visit.page(
        "costs.html",
        title="Costs",
        days=days,
        models=sorted(_totals(rows, lambda row: f"{row.model}, {row.purpose}"), key=lambda total: -total.usd),
        sessions=shown,
        titles=await _titles(visit, [total.name for total in shown if total.name]),
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


def _totals(rows: Sequence[CostRow], key: Any) -> list[Total]:
    found: dict[str, Total] = defaultdict(lambda: Total(""))
    for row in rows:
        total = found[key(row)]
        total.name = key(row)
        total.add(row)
    return list(found.values())
