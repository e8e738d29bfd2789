"""Makes one plan of the hybrid strategy: the rows of the last decision, and a new decision if they are too large.

Sizes of short messages are estimated until they are made; then the plan is made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foveate.plan import (
    ArtefactSpec,
    Block,
    Ledger,
    Plan,
    PlanEvent,
    ShownLevel,
    Snapshot,
    State,
    TurnInfo,
    TurnSizes,
)
from foveate.strategy.gradient.planner import MIN_HISTORY_TOKENS
from foveate.strategy.hybrid.blocks import (
    HybridDraft,
    HybridLayout,
    TightLayout,
    draft_rows,
    system_rows,
    system_wanted,
)
from foveate.strategy.hybrid.messages import (
    ShortSizes,
    ShortSource,
    TurnSection,
    protect,
    reach_of,
    sections_of,
    speaker_of,
)
from foveate.strategy.hybrid.state import NOWHERE, HybridState, Place
from foveate.strategy.layout import bands_of, compact_rows, rolled_rows, step_stub, stub_row
from foveate.turn import Json, turn_id

if TYPE_CHECKING:
    from foveate.strategy.hybrid import Hybrid

MAX_TURNS = 2_000
"""Turns before this many newest ones are shown as a sentence or in an era, whatever their size."""
SYSTEM_SHARE = 0.5
"""Maximum share of the window for system messages of turns that are not shown themselves."""
MAX_SYSTEMS = 8
TINY_GUESS_TOKENS = 30
"""Approximate tokens of a tiny turn."""
MAX_WALKS = 4
"""Limit of the passes until the rows reach the target: blocks of steps cost slightly more or less than single steps."""
_LEVELS: tuple[ShownLevel, ...] = ("A", "E", "T", "M", "R")


class HybridPlanner:
    """Makes one plan."""

    def __init__(self, settings: Hybrid, snapshot: Snapshot, state: State, ledger: Ledger) -> None:
        self.settings = settings
        self.snapshot = snapshot
        self.state = state
        self.ledger = ledger
        self.budget = ledger.room_tokens
        self.overheads = snapshot.overheads
        self.window = min(settings.window_tokens, self.budget)
        self.items: list[TurnSizes] = list(snapshot.newest())
        self.in_steps = bool(self.items and self.items[0].step)
        one_off = ledger.is_preview
        # A preview is filled completely: no later call would use free room.
        self.trigger = self.window if one_off else int(self.window * settings.trigger)
        self.target = self.window if one_off else int(self.window * settings.target)
        self.infos: Sequence[TurnInfo] = ()
        self._systems: Sequence[tuple[int, int]] = ()

    def plan(self) -> tuple[Plan, State]:
        last = self.snapshot.last_turn
        if not last or self.window < MIN_HISTORY_TOKENS:
            return self._smallest()
        state = self._opened()
        self.infos = self.snapshot.infos(state.rolled + 1, last)
        self._systems = [(info.turn, tokens) for info in self.infos if (tokens := _system_tokens(info))]
        self.protection = protect(
            self.infos, messages=self.settings.protected_messages, injections=self.settings.kept_injections
        )
        sections = self._sections(state)
        draft = self._draft(state, sections, ShortSizes(self.settings, self.snapshot.made, sections))
        outcome = HybridOutcome(state, draft, self._layout(state, draft))
        if self._is_left_to_agent(outcome.layout.tokens):
            return self._planned(outcome)
        if outcome.layout.tokens > self.trigger:
            outcome = self._compressed(outcome)
        if outcome.layout.tokens > self.window:
            outcome = self._tightened(outcome)
        if outcome.layout.tokens > self.window:
            return self._smallest()
        return self._planned(outcome)

    def _is_left_to_agent(self, tokens: int) -> bool:
        """Return whether an agent decides: between the trigger and the window, if there is one."""
        return self.trigger < tokens <= self.window and self.snapshot.agent != "none" and not self.ledger.is_preview

    def _opened(self) -> HybridState:
        last = self.snapshot.last_turn
        state = HybridState() if self.ledger.is_preview or not self.state else HybridState.from_json(self.state)
        if last - state.rolled > MAX_TURNS:
            state = self._rolled(state, last - MAX_TURNS)
        return state

    def _sections(self, state: HybridState) -> list[TurnSection]:
        return sections_of(self.infos, in_steps=self.in_steps, reach=state.reach, window_tokens=self.window)

    def _draft(self, state: HybridState, sections: Sequence[TurnSection], sizes: ShortSizes) -> HybridDraft:
        """Apply the stored decisions on short messages."""
        draft = HybridDraft(sections)
        for section in sections:
            if section.source is None or ((section.turn, -1) > state.through and not state.chosen):
                continue
            for place, message in section.places():
                size = sizes.short(section, message) if state.marks(place) else None
                if size is not None:
                    draft.short[place] = size
        return draft

    def _layout(self, state: HybridState, draft: HybridDraft, rolled_tokens: int | None = None) -> HybridLayout:
        used = {source for section in draft.sections if (source := draft.source(section)) and draft.positions(section)}
        wants = {source: source.wanted(self.settings) for source in used}
        rows = system_rows(state.systems, self.overheads)
        if state.rolled:
            items = [item for item in self.items if item.turn <= state.rolled]
            room = max(
                state.rolled_tokens if rolled_tokens is None else rolled_tokens,
                stub_row(1, state.rolled, self.overheads).tokens,
            )
            rows += rolled_rows(self.snapshot, items, state.rolled, room, self.overheads)
        shown = draft_rows(draft, {source: wanted.name for source, wanted in wants.items()}, self.overheads)
        if draft.hidden_steps > 1:
            turn = draft.sections[-1].turn
            place = next(index for index, row in enumerate(shown) if row.first_step == 1) + 1
            shown.insert(place, step_stub(turn, 2, draft.hidden_steps, self.overheads))
        needed = [wanted for _, wanted in sorted(wants.items(), key=_in_order)]
        needed += [system_wanted(turn) for turn, _ in state.systems]
        return HybridLayout((*rows, *shown), tuple(needed))

    def _compressed(self, before: HybridOutcome) -> HybridOutcome:
        """Shorten messages, oldest first, until the target is reached; if that is not enough, roll up the oldest
        turns."""
        reach = reach_of(self.infos[-1])
        state = replace(before.state, reach=reach if reach != NOWHERE else before.state.reach)
        sections = self._sections(state)
        sizes = ShortSizes(self.settings, self.snapshot.made, sections)
        draft = self._draft(state, sections, sizes)
        layout = self._layout(state, draft)
        for _ in range(MAX_WALKS):
            if layout.tokens <= self.target:
                break
            tokens = layout.tokens
            state = self._walk(state, draft, sizes, tokens - self.target)
            layout = self._layout(state, draft)
            if layout.tokens == tokens:
                break
        if layout.tokens > self.target:
            goals = (self.target, self.trigger, self.window) if layout.tokens > self.window else (self.target,)
            state, draft = self._roll(state, draft, goals)
            layout = self._layout(state, draft)
        if draft.short.keys() != before.draft.short.keys() or state.rolled != before.state.rolled:
            state = replace(state, compressions=before.state.compressions + 1)
            return HybridOutcome(state, draft, layout, compressed_from=before.layout.tokens)
        return before

    def _walk(self, state: HybridState, draft: HybridDraft, sizes: ShortSizes, excess_tokens: int) -> HybridState:
        """Shorten messages in place, and return the state with the last one."""
        protected = self.protection.all
        through = state.through
        for section in draft.sections:
            for place, message in section.places():
                if excess_tokens <= 0:
                    break
                if section.source is not None or place <= through:
                    through = max(through, place)
                if place in draft.short or place in protected:
                    continue
                size = sizes.short(section, message)
                if size is not None:
                    draft.short[place] = size
                    excess_tokens -= message.tokens - size
        # Messages kept whole earlier stay whole until this pass reaches them.
        spared = frozenset(
            place for place in (*protected, *state.spared) if place <= through and place not in draft.short
        )
        chosen = frozenset(place for place in state.chosen if place > through)
        return replace(state, through=through, spared=spared, chosen=chosen)

    def _roll(self, state: HybridState, draft: HybridDraft, goals: Sequence[int]) -> tuple[HybridState, HybridDraft]:
        """Roll up the fewest of the oldest turns, as sentences and eras, that reach the first reachable of these goals;
        none if no goal can be reached."""
        tail = min((place[0] for place in self.protection.firm), default=self.snapshot.last_turn)
        costs: dict[int, int] = {}
        for section in draft.sections:
            costs[section.turn] = costs.get(section.turn, 0) + draft.tokens(section) + self.overheads.tag
        for goal in goals:
            for is_roomy in (True, False):
                rest = sum(costs.values())
                for turn in (turn for turn in sorted(costs) if turn < tail):
                    rest -= costs[turn]
                    rolled = self._rolled(state, turn)
                    room = goal - rest - sum(row.tokens for row in system_rows(rolled.systems, self.overheads))
                    if room >= self._rolled_need(turn, is_roomy=is_roomy):
                        rolled = replace(rolled, rolled_tokens=min(room, rolled.rolled_tokens))
                        return rolled, self._without(draft, turn)
        return state, draft

    def _rolled_need(self, turns: int, *, is_roomy: bool) -> int:
        """Return the tokens for a number of rolled-up turns: a sentence each, or only a name."""
        named = stub_row(1, turns, self.overheads).tokens
        wished = min(int(self.window * self.settings.rolled_share), (TINY_GUESS_TOKENS + self.overheads.line) * turns)
        return max(named, wished) if is_roomy else named

    @staticmethod
    def _without(draft: HybridDraft, through: int) -> HybridDraft:
        """Return a draft of the turns after this one."""
        sections = [section for section in draft.sections if section.turn > through]
        return HybridDraft(sections, {place: size for place, size in draft.short.items() if place[0] > through})

    def _rolled(self, state: HybridState, last: int) -> HybridState:
        """Return the state with the turns up to `last` rolled up; their system messages stay."""
        most = int(self.window * SYSTEM_SHARE)
        kept: list[tuple[int, int]] = []
        for turn, tokens in (*state.systems, *self._systems):
            most -= tokens + self.overheads.range + 1
            if turn > last or most < 0 or len(kept) == MAX_SYSTEMS:
                break
            kept.append((turn, tokens))
        tokens = int(self.window * self.settings.rolled_share)
        return replace(state, rolled=max(state.rolled, last), rolled_tokens=tokens, systems=tuple(kept))

    def _tightened(self, before: HybridOutcome) -> HybridOutcome:
        """Leave out messages, then cut, after everything possible is short and all but the newest turns are rolled
        up."""
        state, draft = self._roll_all(before.state, before.draft)
        if state.rolled != before.state.rolled and before.compressed_from is None:
            state = replace(state, compressions=state.compressions + 1)
            before = replace(before, compressed_from=before.layout.tokens)
        sizes = ShortSizes(self.settings, self.snapshot.made, draft.sections)
        for section in draft.sections:
            for place, message in section.places():
                size = sizes.short(section, message)
                if size is not None and place not in self.protection.firm:
                    draft.short[place] = size
        layout = self._layout(state, draft)
        missing = [wanted for wanted in layout.wants if wanted.name not in self.snapshot.made]
        if layout.tokens <= self.window or missing:
            return replace(before, state=state, draft=draft, layout=_capped(layout, self.window))
        smallest = self._layout(state, draft, rolled_tokens=0)
        if smallest.tokens <= self.window:
            rolled = self.window - smallest.tokens + stub_row(1, 1, self.overheads).tokens
            return replace(before, state=state, draft=draft, layout=self._layout(state, draft, rolled_tokens=rolled))
        state = replace(state, systems=())
        tight = TightLayout(draft, self.protection, self.overheads)
        over = self._layout(state, draft, rolled_tokens=0).tokens - self.window
        over = tight.cut(tight.hide(over)) if over > 0 else 0
        layout = self._layout(state, draft, rolled_tokens=0)
        if layout.tokens > self.window:
            tight.cut(layout.tokens - self.window)
            layout = self._layout(state, draft, rolled_tokens=0)
        return replace(before, state=state, draft=draft, layout=layout)

    def _roll_all(self, state: HybridState, draft: HybridDraft) -> tuple[HybridState, HybridDraft]:
        tail = min((place[0] for place in self.protection.firm), default=self.snapshot.last_turn)
        if tail - 1 > state.rolled:
            state = self._rolled(state, tail - 1)
        return state, self._without(draft, state.rolled)

    def _planned(self, outcome: HybridOutcome) -> tuple[Plan, State]:
        layout = outcome.layout
        missing = any(wanted.name not in self.snapshot.made for wanted in layout.wants)
        state = replace(outcome.state, cut=frozenset(outcome.draft.cut))
        outcome = replace(outcome, state=state)
        plan = Plan(
            layout.rows,
            bands_of(layout.rows, dict.fromkeys(_LEVELS, 0.0)),
            layout.tokens,
            self.budget,
            wants=layout.wants,
            events=() if missing else tuple(events_of(outcome, self)),
            notes=notes_of(outcome, self),
        )
        return plan, state.as_json()

    def _smallest(self) -> tuple[Plan, State]:
        """Plan the newest turn as far as it fits, and name all others; no state is kept."""
        rows: Sequence[Block] = compact_rows(self.snapshot, self.window, self.overheads)
        notes = {"message": f"{self.window} tokens are too few; the newest turn is shown as far as it fits"}
        tokens = sum(row.tokens for row in rows)
        bands = bands_of(rows, dict.fromkeys((*_LEVELS, "S", "C"), 0.0))
        return Plan(tuple(rows), bands, tokens, self.budget, notes=notes if rows else {}), self.state


def _system_tokens(info: TurnInfo) -> int:
    return sum(message.tokens for message in info.messages if speaker_of(message) == "system")


def _in_order(pair: tuple[ShortSource, ArtefactSpec]) -> Place:
    return pair[0].turn, pair[0].first


def _capped(layout: HybridLayout, window_tokens: int) -> HybridLayout:
    """Return a layout that counts as fitting until its artefacts exist; then it is made again."""
    return layout if layout.tokens <= window_tokens else replace(layout, rows=layout.rows[:0])


@dataclass(frozen=True, slots=True)
class HybridOutcome:
    """A decision and its layout."""

    state: HybridState
    draft: HybridDraft
    layout: HybridLayout
    compressed_from: int | None = None
    """Tokens of the history before more of it was shortened; None if nothing was."""


def notes_of(outcome: HybridOutcome, planner: HybridPlanner) -> dict[str, Json]:
    """Return statistics by kind, for people, of the turns that are shown by their messages."""
    state, layout = outcome.state, outcome.layout
    notes: dict[str, Json] = {
        "window_tokens": planner.window,
        "history_tokens": layout.tokens,
        "used_share": round(layout.tokens / max(1, planner.window), 3),
        "compressions": state.compressions,
        **_statistics(outcome, planner),
    }
    if is_agent_due(outcome, planner):
        notes["agent"] = "due"
    if state.rolled:
        notes["rolled_through"] = turn_id(state.rolled)
    if outcome.draft.cut:
        notes["cut"] = [f"{turn_id(turn)} message {position}" for turn, position in outcome.draft.cut]
    if problem := _problem(outcome, planner):
        notes["message"] = problem
    return notes


def is_agent_due(outcome: HybridOutcome, planner: HybridPlanner) -> bool:
    """Return whether the trigger was reached and the agent is not running yet."""
    is_over = outcome.compressed_from is None and outcome.layout.tokens > planner.trigger
    return is_over and planner.snapshot.agent == "ready" and not planner.ledger.is_preview


def events_of(outcome: HybridOutcome, planner: HybridPlanner) -> Iterator[PlanEvent]:
    """Yield the events: the threshold was reached, the compression, and protected messages that had to be cut."""
    before = HybridState.from_json(planner.state).cut if planner.state else frozenset()
    sizes = {place: message.tokens for section in outcome.draft.sections for place, message in section.places()}
    if is_agent_due(outcome, planner):
        due: dict[str, Json] = {"tokens": outcome.layout.tokens, "window_tokens": planner.window}
        yield PlanEvent("context-threshold-reached", {**due, "share": planner.settings.trigger, "mode": "agent"})
    if outcome.compressed_from is not None:
        reached: dict[str, Json] = {"tokens": outcome.compressed_from, "window_tokens": planner.window}
        yield PlanEvent("context-threshold-reached", {**reached, "share": planner.settings.trigger})
        yield PlanEvent("compression-triggered", {"strategy": "hybrid", "target_tokens": planner.target})
    for turn, position in outcome.draft.cut:
        if (turn, position) not in before:
            kept = outcome.draft.short.get((turn, position), outcome.draft.prompt_tokens or 0)
            data: dict[str, Json] = {"cut": "protected", "position": position, "tokens": sizes[turn, position]}
            yield PlanEvent("compressed", {**data, "kept_tokens": kept}, turn)
    if outcome.compressed_from is not None:
        tokens = outcome.layout.tokens
        data = {"tokens": tokens, "target_tokens": planner.target, "is_target_reached": tokens <= planner.target}
        if problem := _problem(outcome, planner):
            data["message"] = problem
        yield PlanEvent("compressed", {**data, **_statistics(outcome, planner)})


def _statistics(outcome: HybridOutcome, planner: HybridPlanner) -> dict[str, Json]:
    short: Counter[str] = Counter()
    original = compressed = removed = 0
    for section in outcome.draft.sections:
        for place, message in section.places():
            speaker = speaker_of(message)
            removed += speaker == "display"
            if place in outcome.draft.short:
                short[speaker] += 1
                original += message.tokens
                compressed += outcome.draft.short[place]
    return {
        "tool_results_short": short["tool"],
        "user_messages_short": short["user"],
        "assistant_messages_short": short["assistant"],
        "injections_short": short["injection"],
        "display_removed": removed,
        "protected": len(planner.protection.talk),
        "original_tokens": original,
        "short_tokens": compressed,
        "ratio": round(compressed / original, 3) if original else 1.0,
    }


def _problem(outcome: HybridOutcome, planner: HybridPlanner) -> str:
    """Return a message for people if the target or the window was exceeded."""
    if outcome.draft.cut:
        return f"the newest messages alone exceed {planner.window:,} tokens: the oldest of them are cut"
    tokens = outcome.layout.tokens
    is_full = tokens > planner.trigger or outcome.compressed_from is not None
    if is_full and tokens > planner.target and not planner.ledger.is_preview and planner.snapshot.agent == "none":
        return f"the target of {planner.target:,} tokens can't be reached: {tokens:,} are left"
    return ""
