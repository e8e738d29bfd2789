"""The first page: sessions by project, their forks and sub-agents folded, and a search over everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from foveate.client import Foveate
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.server.problems import HOME_PATH as HOME
from foveate.session.address import short_ids
from foveate.session.values import Hit, SessionInfo

PAGE_SIZE = 50
MAX_HITS = 60
MAX_QUERY_CHARS = 500
pages = Pages()


@dataclass(frozen=True, slots=True)
class Row:
    """A session in the list, with those that it was forked into."""

    info: SessionInfo
    short_id: str
    below: tuple[SessionInfo, ...]


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The hits of one session."""

    info: SessionInfo
    hits: tuple[Hit, ...]


@pages.add("GET", HOME, right="read")
async def list_sessions(visit: Visit) -> Response:
    """The sessions, the most recently used first."""
    found = await visit.view.sessions()
    project = visit.query("project")
    projects = sorted({info.project for info in found if info.project}, key=str.casefold)
    shown = [info for info in found if not project or info.is_of_project(project)]
    start = _offset(visit)
    rows = _rows(shown)
    values = {
        "rows": rows[start : start + PAGE_SIZE],
        "next": start + PAGE_SIZE if start + PAGE_SIZE < len(rows) else None,
        "project": project,
        "projects": projects,
        "total": len(shown),
    }
    if visit.is_fragment:
        return visit.part("session_rows.html", values=values)
    return visit.page("sessions.html", title="Sessions", values=values)


@pages.add("GET", f"{BASE}/search", right="read")
async def search(visit: Visit) -> Response:
    """Turns of all sessions that match, grouped by session."""
    query = visit.query("q").strip()[:MAX_QUERY_CHARS]
    groups = await _groups(visit.view, query) if query else []
    missing = await visit.view.unsearched_turns() if query else 0
    values = {"query": query, "groups": groups, "missing": missing}
    if visit.is_fragment:
        return visit.part("hits.html", values=values)
    return visit.page("search.html", title="Search", values=values)


async def _groups(view: Foveate, query: str) -> list[HitGroup]:
    infos = {info.id: info for info in await view.sessions()}
    hits: dict[str, list[Hit]] = {}
    for hit in await view.search(query, MAX_HITS):
        hits.setdefault(hit.session_id, []).append(hit)
    return [HitGroup(infos[name], tuple(own)) for name, own in hits.items() if name in infos]


def _rows(infos: Sequence[SessionInfo]) -> list[Row]:
    """The sessions in their order, each with all that were forked from it, directly or not."""
    known = {info.id: info for info in infos}
    short = short_ids(known)
    below: dict[str, list[SessionInfo]] = {}
    tops = []
    for info in infos:
        top = _top(info, known)
        if top is info:
            tops.append(info)
        else:
            below.setdefault(top.id, []).append(info)
    return [Row(info, short[info.id], tuple(below.get(info.id, ()))) for info in tops]


def _top(info: SessionInfo, known: Mapping[str, SessionInfo]) -> SessionInfo:
    while info.parent_id is not None and info.parent_id in known:
        info = known[info.parent_id]
    return info


def _offset(visit: Visit) -> int:
    given = visit.query("offset", "0")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0  # noqa: PLR2004
