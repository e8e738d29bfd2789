"""Replay a conversation, turn by turn, in a scratch store: what a model would have been shown at a budget.

report = await replay(turns, budget_tokens=32_000)
report.cached_share, report.price

There is one model call before every assistant message, so also between the tool calls of one turn. Each prompt is
compared with the one before it, since provider caches match prefixes.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from foveate.client import Foveate
from foveate.context.context import Context, Segment
from foveate.context.prefix import matching_tokens
from foveate.context.tags import SUMS
from foveate.plan import Cause
from foveate.replay.script import Progress, Script, ScriptTurn, is_call, prepare
from foveate.session import Session
from foveate.settings import Settings, load_settings
from foveate.store import Draft, Store, open_store
from foveate.store.settings import StoreSettings
from foveate.turn import Json, Turn

READ_PRICE = 0.1
"""Price of a cached token, relative to a provider without a cache."""
WRITE_PRICE = 1.25
"""Price of an uncached token that is written to the cache."""
RECOUNT_CALLS = 20
"""Of the prompts without a new plan, one in this many is also counted as one text."""


@dataclass(frozen=True, slots=True)
class CallSample:
    """Selects which calls of a long conversation are made: one in `every`, and all of the newest."""

    every: int = 1
    newest: int = 0

    def makes(self, call: int, calls: int) -> bool:
        """Check whether the call of this number, from 0, is made."""
        return call % self.every == 0 or call >= calls - self.newest


EVERY_CALL = CallSample()


@dataclass(frozen=True, slots=True)
class ReplayCall:
    """One call of a model, and how its prompt relates to the one before it."""

    turn: int
    position: int
    """Number of messages of the turn before the call."""
    tokens: int
    cached_tokens: int
    """Tokens of the prefix shared with the previous prompt."""
    is_next: bool
    """Whether the previous prompt is that of the preceding call, so that a cache would hold `cached_tokens`."""
    rebuilt: Cause | None
    """Why a new plan was made for the call; None if the plan was reused."""
    history_tokens: int
    room_tokens: int
    """Token limit of the history."""
    turns_shown: int
    """Turns that are shown individually, not in an era or a summary."""
    is_overrun: bool
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The results of a replay."""

    turns: int
    raw_tokens: int
    budget_tokens: int
    schedule: str
    order: str
    seconds: float
    calls: tuple[ReplayCall, ...] = field(repr=False)
    last: Context | None = field(default=None, repr=False)
    """The context of the next call, after all turns were replayed."""
    model_tokens: int = 0
    """Tokens that models read and wrote for compression."""

    @property
    def overruns(self) -> int:
        return sum(call.is_overrun for call in self.calls)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(call.tokens for call in self.calls)

    @property
    def cached_share(self) -> float:
        """The share of the prompts' tokens that repeat the previous prompt's prefix, of consecutive calls."""
        calls = [call for call in self.calls if call.is_next]
        return sum(call.cached_tokens for call in calls) / max(1, sum(call.tokens for call in calls))

    @property
    def price(self) -> float:
        """The price of all prompts, relative to a provider without a cache."""
        return READ_PRICE * self.cached_share + WRITE_PRICE * (1 - self.cached_share)

    @property
    def rebuilds(self) -> dict[str, int]:
        """The number of new plans, by cause."""
        return dict(Tally(str(call.rebuilt) for call in self.calls if call.rebuilt))

    @property
    def full_calls(self) -> tuple[ReplayCall, ...]:
        """The calls since the history first filled its allotment."""
        first = next((index for index, call in enumerate(self.calls) if call.rebuilt == "full"), len(self.calls))
        return self.calls[first:]

    @property
    def mean_use(self) -> float | None:
        """The mean share of the budget in use, once the history fills it; None if it never did."""
        calls = self.full_calls
        return sum(call.tokens for call in calls) / len(calls) / self.budget_tokens if calls else None

    @property
    def mean_history_use(self) -> float | None:
        """The mean share of the history's allotment in use: the rest is reserved for the board and for recall."""
        calls = self.full_calls
        return sum(call.history_tokens / max(1, call.room_tokens) for call in calls) / len(calls) if calls else None

    @property
    def fewest_turns_shown(self) -> int | None:
        """The minimum of turns shown individually, once the history filled its allotment."""
        return min((call.turns_shown for call in self.full_calls), default=None)

    @property
    def cpu_ms(self) -> float:
        """The mean CPU time of a call."""
        return 1000 * sum(call.cpu_seconds for call in self.calls) / max(1, len(self.calls))

    def summary(self) -> dict[str, object]:
        """Return the figures, for a table or a file."""
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


async def replay(
    turns: Sequence[Turn] | Script,
    *,
    budget_tokens: int,
    strategy: str | None = None,
    strategy_settings: Mapping[str, Json] | None = None,
    settings: Settings | None = None,
    system: str = "",
    sampling: CallSample = EVERY_CALL,
    retrieve_every_turns: int = 0,
    progress: Progress | None = None,
    observe: Callable[[ReplayCall, Context], object] | None = None,
) -> ReplayReport:
    """Replay the turns at a separate budget, by a strategy with its settings.

    With `retrieve_every_turns` the model reads an old turn at that interval, which is then on the board for some
    turns. `observe` gets each call with its context.
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
            session = await fov.session(
                "replay",
                strategy=strategy,
                strategy_settings=strategy_settings,
                budget_tokens=budget_tokens,
                model=script.model,
                title=script.around.title,
            )
            for text in script.around.pins:
                await session.pin(text)
            for name, text in script.around.documents.items():
                await store.artefacts.keep_document(session.id, name, text)
            player = _Player(fov, store, session, system)
            player.made = partial(sampling.makes, calls=script.calls)
            player.observe = observe
            for number, turn in enumerate(script.turns, 1):
                is_retrieving = retrieve_every_turns > 0 and number % retrieve_every_turns == 0
                await player.play(number, turn, is_retrieving=is_retrieving)
                if progress:
                    progress(1)
            last = await session.context(system=system)
            costs = await fov.costs()
        finally:
            await fov.close()
    return ReplayReport(
        turns=len(script.turns),
        raw_tokens=script.raw_tokens,
        budget_tokens=budget_tokens,
        schedule=settings.gradient.schedule,
        order=settings.context.order,
        seconds=time.perf_counter() - began,
        calls=tuple(player.calls),
        last=last,
        model_tokens=sum(cost.input_tokens + cost.output_tokens for cost in costs),
    )


class _Player:
    """Replays turns into a session, and records each call."""

    def __init__(self, fov: Foveate, store: Store, session: Session, system: str) -> None:
        self.calls: list[ReplayCall] = []
        self.made: Callable[[int], bool] = lambda _: True
        """Whether the call of this number is made."""
        self.observe: Callable[[ReplayCall, Context], object] | None = None
        self._fov = fov
        self._store = store
        self._session = session
        self._system = system
        self._shown: Sequence[Segment] = ()
        self._passed = 0
        """Number of calls, made or not."""
        self._last_made = -1

    async def play(self, number: int, turn: ScriptTurn, *, is_retrieving: bool) -> None:
        waiting: list[Draft] = []
        for position, draft in enumerate(turn.drafts):
            if is_call(draft):
                waiting = await self._record(waiting)
                if is_retrieving and draft is not turn.drafts[0]:
                    # Half way back: not a turn that is shown raw, and not always the same.
                    await self._session.call_tool("get_turn", {"turn_id": f"T-{max(1, number // 2)}"})
                    is_retrieving = False
                if self.made(self._passed):
                    await self._call(number, position)
                self._passed += 1
            waiting.append(draft)
        await self._record(waiting)
        await self._store.derived.add_renditions(self._session.id, [turn.rendition])
        # Eras, and the passages that recall searches: a worker makes them before the next prompt.
        await self._store.passages.want(self._session.id)
        await self._fov.settle(session_id=self._session.id)

    async def _record(self, waiting: list[Draft]) -> list[Draft]:
        if waiting:
            await self._session.engine.append(waiting)
        return []

    async def _call(self, number: int, position: int) -> None:
        began = time.process_time()
        context = await self._session.context(system=self._system)
        cpu_seconds = time.process_time() - began
        segments = [segment for segment in context.segments if segment.text]
        text_tokens = sum(segment.tokens for segment in segments)
        matched = matching_tokens(self._shown, segments, self._session.counter)
        history = [segment for segment in segments if segment.level]
        is_new = context.planned.is_new
        is_counted = is_new or len(self.calls) % RECOUNT_CALLS == 0
        call = ReplayCall(
            turn=number,
            position=position,
            tokens=context.tokens,
            # The framing of messages has no text: it is cached with them.
            cached_tokens=matched * context.tokens // max(1, text_tokens),
            is_next=self._passed == self._last_made + 1,
            rebuilt=context.planned.cause if is_new else None,
            history_tokens=sum(segment.tokens for segment in history),
            room_tokens=context.planned.room_tokens,
            turns_shown=len({turn for part in history if part.level not in SUMS for turn in _turns(part)}),
            is_overrun=context.tokens > context.budget_tokens or (is_counted and self._outgrows(context, text_tokens)),
            cpu_seconds=cpu_seconds,
        )
        self._shown = segments
        self._last_made = self._passed
        self.calls.append(call)
        if self.observe:
            self.observe(call, context)

    def _outgrows(self, context: Context, text_tokens: int) -> bool:
        """Check whether the text, counted as one, exceeds the sum of its parts and the budget."""
        counted = self._session.counter.count(context.text)
        return context.tokens - text_tokens + counted > context.budget_tokens


def _turns(segment: Segment) -> range:
    return range(segment.first or 0, (segment.last or 0) + 1)
