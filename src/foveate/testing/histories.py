"""Made-up stories, so that a strategy can be tested and measured without a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from foveate.history.worth import WordTable, weigh
from foveate.plan import (
    Artefact,
    ArtefactSpec,
    Era,
    Frame,
    MessageSize,
    Overheads,
    Plan,
    ShownLevel,
    SizeTable,
    TurnInfo,
    TurnSizes,
)
from foveate.strategy import Strategy
from foveate.turn import Json

USUAL_OVERHEADS = Overheads(line=5, tag=16, range=22, cut_note=12)


def table_of(newest: Iterator[TurnSizes], limit: int, answer_weight: float) -> SizeTable:
    """The whole turns among the items, newest first."""
    whole = islice((item for item in newest if not item.step), limit)
    return weigh([WordTable.of(list(whole))], limit, answer_weight)


MAX_ROUNDS = 8
SHORT_TOKENS = 12
"""What a short message takes, at most, in a made-up artefact."""


@dataclass(frozen=True, slots=True)
class ListedStory:
    """A story of the turns given, oldest first. Items are made from their sizes unless steps or others are given."""

    turns: Sequence[TurnInfo]
    frame: Frame = field(default_factory=lambda: Frame(16_000))
    state: Mapping[str, Json] = field(default_factory=dict)
    made: Mapping[str, Artefact] = field(default_factory=dict)
    items: Sequence[TurnSizes] = ()
    """Oldest first."""
    fanout: int = 32
    shown: Mapping[int, ShownLevel] = field(default_factory=dict)
    retrieved: Sequence[int] = ()
    first_read: int = 1
    """The oldest turn that `infos` returns; `drive` lowers it when a plan requests older ones."""

    @property
    def last_turn(self) -> int:
        return self.turns[-1].turn if self.turns else 0

    def newest(self) -> Iterator[TurnSizes]:
        return reversed(self.items or [item_of(info) for info in self.turns])

    def table(self, limit: int, answer_weight: float) -> SizeTable:
        return table_of(self.newest(), limit, answer_weight)

    def era(self, level: int, index: int) -> Era | None:
        size = self.fanout**level
        last = (index + 1) * size
        return Era(level, index, index * size + 1, last, 120) if index >= 0 and last <= self.last_turn else None

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        return [info for info in self.turns if max(first, self.first_read) <= info.turn <= last]


def item_of(info: TurnInfo) -> TurnSizes:
    """A turn as a history has it, with levels of the usual sizes."""
    raw = info.tokens
    return TurnSizes(info.turn, 0, raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40))


def step_items(info: TurnInfo) -> list[TurnSizes]:
    """A turn in progress as a history has it, oldest step first."""
    sizes = [sum(message.tokens for message in step) for step in info.steps]
    return [
        TurnSizes(info.turn, number, raw, raw * 6 // 10, raw * 35 // 100, min(raw, 40), is_kept=number == 1)
        for number, raw in enumerate(sizes, 1)
    ]


def exchange(turn: int, *tokens: int, started_us: int | None = None, is_open: bool = False) -> TurnInfo:
    """A prompt, then answers and tool results in alternation, each of the given tokens."""
    messages = [MessageSize(0, "user", "message", tokens[0])]
    for place, size in enumerate(tokens[1:], 1):
        messages.append(
            MessageSize(place, "assistant", "message", size)
            if place % 2
            else MessageSize(place, "tool", "message", size, is_result=True)
        )
    start = turn * 60_000_000 if started_us is None else started_us
    return TurnInfo(turn, tuple(messages), start, start + 1_000_000 * len(messages), is_open)


def drive(
    strategy: Strategy, story: ListedStory, budget_tokens: int, overheads: Overheads = USUAL_OVERHEADS
) -> tuple[Plan, ListedStory]:
    """The plan that is shown in the end, as the driver would come to it, and the story after it."""
    plan, story = _read_and_plan(strategy, story, budget_tokens, overheads)
    for _ in range(MAX_ROUNDS):
        lacking = [wanted for wanted in plan.wants if wanted.name not in story.made]
        if not lacking:
            break
        story = replace(story, made={**story.made, **{wanted.name: pretend(wanted, story) for wanted in lacking}})
        plan, story = _read_and_plan(strategy, story, budget_tokens, overheads)
    return plan, story if plan.state is None else replace(story, state=plan.state)


def _read_and_plan(
    strategy: Strategy, story: ListedStory, budget_tokens: int, overheads: Overheads
) -> tuple[Plan, ListedStory]:
    """A plan that has all the turns it needs, and the story with these turns."""
    plan = strategy.plan(story, budget_tokens, overheads)
    while (missing := plan.missing_from(story)) is not None:
        story = replace(story, first_read=missing)
        plan = strategy.plan(story, budget_tokens, overheads)
    return plan, story


def pretend(wanted: ArtefactSpec, story: ListedStory) -> Artefact:
    """Something made, of the size that was wanted, without content."""
    sizes: dict[int, int] = {}
    if wanted.first == wanted.last:
        (info,) = [info for info in story.turns if info.turn == wanted.first]
        sizes = {message.position: min(message.tokens, SHORT_TOKENS) for message in info.messages}
    return Artefact(
        wanted.name, wanted.kind, wanted.first, wanted.last, wanted.tokens, "made up", sizes, dict(wanted.data)
    )
