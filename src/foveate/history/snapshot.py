"""A stored session as strategies see it; data that is not read yet raises `NotRead`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from foveate.context.assemble import BlockText
from foveate.context.signatures import is_signed
from foveate.history.sizes import Infos, split_steps
from foveate.history.texts import RUNNING_SHARE, RawTurn, Survey
from foveate.plan import (
    AgentStatus,
    Artefact,
    Era,
    KeptPlan,
    NotRead,
    Overheads,
    SizeTable,
    TurnInfo,
    TurnSizes,
    WordWeights,
)
from foveate.store.rows import ERA_FANOUT
from foveate.store.snapshot import SessionSnapshot

Reach = tuple[int, int]
"""A turn and one of its steps; 0 for the end of the turn."""


@dataclass(slots=True)
class ReadParts:
    """Data of a session that was read for the plans of one context."""

    infos: Infos | None = None
    surveys: dict[tuple[int, int, int], Survey] = field(default_factory=dict)
    """Sizes by reach (turn and step) and room."""
    appended: dict[tuple[int, int, int, int], list[BlockText]] = field(default_factory=dict)
    """Blocks of the turns between two reaches."""
    raw: dict[int, RawTurn] = field(default_factory=dict)
    tokens: dict[tuple[int, int], int] = field(default_factory=dict)
    """Raw tokens by range of turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedSnapshot:
    """A `foveate.plan.Snapshot`. The driver reads missing data and plans again."""

    stored: SessionSnapshot
    kept: KeptPlan | None
    made: Mapping[str, Artefact]
    retrieved: Sequence[int]
    agent: AgentStatus
    read: ReadParts
    room_tokens: int
    """The room that limits how far back sizes are read."""
    reach: Reach | None = None
    """The last turn and step to include; None for the whole session."""

    @property
    def last_turn(self) -> int:
        return self.reach[0] if self.reach else self.stored.session.last_turn

    @property
    def is_open(self) -> bool:
        return self.stored.session.is_open

    @property
    def model(self) -> str | None:
        return self.stored.session.model

    @property
    def settled_turn(self) -> int:
        return self.stored.settled_turn

    @property
    def fanout(self) -> int:
        return ERA_FANOUT

    @property
    def overheads(self) -> Overheads:
        return self.survey.costs

    @property
    def survey(self) -> Survey:
        """The sizes up to `reach`."""
        turn, step = self.reach or (self.last_turn, 0)
        found = self.read.surveys.get((turn, step, self.room_tokens))
        if found is None:
            raise NotRead("sizes", turn, step)
        return found

    def newest(self) -> Iterator[TurnSizes]:
        return iter(self.survey.sizes.items)

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        return self.survey.sizes.table(limit, by)

    def era(self, level: int, index: int) -> Era | None:
        return self.survey.sizes.era(level, index)

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        infos = self.read.infos
        if infos is None or max(first, 1) < infos.first:
            raise NotRead("turns", max(first, 1))
        if self.reach and self.reach[1]:
            infos = infos.until(self.reach[1])
        return infos.between(first, min(last, self.last_turn))

    def raw_tokens(self, first: int, last: int) -> int:
        if first > last:
            return 0
        found = self.read.tokens.get((first, last))
        if found is None:
            raise NotRead("tokens", first, last)
        return found

    def answered_steps(self, room_tokens: int) -> Sequence[int]:
        raw = self._raw(self.stored.session.last_turn)
        if raw.counted_tokens <= RUNNING_SHARE * room_tokens:
            return ()
        return [step.number for step in split_steps(raw.messages)[:-1] if step.is_answered]

    def is_signed(self, turn: int) -> bool:
        return any(map(is_signed, self._raw(turn).messages))

    def tokens_after(self, turn: int, step: int) -> int:
        return sum(block.framed_tokens for block in self.appended_blocks(turn, step))

    def appended_blocks(self, turn: int, step: int) -> list[BlockText]:
        """Return the blocks of the turns after a turn, and after a step of it."""
        until = self.reach or (self.last_turn, 0)
        blocks = self.read.appended.get((turn, step, *until))
        if blocks is None:
            raise NotRead("appended", turn, step, until=until)
        return blocks

    def until(self, turn: int, step: int) -> SizedSnapshot:
        return replace(self, reach=(turn, step))

    def _raw(self, turn: int) -> RawTurn:
        found = self.read.raw.get(turn)
        if found is None:
            raise NotRead("raw", turn)
        return found
