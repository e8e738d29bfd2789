"""The home page: sessions by project with their forks and sub-agents, and a search over all sessions."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from foveate.client import Foveate
from foveate.errors import SessionNotFound
from foveate.server.api.events import event_response, event_stream
from foveate.server.dashboard.page import BASE, HEADERS, Form, Pages, Visit, descend, session_path
from foveate.server.problems import HOME_PATH as HOME
from foveate.session.address import parent_id, short_ids
from foveate.session.values import Hit, SessionInfo
from foveate.settings import strategy_names

PAGE_SIZE = 50
MAX_BELOW = 100
"""Maximum number of listed forks and sub-agents per session."""
MAX_HITS = 60
MAX_QUERY_CHARS = 500
ROLES = ("user", "assistant", "tool", "system")
FILTERS = ("role", "tool", "after", "before", "file")
SCORED = "checkpoint"
"""The strategy whose sessions have a reliability score."""
pages = Pages()


@dataclass(frozen=True, slots=True)
class Row:
    """A session in the list, with its forks and sub-agents."""

    info: SessionInfo
    short_id: str
    below: tuple[tuple[SessionInfo, int], ...]
    """Forks and sub-agents, each with its depth below the session."""
    total_below: int
    usd: float
    reliability: str


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The hits of one session."""

    info: SessionInfo
    hits: tuple[Hit, ...]


@pages.add("GET", HOME, right="read")
async def list_sessions(visit: Visit) -> Response:
    """List the sessions, most recently used first."""
    found = await visit.view.sessions()
    project = visit.query("project")
    projects = sorted({info.project for info in found if info.project}, key=str.casefold)
    shown = [info for info in found if not project or info.is_of_project(project)]
    start = _offset(visit)
    tops, below = _family(shown)
    part = tops[start : start + PAGE_SIZE]
    costs = await _costs(visit.view)
    return visit.part_or_page(
        "session_rows.html",
        "sessions.html",
        title="Sessions",
        rows=await _rows(visit.view, part, below, [info.id for info in found], costs),
        has_costs=any(costs.values()),
        has_scores=any(info.strategy == SCORED for info in found),
        next=start + PAGE_SIZE if start + PAGE_SIZE < len(tops) else None,
        project=project,
        projects=projects,
        total=len(shown),
        strategies=strategy_names(),
        default_strategy=visit.view.settings.session.strategy,
    )


@pages.add("GET", f"{BASE}/events", right="read")
async def stream_events(visit: Visit) -> Response:
    """Stream the store's events to open pages; browsers reconnect and resume automatically."""
    return event_response(event_stream(visit), HEADERS)


@pages.add("POST", f"{BASE}/sessions", right="write")
async def create_session(visit: Visit, form: Form) -> Response:
    """Create a session, or open the existing one of this name."""
    name = form.get("name", "").strip() or f"chat-{secrets.token_hex(4)}"
    try:
        found = await visit.view.open_session(name)
    except SessionNotFound:
        project = form.get("project", "").strip()
        found = await visit.view.session(name, strategy=form.get("strategy") or None, channel=project or None)
    return visit.go(session_path(found.id))


@pages.add("GET", f"{BASE}/search", right="read")
async def search(visit: Visit) -> Response:
    """Search all sessions, and group the hits by session."""
    query = visit.query("q").strip()[:MAX_QUERY_CHARS]
    chosen = {name: visit.query(name).strip()[:MAX_QUERY_CHARS] for name in FILTERS}
    project = visit.query("project")
    return visit.part_or_page(
        "hits.html",
        "search.html",
        title="Search",
        query=query,
        groups=await _groups(visit.view, query, chosen, project) if query else [],
        missing=await visit.view.unsearched_turns() if query else 0,
        chosen=chosen,
        project=project,
        roles=ROLES,
    )


async def _groups(view: Foveate, query: str, chosen: Mapping[str, str], project: str) -> list[HitGroup]:
    ids = {info.id for info in await view.sessions() if info.is_of_project(project)} if project else None
    wanted = {name: value for name, value in chosen.items() if value}
    hits: dict[str, list[Hit]] = {}
    for hit in await view.search(query, MAX_HITS, session_ids=ids, **wanted):
        hits.setdefault(hit.session_id, []).append(hit)
    found = []
    for name, own in hits.items():
        try:
            found.append(HitGroup((await view.open_session(name)).info, tuple(own)))
        except SessionNotFound:  # deleted in the meantime
            continue
    return found


def _family(infos: Sequence[SessionInfo]) -> tuple[list[SessionInfo], dict[str, list[SessionInfo]]]:
    """Return the sessions without a listed parent, in order, and the others by parent."""
    known = {info.id: info for info in infos}
    below: dict[str, list[SessionInfo]] = {}
    tops = []
    for info in infos:
        parent = info.parent_id if info.parent_id in known else parent_id(info.id, known)
        if parent is None:
            tops.append(info)
        else:
            below.setdefault(parent, []).append(info)
    return tops, below


async def _costs(view: Foveate) -> Mapping[str, float]:
    """Return what each session cost, in dollars."""
    usd: dict[str, float] = {}
    for row in await view.costs():
        if row.session_id:
            usd[row.session_id] = usd.get(row.session_id, 0.0) + row.usd
    return usd


async def _rows(
    view: Foveate,
    tops: Sequence[SessionInfo],
    below: Mapping[str, Sequence[SessionInfo]],
    ids: Sequence[str],
    usd: Mapping[str, float],
) -> list[Row]:
    short = short_ids(ids, of=[info.id for info in tops])
    rows = []
    for info in tops:
        children = list(descend(info.id, below))
        cost = sum(usd.get(one.id, 0.0) for one in (info, *(child for child, _ in children)))
        score = await view.reliability(info.id) if info.strategy == SCORED else None
        reliability = f"{score.score:.2f} {score.level}" if score else ""
        rows.append(Row(info, short[info.id], tuple(children[:MAX_BELOW]), len(children), cost, reliability))
    return rows


def _offset(visit: Visit) -> int:
    given = visit.query("offset", "0")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0  # noqa: PLR2004
