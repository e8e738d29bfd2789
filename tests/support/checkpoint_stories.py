"""Made-up conversations for the checkpoint strategy, and a driver that has made whatever is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from foveate.strategy.checkpoint import Checkpoint
from foveate.testing.histories import USUAL_OVERHEADS, table_of
from foveate.turn import Json

MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Talk:
    """A turn: what the user said, and what came of it, in tokens."""

    user: int
    rest: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeUpStory:
    """A `foveate.strategy.Story` of turns of these sizes; the newest in steps if it is at work."""

    talks: Sequence[Talk]
    frame: Frame
    state: Mapping[str, Json] = field(default_factory=dict)
    made: Mapping[str, Artefact] = field(default_factory=dict)
    is_running: bool = False
    has_renditions: bool = True
    era_tokens: int | None = 100
    fanout: int = 32
    shown: Mapping[int, ShownLevel] = field(default_factory=dict)
    retrieved: Sequence[int] = ()
    first_read: int = 1

    @property
    def last_turn(self) -> int:
        return len(self.talks)

    def table(self, limit: int, answer_weight: float) -> SizeTable:
        return table_of(self.newest(), limit, answer_weight)

    def newest(self) -> Iterator[TurnSizes]:
        for turn in range(len(self.talks), 0, -1):
            talk = self.talks[turn - 1]
            if self.is_running and turn == len(self.talks):
                for step in range(len(talk.rest), 0, -1):
                    yield self._item(turn, step + 1, talk.rest[step - 1])
                yield replace(self._item(turn, 1, talk.user), is_kept=True)
            else:
                yield self._item(turn, 0, talk.user + sum(talk.rest))

    def _item(self, turn: int, step: int, raw: int) -> TurnSizes:
        if not self.has_renditions:
            return TurnSizes(turn, step, raw, None, None, None)
        return TurnSizes(turn, step, raw, raw * 6 // 10, raw * 35 // 100, min(45, raw * 35 // 100))

    def era(self, level: int, index: int) -> Era | None:
        size = self.fanout**level
        if self.era_tokens is None or index < 0 or (index + 1) * size > self.last_turn:
            return None
        return Era(level, index, index * size + 1, (index + 1) * size, self.era_tokens)

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        return [
            TurnInfo(turn, tuple(_messages(self.talks[turn - 1])), 0, 0, is_open=turn == self.last_turn)
            for turn in range(max(1, first), min(last, self.last_turn) + 1)
        ]


def _messages(talk: Talk) -> Iterator[MessageSize]:
    yield MessageSize(0, "user", "message", talk.user)
    for place, tokens in enumerate(talk.rest, 1):
        is_result = place % 2 == 0
        yield MessageSize(place, "tool" if is_result else "assistant", "message", tokens, is_result=is_result)


def made_full(wanted: ArtefactSpec, *, share: float = 1.0) -> Artefact:
    """Something that takes what it may, its architecture decisions not counted, which there are where it takes more."""
    if wanted.kind == "architecture":
        found = Artefact(wanted.name, wanted.kind, wanted.first, wanted.last)
        return replace(found, tokens=wanted.tokens // 4, text="…") if share > 1 else found
    extra = wanted.data["architecture_tokens"]
    assert isinstance(extra, int)
    return Artefact(
        wanted.name, wanted.kind, wanted.first, wanted.last, tokens=int((wanted.tokens - extra) * share), text="…"
    )


def settled(
    strategy: Checkpoint,
    story: MadeUpStory,
    budget_tokens: int,
    overheads: Overheads = USUAL_OVERHEADS,
    *,
    share: float = 1.0,
) -> tuple[Plan, MadeUpStory]:
    """The plan once everything it wants is made, and the story as it is kept then."""
    for _ in range(MAX_ROUNDS):
        plan = strategy.plan(story, budget_tokens, overheads)
        lacking = [wanted for wanted in plan.wants if wanted.name not in story.made]
        if not lacking:
            return plan, replace(story, state=story.state if plan.state is None else plan.state)
        made = {wanted.name: made_full(wanted, share=share) for wanted in lacking}
        story = replace(story, made={**story.made, **made})
    raise AssertionError(f"after {MAX_ROUNDS} rounds something is still wanted")


def lived_through(
    strategy: Checkpoint,
    talks: Sequence[Talk],
    frame: Frame,
    budget_tokens: int,
    overheads: Overheads = USUAL_OVERHEADS,
) -> list[Plan]:
    """The plan after each turn, as a session has them that asks for a context every time."""
    story = MadeUpStory((), frame)
    plans = []
    for count in range(1, len(talks) + 1):
        story = replace(story, talks=tuple(talks[:count]))
        plan, story = settled(strategy, story, budget_tokens, overheads)
        plans.append(plan)
    return plans
