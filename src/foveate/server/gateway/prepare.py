"""Prepares one request: records its new messages, and sends the client's own while it fits, else an assembled one.

If the store or the planner fails, the client's own body is forwarded, and a header reports it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from foveate.cache import BoundedCache
from foveate.errors import (
    BudgetExceeded,
    FoveateError,
    InputError,
    InvalidMessage,
    NotFound,
    Refused,
    RightMissing,
    contained,
)
from foveate.events import Event
from foveate.intake.chain import read_history, read_history_in_steps
from foveate.intake.recorder import Placement, Recorder, SessionCheck, SessionChoice
from foveate.intake.sessions import ClientId, SessionDecision, place_name
from foveate.server.bodies import check_parts
from foveate.server.gateway.bodies import is_large
from foveate.server.gateway.breakpoints import CACHE_CONTROL, limit_breakpoints, with_breakpoints, with_lifetime
from foveate.server.gateway.headers import written
from foveate.server.gateway.limits import ModelKey, PromptLimits
from foveate.server.gateway.state import replaced_fields, without_compaction
from foveate.server.gateway.thinking import needs_thinking, with_valid_thinking
from foveate.server.gateway.upstream import Target
from foveate.server.gateway.wires import ClientRequest, Wire
from foveate.server.gateway.wires.fields import in_cache_order
from foveate.session import Session
from foveate.session.budgets import KeyBudget
from foveate.session.client_calls import CallNote
from foveate.session.client_requests import (
    HISTORY_TOOLS,
    are_same,
    came_from_client,
    context_for,
    extra_system,
    messages_of,
    whole_tokens,
)
from foveate.session.values import Context, Segment

Record = dict[str, Any]

COMPACT_TOKENS: Final = 8_000
"""Token limit of a compacted conversation."""
MAX_COMPACTED: Final = 1_000
WHOLE_SHARE: Final = 0.98
"""A history with this share of a request's tokens counts as complete; the two counts are made differently."""
MAX_TOOLS_SHARE: Final = 0.2
"""The history tools are not offered if their definitions need more than this share of the budget."""
HISTORY_TOOLS_TOKENS: Final = 520
FIXED: Final = ("system", "tools")
"""Segments that a request has however much of the conversation it shows."""
_SIGNED: Final = (b'"signature"', b'"redacted_thinking"')
"""Marks of signed thinking in the bytes of a request, which is bound to what precedes it; texts escape quotes."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ClientCall:
    """A client's request in progress."""

    wire: Wire
    request: ClientRequest
    path: str
    query: str
    headers: Mapping[str, str]
    target: Target
    named: ClientId | None
    choice: SessionChoice
    raw: bytes = b""
    """The body as the client sent it."""
    check: SessionCheck | None = None
    """Raises `RightMissing` for a session that the client may not continue."""
    note: CallNote | None = None
    """What the account gets of it; None for a request that no provider gets."""
    budget: KeyBudget = field(default_factory=KeyBudget)
    began: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class Prepared:
    """A request that is ready to send upstream."""

    body: Record
    answer_headers: dict[str, str]
    raw: bytes = b""
    """The body as bytes, if it is sent unchanged."""
    placement: Placement | None = None
    tokens: int = 0
    """Tokens of the context."""
    own_names: frozenset[str] = frozenset()
    memory_tokens: int = 0
    """Tokens of the earlier turns that the prompt recalls."""
    budget_tokens: int = 0
    calibration: float = 1.0
    """The session's calibration when the tokens were counted."""
    fixed_tokens: int | None = None
    """Tokens besides the conversation; None if the whole conversation is sent."""
    segments: Sequence[Segment] = ()
    """The parts of an assembled request."""
    cause: str = ""
    """Why the plan was made anew for this request; empty: it was not."""


@dataclass(frozen=True, slots=True)
class _Compacted:
    """A conversation that a client got compacted, to send instead of its history."""

    named: ClientId
    start: str
    """The place after its last turn."""
    count: int
    """Its messages; what follows them is new."""


class Preparation:
    """Prepares the requests of one tenant."""

    def __init__(self, recorder: Recorder, limits: PromptLimits, publish: Callable[[Event], None]) -> None:
        self._recorder = recorder
        self._limits = limits
        self._publish = publish
        self._compacted: BoundedCache[str, _Compacted] = BoundedCache(MAX_COMPACTED)
        """Compacted conversations by the key of their last message."""

    async def prepare(self, call: ClientCall) -> Prepared:
        """Return the request to send upstream; the client's own if assembling fails."""
        try:
            placed = await self._place(call)
        except InvalidMessage as error:
            return self.bypassed(call, error)  # the provider may accept message types that we do not know
        except (InputError, RightMissing):
            raise
        except FoveateError as error:
            return self.bypassed(call, error)
        if isinstance(placed, SessionDecision):
            return unchanged(call, placed.reason)
        try:
            return await self._within_budget(call, placed)
        except BaseException as error:
            if isinstance(error, BudgetExceeded):
                await self._recorder.withdraw(placed)
            self._recorder.release(placed)
            if isinstance(error, BudgetExceeded | InputError) or not isinstance(error, FoveateError):
                raise
            return self.bypassed(call, error)

    async def compact(self, call: ClientCall) -> list[Record]:
        """Compact a request's conversation to less than half its tokens, for the client to send instead.

        The client sends its system prompt again, so that takes none of the limit.
        """
        placed = await self._place(call)
        if isinstance(placed, SessionDecision):
            return list(call.request.messages)
        try:
            await placed.recorded()
            budget = min(placed.session.info.budget_tokens, COMPACT_TOKENS)
            context = await context_for(
                placed.session.engine,
                call.wire.format,
                history_tools=False,
                budget_tokens=budget,
                client=placed.client_texts,
            )
            messages = messages_of(context, call.wire.format)
            if key := next(reversed(read_history(call.wire.format, messages).keys), ""):
                turns = (await placed.session.refresh()).turns
                named = ClientId(placed.name, "the compacted conversation", is_ours=True)
                self._compacted[key] = _Compacted(named, place_name(placed.name, turns), len(messages))
            return messages
        finally:
            self._recorder.release(placed)

    async def _place(self, call: ClientCall) -> Placement | SessionDecision:
        """Find the request's session, and start to record new messages."""
        start, named, messages = "", call.named, call.request.messages
        await asyncio.to_thread(check_parts, messages) if is_large(call.raw) else check_parts(messages)
        history = await read_history_in_steps(call.wire.format, messages)
        if previous := call.request.hints.get("previous_response_id"):
            if (found := await self._recorder.get_response(previous)) is None:
                return SessionDecision("pass", "a response that only the provider stores", history)
            start, named = found.chain, ClientId(found.session_id, "previous_response_id")
        elif compacted := next(filter(None, map(self._compacted.get, history.keys)), None):
            start, named, messages = compacted.start, compacted.named, messages[compacted.count :]
        if start:
            history = await read_history_in_steps(call.wire.format, messages, start=start)
        return await self._recorder.begin(call.request, history, named, call.choice, check=call.check)

    async def _within_budget(self, call: ClientCall, placed: Placement) -> Prepared:
        """Return the client's own request while it fits, with what it recalls, or an assembled one."""
        as_sent = self._as_sent(call, placed)
        if as_sent is None:
            return await self.assembled(call, placed)
        changed = self._bound if _may_be_unbound(call, placed) else self._recalled
        return await changed(call, placed, as_sent) or as_sent

    def _as_sent(self, call: ClientCall, placed: Placement) -> Prepared | None:
        """Return the client's own request if it has the session's whole history and fits the budget.

        Sending does not wait until the request is recorded; the end of the answer does.
        """
        request, session = call.request, placed.session
        if placed.whole is None:
            return None
        self._limit(call, session)
        tokens = whole_tokens(
            session.engine,
            placed.whole,
            placed.drafts,
            system=request.system,
            tools=request.tools,
            renewed=placed.history.renewed_text(),
        )
        if tokens is None:
            return None
        came_from_client(session.engine, request.system, request.tools, request.messages)
        same = {"messages": request.messages}
        body = call.wire.upstream_body(request, same, extra_system="", own_tools=[])
        if call.wire.format == "anthropic" and CACHE_CONTROL not in call.raw:
            body = with_breakpoints(body, placed.history)
        headers = _place_headers(call, body, placed, tokens)
        if placed.record is not None:  # a stream's headers are sent before the provider answers
            placed.record.add_done_callback(
                lambda _: placed.turn and headers.update({"x-foveate-turn": placed.turn_id})
            )
        row = session.engine.row
        return Prepared(
            in_cache_order(body),
            headers,
            placement=placed,
            tokens=tokens,
            budget_tokens=row.budget_tokens,
            calibration=row.calibration,
        )

    async def _recalled(self, call: ClientCall, placed: Placement, as_sent: Prepared) -> Prepared | None:
        """Add what the prompt recalls of other sessions to a request that could be sent unchanged.

        None if nothing is recalled, if the whole request would no longer fit, or if recall fails.
        """
        if not placed.session.info.scope or not placed.may_recall:
            return None
        with contained(_log, "recall failed; the request is sent without it"):
            prepared = await self.assembled(call, placed)
            if prepared.memory_tokens and prepared.tokens - prepared.memory_tokens >= WHOLE_SHARE * as_sent.tokens:
                return prepared
        came_from_client(placed.session.engine, call.request.system, call.request.tools, call.request.messages)
        return None

    async def _bound(self, call: ClientCall, placed: Placement, _as_sent: Prepared) -> Prepared | None:
        """Return the assembled request; None if the client's own is the same but for hints to the cache."""
        request, prepared = call.request, await self.assembled(call, placed)
        is_same = prepared.body.get("system") == request.body.get("system") and not prepared.own_names
        messages: list[Record] = prepared.body["messages"]
        if not is_same or not are_same(messages, request.messages):
            return prepared
        came_from_client(placed.session.engine, request.system, request.tools, request.messages)
        return None

    def _limit(self, call: ClientCall, session: Session) -> None:
        """Limit the session's budget to what the model accepts."""
        answer, budget = call.request.max_output_tokens, session.engine.unlimited_budget_tokens
        session.engine.limit_budget(self._limits.prompt_tokens(model_key(call), answer, budget_tokens=budget))

    async def assembled(self, call: ClientCall, placed: Placement) -> Prepared:
        await placed.recorded()
        try:
            return await self._assemble(call, placed)
        except BudgetExceeded:
            # Only the provider can say whether a learned limit still applies.
            if not self._limits.forget(model_key(call)):
                raise
            return await self._assemble(call, placed)

    async def _assemble(self, call: ClientCall, placed: Placement) -> Prepared:
        request, session = call.request, placed.session
        self._limit(call, session)
        context = await context_for(
            session.engine,
            call.wire.format,
            system=request.system,
            extra_tools=request.tools,
            history_tools=_offers_history(session, request),
            is_late=True,
            needs_thinking=needs_thinking(request.body),
            client=placed.client_texts,
        )
        own = _own_tools(context, call.wire.format, len(request.tools))
        body = call.wire.upstream_body(
            request,
            {"messages": messages_of(context, call.wire.format)},
            extra_system=extra_system(context, request.system),
            own_tools=own,
        )
        if call.wire.format == "anthropic":
            body = limit_breakpoints(with_lifetime(with_valid_thinking(body), request.messages))
        body = in_cache_order(without_compaction(body))
        headers = _place_headers(call, body, placed, context.tokens)
        memory = sum(segment.tokens for segment in context.segments if segment.name == "memory")
        return Prepared(
            body,
            headers,
            placement=placed,
            tokens=context.tokens,
            own_names=frozenset(_names(own)),
            memory_tokens=memory,
            budget_tokens=context.budget_tokens,
            calibration=context.calibration,
            fixed_tokens=sum(segment.tokens for segment in context.segments if segment.name in FIXED),
            segments=context.segments,
            cause=(context.planned.cause or "") if context.planned.is_new else "",
        )

    def bypassed(self, call: ClientCall, error: FoveateError) -> Prepared:
        problem = f"{type(error).__name__}: {error}"[:300]
        named = call.named.name if call.named else ""
        if isinstance(error, InvalidMessage):  # the client's, not ours
            place = f"{call.wire.format} {named}".rstrip()
            _log.warning("a request (%s) is forwarded unchanged and unrecorded: %r", place, problem)
        elif isinstance(error, NotFound | Refused):  # clients delete and erase meanwhile
            _log.warning("a request is forwarded unchanged and unrecorded: %s", problem)
        else:
            _log.error("a request could not be recorded or assembled; it is forwarded unchanged", exc_info=error)
        data = {"problem": problem}
        self._publish(Event("gateway-bypassed", named, datetime.now(UTC), None, data))
        return unchanged(call, type(error).__name__, header="x-foveate-bypass")


def unchanged(call: ClientCall, reason: str, *, header: str = "x-foveate-unrecorded") -> Prepared:
    return Prepared(dict(call.request.body), {header: reason}, call.raw)


def model_key(call: ClientCall) -> ModelKey:
    return call.target.base, call.request.model


def _may_be_unbound(call: ClientCall, placed: Placement) -> bool:
    """Report whether signed thinking may be bound to recalled turns, which the client's own body lacks."""
    is_bound = call.wire.format == "anthropic" and bool(placed.session.info.scope)
    return is_bound and any(mark in call.raw for mark in _SIGNED)


def _place_headers(call: ClientCall, body: Record, placed: Placement, tokens: int) -> dict[str, str]:
    headers = {"x-foveate-session": written(placed.name), "x-foveate-context-tokens": str(tokens)}
    replaced = replaced_fields(call.request.body, body)
    return {**headers, "x-foveate-replaced": replaced} if replaced else headers


def _offers_history(session: Session, request: ClientRequest) -> bool:
    return (
        not request.tool_names & HISTORY_TOOLS and MAX_TOOLS_SHARE * session.info.budget_tokens >= HISTORY_TOOLS_TOKENS
    )


def _own_tools(context: Context, format_name: str, client_tools: int) -> list[Record]:
    if context.offer is None:
        return []
    definitions = context.offer.definitions(format_name)
    return definitions[: len(definitions) - client_tools]


def _names(definitions: Sequence[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for definition in definitions:
        inner = definition.get("functionDeclarations") or [definition.get("function") or definition]
        found += [str(each["name"]) for each in inner]
    return found
