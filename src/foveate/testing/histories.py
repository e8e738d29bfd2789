"""Generated snapshots, so that a strategy can be tested and measured without a store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from foveate.history.worth import WordTable, weigh
from foveate.plan import (
    AgentStatus,
    Artefact,
    ArtefactSpec,
    Era,
    KeptPlan,
    Ledger,
    MessageSize,
    NotRead,
    Overheads,
    Plan,
    SizeTable,
    State,
    TurnInfo,
    TurnSizes,
    WordWeights,
)
from foveate.strategy import Strategy

USUAL_OVERHEADS = Overheads(line=5, tag=16, range=22, cut_note=12)


def table_of(newest: Iterator[TurnSizes], limit: int, by: WordWeights) -> SizeTable:
    """Return the size table of the whole turns among the items, newest first."""
    whole = islice((item for item in newest if not item.step), limit)
    return weigh([WordTable.of(list(whole))], limit, by)


MAX_ROUNDS = 8
SHORT_TOKENS = 12
"""Maximum tokens of a short message in a generated artefact."""


@dataclass(frozen=True, slots=True)
class ListedSnapshot:
    """A snapshot of a list of turns, oldest first. Items are derived from their sizes unless steps or other items are
    set."""

    turns: Sequence[TurnInfo]
    ledger: Ledger = field(default_factory=lambda: Ledger(budget_tokens=16_000))
    """The ledger that `drive` plans with, except for the room of the history."""
    state: State = field(default_factory=dict)
    """The state that `drive` passes on."""
    made: Mapping[str, Artefact] = field(default_factory=dict)
    items: Sequence[TurnSizes] = ()
    """Items, oldest first."""
    fanout: int = 32
    era_tokens: int | None = 120
    """Of each era; None: no era is made yet."""
    overheads: Overheads = USUAL_OVERHEADS
    retrieved: Sequence[int] = ()
    agent: AgentStatus = "none"
    model: str | None = None
    kept: KeptPlan | None = None
    first_read: int = 1
    """The oldest turn that is read; `drive` lowers it when a plan requests older ones."""

    @property
    def last_turn(self) -> int:
        return self.turns[-1].turn if self.turns else 0

    def newest(self) -> Iterator[TurnSizes]:
        return reversed(self.items or [item_of(info) for info in self.turns])

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        return table_of(self.newest(), limit, by)

    def era(self, level: int, index: int) -> Era | None:
        size = self.fanout**level
        last = (index + 1) * size
        if self.era_tokens is None or index < 0 or last > self.last_turn:
            return None
        return Era(level, index, index * size + 1, last, self.era_tokens)

    @property
    def is_open(self) -> bool:
        return bool(self.turns) and self.turns[-1].is_open

    @property
    def settled_turn(self) -> int:
        return self.last_turn - self.is_open

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        if max(1, first) < self.first_read:
            raise NotRead("turns", max(1, first))
        return [info for info in self.turns if first <= info.turn <= last]

    def raw_tokens(self, first: int, last: int) -> int:
        return sum(info.tokens for info in self.turns if first <= info.turn <= last)

    def answered_steps(self, room_tokens: int) -> Sequence[int]:  # noqa: ARG002 - turns in progress are small
        return ()

    def is_signed(self, turn: int) -> bool:  # noqa: ARG002
        return False

    def tokens_after(self, turn: int, step: int) -> int:  # noqa: ARG002
        return sum(info.tokens + self.overheads.tag for info in self.turns if info.turn > turn)

    def until(self, turn: int, step: int) -> ListedSnapshot:
        reach = (turn, step or math.inf)
        turns = [_until_step(info, step) if step and info.turn == turn else info for info in self.turns]
        return replace(
            self,
            turns=[info for info in turns if info.turn <= turn],
            items=[item for item in self.items if (item.turn, item.step) <= reach],
        )


def _until_step(info: TurnInfo, step: int) -> TurnInfo:
    return replace(info, messages=tuple(chain.from_iterable(info.steps[:step])))


def item_of(info: TurnInfo) -> TurnSizes:
    """Return a turn's item, with levels of typical sizes."""
    raw = info.tokens
    return TurnSizes(info.turn, 0, raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40))


def step_items(info: TurnInfo) -> list[TurnSizes]:
    """Return the items of a turn in progress, oldest step first."""
    sizes = [sum(message.tokens for message in step) for step in info.steps]
    return [
        TurnSizes(info.turn, number, raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40), is_kept=number == 1)
        for number, raw in enumerate(sizes, 1)
    ]


def exchange(turn: int, *tokens: int, started_us: int | None = None, is_open: bool = False) -> TurnInfo:
    """Return a turn with a prompt, then answers and tool results in alternation, each of these tokens."""
    messages = [MessageSize(0, "user", "message", tokens[0])]
    for place, size in enumerate(tokens[1:], 1):
        messages.append(
            MessageSize(place, "assistant", "message", size)
            if place % 2
            else MessageSize(place, "tool", "message", size, is_result=True)
        )
    start = turn * 60_000_000 if started_us is None else started_us
    return TurnInfo(turn, tuple(messages), start, start + 1_000_000 * len(messages), is_open)


def pretend(wanted: ArtefactSpec, snapshot: ListedSnapshot) -> Artefact:
    """Return an artefact of the requested size, without content."""
    sizes: dict[int, int] = {}
    if wanted.first == wanted.last:
        (info,) = [info for info in snapshot.turns if info.turn == wanted.first]
        sizes = {message.position: min(message.tokens, SHORT_TOKENS) for message in info.messages}
    return Artefact(
        wanted.name, wanted.kind, wanted.first, wanted.last, wanted.tokens, "made up", sizes, dict(wanted.data)
    )


Maker = Callable[[ArtefactSpec, ListedSnapshot], Artefact]
"""Makes an artefact of a snapshot."""


def drive(
    strategy: Strategy, snapshot: ListedSnapshot, room_tokens: int, make: Maker = pretend
) -> tuple[Plan, ListedSnapshot]:
    """Plan until all artefacts exist, like the driver; return the final plan, and the snapshot with its state."""
    plan, state, snapshot = _read_and_plan(strategy, snapshot, room_tokens)
    for _ in range(MAX_ROUNDS):
        lacking = [wanted for wanted in plan.wants if wanted.name not in snapshot.made]
        if not lacking:
            break
        made = {wanted.name: make(wanted, snapshot) for wanted in lacking}
        snapshot = replace(snapshot, made={**snapshot.made, **made})
        plan, state, snapshot = _read_and_plan(strategy, snapshot, room_tokens)
    return plan, replace(snapshot, state=state)


def _read_and_plan(
    strategy: Strategy, snapshot: ListedSnapshot, room_tokens: int
) -> tuple[Plan, State, ListedSnapshot]:
    """Plan with all the turns it requests; return the plan, its state, and the snapshot with these turns."""
    ledger = replace(snapshot.ledger, history_tokens=room_tokens)
    while True:
        try:
            plan, state = strategy.plan(snapshot, snapshot.state, ledger)
        except NotRead as lacking:
            snapshot = replace(snapshot, first_read=lacking.turn)
        else:
            return plan, state, snapshot
