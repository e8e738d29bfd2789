"""Handles one request: prepares it, sends it upstream, streams and records the answer.

client ──► place in the log ──► context within the budget ──► upstream ──► client
                                    ▲                            │
                                    └──── own tools answered ◄───┘
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
import msgspec

from foveate import telemetry
from foveate.errors import BadRequest, BadUpstream, ErasedMeanwhile, FoveateError, NotFound, contained
from foveate.events import Event
from foveate.intake.recorder import Placement, Recorder
from foveate.server.gateway.bodies import content_of, decoded, is_json, is_large, read_answer, read_error
from foveate.server.gateway.headers import written
from foveate.server.gateway.limits import MIN_PLAUSIBLE, PromptLimits
from foveate.server.gateway.prepare import ClientCall, Preparation, Prepared, model_key, unchanged
from foveate.server.gateway.reply import GatewayReply, reply_soon
from foveate.server.gateway.state import REPLACED, unshared_state
from foveate.server.gateway.thinking import with_valid_thinking
from foveate.server.gateway.upstream import answer_headers
from foveate.server.gateway.wires import OwnCall, UpstreamAnswer
from foveate.server.gateway.wires.fields import encode
from foveate.server.problems import ProblemError
from foveate.server.sse import SseParser
from foveate.session import Session
from foveate.session.budgets import BudgetState
from foveate.session.client_calls import CHARS_PER_TOKEN, CallNote, ClientCalls
from foveate.session.client_requests import read_overflow, round_tokens
from foveate.session.sent import plain
from foveate.tokens import CALIBRATED_SHARE
from foveate.turn import Message, Text, ToolResult

Record = dict[str, Any]

MAX_ROUNDS: Final = 8
"""Maximum rounds of own tools in one answer; in the round after them the model may not call tools, so it answers."""
MAX_SHORTENED: Final = 3
"""Maximum number of times that a request which was too long is sent again with less."""
TOO_LONG_STATUSES: Final = (httpx2.codes.BAD_REQUEST, httpx2.codes.CONTENT_TOO_LARGE)
"""Statuses of a request that is too long."""
MAX_CALLS: Final = 16
"""Maximum number of own calls executed in one round."""
_NO_MORE: Final = "Not executed: no more calls of the history tools in this answer. Answer with what you have.\n"
_LAST: Final = "(No more calls of tools in this answer. Answer now with what you have.)\n"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Delivery:
    """An answer in progress to the client."""

    call: ClientCall
    prepared: Prepared
    answer: UpstreamAnswer
    response: httpx2.Response
    ending: asyncio.Future[Record | None] | None = None
    """The task that records the last round; it continues if the stream is stopped."""
    is_logged: bool = True
    """Whether all rounds so far are in the log."""
    is_closed: bool = False
    outcome: str = "cancelled"
    """How it ended: `cancelled`, unless the answer ended or was cut off upstream."""


class Gateway:
    """Forwards the requests of one tenant."""

    def __init__(
        self,
        recorder: Recorder,
        client: httpx2.AsyncClient,
        *,
        window_of: Callable[[str], int | None],
        publish: Callable[[Event], None],
        shared_routes: Collection[str] = (),
        max_rounds: int = MAX_ROUNDS,
        account: ClientCalls | None = None,
        large: asyncio.Lock | None = None,
    ) -> None:
        """`large` is held while a large request is prepared; gateways of one process share it."""
        self._large = large or asyncio.Lock()
        self._account = account
        self._recorder = recorder
        self._client = client
        self._limits = PromptLimits(window_of)
        self._shared_routes = shared_routes
        self._preparation = Preparation(recorder, self._limits, publish)
        self._max_rounds = max_rounds

    async def handle(self, call: ClientCall, *, store: bool = True) -> GatewayReply:
        _check_background(call)
        # What the log can't replace is refused before anything is recorded.
        self._keep_apart(call, {key: value for key, value in call.request.body.items() if key not in REPLACED})
        await self._check_budget(call)
        prepared = await self._prepared(call) if store else unchanged(call, "off")
        try:
            self._keep_apart(call, prepared.body)
        except ProblemError:
            self._release(prepared)
            raise
        if call.target.key is not None:
            prepared.raw = b""  # of a field that occurs twice, send the one that was checked
        try:
            await self._book(call, prepared)
        except BaseException:
            self._release(prepared)
            raise
        overhead = time.perf_counter() - call.began
        prepared.answer_headers["x-foveate-overhead-ms"] = f"{overhead * 1_000:.1f}"
        sending = self._sent(call, prepared)
        if not call.request.is_stream:
            return await sending
        answer = call.wire.answer(call.request, own_names=frozenset())
        ping, headers = call.wire.ping(), prepared.answer_headers
        return await reply_soon(sending, answer, ping, headers, waited_seconds=overhead)

    async def _prepared(self, call: ClientCall) -> Prepared:
        """Prepare a request; large ones one at a time: two at once take as long, and twice the memory."""
        if not is_large(call.raw):
            return await self._preparation.prepare(call)
        async with self._large:
            return await self._preparation.prepare(call)

    def _keep_apart(self, call: ClientCall, body: Record) -> None:
        """Send what names stored state of the provider with the client's own key only; refuse it without one."""
        if call.target.key is not None and (problem := unshared_state(body, self._shared_routes)):
            call.target = call.target.of_client(call.headers, call.query, problem)

    async def _check_budget(self, call: ClientCall) -> None:
        """Raise `ProblemError` 429 if the key's budget does not allow even the answer."""
        if call.note is None or self._account is None:
            return
        state = await self._account.check(call.note, call.budget)
        if state.is_exceeded:
            raise over_budget(state)

    async def _book(self, call: ClientCall, prepared: Prepared) -> None:
        """Book the call against its key's budget; `ProblemError` 429 if the budget does not allow it."""
        note = call.note
        if note is None or self._account is None:
            return
        _describe(note, prepared)
        if (placed := prepared.placement) is not None:
            counter, calibration = placed.session.engine.counter, prepared.calibration
            note.session, note.scale = placed.name, lambda tokens: counter.scale(tokens, calibration)
            note.count = counter.count
        if not call.budget.is_limited:
            return
        tokens = note.tokens or len(call.raw) // CHARS_PER_TOKEN
        state = await self._account.book(note, call.budget, tokens)
        if state.is_exceeded:
            raise over_budget(state)
        if state.is_soft_reached:
            prepared.answer_headers["x-foveate-budget"] = state.sentence()

    def _end(
        self,
        call: ClientCall,
        prepared: Prepared,
        *,
        status: int,
        outcome: str = "ok",
        answer: UpstreamAnswer | None = None,
    ) -> None:
        """Hand what is known of a call to the account; only the first time counts."""
        note = call.note
        if note is None or self._account is None or note.is_ended:
            return
        if (placed := prepared.placement) is not None:
            note.session, note.turn = placed.name, placed.turn
        if answer is not None:
            note.total = answer.total_usage
            if answer.rounds == 1:
                note.first = answer.usage
            note.answered, note.is_reported_whole = frozenset(answer.models), answer.is_reported
            if unreported := answer.unreported:
                with contained(_log, "an answer without usage was not counted"):
                    note.unreported_tokens = note.total.output_tokens + note.count(encode(unreported).decode())
        elif note.is_sent:
            note.is_reported_whole = False
        note.status, note.outcome = status, outcome
        note.end()
        if note.is_sent and telemetry.is_on():
            telemetry.model_call(_told(note, is_stream=call.request.is_stream))
        if note.is_sent or note.reservation is not None:
            self._account.add(note)

    async def _sent(self, call: ClientCall, prepared: Prepared) -> GatewayReply:
        try:
            return await self._send(call, prepared)
        except BaseException as error:
            is_upstream = isinstance(error, BadUpstream)
            status, outcome = (httpx2.codes.BAD_GATEWAY, "unreachable") if is_upstream else (0, "cancelled")
            self._end(call, prepared, status=status, outcome=outcome)
            self._release(prepared)
            raise

    async def compact(self, call: ClientCall) -> list[Record]:
        """Compact a request's conversation to less than half its tokens, for the client to send instead."""
        return await self._preparation.compact(call)

    @property
    def responses(self) -> Recorder:
        """The recorder that finds responses by id."""
        return self._recorder

    async def _send(self, call: ClientCall, prepared: Prepared) -> GatewayReply:
        response = await self._post(call, prepared.body, prepared.raw)
        await self._recorded(call, prepared)
        shortened = 0
        while response.status_code >= httpx2.codes.BAD_REQUEST:
            data = await read_error(response)
            smaller = await self._smaller(call, prepared, response, data) if shortened < MAX_SHORTENED else None
            if smaller is None:
                self._end(call, prepared, status=response.status_code, outcome="refused")
                self._release(prepared)
                return _failed(response, data, prepared)
            shortened += 1
            prepared, response = smaller, await self._post(call, smaller.body)
            if call.note is not None:
                _describe(call.note, smaller)
        headers = {**answer_headers(response.headers), **prepared.answer_headers}
        answer = call.wire.answer(call.request, own_names=prepared.own_names)
        answer.hides_usage = self._asked(call, call.request.body) is not call.request.body
        delivery = Delivery(call, prepared, answer, response)
        if not call.request.is_stream or is_json(response):  # some servers ignore `stream: true`
            return GatewayReply(response.status_code, headers, await self._whole(delivery))
        headers["content-type"] = answer.media_type
        return GatewayReply(
            response.status_code,
            headers,
            stream=self._streamed(delivery),
            close=lambda: self._close(delivery),
            media_type=answer.media_type,
            ping=call.wire.ping(),
        )

    async def _recorded(self, call: ClientCall, prepared: Prepared) -> None:
        """Wait until the request is recorded. A failure of the store is reported and does not fail the answer."""
        placed = prepared.placement
        if placed is None:
            return
        try:
            await placed.recorded()
        except FoveateError as error:
            prepared.answer_headers |= self._preparation.bypassed(call, error).answer_headers
            del prepared.answer_headers["x-foveate-session"]
            self._release(prepared)
        else:
            prepared.answer_headers |= {"x-foveate-session": written(placed.name), "x-foveate-turn": placed.turn_id}

    async def _smaller(
        self, call: ClientCall, prepared: Prepared, response: httpx2.Response, data: bytes
    ) -> Prepared | None:
        """Return the request with less history, if the provider rejected it as too long; None if that can't help.

        Then the client gets the provider's own error.
        """
        placed = prepared.placement
        if placed is None or response.status_code not in TOO_LONG_STATUSES:
            return None
        if (overflow := read_overflow(data)) is None:
            return None
        engine, request = placed.session.engine, call.request
        is_smaller = self._limits.learn(
            model_key(call),
            overflow,
            sent_tokens=prepared.tokens,
            answer_tokens=request.max_output_tokens,
            budget_tokens=engine.unlimited_budget_tokens,
        )
        if not is_smaller:
            return None
        with contained(_log, "a request that was too long could not be made smaller"):
            if (reported := overflow.prompt_tokens or 0) > prepared.tokens:
                await engine.calibrate(prepared.tokens, prepared.calibration, reported_tokens=reported)
            smaller = await self._preparation.assembled(call, placed)
            is_shared = call.target.key is None or not unshared_state(smaller.body, self._shared_routes)
            if smaller.body != prepared.body and is_shared:
                for name in ("x-foveate-overhead-ms", "x-foveate-turn"):
                    smaller.answer_headers[name] = prepared.answer_headers[name]
                return smaller
        return None

    async def _post(
        self, call: ClientCall, body: Record, raw: bytes = b"", *, is_first: bool = True
    ) -> httpx2.Response:
        asked = self._asked(call, body)
        if asked is not body:
            body, raw = asked, b""
        content = raw or encode(body)
        if call.note is not None and is_first:
            call.note.is_sent, call.note.body = True, content
        headers = call.target.headers(call.headers, call.wire.format)
        headers["content-type"] = "application/json"
        request = self._client.build_request(
            "POST", call.target.url(call.path, _query(call)), headers=headers, content=content
        )
        try:
            return await self._client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise BadUpstream(f"the upstream can't be reached: {_described(error)}") from error

    def _asked(self, call: ClientCall, body: Record) -> Record:
        """Return the body with a request for the usage, if the call counts against a budget."""
        return call.wire.with_usage(body) if call.budget.is_limited else body

    async def _whole(self, delivery: Delivery) -> bytes:
        """Return the answer as one body; a JSON object that is no answer, such as an error, unchanged."""
        body: Record | None = delivery.prepared.body
        status, outcome = int(httpx2.codes.BAD_GATEWAY), "broken-off"
        try:
            while body is not None:
                data = await read_answer(delivery.response)
                self._note_first_byte(delivery.call)
                found = decoded(data)
                try:
                    delivery.answer.load(found)
                except BadUpstream:
                    if delivery.answer.rounds > 1:
                        raise
                    status, outcome = delivery.response.status_code, "refused"
                    return data
                body = await self._end_round(delivery, body)
                if body is not None:
                    delivery.response = await self._post_again(delivery.call, body)
            whole = msgspec.json.encode(delivery.answer.result())
            status, outcome = delivery.response.status_code, "ok"
            return whole
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except httpx2.HTTPError as error:
            raise BadUpstream(f"the upstream's answer was cut off: {_described(error)}") from error
        finally:
            self._end(delivery.call, delivery.prepared, status=status, outcome=outcome, answer=delivery.answer)
            self._release(delivery.prepared)

    async def _streamed(self, delivery: Delivery) -> AsyncGenerator[bytes, None]:
        """Stream the answer; it is recorded before its end is passed on."""
        answer = delivery.answer
        body: Record | None = delivery.prepared.body
        try:
            while body is not None:
                async with aclosing(self._events(answer, delivery.response)) as pieces:
                    async for piece in pieces:
                        self._note_first_byte(delivery.call)
                        yield piece
                if not answer.is_complete:
                    raise BadUpstream("the upstream's stream ended in the middle of an answer")
                delivery.ending = asyncio.ensure_future(self._end_round(delivery, body))
                body = await asyncio.shield(delivery.ending)
                if body is not None:
                    await delivery.response.aclose()
                    delivery.response = await self._post_again(delivery.call, body)
                    delivery.ending = None
            delivery.outcome = "ok"
            yield b"".join(answer.finish())
        except (FoveateError, ProblemError, httpx2.HTTPError) as error:
            delivery.outcome = "broken-off"
            for piece in answer.abort(_described(error)):
                yield piece
        finally:
            await self._close(delivery)

    async def _close(self, delivery: Delivery) -> None:
        """Close the upstream's stream, and record a partial answer."""
        if delivery.is_closed:
            return
        delivery.is_closed = True
        await delivery.response.aclose()
        if delivery.ending is not None:
            await asyncio.wait({delivery.ending})
        elif placed := delivery.prepared.placement:
            await asyncio.shield(self._kept(delivery.call, self._add_partial(delivery, placed)))
        outcome = "refused" if delivery.answer.has_failed else delivery.outcome
        status = delivery.response.status_code
        self._end(delivery.call, delivery.prepared, status=status, outcome=outcome, answer=delivery.answer)
        self._release(delivery.prepared)

    def _note_first_byte(self, call: ClientCall) -> None:
        if call.note is not None and not call.note.first_byte_seconds:
            call.note.first_byte_seconds = time.perf_counter() - call.note.began

    async def _end_round(self, delivery: Delivery, body: Record) -> Record | None:
        """Record a round. Return the next round's body if the model waits only for results of own tools."""
        call, answer, placed = delivery.call, delivery.answer, delivery.prepared.placement
        if placed is None:
            return None
        await self._calibrate(delivery, placed.session)
        if call.note is not None and answer.rounds == 1:
            call.note.first = answer.usage
        results = await self._own_results(placed.session, answer)
        if not results or answer.has_client_calls or answer.rounds > self._max_rounds:
            await self._kept(call, self._finish(call, placed, answer, results))
            return None
        said, found = answer.round_messages, _own_messages(results)
        is_kept = await self._kept(call, self._recorder.add_round(placed, call.wire.format, said, found))
        delivery.is_logged = delivery.is_logged and is_kept
        following = await self._fitting(delivery, placed, results) or answer.follow_up(body, list(results))
        if call.wire.format == "anthropic":  # a model may begin a turn without thinking
            following = with_valid_thinking(following)
        await self._book_round(delivery)
        is_last = answer.rounds == self._max_rounds
        answer.next_round()
        return call.wire.without_calls(following) if is_last else following

    async def _fitting(
        self, delivery: Delivery, placed: Placement, results: Sequence[tuple[OwnCall, str]]
    ) -> Record | None:
        """Return the next round's request assembled anew if this round no longer fits the budget beside the last one's.

        None if it fits, and if the log can't replace the last request: a round is not in it, or it can't be read.
        """
        prepared = delivery.prepared
        texts = [encode(delivery.answer.round_messages).decode(), *(text for _, text in results)]
        tokens = prepared.tokens + round_tokens(placed.session.engine, texts, prepared.calibration)
        if tokens > prepared.budget_tokens and delivery.is_logged:
            try:
                delivery.prepared = await self._preparation.assembled(delivery.call, placed)
            except FoveateError as error:
                self._preparation.bypassed(delivery.call, error)
            else:
                return delivery.prepared.body
        prepared.tokens = tokens
        return None

    async def _book_round(self, delivery: Delivery) -> None:
        """Book the next round against the key's budget; `ProblemError` 429 if the budget does not allow it."""
        call = delivery.call
        if call.note is None or call.note.reservation is None or self._account is None:
            return
        answer, call.note.answered = delivery.answer, frozenset(delivery.answer.models)
        used = answer.total_usage if answer.is_reported else None
        state = await self._account.book_round(call.note, call.budget, used, delivery.prepared.tokens)
        if state.is_exceeded:
            raise over_budget(state)

    async def _calibrate(self, delivery: Delivery, session: Session) -> None:
        """Learn from the usage of the first round how the provider counts; later rounds were not counted here."""
        prepared, reported = delivery.prepared, delivery.answer.reported_tokens
        is_large = prepared.tokens >= CALIBRATED_SHARE * prepared.budget_tokens
        base_tokens = prepared.tokens / (session.engine.counter.factor * prepared.calibration)
        if delivery.answer.rounds == 1 and is_large and reported >= MIN_PLAUSIBLE * base_tokens:
            with contained(_log, "token counts were not calibrated"):
                await session.engine.calibrate(prepared.tokens, prepared.calibration, reported_tokens=reported)

    async def _post_again(self, call: ClientCall, body: Record) -> httpx2.Response:
        response = await self._post(call, body, is_first=False)
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            await response.aclose()
            raise BadUpstream(f"the upstream answered {response.status_code} in a round of the history tools")
        return response

    async def _events(self, answer: UpstreamAnswer, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """Yield the client's part of each chunk, including what came before a malformed event."""
        parser = SseParser()
        async for chunk in content_of(response):
            pieces: list[bytes] = []
            try:
                for event in parser.feed(chunk):
                    pieces += answer.feed(event)
            except BadUpstream:
                if pieces:
                    yield b"".join(pieces)
                raise
            if pieces:
                yield b"".join(pieces)
        for event in parser.close():
            if piece := b"".join(answer.feed(event)):
                yield piece

    async def _own_results(self, session: Session, answer: UpstreamAnswer) -> list[tuple[OwnCall, str]]:
        most = MAX_CALLS if answer.rounds <= self._max_rounds else 0
        results = [
            (call, await session.call_tool(call.name, call.arguments) if index < most else _NO_MORE)
            for index, call in enumerate(answer.own_calls)
        ]
        if results and answer.rounds == self._max_rounds:
            call, text = results[-1]
            results[-1] = call, f"{text.rstrip()}\n{_LAST}"
        return results

    async def _finish(
        self, call: ClientCall, placed: Placement, answer: UpstreamAnswer, results: Sequence[tuple[OwnCall, str]]
    ) -> None:
        """Record the last round."""
        own = _own_messages(results)
        said, shown = answer.round_messages, answer.shown_messages()
        await self._recorder.add_answer(placed, call.wire.format, said=said, shown=shown, results=own)
        if call.wire.format == "openai-responses" and call.request.body.get("store") is not False:
            response = answer.result()
            if isinstance(response.get("id"), str):  # some servers name none, so no request can continue it
                await self._recorder.add_response(placed, response)

    async def _add_partial(self, delivery: Delivery, placed: Placement) -> None:
        """Record the received part of an interrupted round."""
        await self._recorder.add_partial(placed, delivery.call.wire.format, delivery.answer.round_messages)

    async def _kept(self, call: ClientCall, writing: Awaitable[object]) -> bool:
        """Wait for a record; return whether it is stored. A failure of the store is reported and does not fail the
        answer."""
        try:
            await writing
            return True
        except (ErasedMeanwhile, NotFound) as error:  # its turn was erased, or its session deleted
            _log.info("an answer is not recorded: %s", error)
        except FoveateError as error:
            self._preparation.bypassed(call, error)
        return False

    def _release(self, prepared: Prepared) -> None:
        if prepared.placement is not None:
            self._recorder.release(prepared.placement)
            prepared.placement = None


def _describe(note: CallNote, prepared: Prepared) -> None:
    """Note what a request consists of."""
    note.tokens, note.fixed_tokens = prepared.tokens, prepared.fixed_tokens
    note.segments, note.budget_tokens, note.cause = prepared.segments, prepared.budget_tokens, prepared.cause


def _check_background(call: ClientCall) -> None:
    """Raise `BadRequest` for an answer that the gateway would neither record nor account."""
    if not call.request.is_background:
        return
    if not call.request.is_stream:
        raise BadRequest("responses in the background are not supported without stream: true", "background")
    if call.budget.usd is not None:
        problem = "a key with a budget can't have responses in the background, whose cost is not known when they end"
        raise BadRequest(problem, "background")


def over_budget(state: BudgetState) -> ProblemError:
    """Return the refusal of a call that could exceed its key's budget."""
    budget, resets = state.budget, state.budget.resets_at()
    lost = f" (${state.lost_usd:.4f} of it booked by calls that never ended)" if state.lost_usd else ""
    seconds, retry = max(1, math.ceil((resets - datetime.now(UTC)).total_seconds())), "false"
    if state.is_only_booked:  # calls in progress are booked at their maximum, and mostly cost less
        seconds, retry = min(seconds, max(1, round(state.booked_seconds))), "true"  # old ones may be of a killed server
    problem = (
        f"the budget of this key is ${budget.usd or 0:g} a {budget.period}: ${state.spent_usd:.4f} are spent"
        f"{lost}, "
        f"${state.booked_usd:.4f} are booked for calls in progress, and this request may cost up to "
        f"${state.needed_usd:.4f}; the budget resets at {resets:%Y-%m-%dT%H:%M:%SZ}; until then send less, or "
        "limit the answer"
    )
    headers = {"Retry-After": str(seconds), "x-should-retry": retry}
    return ProblemError(429, problem, kind="budget-reached", headers=headers)


def _own_messages(results: Sequence[tuple[OwnCall, str]]) -> list[Message]:
    """Return the results of own calls as messages."""
    return [Message("tool", (ToolResult(call.id or None, (Text(text),), name=call.name),)) for call, text in results]


def _query(call: ClientCall) -> str:
    """Return the query; Gemini needs `alt=sse` to stream events."""
    if call.wire.format != "gemini" or not call.request.is_stream or "alt=sse" in call.query:
        return call.query
    return f"{call.query}&alt=sse" if call.query else "alt=sse"


def _described(error: Exception) -> str:
    return str(error) or type(error).__name__


def _told(note: CallNote, *, is_stream: bool) -> telemetry.ModelCall:
    """Return what a trace tells of a client's call."""
    used = note.used
    return telemetry.ModelCall(
        provider="gemini" if note.format == "gemini" else note.format,
        operation="generate_content" if note.format == "gemini" else "chat",
        model=plain(note.model),
        outcome=note.outcome,
        seconds=note.seconds,
        session_id=note.session_id or "",
        address=note.address,
        first_seconds=note.first_byte_seconds if is_stream else 0.0,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cache_read_tokens,
        written_tokens=used.cache_write_tokens,
        thinking_tokens=used.reasoning_tokens,
        status=note.status,
    )


def _failed(response: httpx2.Response, data: bytes, prepared: Prepared) -> GatewayReply:
    """Pass on an upstream's error unchanged, with its retry headers."""
    media_type = response.headers.get("content-type", "application/json")
    headers = {**answer_headers(response.headers), **prepared.answer_headers}
    return GatewayReply(response.status_code, headers, data, media_type=media_type)
