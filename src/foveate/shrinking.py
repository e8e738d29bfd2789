"""The hybrid strategy's agent mode: a model decides what is made short, and writes summaries, by four tools.

    metadata ──► model ──► compress a result · compress a segment · verify ──► checked ──► kept
                   ▲                                                 │
                   └────────── as long as it calls tools ◄───────────┘     within its limits

What it proposes is checked one by one, and what is accepted is kept as the strategy's own short messages. Whatever
goes wrong, nothing is lost by it: the next context makes the rest short by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, cast

from foveate.background.artefacts import cutter, make_all, pack_made, unpack_made
from foveate.compress.artefacts import SHORT, Material, short_texts
from foveate.compress.desk import Desk, tool_definitions
from foveate.compress.model_prompts import prompt_file
from foveate.compress.short import Shortener, limits_of
from foveate.compress.tracker import track
from foveate.context.costs import counting
from foveate.contexts import given_settings
from foveate.errors import InputError, ModelError
from foveate.events import Event, EventKind
from foveate.gathering import Infos
from foveate.models import Ask
from foveate.session import Session, Shared
from foveate.settings import make_strategy
from foveate.story import Storyteller
from foveate.strategy import Made, Strategy, TurnInfo
from foveate.strategy._hybrid_book import Book, Place
from foveate.strategy._hybrid_messages import Source, protect, speaker_of
from foveate.strategy.hybrid import Hybrid
from foveate.text import turn_text
from foveate.tokens import O200K, exact_counter
from foveate.turn import Json, Message, Text, ToolResult, turn_id
from foveate.viewing import Viewer

NAME = "hybrid"
MAX_TURNS = 400
"""Turns that one run works on; older ones are made short without it."""
MAX_CALLS_PER_ANSWER = 32
MAX_IDLE_ANSWERS = 3
"""After so many answers in a row that change nothing it has nothing more to say."""
MAX_OUTPUT_TOKENS = 2_000

METADATA = "get_compression_metadata"
SUPERSEDED = "(listed again below)"

Mode = Literal["agent", "direct"]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a run came to."""

    mode: Mode
    """`direct`: nothing of the agent's was accepted, and the strategy goes on by itself."""
    reason: str
    """Why it ended: target, done, idle, iterations, seconds, tokens, nothing to do, or the model's error."""
    accepted: int
    refused: int
    iterations: int
    tokens_before: int
    tokens_after: int
    model_tokens: int
    """Read and written by the model."""

    @property
    def is_target_reached(self) -> bool:
        return self.reason == "target"


@dataclass(slots=True)
class _Run:
    """One run on its way."""

    desk: Desk
    messages: list[Message]
    before: int
    iterations: int = 0
    idle: int = 0
    model_tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Work:
    """What a run is about."""

    infos: Sequence[TurnInfo]
    book: Book
    made: dict[str, Made] = field(default_factory=dict)
    """By name, as the strategy will look for it."""


async def expand(session: Session, turn: str | int, position: int) -> Message:
    """The message as it was recorded, whatever a context shows of it."""
    messages = (await session.load_turn(turn)).messages
    if not 0 <= position < len(messages):
        raise InputError(f"T-{turn} has messages 0 to {len(messages) - 1}; there is no {position}")
    return messages[position]


class Shrinker:
    """Runs the agent on one session."""

    def __init__(self, shared: Shared, session_id: str) -> None:
        self._shared = shared
        self._session_id = session_id
        self._viewer = Viewer(shared.store, session_id)
        self._storyteller = Storyteller(shared.store, session_id, self._viewer)

    @classmethod
    def of(cls, session: Session) -> Shrinker:
        return cls(session._shared, session.id)

    async def run(self, models: Sequence[str], *, window_tokens: int | None = None) -> Shrunk:
        """Let the first of these models that answers shorten the history to the target, as far as its limits allow."""
        session = await self._shared.store.get_session(self._session_id)
        given = given_settings(session) if session.strategy == NAME else None
        strategy = cast("Hybrid", make_strategy(NAME, self._shared.settings, given))
        window = window_tokens or min(strategy.window_tokens, session.budget_tokens)
        work = await self._work(strategy)
        run = await self._begin(strategy, work, window)
        if run.desk.is_target_reached or not run.desk.turns:
            return _ended(run, "nothing to do")
        self._tell("compression-triggered", {"mode": "agent", "tokens": run.before, **_goal(run)})
        try:
            async with asyncio.timeout(strategy.agent_seconds):
                await self._loop(run, strategy, models)
        except TimeoutError:
            run.reason = "seconds"
        except ModelError as error:
            run.reason = str(error)
        if run.desk.accepted:
            await self._keep(strategy, work, run.desk.accepted)
        shrunk = _ended(run, run.reason)
        kind: EventKind = "compressed" if shrunk.mode == "agent" else "compression-failed"
        self._tell(kind, {"mode": shrunk.mode, "reason": shrunk.reason, "accepted": shrunk.accepted, **_goal(run)})
        return shrunk

    async def _loop(self, run: _Run, strategy: Hybrid, models: Sequence[str]) -> None:
        """Ask, execute, tell; until the model is done or one of its limits is reached."""
        count = O200K.base
        tools = tool_definitions()
        while not run.reason:
            if run.iterations >= strategy.agent_iterations:
                run.reason = "iterations"
                return
            tokens = count(turn_text(tuple(run.messages))) + count(json.dumps(tools))
            if run.model_tokens + tokens + MAX_OUTPUT_TOKENS > strategy.agent_tokens:
                run.reason = "tokens"
                return
            ask = Ask(
                purpose="compress",
                messages=tuple(run.messages),
                tools=tools,
                max_output_tokens=MAX_OUTPUT_TOKENS,
                input_tokens=tokens,
            )
            answered = await self._shared.caller.ask(ask, models, session_id=self._session_id)
            said = answered.answer.message
            run.iterations += 1
            run.model_tokens += tokens + count(turn_text((said,)))
            self._answer(run, said)
            progress: dict[str, Json] = {"iteration": run.iterations, "accepted": len(run.desk.accepted)}
            self._tell("llm-summarizing", {**progress, "tokens": run.desk.tokens, **_goal(run)})

    def _answer(self, run: _Run, said: Message) -> None:
        """Execute what the model calls, and decide whether to go on."""
        accepted = len(run.desk.accepted)
        looked = any(call.name == METADATA for call in said.tool_calls)
        if looked:
            run.messages = [_superseded(message) for message in run.messages]
        run.messages.append(replace(said, original=None, usage=None))
        results = []
        for call in said.tool_calls[:MAX_CALLS_PER_ANSWER]:
            answer = run.desk.answer(call.name, call.arguments)
            results.append(ToolResult(call.id, (Text(answer),), name=call.name))
        results += [
            ToolResult(call.id, (Text("Not executed: too many calls at once."),), name=call.name)
            for call in said.tool_calls[MAX_CALLS_PER_ANSWER:]
        ]
        run.messages += [Message("tool", (result,)) for result in results]
        is_idle = len(run.desk.accepted) == accepted
        # Looking is work, too, but not for ever.
        run.idle = run.idle + 1 if is_idle and not (looked and run.idle == 0) else int(is_idle)
        if run.desk.is_target_reached:
            run.reason = "target"
        elif not said.tool_calls:
            run.reason = "done"
        elif run.idle >= MAX_IDLE_ANSWERS:
            run.reason = "idle"

    async def _work(self, strategy: Hybrid) -> _Work:
        store = self._shared.store
        session = await store.get_session(self._session_id)
        is_open = session.head != "closed"
        infos = await Infos().renewed(store, self._session_id, last_turn=session.last_turn, is_open=is_open)
        state = await self._storyteller.state(NAME)
        book = Book.from_json(state) if state else Book()
        first = max(book.rolled + 1, session.last_turn - MAX_TURNS + 1, 1)
        if first < infos.first:
            infos = await infos.reaching(store, self._session_id, first)
        shown = infos.between(first, session.last_turn)
        kept = {row.name: unpack_made(row) for row in await store.artefacts.made(self._session_id, NAME)}
        work = _Work(shown, book)
        closed = [info.turn for info in shown if not info.is_open]
        lacking = []
        for turn in closed:
            wanted = _source(shown, turn).wanted(strategy)
            if wanted.name in kept:
                work.made[wanted.name] = kept[wanted.name]
            else:
                lacking.append(wanted)
        counter = exact_counter(session.encoding)
        needed = sorted({turn for wanted in lacking for turn in range(wanted.first, wanted.last + 1)})
        sources = await self._viewer.sources(session, needed, messages=True, units=False) if needed else []
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
                short = made.sizes.get(message.position) if made and work.book.marks(place) else None
                total += message.tokens if short is None else min(short, message.tokens)
                if short is None and made and speaker_of(message) in ("user", "assistant", "tool"):
                    sizes[place] = message.tokens
        numbers = sorted({turn for turn, _ in sizes})
        sources = await self._viewer.sources(session, numbers, messages=True, units=False) if numbers else []
        turns = {source.number: source.messages for source in sources if source.messages}
        sizes = {place: tokens for place, tokens in sizes.items() if place[0] in turns}
        counter = exact_counter(session.encoding)
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
        messages = [Message("system", (Text(prompt_file("shrink")),)), Message("user", (Text(opening),))]
        return _Run(desk, messages, total)

    async def _keep(self, strategy: Hybrid, work: _Work, accepted: Mapping[Place, str]) -> None:
        """The agent's texts in place of those made without it, and its choice in the strategy's state."""
        changed: list[Made] = []
        session = await self._shared.store.get_session(self._session_id)
        count = counting("M", exact_counter(session.encoding))
        for turn in sorted({place[0] for place in accepted}):
            made = work.made[_source(work.infos, turn).wanted(strategy).name]
            texts = {**short_texts(made), **{place[1]: text for place, text in accepted.items() if place[0] == turn}}
            sizes = {position: count(text) if text else 0 for position, text in texts.items()}
            kept: dict[str, Json] = {str(position): text for position, text in sorted(texts.items())}
            changed.append(replace(made, sizes=sizes, data={**made.data, SHORT: kept}))
        store = self._shared.store
        await store.artefacts.keep_made(self._session_id, NAME, [pack_made(made) for made in changed])
        state = await self._storyteller.state(NAME)
        book = Book.from_json(state) if state else Book()
        chosen = {place for place in accepted if place > book.through and place[0] > book.rolled}
        spared = book.spared - set(accepted)
        await self._storyteller.keep_state(NAME, replace(book, chosen=book.chosen | chosen, spared=spared).as_json())

    def _tell(self, kind: EventKind, data: Mapping[str, Json]) -> None:
        self._shared.events.publish(Event(kind, self._session_id, datetime.now(UTC), None, dict(data)))


def _source(infos: Sequence[TurnInfo], turn: int) -> Source:
    info = infos[turn - infos[0].turn]
    assert info.turn == turn, f"{turn_id(turn)} is among the turns"
    return Source(turn, 0, len(info.messages) - 1, is_whole=True)


def _superseded(message: Message) -> Message:
    """A list of messages that is about to be given anew need not be read twice."""
    parts = tuple(
        replace(part, content=(Text(SUPERSEDED),)) if isinstance(part, ToolResult) and part.name == METADATA else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _goal(run: _Run) -> dict[str, Json]:
    return {"tokens_now": run.desk.tokens, "target_tokens": run.desk.target_tokens}


def _ended(run: _Run, reason: str) -> Shrunk:
    desk = run.desk
    mode: Mode = "agent" if desk.accepted else "direct"
    return Shrunk(
        mode, reason, len(desk.accepted), desk.refusals, run.iterations, run.before, desk.tokens, run.model_tokens
    )
