"""Review of knowledge: approve, edit, pin or retire items, with their sources and versions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from starlette.responses import Response

from foveate.knowledge.run import learn
from foveate.server.dashboard.page import BASE, Form, Pages, Visit, url
from foveate.server.problems import ProblemError
from foveate.session.knowledge import KNOWLEDGE_KINDS as KINDS
from foveate.session.knowledge import KNOWLEDGE_STATES as STATES
from foveate.session.knowledge import KnowledgeItem, KnowledgeKind

MAX_ITEMS = 500
MAX_REJECTED = 50
pages = Pages()


@pages.add("GET", f"{BASE}/knowledge", right="read")
async def list_knowledge(visit: Visit) -> Response:
    """List the items, those to review first."""
    kind, state = visit.query("kind"), visit.query("state")
    items = await visit.view.knowledge.list(
        scope=visit.query("scope") or None,
        kind=next((name for name in KINDS if name == kind), None),
        state=next((name for name in STATES if name == state), None),
    )
    shown = sorted(items, key=lambda item: (STATES.index(item.state), KINDS.index(item.kind), -item.weight, item.id))
    return visit.page(
        "knowledge.html",
        title="Knowledge",
        items=shown[:MAX_ITEMS],
        total=len(shown),
        kinds_of_items=KINDS,
        states=STATES,
        kind=kind,
        state=state,
        news=None if kind or state else await visit.view.knowledge.news(),
        rejected=await visit.view.knowledge.rejected(limit=MAX_REJECTED),
        projects=await projects_of(visit),
        error=visit.query("error"),
    )


async def projects_of(visit: Visit) -> Sequence[str]:
    """List the scopes that a reference may be added to."""
    sessions = await visit.view.sessions()
    return sorted({f"project:{each.channel or ''}" for each in sessions} | {"project:"})


@pages.add("POST", f"{BASE}/knowledge", right="write")
async def add_or_learn(visit: Visit, form: Form) -> Response:
    """Learn from new turns, or add a reference that a person wrote."""
    if form.get("action") == "learn":
        await learn(visit.view, quick=True)
        return visit.go(f"{BASE}/knowledge")
    kind: KnowledgeKind = "lesson" if form.get("kind") == "lesson" else "reference"
    title, text = form.get("title", ""), form.get("text", "")
    item = await visit.view.knowledge.add(title, text, scope=form.get("scope", "project:"), kind=kind)
    return visit.go(f"{BASE}/knowledge/{url(item.id)}")


@pages.add("GET", f"{BASE}/knowledge/{{item}}", right="read")
async def show_item(visit: Visit, item: str) -> Response:
    """Show an item with its sources and the changes between its versions."""
    versions = await visit.view.knowledge.versions(item)
    return visit.page(
        "knowledge_item.html",
        title=versions[-1].title,
        item=versions[-1],
        sources=[source.rpartition("/") for source in versions[-1].sources],
        changes=list(_changes(versions)),
        earlier=await visit.view.knowledge.earlier(item),
    )


@pages.add("POST", f"{BASE}/knowledge/{{item}}/{{action}}", right="write")
async def change_item(visit: Visit, item: str, action: str, form: Form) -> Response:
    """Approve, pin, retire or edit an item; a change is stored as a new version."""
    knowledge = visit.view.knowledge
    if action == "edit":
        await knowledge.edit(item, title=form.get("title"), text=form.get("text"))
    elif action == "retire":
        await knowledge.retire(item, reason=form.get("reason") or "rejected in the dashboard")
    elif action in ("approve", "pin"):
        await (knowledge.approve if action == "approve" else knowledge.pin)(item)
    else:
        raise ProblemError(404, f"there is no action {action[:50]!r}; available: approve, edit, pin, retire")
    return visit.go(f"{BASE}/knowledge/{url(item)}" if action == "edit" else f"{BASE}/knowledge")


def _changes(versions: Sequence[KnowledgeItem]) -> list[tuple[KnowledgeItem, list[str]]]:
    """Return each version with the lines that it changed, newest first."""
    found = []
    for place, version in enumerate(versions):
        before = versions[place - 1].text if place else ""
        lines = difflib.unified_diff(before.splitlines(), version.text.splitlines(), lineterm="", n=1)
        found.append((version, [line for line in lines if not line.startswith(("---", "+++", "@@"))]))
    return found[::-1]
