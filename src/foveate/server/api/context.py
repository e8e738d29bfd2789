"""`/sessions/{session}/context`: the context for a prompt; and the history tools that go with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from foveate.cache import BoundedCache
from foveate.client import Foveate
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.bodies import MAX_MESSAGES, check_parts
from foveate.session import Session
from foveate.session.values import Context, Segment, copied

MAX_OPEN = 64
"""Number of recently used sessions kept open: an open session has its plan and texts in memory."""
routes = Endpoints("context")
Format = Literal["openai", "openai-responses", "anthropic", "gemini"]


@dataclass(frozen=True, slots=True)
class _Open:
    """A session that is kept open, with a lock: its contexts are made one at a time."""

    session: Session
    created_at: datetime
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class OpenSessions:
    """The sessions that are kept open for contexts."""

    def __init__(self) -> None:
        self._kept: BoundedCache[str, _Open] = BoundedCache(MAX_OPEN)

    @asynccontextmanager
    async def use(self, view: Foveate, name: str) -> AsyncIterator[Session]:
        """Open a session, or reuse the open one unless it was deleted and created again."""
        fresh = await view.open_session(name)
        kept = self._kept.get(fresh.engine.stored_id)
        if kept is None or kept.created_at != fresh.info.created_at or kept.session.id != fresh.id:
            kept = self._kept[fresh.engine.stored_id] = _Open(fresh, fresh.info.created_at)
        async with kept.lock:
            yield kept.session


class ContextBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a context."""

    prompt: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_MESSAGES)] = ""
    """Text, or messages in a provider's format."""
    budget_tokens: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    """A budget other than the session's makes a preview: nothing is saved."""
    system: str = ""
    strategy: str | None = None
    """A strategy other than the session's makes a preview: nothing is saved."""
    recall: bool = True
    """Add older turns that match the prompt."""
    tools: bool = False
    """Include the history tools."""
    format: Format | None = None
    """Also return the request in this provider's format."""


class ContextAnswer(Struct, frozen=True, kw_only=True):
    """A context."""

    text: str
    """Everything before the prompt."""
    tokens: int
    """Total tokens, including the prompt."""
    budget_tokens: int
    stable_tokens: int
    """Tokens of the prefix that the next context shares, so that a provider can cache them."""
    system: str
    segments: list[Segment]
    plan: dict[str, Any]
    """How the levels were chosen."""
    request: dict[str, Any] | None
    """Arguments for the provider's API, if `format` is set."""


class ToolList(Struct, frozen=True, kw_only=True):
    """The history tools in a provider's format."""

    items: list[dict[str, Any]]


class ToolsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format of the definitions."""

    format: Format = "openai"


class ToolBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's call of a history tool."""

    arguments: dict[str, Any] = {}


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer for the model."""

    text: str


@routes.add("POST", "/sessions/{session}/context", right="read")
async def make_context(call: Call, session: str, body: ContextBody) -> ContextAnswer:
    """Make the context for a prompt, within the budget: text, segments, plan, and a provider's request."""
    if not isinstance(body.prompt, str):
        check_parts(body.prompt)
    wanted = {name: value for name, value in asdict(body).items() if name != "format"}
    async with call.parts.open_sessions.use(call.view, session) as found:
        context = await found.context(**wanted)
    return _answer(context, body.format)


@routes.add("GET", "/sessions/{session}/tools", right="read")
async def list_tools(session: Session, query: ToolsQuery) -> ToolList:
    """List the definitions of the history tools for a model."""
    return ToolList(items=[msgspec.to_builtins(one, enc_hook=str) for one in session.tools(query.format)])


@routes.add("POST", "/sessions/{session}/tools/{name}", right="read")
async def call_tool(session: Session, name: str, body: ToolBody) -> ToolAnswer:
    """Answer a model's call of a history tool. An invalid call is answered with an explanation for the model."""
    return ToolAnswer(text=await session.call_tool(name, body.arguments))


def _answer(context: Context, shape: Format | None) -> ContextAnswer:
    plan = {name: getattr(context.planned, name) for name in context.planned.__dataclass_fields__ if name != "rows"}
    plan["compression_ratio"] = context.planned.compression_ratio
    request = None if shape is None else msgspec.to_builtins(context.request(shape), enc_hook=str)
    plan = msgspec.to_builtins(plan, enc_hook=str)
    return copied(ContextAnswer, context, segments=list(context.segments), plan=plan, request=request)
