"""Handles one request: prepares it, sends it upstream, streams and records the answer.

client ──► place in the log ──► context within the budget ──► upstream ──► client
                                    ▲                            │
                                    └──── own tools answered ◄───┘
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec

from foveate.errors import BadUpstream, FoveateError, contained
from foveate.events import Event
from foveate.intake.recorder import Placement, Recorder
from foveate.server.gateway.bodies import content_of, decoded, read_answer, read_error
from foveate.server.gateway.headers import written
from foveate.server.gateway.limits import MIN_PLAUSIBLE, PromptLimits
from foveate.server.gateway.prepare import ClientCall, Preparation, Prepared, model_key, unchanged
from foveate.server.gateway.reply import GatewayReply, reply_soon
from foveate.server.gateway.state import REPLACED, unshared_state
from foveate.server.gateway.thinking import with_valid_thinking
from foveate.server.gateway.upstream import answer_headers
from foveate.server.gateway.wires import OwnCall, UpstreamAnswer
from foveate.server.problems import ProblemError
from foveate.server.sse import SseParser
from foveate.session import Session
from foveate.session.client_requests import read_overflow
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
    is_closed: bool = False


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
    ) -> None:
        self._recorder = recorder
        self._client = client
        self._limits = PromptLimits(window_of)
        self._shared_routes = shared_routes
        self._preparation = Preparation(recorder, self._limits, publish)
        self._max_rounds = max_rounds

    async def handle(self, call: ClientCall, *, store: bool = True) -> GatewayReply:
        # What the log can't replace is refused before anything is recorded.
        self._keep_apart(call, {key: value for key, value in call.request.body.items() if key not in REPLACED})
        prepared = await self._preparation.prepare(call) if store else unchanged(call, "off")
        try:
            self._keep_apart(call, prepared.body)
        except ProblemError:
            self._release(prepared)
            raise
        if call.target.key is not None:
            prepared.raw = b""  # of a field that occurs twice, send the one that was checked
        overhead = time.perf_counter() - call.began
        prepared.answer_headers["x-foveate-overhead-ms"] = f"{overhead * 1_000:.1f}"
        sending = self._sent(call, prepared)
        if not call.request.is_stream:
            return await sending
        answer = call.wire.answer(call.request, own_names=frozenset())
        ping, headers = call.wire.ping(), prepared.answer_headers
        return await reply_soon(sending, answer, ping, headers, waited_seconds=overhead)

    def _keep_apart(self, call: ClientCall, body: Record) -> None:
        """Send what names stored state of the provider with the client's own key only; refuse it without one."""
        if call.target.key is not None and (problem := unshared_state(body, self._shared_routes)):
            call.target = call.target.of_client(call.headers, call.query, problem)

    async def _sent(self, call: ClientCall, prepared: Prepared) -> GatewayReply:
        try:
            return await self._send(call, prepared)
        except BaseException:
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
                self._release(prepared)
                return _failed(response, data, prepared)
            shortened += 1
            prepared, response = smaller, await self._post(call, smaller.body)
        headers = {**answer_headers(response.headers), **prepared.answer_headers}
        answer = call.wire.answer(call.request, own_names=prepared.own_names)
        delivery = Delivery(call, prepared, answer, response)
        if not call.request.is_stream:
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

    async def _post(self, call: ClientCall, body: Record, raw: bytes = b"") -> httpx2.Response:
        headers = call.target.headers(call.headers, call.wire.format)
        headers["content-type"] = "application/json"
        request = self._client.build_request(
            "POST", call.target.url(call.path, _query(call)), headers=headers, content=raw or msgspec.json.encode(body)
        )
        try:
            return await self._client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise BadUpstream(f"the upstream can't be reached: {_described(error)}") from error

    async def _whole(self, delivery: Delivery) -> bytes:
        """Return the answer as one body."""
        body: Record | None = delivery.prepared.body
        try:
            while body is not None:
                delivery.answer.load(decoded(await read_answer(delivery.response)))
                body = await self._end_round(delivery, body)
                if body is not None:
                    delivery.response = await self._post_again(delivery.call, body)
            return msgspec.json.encode(delivery.answer.result())
        except httpx2.HTTPError as error:
            raise BadUpstream(f"the upstream's answer was cut off: {_described(error)}") from error
        finally:
            self._release(delivery.prepared)

    async def _streamed(self, delivery: Delivery) -> AsyncGenerator[bytes, None]:
        """Stream the answer; it is recorded before its end is passed on."""
        answer = delivery.answer
        body: Record | None = delivery.prepared.body
        try:
            while body is not None:
                async with aclosing(self._events(answer, delivery.response)) as pieces:
                    async for piece in pieces:
                        yield piece
                if not answer.is_complete:
                    raise BadUpstream("the upstream's stream ended in the middle of an answer")
                delivery.ending = asyncio.ensure_future(self._end_round(delivery, body))
                body = await asyncio.shield(delivery.ending)
                if body is not None:
                    await delivery.response.aclose()
                    delivery.response = await self._post_again(delivery.call, body)
                    delivery.ending = None
            yield b"".join(answer.finish())
        except (FoveateError, httpx2.HTTPError) as error:
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
        self._release(delivery.prepared)

    async def _end_round(self, delivery: Delivery, body: Record) -> Record | None:
        """Record a round. Return the next round's body if the model waits only for results of own tools."""
        call, answer, placed = delivery.call, delivery.answer, delivery.prepared.placement
        if placed is None:
            return None
        await self._calibrate(delivery, placed.session)
        results = await self._own_results(placed.session, answer)
        if not results or answer.has_client_calls or answer.rounds > self._max_rounds:
            await self._kept(call, self._finish(call, placed, answer, results))
            return None
        said, found = answer.round_messages, _own_messages(results)
        await self._kept(call, self._recorder.add_round(placed, call.wire.format, said, found))
        following = answer.follow_up(body, list(results))
        if call.wire.format == "anthropic":  # a model may begin a turn without thinking
            following = with_valid_thinking(following)
        is_last = answer.rounds == self._max_rounds
        answer.next_round()
        return call.wire.without_calls(following) if is_last else following

    async def _calibrate(self, delivery: Delivery, session: Session) -> None:
        """Learn from the usage of the first round how the provider counts; later rounds were not counted here."""
        prepared, reported = delivery.prepared, delivery.answer.reported_tokens
        is_large = prepared.tokens >= CALIBRATED_SHARE * prepared.budget_tokens
        base_tokens = prepared.tokens / (session.engine.counter.factor * prepared.calibration)
        if delivery.answer.rounds == 1 and is_large and reported >= MIN_PLAUSIBLE * base_tokens:
            with contained(_log, "token counts were not calibrated"):
                await session.engine.calibrate(prepared.tokens, prepared.calibration, reported_tokens=reported)

    async def _post_again(self, call: ClientCall, body: Record) -> httpx2.Response:
        response = await self._post(call, body)
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

    async def _kept(self, call: ClientCall, writing: Awaitable[object]) -> None:
        """Wait for a record. A failure of the store is reported and does not fail the answer."""
        try:
            await writing
        except FoveateError as error:
            self._preparation.bypassed(call, error)

    def _release(self, prepared: Prepared) -> None:
        if prepared.placement is not None:
            self._recorder.release(prepared.placement)
            prepared.placement = None


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


def _failed(response: httpx2.Response, data: bytes, prepared: Prepared) -> GatewayReply:
    """Pass on an upstream's error unchanged, with its retry headers."""
    media_type = response.headers.get("content-type", "application/json")
    headers = {**answer_headers(response.headers), **prepared.answer_headers}
    return GatewayReply(response.status_code, headers, data, media_type=media_type)
