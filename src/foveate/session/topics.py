"""Topics of a conversation: add a message, get a context, seal the current topic, list all topics.

    talk = await fov.conversation("slack", "#support")
    await talk.topics.add_message({"role": "user", "content": "…"})
    context = await talk.topics.get_context(8_000)
    context.current_topic, context.topics, context.bulks, context.total_tokens, context.compression_ratio

Topics are sealed when a message is added, and when a context or the history is requested; the log does not contain
them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from foveate.context.context import Context
from foveate.context.tags import parse_blocks
from foveate.errors import FoveateError, InputError, Refused
from foveate.history.driver import HistoryDriver
from foveate.plan import Artefact
from foveate.plugins import renamed
from foveate.session.values import RecordedTurn, SessionInfo
from foveate.store import Store
from foveate.strategy.topics.build import truncate
from foveate.strategy.topics.state import BulkState, Seal, TopicsState, TopicState, Why
from foveate.turn import Message, from_us, turn_id
from foveate.worker.artefacts import unpack_made

if TYPE_CHECKING:
    from foveate.session import Session

STRATEGY = "topics"
MAX_TRIES = 3
"""Retries of a seal that another process overwrote."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that has ended."""

    id: str
    first: str
    """First turn of the topic, e.g. `T-12`."""
    last: str
    """Last turn of the topic."""
    why: Why
    """What ended the topic: `manual`, `phrase`, `silence`, `subject`, or `size`."""
    sealed_at: datetime
    title: str
    summary: str
    """Empty if the topic has no summary: if it is shown in full, or as part of a bulk."""
    raw_tokens: int


@dataclass(frozen=True, slots=True)
class Bulk:
    """Topics with one common summary."""

    id: str
    first: str
    last: str
    title: str
    summary: str
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class TopicsContext:
    """A context, divided into its tiers: current topic, past topics, bulks."""

    current_topic: tuple[Message, ...]
    """Messages of the current topic as shown; long ones are truncated if they don't fit."""
    topics: tuple[Topic, ...]
    """Past topics, oldest first."""
    bulks: tuple[Bulk, ...]
    """Bulks that the context shows, oldest first."""
    left_out_bulks: int
    """Number of older bulks that the context omits; `get_history` returns them."""
    total_tokens: int
    """Tokens of the whole context, including the prompt."""
    compression_ratio: float
    """Original size of the history divided by its size as shown."""
    context: Context
    """The context itself: `context.request("anthropic")`."""


@dataclass(frozen=True, slots=True)
class TopicsHistory:
    """The complete conversation by topics."""

    bulks: tuple[Bulk, ...]
    """All bulks, oldest first, including those that contexts omit."""
    topics: tuple[Topic, ...]
    current_first: str | None
    """The first turn of the current topic; None if it is empty."""
    current_turns: int


class SessionTopics:
    """The topics of one session, which must use the `topics` strategy."""

    def __init__(self, session: Session, store: Store, driver: HistoryDriver, key: str) -> None:
        """`key` is the session's id in the store."""
        self._session = session
        self._key = key
        self._store = store
        self._driver = driver

    async def add_message(
        self, message: Message | Mapping[str, Any], *, at: str | float | datetime | None = None
    ) -> RecordedTurn:
        """Record a message, and seal the current topic if the message ends it. A user's message begins a turn."""
        recorded = await self._session.record(message, at=at)
        if (await self._session.refresh()).strategy == STRATEGY:
            # The message is recorded in any case; if planning fails now, the next context seals the topic.
            with suppress(FoveateError):
                await self._settled()
        return recorded

    async def get_context(self, max_tokens: int | None = None, *, prompt: str = "", system: str = "") -> TopicsContext:
        """Build the context within `max_tokens` (default: the session's budget), divided into its tiers."""
        info = await self._check()
        context = await self._session.context(prompt, budget_tokens=max_tokens, system=system)
        notes: Any = context.planned.notes
        sums = [block for block in parse_blocks(context.history) if block.level == "A"]
        texts = {(block.first, block.last): block.entries[0].text for block in sums}
        return TopicsContext(
            await self._current(notes),
            tuple(_noted_topic(noted, texts) for noted in notes.get("topics", ())),
            tuple(_noted_bulk(noted, texts) for noted in notes.get("bulks", ())),
            notes.get("left_out_bulks", 0),
            context.tokens,
            await self._ratio(context, info.turns),
            context,
        )

    async def seal_current_topic(self) -> Topic:
        """End the current topic; the next message begins a new one."""
        await self._check()
        info = await self._settled()
        state = await self._state()
        if state.start > info.turns:
            reason = "nothing was said yet" if not info.turns else f"nothing was said since {turn_id(info.turns)}"
            raise InputError(
                f"the current topic of session {self._session.id!r} is empty: {reason}; there is nothing to seal"
            )
        seal = Seal(info.turns, time.time_ns() // 1_000)
        for _ in range(MAX_TRIES):
            before = await self._state()
            await self._driver.keep_state(STRATEGY, replace(before, seals=(*before.seals, seal)).as_json())
            await self._settled()
            state, made = await self._state(), await self._made()
            for topic in (*state.topics, *(topic for bulk in state.bulks for topic in bulk.topics)):
                if topic.why == "manual" and topic.sealed_us == seal.at_us:
                    return _topic(topic, made)
        raise InputError(
            f"the only turn of the current topic of session {self._session.id!r}, {turn_id(state.start)}, "
            "is not answered yet; seal the topic after the answer"
        )

    async def unseal(self) -> None:
        """Undo the last `seal_current_topic`, so that its turns are the current topic again.

        Possible until the next message. Older topics that became part of a bulk in the meantime stay in it.
        """
        await self._check()
        for _ in range(MAX_TRIES):
            info = await self._settled()
            state = await self._state()
            topic = state.topics[-1] if state.topics else None
            if topic is None or topic.why != "manual" or topic.last != info.turns:
                raise Refused(
                    f"there is no seal to undo in session {self._session.id!r}: the last topic was not sealed by hand, "
                    "or a message came after it"
                )
            await self._driver.keep_state(STRATEGY, state.unsealed().as_json())
            await self._settled()
            if (await self._state()).start == topic.first:
                return
        raise Refused(
            f"the seal in session {self._session.id!r} can't be undone now; another program is changing its topics"
        )

    async def get_history(self) -> TopicsHistory:
        """Return all topics and bulks, including those that contexts omit."""
        await self._check()
        info = await self._settled()
        state, made = await self._state(), await self._made()
        turns = max(0, info.turns - state.start + 1)
        return TopicsHistory(
            tuple(_bulk(bulk, made) for bulk in state.bulks),
            tuple(_topic(topic, made) for topic in state.topics),
            turn_id(state.start) if turns else None,
            turns,
        )

    async def _check(self) -> SessionInfo:
        info = await self._session.refresh()
        if info.strategy != STRATEGY:
            raise InputError(
                f"session {info.id!r} uses the strategy {info.strategy!r}, which has no topics; "
                f"change it with: foveate sessions strategy {info.id} {STRATEGY}"
            )
        return info

    async def _settled(self) -> SessionInfo:
        """Find and store the topics of all turns, and return the session's data."""
        await self._session.context()
        return await self._session.refresh()

    async def _state(self) -> TopicsState:
        return TopicsState.from_json(await self._driver.state(STRATEGY))

    async def _made(self) -> Mapping[str, Artefact]:
        rows = await self._store.artefacts.made(self._key, STRATEGY)
        return {row.name: unpack_made(row) for row in rows if row.kind in ("topic", "bulk")}

    async def _current(self, notes: Any) -> tuple[Message, ...]:
        """Load the messages of the current topic, truncated as in the context."""
        current = notes.get("current")
        if not current or current["first"] > current["last"]:
            return ()
        messages: list[Message] = []
        for turn in await self._session.load_turns(current["first"], current["last"]):
            short = notes["truncated"].get(str(turn.number), ())
            messages += [
                truncate(message, notes["max_message_chars"]) if place in short else message
                for place, message in enumerate(turn.messages)
            ]
        return tuple(messages)

    async def _ratio(self, context: Context, last_turn: int) -> float:
        raw = await self._store.raw_tokens(self._key, 1, last_turn)
        shown = sum(segment.tokens for segment in context.segments if segment.first is not None)
        return raw / shown if shown else 1.0


def _noted_topic(noted: Any, texts: Mapping[tuple[int, int], str]) -> Topic:
    first, last = noted["first"], noted["last"]
    return Topic(
        noted["id"],
        turn_id(first),
        turn_id(last),
        noted["why"],
        from_us(noted["sealed_us"]),
        noted["title"],
        texts.get((first, last), ""),
        noted["raw_tokens"],
    )


def _noted_bulk(noted: Any, texts: Mapping[tuple[int, int], str]) -> Bulk:
    first, last = noted["first"], noted["last"]
    topics = tuple(_noted_topic(topic, {}) for topic in noted["topics"])
    return Bulk(noted["id"], turn_id(first), turn_id(last), noted["title"], texts.get((first, last), ""), topics)


def _topic(topic: TopicState, made: Mapping[str, Artefact]) -> Topic:
    found = _longest(made, f"topic-{topic.first}-{topic.last}-")
    return Topic(
        topic.id,
        turn_id(topic.first),
        turn_id(topic.last),
        topic.why,
        from_us(topic.sealed_us),
        str(found.data.get("title", "")) if found else "",
        found.text if found else "",
        topic.tokens,
    )


def _bulk(bulk: BulkState, made: Mapping[str, Artefact]) -> Bulk:
    found = _longest(made, f"bulk-{bulk.first}-{bulk.last}-")
    return Bulk(
        bulk.id,
        turn_id(bulk.first),
        turn_id(bulk.last),
        str(found.data.get("title", "")) if found else "",
        found.text if found else "",
        tuple(_topic(topic, made) for topic in bulk.topics),
    )


def _longest(made: Mapping[str, Artefact], beginning: str) -> Artefact | None:
    """Return the longest of several summaries of the same turns."""
    found: Sequence[Artefact] = [one for name, one in made.items() if name.startswith(beginning)]
    return max(found, key=lambda one: one.tokens, default=None)


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"Topics": f"{__name__}:SessionTopics"})
