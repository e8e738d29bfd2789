"""A conversation played again, turn by turn, in a scratch store: what a model would have been shown at a budget.

report = await replay(turns, budget_tokens=32_000)
report.cached_share, report.price

There is one model call before every assistant message, so also between the tool calls of one turn. Each prompt is
compared with the one before it, since provider caches match prefixes.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from foveate.api import Foveate
from foveate.background.making import make_local
from foveate.background.pool import Job, Pool
from foveate.context.assembled import Context, Segment
from foveate.context.prefix import matching_tokens
from foveate.drafts import draft_turn
from foveate.session import Session
from foveate.settings import Settings, StoreSettings, load_settings
from foveate.store import Draft, MessageRow, Store, bodies, open_store
from foveate.store.derived import ERA_FANOUT, NewRendition
from foveate.strategy.schedule import Cause
from foveate.tokens import counter_for
from foveate.turn import Turn

READ_PRICE = 0.1
"""What a token that a provider has cached costs, next to one without a cache."""
WRITE_PRICE = 1.25
"""What a token costs that it has to read anew, and caches."""
BATCH_TURNS = 64

Progress = Callable[[int], object]
"""Told how many turns were just finished."""


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    drafts: tuple[Draft, ...]
    rendition: NewRendition


@dataclass(frozen=True, slots=True)
class Script:
    """Turns ready to be played: packed, counted and compressed once, however often they are."""

    turns: tuple[ScriptTurn, ...]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model, and how its prompt relates to the one before it."""

    turn: int
    tokens: int
    cached_tokens: int
    """What the prompt before it began with too."""
    rebuilt: Cause | None
    """Why the plan was made anew for it; None if it stood."""
    history_tokens: int
    room_tokens: int
    """The history's allotment."""
    turns_shown: int
    """Turns that stand there by themselves, not in an era."""
    is_overrun: bool
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay showed."""

    turns: int
    raw_tokens: int
    budget_tokens: int
    schedule: str
    order: str
    seconds: float
    calls: tuple[Call, ...] = field(repr=False)

    @property
    def overruns(self) -> int:
        return sum(call.is_overrun for call in self.calls)

    @property
    def tokens(self) -> int:
        """Of all prompts."""
        return sum(call.tokens for call in self.calls)

    @property
    def cached_share(self) -> float:
        """The share of all prompts' tokens that the prompt before began with."""
        return sum(call.cached_tokens for call in self.calls) / max(1, self.tokens)

    @property
    def price(self) -> float:
        """What all prompts cost, next to a provider without a cache."""
        return READ_PRICE * self.cached_share + WRITE_PRICE * (1 - self.cached_share)

    @property
    def rebuilds(self) -> dict[str, int]:
        """How often the plan was made anew, by cause."""
        return dict(Tally(str(call.rebuilt) for call in self.calls if call.rebuilt))

    @property
    def full_calls(self) -> tuple[Call, ...]:
        """The calls since the history first filled its allotment."""
        first = next((index for index, call in enumerate(self.calls) if call.rebuilt == "full"), len(self.calls))
        return self.calls[first:]

    @property
    def mean_use(self) -> float | None:
        """The share of the budget in use, on average, once the history fills it; None if it never did."""
        calls = self.full_calls
        return sum(call.tokens for call in calls) / len(calls) / self.budget_tokens if calls else None

    @property
    def mean_history_use(self) -> float | None:
        """The same of the history's own allotment: the rest is held for the board and for recall."""
        calls = self.full_calls
        return sum(call.history_tokens / max(1, call.room_tokens) for call in calls) / len(calls) if calls else None

    @property
    def fewest_turns_shown(self) -> int | None:
        """Turns that stood there by themselves at the worst moment, once the history filled its allotment."""
        return min((call.turns_shown for call in self.full_calls), default=None)

    @property
    def cpu_ms(self) -> float:
        """CPU time of a call, on average."""
        return 1000 * sum(call.cpu_seconds for call in self.calls) / max(1, len(self.calls))

    def summary(self) -> dict[str, object]:
        """The figures, for a table or a file."""
        return {
            "turns": self.turns,
            "raw_tokens": self.raw_tokens,
            "budget_tokens": self.budget_tokens,
            "schedule": self.schedule,
            "order": self.order,
            "calls": len(self.calls),
            "overruns": self.overruns,
            "cached_share": round(self.cached_share, 4),
            "price": round(self.price, 4),
            "rebuilds": self.rebuilds,
            "mean_use": self.mean_use,
            "mean_history_use": self.mean_history_use,
            "most_tokens": max((call.tokens for call in self.calls), default=0),
            "fewest_turns_shown": self.fewest_turns_shown,
            "cpu_ms_per_call": round(self.cpu_ms, 2),
            "seconds": round(self.seconds, 2),
        }


async def prepare(
    turns: Sequence[Turn],
    *,
    settings: Settings | None = None,
    model: str | None = None,
    progress: Progress | None = None,
) -> Script:
    """Pack, count and compress the turns, as recording them would."""
    settings = settings or load_settings()
    counter = counter_for(model)
    pool = Pool(settings.compress.processes)
    made: list[ScriptTurn] = []
    try:
        for start in range(0, len(turns), BATCH_TURNS):
            batch = [
                tuple(await draft_turn(turn, None, None, counter, settings.store.compression_level))
                for turn in turns[start : start + BATCH_TURNS]
            ]
            jobs: list[Job] = [
                (number, _rows(number, drafts), counter.encoding) for number, drafts in enumerate(batch, start + 1)
            ]
            made += map(ScriptTurn, batch, await pool.run(make_local, jobs))
            if progress:
                progress(len(batch))
    finally:
        pool.close()
    return Script(tuple(made), model)


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


async def replay(
    turns: Sequence[Turn] | Script,
    *,
    budget_tokens: int,
    settings: Settings | None = None,
    system: str = "",
    retrieve_every_turns: int = 0,
    progress: Progress | None = None,
    observe: Callable[[Call, Context], object] | None = None,
) -> ReplayReport:
    """Play the turns at a budget of the session's own.

    With `retrieve_every_turns` the model reads an old turn every so often, which then stands on the board for some
    turns. `observe` sees each call with its context.
    """
    settings = settings or load_settings()
    script = turns if isinstance(turns, Script) else await prepare(turns, settings=settings)
    scratch = msgspec.structs.replace(
        settings,
        store=StoreSettings(synchronous="normal", compression_level=settings.store.compression_level),
        compress=msgspec.structs.replace(settings.compress, enabled=False),
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="foveate-replay-") as folder:
        store = await open_store(str(Path(folder) / "replay.db"), scratch.store)
        fov = Foveate(store, scratch)
        try:
            session = await fov.session("replay", budget_tokens=budget_tokens, model=script.model)
            player = _Player(fov, store, session, system, observe)
            for number, turn in enumerate(script.turns, 1):
                is_retrieving = retrieve_every_turns > 0 and number % retrieve_every_turns == 0
                await player.play(number, turn, is_retrieving=is_retrieving)
                if progress:
                    progress(1)
        finally:
            await fov.close()
    return ReplayReport(
        turns=len(script.turns),
        raw_tokens=sum(draft.tokens for turn in script.turns for draft in turn.drafts),
        budget_tokens=budget_tokens,
        schedule=settings.gradient.schedule,
        order=settings.context.order,
        seconds=time.perf_counter() - began,
        calls=tuple(player.calls),
    )


class _Player:
    """Plays turns into a session, and notes each call."""

    def __init__(
        self,
        fov: Foveate,
        store: Store,
        session: Session,
        system: str,
        observe: Callable[[Call, Context], object] | None,
    ) -> None:
        self.calls: list[Call] = []
        self._fov = fov
        self._store = store
        self._session = session
        self._system = system
        self._observe = observe
        self._shown: Sequence[Segment] = ()

    async def play(self, number: int, turn: ScriptTurn, *, is_retrieving: bool) -> None:
        waiting: list[Draft] = []
        for draft in turn.drafts:
            if draft.role == "assistant" and draft.kind == "message":
                waiting = await self._record(waiting)
                if is_retrieving and draft is not turn.drafts[0]:
                    # Half way back: neither what stands there raw anyway, nor always the same.
                    await self._session.call_tool("get_turn", {"turn_id": f"T-{max(1, number // 2)}"})
                    is_retrieving = False
                await self._call(number)
            waiting.append(draft)
        await self._record(waiting)
        await self._store.derived.add_renditions(self._session.id, [turn.rendition])
        if number % ERA_FANOUT == 1:
            await self._fov.settle(session_id=self._session.id)

    async def _record(self, waiting: list[Draft]) -> list[Draft]:
        if waiting:
            await self._session.append(waiting)
        return []

    async def _call(self, number: int) -> None:
        began = time.process_time()
        context = await self._session.context(system=self._system)
        cpu_seconds = time.process_time() - began
        segments = [segment for segment in context.segments if segment.text]
        text_tokens = sum(segment.tokens for segment in segments)
        matched = matching_tokens(self._shown, segments, self._session.counter)
        history = [segment for segment in segments if segment.level]
        is_new = context.planned.is_new
        call = Call(
            turn=number,
            tokens=context.tokens,
            # The framing of messages has no text of its own: it is cached as far as they are.
            cached_tokens=matched * context.tokens // max(1, text_tokens),
            rebuilt=context.planned.cause if is_new else None,
            history_tokens=sum(segment.tokens for segment in history),
            room_tokens=context.planned.room_tokens,
            turns_shown=len({turn for part in history if part.level != "E" for turn in _turns(part)}),
            is_overrun=context.tokens > context.budget_tokens or (is_new and self._outgrows(context, text_tokens)),
            cpu_seconds=cpu_seconds,
        )
        self._shown = segments
        self.calls.append(call)
        if self._observe:
            self._observe(call, context)

    def _outgrows(self, context: Context, text_tokens: int) -> bool:
        """Whether the text, counted as one, is larger than its parts say and the budget allows."""
        counted = self._session.counter.count(context.text)
        return context.tokens - text_tokens + counted > context.budget_tokens


def _turns(segment: Segment) -> range:
    return range(segment.first or 0, (segment.last or 0) + 1)
