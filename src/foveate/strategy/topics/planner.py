"""Makes one plan of the topics strategy: from the turns since the last plan, the rows of its three tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foveate.plan import ArtefactSpec, Block, Ledger, Plan, ShownLevel, Snapshot, State, TurnSizes
from foveate.strategy.gradient.planner import MIN_HISTORY_TOKENS
from foveate.strategy.layout import bands_of, compact_rows, stub_row
from foveate.strategy.topics.blocks import Current, current_rows
from foveate.strategy.topics.boundaries import Rooms, TopicFlow, boundary_wanted
from foveate.strategy.topics.state import BulkState, TopicsState, TopicState
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.strategy.topics import Topics

MAX_CATCH_UP_TURNS = 20_000
"""In a longer history that was never planned, all but this many newest turns are one topic."""
MAX_READ_TURNS = 2_000
"""Number of newest turns of a history without a plan that are read for phrases and subjects."""
MAX_ADDED_SHARE = 0.25
"""A prompt and additions larger than this share of the history's room reduce what the tiers share."""
CURRENT_STEPS = 4
"""Steps in which the current topic takes back the room that it left to bulks."""
MAX_SUMMARIES = 200
"""Limit of the summaries of sealed topics that are made at once, in addition to the shown ones."""
_TARGETS: tuple[ShownLevel, ...] = ("A", "R", "M", "S", "C", "T", "E")


@dataclass(frozen=True, slots=True)
class _Past:
    """The rows of sealed topics, oldest first."""

    rows: tuple[Block, ...]
    bulks: tuple[BulkState, ...]
    """Bulks that are shown."""
    left_out: int
    """Number of bulks that are not shown."""

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


class TopicsPlanner:
    """Makes one plan."""

    def __init__(self, settings: Topics, snapshot: Snapshot, state: State, ledger: Ledger) -> None:
        self.settings = settings
        self.snapshot = snapshot
        self.state = state
        self.ledger = ledger
        self.budget = ledger.room_tokens
        self.overheads = snapshot.overheads
        self.rooms = Rooms.of(settings, self._shared_tokens(), self.overheads)

    def plan(self) -> tuple[Plan, State]:
        if not self.snapshot.last_turn or self.budget < MIN_HISTORY_TOKENS:
            return self._smallest()
        state = TopicsState.from_json(self.state)
        return self._planned(self._opened(state))

    def _planned(self, flow: TopicFlow) -> tuple[Plan, State]:
        wants = self._advance(flow)
        past = self._past(flow, self.rooms.bulk)
        current = self._current(flow, self.budget - past.tokens)
        if current is None:
            return self._smallest()
        if past.left_out and not self._shows_full:
            past = self._past(flow, self._unused(flow, current))
        full = self._full(flow, past, current)
        rows = (*past.rows[: len(past.rows) - len(full)], *self._raw_rows(full), *current.rows)
        tokens = sum(row.tokens for row in rows)
        if tokens > self.budget:
            return self._smallest()
        wants += [*self._summaries(flow, past), *current.wants]
        plan = Plan(
            rows,
            bands_of(rows, dict.fromkeys(_TARGETS, 0.0)),
            tokens,
            self.budget,
            wants=tuple({wanted.name: wanted for wanted in wants}.values()),
            events=tuple(flow.events),
            notes=self._notes(flow, past, current),
        )
        return plan, flow.state.as_json()

    def _shared_tokens(self) -> int:
        """Return what the three tiers share: the budget without the system prompt and the caller's other additions.

        The prompt and Foveate's own additions use what the tiers leave; if they are large, the tiers share less.
        """
        added = self.ledger.own_tokens + self.ledger.prompt_tokens
        return self.budget + added if added <= self.budget * MAX_ADDED_SHARE else self.budget

    def _opened(self, state: TopicsState) -> TopicFlow:
        """Return the flow up to where the current topic begins."""
        snapshot, last = self.snapshot, self.snapshot.last_turn
        if state.tail and state.topics and len(snapshot.infos(state.seen, state.seen)[0].messages) != state.tail:
            state = state.reopened()
        # A preview is planned from scratch: topics merged for another budget may fit separately in this one.
        state = state.unmerged() if self.ledger.is_preview else state
        flow = TopicFlow(self.settings, state, self.rooms, snapshot.made, self.overheads)
        flow.merge(0)
        flow.events.clear()
        if last - state.seen > MAX_CATCH_UP_TURNS:
            cut = last - MAX_CATCH_UP_TURNS
            flow.skip(cut, sum(item.raw for item in snapshot.newest() if item.turn <= cut))
        return flow

    def _advance(self, flow: TopicFlow) -> list[ArtefactSpec]:
        """Process the turns up to the newest; return the artefacts that detect where topics begin in the new turns."""
        settings, last = self.settings, self.snapshot.last_turn
        reads = settings.subject_distance is not None or settings.phrases or settings.phrase_languages != ()
        first = max(2, flow.state.seen + 1, last - MAX_READ_TURNS + 1)
        wants = [boundary_wanted(settings, turn) for turn in range(first, last + 1)] if reads else []
        for info in self.snapshot.infos(flow.state.start, last):
            flow.add(info)
        flow.finish()
        return wants

    def _unused(self, flow: TopicFlow, current: Current) -> int:
        """Return the room for bulks: their share, and what the other tiers leave of theirs.

        The current topic counts in steps, so that the bulks change a few times while it grows, not with each turn.
        """
        rooms = self.rooms
        step = max(1, rooms.current // CURRENT_STEPS)
        current_tokens = max(step, -(-current.tokens // step) * step)
        topics = flow.past_tokens if rooms.topic_tokens else 0
        left = min(self.budget, rooms.current + rooms.past + rooms.bulk) - topics - current_tokens
        return max(rooms.bulk, left)

    @property
    def _shows_full(self) -> bool:
        """Return whether past topics are shown in full in what the tiers leave."""
        return self.settings.keep_full or self.ledger.is_preview

    def _past(self, flow: TopicFlow, bulks_tokens: int) -> _Past:
        """Lay out past topics, and the newest bulks that fit their room; the others are named."""
        topics = [self._row(flow, topic, topic.wanted(self.rooms.topic_tokens)) for topic in flow.state.topics]
        stub = stub_row(1, 1, self.overheads).tokens
        shown: list[Block] = []
        room = bulks_tokens
        for place, bulk in reversed(list(enumerate(flow.state.bulks))):
            row = self._row(flow, bulk, bulk.wanted(self.rooms.bulk_tokens))
            if row.tokens + (stub if place else 0) > room or not self.rooms.bulk_tokens:
                break
            shown.append(row)
            room -= row.tokens
        count = len(flow.state.bulks)
        left_out = count - len(shown)
        rows = [*reversed(shown), *topics]
        if left_out:
            rows.insert(0, stub_row(1, flow.state.bulks[left_out - 1].last, self.overheads))
        if topics and not self.rooms.topic_tokens:
            # There is too little room for any summary: sealed topics are only named.
            rows = [stub_row(1, flow.state.topics[-1].last, self.overheads)]
        return _Past(tuple(rows), flow.state.bulks[left_out:], left_out)

    def _row(self, flow: TopicFlow, what: TopicState | BulkState, wanted: ArtefactSpec) -> Block:
        return Block(what.first, what.last, "A", flow.tokens(wanted), artefact=wanted.name)

    def _current(self, flow: TopicFlow, limit_tokens: int) -> Current | None:
        """Lay out the current topic in its share, or, if that is too small, in the room that the other tiers leave."""
        if not flow.turns:
            return Current(())
        room = min(self.rooms.current, limit_tokens)
        return current_rows(
            flow.turns,
            self._newest(),
            max_message_chars=self.settings.max_message_chars,
            made=self.snapshot.made,
            room_tokens=room,
            limit_tokens=limit_tokens,
            overheads=self.overheads,
        )

    def _newest(self) -> list[TurnSizes]:
        """Return the newest turn, or its steps if it is in progress, newest first."""
        items: list[TurnSizes] = []
        for item in self.snapshot.newest():
            if item.turn != self.snapshot.last_turn:
                break
            items.append(item)
        return items

    def _full(self, flow: TopicFlow, past: _Past, current: Current) -> list[TopicState]:
        """Return the newest sealed topics that are shown in full, if requested and if there is room; oldest first."""
        if not self._shows_full:
            return []
        rows = list(past.rows)
        left = self.budget - past.tokens - sum(row.tokens for row in current.rows)
        full: list[TopicState] = []
        for topic in reversed(flow.state.topics):
            if not rows or rows[-1].first != topic.first or topic.tokens - rows[-1].tokens > left:
                break
            left -= topic.tokens - rows.pop().tokens
            full.insert(0, topic)
        return full

    def _raw_rows(self, topics: Sequence[TopicState]) -> list[Block]:
        """Return a raw row for each turn of the topics."""
        infos = [info for topic in topics for info in self.snapshot.infos(topic.first, topic.last)]
        return [Block(info.turn, info.turn, "R", info.tokens + self.overheads.tag) for info in infos]

    def _summaries(self, flow: TopicFlow, past: _Past) -> list[ArtefactSpec]:
        """Return the shown summaries, and those of newly sealed or merged topics, so that they can be looked up."""
        rooms, state = self.rooms, flow.state
        wants = [topic.wanted(rooms.topic_tokens) for topic in state.topics] if rooms.topic_tokens else []
        wants += [bulk.wanted(rooms.bulk_tokens) for bulk in past.bulks]
        before = TopicsState.from_json(self.state)
        if not rooms.topic_tokens or self.ledger.is_preview:
            return wants
        merged = [topic for bulk in state.bulks for topic in bulk.topics if topic.number > before.sealed]
        wants += [topic.wanted(rooms.topic_tokens) for topic in merged[-MAX_SUMMARIES:]]
        if rooms.bulk_tokens:
            new = [bulk for bulk in state.bulks if bulk.number > before.merged]
            wants += [bulk.wanted(rooms.bulk_tokens) for bulk in new[-MAX_SUMMARIES:]]
        return wants

    def _notes(self, flow: TopicFlow, past: _Past, current: Current) -> dict[str, Json]:
        state, rooms = flow.state, self.rooms
        return {
            "current": {"first": state.start, "last": self.snapshot.last_turn, "tokens": current.tokens},
            "topics": [_noted(topic, self._title(topic.wanted(rooms.topic_tokens))) for topic in state.topics],
            "bulks": [
                {
                    "id": bulk.id,
                    "first": bulk.first,
                    "last": bulk.last,
                    "title": self._title(bulk.wanted(rooms.bulk_tokens)),
                    "topics": [_noted(topic) for topic in bulk.topics],
                }
                for bulk in past.bulks
            ],
            "left_out_bulks": past.left_out,
            "truncated": {str(turn): list(places) for turn, places in current.truncated.items()},
            "max_message_chars": self.settings.max_message_chars,
            "is_cut": current.is_cut,
            "room_tokens": {"current": rooms.current, "past": rooms.past, "bulk": rooms.bulk},
        }

    def _title(self, wanted: ArtefactSpec) -> Json:
        made = self.snapshot.made.get(wanted.name)
        return made.data.get("title", "") if made else ""

    def _smallest(self) -> tuple[Plan, State]:
        """Plan the newest turn as far as it fits, and name all others; no state is kept."""
        rows = tuple(compact_rows(self.snapshot, self.budget, self.overheads))
        tokens = sum(row.tokens for row in rows)
        notes: dict[str, Json] = {"message": f"{self.budget} tokens are too few for topics"} if rows else {}
        bands = bands_of(rows, dict.fromkeys(_TARGETS, 0.0))
        return Plan(rows, bands, tokens, self.budget, notes=notes), self.state


def _noted(topic: TopicState, title: Json = "") -> dict[str, Json]:
    return {
        "id": topic.id,
        "first": topic.first,
        "last": topic.last,
        "why": topic.why,
        "sealed_us": topic.sealed_us,
        "raw_tokens": topic.tokens,
        "title": title,
    }
