"""Chat with a model: record each prompt, answer it within the budget, and record the answer.

    prompt ──► recorded ──► context ──► model ──► recorded, with the results of the tools it called
                               ▲                                           │
                               └─────────── as long as it calls tools ◄────┘

After a failure the prompt stays recorded and the turn open; `answer` tries again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from foveate.agents.calls import (
    INTERRUPTED_CALL,
    MAX_CALLS_PER_ROUND,
    NOT_STARTED,
    TOO_MANY_CALLS,
    CallExecutor,
    failed_result,
    unanswered_calls,
)
from foveate.agents.loop import ToolLoop
from foveate.agents.options import ChatOptions
from foveate.context.context import Context
from foveate.context.prefix import matching_tokens
from foveate.context.render import canonical_messages
from foveate.context.signatures import bound_answer, without_unbound_messages
from foveate.context.tools import ToolSet, definitions_tokens
from foveate.errors import InputError, InvalidMessage, ModelFailed, ModelUnavailable, TurnBegun
from foveate.models import Answer, Ask, Finish
from foveate.models.caller import Caller
from foveate.session import Session
from foveate.store.rows import NANO
from foveate.text import compact_json, message_text, turn_text
from foveate.tokens import CALIBRATED_SHARE
from foveate.turn import Json, Message, Text, ToolCall, Usage, turn_id

__all__ = ["AnswerPiece", "AnswerSummary", "Chat", "ChatEvent", "Notice", "RequestSent", "ToolRequest", "ToolResponse"]

WINDOW_MARGIN_TOKENS = 64
"""Tokens that a provider may add to a request."""
MOST_TOOLS_SHARE = 0.2
"""History tools are not offered if their definitions exceed this share of the budget."""
TOO_LONG_SHARE = 0.75
"""After a prompt was too long for its model, the next attempt gets this share of its tokens."""
INTERRUPTED = "(interrupted)"
TOO_LONG = "The prompt was too long for the model; retrying with fewer tokens. A smaller budget avoids this."


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message as it was sent, to compare it with the next one at its position."""

    text: str
    tokens: int
    is_native: bool = True


@dataclass(frozen=True, slots=True)
class _Made:
    """An answered call of the model."""

    context: Context
    predicted_cached_tokens: int
    usage: Usage


@dataclass(slots=True)
class _Answering:
    """The progress of answering a prompt."""

    turn: int
    nano_usd_before: int
    began: float = field(default_factory=time.monotonic)
    made: list[_Made] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    """Pieces of the message in progress."""
    pending: list[ToolCall] = field(default_factory=list)
    """Recorded calls that have no result yet."""
    is_executing: bool = False
    """Whether the first pending call was started."""


def check_window(budget_tokens: int, max_output_tokens: int, window_tokens: int) -> None:
    """Raise an error that names a fitting size, if a prompt and its answer together could exceed the window."""
    most = window_tokens - max_output_tokens - WINDOW_MARGIN_TOKENS
    if budget_tokens > most:
        advice = f"use a budget of at most {most:,}" if most > 0 else "allow it fewer output tokens"
        raise InputError(
            f"a prompt of {budget_tokens:,} tokens and an answer of {max_output_tokens:,} are more than the model's "
            f"window of {window_tokens:,}; {advice}"
        )


class Chat:
    """Answers the prompts of one session, one at a time."""

    def __init__(
        self,
        session: Session,
        caller: Caller,
        models: Sequence[str],
        options: ChatOptions | None = None,
        **given: Any,
    ) -> None:
        """Try `models` in this order. Keyword arguments are fields of `ChatOptions`."""
        options = replace(options or ChatOptions(), **given)
        self.session = session
        self.models = tuple(models)
        self.toolbox = options.toolbox
        self._caller = caller
        self._options = options
        self._calls = CallExecutor(session, options.own_tools, options.toolbox)
        self._sent: Sequence[_Sent] = ()
        self._sent_tools = 0
        if options.window_tokens is not None:
            check_window(session.info.budget_tokens, options.max_output_tokens, options.window_tokens)
        own = self._calls.definitions
        size = session.counter.scale(
            definitions_tokens("openai", session.counter) + session.counter.base(compact_json(own))
        )
        is_room = size <= MOST_TOOLS_SHARE * session.info.budget_tokens
        if options.toolbox and options.has_tools and not is_room:
            raise InputError(
                f"the definitions of the tools take {size:,} tokens, more than {MOST_TOOLS_SHARE:.0%} of the budget of "
                f"{session.info.budget_tokens:,}; use a larger budget or a smaller pack"
            )
        self.has_tools = options.has_tools and is_room
        self._offer = ToolSet(own, "openai", is_late=True) if self.has_tools else None

    async def say(self, text: str, *, key: str | None = None) -> AsyncGenerator[ChatEvent, None]:
        """Record a prompt and answer it. Raises `ModelError` if no model answered; the prompt stays recorded.

        With a `key`, repeated calls record the same prompt only once.
        """
        if not text.strip():
            raise InvalidMessage("prompt", "has no text")
        await self._end_calls()
        recorded = await self.session.record(Message("user", (Text(text),)), key=key)
        async with aclosing(self._answer(recorded.number)) as events:
            async for event in events:
                yield event

    async def answer(self, *, unstarted: str | None = None) -> AsyncGenerator[ChatEvent, None]:
        """Answer the newest turn if it has no answer yet, e.g. after a failure or a crash.

        Tool calls that have no result because of a crash get one first. `unstarted` is the id of a call that is known
        not to have been started.
        """
        if await self.waiting() is None:
            raise InputError("the newest turn already has an answer; there is nothing to retry")
        async with aclosing(self._answer(self.session.info.turns, unstarted)) as events:
            async for event in events:
                yield event

    async def context(self) -> Context:
        """Return the context that the model would get now."""
        return await self.session.engine.context_with(self._offer, system=self._options.system)

    async def waiting(self) -> str | None:
        """Return the id of the newest turn if it has no answer yet, otherwise None."""
        turns = (await self.session.refresh()).turns
        if not turns or (await self.session.outline(turns))[0].is_pruned:
            return None
        spoken = [message for message in (await self.session.load_turn(turns)).messages if message.kind == "message"]
        is_open = bool(spoken) and (spoken[-1].role in ("user", "tool") or bool(unanswered_calls(spoken)))
        return turn_id(turns) if is_open else None

    async def _answer(self, turn: int, unstarted: str | None = None) -> AsyncGenerator[ChatEvent, None]:
        taken = _Answering(turn, await self._spent_nano_usd())
        try:
            async with aclosing(self._resume_calls(taken, unstarted)) as resumed:
                async for event in resumed:
                    yield event
            loop: ToolLoop[ChatEvent] = ToolLoop(
                ask=partial(self._ask, taken),
                take=partial(self._take, taken),
                is_last=lambda message: self._calls.are_last(message.tool_calls),
                max_rounds=self._options.max_tool_rounds,
            )
            async with aclosing(loop.events()) as events:
                async for piece in events:
                    yield await self._finished(piece, taken) if isinstance(piece, Answer) else piece
        except (asyncio.CancelledError, GeneratorExit):
            await self._keep_partial(taken)
            raise

    async def _take(self, taken: _Answering, message: Message) -> AsyncGenerator[ToolRequest | ToolResponse, None]:
        """Record an answer with the results of its calls."""
        if self._calls.need_record(message.tool_calls):
            await self._record(taken, [message])
            taken.pieces.clear()
            async with aclosing(self._execute_recorded(taken, message.tool_calls)) as events:
                async for event in events:
                    yield event
            return
        results: list[Message] = []
        for place, call in enumerate(message.tool_calls):
            yield ToolRequest(call.name, call.arguments)
            messages = await self._result(call, place)
            results += messages
            yield self._response(messages[-1])
        # Together, so that no call is ever left without its result.
        await self._record(taken, [message, *results])
        taken.pieces.clear()

    async def _execute_recorded(
        self, taken: _Answering, calls: Sequence[ToolCall], interrupted: ToolCall | None = None
    ) -> AsyncGenerator[ToolRequest | ToolResponse, None]:
        """Execute recorded calls and record each result; an interrupted call is not repeated."""
        taken.pending = list(calls)
        for place, call in enumerate(calls):
            yield ToolRequest(call.name, call.arguments)
            if call is interrupted:
                messages = [failed_result(call, INTERRUPTED_CALL)]
            else:
                taken.is_executing = True
                messages = await self._result(call, place)
            await self._record(taken, messages)
            taken.pending.pop(0)
            taken.is_executing = False
            yield self._response(messages[-1])

    async def _resume_calls(
        self, taken: _Answering, unstarted: str | None
    ) -> AsyncGenerator[ToolRequest | ToolResponse, None]:
        """Resume the newest turn's calls that have no result because of a crash. They are executed in order, so only
        the first one can have been started."""
        calls = unanswered_calls((await self.session.load_turn(taken.turn)).messages)
        if not calls:
            return
        first = calls[0]
        is_safe = self._calls.is_repeatable(first) or (first.id is not None and first.id == unstarted)
        async with aclosing(self._execute_recorded(taken, calls, None if is_safe else first)) as events:
            async for event in events:
                yield event

    async def _end_calls(self) -> None:
        """Record an error for calls that have no result because of a crash, so that another prompt can follow."""
        info = await self.session.refresh()
        turns = info.turns
        if turns and turn_id(turns) != info.fork_turn_id and await self.waiting():
            calls = unanswered_calls((await self.session.load_turn(turns)).messages)
            await self._record_interruption(_Answering(turns, 0, pending=list(calls), is_executing=True))

    async def _record_interruption(self, taken: _Answering) -> None:
        """Record errors for the calls in progress; only the first can have been started."""
        problems = [INTERRUPTED_CALL if taken.is_executing else NOT_STARTED]
        problems += [NOT_STARTED] * len(taken.pending)
        results = [failed_result(call, problem) for call, problem in zip(taken.pending, problems, strict=False)]
        if results:
            await self._record(taken, results)

    async def _result(self, call: ToolCall, place: int) -> list[Message]:
        """Execute a call. The last message is its result; the others are the calls of a script."""
        if place >= MAX_CALLS_PER_ROUND:
            return [failed_result(call, TOO_MANY_CALLS)]
        if self._options.admit:
            await self._options.admit()
        return await self._calls.execute(call)

    def _response(self, message: Message) -> ToolResponse:
        (result,) = message.tool_results
        text = "".join(part.text for part in result.content if isinstance(part, Text))
        return ToolResponse(
            result.name or "", self.session.counter.count(text), is_error=result.is_error, exit_code=result.exit_code
        )

    async def _check_newest(self, turn: int) -> None:
        """Check that no other program added a turn: the model would answer that one instead."""
        newest = (await self.session.refresh()).turns
        if turn != newest:
            raise TurnBegun(self.session.id, turn=turn, newest=newest)

    async def _record(self, taken: _Answering, messages: Sequence[Message]) -> None:
        """Record messages of a turn; after another turn has begun, they are display-only."""
        try:
            # In a fork the previous turn is closed, and its answer is a separate turn.
            taken.turn = (await self.session.record(messages, turn=taken.turn)).number
        except TurnBegun:
            text = turn_text(tuple(messages)).strip()
            late = Text(f"(an answer to {turn_id(taken.turn)} that came too late)\n{text}")
            await self.session.record(Message("assistant", (late,), kind="display"))
            raise

    async def _ask(
        self, taken: _Answering, *, may_call: bool
    ) -> AsyncGenerator[RequestSent | AnswerPiece | Notice | Answer, None]:
        """Call the model; retry once with fewer tokens if the prompt was too long for it."""
        await self._check_newest(taken.turn)
        if self._options.admit:
            await self._options.admit()
        context = await self.context()
        if not taken.made and (cut := await self._cut_turn(context)):
            yield Notice(f"{cut} does not fit: the model sees only a part of it.")
        refused: Context | None = None
        while True:
            try:
                async with aclosing(self._call(context, taken, may_call=may_call)) as pieces:
                    async for piece in pieces:
                        yield piece
            except ModelUnavailable as error:
                if error.reason != "too-long":
                    raise
                if refused:
                    problem = f"{error.problem}; {context.budget_tokens:,} are too many as well; use a smaller budget"
                    raise ModelUnavailable(error.model, problem, reason="too-long") from error
                refused, context = context, await self._smaller(context, error)
                yield Notice(TOO_LONG)
                continue
            if refused:
                # It fits with fewer tokens, so the token count is too low.
                await self._tighten(refused, refused.tokens / TOO_LONG_SHARE)
            return

    async def _smaller(self, context: Context, error: ModelUnavailable) -> Context:
        most = int(context.tokens * TOO_LONG_SHARE)
        try:
            return await self.session.engine.context_with(self._offer, budget_tokens=most, system=self._options.system)
        except InputError:
            raise error from None

    async def _call(
        self, context: Context, taken: _Answering, *, may_call: bool
    ) -> AsyncGenerator[RequestSent | AnswerPiece | Answer, None]:
        tools = context.offer.definitions("openai") if context.offer and may_call else []
        shown = canonical_messages(context.layout, context.system, has_tools=bool(tools))
        messages = without_unbound_messages(shown, tools)
        ask = Ask(
            purpose="chat",
            messages=messages,
            tools=tuple(tools),
            max_output_tokens=self._options.max_output_tokens,
            temperature=self._options.temperature,
            input_tokens=context.tokens,
            within=self._options.within,
        )
        sent = self._written(messages)
        has_same_tools = self._sent_tools == len(tools)
        matched = matching_tokens(self._sent, sent, self.session.counter) if has_same_tools else 0
        # The framing of messages and the tools' definitions are cached with the messages.
        predicted = matched * context.tokens // max(1, sum(part.tokens for part in sent))
        taken.pieces.clear()
        yield RequestSent(context.tokens)
        stream = self._caller.stream(ask, self.models, session_id=self.session.engine.stored_id)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                self._sent, self._sent_tools = sent, len(tools)
                if not isinstance(piece, Answer):
                    taken.pieces.append(piece)
                    yield AnswerPiece(piece)
                    continue
                self._check(piece)
                self._sent = (*sent, *self._written([piece.message]))
                taken.made.append(_Made(context, predicted, piece.usage))
                await self._learn(context, piece)
                yield replace(piece, message=bound_answer(piece.message, messages, tools))

    async def _cut_turn(self, context: Context) -> str | None:
        """Return the newest turn's id, if it is shown only in part."""
        (turn,) = await self.session.outline(self.session.info.turns)
        shown = [segment for segment in context.segments if segment.last == turn.number]
        if shown and shown[-1].is_native:
            return turn.id if context.layout.native[-1].is_cut else None
        return turn.id if sum(segment.tokens for segment in shown) < turn.tokens else None

    def _check(self, answer: Answer) -> None:
        model = answer.message.model or self.models[0]
        if answer.finish == "refused" and not answer.text.strip():
            raise ModelUnavailable(model, "its provider's filter stopped the answer", reason="refused")
        if not answer.text.strip() and not answer.message.tool_calls:
            limit = f"all of its {self._options.max_output_tokens:,} output tokens went into reasoning; allow it more"
            problem = limit if answer.finish == "length" else "the answer is empty"
            raise ModelFailed(model, problem, reason="empty")

    def _written(self, messages: Iterable[Message]) -> list[_Sent]:
        return [_Sent(text, self.session.counter.count(text)) for text in map(message_text, messages)]

    async def _learn(self, context: Context, answer: Answer) -> None:
        """Learn how the provider counts; without reported usage nothing is learned."""
        reported = answer.usage.input_tokens
        if context.tokens >= CALIBRATED_SHARE * context.budget_tokens and reported > context.tokens:
            await self._tighten(context, reported)

    async def _tighten(self, context: Context, reported_tokens: float) -> None:
        await self.session.calibrate(context, reported_tokens=int(reported_tokens))

    async def _keep_partial(self, taken: _Answering) -> None:
        """Record the partial answer that was interrupted, with a note for people; an empty one is not recorded.

        Calls in progress get a result that says that they were interrupted.
        """
        if self._options.keeps_partial:
            with suppress(TurnBegun):
                await self._record_interruption(taken)
        text = "".join(taken.pieces)
        if text.strip() and self._options.keeps_partial:
            interrupted = Message("assistant", (Text(text),), model=self.models[0])
            with suppress(TurnBegun):
                await self._record(taken, [interrupted, Message("assistant", (Text(INTERRUPTED),), kind="display")])

    async def _finished(self, answer: Answer, taken: _Answering) -> AnswerSummary:
        made = taken.made
        return AnswerSummary(
            turn_id=turn_id(taken.turn),
            text=answer.text,
            model=answer.message.model or self.models[0],
            finish=answer.finish,
            calls=len(made),
            tokens=made[-1].context.tokens,
            budget_tokens=made[-1].context.budget_tokens,
            prompt_tokens=sum(call.context.tokens for call in made),
            predicted_cached_tokens=sum(call.predicted_cached_tokens for call in made),
            input_tokens=sum(call.usage.input_tokens for call in made),
            cached_tokens=sum(call.usage.cache_read_tokens for call in made),
            output_tokens=sum(call.usage.output_tokens for call in made),
            nano_usd=await self._spent_nano_usd() - taken.nano_usd_before,
            seconds=time.monotonic() - taken.began,
            mode=self.session.info.mode,
            turns_without_words=made[-1].context.planned.turns_without_words,
        )

    async def _spent_nano_usd(self) -> int:
        """Return the cost of this chat so far."""
        rows = await self._options.costs(self.session.id) if self._options.costs else ()
        return sum(row.nano_usd for row in rows if row.purpose == "chat")


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A prompt was sent to the model, with its size in tokens."""

    tokens: int


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call of the model."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """The result of a tool, with its size in tokens."""

    name: str
    tokens: int
    is_error: bool = False
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to the user about this answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """The complete, recorded answer, with the totals of all its calls."""

    turn_id: str
    text: str
    """Text of the last message."""
    model: str
    finish: Finish
    calls: int
    tokens: int
    """Tokens of the last prompt, counted locally."""
    budget_tokens: int
    prompt_tokens: int
    """Tokens of all prompts, counted locally."""
    predicted_cached_tokens: int
    """Tokens of the prompts that repeat the beginning of the previous call."""
    input_tokens: int
    """Input tokens that the provider reports; 0 if it reports none."""
    cached_tokens: int
    output_tokens: int
    nano_usd: int
    seconds: float
    mode: str = ""
    """The session's mode; empty: none."""
    turns_without_words: int = 0
    """Turns of which the last prompt says nothing."""

    @property
    def predicted_cached_share(self) -> float:
        return self.predicted_cached_tokens / max(1, self.prompt_tokens)

    @property
    def cached_share(self) -> float | None:
        """The share that the provider reports; None if it reports no usage."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else None

    @property
    def usd(self) -> float:
        return self.nano_usd / NANO


ChatEvent: TypeAlias = RequestSent | AnswerPiece | ToolRequest | ToolResponse | Notice | AnswerSummary
