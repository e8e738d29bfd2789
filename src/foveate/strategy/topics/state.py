"""The state of the topics strategy: the sealed topics, their bulks, and where the current topic began.

Nothing here has content; summaries are artefacts, named after their turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from foveate.plan import ArtefactSpec
from foveate.turn import Json

Why = Literal["manual", "phrase", "silence", "subject", "size"]
"""Why a topic ended."""
REASONS: tuple[Why, ...] = get_args(Why)
MAX_BULKS = 1_000
"""Limit of the bulks; beyond it, the two oldest are merged."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """Consecutive turns on one topic."""

    number: int
    first: int
    last: int
    sealed_us: int
    why: Why
    tokens: int
    """Raw tokens of its turns."""

    @property
    def id(self) -> str:
        return f"topic-{self.number}"

    def wanted(self, tokens: int) -> ArtefactSpec:
        """Request its summary."""
        return ArtefactSpec(f"topic-{self.first}-{self.last}-{tokens}", "topic", self.first, self.last, tokens)

    def as_json(self) -> list[Json]:
        return [self.number, self.first, self.last, self.sealed_us, REASONS.index(self.why), self.tokens]

    @classmethod
    def from_json(cls, kept: Any) -> TopicState:
        number, first, last, sealed_us, why, tokens = kept
        return cls(number, first, last, sealed_us, REASONS[why], tokens)


@dataclass(frozen=True, slots=True)
class BulkState:
    """Topics that are summarised together, oldest first."""

    number: int
    merged_us: int
    topics: tuple[TopicState, ...]

    @property
    def id(self) -> str:
        return f"bulk-{self.number}"

    @property
    def first(self) -> int:
        return self.topics[0].first

    @property
    def last(self) -> int:
        return self.topics[-1].last

    def wanted(self, tokens: int) -> ArtefactSpec:
        name = f"bulk-{self.first}-{self.last}-{tokens}"
        ranges: list[Json] = [[topic.first, topic.last] for topic in self.topics]
        return ArtefactSpec(name, "bulk", self.first, self.last, tokens, {"topics": ranges})

    def as_json(self) -> dict[str, Json]:
        topics: list[Json] = [topic.as_json() for topic in self.topics]
        return {"number": self.number, "merged_us": self.merged_us, "topics": topics}

    @classmethod
    def from_json(cls, kept: Any) -> BulkState:
        return cls(kept["number"], kept["merged_us"], tuple(map(TopicState.from_json, kept["topics"])))


@dataclass(frozen=True, slots=True)
class Seal:
    """A request to end the topic after a turn."""

    turn: int
    at_us: int
    waits: bool = False
    """Wait for the next turn, because this one continued after it was sealed."""


@dataclass(frozen=True, slots=True)
class TopicsState:
    """The state of the strategy."""

    start: int = 1
    """The first turn of the current topic; one that does not exist yet if the topic is empty."""
    subject: int = 1
    """The first turn of the current subject: a topic that was sealed for its size continues in the next."""
    seen: int = 0
    """The newest turn that was checked."""
    topics: tuple[TopicState, ...] = ()
    """Sealed topics that are in no bulk, oldest first."""
    bulks: tuple[BulkState, ...] = ()
    sealed: int = 0
    """Number of topics sealed so far."""
    merged: int = 0
    """Number of bulks made so far."""
    seals: tuple[Seal, ...] = ()
    """Seals requested by hand that are not applied yet."""
    tail: int = 0
    """Number of messages in the newest turn when it was sealed by hand; 0: it was not."""

    def reopened(self) -> TopicsState:
        """Reopen the newest sealed turn, which continued: it is part of the current topic until the next one begins."""
        topic = self.topics[-1]
        is_left = topic.last > topic.first
        kept = (replace(topic, last=topic.last - 1),) if is_left else ()
        return replace(
            self,
            start=topic.last,
            subject=topic.last,
            topics=(*self.topics[:-1], *kept),
            sealed=self.sealed - (not is_left),
            seals=(*self.seals, Seal(topic.last, topic.sealed_us, waits=True)),
            tail=0,
        )

    def unsealed(self) -> TopicsState:
        """Undo the last seal: the turns of the newest topic are the current topic again."""
        topic = self.topics[-1]
        return replace(
            self, start=topic.first, subject=topic.first, topics=self.topics[:-1], sealed=self.sealed - 1, tail=0
        )

    def with_bulk(self, bulk: BulkState) -> TopicsState:
        bulks = (*self.bulks, bulk)
        if len(bulks) > MAX_BULKS:
            one, two = bulks[:2]
            ends = one.topics[0], two.topics[-1]
            tokens = sum(topic.tokens for topic in (*one.topics, *two.topics))
            whole = replace(ends[0], last=ends[1].last, tokens=tokens)
            bulks = (replace(one, topics=(whole,)), *bulks[2:])
        return replace(self, bulks=bulks, merged=bulk.number)

    def unmerged(self) -> TopicsState:
        """Undo all merging of topics into bulks."""
        topics = tuple(topic for bulk in self.bulks for topic in bulk.topics)
        return replace(self, topics=(*topics, *self.topics), bulks=(), merged=0)

    def as_json(self) -> dict[str, Json]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "topics": [topic.as_json() for topic in self.topics],
            "bulks": [bulk.as_json() for bulk in self.bulks],
            "seals": [[seal.turn, seal.at_us, seal.waits] for seal in self.seals],
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Json]) -> TopicsState:
        """Return the stored state, or an empty one."""
        if not kept:
            return cls()
        state: dict[str, Any] = dict(kept)
        state["topics"] = tuple(map(TopicState.from_json, state["topics"]))
        state["bulks"] = tuple(map(BulkState.from_json, state["bulks"]))
        state["seals"] = tuple(Seal(*seal) for seal in state["seals"])
        return cls(**state)
