"""Review of knowledge: what is new, what needs a decision, what is in force, and what was rejected and why.

Every item is on the page once: a proposal under `new` if it was learned since yesterday, otherwise under `decide`, a
confirmed item under `force`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Literal

from starlette.responses import Response

from foveate.knowledge.run import learn
from foveate.server.dashboard.page import BASE, Form, Pages, Visit, url
from foveate.server.problems import ProblemError
from foveate.session.knowledge import KNOWLEDGE_KINDS as KINDS
from foveate.session.knowledge import KnowledgeItem, KnowledgeKind, RejectedProposal
from foveate.text import several

PAGE_ITEMS = 5
"""Items of a list before `Show more`."""
MAX_REPLACED = 5
MAX_REJECTED = 50
MAX_TOPICS = 100
MAX_TEXT_CHARS = 400
MAX_CHOICES = 500
"""Number of sessions, most recently used first, whose projects a reference may be added to."""
NO_PROJECT = "no project"
PERSON = "person"
"""The maker of what a person wrote or decided."""
FORMS = ("rule", "preference", "convention", "decision", "fact")
"""Forms of statements in the order in which they are listed."""
PLURALS = {"profile": "profile", "preference": "preferences"}
ENDINGS = {"approve": "Approved", "pin": "Pinned", "retire": "Rejected"}
Section = Literal["new", "decide", "force"]
SECTIONS: Mapping[str, Section] = {"new": "new", "decide": "decide", "force": "force"}
pages = Pages()


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item of a list."""

    item: KnowledgeItem
    since: datetime

    @property
    def key(self) -> tuple[int, int, float, str]:
        """Its place in a list, which a decision does not change: statements first, the heaviest of each kind first."""
        item = self.item
        form = FORMS.index(item.form) if item.form in FORMS else len(FORMS)
        return (form, KINDS.index(item.kind), -item.weight, item.id)

    @property
    def name(self) -> str:
        """The title, or the whole text if it begins with the title."""
        title, text = self.item.title, self.item.text.strip()
        return text[:MAX_TEXT_CHARS] if text.startswith(title.rstrip("…")) else title

    @property
    def more(self) -> str:
        """What the text says besides the name."""
        text = self.item.text.strip()
        return "" if text.startswith(self.name) else text[:MAX_TEXT_CHARS]

    @property
    def is_cut(self) -> bool:
        return len(self.item.text.strip()) > MAX_TEXT_CHARS

    @property
    def kind(self) -> str:
        return self.item.form or self.item.kind

    @property
    def kinds(self) -> str:
        """The heading of its kind."""
        return (PLURALS.get(self.kind) or f"{self.kind}s").capitalize()

    @property
    def project(self) -> str:
        return scope_name(self.item.scope)

    @property
    def age(self) -> str:
        """`new` or `changed` if it was learned since yesterday."""
        if self.item.created < self.since:
            return ""
        return "new" if self.item.version == 1 else "changed"

    @property
    def source(self) -> tuple[str, str] | None:
        """The session and turn of the newest source."""
        session, _, turn = self.item.sources[-1].rpartition("/") if self.item.sources else ("", "", "")
        return (session, turn) if session else None


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a list, and what comes after it."""

    section: Section
    scope: str
    rows: tuple[ShownItem, ...]
    before: ShownItem | None
    """The last item of the part before this one."""
    left: int

    @property
    def next(self) -> str:
        """The query of the next part; empty if this is the last one."""
        if not self.left:
            return ""
        scope = f"&scope={url(self.scope)}" if self.scope else ""
        return f"?section={self.section}{scope}&after={url(self.rows[-1].item.id)}"

    @property
    def kinds(self) -> list[tuple[str, tuple[ShownItem, ...]]]:
        """The rows by kind; no heading where the part before ended with this kind."""
        last = self.before.kinds if self.before else ""
        return [("" if name == last else name, tuple(rows)) for name, rows in groupby(self.rows, lambda row: row.kinds)]


@dataclass(frozen=True, slots=True)
class ShownProject:
    """What is in force in a project."""

    name: str
    counts: str
    part: ShownPart


@dataclass(frozen=True, slots=True)
class Rejection:
    """What was proposed and is not used, and why."""

    title: str
    note: str
    reason: str
    at: datetime
    id: str = ""
    """Id of the retired item; empty for a proposal that was never stored."""


@pages.add("GET", f"{BASE}/knowledge", right="read")
async def list_knowledge(visit: Visit) -> Response:
    """Show what is new, what needs a decision, what is in force and what was rejected; or the next part of a list."""
    knowledge = visit.view.knowledge
    scope = visit.query("scope") or None
    news = await knowledge.news(scope=scope)
    every = await knowledge.list(scope=scope, state="all")
    items = [ShownItem(item, news.since) for item in every if item.kind != "topic"]
    lists = _lists(items)
    section = SECTIONS.get(visit.query("section"))
    if section:
        before = next((one for one in items if one.item.id == visit.query("after")), None)
        part = _part(section, scope or "", lists[section], before)
        return visit.part_or_page("knowledge_rows.html", "knowledge_list.html", title="Knowledge", shown=part)
    retired = [one for one in items if one.item.state == "retired"]
    topics = [item for item in every if item.kind == "topic" and item.state != "retired"]
    found = every if scope is None else await knowledge.list(state="all")
    return visit.page(
        "knowledge.html",
        title="Knowledge",
        scope=scope or "",
        scopes={each: scope_name(each) for each in sorted({item.scope for item in found})},
        news=news,
        replaced=news.replaced[:MAX_REPLACED],
        parts={name: _part(name, scope or "", lists[name]) for name in ("new", "decide")},
        totals={name: len(rows) for name, rows in lists.items()},
        projects=_by_project(lists["force"]),
        topics=_topics(topics),
        total_topics=len(topics),
        rejections=await _rejections(visit, retired, await knowledge.rejected(scope=scope, limit=MAX_REJECTED)),
        choices=await projects_of(visit) if visit.principal.may("write") else (),
    )


def scope_name(scope: str) -> str:
    """Name a scope for people: a project by its name, another scope with its kind."""
    kind, _, name = scope.partition(":")
    return (name or NO_PROJECT) if kind == "project" else f"{kind} {name}"


def _lists(items: Iterable[ShownItem]) -> dict[Section, list[ShownItem]]:
    found: dict[Section, list[ShownItem]] = {"new": [], "decide": [], "force": []}
    for one in sorted(items, key=lambda one: one.key):
        if one.item.state == "proposed":
            found["new" if one.age else "decide"].append(one)
        elif one.item.state != "retired":
            found["force"].append(one)
    return found


def _part(section: Section, scope: str, rows: Sequence[ShownItem], before: ShownItem | None = None) -> ShownPart:
    """Return the part of a list behind an item."""
    left = [row for row in rows if before is None or row.key > before.key]
    return ShownPart(section, scope, tuple(left[:PAGE_ITEMS]), before, max(0, len(left) - PAGE_ITEMS))


def _by_project(rows: Sequence[ShownItem]) -> list[ShownProject]:
    projects: dict[str, list[ShownItem]] = {}
    for row in rows:
        projects.setdefault(row.item.scope, []).append(row)
    found = []
    for scope, own in sorted(projects.items(), key=lambda each: (each[0] == "project:", each[0])):
        counts = ", ".join(several(count, kind) for kind, count in Counter(row.kind for row in own).items())
        found.append(ShownProject(scope_name(scope), counts, _part("force", scope, own)))
    return found


def _topics(topics: Sequence[KnowledgeItem]) -> dict[str, list[KnowledgeItem]]:
    """Return the heaviest topics by project."""
    found: dict[str, list[KnowledgeItem]] = {}
    for item in sorted(topics, key=lambda item: (-item.weight, item.id))[:MAX_TOPICS]:
        found.setdefault(scope_name(item.scope), []).append(item)
    return dict(sorted(found.items()))


async def _rejections(
    visit: Visit, retired: Sequence[ShownItem], proposals: Sequence[RejectedProposal]
) -> list[Rejection]:
    """List the newest retired items and rejected proposals, each with its reason."""
    newest = sorted(retired, key=lambda one: one.item.created, reverse=True)[:MAX_REJECTED]
    histories = await visit.view.knowledge.histories(one.item.id for one in newest)
    found = [
        Rejection(each.title, f"{each.kind}, {scope_name(each.scope)}, proposed by a model", each.reason, each.at)
        for each in proposals
    ]
    for one in newest:
        before = histories[one.item.id][-2:-1]
        who = "rejected by a person" if one.item.maker == PERSON else "retired by a run"
        note = f"{one.kind}, {one.project}, {who}"
        found.append(Rejection(one.name, note, before[0].reason if before else "", one.item.created, one.item.id))
    return sorted(found, key=lambda each: each.at, reverse=True)[:MAX_REJECTED]


async def projects_of(visit: Visit) -> Sequence[str]:
    """List the scopes that a reference may be added to."""
    sessions = await visit.view.sessions(limit=MAX_CHOICES)
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
        project=scope_name(versions[-1].scope),
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
    if visit.is_fragment and action in ENDINGS:
        return visit.part("knowledge_decided.html", item=await knowledge.get(item), ending=ENDINGS[action])
    return visit.go(f"{BASE}/knowledge/{url(item)}" if action == "edit" else f"{BASE}/knowledge")


def _changes(versions: Sequence[KnowledgeItem]) -> list[tuple[KnowledgeItem, list[str]]]:
    """Return each version with the lines that it changed, newest first."""
    found = []
    for place, version in enumerate(versions):
        before = versions[place - 1].text if place else ""
        lines = difflib.unified_diff(before.splitlines(), version.text.splitlines(), lineterm="", n=1)
        found.append((version, [line for line in lines if not line.startswith(("---", "+++", "@@"))]))
    return found[::-1]
