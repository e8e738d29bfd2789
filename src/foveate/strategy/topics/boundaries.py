"""Finds the topics of a conversation, turn by turn: where one ends, which are merged into a bulk, and their events."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foveate.plan import Artefact, ArtefactSpec, Overheads, PlanEvent, TurnInfo
from foveate.strategy.topics.state import BulkState, TopicsState, TopicState, Why
from foveate.strategy.topics.subjects import BACKGROUND_TURNS, WINDOW_TURNS, Gist, subject_distance
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.strategy.topics import Topics

UNSUMMARISED_TOKENS = 16
"""Maximum tokens of the text shown for an empty summary."""
TYPICAL_CHARS = 4
"""Characters per token, to estimate the size of truncated messages before any is made."""
MIN_SUMMARY_TOKENS = 24
"""Minimum size of a useful summary."""
MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Rooms:
    """Maximum tokens of each tier, and of each summary in it."""

    current: int
    past: int
    bulk: int
    topic_tokens: int
    """Maximum tokens of a summary's text; 0 if topics are only named."""
    bulk_tokens: int

    @classmethod
    def of(cls, settings: Topics, budget_tokens: int, overheads: Overheads) -> Rooms:
        """Compute the rooms so that the topics of a bulk always fit their tier, and one bulk its own, with slightly
        shorter summaries."""
        past, bulk = int(budget_tokens * settings.past), int(budget_tokens * settings.bulk)
        topic = min(settings.topic_tokens, past // settings.bulk_topics - overheads.range)
        stub = overheads.range + overheads.cut_note
        merged = min(settings.bulk_tokens, bulk - overheads.range - stub)
        return cls(
            int(budget_tokens * settings.current),
            past,
            bulk,
            topic if topic >= MIN_SUMMARY_TOKENS else 0,
            merged if merged >= MIN_SUMMARY_TOKENS else 0,
        )


class TopicFlow:
    """Processes turns, oldest first, from the first of the current topic on."""

    def __init__(
        self, settings: Topics, state: TopicsState, rooms: Rooms, made: Mapping[str, Artefact], overheads: Overheads
    ) -> None:
        self.settings = settings
        self.state = state
        self.rooms = rooms
        self.turns: list[TurnInfo] = []
        """Turns of the current topic."""
        self.events: list[PlanEvent] = []
        self._made = made
        self._overheads = overheads
        self._known: dict[int, Gist] = {}
        self._seals = {seal.turn: seal for seal in state.seals}
        self._latest_us = 0

    def add(self, info: TurnInfo) -> None:
        """Add the next turn: it may end the topic before it, and make it too large."""
        if info.turn > self.state.seen:
            if self.turns:
                why = self._boundary(info)
                if why:
                    seal = self._seals.get(info.turn - 1)
                    self._seal(len(self.turns), why, seal.at_us if seal and why == "manual" else info.started_us)
            self.state = replace(self.state, seen=info.turn, tail=0)
        self.turns.append(info)
        self._latest_us = max(self._latest_us, info.ended_us)
        if len(self.turns) > 1 and self._is_too_large():
            self._seal(len(self.turns) - 1, "size", self.turns[-2].ended_us)

    def finish(self) -> None:
        """End a topic that is to end after the newest turn, and drop seals that had nothing to end.

        A turn without an answer is not sealed: it begins the next topic.
        """
        seen = self.state.seen
        seal = self._seals.get(seen)
        if seal and not seal.waits and self.turns and self.turns[-1].turn == seen:
            messages = self.turns[-1].messages
            count = len(self.turns) - (messages[-1].role != "assistant")
            if count:
                whole = count == len(self.turns)
                self._seal(count, "manual", seal.at_us)
                self.state = replace(self.state, tail=len(messages) if whole else 0)
        kept = (one for one in self.state.seals if one.turn > seen or (one.turn == seen and one.waits))
        self.state = replace(self.state, seals=tuple(kept))

    def skip(self, last: int, tokens: int) -> None:
        """Treat the turns up to `last` as one topic, because they are too many to check each."""
        topic = TopicState(self.state.sealed + 1, self.state.start, last, 0, "size", tokens)
        self.state = replace(
            self.state,
            start=last + 1,
            subject=last + 1,
            seen=last,
            topics=(*self.state.topics, topic),
            sealed=topic.number,
        )

    def merge(self, merged_us: int) -> None:
        """Merge the oldest topics into a bulk while the summaries exceed their tier."""
        count = self.settings.bulk_topics
        while len(self.state.topics) >= count and self.past_tokens > self.rooms.past:
            oldest, rest = self.state.topics[:count], self.state.topics[count:]
            bulk = BulkState(self.state.merged + 1, merged_us, oldest)
            self.state = replace(self.state, topics=rest).with_bulk(bulk)
            data: dict[str, Json] = {
                "id": bulk.id,
                "topics": [topic.id for topic in oldest],
                "first": bulk.first,
                "last": bulk.last,
            }
            self.events.append(PlanEvent("bulk-merged", data, bulk.last))

    @property
    def past_tokens(self) -> int:
        return sum(self.tokens(topic.wanted(self.rooms.topic_tokens)) for topic in self.state.topics)

    def tokens(self, wanted: ArtefactSpec) -> int:
        """Return the tokens of a summary's block: the real ones if it is made, else the maximum."""
        made = self._made.get(wanted.name)
        text = (made.tokens or UNSUMMARISED_TOKENS) if made else wanted.tokens or UNSUMMARISED_TOKENS
        return text + self._overheads.range

    def _seal(self, count: int, why: Why, sealed_us: int) -> None:
        """Seal the topic's first turns; the others begin the next topic."""
        turns, self.turns = self.turns[:count], self.turns[count:]
        tokens = sum(info.tokens + self._overheads.tag for info in turns)
        topic = TopicState(self.state.sealed + 1, turns[0].turn, turns[-1].turn, sealed_us, why, tokens)
        subject = self.state.subject if why == "size" else topic.last + 1
        self.state = replace(
            self.state,
            start=topic.last + 1,
            subject=subject,
            topics=(*self.state.topics, topic),
            sealed=topic.number,
        )
        self._latest_us = max((info.ended_us for info in self.turns), default=0)
        data: dict[str, Json] = {"id": topic.id, "why": why, "first": topic.first, "last": topic.last}
        self.events.append(PlanEvent("topic-sealed", {**data, "tokens": tokens}, topic.last))
        self.merge(sealed_us)

    def _boundary(self, info: TurnInfo) -> Why | None:
        """Return what ends the topic before a turn; the most certain reason if there are several."""
        signals = self._made.get(boundary_name(self.settings, info.turn))
        if info.turn - 1 in self._seals:
            return "manual"
        if signals and signals.data.get("phrase"):
            return "phrase"
        # A clock that ran backwards and was then corrected is no silence: the latest time so far counts.
        silence = self.settings.silence_minutes
        if silence is not None and info.started_us - self._latest_us >= silence * MINUTE_US:
            return "silence"
        distance = self.settings.subject_distance
        if signals and distance is not None:
            prompt = Gist.from_json(signals.data.get("asked"))
            first = max(self.state.subject, info.turn - WINDOW_TURNS)
            before = self._gists(first, info.turn)
            if subject_distance(prompt, before, self._gists(first - BACKGROUND_TURNS, first)) > distance:
                return "subject"
        return None

    def _gists(self, first: int, end: int) -> Sequence[Gist]:
        """Return the gists of turns, each with its answer; each is known from the turn after."""
        return [gist for turn in range(max(1, first), end) if (gist := self._gist(turn))]

    def _gist(self, turn: int) -> Gist | None:
        if turn not in self._known:
            made = self._made.get(boundary_name(self.settings, turn + 1))
            if made is None:
                return None
            self._known[turn] = Gist.from_json(made.data.get("before"))
        return self._known[turn]

    def _is_too_large(self) -> bool:
        """Return whether the topic takes too much of its share; one beyond it is measured as truncated."""
        tag, room = self._overheads.tag, self.rooms.current
        size = sum(info.tokens + tag for info in self.turns)
        if size > room:
            most = self.settings.max_message_chars // TYPICAL_CHARS
            size = sum(tag + sum(min(message.tokens, most) for message in info.messages) for info in self.turns)
        return size > room * self.settings.seal_share


def boundary_name(settings: Topics, turn: int) -> str:
    """Return the name of the artefact that detects whether a turn begins a topic; it changes with the method."""
    own = [settings.phrases, settings.phrase_languages]
    way = f"-{zlib.crc32(json.dumps(own).encode()):08x}" if any(one not in ((), None) for one in own) else ""
    if settings.phrase_languages == ():
        way = f"{way}-none"
    return f"boundary-{turn}{way}"


def boundary_wanted(settings: Topics, turn: int) -> ArtefactSpec:
    """Request the artefact that detects a boundary, from the turn's prompt and from the turn before, which has ended by
    then."""
    languages = settings.phrase_languages
    data: dict[str, Json] = {} if languages is None else {"languages": list(languages)}
    if settings.phrases:
        data["phrases"] = list(settings.phrases)
    return ArtefactSpec(boundary_name(settings, turn), "boundary", max(1, turn - 1), turn, data=data)
