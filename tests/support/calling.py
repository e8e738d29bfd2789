"""A caller of scripted models on a real store, with a clock that tests set."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from foveate.errors import ModelError, ModelUnavailable
from foveate.events import Event, EventBus, Subscription
from foveate.models import Ask, Model, Purpose
from foveate.models.caller import Caller
from foveate.models.limits import Clock
from foveate.models.settings import ModelsSettings
from foveate.store import Store, open_store
from foveate.store.rows import NANO, CallRow
from foveate.store.settings import StoreSettings
from foveate.testing.scripted import Script, ScriptedModel
from foveate.tokens import O200K
from foveate.turn import Message, Text

MORNING = 1_790_000_000.0 - 1_790_000_000.0 % 86_400 + 8 * 3600
"""Eight o'clock, in UTC."""
QUICK_SECONDS = 0.02
"""The time-outs of models that never answer at all, so that only the length of the test depends on it."""


@dataclass
class FakeClock:
    """Time passes only by sleeping or by being told to."""

    at: float = MORNING
    slept: list[float] = field(default_factory=list)
    luck: float = 1.0

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.at, monotonic=lambda: self.at, sleep=self.sleep, chance=lambda: self.luck)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        await asyncio.sleep(0)


def ask(text: str = "What is it?", *, purpose: Purpose = "roll-up", max_output_tokens: int = 100) -> Ask:
    messages = (Message("system", (Text("Be brief."),)), Message("user", (Text(text),)))
    tokens = sum(O200K.base(f"{message.role}: {message.text}\n") for message in messages)
    return Ask(purpose=purpose, messages=messages, max_output_tokens=max_output_tokens, input_tokens=tokens)


@dataclass
class Stage:
    """Everything a test of the caller looks at."""

    store: Store
    caller: Caller
    time: FakeClock
    bus: EventBus
    heard: list[Event]
    subscription: Subscription
    models: dict[str, Model]

    @property
    def rows(self) -> list[CallRow]:
        return read_calls(self.store.location)

    @property
    def outcomes(self) -> list[str]:
        return [row.outcome for row in self.rows]

    @property
    def events(self) -> list[Event]:
        self.subscription.drain()
        return self.heard

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def scripted(self, name: str = "a") -> ScriptedModel:
        model = self.models[name]
        assert isinstance(model, ScriptedModel)
        return model

    async def error(
        self, asked: Ask | None = None, models: Sequence[str] = ("a",), *, max_calls: int | None = None
    ) -> ModelError:
        """What asking fails with."""
        with pytest.raises(ModelError) as caught:
            await self.caller.ask(asked or ask(), models, max_calls=max_calls)
        return caught.value


def read_calls(path: str) -> list[CallRow]:
    """The accounts as they stand in the file, oldest first; without their sessions."""
    names = [name for name in CallRow.__dataclass_fields__ if name != "session_id"]
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(f"SELECT {', '.join(names)} FROM calls ORDER BY id").fetchall()
    return [CallRow(session_id=None, **dict(zip(names, row, strict=True))) for row in found]


@asynccontextmanager
async def stage(
    folder: Path, *scripts: Script | Model, settings: ModelsSettings | None = None, time: FakeClock | None = None
) -> AsyncIterator[Stage]:
    """A caller of models named `a`, `b` and so on; a bare script makes a free model of a provider of its own."""
    letters = "abcdefgh"
    models: dict[str, Model] = {
        name: script if isinstance(script, ScriptedModel) else ScriptedModel(script, name=name, provider=f"of {name}")  # type: ignore[arg-type]
        for name, script in zip(letters, scripts, strict=False)
    }

    def load(name: str, _: ModelsSettings) -> Model:
        if name not in models:
            raise ModelUnavailable(name, "there is none", reason="name")
        return models[name]

    time = time or FakeClock()
    store = await open_store(str(folder / "chat.db"), StoreSettings())
    bus, heard = EventBus(1_000), list[Event]()
    subscription = bus.subscribe(heard.append)
    settings = settings or ModelsSettings(timeout_seconds=QUICK_SECONDS, stall_seconds=QUICK_SECONDS)
    caller = Caller(settings, store.calls, bus, load=load, clock=time.clock)
    try:
        yield Stage(store, caller, time, bus, heard, subscription, models)
    finally:
        await caller.close()
        bus.close()
        await store.close()


async def spent_today_usd(caller: Caller) -> float:
    """By all processes on the caller's store, with what running calls may still cost."""
    return await caller._accounts.spent_today() / NANO
