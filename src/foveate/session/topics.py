"""Topics of a conversation: add a message, get a context, seal the topic, list all topics.

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
from foveate.strategy.topics import state as topic_book
from foveate.strategy.topics.build import truncate
from foveate.strategy.topics.state import Seal, TopicsState, Why
from foveate.turn import Message, from_us, turn_id
from foveate.worker.artefacts import unpack_made

if TYPE_CHECKING:
    from foveate.session import Session

STRATEGY = "topics"
MAX_TRIES = 3
"""Retries of a seal that another process overwrote."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is over."""

    id: str
    first: str
    """Its first turn, e.g. `T-12`,"""
    last: str
    """and its last."""
    why: Why
    """What ended it: `manual`, `phrase`, `silence`, `subject`, or `size`."""
    sealed_at: datetime
    title: str
    summary: str
    """Nothing where there is none: of a topic that is shown in full, or as part of a bulk."""
    raw_tokens: int


@dataclass(frozen=True, slots=True)
class Bulk:
    """Topics that are summed up together."""

    id: str
    first: str
    last: str
    title: str
    summary: str
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class TopicsContext:
    """A context by its tiers."""

    current_topic: tuple[Message, ...]
    """Messages as shown; long ones are truncated if there was too little room."""
    topics: tuple[Topic, ...]
    """Past topics, oldest first."""
    bulks: tuple[Bulk, ...]
    """Bulks that are shown."""
    left_out_bulks: int
    """Number of older bulks that are omitted; `get_history` has them."""
    total_tokens: int
    """Tokens of the whole context, including the prompt."""
    compression_ratio: float
    """Original size of the history divided by its size as shown."""
    context: Context
    """The context itself: `context.request("anthropic")`."""


@dataclass(frozen=True, slots=True)
class TopicsHistory:
    """The whole conversation by topics."""

    bulks: tuple[Bulk, ...]
    """Oldest first, including those that contexts omit."""
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
        """Record a message; a user's message begins a turn. If it ends a topic, the topic is sealed before this
        returns."""
        recorded = await self._session.record(message, at=at)
        if (await self._session.refresh()).strategy == STRATEGY:
            # The message is recorded whatever comes of this: what can't be planned now is sealed with the next context.
            with suppress(FoveateError):
                await self._settled()
        return recorded

    async def get_context(self, max_tokens: int | None = None, *, prompt: str = "", system: str = "") -> TopicsContext:
        """The context within `max_tokens` (default: the session's budget), by its tiers."""
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
        book = await self._book()
        if book.start > info.turns:
            told = "nothing was said yet" if not info.turns else f"nothing was said since {turn_id(info.turns)}"
            raise InputError(
                f"the current topic of session {self._session.id!r} is empty: {told}; there is nothing to seal"
            )
        seal = Seal(info.turns, time.time_ns() // 1_000)
        for _ in range(MAX_TRIES):
            kept = await self._book()
            await self._driver.keep_state(STRATEGY, replace(kept, seals=(*kept.seals, seal)).as_json())
            await self._settled()
            book, made = await self._book(), await self._made()
            for topic in (*book.topics, *(topic for bulk in book.bulks for topic in bulk.topics)):
                if topic.why == "manual" and topic.sealed_us == seal.at_us:
                    return _topic(topic, made)
        raise InputError(
            f"the only turn of the current topic of session {self._session.id!r}, {turn_id(book.start)}, "
            "is not answered yet; seal it when it is"
        )

    async def unseal(self) -> None:
        """Undo the last `seal_current_topic`: its turns are the current topic again. Possible until the next message.

        Older topics that became part of a bulk meanwhile stay in it.
        """
        await self._check()
        for _ in range(MAX_TRIES):
            info = await self._settled()
            book = await self._book()
            topic = book.topics[-1] if book.topics else None
            if topic is None or topic.why != "manual" or topic.last != info.turns:
                raise Refused(
                    f"there is no seal to undo in session {self._session.id!r}: the last topic was not sealed by hand, "
                    "or a message came after it"
                )
            await self._driver.keep_state(STRATEGY, book.unsealed().as_json())
            await self._settled()
            if (await self._book()).start == topic.first:
                return
        raise Refused(
            f"the seal in session {self._session.id!r} can't be undone now; another program changes its topics"
        )

    async def get_history(self) -> TopicsHistory:
        """All topics by tiers, including those that contexts omit."""
        await self._check()
        info = await self._settled()
        book, made = await self._book(), await self._made()
        turns = max(0, info.turns - book.start + 1)
        return TopicsHistory(
            tuple(_bulk(bulk, made) for bulk in book.bulks),
            tuple(_topic(topic, made) for topic in book.topics),
            turn_id(book.start) if turns else None,
            turns,
        )

    async def _check(self) -> SessionInfo:
        info = await self._session.refresh()
        if info.strategy != STRATEGY:
            raise InputError(
                f"session {info.id!r} uses the strategy {info.strategy!r}, which has no topics; "
                f"'foveate sessions strategy {info.id} {STRATEGY}' changes that"
            )
        return info

    async def _settled(self) -> SessionInfo:
        """The session, once the topics of all its turns are known and kept."""
        await self._session.context()
        return await self._session.refresh()

    async def _book(self) -> TopicsState:
        return TopicsState.from_json(await self._driver.state(STRATEGY))

    async def _made(self) -> Mapping[str, Artefact]:
        rows = await self._store.artefacts.made(self._key, STRATEGY)
        return {row.name: unpack_made(row) for row in rows if row.kind in ("topic", "bulk")}

    async def _current(self, notes: Any) -> tuple[Message, ...]:
        """The messages of the current topic, truncated where the context has them so."""
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


def _topic(topic: topic_book.TopicState, made: Mapping[str, Artefact]) -> Topic:
    found = _latest(made, f"topic-{topic.first}-{topic.last}-")
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


def _bulk(bulk: topic_book.BulkState, made: Mapping[str, Artefact]) -> Bulk:
    found = _latest(made, f"bulk-{bulk.first}-{bulk.last}-")
    return Bulk(
        bulk.id,
        turn_id(bulk.first),
        turn_id(bulk.last),
        str(found.data.get("title", "")) if found else "",
        found.text if found else "",
        tuple(_topic(topic, made) for topic in bulk.topics),
    )


def _latest(made: Mapping[str, Artefact], beginning: str) -> Artefact | None:
    """Of several summaries of the same turns, the longest."""
    found: Sequence[Artefact] = [one for name, one in made.items() if name.startswith(beginning)]
    return max(found, key=lambda one: one.tokens, default=None)


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"Topics": f"{__name__}:SessionTopics"})
