"""Opening a store, and the sessions in it: the entry point of the library.

async with foveate.open("chat.db") as fov:
    session = await fov.session("support-42")
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from foveate import telemetry
from foveate.errors import (
    InputError,
    InvalidMessage,
    NotFound,
    NotOpened,
    Refused,
    RightMissing,
    SessionExists,
    SessionNotFound,
)
from foveate.events import Event, EventBus, EventKind, Subscription
from foveate.history.kept_plans import stored_state
from foveate.history.late_writes import LateWrites
from foveate.importer import ImportReport, Progress, TranscriptSessions, import_transcript
from foveate.models import Purpose
from foveate.models.caller import Caller, Load
from foveate.models.limits import ProviderState
from foveate.models.names import load_model, models_for, window_of
from foveate.models.status import ModelReport, ModelStatus, ModelUse, describe_models, try_model, uses_of
from foveate.recall.embed.endpoint import EmbeddingEndpoint
from foveate.recall.scopes import Scope
from foveate.recall.search import Hit, Searcher, SearchFilter
from foveate.session import Session
from foveate.session.address import find_session
from foveate.session.cabinet import Cabinet, KeyRenewals
from foveate.session.context import given_settings
from foveate.session.engine import SessionEngine
from foveate.session.erase import EraseReport, sweep
from foveate.session.keys import Keys, Right, includes
from foveate.session.knowledge import Knowledge
from foveate.session.memory import Memory
from foveate.session.prompts import Prompts
from foveate.session.record import check_session_id, check_text
from foveate.session.sent import SentRequest
from foveate.session.shared import SharedParts
from foveate.session.subagents import Agents
from foveate.session.tenant import SEPARATOR, check_tenant, check_unreserved, public_id, stored_id
from foveate.session.uses import KnowledgeUses
from foveate.session.values import SessionInfo, describe_session
from foveate.settings import Settings, load_settings, make_strategy, session_strategy
from foveate.store import Finding, NewSession, PruneReport, SessionRow, Store, copy_store, open_store
from foveate.store.calls import SPEND_DIMENSIONS, SpendDimension, SpendRow
from foveate.store.copy import CopyReport
from foveate.store.operations import Clients
from foveate.store.rows import DAY_US, CostRow, IndexState, QueueState
from foveate.strategy import StrategyName, extra_event_kinds
from foveate.strategy.checkpoint.reliability import Reliability
from foveate.tokens import counter_for
from foveate.turn import Json, parse_time, to_us
from foveate.worker.loop import Worker

ORIGIN = "origin"
"""The document that stores why a session was created."""


class StoreOpener:
    """The result of `open`: await it, or use it in `async with`."""

    def __init__(self, location: str, settings: Settings) -> None:
        self._location = location
        self._settings = settings
        self._opened: Foveate | None = None

    def __await__(self) -> Generator[Any, None, Foveate]:
        return self._open().__await__()

    async def __aenter__(self) -> Foveate:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened:
            await self._opened.close()

    def __getattr__(self, name: str) -> NoReturn:
        if not hasattr(Foveate, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        raise NotOpened(name)

    def __enter__(self) -> NoReturn:
        raise NotOpened

    def __exit__(self, *_: object) -> None: ...

    async def _open(self) -> Foveate:
        opened = Foveate(await open_store(self._location, self._settings.store), self._settings)
        opened._worker.resume()
        return opened


def open(location: str | Path, *, settings: Settings | None = None) -> StoreOpener:  # noqa: A001 - as in `foveate.open`
    """Open the store at a path or `postgresql://` URL. A new file is created if needed, readable by its owner only."""
    if not isinstance(location, (str, os.PathLike)):
        raise InputError(f"a store is opened by the path of its file, e.g. foveate.open('chat.db'); got {location!r}")
    return StoreOpener(os.fspath(location), settings or load_settings())


async def copy_all(
    source: str | Path,
    target: str | Path,
    *,
    settings: Settings | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> CopyReport:
    """Copy a store into another one; both may be files or `postgresql://` URLs.

    An interrupted copy resumes where it stopped, and a repeated copy adds what is new. A session counts as copied when
    the hashes of both sides are equal. A session that has other messages in the target is reported as a conflict and
    not changed. `progress` gets the number of finished turns and of all turns.
    """
    store_settings = (settings or load_settings()).store
    return await asyncio.to_thread(copy_store, os.fspath(source), os.fspath(target), store_settings, progress)


def configured_uses(settings: Settings) -> list[ModelUse]:
    """List every model that the settings name, with its purpose."""
    recall = settings.recall
    uses = uses_of(settings.models)
    sorting = {"recall.filter_model": recall.filter_model, "recall.judge_model": recall.judge_model}
    uses.extend(ModelUse("recall", name, source) for source, name in sorting.items() if name)
    if settings.knowledge.model:
        uses.append(ModelUse("learn", settings.knowledge.model, "knowledge.model"))
    if recall.has_endpoint:
        uses.append(ModelUse("embed", f"{recall.embeddings_model}@{recall.embeddings}", "recall.embeddings"))
    return uses


class Foveate:
    """An open store. Close it, or leave its `async with` block, when done."""

    def __init__(self, store: Store, settings: Settings, *, load: Load | None = None) -> None:
        self.settings = settings
        if settings.telemetry.enabled:
            telemetry.start()
        self._store = store
        self._events = EventBus(settings.events.queue_limit, extra_event_kinds())
        named = (settings.recall.filter_model, settings.recall.judge_model, settings.knowledge.model)
        self._caller = Caller(settings.models, store.calls, self._events, load=load or partial(load_model, more=named))
        self._worker = Worker(store, self._events, settings, self._caller)
        self._searcher = Searcher(store, settings.recall, self._caller)
        writes = LateWrites()
        self._shared = SharedParts(
            store,
            self._events,
            settings,
            self._worker,
            self._caller,
            self._searcher,
            renewals=KeyRenewals(store, settings, writes),
            writes=writes,
            uses=KnowledgeUses(store),
            view=self._view,
        )
        self._tenant = ""
        self._right: Right = "admin"
        self.is_view: bool = False
        """Whether this was made by `tenant` or `limited`; closing it does nothing."""

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._store.location

    @property
    def caller(self) -> Caller:
        """The caller of models, which applies the limits of the settings. All sessions share it."""
        return self._caller

    @property
    def store(self) -> Store:
        """The store itself, for work on many sessions. It has no view of a tenant: pass the tenant's name."""
        return self._store

    @property
    def tenant_name(self) -> str:
        """The tenant whose sessions are visible; empty: the owner, who sees all."""
        return self._tenant

    @property
    def right(self) -> Right:
        """The right with which tools are called and agents are started here. `admin`, unless `limited` lowered it."""
        return self._right

    @property
    def keys(self) -> Keys:
        """Keys of the server: `keys.create("laptop")`, `list`, `revoke`."""
        self._check_owner()
        return Keys(self._store)

    @property
    def cabinet(self) -> Cabinet:
        """The file cabinet: `cabinet.file(…)`, `read`, `content`, `list`, `prune`. The owner sees all tenants' keys."""
        return Cabinet(self._store, self.settings, tenant=self._tenant or None, view=self._tenant)

    @property
    def prompts(self) -> Prompts:
        """Stored prompts: `prompts.list()`, `get`, `set`, `history`, `reset`, `render`."""
        return Prompts(self._store, self._tenant, check_right=self.check_right)

    @property
    def knowledge(self) -> Knowledge:
        """Knowledge learned from past conversations: `knowledge.list()`, `get`, `approve`, `edit`, `pin`, `retire`,
        `add`. The owner sees that of all tenants."""
        return Knowledge(self._store, self._tenant)

    def memory(self, scope: str) -> Memory:
        """Return the memory of a scope, e.g. `user:anna`, which searches its sessions: `memory(scope).search("…")`.

        A scope belongs to one tenant: the owner's scopes do not include sessions of tenants.
        """
        return Memory(self._store, self._searcher, self.settings, tenant=self._tenant, scope=scope)

    def tenant(self, name: str) -> Foveate:
        """Return the store as a tenant sees it: the same methods, limited to the tenant's sessions and ids.

        The owner sees such a session as `tenant:id`. Closing the view does not close the store.
        """
        self._check_owner()
        view = self._copied()
        view._tenant = check_tenant(name)
        view._store = self._store.for_tenant(name)
        view._shared = replace(self._shared, store=view._store)
        return view

    def limited(self, right: Right) -> Foveate:
        """Return the store for a caller with this right: tools called here, and agents started here, can do no more.

        Only tools and agents are limited. A right is never raised. Closing the view does not close the store.
        """
        view = self._copied()
        view._right = right if includes(self._right, right) else self._right
        return view

    def check_right(self, needed: Right, action: str) -> None:
        """Raise `RightMissing` if the right of this view does not include another one."""
        if not includes(self._right, needed):
            keys = "a key of the store's owner" if needed == "admin" else "a key"
            raise RightMissing(f"{action} needs the right {needed!r} for tools; use {keys} with that right")

    async def session(
        self,
        session_id: str,
        *,
        strategy: StrategyName | None = None,
        strategy_settings: Mapping[str, Json] | None = None,
        budget_tokens: int | None = None,
        model: str | None = None,
        title: str | None = None,
        platform: str | None = None,
        channel: str | None = None,
        mode: str | None = None,
        scope: str | None = None,
    ) -> Session:
        """Open a session, or create it. Arguments other than None change an existing session.

        `strategy_settings` override the strategy's settings for this session; see `Session.use`. `mode`, e.g.
        `developer`, adds the prompt of a mode to the system prompt; see `Session.set_mode`. `scope`, e.g. `user:anna`,
        adds the session to a scope and lets it recall the scope's knowledge and past sessions; empty: no scope.
        """
        self.warm()
        options = {
            "strategy": strategy,
            "budget_tokens": budget_tokens,
            "model": model,
            "title": title,
            "platform": platform,
            "channel": channel,
            "mode": mode,
            "scope": str(Scope.parse(scope)) if scope else scope,
        }
        chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if strategy is not None:
            make_strategy(strategy, self.settings, strategy_settings)
        if budget_tokens is not None:
            chosen["budget_chosen"] = 1
            load_settings(environment={}, overrides={"session": {"budget_tokens": budget_tokens}})
        if mode is not None:
            await self.prompts.check_mode(mode)
        for name in ("title", "model", "platform", "channel"):
            check_text(name, str(chosen.get(name, "")))
        try:
            row = await self._row(check_session_id(session_id))
        except SessionNotFound:
            try:
                row = await self._create(session_id, chosen)
            except SessionExists:  # another process was faster
                row = await self._row(session_id)
        if strategy_settings is not None:
            make_strategy(strategy or row.strategy, self.settings, strategy_settings)
            chosen["settings"] = json.dumps(dict(strategy_settings))
        elif strategy not in (None, row.strategy):
            chosen["settings"] = "{}"
        changed = {name: value for name, value in chosen.items() if getattr(row, name) != value}
        if changed:
            row = await self._store.update_session(row.id, changed)
        return self._opened(row)

    async def conversation(
        self, platform: str, channel: str, *, strategy: StrategyName = "topics", budget_tokens: int | None = None
    ) -> Session:
        """Open the conversation of a channel, e.g. `("slack", "#support")`, or create it.

        Of several sessions with these labels, the most recently used one is opened. `strategy` applies only to a new
        session.
        """
        for name, label in (("platform", platform), ("channel", channel)):
            if not check_text(name, label).strip():
                raise InvalidMessage(name, "is empty; a conversation is resumed by its platform and channel")
        known = await self.sessions(platform=platform, channel=channel)
        if known:
            return await self.session(known[0].id, budget_tokens=budget_tokens)
        return await self.session(
            f"{platform}:{channel}",
            strategy=strategy,
            budget_tokens=budget_tokens,
            platform=platform,
            channel=channel,
        )

    async def open_session(self, session_id: str) -> Session:
        """Open an existing session."""
        return self._opened(await self._row(session_id))

    async def find_session(self, address: str) -> Session:
        """Open a session by its id, a unique beginning of its id, or its title."""
        return await self.open_session(find_session(await self.sessions(), address).id)

    async def find_request(self, request_id: str) -> SentRequest:
        """Return a request of the gateway by its id, e.g. from the header X-Foveate-Request-Id or the log, as sent."""
        found = await self._store.sent.find(request_id)
        if found is None or (self._tenant and public_id(self._tenant, found[0]) == found[0]):
            raise NotFound(f"no request {request_id!r} is kept; 'foveate requests SESSION' lists those of a session")
        session = await self.open_session(public_id(self._tenant, found[0]))
        return await session.request(found[1])

    async def sessions(
        self, *, platform: str | None = None, channel: str | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """List all sessions, or those with these labels, most recently used first, at most `limit`."""
        tenant = self._tenant or None
        rows = await self._store.list_sessions(platform=platform, channel=channel, tenant=tenant, limit=limit)
        default = self.settings.session.budget_tokens
        return [describe_session(row, self._tenant, default_tokens=default) for row in rows]

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and its own turns permanently. Rejected while forks share its turns."""
        await self._store.delete_session((await self._row(session_id)).id)

    async def prune(self, session_id: str, *, before: str | float | datetime, dry_run: bool = True) -> PruneReport:
        """Delete the raw content of turns that ended before a time. By default, only report what would be deleted."""
        moment = parse_time(before, path="before")
        key = (await self._row(session_id)).id
        pruned = await self._store.prune(key, before_us=to_us(moment), dry_run=dry_run)
        if not dry_run:
            self._worker.wake(key)  # to rebuild the eras without the deleted content
        return pruned

    async def erase_text(
        self, text: str, *, forks: bool = False, pins: bool = False, by: str = "", dry_run: bool = True
    ) -> list[EraseReport]:
        """Erase a text in all sessions, as `Session.erase` does in one; report those that have it.

        Forks are erased like other sessions, so one that shares a turn with the text needs `forks`.
        """
        reports = []
        for info in await self.sessions():
            session = await self.open_session(info.id)
            report = await session.erase(text=text, forks=forks, pins=pins, by=by, dry_run=dry_run, overwrite=False)
            if any(report.counts.values()) or report.pins:
                reports.append(report)
        rest = await sweep(self._store) if any(report.is_erased for report in reports) else ""
        return [replace(report, notes=(*report.notes[:1], *filter(None, [rest]))) for report in reports]

    async def overwrite_erased(self) -> str:
        """Overwrite what erasures left in the file, e.g. after one was interrupted; return what is left to do."""
        return await sweep(self._store)

    async def import_file(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002
        session_id: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import a transcript. Importing it again adds only new messages. `session_id` renames its first session.

        The format is detected, unless `format` names it. A different file of the same name gets a separate session,
        e.g. `talk-2`.
        """
        sessions = TranscriptSessions(self, session_id)
        return await import_transcript(Path(path), sessions.open, format_name=format, progress=progress)

    async def reliability(self, session_id: str) -> Reliability | None:
        """Return the reliability score of a session; None if its strategy has none."""
        row = await self._row(session_id)
        used = session_strategy(row.strategy, self.settings, given_settings(row, self.settings))
        return used.strategy.reliability(row.model, await stored_state(self._store, row.id, used.name))

    async def costs(self, session_id: str | None = None) -> list[CostRow]:
        """Return the costs of model calls by session, day, model and purpose, for one session or for all."""
        rows = await self._store.calls.costs(None if session_id is None else (await self._row(session_id)).id)
        if not self._tenant:
            return rows
        own = {row.id for row in await self._rows()}
        return [
            replace(row, session_id=public_id(self._tenant, row.session_id)) for row in rows if row.session_id in own
        ]

    async def spending(
        self, by: SpendDimension = "day", *, days: float | None = None, session_id: str | None = None
    ) -> list[SpendRow]:
        """Return the costs of all model calls, also those of the gateway's clients, by day, key, project, model, …

        `days` counts back from now; default: all that are kept. Days come oldest first, anything else by cost.
        """
        if by not in SPEND_DIMENSIONS:
            raise InputError(f"no dimension {by!r}; available: {', '.join(SPEND_DIMENSIONS)}")
        since_us = 0 if days is None else to_us(datetime.now(UTC)) - int(days * DAY_US)
        session = None if session_id is None else (await self._row(session_id)).id
        tenant = self._tenant or None
        rows = await self._store.calls.spending(by, since_us=max(0, since_us), tenant=tenant, session_id=session)
        return [replace(row, name=public_id(self._tenant, row.name)) if by == "session" else row for row in rows]

    def models_for(self, purpose: Purpose) -> tuple[str, ...]:
        """Return the configured model for a purpose, followed by its fallbacks; empty if there is none."""
        return models_for(purpose, self.settings.models)

    def warm(self) -> None:
        """Load the models that sort recall's candidates, in the background, once, so that the first prompts reach them
        within recall's deadline. `session` and a server do it by themselves."""
        recall = self.settings.recall
        self._caller.start_warming([name for name in (recall.filter_model, recall.judge_model) if name])

    def window_tokens(self, model: str) -> int | None:
        """Return the context window of a model in tokens, including the answer; None if unknown."""
        return window_of(model, self.settings.models)

    async def check_model(self, model: str) -> None:
        """Raise `ModelUnavailable` if a model can't be called; the error says what to install or set."""
        await load_model(model, self.settings.models).close()

    def model_report(self) -> ModelReport:
        """Return the configured models by purpose, with keys, prices and windows. No call is made."""
        return describe_models(configured_uses(self.settings), self.settings.models)

    async def try_models(self) -> ModelReport:
        """Test each configured model with one short call, within the limits of the settings."""
        report = self.model_report()
        able = [target for target, status in report.statuses.items() if status.problem is None]
        tried = await asyncio.gather(*(self._try_model(report.statuses[target]) for target in able))
        return replace(report, statuses=report.statuses | dict(zip(able, tried, strict=True)))

    async def _try_model(self, status: ModelStatus) -> ModelStatus:
        name = status.model
        if status.makes_vectors:
            endpoint = EmbeddingEndpoint(self.settings.recall, self.settings.models)
            self._caller.lend(endpoint)
            name = endpoint.name
        return await try_model(status, self._caller, name=name)

    async def providers(self) -> list[ProviderState]:
        """Return state and call rates of each provider that any process called in the last hour."""
        return await self._caller.states()

    @property
    def agents(self) -> Agents:
        """Agents, which work in the background: `agents.spawn("…")`, `call`, `run`, `wait`, `list`, `cancel`."""
        return Agents(self, self._store)

    @property
    def clients(self) -> Clients:
        """Positions in the log of the histories that clients of the gateway send."""
        return self._store.clients

    async def note_origin(self, session_id: str, reason: str) -> None:
        """Store why a session was created, e.g. that the gateway forked it."""
        await self._store.artefacts.keep_document(stored_id(self._tenant, session_id), ORIGIN, reason)

    async def origin(self, session_id: str) -> str:
        """Return why a session was created; empty if no reason is stored."""
        documents = await self._store.artefacts.documents(stored_id(self._tenant, session_id))
        return next((row.text for row in documents if row.name == ORIGIN), "")

    def publish(self, event: Event) -> None:
        """Send an event of a session of this view to the subscribers, e.g. one of the gateway."""
        self._events.publish(replace(event, session_id=stored_id(self._tenant, event.session_id)))

    def subscribe(self, callback: Callable[[Event], object], kinds: Collection[EventKind] = ()) -> Subscription:
        """Call `callback` in a separate thread with each event of these kinds (default: all).

        An event is sent once its change is durable.
        """
        if not self._tenant:
            return self._events.subscribe(callback, kinds)
        beginning = f"{self._tenant}{SEPARATOR}"

        def pass_own(event: Event) -> None:
            if event.session_id.startswith(beginning):
                callback(replace(event, session_id=event.session_id.removeprefix(beginning)))

        return self._events.subscribe(pass_own, kinds)

    async def settle(self, *, session_id: str | None = None, progress: Callable[[int], object] | None = None) -> None:
        """Wait until every turn has its renditions; `progress` gets the number of finished turns.

        This includes model calls that are due. Calls that were postponed after a failure or by a limit are not awaited;
        `Session.stats` counts them as `waiting`.
        """
        await self._shared.uses.settle()
        rows = await self._rows() if session_id is None else [await self._row(session_id)]
        is_all = session_id is None and not self._tenant
        await self._worker.settle(None if is_all else [row.id for row in rows], progress)

    async def run_worker(self, *, is_stopping: Callable[[], bool] | None = None, drain: bool = False) -> None:
        """Compress and index the turns that any process records in the store, including model calls.

        Any number of processes can do this at the same time. It returns soon after `is_stopping()` is true, or with
        `drain` when the queue is empty.
        """
        self._check_owner()
        await self._worker.watch(is_stopping, drain=drain)

    async def queue_state(self, *, limit: int = 100) -> QueueState:
        """Return the counts of the work queue, and up to `limit` turns that failed too often to be retried."""
        self._check_owner()
        return await self._store.derived.due.state(limit=limit)

    async def prepare(self, session_id: str, *, progress: Callable[[int], object] | None = None) -> None:
        """Wait until the rules have compressed a session's turns, e.g. after an import. Model calls are not awaited."""
        await self._worker.finish((await self._row(session_id)).id, progress)

    async def compress_again(self, *, session_id: str | None = None) -> int:
        """Queue turns for compression that may improve, and return their number; `settle` waits for them.

        These are turns with a fallback or by an older compressor and, if a model is configured, turns that no model has
        compressed.
        """
        rows = await self._rows() if session_id is None else [await self._row(session_id)]
        return sum([await self._worker.want_again(row.id) for row in rows])

    async def search(
        self,
        query: str,
        max_results: int = 10,
        *,
        session_id: str | None = None,
        session_ids: Collection[str] | None = None,
        role: str | None = None,
        tool: str | None = None,
        after: str | float | datetime | None = None,
        before: str | float | datetime | None = None,
        file: str | None = None,
        speaker: str | None = None,
        order: str = "relevance",
    ) -> list[Hit]:
        """Search one session, several, or all; best hit first. The filters are those of `Session.search`."""
        ids = session_ids
        if self._tenant:
            own = {row.id for row in await self._rows()}
            ids = own if ids is None else own & {stored_id(self._tenant, one) for one in ids}
        filters = SearchFilter(
            role=role, tool=tool, after=after, before=before, file=file, session_ids=ids, speaker=speaker
        )
        if session_id is None:
            hits = await self._searcher.search_all(query, max_results, filters, order=order)
        else:
            hits = await self._searcher.search(await self._row(session_id), query, max_results, filters, order=order)
        return [replace(hit, session_id=public_id(self._tenant, hit.session_id)) for hit in hits]

    async def unsearched_turns(self, session_id: str | None = None) -> int:
        """Count the turns of one session, or of all, that a search misses because they are not indexed yet."""
        if session_id is None and self._tenant:
            return sum([await self._searcher.unsearched(row) for row in await self._rows()])
        return await self._searcher.unsearched(None if session_id is None else await self._row(session_id))

    async def index_state(self) -> IndexState:
        """Return the state of the search index, and what is missing from it."""
        return await self._searcher.state()

    async def rebuild_index(self, progress: Callable[[int], object] | None = None) -> None:
        """Rebuild the search index; `progress` gets the number of finished turns."""
        self._check_owner()
        await self._store.passages.clear()
        await self._worker.settle(None, progress)

    async def describe_database(self) -> dict[str, str]:
        """Describe the database for its operator: version, extension, connections, replicas."""
        self._check_owner()
        return await self._store.describe()

    async def check(self) -> AsyncIterator[Finding]:
        """Verify the whole store, and yield faults and progress."""
        self._check_owner()
        async for finding in self._store.check():
            yield finding
        problem = await self._store.passages.check()
        if problem:
            yield Finding(problem, "foveate doctor --rebuild-index")
        for row in await self._store.list_sessions():
            used = session_strategy(row.strategy, self.settings, given_settings(row, self.settings))
            if used.problem:
                advice = f"foveate sessions strategy {row.id} {used.name}"
                yield Finding(f"session {row.id!r}: {used.problem}", advice)

    async def close(self) -> None:
        """Stop background work and close the store. Recorded turns are durable in any case."""
        if self.is_view:
            return
        await self._shared.uses.settle()
        await self._worker.close()
        await self._caller.close()
        self._events.close()
        await self._store.close()

    def _copied(self) -> Foveate:
        view = copy.copy(self)
        view.is_view = True
        return view

    def _view(self, tenant: str) -> Foveate:
        return self.tenant(tenant) if tenant else self

    def _check_owner(self) -> None:
        if self._tenant:
            raise Refused(f"this is for the owner of the store, not for the tenant {self._tenant!r}")

    async def _row(self, session_id: str) -> SessionRow:
        """Read a session's row; `SessionNotFound` if it belongs to another tenant."""
        if not self._tenant:
            return await self._store.get_session(session_id)
        try:
            row = await self._store.get_session(stored_id(self._tenant, session_id))
        except SessionNotFound:
            raise SessionNotFound(session_id) from None
        if row.tenant != self._tenant:
            raise SessionNotFound(session_id)
        return row

    async def _rows(self) -> list[SessionRow]:
        return await self._store.list_sessions(tenant=self._tenant or None)

    def _opened(self, row: SessionRow) -> Session:
        return Session(SessionEngine(row, self._shared, tenant=self._tenant))

    async def _create(self, session_id: str, chosen: Mapping[str, Any]) -> SessionRow:
        if not self._tenant:
            await check_unreserved(self._store, session_id)
        defaults = self.settings.session
        model = chosen.get("model", defaults.model)
        new = NewSession(
            id=stored_id(self._tenant, session_id),
            tenant=self._tenant,
            title=chosen.get("title", ""),
            platform=chosen.get("platform"),
            channel=chosen.get("channel"),
            strategy=chosen.get("strategy", defaults.strategy),
            settings="{}",
            budget_tokens=chosen.get("budget_tokens", defaults.budget_tokens),
            budget_chosen=chosen.get("budget_chosen", 0),
            model=model,
            encoding=counter_for(model).encoding,
            mode=chosen.get("mode", ""),
            scope=chosen.get("scope", ""),
        )
        return await self._store.create_session(new)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an old public name, with a deprecation warning (for one release)."""
            if name != "open_row":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn("Foveate.open_row is internal now: foveate.client.open_row", DeprecationWarning, stacklevel=2)
            return partial(open_row, self)


def open_row(fov: Foveate, row: SessionRow) -> Session:
    """Open a session whose row was just read. Internal, for intake."""
    return fov._opened(row)
