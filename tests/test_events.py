"""An event is told after its fact is durable, and no subscriber can harm the rest."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foveate import sync
from foveate.errors import InputError
from foveate.events import EVENT_KINDS, Event, EventBus, EventKind, EventSettings, Subscription
from foveate.settings import Settings
from support.patience import PATIENCE_SECONDS

HELLO = {"role": "user", "content": "Hello"}
EXCHANGE = [HELLO, {"role": "assistant", "content": "Good day"}]


@pytest.fixture
def fov(tmp_path: Path) -> Iterator[sync.Foveate]:
    with sync.open(tmp_path / "chat.db", settings=Settings(events=EventSettings(queue_limit=3))) as opened:
        yield opened


class Gate:
    """A subscriber that waits in its first event until it is let go."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        self.entered.set()
        assert self._open.wait(PATIENCE_SECONDS)

    def let_go(self) -> None:
        self._open.set()


def event(number: int, kind: EventKind = "turn-recorded") -> Event:
    return Event(kind, "s", datetime(2026, 11, 15, tzinfo=UTC), f"T-{number}")


@contextmanager
def watching(callback: Callable[[Event], object], *, limit: int = 100) -> Iterator[tuple[EventBus, Subscription]]:
    bus = EventBus(limit)
    with bus.subscribe(callback) as subscription:
        yield bus, subscription


def test_a_recorded_turn_is_told_message_by_message_and_then_as_a_turn(fov: sync.Foveate) -> None:
    seen: list[Event] = []
    subscription = fov.subscribe(seen.append)
    turn = fov.session("s").record(EXCHANGE)
    assert subscription.drain()
    assert [told.kind for told in seen] == ["message-added", "message-added", "turn-recorded"]
    assert {(told.session_id, told.turn_id) for told in seen} == {("s", turn.id)}
    assert [told.data.get("role") for told in seen[:2]] == ["user", "assistant"]
    assert seen[-1].data == {"messages": 2}


def test_what_an_event_tells_can_be_read_through_another_handle(fov: sync.Foveate) -> None:
    read: list[str] = []

    def look(told: Event) -> None:
        assert told.turn_id
        with sync.open(fov.location) as other:
            read.append(other.open_session(told.session_id).get_turn(told.turn_id, format="plain").content)

    subscription = fov.subscribe(look, ["turn-recorded"])
    session = fov.session("s")
    for number in range(3):
        session.record({"role": "user", "content": f"Hello {number}"})
        assert subscription.drain(PATIENCE_SECONDS)
    assert read == [f"[user] Hello {number}\n" for number in range(3)]
    assert subscription.failed == 0


def test_nothing_is_told_of_what_was_refused(fov: sync.Foveate) -> None:
    seen: list[Event] = []
    subscription = fov.subscribe(seen.append)
    with pytest.raises(InputError):
        fov.session("s").record([HELLO, {"role": "nobody"}])
    assert subscription.drain()
    assert seen == []


def test_a_message_that_was_there_already_is_no_news(fov: sync.Foveate) -> None:
    session = fov.session("s")
    session.record(EXCHANGE, key="once")
    seen: list[Event] = []
    subscription = fov.subscribe(seen.append)
    session.record(EXCHANGE, key="once")
    assert subscription.drain()
    assert seen == []
    session.record([*EXCHANGE, {"role": "assistant", "content": "More"}], key="once")
    assert subscription.drain()
    assert [(told.kind, told.data.get("position")) for told in seen] == [("message-added", 3), ("turn-recorded", None)]


def test_recording_does_not_wait_for_a_slow_subscriber(fov: sync.Foveate) -> None:
    gate = Gate()
    subscription = fov.subscribe(gate)
    session = fov.session("s")
    for _ in range(10):
        session.record(HELLO)  # would never return if it waited: nobody has opened the gate
    assert gate.entered.wait(PATIENCE_SECONDS)
    assert len(gate.seen) == 1
    gate.let_go()
    assert subscription.drain(PATIENCE_SECONDS)


def test_a_slow_subscriber_keeps_no_other_waiting(fov: sync.Foveate) -> None:
    gate = Gate()
    seen: list[Event] = []
    slow, quick = fov.subscribe(gate), fov.subscribe(seen.append)
    fov.session("s").record(HELLO)
    assert quick.drain(PATIENCE_SECONDS)
    assert len(seen) == 2
    assert not slow.drain(timeout_seconds=0.01)
    gate.let_go()


def test_a_failing_subscriber_is_counted_and_harms_nobody(fov: sync.Foveate, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Event) -> None:
        raise ValueError("mine")

    seen: list[Event] = []
    failing, other = fov.subscribe(fail), fov.subscribe(seen.append)
    with caplog.at_level(logging.WARNING, logger="foveate.events"):
        turn = fov.session("s").record(HELLO)
        assert failing.drain(PATIENCE_SECONDS)
        assert other.drain(PATIENCE_SECONDS)
    assert (failing.failed, other.failed) == (2, 0)
    assert len(seen) == 2
    assert fov.open_session("s").get_turn(turn.id).content
    assert "a subscriber failed on turn-recorded" in caplog.text
    assert "ValueError: mine" in caplog.text


def test_a_full_queue_loses_the_oldest_events_and_counts_them() -> None:
    gate = Gate()
    with watching(gate, limit=3) as (bus, subscription):
        bus.publish(event(0))
        assert gate.entered.wait(PATIENCE_SECONDS)
        for number in range(1, 11):
            bus.publish(event(number))
        gate.let_go()
        assert subscription.drain(PATIENCE_SECONDS)
    assert [told.turn_id for told in gate.seen] == ["T-0", "T-8", "T-9", "T-10"]
    assert subscription.dropped == 7


def test_the_queue_is_as_long_as_the_settings_say(fov: sync.Foveate) -> None:
    gate = Gate()
    subscription = fov.subscribe(gate, ["turn-recorded"])
    session = fov.session("s")
    session.record(HELLO)
    assert gate.entered.wait(PATIENCE_SECONDS)
    for _ in range(5):
        session.record(HELLO)
    gate.let_go()
    assert subscription.drain(PATIENCE_SECONDS)
    assert (len(gate.seen), subscription.dropped) == (1 + 3, 2)


@pytest.mark.parametrize(
    "kinds", [["turn-recorded"], {"turn-recorded"}, ("turn-recorded", "compressed"), "turn-recorded"]
)
def test_only_the_kinds_that_were_named_are_told(kinds: Any, fov: sync.Foveate) -> None:
    seen: list[Event] = []
    subscription = fov.subscribe(seen.append, kinds)
    fov.session("s").record(EXCHANGE)
    assert subscription.drain()
    assert [told.kind for told in seen] == ["turn-recorded"]


@pytest.mark.parametrize("kinds", [["turn-recorded", "turn-eaten"], "turn-eaten"])
def test_an_unknown_kind_is_refused_with_those_there_are(kinds: Any, fov: sync.Foveate) -> None:
    with pytest.raises(InputError, match=r"no event turn-eaten; available: turn-recorded, ") as caught:
        fov.subscribe(print, kinds)
    assert all(kind in str(caught.value) for kind in EVENT_KINDS)


def test_a_closed_subscription_still_delivers_what_was_queued_and_nothing_later() -> None:
    gate = Gate()
    with watching(gate) as (bus, subscription):
        bus.publish(event(0))
        bus.publish(event(1))
        assert gate.entered.wait(PATIENCE_SECONDS)
        subscription.close()
        bus.publish(event(2))
        subscription.offer(event(3))
        gate.let_go()
        assert subscription.drain(PATIENCE_SECONDS)
    assert [told.turn_id for told in gate.seen] == ["T-0", "T-1"]
    assert not bus.is_watched


def test_closing_the_store_ends_its_subscribers_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with sync.open(tmp_path / "chat.db") as fov:
        fov.subscribe(print)
        fov.subscribe(print)
        started = [thread for thread in threading.enumerate() if thread not in before and "events" in thread.name]
        assert len(started) == 2
    for thread in started:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_a_subscriber_may_close_itself_and_others_while_it_is_told() -> None:
    bus = EventBus(10)
    seen: list[str | None] = []

    def once(told: Event) -> None:
        seen.append(told.turn_id)
        subscription.close()

    subscription = bus.subscribe(once)
    bus.publish(event(1))
    assert subscription.drain(PATIENCE_SECONDS)
    bus.publish(event(2))
    assert subscription.drain(PATIENCE_SECONDS)
    assert seen == ["T-1"]


def test_events_of_one_session_come_in_the_order_of_its_turns(tmp_path: Path) -> None:
    import foveate

    seen: list[Event] = []

    async def record_many() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            subscription = fov.subscribe(seen.append, ["turn-recorded"])
            session = await fov.session("s")
            await asyncio.gather(*(session.record(HELLO) for _ in range(40)))
            assert await asyncio.to_thread(subscription.drain, PATIENCE_SECONDS)

    asyncio.run(record_many())
    assert [told.turn_id for told in seen] == [f"T-{number}" for number in range(1, 41)]
