"""`/sessions/{session}/turns`: record turns, and read them at any level."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import DEFAULT_LIMIT, ItemPage, Limit, read_number, write_cursor
from foveate.server.bodies import MAX_MESSAGES, check_parts
from foveate.session import Session
from foveate.session.values import TurnContent, TurnDetails, copied

routes = Endpoints("turns")
Level = Literal["R", "S", "C", "T"]
Shape = Literal["plain", "tagged"]


class TurnResource(Struct, frozen=True, kw_only=True):
    """A turn: its sizes, and its text if a level is set."""

    id: str
    number: int
    messages: int
    tokens: int
    tool_calls: int
    started_at: datetime
    ended_at: datetime
    raw_bytes: int
    is_pruned: bool
    level: str | None
    content: str | None


class TurnPage(ItemPage[TurnResource], frozen=True):
    """Turns in order."""


class TurnsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the list, and the level of the texts."""

    level: Level | None = None
    """Include each turn's text at this level: R raw, S smoothed, C compressed, T tiny. 404 if one is not made yet."""
    format: Shape = "plain"
    order: Literal["oldest", "newest"] = "oldest"
    """Order of the turns."""
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class TurnQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The level and format of the turn."""

    level: Level = "R"
    format: Shape = "plain"


class RecordBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to record."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MAX_MESSAGES)]
    """In the format of OpenAI, Anthropic or Gemini. Each prompt starts a turn. Send more in several requests, or as an
    import."""
    at: str | None = None
    """Time of messages without one."""
    format: str | None = None
    """Format of the messages. Default: detected."""
    turn: str | None = None
    """The turn that the messages belong to; 409 if a later one has begun."""


class RecordedResource(Struct, frozen=True, kw_only=True):
    """A turn that was created or extended."""

    id: str
    number: int
    messages: int
    tokens: int


class RecordReport(Struct, frozen=True, kw_only=True):
    """The recorded turns, stored durably."""

    session_id: str
    turns: list[RecordedResource]


@routes.add("GET", "/sessions/{session}/turns", right="read")
async def list_turns(session: Session, query: TurnsQuery) -> TurnPage:
    """List the turns of a session, with their sizes or their texts."""
    last = session.info.turns
    is_oldest_first = query.order == "oldest"
    edge = None if query.cursor is None else read_number(query.cursor)
    if is_oldest_first:
        low = 1 if edge is None else edge + 1
        high = min(last, low + query.limit - 1)
        next_edge = high if high < last else None
    else:
        high = last if edge is None else min(edge - 1, last)
        low = max(1, high - query.limit + 1)
        next_edge = low if low > 1 and high >= low else None
    items = await _resources(session, low, high, query) if low <= high else []
    items = items if is_oldest_first else items[::-1]
    return TurnPage(items=items, next_cursor=None if next_edge is None else write_cursor(next_edge))


@routes.add("GET", "/sessions/{session}/turns/{turn}", right="read")
async def get_turn(session: Session, turn: str, query: TurnQuery) -> TurnContent:
    """Get the text of a turn at a level."""
    return await session.get_turn(turn, query.level, query.format)


@routes.add("GET", "/sessions/{session}/turns/{turn}/details", right="read")
async def get_turn_details(session: Session, turn: str) -> TurnDetails:
    """Get the sizes, the topics and the tool calls of a turn, and of each of its levels who made it, and when."""
    return await session.turn_details(turn)


@routes.add("POST", "/sessions/{session}/turns", right="write", status=201)
async def record_turns(call: Call, session: Session, body: RecordBody) -> RecordReport:
    """Record messages durably.

    With an Idempotency-Key, messages that were already recorded under it are not recorded again; other messages under
    the same key are rejected with 422.
    """
    check_parts(body.messages)
    recorded = await session.record_all(
        body.messages, at=body.at, format=body.format, key=call.idempotency_key, turn=body.turn, exact=True
    )
    return RecordReport(session_id=session.id, turns=[copied(RecordedResource, turn) for turn in recorded])


async def _resources(session: Session, low: int, high: int, query: TurnsQuery) -> list[TurnResource]:
    texts: dict[str, TurnContent] = {}
    if query.level:
        texts = {one.turn_id: one for one in await session.get_turns(low, high, query.level, query.format)}
    return [
        copied(
            TurnResource,
            turn,
            tokens=texts[turn.id].tokens if turn.id in texts else turn.tokens,
            level=query.level,
            content=texts[turn.id].content if turn.id in texts else None,
        )
        for turn in await session.outline(low, high)
    ]
