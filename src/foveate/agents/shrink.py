"""Agent mode of the hybrid strategy: a model selects what to shorten and writes summaries, with four tools.

    metadata ──► model ──► compress a result · compress a segment · verify ──► checked ──► kept
                   ▲                                                 │
                   └────────── as long as it calls tools ◄───────────┘     within its limits

Each proposal is checked, and accepted ones are saved as the strategy's short messages. After a failure the next
context shortens the rest by rules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from foveate.agents.loop import ToolLoop
from foveate.compress.guard import GuardSource, check
from foveate.compress.lines import brief
from foveate.compress.marks import one_line
from foveate.compress.model.request import prompt_file
from foveate.compress.reader import read_turn
from foveate.context.costs import counting
from foveate.errors import InputError, ModelError
from foveate.events import Event, EventKind
from foveate.history.driver import HistoryDriver
from foveate.history.sizes import Infos
from foveate.history.texts import TextReader
from foveate.models import Answer, Ask
from foveate.models.prompts import load_overrides, overridden
from foveate.plan import Artefact, TurnInfo
from foveate.renditions import Count
from foveate.session import Session
from foveate.session.context import given_settings
from foveate.session.shared import SharedParts
from foveate.settings import make_strategy
from foveate.store.rows import Origin
from foveate.strategy import Strategy
from foveate.strategy.build import SHORT, Material, short_texts
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.hybrid.build import AGENT_KEY, Shortener, limits_of
from foveate.strategy.hybrid.messages import ShortSource, protect, speaker_of
from foveate.strategy.hybrid.state import HybridState, Place
from foveate.strategy.hybrid.tracker import Tracker, to_json, track
from foveate.text import several, turn_text
from foveate.tokens import O200K
from foveate.turn import Json, Message, Text, ToolResult, turn_id, turn_number
from foveate.worker.artefacts import cutter, make_all, pack_made, unpack_made

NAME = "hybrid"
MAX_TURNS = 400
"""Limit of turns of one run; older ones are shortened without it."""
MAX_CALLS_PER_ANSWER = 32
TOO_MANY_CALLS = "Not executed: too many calls at once."
MAX_IDLE_ANSWERS = 3
"""The agent ends after this many consecutive answers that change nothing."""
MAX_OUTPUT_TOKENS = 2_000

METADATA = "get_compression_metadata"
SUPERSEDED = "(listed again below)"

Mode = Literal["agent", "direct"]
Progress: TypeAlias = dict[str, Json]
"""Progress of a run, as it is published."""


@dataclass(frozen=True, slots=True)
class ShrinkReport:
    """The result of a run."""

    mode: Mode
    """`direct`: no proposal was accepted, and the strategy continues without the agent."""
    reason: str
    """Why it ended: target, done, idle, iterations, seconds, tokens, nothing to do, or the model's error."""
    accepted: int
    refused: int
    iterations: int
    tokens_before: int
    tokens_after: int
    model_tokens: int
    """Tokens read and written by the model."""

    @property
    def is_target_reached(self) -> bool:
        return self.reason == "target"


@dataclass(slots=True)
class _Run:
    """A run in progress."""

    desk: Desk
    messages: list[Message]
    before: int
    iterations: int = 0
    idle: int = 0
    model_tokens: int = 0
    reason: str = ""

    async def take(self, answer: Message) -> AsyncGenerator[Progress, None]:
        """Execute the model's calls, and decide whether to continue."""
        accepted = len(self.desk.accepted)
        looked = any(call.name == METADATA for call in answer.tool_calls)
        if looked:
            self.messages = [_superseded(message) for message in self.messages]
        self.messages.append(replace(answer, original=None, usage=None))
        for place, call in enumerate(answer.tool_calls):
            is_executed = place < MAX_CALLS_PER_ANSWER
            result = self.desk.answer(call.name, call.arguments) if is_executed else TOO_MANY_CALLS
            self.messages.append(Message("tool", (ToolResult(call.id, (Text(result),), name=call.name),)))
        is_idle = len(self.desk.accepted) == accepted
        # Reading metadata counts as progress, up to a limit.
        self.idle = self.idle + 1 if is_idle and not (looked and self.idle == 0) else int(is_idle)
        if self.desk.is_target_reached:
            self.reason = "target"
        elif not answer.tool_calls:
            self.reason = "done"
        elif self.idle >= MAX_IDLE_ANSWERS:
            self.reason = "idle"
        progress: Progress = {"iteration": self.iterations, "accepted": len(self.desk.accepted)}
        yield {**progress, "tokens": self.desk.tokens, **_goal(self)}


class _LimitReached(Exception):
    """Ends a run; its text is the reason."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The session's history that a run works on."""

    infos: Sequence[TurnInfo]
    hybrid_state: HybridState
    origin: Origin
    made: dict[str, Artefact] = field(default_factory=dict)
    """Artefacts by name, as the strategy looks them up."""


async def expand(session: Session, turn: str | int, position: int) -> Message:
    """Return the message as it was recorded, regardless of its form in a context."""
    messages = (await session.load_turn(turn)).messages
    if not 0 <= position < len(messages):
        raise InputError(f"T-{turn} has messages 0 to {len(messages) - 1}; there is no {position}")
    return messages[position]


async def shrink_session(shared: SharedParts, session_id: str, models: Sequence[str], window_tokens: int) -> bool:
    """Run the agent in the background of a session; return whether the target is reached."""
    return (await Shrinker(shared, session_id).run(models, window_tokens=window_tokens)).is_target_reached


class Shrinker:
    """Runs the agent on one session."""

    def __init__(self, shared: SharedParts, session_id: str) -> None:
        self._shared = shared
        self._session_id = session_id
        self._reader = TextReader(shared.store, session_id, dates=shared.settings.context.dates)
        self._driver = HistoryDriver(shared.store, session_id, self._reader)

    @classmethod
    def of(cls, session: Session) -> Shrinker:
        return cls(session.engine.shared, session.engine.stored_id)

    async def run(self, models: Sequence[str], *, window_tokens: int | None = None) -> ShrinkReport:
        """Let the first available model shorten the history to the target, within its limits."""
        session = await self._shared.store.get_session(self._session_id)
        given = given_settings(session, self._shared.settings) if session.strategy == NAME else None
        strategy = cast("Hybrid", make_strategy(NAME, self._shared.settings, given))
        window = window_tokens or min(strategy.window_tokens, session.budget_tokens)
        work = await self._work(strategy)
        run = await self._begin(strategy, work, window)
        if run.desk.is_target_reached or not run.desk.turns:
            return _ended(run, "nothing to do")
        self._publish("compression-triggered", {"mode": "agent", "tokens": run.before, **_goal(run)})
        try:
            async with asyncio.timeout(strategy.agent_seconds):
                await self._converse(run, strategy, models)
        except TimeoutError:
            run.reason = "seconds"
        except _LimitReached as limit:
            run.reason = str(limit)
        except ModelError as error:
            run.reason = str(error)
        if run.desk.accepted:
            await self._keep(strategy, work, run.desk.accepted)
        shrunk = _ended(run, run.reason)
        kind: EventKind = "compressed" if shrunk.mode == "agent" else "compression-failed"
        self._publish(kind, {"mode": shrunk.mode, "reason": shrunk.reason, "accepted": shrunk.accepted, **_goal(run)})
        return shrunk

    async def _converse(self, run: _Run, strategy: Hybrid, models: Sequence[str]) -> None:
        """Let the model work until it is done or one of its limits is reached."""
        loop: ToolLoop[Progress] = ToolLoop(
            ask=partial(self._ask, run, strategy, models),
            take=run.take,
            is_last=lambda _: bool(run.reason),
            max_rounds=strategy.agent_iterations,
        )
        async with aclosing(loop.events()) as events:
            async for event in events:
                if not isinstance(event, Answer):
                    self._publish("llm-summarizing", event)

    async def _ask(
        self, run: _Run, strategy: Hybrid, models: Sequence[str], *, may_call: bool
    ) -> AsyncGenerator[Answer, None]:
        if not may_call:
            raise _LimitReached("iterations")
        tools = tool_definitions()
        tokens = O200K.base(turn_text(tuple(run.messages))) + O200K.base(json.dumps(tools))
        if run.model_tokens + tokens + MAX_OUTPUT_TOKENS > strategy.agent_tokens:
            raise _LimitReached("tokens")
        ask = Ask(
            purpose="compress",
            messages=tuple(run.messages),
            tools=tools,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            input_tokens=tokens,
        )
        answered = await self._shared.caller.ask(ask, models, session_id=self._session_id)
        run.iterations += 1
        run.model_tokens += tokens + O200K.base(turn_text((answered.answer.message,)))
        yield answered.answer

    async def _work(self, strategy: Hybrid) -> _Work:
        store = self._shared.store
        origin = await store.origin(self._session_id)
        session = await store.get_session(self._session_id)
        is_open = session.is_open
        infos = await Infos().renewed(store, self._session_id, last_turn=session.last_turn, is_open=is_open)
        state = await self._driver.state(NAME)
        hybrid_state = HybridState.from_json(state) if state else HybridState()
        first = max(hybrid_state.rolled + 1, session.last_turn - MAX_TURNS + 1, 1)
        if first < infos.first:
            infos = await infos.reaching(store, self._session_id, first)
        shown = infos.between(first, session.last_turn)
        kept = {row.name: unpack_made(row) for row in await store.artefacts.made(self._session_id, NAME)}
        work = _Work(shown, hybrid_state, origin)
        closed = [info.turn for info in shown if not info.is_open]
        lacking = []
        for turn in closed:
            wanted = _source(shown, turn).wanted(strategy)
            if wanted.name in kept:
                work.made[wanted.name] = kept[wanted.name]
            else:
                lacking.append(wanted)
        counter = session.exact
        needed = sorted({turn for wanted in lacking for turn in range(wanted.first, wanted.last + 1)})
        sources = await self._reader.sources(session, needed, messages=True, units=False) if needed else []
        materials = [
            Material(
                wanted,
                [source for source in sources if wanted.first <= source.number <= wanted.last],
                counting("A", counter),
                cutter(counter),
            )
            for wanted in lacking
        ]
        for made in await asyncio.to_thread(make_all, cast("Strategy", strategy), materials, counter):
            work.made[made.name] = made
        return work

    async def _begin(self, strategy: Hybrid, work: _Work, window_tokens: int) -> _Run:
        session = await self._shared.store.get_session(self._session_id)
        protection = protect(work.infos, messages=strategy.protected_messages, injections=strategy.kept_injections)
        sizes: dict[Place, int] = {}
        total = 0
        for info in work.infos:
            made = None if info.is_open else work.made.get(_source(work.infos, info.turn).wanted(strategy).name)
            for message in info.messages:
                place = (info.turn, message.position)
                short = made.sizes.get(message.position) if made and work.hybrid_state.marks(place) else None
                total += message.tokens if short is None else min(short, message.tokens)
                if short is None and made and speaker_of(message) in ("user", "assistant", "tool"):
                    sizes[place] = message.tokens
        numbers = sorted({turn for turn, _ in sizes})
        sources = await self._reader.sources(session, numbers, messages=True, units=False) if numbers else []
        turns = {source.number: source.messages for source in sources if source.messages}
        sizes = {place: tokens for place, tokens in sizes.items() if place[0] in turns}
        counter = session.exact
        limits = limits_of(_source(work.infos, numbers[0]).wanted(strategy).data) if numbers else {}
        texts = {turn: short_texts(work.made[_source(work.infos, turn).wanted(strategy).name]) for turn in turns}
        desk = Desk(
            turns=turns,
            sizes=sizes,
            protected=protection.all,
            tokens=total,
            target_tokens=int(window_tokens * strategy.target),
            shortener=lambda turn: Shortener(turn, counting("M", counter), limits),
            local=lambda turn: texts.get(turn, {}),
            count=counting("M", counter),
            tracker=await asyncio.to_thread(track, list(turns.items())),
        )
        opening = f"The history takes {total:,} tokens; the target is {desk.target_tokens:,}. Begin."
        with overridden(await load_overrides(self._shared.store)):
            rules = prompt_file("shrink")
        messages = [Message("system", (Text(rules),)), Message("user", (Text(opening),))]
        return _Run(desk, messages, total)

    async def _keep(self, strategy: Hybrid, work: _Work, accepted: Mapping[Place, str]) -> None:
        """Replace the texts made without the agent by its own, and store its choice in the strategy's state."""
        changed: list[Artefact] = []
        session = await self._shared.store.get_session(self._session_id)
        count = counting("M", session.exact)
        for turn in sorted({place[0] for place in accepted}):
            made = work.made[_source(work.infos, turn).wanted(strategy).name]
            texts = {**short_texts(made), **{place[1]: text for place, text in accepted.items() if place[0] == turn}}
            sizes = {position: count(text) if text else 0 for position, text in texts.items()}
            kept: dict[str, Json] = {str(position): text for position, text in sorted(texts.items())}
            known = cast("Sequence[int]", made.data.get(AGENT_KEY) or ())
            own = sorted({*known, *(place[1] for place in accepted if place[0] == turn)})
            changed.append(replace(made, sizes=sizes, data={**made.data, SHORT: kept, AGENT_KEY: list[Json](own)}))
        store = self._shared.store
        await store.artefacts.keep_made(
            self._session_id, NAME, [pack_made(made) for made in changed], origin=work.origin
        )
        state = await self._driver.state(NAME)
        hybrid_state = HybridState.from_json(state) if state else HybridState()
        chosen = {place for place in accepted if place > hybrid_state.through and place[0] > hybrid_state.rolled}
        spared = hybrid_state.spared - set(accepted)
        await self._driver.keep_state(
            NAME, replace(hybrid_state, chosen=hybrid_state.chosen | chosen, spared=spared).as_json(), work.origin
        )

    def _publish(self, kind: EventKind, data: Mapping[str, Json]) -> None:
        self._shared.events.publish(Event(kind, self._session_id, datetime.now(UTC), None, dict(data)))


def _source(infos: Sequence[TurnInfo], turn: int) -> ShortSource:
    info = infos[turn - infos[0].turn]
    assert info.turn == turn, f"{turn_id(turn)} is among the turns"
    return ShortSource(turn, 0, len(info.messages) - 1, is_whole=True)


def _superseded(message: Message) -> Message:
    """Return a placeholder for a list of messages that is about to be repeated."""
    parts = tuple(
        replace(part, content=(Text(SUPERSEDED),)) if isinstance(part, ToolResult) and part.name == METADATA else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _goal(run: _Run) -> dict[str, Json]:
    return {"tokens_now": run.desk.tokens, "target_tokens": run.desk.target_tokens}


def _ended(run: _Run, reason: str) -> ShrinkReport:
    desk = run.desk
    mode: Mode = "agent" if desk.accepted else "direct"
    return ShrinkReport(
        mode, reason, len(desk.accepted), desk.refusals, run.iterations, run.before, desk.tokens, run.model_tokens
    )


PAGE_MESSAGES = 40
TEXT_CHARS = 1_200
"""Characters of a message that the agent is shown."""
MAX_SEGMENT = 60
WORTH_TOKENS = 24
KNOWN_FILES = 20


class ProposalRejected(ValueError):
    """A rejected proposal, with the reason."""


@dataclass(slots=True)
class Desk:
    """The messages that the agent may work on, and its accepted proposals."""

    turns: Mapping[int, Sequence[Message]]
    """Turns by number, complete, so that an index in a turn is a message's position."""
    sizes: Mapping[Place, int]
    """Current tokens of each message."""
    protected: frozenset[Place]
    tokens: int
    """Current tokens of the whole history."""
    target_tokens: int
    """Target tokens of the history."""
    shortener: Callable[[int], Shortener]
    local: Callable[[int], Mapping[int, str]]
    """Returns the short messages of a turn as made without an agent."""
    count: Count
    tracker: Tracker = field(default_factory=Tracker)
    accepted: dict[Place, str] = field(default_factory=dict)
    refusals: int = 0

    @property
    def is_target_reached(self) -> bool:
        return self.tokens <= self.target_tokens

    def answer(self, name: str, arguments: Json) -> str:
        """Answer a tool call of the agent; an invalid call is explained."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], Json]] = {
            "get_compression_metadata": self._metadata,
            "compress_tool_result": self._tool_result,
            "compress_conversation_segment": self._segment,
            "verify_compression_target": self._verify,
        }
        try:
            if name not in tools:
                raise ProposalRejected(f"there is no tool {brief(name, 40)!r}; available: {', '.join(tools)}")
            if not isinstance(arguments, Mapping):
                raise ProposalRejected("arguments are one JSON object")
            return json.dumps(tools[name](arguments), ensure_ascii=False)
        except ProposalRejected as refused:
            self.refusals += 1
            return json.dumps({"refused": str(refused)}, ensure_ascii=False)

    def _verify(self, _: Mapping[str, Any]) -> Json:
        return {"tokens": self.tokens, "target_tokens": self.target_tokens, "reached": self.is_target_reached}

    def _metadata(self, arguments: Mapping[str, Any]) -> Json:
        after = _place_of(arguments.get("after"))
        rest = [place for place in sorted(self.sizes) if place > after and self._may(place)]
        page = rest[:PAGE_MESSAGES]
        kept = to_json(self.tracker)
        known: dict[str, Json] = {name: list(found)[-KNOWN_FILES:] for name, found in kept.items()}  # type: ignore[arg-type]
        return {
            "tokens": self.tokens,
            "target_tokens": self.target_tokens,
            "messages": [self._described(place) for place in page],
            "next": f"{turn_id(page[-1][0])}/{page[-1][1]}" if len(rest) > len(page) else None,
            "known": known,
        }

    def _described(self, place: Place) -> Json:
        message = self.turns[place[0]][place[1]]
        described: dict[str, Json] = {
            "turn": turn_id(place[0]),
            "position": place[1],
            "speaker": "tool" if message.tool_results else message.role,
            "tokens": self.sizes[place],
        }
        if message.tool_results:
            described["result"] = brief(self.local(place[0]).get(place[1], ""), TEXT_CHARS // 4)
        else:
            described["text"] = brief(message.text, TEXT_CHARS)
            described["calls"] = [call.name for call in message.tool_calls][:8]
        return described

    def _tool_result(self, arguments: Mapping[str, Any]) -> Json:
        place = self._given(arguments, "position")
        message = self._message(place)
        if not message.tool_results:
            raise ProposalRejected("that is no tool result; compress_conversation_segment is for words")
        text = self.local(place[0]).get(place[1])
        if text is None:
            raise ProposalRejected("nothing shorter is known of it")
        return self._take({place: text})

    def _segment(self, arguments: Mapping[str, Any]) -> Json:
        first, last = self._given(arguments, "first"), self._given(arguments, "last")
        summary = arguments.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            raise ProposalRejected("summary is the text that says what these messages say")
        if not first <= last or last[1] - first[1] >= MAX_SEGMENT:
            raise ProposalRejected(f"a segment is of 1 to {MAX_SEGMENT} messages of one turn, first before last")
        places = [(first[0], position) for position in range(first[1], last[1] + 1)]
        words = [place for place in places if not self._message(place).tool_results]
        speakers = {self._message(place).role for place in words}
        if len(speakers) != 1:
            raise ProposalRejected("a summary speaks for one speaker: the user, or the assistant")
        self._check(summary, [self._message(place) for place in words])
        texts = {place: text for place in places if (text := self.local(place[0]).get(place[1])) is not None}
        shortener = self.shortener(first[0])
        texts |= {place: shortener.worded(self._message(place), "") for place in words[1:]}
        texts[words[0]] = shortener.worded(self._message(words[0]), one_line(summary))
        return self._take(texts)

    def _check(self, summary: str, messages: Sequence[Message]) -> None:
        """Check that the summary contains only what the messages say, within their token limit."""
        limits = self.shortener(1).limits
        limit = limits["user" if messages[0].role == "user" else "assistant"]
        tokens = self.count(summary)
        if tokens > limit:
            raise ProposalRejected(f"the summary takes {tokens} tokens; {limit} are allowed")
        # Calls are kept with the text, so a summary need not mention them.
        reading = read_turn([replace(message, parts=(Text(message.text),), original=None) for message in messages])
        source = GuardSource(reading.facts, [candidate.text for candidate in reading.candidates])
        verdict = check("T", source, summary, tokens=tokens, above_tokens=limit, written_by_model=True)
        if not verdict.ok:
            lost = f"; it lost {', '.join(fact[2:] for fact in verdict.lost[:5])}" if verdict.lost else ""
            raise ProposalRejected(f"{verdict.reason}{lost}")

    def _take(self, texts: Mapping[Place, str]) -> Json:
        before = sum(self.sizes[place] for place in texts)
        saved = {
            place: text for place, text in texts.items() if self.count(text) < self.sizes[place] or not text.strip()
        }
        after = before - sum(self.sizes[place] - (self.count(text) if text else 0) for place, text in saved.items())
        if not saved or after >= before:
            raise ProposalRejected("that saves nothing")
        self.accepted |= saved
        self.sizes = {**self.sizes, **{place: self.count(text) if text else 0 for place, text in saved.items()}}
        self.tokens -= before - after
        return {"saved_tokens": before - after, "short": several(len(saved), "message"), **self._verify({})}  # type: ignore[dict-item]

    def _given(self, arguments: Mapping[str, Any], key: str) -> Place:
        turn = arguments.get("turn")
        number = turn_number(turn) if isinstance(turn, str | int) and not isinstance(turn, bool) else None
        position = arguments.get(key)
        if number is None or not isinstance(position, int) or isinstance(position, bool):
            raise ProposalRejected(f'turn is an id such as "T-3", {key} a position from 0')
        return number, position

    def _message(self, place: Place) -> Message:
        where = f"{turn_id(place[0])} message {place[1]}"
        if place in self.protected:
            raise ProposalRejected(f"{where} is protected")
        messages = self.turns.get(place[0], ())
        if not 0 <= place[1] < len(messages) or place not in self.sizes:
            raise ProposalRejected(f"there is no message {where} that may be shortened")
        if place in self.accepted:
            raise ProposalRejected(f"{where} is short already")
        return messages[place[1]]

    def _may(self, place: Place) -> bool:
        return self.sizes[place] > WORTH_TOKENS and place not in self.protected and place not in self.accepted


def _place_of(text: object) -> Place:
    turn, _, position = str(text or "").partition("/")
    number = turn_number(turn)
    return (number, int(position)) if number and position.isdecimal() else (0, -1)


def tool_definitions() -> tuple[Mapping[str, Json], ...]:
    """Return the four tools in OpenAI's format."""
    turn: Json = {"type": "string", "description": "The turn's id, as in T-3."}
    integer: Json = {"type": "integer"}
    return (
        _tool(
            "get_compression_metadata",
            "Messages that may be made short, oldest first, and what is known of files and todos.",
            {"after": {"type": "string", "description": "`next` of the page before; leave out for the first."}},
            (),
        ),
        _tool(
            "compress_tool_result",
            "Make a tool result short by what is known of it.",
            {"turn": turn, "position": integer},
            ("turn", "position"),
        ),
        _tool(
            "compress_conversation_segment",
            "Put a summary in place of the words of one speaker in one turn; tool results between become short too.",
            {"turn": turn, "first": integer, "last": integer, "summary": {"type": "string"}},
            ("turn", "first", "last", "summary"),
        ),
        _tool("verify_compression_target", "How many tokens the history takes now, and the target.", {}, ()),
    )


def _tool(name: str, description: str, properties: Mapping[str, Json], required: Sequence[str]) -> Mapping[str, Json]:
    parameters: Json = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
