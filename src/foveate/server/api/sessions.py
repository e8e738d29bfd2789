"""`/sessions`: list, create, change, fork and delete sessions; their statistics and costs."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from foveate.errors import SessionExists, SessionNotFound
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import DEFAULT_LIMIT, ItemList, ItemPage, Limit, read_cursor, write_cursor
from foveate.server.time_limits import allow_long
from foveate.session import Session
from foveate.session.erase import EraseReport, Erasure
from foveate.session.values import CostRow, PruneReport, Reliability, SessionInfo, SessionStats, copied

routes = Endpoints("sessions")
Budget = Annotated[int, Meta(ge=1, le=100_000_000)]
Text = Annotated[str, Meta(max_length=10_000)]


class SessionResource(Struct, frozen=True, kw_only=True):
    """A session without its turns."""

    id: str
    title: str
    platform: str | None
    channel: str | None
    strategy: str
    strategy_settings: dict[str, Any]
    budget_tokens: int
    budget_chosen: bool
    """Whether the budget was set explicitly; a default budget is reduced to the model's window if that is smaller."""
    model: str | None
    counter: str
    calibration: float
    parent_id: str | None
    fork_turn_id: str | None
    turns: int
    created_at: datetime
    updated_at: datetime
    mode: str
    """The mode whose prompt is part of every system prompt; empty for none."""
    scope: str
    """The scope whose knowledge and past sessions it may recall, e.g. `user:anna`; empty for none."""


class SessionPage(ItemPage[SessionResource], frozen=True):
    """Sessions, most recently used first."""


class SessionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list."""

    platform: str | None = None
    channel: str | None = None
    project: str | None = None
    """A channel, or the last folder of its path."""
    scope: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    """Only sessions of this scope, e.g. `user:anna`."""
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class NewSessionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to create; without an id it gets a random one."""

    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    title: Text | None = None
    strategy: str | None = None
    strategy_settings: dict[str, Any] | None = None
    budget_tokens: Budget | None = None
    model: Text | None = None
    platform: Text | None = None
    channel: Text | None = None
    mode: str | None = None
    scope: Text | None = None
    """The scope whose knowledge and past sessions it may recall, e.g. `user:anna`."""


class SessionChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a session; omitted fields are kept."""

    title: Text | UnsetType = UNSET
    strategy: str | UnsetType = UNSET
    strategy_settings: dict[str, Any] | UnsetType = UNSET
    budget_tokens: Budget | UnsetType = UNSET
    model: Text | UnsetType = UNSET
    platform: Text | UnsetType = UNSET
    channel: Text | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    """The name of a mode, e.g. `developer`; empty for none."""
    scope: Text | UnsetType = UNSET
    """A scope, e.g. `user:anna`; empty for none."""


class ForkBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fork to create."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    at: str | None = None
    """The last shared turn, e.g. `T-12`. Default: the newest."""
    title: Text | None = None


class StrategyBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A strategy and its settings for this session."""

    name: str
    settings: dict[str, Any] = {}


class LabelsBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Labels; omitted ones are kept."""

    platform: Text | None = None
    channel: Text | None = None


class PruneBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a prune."""

    before: str
    """Prune turns that ended before this time, e.g. `2026-01-31T00:00:00Z`."""
    dry_run: bool = True
    """Only report what would be deleted."""


class EraseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to erase: turns or a text."""

    turns: Annotated[list[str], Meta(max_length=1000)] = []
    """E.g. `["T-4"]`."""
    text: Annotated[str, Meta(max_length=100_000)] | None = None
    """A text, exactly as written; it is replaced by `[erased]`."""
    forks: bool = False
    """Also for the forks that read these turns."""
    pins: bool = False
    """Also the pins that quote it."""
    dry_run: bool = True
    """Only report what would be erased."""


class ErasureList(ItemList[Erasure], frozen=True):
    """Erasures, oldest first."""


class SettleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the wait."""

    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 60.0


class CostList(ItemList[CostRow], frozen=True):
    """Costs of model calls by session, day, model and purpose."""


class ReliabilityReport(Struct, frozen=True, kw_only=True):
    """The reliability of a session; null if its strategy has none."""

    reliability: Reliability | None


@routes.add("GET", "/sessions", right="read")
async def list_sessions(call: Call, query: SessionsQuery) -> SessionPage:
    """List the sessions, most recently used first."""
    found = await call.view.sessions(platform=query.platform, channel=query.channel)
    if query.project:
        found = [info for info in found if info.is_of_project(query.project)]
    if query.scope:
        members = {info.id for info in await call.view.memory(query.scope).sessions()}
        found = [info for info in found if info.id in members]
    found = sorted(found, key=_sort_key, reverse=True)
    if query.cursor is not None:
        at, name = read_cursor(query.cursor, 2)
        found = [info for info in found if _sort_key(info) < (at, name)]
    page, rest = found[: query.limit], found[query.limit :]
    return SessionPage(
        items=list(map(as_resource, page)), next_cursor=write_cursor(*_sort_key(page[-1])) if rest else None
    )


@routes.add("POST", "/sessions", right="write", status=201)
async def create_session(call: Call, body: NewSessionBody) -> SessionResource:
    """Create a session. 409 if the id is taken."""
    name = body.id if body.id is not None else secrets.token_hex(8)
    with suppress(SessionNotFound):
        await call.view.open_session(name)
        raise SessionExists(name)
    given = {key: value for key, value in asdict(body).items() if key != "id" and value is not None}
    return as_resource((await call.view.session(name, **given)).info)


@routes.add("GET", "/sessions/{session}", right="read")
async def get_session(session: Session) -> SessionResource:
    """Get a session."""
    return as_resource(session.info)


@routes.add("PATCH", "/sessions/{session}", right="write")
async def change_session(call: Call, session: Session, body: SessionChanges) -> SessionResource:
    """Change a session's title, budget, model, mode or scope."""
    given = {key: value for key, value in asdict(body).items() if value is not UNSET}
    return as_resource((await call.view.session(session.id, **given)).info)


@routes.add("DELETE", "/sessions/{session}", right="write")
async def delete_session(call: Call, session: str) -> None:
    """Delete a session and its turns permanently. 409 while forks share them."""
    await call.view.delete_session(session)


@routes.add("POST", "/sessions/{session}/fork", right="write", status=201)
async def fork_session(session: Session, body: ForkBody) -> SessionResource:
    """Create a session that shares the turns up to one of them."""
    return as_resource((await session.fork(body.id, body.at, title=body.title)).info)


@routes.add("PUT", "/sessions/{session}/strategy", right="write")
async def set_strategy(session: Session, body: StrategyBody) -> SessionResource:
    """Set the strategy that shows the history; the turns are not changed."""
    return as_resource(await session.use(body.name, **body.settings))


@routes.add("PUT", "/sessions/{session}/labels", right="write")
async def set_labels(session: Session, body: LabelsBody) -> SessionResource:
    """Set platform and channel."""
    return as_resource(await session.label(platform=body.platform, channel=body.channel))


@routes.add("GET", "/sessions/{session}/stats", right="read")
async def get_stats(session: Session) -> SessionStats:
    """Get counts, sizes and the state of background work."""
    return await session.stats()


@routes.add("GET", "/sessions/{session}/reliability", right="read")
async def get_reliability(call: Call, session: str) -> ReliabilityReport:
    """Get the reliability score, for strategies that have one."""
    return ReliabilityReport(reliability=await call.view.reliability(session))


@routes.add("GET", "/sessions/{session}/cost", right="read")
async def get_session_cost(call: Call, session: str) -> CostList:
    """List the costs of a session's model calls."""
    return CostList(items=await call.view.costs(session))


@routes.add("GET", "/cost", right="read")
async def get_cost(call: Call) -> CostList:
    """List the costs of all model calls."""
    return CostList(items=await call.view.costs())


@routes.add("POST", "/sessions/{session}/prune", right="admin")
async def prune_session(call: Call, session: str, body: PruneBody) -> PruneReport:
    """Delete the raw content of old turns permanently; by default only report what would be deleted."""
    return await call.view.prune(session, before=body.before, dry_run=body.dry_run)


@routes.add("POST", "/sessions/{session}/erase", right="admin")
async def erase_in_session(call: Call, session: Session, body: EraseBody) -> EraseReport:
    """Erase turns, or one text, everywhere in the store; by default only report what would be erased. 409 while forks
    read the turns, unless `forks`. Answers and results of jobs that the server keeps in memory are dropped."""
    report = await session.erase(
        *body.turns,
        text=body.text,
        forks=body.forks,
        pins=body.pins,
        by=call.principal.key_id or "the owner",
        dry_run=body.dry_run,
    )
    if report.is_erased:
        call.parts.replies.forget()
        call.parts.jobs.forget_results()
    return report


@routes.add("GET", "/sessions/{session}/erasures", right="read")
async def list_erasures(session: Session) -> ErasureList:
    """List what was erased in a session, when and by whom; never what it said."""
    return ErasureList(items=await session.erasures())


@routes.add("POST", "/sessions/{session}/settle", right="write")
async def settle_session(call: Call, session: Session, query: SettleQuery) -> SessionStats:
    """Wait until every turn has its renditions, or until the time limit; `pending` and `waiting` count the rest."""
    allow_long(call.request)
    with suppress(TimeoutError):
        await asyncio.wait_for(call.view.settle(session_id=session.id), query.timeout_seconds)
    return await session.stats()


def as_resource(info: SessionInfo) -> SessionResource:
    """Convert a session to the API's resource."""
    return copied(SessionResource, info)


def _sort_key(info: SessionInfo) -> tuple[str, str]:
    return info.updated_at.isoformat(timespec="microseconds"), info.id
