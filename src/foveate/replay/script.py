"""Prepare a conversation for replay: packed, counted and compressed once, for any number of replays.

script = await prepare(turns)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.formats.sizes import SentSizes
from foveate.settings import Settings, load_settings
from foveate.store import Draft, MessageRow, bodies
from foveate.store.codec import draft_turn
from foveate.store.rows import NewRendition
from foveate.tokens import counter_for
from foveate.turn import Turn
from foveate.worker.pool import Job, Pool
from foveate.worker.renditions import make_local

BATCH_TURNS = 16
"""Turns that are compressed in one batch, in one process."""

Progress = Callable[[int], object]
"""Called with the number of turns that were just finished."""


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    drafts: tuple[Draft, ...]
    rendition: NewRendition


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The other contents of a session: everything except its turns."""

    title: str = ""
    pins: tuple[str, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """Turns that are ready to be replayed."""

    turns: tuple[ScriptTurn, ...]
    model: str | None = None
    around: Surroundings = Surroundings()

    @property
    def calls(self) -> int:
        """The number of calls of a model."""
        return sum(is_call(draft) for turn in self.turns for draft in turn.drafts)

    @property
    def raw_tokens(self) -> int:
        return sum(draft.tokens for turn in self.turns for draft in turn.drafts)


def is_call(draft: Draft) -> bool:
    """Check whether a model was called for it."""
    return draft.role == "assistant" and draft.kind == "message"


async def prepare(
    turns: Sequence[Turn],
    *,
    settings: Settings | None = None,
    model: str | None = None,
    around: Surroundings | None = None,
    progress: Progress | None = None,
) -> Script:
    """Pack, count and compress the turns, as recording them would."""
    settings = settings or load_settings()
    pool = Pool(settings.compress.processes)
    stage = _Stage(pool, SentSizes.of(model, counter_for(model).encoding), settings.store.compression_level, progress)
    try:
        starts = range(0, len(turns), BATCH_TURNS)
        batches = await asyncio.gather(*(stage.take(start + 1, turns[start : start + BATCH_TURNS]) for start in starts))
    finally:
        pool.close()
    return Script(tuple(turn for batch in batches for turn in batch), model, around or Surroundings())


@dataclass(frozen=True, slots=True)
class _Stage:
    """Prepares turns for replay."""

    pool: Pool
    sizes: SentSizes
    compression_level: int
    progress: Progress | None

    async def take(self, first: int, turns: Sequence[Turn]) -> list[ScriptTurn]:
        drafts = [tuple(await draft_turn(turn, None, None, self.sizes, self.compression_level)) for turn in turns]
        jobs: list[Job] = [
            (turn, _rows(turn, own), self.sizes.counter.encoding) for turn, own in enumerate(drafts, first)
        ]
        made = list(map(ScriptTurn, drafts, await self.pool.run(make_local, jobs)))
        if self.progress:
            self.progress(len(made))
        return made


def _rows(turn: int, drafts: Sequence[Draft]) -> list[MessageRow]:
    return [
        MessageRow(
            turn=turn,
            position=position,
            role=draft.role,
            kind=draft.kind,
            tokens=draft.tokens,
            at_us=draft.at_us or 0,
            recorded_us=0,
            body=bodies.unpack(draft.body, draft.digest),
        )
        for position, draft in enumerate(drafts, 1)
    ]
