"""`/knowledge`: items learned from past conversations, and their review."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import Response

from foveate.knowledge.markdown import entry_ids, plan_import, read_markdown, write_markdown
from foveate.knowledge.run import STEPS, LearnProgress, learn
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.jobs import Advance, JobResource
from foveate.server.api.page import DEFAULT_LIMIT, ItemList, ItemPage, Limit, read_cursor, write_cursor
from foveate.server.bodies import read_body
from foveate.server.problems import ProblemError
from foveate.session.knowledge import (
    KnowledgeDraft,
    KnowledgeItem,
    KnowledgeKind,
    KnowledgeState,
    LearningRun,
    StateFilter,
    check_scope,
)

routes = Endpoints("knowledge")
CURSOR_PARTS = 4
MARKDOWN = "text/markdown"
STAGES = {"merge": "made"}
"""The stage at which a step counts as done. Default: when its result is stored."""
Text = Annotated[str, Meta(min_length=1)]


class KnowledgePage(ItemPage[KnowledgeItem], frozen=True):
    """Items, sorted by scope, kind and id."""


class KnowledgeVersions(ItemList[KnowledgeItem], frozen=True):
    """Versions of an item, oldest first."""


class LearningRuns(ItemList[LearningRun], frozen=True):
    """Runs, newest first."""


class KnowledgeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list."""

    scope: str | None = None
    """E.g. `project:shop`."""
    kind: KnowledgeKind | None = None
    state: StateFilter | None = None
    """Default: all except `retired`."""
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class KnowledgeExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items to export."""

    scope: str | None = None
    kind: KnowledgeKind | None = None
    state: StateFilter | None = None


class KnowledgeImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of an import."""

    scope: str = "project:"
    """Scope of new items without one."""
    dry_run: bool = False
    """Only report what would change."""


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list."""

    scope: str | None = None
    limit: Limit = DEFAULT_LIMIT


class LearnBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to learn from."""

    scope: str | None = None
    """E.g. `project:shop`. Default: each project, and the sessions without a label together."""
    dry_run: bool = False
    """Only report what would be read, its price, and what rules would change."""


class NewKnowledgeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item that a person wrote: a reference, a lesson, or a part of the profile."""

    title: Text
    text: Text
    scope: str = "project:"
    kind: KnowledgeKind = "reference"
    state: KnowledgeState | None = None
    """Default: `approved`."""
    technologies: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Turns, as `SESSION/T-12`."""


class KnowledgeEditBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to an item; omitted fields are kept."""

    title: Text | None = None
    text: Text | None = None
    technologies: tuple[str, ...] | None = None
    version: Annotated[int, Meta(ge=1)] | None = None
    """The version that was read; 409 if there is a newer one."""
    reason: str = ""


class ReviewBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason of a review."""

    reason: str = ""


class KnowledgeImportReport(Struct, frozen=True, kw_only=True):
    """What an import changed, or would change."""

    dry_run: bool
    new: int
    changed: int
    unchanged: int
    changes: list[KnowledgeDraft]
    items: list[KnowledgeItem]
    """The new versions; empty in a dry run."""


@routes.add("GET", "/knowledge", right="read")
async def list_knowledge(call: Call, query: KnowledgeQuery) -> KnowledgePage:
    """List the items by scope, kind and id, each with its source turns."""
    found = await call.view.knowledge.list(scope=query.scope, kind=query.kind, state=query.state)
    if query.cursor is not None:
        last = tuple(read_cursor(query.cursor, CURSOR_PARTS))
        found = [item for item in found if _sort_key(item) > last]
    page = list(found[: query.limit])
    has_more = len(found) > len(page)
    return KnowledgePage(items=page, next_cursor=write_cursor(*_sort_key(page[-1])) if has_more else None)


@routes.add("POST", "/knowledge", right="write", status=201)
async def add_knowledge(call: Call, body: NewKnowledgeBody) -> KnowledgeItem:
    """Add an item that a person wrote. An existing title in the same scope becomes a new version."""
    return await call.view.knowledge.add(**asdict(body))


@routes.add("GET", "/knowledge/export", right="read", media=MARKDOWN)
async def export_knowledge(call: Call, query: KnowledgeExportQuery) -> str:
    """Export the items as Markdown, to edit and import back."""
    found = await call.view.knowledge.list(**asdict(query))
    # A browser must never display a stored text as a page of this server.
    headers = {"content-disposition": "attachment; filename=knowledge.md", "x-content-type-options": "nosniff"}
    text = await asyncio.to_thread(write_markdown, found)
    return Response(text, media_type=MARKDOWN, headers=headers)  # type: ignore[return-value]


@routes.add("POST", "/knowledge/import", right="write", takes=MARKDOWN)
async def import_knowledge(call: Call, query: KnowledgeImportQuery) -> KnowledgeImportReport:
    """Import an edited export, sent as the body. 422 names the invalid line; then nothing is imported."""
    raw = await read_body(call.request, max_mb=call.parts.settings.max_body_mb)
    if not raw:
        raise ProblemError(422, "the body is empty; send an export as Markdown")
    try:
        entries = await asyncio.to_thread(read_markdown, raw.decode())
    except UnicodeDecodeError as error:
        raise ProblemError(422, f"the body is not UTF-8 text: {error.reason}") from error
    known = await call.view.knowledge.histories(entry_ids(entries, scope=query.scope))
    plan = plan_import(entries, known, scope=query.scope)
    items: Sequence[KnowledgeItem] = [] if query.dry_run else await call.view.knowledge.save(plan.drafts)
    return KnowledgeImportReport(
        dry_run=query.dry_run,
        new=plan.new,
        changed=len(plan.drafts) - plan.new,
        unchanged=plan.unchanged,
        changes=list(plan.drafts),
        items=list(items),
    )


@routes.add("POST", "/knowledge/learn", right="write", status=202)
async def learn_knowledge(call: Call, body: LearnBody) -> JobResource:
    """Learn from a scope, as a job; its result has what was read, its cost, and what changed."""
    scope = None if body.scope is None else check_scope(body.scope)
    sessions = [] if scope else await call.view.sessions()
    scopes = len({info.channel for info in sessions}) or 1

    async def work(advance: Advance) -> dict[str, Any]:
        def progress(made: LearnProgress) -> None:
            if made.step in STEPS and made.stage == STAGES.get(made.step, "kept"):
                advance(1)

        report = await learn(call.view, scope, dry_run=body.dry_run, progress=progress)
        return {"dry_run": body.dry_run, "calls": report.calls, "scopes": msgspec.to_builtins(report.scopes)}

    started = call.parts.jobs.start(call.principal, "learn", "", total=scopes * len(STEPS), work=work)
    return started.shown(call.principal)


@routes.add("GET", "/knowledge/runs", right="read")
async def list_learning_runs(call: Call, query: RunsQuery) -> LearningRuns:
    """List the learning runs and their results."""
    return LearningRuns(items=list(await call.view.knowledge.runs(**asdict(query))))


@routes.add("GET", "/knowledge/{knowledge}", right="read")
async def get_knowledge(call: Call, knowledge: str) -> KnowledgeItem:
    """Get an item by its id, or a unique prefix of it."""
    return await call.view.knowledge.get(knowledge)


@routes.add("PATCH", "/knowledge/{knowledge}", right="write")
async def edit_knowledge(call: Call, knowledge: str, body: KnowledgeEditBody) -> KnowledgeItem:
    """Change an item's text or title, as a new version. Editing approves a proposed item."""
    return await call.view.knowledge.edit(knowledge, **asdict(body))


@routes.add("GET", "/knowledge/{knowledge}/versions", right="read")
async def get_knowledge_versions(call: Call, knowledge: str) -> KnowledgeVersions:
    """List all versions of an item, each with the reason why it was replaced."""
    return KnowledgeVersions(items=list(await call.view.knowledge.versions(knowledge)))


@routes.add("POST", "/knowledge/{knowledge}/approve", right="write")
async def approve_knowledge(call: Call, knowledge: str, body: ReviewBody) -> KnowledgeItem:
    """Approve an item, also a retired one."""
    return await call.view.knowledge.approve(knowledge, reason=body.reason)


@routes.add("POST", "/knowledge/{knowledge}/pin", right="write")
async def pin_knowledge(call: Call, knowledge: str, body: ReviewBody) -> KnowledgeItem:
    """Approve an item so that no run changes it."""
    return await call.view.knowledge.pin(knowledge, reason=body.reason)


@routes.add("POST", "/knowledge/{knowledge}/retire", right="write")
async def retire_knowledge(call: Call, knowledge: str, body: ReviewBody) -> KnowledgeItem:
    """Retire an item: it is no longer used. Its versions are kept; `approve` restores it."""
    return await call.view.knowledge.retire(knowledge, body.reason)


def _sort_key(item: KnowledgeItem) -> tuple[str, str, str, str]:
    """Return the sort key of an item."""
    return item.tenant, item.scope, item.kind, item.id
